/* Modules in C: networks of layers train, one's own modules hold parameters and children, state moves by name with
 * errors that say everything, texts are PyTorch's, mistakes are refused with the layer's name, and no allocation that
 * fails leaks. */
#include "tape_fixture.h"
#include <stdio.h>

static void assert_text(tp_module *m, const char *want) {
    char text[2048];
    assert_true(tp_module_format(m, text, sizeof text) > 0);
    assert_string_equal(text, want);
    tp_module_release(m);
}

/* ---- training ---- */
static double train(tp_module *net, tp_tensor *x, tp_tensor *labels, int steps, double lr, double *first) {
    tp_state parameters = tp_module_parameters(net);
    double loss = 0;
    for (int step = 0; step < steps; step++)
        TP_SCOPE {
            tp_module_zero_grad(net);
            tp_tensor *error = tp_cross_entropy(tp_forward(net, x), labels);
            tp_backward(error);
            TP_NO_GRAD
                for (int64_t i = 0; i < parameters.n; i++)
                    tp_add_(parameters.tensors[i], tp_grad(parameters.tensors[i]), .alpha = tp_float(-lr));
            loss = error ? tp_item(error) : 0;
            if (!step) *first = loss;
        }
    if (!tp_ok()) fail_msg("%s", tp_error());
    tp_state_free(parameters);
    return loss;
}

static void test_mlp_trains(void **state) {
    (void)state;
    tp_manual_seed(0);
    tp_module *net = tp_nn_sequential(tp_nn_linear(2, 16), tp_nn_tanh(), tp_nn_linear(16, 2));
    TP_SCOPE {
        tp_tensor *x = tp_randn(TP_INTS(64, 2)),
                  *labels = tp_to(tp_lt(tp_prod_dim(x, 1), 0), .dtype = TP_INT64); /* exclusive or of the signs */
        double first = 0, last = train(net, x, labels, 400, 1.0, &first);
        assert_true(first > 0.5);
        assert_true(last < 0.2);
    }
    tp_module_release(net);
}

/* A Sequential gives the bits of its layers' operators one by one: values, gradients, and gradients of those. */
static tp_tensor *layers_by_hand(tp_state all, tp_tensor *x, int64_t layers, bool head, bool bias) {
    const int64_t each = bias ? 2 : 1; /* tensors of a layer */
    for (int64_t l = 0; l < layers; l++) {
        tp_tensor *w = all.tensors[each * l], *b = bias ? all.tensors[each * l + 1] : NULL;
        x = tp_linear(x, w, .bias = b);
        if (l + 1 < layers || !head) x = tp_relu(x);
    }
    return x;
}

static void assert_same_bits(tp_tensor *a, tp_tensor *b) {
    assert_int_equal(tp_numel(a), tp_numel(b));
    assert_memory_equal(tp_data(a), tp_data(b), (size_t)tp_numel(a) * sizeof(float));
}

static void check_layers(const int64_t *widths, int64_t layers, bool head, bool bias, bool frozen) {
    tp_module *parts[8];
    int64_t n = 0;
    for (int64_t l = 0; l < layers; l++) {
        parts[n++] = tp_nn_linear(widths[l], widths[l + 1], .bias = bias);
        if (l + 1 < layers || !head) parts[n++] = tp_nn_relu();
    }
    tp_module *net = tp_nn_sequential_of(n, parts);
    tp_state all = tp_module_parameters(net);
    const int64_t first = frozen ? 1 : 0, wanted = all.n + 1 - first; /* of the input and the parameters */
    TP_SCOPE {
        tp_tensor *x = tp_set_requires_grad(tp_randn(TP_INTS(32, widths[0])), true);
        tp_tensor *up = tp_set_requires_grad(tp_randn(TP_INTS(32, widths[layers])), true);
        if (frozen) tp_set_requires_grad(all.tensors[0], false);
        tp_tensor *y[2] = {tp_forward(net, x), layers_by_hand(all, x, layers, head, bias)};
        tp_tensor *of[8] = {x}, *got[2][8] = {{NULL}}, *second[2] = {NULL};
        for (int64_t i = first; i < all.n; i++) of[i + 1 - first] = all.tensors[i];
        assert_same_bits(y[0], y[1]);
        const tp_grad_options again = {.size = sizeof again, .create_graph = true};
        for (int i = 0; i < 2; i++) {
            assert_true(tp_gradients((tp_tensors){&y[i], 1}, (tp_tensors){of, wanted}, &up, got[i], &again));
            for (int64_t k = 0; k < wanted; k++) assert_same_bits(got[i][k], got[0][k]);
            tp_tensor *sum = tp_sum(tp_square(got[i][0]));
            assert_true(tp_gradients((tp_tensors){&sum, 1}, (tp_tensors){&up, 1}, NULL, &second[i], NULL));
            assert_same_bits(second[i], second[0]);
        }
    }
    if (!tp_ok()) fail_msg("%s", tp_error());
    tp_state_free(all);
    tp_module_release(net);
}

