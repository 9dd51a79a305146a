/* The meta device: every operator's samples there, forward and backward, against the CPU: what a call gives has the
 * CPU's shapes, dtypes and strides, or the call says that values decide about them. And what is there without values:
 * memory, copies, printing, random numbers, large tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "samples.h"
#include "tensor/tensor.h"

static const tp_device meta = {TP_META, 0};

/* ---- Samples ---- */

/* Without values they have nothing to say: shapes depend on them, or they give a plain number. */
static bool needs_values(const char *op) {
    static const char *const names[] = {"nonzero",
                                        "nonzero_numpy",
                                        "argwhere",
                                        "where.condition",
                                        "masked_select",
                                        "unique",
                                        "unique_dim",
                                        "unique_consecutive",
                                        "bincount",
                                        "equal",
                                        "allclose",
                                        "repeat_interleave.Tensor",
                                        "repeat_interleave.self_Tensor",
                                        "tensor_split.tensor_indices_or_sections",
                                        "narrow.Tensor",
                                        "unravel_index",
                                        "ctc_loss",
                                        "lstm.data",
                                        "gru.data",
                                        "rnn_tanh.data",
                                        "rnn_relu.data",
                                        "one_hot",
                                        "index",
                                        "to.device",
                                        NULL};
    const tp_operator *known = tp_find_operator(op);
    for (int i = 0; names[i]; i++)
        if (!strcmp(op, names[i])) return true;
    return known && known->dynamic_shape;
}

/* A result with gaps comes back from the host without them; two kernels give their result in another order than the CPU
 * where their argument is transposed. */
static bool lies_otherwise(const char *op) {
    return !strcmp(op, "linalg_lstsq") || !strcmp(op, "poisson") || !strcmp(op, "rrelu_noise");
}
static bool goes_elsewhere(const char *op) { return !strcmp(op, "to.device") || !strcmp(op, "base_grid"); }

static bool on_meta(const tp_tensor *t) { return tp_device_of(t).type == TP_META; }

static void same_form(const char *op, const char *what, int i, const tp_tensor *got, const tp_tensor *want) {
    if (!got != !want) return report("%s %d is %s", what, i, got ? "there, but not on the CPU" : "missing");
    if (!got) return;
    if (!on_meta(got) && !goes_elsewhere(op)) report("%s %d is on another device", what, i);
    if (!same_kind(got, want)) return report("%s %d: %s", what, i, difference());
    for (int d = 0; d < got->ndim && !lies_otherwise(op); d++)
        if (got->shape[d] > 1 && got->numel && got->strides[d] != want->strides[d])
            return report("%s %d: strides %s, expected %s, of shape %s", what, i, tpi_shape_text(tpi_strides(got)),
                          tpi_shape_text(tpi_strides(want)), tpi_shape_text(tpi_shape(got)));
}

static bool says_why(void) {
    return tp_error_code() == TP_ERR_MISSING || strstr(tp_error(), "cannot be called on meta tensors");
}

static void check_forward(const operator_sample *sample, const tp_operator *op, tp_dtype dtype, variant how) {
    arguments here, there;
    results want, got;
    at(sample, dtype, variant_names[how]);
    if (!make_arguments(sample, dtype, how, NULL, &here)) return;
    if (how != PLAIN && (!here.varied || depends_on_strides(op->name))) return drop_arguments(&here);
    if (!move_arguments(&here, meta, &there)) {
        report_error("placing the arguments");
        return drop_arguments(&here);
    }
    bool ok = call(&here, &want);
    if (!ok) tp_error_clear();
    if (!call(&there, &got)) {
        if (ok && !(needs_values(op->name) && says_why())) report_error("failed");
        tp_error_clear();
    } else {
        if (ok && got.n != want.n) report("%d results, %d on the CPU", got.n, want.n);
        for (int i = 0; ok && i < got.n && i < want.n; i++)
            same_form(op->name, "result", i, got.tensors[i], want.tensors[i]);
        drop_results(&got);
    }
    if (ok) drop_results(&want);
    drop_arguments(&there);
    drop_arguments(&here);
}

static bool evaluate(evaluation *e) { return call(&e->args, &e->results) && differentiate(e, false, WEIGHTS_ALL); }

static void check_backward(const operator_sample *sample, const tp_operator *op, tp_dtype dtype) {
    if (sample->nograd || !op->differentiable || needs_values(op->name)) return;
    evaluation here, there = {0};
    at(sample, dtype, "backward");
    if (!prepare(sample, dtype, PLAIN, &here)) return;
    if (!move_arguments(&here.args, meta, &there.args)) report_error("placing the arguments");
    there.n = want_gradients(sample, &there.args, there.which);
    if (evaluate(&here)) {
        if (!evaluate(&there))
            report_error("failed");
        else
            for (int i = 0; i < here.n; i++) same_form(op->name, "gradient", i, there.grads[i], here.grads[i]);
    }
    tp_error_clear();
    drop_evaluation(&there);
    drop_evaluation(&here);
}

static void check_sample(const operator_sample *sample, const tp_operator *op) {
    static const tp_dtype dtypes[] = {TP_FLOAT32, TP_INT64, TP_BOOL, TP_BFLOAT16, TP_FLOAT64, TP_COMPLEX64};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (sample_allows(sample, dtypes[i])) check_forward(sample, op, dtypes[i], PLAIN);
    tp_dtype first = first_dtype(sample);
    check_forward(sample, op, first, TRANSPOSED);
    check_forward(sample, op, first, STEPPED);
    check_forward(sample, op, first, EXPANDED);
    if (sample_allows(sample, TP_FLOAT32)) check_backward(sample, op, TP_FLOAT32);
}

