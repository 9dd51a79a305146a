/* Neural-network operators beyond the tables' samples: values from PyTorch, results that do not depend on the number of
 * threads, layouts, and every allocation failing in turn. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <taper/autograd.h>
#include "tpi_ops.h"

static const tp_device cpu = {TP_CPU, 0};

/* Values without pattern in [-1, 1), the same on every run. */
static tp_tensor *scattered(tp_ints shape) {
    tp_tensor *t = tpi_empty(shape, TP_FLOAT32, cpu);
    assert_non_null(t);
    uint64_t x = 88172645463325252u;
    for (int64_t i = 0; i < t->numel; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        ((float *)t->data)[i] = (float)(x % 100003) / 50001.5f - 1.0f;
    }
    return t;
}

static tp_tensor *floats(tp_ints shape, const float *v) {
    tp_tensor *t = tpi_empty(shape, TP_FLOAT32, cpu);
    assert_non_null(t);
    memcpy(t->data, v, sizeof(float) * (size_t)t->numel);
    return t;
}

static void expect_near(tp_tensor *t, int64_t n, const float *want) {
    if (!t) fail_msg("%s", tp_error());
    assert_int_equal(t->numel, n);
    for (int64_t i = 0; i < n; i++) assert_true(fabsf(((float *)t->data)[i] - want[i]) < 1e-5f);
}

/* ---- The same bits on any number of threads ---- */

/* A call with up to three inputs that need gradients. */
typedef tp_tensor *(*call_fn)(tp_tensor *const *in);

static void run_once(call_fn call, tp_tensor *const *in, int n, tp_tensor **out) {
    for (int i = 0; i < n; i++) assert_non_null(tp_set_requires_grad(in[i], true));
    out[0] = call(in);
    if (!out[0]) fail_msg("%s", tp_error());
    tp_tensor *seed = scattered(tpi_shape(out[0]));
    tp_grad_options options = {.size = sizeof options};
    if (!tp_gradients((tp_tensors){out, 1}, (tp_tensors){(tp_tensor **)in, n}, &seed, out + 1, &options))
        fail_msg("%s", tp_error());
    tp_release(seed);
}

static void same_bits(call_fn call, tp_tensor *const *in, int n) {
    static const int threads[] = {1, 2, 3, 7};
    tp_tensor *first[4] = {NULL};
    for (int k = 0; k < 4; k++) {
        tp_tensor *out[4] = {NULL};
        tp_set_num_threads(threads[k]);
        run_once(call, in, n, out);
        for (int i = 0; i <= n; i++) {
            if (k == 0) {
                first[i] = out[i];
                continue;
            }
            tp_tensor *a = tpi_contiguous_data(first[i]), *b = tpi_contiguous_data(out[i]);
            assert_memory_equal(a->data, b->data, (size_t)a->numel * tpi_itemsize(a));
            tp_release(a);
            tp_release(b);
            tp_release(out[i]);
        }
    }
    for (int i = 0; i <= n; i++) tp_release(first[i]);
    for (int i = 0; i < n; i++) tp_release(in[i]);
    tp_set_num_threads(0);
}

static tp_tensor *conv(tp_tensor *const *in) {
    return tpo_conv2d(in[0], in[1], in[2], TP_INTS(1), TP_INTS(1), TP_INTS(1), 1);
}
static tp_tensor *small_conv(tp_tensor *const *in) {
    return tpo_conv2d(in[0], in[1], in[2], TP_INTS(2), TP_INTS(1), TP_INTS(1), 1);
}
static tp_tensor *depthwise(tp_tensor *const *in) {
    return tpo_conv2d(in[0], in[1], in[2], TP_INTS(1), TP_INTS(1), TP_INTS(1), 24);
}
static tp_tensor *transposed(tp_tensor *const *in) {
    return tpo_conv_transpose2d(in[0], in[1], in[2], TP_INTS(2), TP_INTS(1), TP_INTS(0), 1, TP_INTS(1));
}
static tp_tensor *layer(tp_tensor *const *in) { return tpo_layer_norm(in[0], TP_INTS(300), in[1], in[2], 1e-5); }
static tp_tensor *batch(tp_tensor *const *in) {
    return tpo_batch_norm(in[0], NULL, NULL, in[1], in[2], true, 0.1, 1e-5);
}
static tp_tensor *group(tp_tensor *const *in) { return tpo_group_norm(in[0], 4, in[1], in[2], 1e-5); }
static tp_tensor *soft(tp_tensor *const *in) { return tpo_softmax(in[0], 1, TP_NO_DTYPE); }
static tp_tensor *pool(tp_tensor *const *in) {
    return tpo_max_pool2d(in[0], TP_INTS(3), TP_INTS(2), TP_INTS(1), TP_INTS(1), false);
}
static tp_tensor *attend(tp_tensor *const *in) {
    return tpo_scaled_dot_product_attention(in[0], in[1], in[2], NULL, 0, true, TP_NO_FLOAT, false);
}