static void test_sequential_is_its_layers(void **state) {
    (void)state;
    tp_manual_seed(0);
    for (int how = 0; how < 4; how++) {
        const bool bias = how & 1, frozen = how & 2;
        check_layers((int64_t[]){128, 64}, 1, false, bias, frozen);
        check_layers((int64_t[]){64, 128, 128, 10}, 3, true, bias, frozen);
        check_layers((int64_t[]){64, 100, 72}, 2, false, bias, frozen);
        check_layers((int64_t[]){100, 70, 1}, 2, true, bias, frozen);
        check_layers((int64_t[]){4, 4096}, 1, false, bias, frozen);
    }
}

/* Hooks for saved tensors see what layers save by themselves. */
static void *keep_turned(tp_tensor *t, void *context) {
    (void)context;
    return tp_own(tp_ndim(t) == 2 ? tp_contiguous(tp_t(tp_detach(t))) : tp_detach(t));
}
static tp_tensor *turn_back(void *packed, void *context) {
    (void)context;
    tp_tensor *t = packed;
    return tp_ndim(t) == 2 ? tp_t(t) : tp_retain(t);
}
static void drop_turned(void *packed, void *context) {
    (void)context;
    tp_release(packed);
}

static void gradients_of(tp_module *net, tp_state all, tp_tensor *x, tp_tensor **grads) {
    tp_tensor *y = tp_sum(tp_square(tp_forward(net, x)));
    assert_true(tp_gradients((tp_tensors){&y, 1}, (tp_tensors){all.tensors, all.n}, NULL, grads, NULL));
}

static void test_layers_and_saved_hooks(void **state) {
    (void)state;
    tp_module *net = tp_nn_sequential(tp_nn_linear(64, 128), tp_nn_relu(), tp_nn_linear(128, 128), tp_nn_relu(),
                                      tp_nn_linear(128, 10));
    tp_state all = tp_module_parameters(net);
    TP_SCOPE {
        tp_tensor *x = tp_randn(TP_INTS(32, 64)), *plain[6], *hooked[6];
        gradients_of(net, all, x, plain);
        assert_true(tp_push_saved_hooks(
            &(tp_saved_hooks){sizeof(tp_saved_hooks), keep_turned, turn_back, drop_turned, NULL, NULL}));
        tp_tensor *y = tp_sum(tp_square(tp_forward(net, x)));
        assert_true(tp_pop_saved_hooks());
        assert_true(tp_gradients((tp_tensors){&y, 1}, (tp_tensors){all.tensors, 6}, NULL, hooked, NULL));
        for (int i = 0; i < 6; i++) assert_true(tp_allclose(plain[i], hooked[i], .atol = 1e-3));
    }
    if (!tp_ok()) fail_msg("%s", tp_error());
    tp_state_free(all);
    tp_module_release(net);
}

