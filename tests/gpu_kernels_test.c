/* Kernels whose forms samples are too small to meet: rows of attention with masks and of every length, recurrences by
 * tiles, matrices with a few vectors, many parts in one tensor, losses by one block; and what a profile tells of a GPU.
 * On the OpenCL device that is found, PoCL at least; a GPU's threads work together where that is asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <taper/gpu.h>
#include <taper/profile.h>
#include <taper/taper.h>
#include "device/gpu/driver.h"
#include "samples.h"
#include "tpi_ops.h"

static const tp_device cpu = {TP_CPU, 0}, gpu = {TP_XPU, 0};

static tp_tensor *there(tp_tensor *t) {
    tp_tensor *moved = t ? tp_to(t, .device = gpu) : NULL;
    assert_true(!t || moved);
    return moved;
}
static tp_tensor *here(tp_tensor *t) {
    if (!t) fail_msg("%s", tp_error());
    return tp_to(t, .device = cpu);
}

/* What tpo_ functions give is the caller's: here, the scope's. */
static tp_tensor *scoped(tp_tensor *t) {
    if (!t) fail_msg("%s", tp_error());
    tp_tensor *copy = tp_clone(t);
    tp_release(t);
    return copy;
}

static void assert_close(tp_tensor *on_gpu, tp_tensor *want, double tolerance) {
    tp_tensor *got = tp_to(here(on_gpu), .dtype = TP_FLOAT64), *wanted = tp_to(want, .dtype = TP_FLOAT64);
    assert_true(tp_equal(tp_isnan(got), tp_isnan(wanted)));
    double off = tp_item(tp_amax(tp_abs(tp_sub(tp_nan_to_num(got), tp_nan_to_num(wanted)))));
    if (!(off <= tolerance)) fail_msg("they differ by %g, expected at most %g", off, tolerance);
}

/* ---- Attention ---- */
typedef struct attention_case {
    int64_t queries, keys;
    bool causal;
    int mask; /* 0: none, 1: bools, 2: numbers */
    tp_dtype dtype;
    double tolerance;
} attention_case;

static tp_tensor *mask_of(const attention_case *c) {
    tp_tensor *drawn = c->mask ? tp_randn(TP_INTS(c->queries, c->keys)) : NULL;
    if (c->mask == 1) { /* the first query sees nothing */
        drawn = tp_gt(drawn, 0);
        tp_fill_(tp_select(drawn, 0, 0), false);
    }
    return c->mask == 2 ? tp_to(drawn, .dtype = c->dtype) : drawn;
}

static void check_attention(const attention_case *c, int64_t depth) {
    TP_SCOPE {
        tp_tensor *x[4] = {tp_randn(TP_INTS(2, 2, c->queries, depth)), tp_randn(TP_INTS(2, 2, c->keys, depth)),
                           tp_randn(TP_INTS(2, 2, c->keys, depth)), tp_randn(TP_INTS(2, 2, c->queries, depth))};
        tp_tensor *mask = mask_of(c), *far_mask = there(mask), *far[4];
        for (int i = 0; i < 4; i++) {
            x[i] = tp_to(x[i], .dtype = c->dtype);
            far[i] = there(x[i]);
        }
        tp_tensor *want[2], *got[2], *want_grad[3], *got_grad[3];
        assert_true(tpo_attention_forward(x[0], x[1], x[2], mask, c->causal, 0.3, true, want));
        assert_true(tpo_attention_forward(far[0], far[1], far[2], far_mask, c->causal, 0.3, true, got));
        assert_close(got[0], want[0], c->tolerance);
        assert_close(got[1], want[1], 10 * c->tolerance);
        assert_true(tpo_attention_backward(x[3], x[0], x[1], x[2], want[0], want[1], mask, c->causal, 0.3, want_grad));
        assert_true(
            tpo_attention_backward(far[3], far[0], far[1], far[2], got[0], got[1], far_mask, c->causal, 0.3, got_grad));
        for (int i = 0; i < 3; i++) assert_close(got_grad[i], want_grad[i], 4 * c->tolerance);
        for (int i = 0; i < 2; i++) {
            tp_release(want[i]);
            tp_release(got[i]);
        }
        for (int i = 0; i < 3; i++) {
            tp_release(want_grad[i]);
            tp_release(got_grad[i]);
        }
    }
}