static void threads_do_not_matter(void **state) {
    (void)state;
    same_bits(
        conv,
        (tp_tensor *[]){scattered(TP_INTS(9, 16, 30, 30)), scattered(TP_INTS(24, 16, 3, 3)), scattered(TP_INTS(24))},
        3);
    same_bits(
        small_conv,
        (tp_tensor *[]){scattered(TP_INTS(9, 32, 7, 7)), scattered(TP_INTS(24, 32, 3, 3)), scattered(TP_INTS(24))}, 3);
    same_bits(
        depthwise,
        (tp_tensor *[]){scattered(TP_INTS(5, 24, 20, 20)), scattered(TP_INTS(24, 1, 3, 3)), scattered(TP_INTS(24))}, 3);
    same_bits(
        transposed,
        (tp_tensor *[]){scattered(TP_INTS(5, 24, 12, 12)), scattered(TP_INTS(24, 8, 4, 4)), scattered(TP_INTS(8))}, 3);
    same_bits(layer, (tp_tensor *[]){scattered(TP_INTS(500, 300)), scattered(TP_INTS(300)), scattered(TP_INTS(300))},
              3);
    same_bits(batch, (tp_tensor *[]){scattered(TP_INTS(9, 12, 30, 30)), scattered(TP_INTS(12)), scattered(TP_INTS(12))},
              3);
    same_bits(batch, (tp_tensor *[]){scattered(TP_INTS(5000, 12)), scattered(TP_INTS(12)), scattered(TP_INTS(12))}, 3);
    same_bits(group, (tp_tensor *[]){scattered(TP_INTS(9, 12, 30, 30)), scattered(TP_INTS(12)), scattered(TP_INTS(12))},
              3);
    same_bits(soft, (tp_tensor *[]){scattered(TP_INTS(500, 100))}, 1);
    same_bits(soft, (tp_tensor *[]){scattered(TP_INTS(9, 20, 300))}, 1);
    same_bits(pool, (tp_tensor *[]){scattered(TP_INTS(9, 12, 30, 30))}, 1);
    same_bits(attend,
              (tp_tensor *[]){scattered(TP_INTS(2, 3, 150, 16)), scattered(TP_INTS(2, 3, 300, 16)),
                              scattered(TP_INTS(2, 3, 300, 16))},
              3);
}

/* ---- Values ---- */

static void attention_sees_only_what_it_may(void **state) {
    (void)state;
    tp_tensor *q = floats(TP_INTS(2, 2), (float[]){1, 0, 0, 1}), *v = floats(TP_INTS(2, 1), (float[]){1, 3});
    tp_tensor *out = tpo_scaled_dot_product_attention(q, q, v, NULL, 0, true, 1.0, false);
    expect_near(out, 2, (float[]){1, 1 + 2 * 0.7310586f}); /* softmax([0, 1]) = 0.2689, 0.7311 */
    tp_release(out);
    tp_tensor *mask = tpi_empty(TP_INTS(2, 2), TP_BOOL, cpu);
    memcpy(mask->data, (uint8_t[]){0, 0, 0, 1}, 4);
    out = tpo_scaled_dot_product_attention(q, q, v, mask, 0, false, 1.0, false);
    expect_near(out, 2, (float[]){0, 3}); /* a query that may see nothing gives zeros */
    tp_release(out);
    tp_release(mask);
    tp_release(q);
    tp_release(v);
}

static void batch_norm_moves_its_running_statistics(void **state) {
    (void)state;
    tp_tensor *x = floats(TP_INTS(4, 1), (float[]){1, 2, 3, 6}), *mean = floats(TP_INTS(1), (float[]){0}),
              *var = floats(TP_INTS(1), (float[]){1});
    int64_t before = tp_tensor_version(mean);
    tp_tensor *y = tpo_batch_norm(x, mean, var, NULL, NULL, true, 0.1, 1e-9);
    expect_near(y, 4, (float[]){-1.0690450f, -0.5345225f, 0, 1.6035675f});
    expect_near(mean, 1, (float[]){0.3f});
    expect_near(var, 1, (float[]){0.9f + 0.1f * 14.0f / 3.0f}); /* the unbiased variance */
    assert_true(tp_tensor_version(mean) > before);
    tp_release(x);
    tp_release(y);
    tp_release(mean);
    tp_release(var);
}