/* A small network's training on some threads. */
static void train_shared(int threads, float *weights) {
    tp_set_num_threads(threads);
    tp_manual_seed(0);
    tp_module *net = tp_nn_sequential(tp_nn_linear(64, 128), tp_nn_relu(), tp_nn_linear(128, 100), tp_nn_relu(),
                                      tp_nn_linear(100, 10));
    tp_state parameters = tp_module_parameters(net);
    tp_optimiser *adam = tp_adam(tp_list(parameters.n, parameters.tensors), .lr = 1e-2);
    TP_SCOPE {
        tp_tensor *x = tp_randn(TP_INTS(32, 64)), *y = tp_randint(10, TP_INTS(32));
        for (int step = 0; step < 20; step++)
            TP_SCOPE {
                tp_optimiser_zero_grad(adam);
                assert_true(tp_backward(tp_cross_entropy(tp_forward(net, x), y)));
                assert_true(tp_step(adam));
            }
    }
    assert_true(tp_copy_out(tp_module_tensor(net, "0.weight"), weights, 64 * 128 * sizeof(float)));
    tp_optimiser_free(adam);
    tp_state_free(parameters);
    tp_module_release(net);
    tp_set_num_threads(0);
}

/* Gradients again and again, alone and by two threads, whatever the layers' widths. */
static void check_bits_of_repeats(int64_t rows, tp_module *net, int64_t in) {
    tp_state all = tp_module_parameters(net);
    assert_true(all.n <= 12);
    TP_SCOPE {
        tp_tensor *x = tp_randn(TP_INTS(rows, in)), *alone[12], *together[12];
        tp_set_num_threads(1);
        gradients_of(net, all, x, alone);
        tp_set_num_threads(2);
        for (int repeat = 0; repeat < 300; repeat++)
            TP_SCOPE {
                gradients_of(net, all, x, together);
                for (int64_t i = 0; i < all.n; i++)
                    assert_memory_equal(tp_data(alone[i]), tp_data(together[i]),
                                        (size_t)tp_numel(alone[i]) * sizeof(float));
            }
    }
    tp_set_num_threads(0);
    if (!tp_ok()) fail_msg("%s", tp_error());
    tp_state_free(all);
    tp_module_release(net);
}

static void test_unequal_layers_give_the_same_bits(void **state) {
    (void)state;
    tp_manual_seed(0);
    check_bits_of_repeats(32,
                          tp_nn_sequential(tp_nn_linear(64, 128), tp_nn_relu(), tp_nn_linear(128, 64), tp_nn_relu(),
                                           tp_nn_linear(64, 10)),
                          64);
    check_bits_of_repeats(31,
                          tp_nn_sequential(tp_nn_linear(96, 129), tp_nn_relu(), tp_nn_linear(129, 160), tp_nn_relu(),
                                           tp_nn_linear(160, 40)),
                          96);
    check_bits_of_repeats(
        32, tp_nn_sequential(tp_nn_linear(64, 128), tp_nn_relu(), tp_nn_linear(128, 64), tp_nn_relu()), 64);
    check_bits_of_repeats(32,
                          tp_nn_sequential(tp_nn_linear(64, 128), tp_nn_relu(), tp_nn_linear(128, 64), tp_nn_relu(),
                                           tp_nn_linear(64, 128), tp_nn_relu(), tp_nn_linear(128, 64), tp_nn_relu(),
                                           tp_nn_linear(64, 10)),
                          64);
}

static void test_shared_steps_give_the_same_bits(void **state) {
    (void)state;
    static float alone[64 * 128], together[64 * 128];
    train_shared(1, alone);
    for (int threads = 2; threads < 5; threads++) {
        train_shared(threads, together);
        assert_memory_equal(alone, together, sizeof alone);
    }
}

static void test_convnet_trains(void **state) {
    (void)state;
    tp_manual_seed(0);
    tp_module *net = tp_nn_sequential(tp_nn_conv2d(1, 8, TP_INTS(3), .padding = TP_INTS(1)), tp_nn_batch_norm2d(8),
                                      tp_nn_relu(.inplace = true), tp_nn_max_pool2d(TP_INTS(2)), tp_nn_flatten(),
                                      tp_nn_dropout(.p = 0.1), tp_nn_linear(8 * 4 * 4, 2));
    TP_SCOPE {
        tp_tensor *labels = tp_randint_low(0, 2, TP_INTS(32)), *x = tp_randn(TP_INTS(32, 1, 8, 8));
        tp_tensor *half = tp_mul(tp_view(tp_to(labels, .dtype = TP_FLOAT32), TP_INTS(32, 1, 1, 1)),
                                 1.5); /* class 1 is brighter on the left */
        x = tp_add(x, tp_pad(tp_expand(half, TP_INTS(32, 1, 8, 4)), TP_INTS(0, 4)));
        double first = 0, last = train(net, x, labels, 25, 0.1, &first);
        assert_true(first > 0.4);
        assert_true(last < 0.2);
        assert_int_equal(tp_item(tp_module_tensor(net, "1.num_batches_tracked")), 25);
        tp_module_train(net, false);
        tp_tensor *answers = NULL;
        TP_NO_GRAD
            answers = tp_argmax(tp_forward(net, x), .dim = 1);
        assert_true(tp_item(tp_sum(tp_eq(answers, labels))) >= 30);
        assert_int_equal(tp_item(tp_module_tensor(net, "1.num_batches_tracked")), 25);
    }
    tp_module_release(net);
}