static void test_attention(void **state) {
    (void)state;
    tp_manual_seed(7);
    const attention_case cases[] = {{5, 7, false, 0, TP_FLOAT32, 2e-6},     {9, 9, true, 0, TP_FLOAT32, 2e-6},
                                    {6, 70, false, 1, TP_FLOAT32, 2e-6},    {5, 40, false, 2, TP_FLOAT32, 2e-6},
                                    {3, 40000, false, 0, TP_FLOAT32, 2e-6}, {3, 40000, true, 0, TP_FLOAT32, 2e-6},
                                    {5, 7, true, 0, TP_BFLOAT16, 0.06},     {5, 7, false, 1, TP_FLOAT64, 1e-12}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_attention(&cases[i], 8);
}

/* One key to several parts of them, lanes that have no elements, masks of every kind. */
static void test_attention_of_few_queries(void **state) {
    (void)state;
    const attention_case cases[] = {{1, 1, false, 0, TP_FLOAT32, 2e-6},   {1, 700, false, 0, TP_FLOAT32, 2e-6},
                                    {2, 300, false, 1, TP_FLOAT32, 2e-6}, {3, 300, false, 2, TP_FLOAT32, 2e-6},
                                    {4, 131, true, 0, TP_FLOAT32, 2e-6},  {1, 700, false, 0, TP_BFLOAT16, 0.02},
                                    {4, 90, false, 2, TP_BFLOAT16, 0.06}, {3, 90, false, 1, TP_FLOAT16, 0.01}};
    tpi_gpu_sharing_there = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_attention(&cases[i], i % 2 ? 64 : 40);
    tpi_gpu_sharing_there = false;
}

static void test_nan_goes_through_attention(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *q = tp_randn(TP_INTS(1, 3, 4)), *far;
        tp_fill_(tp_select(q, 1, 1), NAN);
        far = there(q);
        assert_close(tp_scaled_dot_product_attention(far, far, far), tp_scaled_dot_product_attention(q, q, q), 1e-6);
    }
}

/* ---- Recurrences: by tiles as by threads of their own, bit by bit ---- */
static void test_recurrences(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{1, 33}, {5, 64}, {70, 100}, {33, 331}};
    for (int i = 0; i < 4; i++)
        for (int reverse = 0; reverse < 2; reverse++)
            TP_SCOPE {
                tp_ints shape = tp_ints_view(shapes[i], 2);
                tp_dtype dtype = i == 2 ? TP_COMPLEX64 : TP_FLOAT32;
                tp_tensor *decay = there(tp_to(tp_randn(shape), .dtype = dtype)),
                          *input = there(tp_to(tp_randn(shape), .dtype = dtype));
                tp_tensor *alone = here(scoped(tpo_linear_recurrence(decay, input, 1, reverse)));
                tpi_gpu_sharing_there = true;
                tp_tensor *tiled = here(scoped(tpo_linear_recurrence(decay, input, 1, reverse)));
                tpi_gpu_sharing_there = false;
                if (!same_bits(tiled, alone)) fail_msg("%s", difference());
            }
}

/* ---- Products of 8-bit numbers ---- */
static tp_tensor *bytes(tp_ints shape) { return tp_to(tp_sub(tp_randint(256, shape), 128), .dtype = TP_INT8); }