static void pooling_counts_as_pytorch_does(void **state) {
    (void)state;
    tp_tensor *x = floats(TP_INTS(1, 1, 5), (float[]){1, 2, 3, 4, NAN});
    tp_tensor *most[2];
    assert_true(tpo_max_pool1d_with_indices(x, TP_INTS(2), TP_INTS(2), TP_INTS(0), TP_INTS(1), true, most));
    assert_true(((float *)most[0]->data)[1] == 4);
    assert_true(isnan(((float *)most[0]->data)[2])); /* a NaN wins its window */
    assert_int_equal(((int64_t *)most[1]->data)[2], 4);
    tp_release(most[0]);
    tp_release(most[1]);
    tp_release(x);
    x = floats(TP_INTS(1, 1, 5), (float[]){1, 2, 3, 4, 5});
    tp_tensor *mean = tpo_avg_pool1d(x, TP_INTS(3), TP_INTS(2), TP_INTS(1), true, true);
    expect_near(mean, 3, (float[]){1, 3, 3}); /* the padding counts */
    tp_release(mean);
    mean = tpo_avg_pool1d(x, TP_INTS(3), TP_INTS(2), TP_INTS(1), true, false);
    expect_near(mean, 3, (float[]){1.5f, 3, 4.5f});
    tp_release(mean);
    tp_release(x);
}

static void repeated_rows_are_measured_whole(void **state) {
    (void)state;
    tp_tensor *a = floats(TP_INTS(1, 2), (float[]){1, 1}), *b = floats(TP_INTS(2, 1), (float[]){3, 4});
    tp_tensor *along = tpo_cosine_similarity(a, b, 0, 1e-8); /* a's row stands twice along dim 0: ones against 3, 4 */
    expect_near(along, 2, (float[]){0.98994949f, 0.98994949f});
    tp_release(along);
    tp_release(a);
    tp_release(b);
}

static void edges_are_repeated_when_nothing_else_is_left(void **state) {
    (void)state;
    tp_tensor *x = floats(TP_INTS(1, 1, 4), (float[]){0, 1, 2, 3}),
              *padded = tpo_pad(x, TP_INTS(-4, 5), "replicate", TP_NO_FLOAT);
    expect_near(padded, 5, (float[]){3, 3, 3, 3, 3});
    tp_release(padded);
    tp_release(x);
}

static void channels_last_survives(void **state) {
    (void)state;
    tp_tensor *plain = scattered(TP_INTS(2, 3, 6, 5)), *w = scattered(TP_INTS(4, 3, 3, 3));
    tp_tensor *x = tpi_empty_layout(tpi_shape(plain), TP_FLOAT32, cpu, TP_CHANNELS_LAST);
    assert_true(tpi_copy_data(x, plain));
    tp_tensor *a = tpo_conv2d(plain, w, NULL, TP_INTS(1), TP_INTS(1), TP_INTS(1), 1),
              *b = tpo_conv2d(x, w, NULL, TP_INTS(1), TP_INTS(1), TP_INTS(1), 1);
    assert_true(tp_is_contiguous_as(b, TP_CHANNELS_LAST));
    tp_tensor *back = tpi_contiguous_data(b);
    expect_near(back, a->numel, (float *)a->data);
    tp_release(plain);
    tp_release(x);
    tp_release(w);
    tp_release(a);
    tp_release(b);
    tp_release(back);
}

/* ---- No memory: every allocation fails in turn; the call answers NULL with an error, nothing leaks ---- */

static void fails_cleanly(call_fn call, tp_tensor *const *in, int n) {
    tp_release(call(in)); /* what is made once and kept is made now */
    int64_t live = tpi_alloc_live();
    for (int64_t nth = 1;; nth++) {
        tpi_alloc_fail_at(nth, false);
        tp_tensor *out = call(in);
        tpi_alloc_fail_at(0, false);
        if (out) {
            tp_release(out);
            break;
        }
        assert_false(tp_ok());
        tp_error_clear();
        assert_int_equal(tpi_alloc_live(), live);
    }
    for (int i = 0; i < n; i++) tp_release(in[i]);
}