/* ---- one's own ---- */
static tp_tensor *residual(tp_module *self, tp_tensor *x) {
    return tp_add(x, tp_mul(tp_forward(tp_module_child(self, "inner"), tp_relu(x)), tp_module_tensor(self, "scale")));
}
static tp_module *make_block(void) {
    tp_module *m = tp_module_new("Block", residual);
    tp_module_add(m, "inner", tp_nn_linear(3, 3));
    TP_SCOPE {
        tp_module_add_parameter(m, "scale", tp_ones(TP_INTS(3)));
        tp_module_add_buffer(m, "steps", tp_zeros(TP_INTS(1)), true);
        tp_module_add_buffer(m, "cache", tp_zeros(TP_INTS(1)), false);
    }
    return m;
}

static void test_own_module(void **state) {
    (void)state;
    tp_manual_seed(0);
    tp_module *net = tp_nn_sequential(make_block(), tp_nn_linear(3, 1, .bias = false));
    static const char *const parameters[] = {"0.scale", "0.inner.weight", "0.inner.bias", "1.weight"},
                             *const all[] = {"0.scale", "0.steps", "0.inner.weight", "0.inner.bias", "1.weight"};
    tp_state p = tp_module_parameters(net), s = tp_module_state(net);
    assert_int_equal(p.n, 4);
    for (int i = 0; i < 4; i++) assert_string_equal(p.names[i], parameters[i]);
    assert_int_equal(s.n, 5);
    for (int i = 0; i < 5; i++) assert_string_equal(s.names[i], all[i]);
    TP_SCOPE {
        tp_tensor *y = tp_forward(net, tp_ones(TP_INTS(2, 3)));
        assert_non_null(y);
        tp_backward(tp_sum(y));
        for (int i = 0; i < 4; i++) assert_non_null(tp_grad(p.tensors[i]));
        tp_module_zero_grad(net);
        assert_null(tp_grad(p.tensors[0]));
        tp_module_requires_grad(net, false);
        assert_false(tp_requires_grad(tp_forward(net, tp_ones(TP_INTS(2, 3)))));
    }
    tp_state_free(p);
    tp_state_free(s);
    assert_text(net, "Sequential(\n  (0): Block(\n    (inner): Linear(in_features=3, out_features=3, bias=True)\n  )\n "
                     " (1): Linear(in_features=3, out_features=1, bias=False)\n)");
}

static bool both_ways(tp_module *self, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    (void)self;
    if (nargs != 2 || nresults != 2) return false;
    results[0] = tp_value_tensor(tp_add(args[0].as.tensor, args[1].as.tensor));
    results[1] = tp_value_tensor(tp_sub(args[0].as.tensor, args[1].as.tensor));
    return true;
}
static void test_several_results(void **state) {
    (void)state;
    tp_module *m = tp_module_new_values("Both", both_ways), *lstm = tp_nn_lstm(3, 4, .num_layers = 2);
    TP_SCOPE {
        tp_value out[3];
        assert_true(tp_forward_values(
            m, 2, (const tp_value[]){tp_value_tensor(VECTOR(1, 2)), tp_value_tensor(VECTOR(3, 5))}, 2, out));
        ASSERT_VALUES(out[0].as.tensor, 4, 7);
        ASSERT_VALUES(out[1].as.tensor, -2, -3);
        assert_true(tp_forward_values(lstm, 1, (const tp_value[]){tp_value_tensor(tp_ones(TP_INTS(5, 2, 3)))}, 3, out));
        assert_int_equal(tp_size(out[0].as.tensor, 0), 5);
        assert_int_equal(tp_size(out[2].as.tensor, 0), 2);
        tp_tensor *again = tp_forward(lstm, tp_ones(TP_INTS(5, 2, 3)), out[1].as.tensor, out[2].as.tensor);
        assert_int_equal(tp_size(again, 2), 4);
    }
    tp_module_release(m);
    tp_module_release(lstm);
}