static void test_weight_only_products(void **state) {
    (void)state;
    const tp_dtype dtypes[] = {TP_FLOAT32, TP_BFLOAT16};
    tpi_gpu_sharing_there = true;
    for (int64_t vectors = 1; vectors <= 9; vectors += 2)
        TP_SCOPE {
            tp_dtype dtype = dtypes[vectors % 4 == 3];
            tp_tensor *x = tp_to(tp_randn(TP_INTS(vectors, 1040)), .dtype = dtype), *scales = tp_rand(TP_INTS(67));
            tp_tensor *w = bytes(TP_INTS(67, 1040));
            tp_tensor *want = scoped(tpo_weight_only_product(x, w, scales));
            tp_tensor *got = scoped(tpo_weight_only_product(there(x), there(w), there(scales)));
            assert_int_equal(tp_dtype_of(got), dtype);
            assert_close(got, want, dtype == TP_FLOAT32 ? 0.01 : 32); /* of some thousands: half a step of the dtype */
        }
    tpi_gpu_sharing_there = false;
}

/* Few rows, and few columns: more threads share a column then. One bias, and a weight whose rows lie apart. */
static void test_few_rows(void **state) {
    (void)state;
    tpi_gpu_sharing_there = true;
    for (int64_t m = 1; m <= 5; m++)
        for (int64_t k = 8; k <= 4104; k += 2048)
            TP_SCOPE {
                tp_dtype dtype = m % 2 ? TP_BFLOAT16 : TP_FLOAT16;
                tp_tensor *x = tp_to(tp_randn(TP_INTS(m, k)), .dtype = dtype);
                tp_tensor *w = tp_to(tp_randn(TP_INTS(67, 2 * k)), .dtype = dtype);
                tp_tensor *bias = tp_to(tp_randn(TP_INTS(67)), .dtype = dtype);
                tp_tensor *part = tp_narrow(w, 1, 0, k), *far = tp_narrow(there(w), 1, 0, k);
                tp_tensor *want = tp_linear(tp_to(x, .dtype = TP_FLOAT64), tp_to(part, .dtype = TP_FLOAT64));
                double step = m % 2 ? 1.0 / 256 : 1.0 / 2048; /* half of one, of the largest sum */
                double most = tp_item(tp_amax(tp_abs(want))) + 8;
                assert_close(tp_linear(there(x), far), want, step * most);
                assert_close(tp_linear(there(x), far, .bias = there(bias)), tp_add(want, bias), step * most);
            }
    tpi_gpu_sharing_there = false;
}

/* ---- Parts of one tensor ---- */
static void test_parts(void **state) {
    (void)state;
    const tp_dtype dtypes[] = {TP_FLOAT32, TP_UINT8, TP_BFLOAT16, TP_COMPLEX128};
    for (int64_t n = 1; n <= 19; n += 3)
        for (int64_t dim = 0; dim < 4; dim++)
            TP_SCOPE {
                tp_tensor *near[19], *far[19], *permuted[19], *spread[19];
                for (int64_t i = 0; i < n; i++) {
                    int64_t shape[] = {2, 3, 4, 5};
                    shape[dim] = i % 4 == 2 ? 0 : i % 4 + (n == 4 ? 15 : 1);
                    near[i] = tp_to(tp_mul(tp_randn(tp_ints_view(shape, 4)), 30), .dtype = dtypes[n % 4]);
                    far[i] = there(near[i]);
                    permuted[i] = tp_contiguous(far[i], .memory_format = TP_CHANNELS_LAST);
                    spread[i] = tp_chunk(tp_cat(TP_LIST(far[i], far[i]), .dim = i % 4), 2, .dim = i % 4).v[1];
                }
                tp_tensor *want = tp_cat(((tp_tensors){near, n}), .dim = dim);
                if (!tp_equal(here(tp_cat(((tp_tensors){far, n}), .dim = dim)), want)) fail_msg("%d parts", (int)n);
                if (!tp_equal(here(tp_cat(((tp_tensors){permuted, n}), .dim = dim)), want))
                    fail_msg("%d parts, channels last", (int)n);
                if (!tp_equal(here(tp_cat(((tp_tensors){spread, n}), .dim = dim)), want))
                    fail_msg("%d parts with gaps", (int)n);
            }
}