static void test_samples(void **state) {
    (void)state;
    for_each_sample(false, check_sample);
    fail_if_reported();
}

/* ---- Without elements ---- */
static int64_t allocated(void) {
    tp_memory_stats stats = {.size = sizeof stats};
    return tp_memory_query(&stats) ? stats.allocated : -1;
}

static void assert_error(tp_code code, const char *text) {
    assert_int_equal(tp_error_code(), code);
    assert_string_equal(tp_error(), text);
    tp_error_clear();
}

static void assert_text(const tp_tensor *t, const char *text) {
    char got[128];
    assert_true(tp_format(t, got, sizeof got) < (int64_t)sizeof got);
    assert_string_equal(got, text);
}

static void test_no_data(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = tp_empty(TP_INTS(3, 4), .device = meta), *one = tp_select(tp_select(x, 0, 1), 0, 2),
                  *here = tp_ones(TP_INTS(3, 4));
        assert_int_equal(tp_storage_bytes(x), 48);
        assert_null(tp_data(x));
        assert_int_equal(tp_storage_offset(one), 6);
        assert_text(x, "tensor(..., device='meta', size=(3, 4))");
        assert_text(tp_zeros(TP_INTS(2), .dtype = TP_INT64, .device = meta),
                    "tensor(..., device='meta', size=(2,), dtype=torch.int64)");
        assert_true(tp_copy_(x, here));
        assert_true(tp_add_(x, 1));
        assert_true(tp_fill_(one, tp_int(3)));
        assert_true(tp_item(one) != tp_item(one));
        assert_error(TP_ERR_RUNTIME, "tp_item: Tensor.item() cannot be called on meta tensors");
        assert_null(tp_to(x, .device = {TP_CPU, 0}));
        assert_error(TP_ERR_MISSING, "Cannot copy out of meta tensor; no data!");
        assert_null(tp_copy_(here, x));
        assert_error(TP_ERR_MISSING, "Cannot copy out of meta tensor; no data!");
        assert_null(tp_add(x, here));
        assert_non_null(strstr(tp_error(), "Tensor on device cpu is not on the expected device meta!"));
        tp_error_clear();
        assert_non_null(tp_mul(x, tp_full(TP_INTS(), tp_float(2)))); /* a number on the CPU may come along */
        assert_null(tp_index(x, tp_list(1, (tp_tensor *[]){tp_gt(x, 0)})));
        assert_int_equal(tp_error_code(), TP_ERR_MISSING);
        tp_error_clear();
        assert_non_null(
            tp_index_put_(x, tp_list(1, (tp_tensor *[]){tp_gt(x, 0)}), tp_zeros(TP_INTS(), .device = meta)));
    }
}

static void test_no_numbers_are_drawn(void **state) {
    (void)state;
    tp_manual_seed(7);
    TP_SCOPE {
        tp_tensor *x = tp_randn(TP_INTS(100), .device = meta);
        tp_uniform_(x);
        tp_normal_(x);
        tp_bernoulli(x);
        tp_randperm(50, .device = meta);
        tp_dropout(x, .p = 0.5, .training = true);
        assert_true(tp_ok());
        double got = tp_item(tp_rand(TP_INTS(1)));
        tp_manual_seed(7);
        assert_true(got == tp_item(tp_rand(TP_INTS(1))));
    }
}

/* A layer of a model that no machine holds: a training step of it takes no memory to speak of. */
static void test_large(void **state) {
    (void)state;
    int64_t before = allocated();
    TP_SCOPE {
        const int64_t width = 1 << 17, length = 1 << 14;
        tp_set_default_device(meta);
        tp_module *layer =
            tp_nn_transformer_encoder_layer(width, 128, .batch_first = true, .dim_feedforward = 4 * width);
        assert_non_null(layer);
        tp_tensor *x = tp_empty(TP_INTS(64, length, width)), *y = tp_forward(layer, x);
        assert_non_null(y);
        assert_true(tpi_same_shape(x, y));
        tp_state all = tp_module_parameters(layer);
        tp_optimiser *optimiser = tp_adamw(tp_list(all.n, all.tensors), .lr = 1e-3);
        assert_true(tp_backward(tp_mean(y)));
        assert_true(tp_step(optimiser));
        for (int64_t i = 0; i < all.n; i++)
            assert_true(tp_grad(all.tensors[i]) && tpi_same_shape(tp_grad(all.tensors[i]), all.tensors[i]));
        tp_optimiser_free(optimiser);
        tp_state_free(all);
        tp_module_release(layer);
        tp_tensor *images = tp_empty(TP_INTS(1 << 20, 3, 224, 224)), *weight = tp_empty(TP_INTS(64, 3, 7, 7));
        tp_tensor *maps = tp_conv2d(images, weight, .stride = TP_INTS(2), .padding = TP_INTS(3));
        assert_non_null(maps);
        assert_int_equal(maps->shape[3], 112);
        tp_set_default_device((tp_device){0, 0});
    }
    assert_true(allocated() - before < 1 << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples), cmocka_unit_test(test_no_data),
                                       cmocka_unit_test(test_no_numbers_are_drawn), cmocka_unit_test(test_large)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