static void out_of_memory_leaks_nothing(void **state) {
    (void)state;
    tp_set_num_threads(1);
    fails_cleanly(
        conv, (tp_tensor *[]){scattered(TP_INTS(2, 3, 8, 8)), scattered(TP_INTS(4, 3, 3, 3)), scattered(TP_INTS(4))},
        3);
    fails_cleanly(
        small_conv,
        (tp_tensor *[]){scattered(TP_INTS(3, 3, 5, 5)), scattered(TP_INTS(4, 3, 3, 3)), scattered(TP_INTS(4))}, 3);
    fails_cleanly(
        transposed,
        (tp_tensor *[]){scattered(TP_INTS(2, 3, 4, 4)), scattered(TP_INTS(3, 2, 4, 4)), scattered(TP_INTS(2))}, 3);
    fails_cleanly(layer, (tp_tensor *[]){scattered(TP_INTS(5, 300)), scattered(TP_INTS(300)), scattered(TP_INTS(300))},
                  3);
    fails_cleanly(batch, (tp_tensor *[]){scattered(TP_INTS(5, 12)), scattered(TP_INTS(12)), scattered(TP_INTS(12))}, 3);
    fails_cleanly(group, (tp_tensor *[]){scattered(TP_INTS(2, 12, 3)), scattered(TP_INTS(12)), scattered(TP_INTS(12))},
                  3);
    fails_cleanly(soft, (tp_tensor *[]){scattered(TP_INTS(5, 10))}, 1);
    fails_cleanly(pool, (tp_tensor *[]){scattered(TP_INTS(2, 3, 6, 6))}, 1);
    fails_cleanly(
        attend, (tp_tensor *[]){scattered(TP_INTS(2, 5, 4)), scattered(TP_INTS(2, 6, 4)), scattered(TP_INTS(2, 6, 4))},
        3);
    tp_set_num_threads(0);
}

/* Elements that overflow, underflow or are NaN send their neighbours the long way: the same bits there, and as exact.
 */
static void exponentials_do_not_depend_on_their_neighbours(void **state) {
    (void)state;
    enum { N = 1000 };
    static const float wild[] = {NAN, INFINITY, -INFINITY, 88.5f, 200, -88.5f, -103.5f, -1e30f};
    float x[N], together[N];
    for (int i = 0; i < N; i++)
        x[i] = i % 90 == 7 && i > 300 ? wild[i / 90 % 8] : (float)(i % 2 ? 87 : -87) * sinf((float)i);
    tp_tensor *t = floats(TP_INTS(N), x), *all = tpo_exp(t);
    assert_non_null(all);
    memcpy(together, all->data, sizeof together);
    for (int i = 0; i < N; i++) {
        tp_tensor *one = floats(TP_INTS(1), &x[i]), *alone = tpo_exp(one);
        assert_memory_equal(alone->data, &together[i], sizeof(float));
        tpi_release(one);
        tpi_release(alone);
        const double want = exp((double)x[i]), least = 0x1p-149;
        if (isnan(x[i]))
            assert_true(isnan(together[i]));
        else if (want > 0x1.fffffep127)
            assert_true(isinf(together[i]));
        else
            assert_true(fabs((double)together[i] - want) <=
                        1.1 * (want > 0 ? fmax(ldexp(1, ilogb(want) - 23), least) : least));
    }
    tpi_release(t);
    tpi_release(all);
}

/* Along rows, of whole groups of lanes and others, and along columns. */
static void shares_may_be_denormal(void **state) {
    (void)state;
    static const int64_t lengths[] = {5, 16, 37, 3000};
    for (int k = 0; k < 8; k++) {
        int64_t n = lengths[k / 2], shape[2] = {k % 2 ? n : 2, k % 2 ? 2 : n}, apart = k % 2 ? 2 : 1;
        float *x = calloc((size_t)(2 * n), sizeof *x);
        const float at[] = {0, -87.5f, -95, -103, -INFINITY};
        for (int64_t i = 0; i < n; i++)
            x[i * apart] = i ? at[i % 5] - 40 * (i % 5 == 0) : 0; /* but for the first all are too small for the sum */
        tp_tensor *t = tp_keep(tp_from_data(x, TP_FLOAT32, tp_ints_view(shape, 2))),
                  *y = tpo_softmax(t, k % 2 ? 0 : 1, TP_NO_DTYPE);
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += exp((double)x[i * apart]);
        for (int64_t i = 0; i < n; i++) {
            double want = exp((double)x[i * apart]) / sum;
            assert_true(fabs((double)((float *)(void *)y->data)[i * apart] - want) <=
                        fmax(1e-6 * want, 0x1p-148)); /* it is rounded twice */
        }
        tpi_release(t);
        tpi_release(y);
        free(x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_may_be_denormal),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(exponentials_do_not_depend_on_their_neighbours),
        cmocka_unit_test(attention_sees_only_what_it_may),
        cmocka_unit_test(batch_norm_moves_its_running_statistics),
        cmocka_unit_test(pooling_counts_as_pytorch_does),
        cmocka_unit_test(repeated_rows_are_measured_whole),
        cmocka_unit_test(edges_are_repeated_when_nothing_else_is_left),
        cmocka_unit_test(channels_last_survives),
        cmocka_unit_test(out_of_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