static void test_rolls(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *x = tp_randn(TP_INTS(3, 4, 1, 5)), *y = there(x);
        tp_tensor *permuted = tp_permute(x, TP_INTS(3, 1, 0, 2)), *far = tp_permute(y, TP_INTS(3, 1, 0, 2));
        for (int64_t shift = -7; shift <= 7; shift++)
            for (int64_t dim = 0; dim < 4; dim++) {
                tp_ints shifts = TP_INTS(shift, 1), dims = TP_INTS(dim, (dim + 1) % 4);
                assert_true(tp_equal(here(tp_roll(y, shifts, .dims = dims)), tp_roll(x, shifts, .dims = dims)));
                assert_true(
                    tp_equal(here(tp_roll(far, shifts, .dims = dims)), tp_roll(permuted, shifts, .dims = dims)));
            }
    }
}

/* ---- Losses ---- */
static void test_losses_by_one_block(void **state) {
    (void)state;
    for (int64_t n = 1; n < 6000; n = n * 3 + 1)
        for (int weighted = 0; weighted < 2; weighted++)
            TP_SCOPE {
                tp_tensor *x = tp_randn(TP_INTS(n, 7)), *target = tp_randint(7, TP_INTS(n));
                tp_tensor *weight = weighted ? tp_rand(TP_INTS(7)) : NULL, *there_too = weighted ? there(weight) : NULL;
                tp_tensor *want = tp_nll_loss(x, target, .weight = weight, .ignore_index = 3);
                tpi_gpu_sharing_there = true;
                tp_tensor *got = tp_nll_loss(there(x), there(target), .weight = there_too, .ignore_index = 3);
                tpi_gpu_sharing_there = false;
                assert_close(got, want, 1e-5);
            }
}

static void test_byte_products(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *a = bytes(TP_INTS(17, 24));
        tp_tensor *b = bytes(TP_INTS(24, 8));
        tp_tensor *want = tp_mm(tp_to(a, .dtype = TP_INT64), tp_to(b, .dtype = TP_INT64));
        tp_tensor *near = scoped(tpo_byte_product(a, b)), *far = scoped(tpo_byte_product(there(a), there(b)));
        assert_int_equal(tp_dtype_of(far), TP_INT32);
        assert_close(near, want, 0);
        assert_close(far, want, 0);
        assert_close(scoped(tpo_byte_product(there(a), tp_transpose(there(tp_transpose(b, 0, 1)), 0, 1))), want, 0);
        assert_null(tpo_byte_product(a, a));
        assert_non_null(strstr(tp_error(), "cannot be multiplied"));
        tp_error_clear();
    }
}

/* ---- Profiles ---- */
static const tp_event *event_of(const tp_profile *p, const tp_activity *a) {
    return a->event >= 0 ? tp_profile_event(p, a->event) : NULL;
}