/* ---- state ---- */
static void test_loading(void **state) {
    (void)state;
    tp_module *a = tp_nn_sequential(tp_nn_linear(2, 3), tp_nn_batch_norm1d(3)),
              *b = tp_nn_sequential(tp_nn_linear(2, 3), tp_nn_batch_norm1d(3)),
              *c = tp_nn_sequential(tp_nn_linear(4, 3));
    tp_state from = tp_module_state(a), other = tp_module_state(c);
    assert_true(tp_module_load(b, from.n, from.names, from.tensors, true));
    TP_SCOPE {
        assert_true(tp_equal(tp_module_tensor(a, "0.weight"), tp_module_tensor(b, "0.weight")));
        tp_tensor *before = tp_clone(tp_module_tensor(b, "0.bias"));
        assert_false(tp_module_load(b, other.n, other.names, other.tensors, true));
        const char *said = tp_error();
        assert_non_null(strstr(said, "Error(s) in loading state_dict for Sequential:"));
        assert_non_null(strstr(said, "Missing key(s) in state_dict: \"1.weight\", \"1.bias\", \"1.running_mean\", "
                                     "\"1.running_var\", \"1.num_batches_tracked\". "));
        assert_error("size mismatch for 0.weight: copying a param with shape torch.Size([3, 4]) from checkpoint, the "
                     "shape in current model is torch.Size([3, 2]).");
        assert_false(tp_module_load(c, from.n, from.names, from.tensors, true));
        assert_error("Unexpected key(s) in state_dict: \"1.weight\"");
        assert_true(tp_equal(before, tp_module_tensor(b, "0.bias"))); /* bad input changes nothing */
        const char *only[] = {"0.bias"};
        assert_true(tp_module_load(b, 1, only, (tp_tensor *const[]){tp_ones(TP_INTS(3))}, false));
        ASSERT_VALUES(tp_module_tensor(b, "0.bias"), 1, 1, 1);
    }
    tp_state_free(from);
    tp_state_free(other);
    tp_module_release(a);
    tp_module_release(b);
    tp_module_release(c);
}

static void test_copies_and_dtypes(void **state) {
    (void)state;
    tp_module *a = tp_nn_sequential(tp_nn_linear(2, 3), tp_nn_batch_norm1d(3)), *b = tp_module_clone(a);
    TP_SCOPE {
        tp_tensor *weight = tp_module_tensor(b, "0.weight");
        assert_true(tp_equal(tp_module_tensor(a, "0.weight"), weight));
        assert_true(tp_requires_grad(weight));
        assert_false(tp_shares_storage(tp_module_tensor(a, "0.weight"), weight));
        tp_backward(tp_sum(tp_forward(b, tp_randn(TP_INTS(4, 2)))));
        assert_true(tp_module_to(b, TP_FLOAT64));
        assert_ptr_equal(tp_module_tensor(b, "0.weight"), weight); /* optimisers may hold it */
        assert_int_equal(tp_dtype_of(weight), TP_FLOAT64);
        assert_int_equal(tp_dtype_of(tp_grad(weight)), TP_FLOAT64);
        assert_int_equal(tp_dtype_of(tp_module_tensor(b, "1.num_batches_tracked")), TP_INT64);
        assert_int_equal(tp_dtype_of(tp_forward(b, tp_to(tp_ones(TP_INTS(4, 2)), .dtype = TP_FLOAT64))), TP_FLOAT64);
        assert_int_equal(tp_dtype_of(tp_module_tensor(a, "0.weight")), TP_FLOAT32);
        assert_false(tp_module_to(b, TP_INT64));
        assert_error("floating");
    }
    tp_module_release(a);
    tp_module_release(b);
}