static void test_profiles_time_gpus(void **state) {
    (void)state;
    const tp_profile_options options = {.size = sizeof options, .devices = true};
    TP_SCOPE {
        tp_tensor *x = there(tp_randn(TP_INTS(1000, 100)));
        tp_sum(tp_mul(x, x)); /* compiles */
        tp_stream *side = NULL;
        assert_true(tp_stream_new(gpu, 0, &side));
        tp_profile *p = tp_profile_start(&options);
        assert_non_null(p);
        assert_int_equal(tp_profile_activity_count(p), 0);
        tp_tensor *y = tp_mul(x, x);
        assert_true(tp_stream_set_current(gpu, side));
        assert_true(tp_stream_wait(gpu, side, gpu, NULL));
        tp_sum(y);
        assert_true(tp_stream_set_current(gpu, NULL));
        here(y);
        assert_true(tp_profile_stop(p));
        int64_t n = tp_profile_activity_count(p), multiplied = 0, summed = 0, copied = 0, before = 0;
        for (int64_t i = 0; i < n; i++) {
            const tp_activity *a = tp_profile_activity(p, i);
            const tp_event *e = event_of(p, a);
            assert_true(a->start >= before);
            assert_true(a->end >= a->start);
            assert_true(a->device.type == TP_XPU);
            before = a->start;
            assert_non_null(e);
            if (a->kind == TP_ACTIVITY_KERNEL) assert_non_null(strstr(a->name, "taper_"));
            multiplied += !strcmp(e->name, "mul") && a->kind == TP_ACTIVITY_KERNEL && a->stream == 0;
            summed += !strcmp(e->name, "sum") && a->kind == TP_ACTIVITY_KERNEL && a->stream == 1;
            copied += a->kind == TP_ACTIVITY_COPY && a->bytes == 400000;
        }
        assert_int_equal(multiplied, 1);
        assert_true(summed >= 1);
        assert_int_equal(copied, 1);
        assert_int_equal(tp_profile_lost(p), 0);
        assert_null(tp_profile_activity(p, n));
        assert_non_null(strstr(tp_error(), "argument 'i'"));
        tp_error_clear();
        for (int64_t i = 0; i < tp_profile_count(p); i++) {
            const tp_event *e = tp_profile_event(p, i);
            if (!strcmp(e->name, "mul")) assert_int_equal(e->device_bytes, 400000);
        }
        char table[4096];
        assert_true(tp_profile_table(p, TP_PROFILE_BY_SELF, 0, table, sizeof table) > 0);
        assert_true(strstr(table, "device us"));
        assert_true(strstr(table, "total of devices: "));
        tp_profile_free(p);
    }
}

/* More launches than are timed at once, and none of them is lost. */
static void test_many_launches(void **state) {
    (void)state;
    const tp_profile_options options = {.size = sizeof options, .devices = true};
    enum { CALLS = 2100 };
    TP_SCOPE {
        tp_tensor *x = there(tp_ones(TP_INTS(4)));
        tp_profile *p = tp_profile_start(&options);
        for (int i = 0; i < CALLS; i++) tp_add_(x, 1);
        assert_true(tp_profile_stop(p));
        assert_int_equal(tp_profile_activity_count(p), CALLS);
        assert_int_equal(tp_profile_lost(p), 0);
        tp_profile_free(p);
        assert_float_equal(tp_item(tp_sum(x)), 4 * (CALLS + 1), 0);
    }
}

/* ---- Watching memory ---- */
typedef struct seen {
    int64_t taken, given;
    void *address;
} seen;

static void told(const tp_gpu_memory_event *e, void *context) {
    seen *s = context;
    if (e->bytes != 123456) return;
    s->taken += e->taken;
    s->given += !e->taken && e->address == s->address;
    if (e->taken) s->address = e->address;
}

static void test_memory_is_watched(void **state) {
    (void)state;
    seen s = {0};
    assert_true(tp_gpu_memory_watch(told, &s));
    TP_SCOPE {
        tp_empty(TP_INTS(123456), .dtype = TP_UINT8, .device = gpu);
    }
    assert_true(tp_gpu_memory_watch(NULL, NULL));
    TP_SCOPE {
        tp_empty(TP_INTS(123456), .dtype = TP_UINT8, .device = gpu);
    }
    assert_int_equal(s.taken, 1);
    assert_int_equal(s.given, 1);
}

int main(void) {
    if (tp_device_count(TP_XPU) <= 0) {
        fprintf(stderr, "skipped: %s\n", tp_error() ? tp_error() : "there is no OpenCL device here");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_attention),
                                       cmocka_unit_test(test_attention_of_few_queries),
                                       cmocka_unit_test(test_nan_goes_through_attention),
                                       cmocka_unit_test(test_recurrences),
                                       cmocka_unit_test(test_weight_only_products),
                                       cmocka_unit_test(test_byte_products),
                                       cmocka_unit_test(test_few_rows),
                                       cmocka_unit_test(test_parts),
                                       cmocka_unit_test(test_rolls),
                                       cmocka_unit_test(test_losses_by_one_block),
                                       cmocka_unit_test(test_profiles_time_gpus),
                                       cmocka_unit_test(test_many_launches),
                                       cmocka_unit_test(test_memory_is_watched)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