/* ---- texts ---- */
static void test_texts(void **state) {
    (void)state;
    assert_text(tp_nn_conv2d(4, 4, TP_INTS(3), .pad_to = "same", .groups = 2, .bias = false, .padding_mode = "circular",
                             .dilation = TP_INTS(2)),
                "Conv2d(4, 4, kernel_size=(3, 3), stride=(1, 1), padding=same, dilation=(2, 2), groups=2, bias=False, "
                "padding_mode=circular)");
    assert_text(tp_nn_conv_transpose1d(2, 3, TP_INTS(3), .stride = TP_INTS(2), .output_padding = TP_INTS(1)),
                "ConvTranspose1d(2, 3, kernel_size=(3,), stride=(2,), output_padding=(1,))");
    assert_text(tp_nn_max_pool2d(TP_INTS(2)),
                "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)");
    assert_text(tp_nn_batch_norm2d(3),
                "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)");
    assert_text(tp_nn_layer_norm(TP_INTS(2, 3)), "LayerNorm((2, 3), eps=1e-05, elementwise_affine=True, bias=True)");
    assert_text(tp_nn_upsample(.scale_factor = TP_FLOATS(2)), "Upsample(scale_factor=2.0, mode='nearest')");
    assert_text(tp_nn_leaky_relu(.inplace = true), "LeakyReLU(negative_slope=0.01, inplace=True)");
    assert_text(
        tp_nn_transformer_encoder(tp_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 8), 2, NULL),
        "TransformerEncoder(\n  (layers): ModuleList(\n    (0-1): 2 x TransformerEncoderLayer(\n      (self_attn): "
        "MultiheadAttention(\n"
        "        (out_proj): NonDynamicallyQuantizableLinear(in_features=4, out_features=4, bias=True)\n      )\n"
        "      (linear1): Linear(in_features=4, out_features=8, bias=True)\n      (dropout): Dropout(p=0.1, "
        "inplace=False)\n      (linear2): Linear(in_features=8, out_features=4, bias=True)\n"
        "      (norm1): LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)\n      (norm2): LayerNorm((4,), "
        "eps=1e-05, elementwise_affine=True, bias=True)\n"
        "      (dropout1): Dropout(p=0.1, inplace=False)\n      (dropout2): Dropout(p=0.1, inplace=False)\n    )\n  "
        ")\n)");
}

/* ---- padding of transformers ---- */
static tp_tensor *encoded(tp_module *encoder, tp_tensor *x, tp_tensor *padding) {
    tp_value in[] = {tp_value_tensor(x), tp_value_none(), tp_value_tensor(padding)};
    return tp_forward_one(encoder, 3, in);
}

static void test_padding(void **state) {
    (void)state;
    tp_module *encoder = tp_nn_transformer_encoder(
        tp_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 8, .batch_first = true), 2, NULL);
    tp_module_train(encoder, false);
    TP_SCOPE {
        tp_tensor *x = tp_randn(TP_INTS(2, 3, 4)), *last = tp_zeros(TP_INTS(2, 3), .dtype = TP_BOOL);
        tp_fill_(tp_narrow(tp_select(last, 0, 0), 0, 2, 1), 1);
        tp_tensor *kept = encoded(encoder, x, last); /* recorded: padding is as good as the rest */
        assert_true(tp_item(tp_count_nonzero(tp_select(kept, 0, 0))) == 12);
        TP_NO_GRAD {
            tp_tensor *out = encoded(encoder, x, last);
            assert_true(tp_item(tp_count_nonzero(tp_select(tp_select(out, 0, 0), 0, 2))) == 0);
            assert_true(tp_item(tp_count_nonzero(out)) == 20);
            tp_tensor *front = encoded(encoder, x, tp_flip(last, TP_INTS(1))); /* not at the end */
            assert_true(tp_item(tp_count_nonzero(front)) == 24);
            assert_null(encoded(encoder, x, tp_t(last)));
            assert_error("key_padding_mask: expected shape [2, 3], got [3, 2]");
        }
    }
    tp_module_release(encoder);
}

/* ---- mistakes ---- */
static void test_mistakes(void **state) {
    (void)state;
    assert_null(tp_nn_conv2d(3, 4, TP_INTS(3), .groups = 2));
    assert_error("Conv2d: in_channels must be divisible by groups");
    assert_null(tp_nn_dropout(.p = 1.5));
    assert_error("Dropout: dropout probability has to be between 0 and 1, but got 1.5");
    assert_null(
        tp_nn_sequential(tp_nn_linear(2, 3), tp_nn_group_norm(2, 3), tp_nn_relu())); /* what was made is released */
    assert_error("num_channels (3) must be divisible by num_groups (2)");
    tp_module *net = tp_nn_sequential(tp_nn_linear(2, 3), tp_nn_batch_norm2d(3)), *unmade = tp_module_new("Net", NULL);
    TP_SCOPE {
        assert_null(tp_forward(net, tp_ones(TP_INTS(4, 2))));
        assert_error("BatchNorm2d: expected 4D input (got 2D input)");
        assert_null(tp_forward(net, tp_ones(TP_INTS(4, 5))));
        assert_error("Linear: ");
        assert_null(tp_forward(net, (tp_tensor *)NULL));
        assert_error("input");
        assert_null(tp_forward(unmade, tp_ones(TP_INTS(1))));
        assert_error("Module [Net] is missing the required \"forward\" function");
    }
    assert_null(tp_module_child(net, "2"));
    assert_error("Sequential has no child \"2\"");
    assert_null(tp_module_tensor(net, "0.wight"));
    assert_error("Linear has no parameter or buffer \"wight\"");
    assert_false(tp_module_add(net, "a.b", tp_nn_relu()));
    assert_error("module name can't be empty or contain \".\"");
    tp_module_release(net);
    tp_module_release(unmade);
}

/* ---- no memory ---- */
static void a_bit_of_everything(void) {
    tp_module *net = tp_nn_sequential(tp_nn_conv1d(2, 4, TP_INTS(3), .padding = TP_INTS(1)), tp_nn_batch_norm1d(4),
                                      tp_nn_relu(.inplace = true), tp_nn_gru(5, 4),
                                      tp_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 8), make_block());
    tp_module_release(net); /* its last part does not fit: built and let go */
    net = tp_nn_sequential(tp_nn_gru(5, 4), tp_nn_transformer_encoder_layer(4, 2, .dim_feedforward = 8),
                           tp_nn_linear(4, 3), make_block());
    TP_SCOPE {
        tp_tensor *x = tp_ones(TP_INTS(2, 1, 5));
        if (net && x) tp_backward(tp_sum(tp_forward(net, x)));
        tp_module *copy = tp_module_clone(net);
        tp_state s = tp_module_state(net);
        if (copy && s.n > 0) tp_module_load(copy, s.n, s.names, s.tensors, true);
        char text[64];
        if (copy) tp_module_format(copy, text, sizeof text);
        tp_state_free(s);
        tp_module_release(copy);
    }
    tp_module_release(net);
}
static void test_failing_allocations(void **state) {
    (void)state;
    fail_each_allocation(a_bit_of_everything);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, remember_live, nothing_left)
int main(void) {
    /* Some run twice: what their first calls set up or intern stays. */
    const struct CMUnitTest all[] = {cmocka_unit_test(test_mlp_trains),
                                     TEST(test_mlp_trains),
                                     cmocka_unit_test(test_sequential_is_its_layers),
                                     TEST(test_sequential_is_its_layers),
                                     cmocka_unit_test(test_layers_and_saved_hooks),
                                     cmocka_unit_test(test_shared_steps_give_the_same_bits),
                                     cmocka_unit_test(test_unequal_layers_give_the_same_bits),
                                     cmocka_unit_test(test_convnet_trains),
                                     TEST(test_convnet_trains),
                                     TEST(test_own_module),
                                     cmocka_unit_test(test_several_results),
                                     TEST(test_several_results),
                                     TEST(test_loading),
                                     TEST(test_copies_and_dtypes),
                                     cmocka_unit_test(test_texts),
                                     cmocka_unit_test(test_padding),
                                     TEST(test_texts),
                                     TEST(test_mistakes),
                                     cmocka_unit_test(test_failing_allocations)};
    return cmocka_run_group_tests(all, NULL, NULL);
}
