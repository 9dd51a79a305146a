/* Indexing, joining and sorting beyond the tables' samples: NumPy's placing rule, duplicates, ties and NaN, results
 * that do not depend on the number of threads, and every allocation failing in turn. Expected values are PyTorch's. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "tpi_ops.h"

static const tp_device cpu = {TP_CPU, 0};

static tp_tensor *floats(tp_ints shape, const float *v) {
    tp_tensor *t = tpi_empty(shape, TP_FLOAT32, cpu);
    assert_non_null(t);
    if (t->numel) memcpy(t->data, v, sizeof(float) * (size_t)t->numel);
    return t;
}
static tp_tensor *longs(tp_ints shape, const int64_t *v) {
    tp_tensor *t = tpi_empty(shape, TP_INT64, cpu);
    assert_non_null(t);
    if (t->numel) memcpy(t->data, v, sizeof(int64_t) * (size_t)t->numel);
    return t;
}
#define FLOATS(shape, ...) floats(shape, (const float[]){__VA_ARGS__})
#define LONGS(shape, ...)  longs(shape, (const int64_t[]){__VA_ARGS__})

/* 0, 1, 2, ... */
static tp_tensor *counting(tp_ints shape) {
    tp_tensor *t = tpi_empty(shape, TP_FLOAT32, cpu);
    assert_non_null(t);
    for (int64_t i = 0; i < t->numel; i++) ((float *)t->data)[i] = (float)i;
    return t;
}

/* Values without pattern, the same on every run. */
static tp_tensor *scattered(tp_ints shape, tp_dtype dtype, int64_t below) {
    tp_tensor *t = tpi_empty(shape, dtype, cpu);
    assert_non_null(t);
    uint64_t x = 88172645463325252u;
    for (int64_t i = 0; i < t->numel; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if (dtype == TP_INT64)
            ((int64_t *)t->data)[i] = (int64_t)(x % (uint64_t)below);
        else
            ((float *)t->data)[i] = (float)(x % 100003) / 1009.0f - 40.0f;
    }
    return t;
}

static void assert_shape(const tp_tensor *t, tp_ints want) {
    assert_non_null(t);
    assert_int_equal(t->ndim, want.n);
    for (int64_t d = 0; d < want.n; d++) assert_int_equal(t->shape[d], want.v[d]);
}

/* Checks and releases. */
static void expect_floats(tp_tensor *t, tp_ints shape, const float *want) {
    if (!t) fail_msg("%s", tp_error());
    assert_shape(t, shape);
    assert_int_equal(t->dtype, TP_FLOAT32);
    assert_true(tp_is_contiguous(t));
    for (int64_t i = 0; i < t->numel; i++) {
        float got = ((float *)t->data)[i];
        if (got != want[i] && !(isnan(got) && isnan(want[i])))
            fail_msg("element %lld: got %g, expected %g", (long long)i, got, want[i]);
    }
    tpi_release(t);
}
static void expect_longs(tp_tensor *t, tp_ints shape, const int64_t *want) {
    if (!t) fail_msg("%s", tp_error());
    assert_shape(t, shape);
    assert_int_equal(t->dtype, TP_INT64);
    for (int64_t i = 0; i < t->numel; i++) assert_int_equal(((int64_t *)t->data)[i], want[i]);
    tpi_release(t);
}
#define EXPECT(t, shape, ...)       expect_floats(t, shape, (const float[]){__VA_ARGS__})
#define EXPECT_LONGS(t, shape, ...) expect_longs(t, shape, (const int64_t[]){__VA_ARGS__})

static void expect_error(tp_tensor *t, const char *words) {
    assert_null(t);
    assert_non_null(tp_error());
    if (!strstr(tp_error(), words)) fail_msg("expected '%s' in '%s'", words, tp_error());
    tp_error_clear();
}

static int64_t live_before;
static int remember_live(void **state) {
    (void)state;
    tpi_release(tpi_empty(TP_INTS(4), TP_FLOAT32, cpu));
    live_before = tpi_alloc_live();
    return 0;
}
static int nothing_left(void **state) {
    (void)state;
    return tp_ok() && tpi_alloc_live() == live_before ? 0 : -1;
}

/* ---- Advanced indexing ---- */

/* A NaN stays, whether it is there or comes. */
static void the_largest_and_the_smallest_keep_nan(void **state) {
    (void)state;
    tp_tensor *x = FLOATS(TP_INTS(3), 1, NAN, 3), *i = LONGS(TP_INTS(5), 0, 1, 2, 0, 2),
              *v = FLOATS(TP_INTS(5), 5, 2, NAN, -4, 9);
    EXPECT(tpo_scatter_reduce(x, 0, i, v, "amax", true), TP_INTS(3), 5, NAN, NAN);
    EXPECT(tpo_scatter_reduce(x, 0, i, v, "amin", true), TP_INTS(3), -4, NAN, NAN);
    tpi_release(x);
    tpi_release(i);
    tpi_release(v);
}

/* Columns, which are picked element by element, and rows of an expanded tensor, in elements of each size. */
static void elements_of_every_size_are_picked(void **state) {
    (void)state;
    static const tp_dtype dtypes[] = {TP_INT8, TP_INT16, TP_FLOAT32, TP_INT64, TP_COMPLEX128};
    tp_tensor *x = counting(TP_INTS(2, 5)), *i = LONGS(TP_INTS(3), 4, 0, 4);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        tp_tensor *as = tpi_as_dtype_data(x, dtypes[d]), *one = tpo_narrow(as, 1, 3, 1),
                  *wide = tpo_expand(one, TP_INTS(2, 3), false);
        tp_tensor *columns = tpo_index_select(as, 1, i), *j = LONGS(TP_INTS(2), 1, 0);
        tp_tensor *rows = tpo_index_select(wide, 0, j);
        EXPECT(tpi_as_dtype_data(columns, TP_FLOAT32), TP_INTS(2, 3), 4, 0, 4, 9, 5, 9);
        EXPECT(tpi_as_dtype_data(rows, TP_FLOAT32), TP_INTS(2, 3), 8, 8, 8, 3, 3, 3);
        tpi_release(as);
        tpi_release(one);
        tpi_release(wide);
        tpi_release(columns);
        tpi_release(j);
        tpi_release(rows);
    }
    tpi_release(x);
    tpi_release(i);
}

static void indices_side_by_side_stay_in_place(void **state) {
    (void)state;
    tp_tensor *x = counting(TP_INTS(2, 3, 4)), *i = LONGS(TP_INTS(2), 2, -3), *j = LONGS(TP_INTS(2), 0, 3);
    EXPECT(tpo_index(x, TP_LIST(NULL, i, j)), TP_INTS(2, 2), 8, 3, 20, 15);
    tpi_release(x);
    tpi_release(i);
    tpi_release(j);
}

static void indices_apart_come_first(void **state) {
    (void)state;
    tp_tensor *x = counting(TP_INTS(2, 3, 4)), *i = LONGS(TP_INTS(2), 0, 1), *j = LONGS(TP_INTS(2), 1, 3);
    EXPECT(tpo_index(x, TP_LIST(i, NULL, j)), TP_INTS(2, 3), 1, 5, 9, 15, 19, 23);
    tpi_release(x);
    tpi_release(i);
    tpi_release(j);
}

static void masks_pick_where_they_are_true(void **state) {
    (void)state;
    tp_tensor *x = counting(TP_INTS(2, 3)), *mask = tpo_gt(x, tp_operand_double(3.5)),
              *rows = tpi_empty(TP_INTS(2), TP_BOOL, cpu);
    ((uint8_t *)rows->data)[0] = 0;
    ((uint8_t *)rows->data)[1] = 1;
    EXPECT(tpo_index(x, TP_LIST(mask)), TP_INTS(2), 4, 5);
    EXPECT(tpo_index(x, TP_LIST(rows)), TP_INTS(1, 3), 3, 4, 5);
    EXPECT_LONGS(tpo_nonzero(mask), TP_INTS(2, 2), 1, 1, 1, 2);
    expect_error(tpo_index(x, TP_LIST(NULL, rows)), "mask");
    tpi_release(x);
    tpi_release(mask);
    tpi_release(rows);
}

static void index_errors_name_index_dim_and_size(void **state) {
    (void)state;
    tp_tensor *x = counting(TP_INTS(2, 3)), *i = LONGS(TP_INTS(1), 3);
    expect_error(tpo_index(x, TP_LIST(NULL, i)), "index 3 is out of bounds for dimension 1 with size 3");
    expect_error(tpo_index_select(x, 0, i), "index 3 is out of bounds for dimension 0 with size 2");
    expect_error(tpo_select(x, 1, -4), "index -4 out of range for tensor of size [2, 3] at dimension 1");
    tpi_release(x);
    tpi_release(i);
}

static void duplicates_add_up(void **state) {
    (void)state;
    tp_tensor *x = tpo_zeros(TP_INTS(3), TP_FLOAT32, cpu), *i = LONGS(TP_INTS(5), 0, 2, 0, 0, 2),
              *v = FLOATS(TP_INTS(5), 1, 2, 3, 4, 5);
    EXPECT(tpo_index_put(x, TP_LIST(i), v, true), TP_INTS(3), 8, 0, 7);
    EXPECT(tpo_scatter_add(x, 0, i, v), TP_INTS(3), 8, 0, 7);
    EXPECT(tpo_index_add(x, 0, i, v, tp_float(0.5)), TP_INTS(3), 4, 0, 3.5f);
    EXPECT(tpo_scatter_reduce(x, 0, i, v, "amax", false), TP_INTS(3), 4, 0, 5);
    EXPECT(tpo_scatter_reduce(x, 0, i, v, "mean", false), TP_INTS(3), 8.0f / 3, 0, 3.5f);
    tpi_release(x);
    tpi_release(i);
    tpi_release(v);
}

static void writing_a_tensor_into_itself_is_refused(void **state) {
    (void)state;
    tp_tensor *x = counting(TP_INTS(4)), *i = LONGS(TP_INTS(4), 3, 2, 1, 0);
    expect_error(tpo_index_put_(x, TP_LIST(i), x, false), "refer to a single memory location");
    expect_error(tpo_scatter_(x, 0, i, x), "refer to a single memory location");
    expect_error(tpo_scatter_(i, 0, i, i), "refer to a single memory location");
    EXPECT(x, TP_INTS(4), 0, 1, 2, 3);
    tpi_release(i);
}

/* ---- Joining ---- */

static void cat_promotes_and_skips_empty_vectors(void **state) {
    (void)state;
    tp_tensor *a = LONGS(TP_INTS(1, 2), 1, 2), *b = FLOATS(TP_INTS(1, 2), 0.5f, -1),
              *none = tpi_empty(TP_INTS(0), TP_FLOAT32, cpu);
    EXPECT(tpo_cat(TP_LIST(a, none, b), 0), TP_INTS(2, 2), 1, 2, 0.5f, -1);
    EXPECT(tpo_cat(TP_LIST(a, b), -1), TP_INTS(1, 4), 1, 2, 0.5f, -1);
    tpi_release(a);
    tpi_release(b);
    tpi_release(none);
}

static void long_rows_cross_chunks(void **state) {
    (void)state;
    tp_tensor *a = counting(TP_INTS(7, 50001)), *b = counting(TP_INTS(7, 3)), *c = tpo_cat(TP_LIST(b, a, b), 1);
    assert_shape(c, TP_INTS(7, 50007));
    for (int64_t r = 0; r < 7; r++)
        for (int64_t k = 0; k < 50007; k++) {
            float want = k < 3       ? (float)(r * 3 + k)
                         : k < 50004 ? (float)(r * 50001 + k - 3)
                                     : (float)(r * 3 + k - 50004);
            if (((float *)c->data)[r * 50007 + k] != want)
                fail_msg("row %lld, column %lld", (long long)r, (long long)k);
        }
    tpi_release(a);
    tpi_release(b);
    tpi_release(c);
}

/* ---- Sorting ---- */

static void sorting_is_stable_and_puts_nan_last(void **state) {
    (void)state;
    tp_tensor *x = FLOATS(TP_INTS(7), 2, NAN, 1, 2, -INFINITY, -0.0f, 0.0f), *out[2];
    assert_true(tpo_sort(x, -1, false, true, out));
    EXPECT(out[0], TP_INTS(7), -INFINITY, 0, 0, 1, 2, 2, NAN);
    EXPECT_LONGS(out[1], TP_INTS(7), 4, 5, 6, 2, 0, 3, 1);
    assert_true(tpo_sort(x, -1, true, true, out));
    EXPECT(out[0], TP_INTS(7), NAN, 2, 2, 1, 0, 0, -INFINITY);
    EXPECT_LONGS(out[1], TP_INTS(7), 1, 0, 3, 2, 5, 6, 4);
    assert_true(tpo_topk(x, 3, 0, true, true, out));
    EXPECT(out[0], TP_INTS(3), NAN, 2, 2);
    EXPECT_LONGS(out[1], TP_INTS(3), 1, 3, 0); /* PyTorch's choice among equal elements */
    EXPECT(tpo_median(x), ((tp_ints){NULL, 0}), NAN);
    EXPECT(tpo_nanmedian(x), ((tp_ints){NULL, 0}), 0);
    tpi_release(x);
}

static void long_rows_sort_like_short_ones(void **state) {
    (void)state;
    int64_t n = 300000; /* several chunks */
    tp_tensor *x = scattered(TP_INTS(n), TP_INT64, 1000), *out[2];
    assert_true(tpo_sort(x, 0, false, true, out));
    const int64_t *v = (const int64_t *)out[0]->data, *at = (const int64_t *)out[1]->data,
                  *from = (const int64_t *)x->data;
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(v[i], from[at[i]]);
        if (i > 0) assert_true(v[i - 1] < v[i] || (v[i - 1] == v[i] && at[i - 1] < at[i]));
    }
    tpi_release(out[0]);
    tpi_release(out[1]);
    tpi_release(x);
}

/* The first of the largest, or the first NaN, wherever it stands: in lanes, behind them, in a later piece. */
static void extremes_say_where_the_first_one_stands(void **state) {
    (void)state;
    const int64_t lengths[] = {1, 7, 31, 32, 33, 64, 100, 128, 131, 300, 4096, 4097, 9000};
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++)
        for (int64_t at = 0; at < lengths[n]; at += 1 + lengths[n] / 9)
            for (int round = 0; round < 3; round++) {
                const float least[] = {-1, -INFINITY, 5}, most[] = {2, -1, NAN};
                tp_tensor *row = tpi_empty(TP_INTS(lengths[n]), TP_FLOAT32, cpu), *found[2];
                assert_non_null(row);
                float *x = (float *)row->data;
                for (int64_t i = 0; i < lengths[n]; i++) x[i] = least[round];
                for (int64_t i = at; i < lengths[n]; i += 1 + lengths[n] / 5) x[i] = most[round]; /* and again later */
                assert_true(tpo_max_dim(row, 0, false, found));
                assert_int_equal(((int64_t *)found[1]->data)[0], at);
                assert_memory_equal(found[0]->data, &most[round], sizeof(float));
                tpi_release(row);
                tpi_release(found[0]);
                tpi_release(found[1]);
            }
    tp_tensor *nothing_larger = FLOATS(TP_INTS(3), -INFINITY, -INFINITY, -INFINITY),
              *first = tpo_argmax(nothing_larger, 0, false);
    expect_longs(first, TP_INTS(), (const int64_t[]){0});
    tpi_release(nothing_larger);
}

static void unique_counts_and_inverts(void **state) {
    (void)state;
    tp_tensor *x = LONGS(TP_INTS(2, 3), 3, 1, 3, 1, 1, 2), *out[3];
    assert_true(tpo_unique(x, true, true, true, TP_NONE, out));
    EXPECT_LONGS(out[0], TP_INTS(3), 1, 2, 3);
    EXPECT_LONGS(out[1], TP_INTS(2, 3), 2, 0, 2, 0, 0, 1);
    EXPECT_LONGS(out[2], TP_INTS(3), 3, 1, 2);
    tpi_release(x);
}

/* ---- The same bits on any number of threads ---- */

enum { CASES = 8 };
static tp_tensor *threaded_case(int which, tp_tensor *x, tp_tensor *index, tp_tensor *wide) {
    tp_tensor *out[2] = {NULL, NULL};
    switch (which) {
    case 0: return tpo_index_add(x, 0, index, wide, tp_int(1));
    case 1: return tpo_index_put(x, TP_LIST(index), wide, true);
    case 2: return tpo_index_put(x, TP_LIST(index), wide, false);
    case 3: return tpo_index_select(x, 0, index);
    case 4: tpo_sort(wide, 0, true, false, out); break;
    case 5: tpo_topk(wide, 40, 0, true, true, out); break;
    case 6: return tpo_flip(wide, TP_INTS(0, 1));
    default: return tpo_cat(TP_LIST(x, wide, x), 0);
    }
    tpi_release(out[1]);
    return out[0];
}

static void thread_counts_do_not_show(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 3, 7};
    tp_tensor *x = scattered(TP_INTS(50, 700), TP_FLOAT32, 0), *index = scattered(TP_INTS(900), TP_INT64, 50),
              *wide = scattered(TP_INTS(900, 700), TP_FLOAT32, 0);
    for (int which = 0; which < CASES; which++) {
        tp_tensor *first = NULL;
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            tp_set_num_threads(counts[k]);
            tp_tensor *got = threaded_case(which, x, index, wide);
            if (!got) fail_msg("case %d: %s", which, tp_error());
            if (first && memcmp(first->data, got->data, (size_t)got->numel * tpi_itemsize(got)) != 0)
                fail_msg("case %d differs with %d threads", which, counts[k]);
            if (first)
                tpi_release(got);
            else
                first = got;
        }
        tpi_release(first);
    }
    tp_set_num_threads(0);
    tpi_release(x);
    tpi_release(index);
    tpi_release(wide);
}

/* ---- Memory that runs out ---- */

#define LAST_CALL 13

/* One call of each kind; false if it failed. */
static bool call_one(int which, tp_tensor *x, tp_tensor *index, tp_tensor *mask) {
    tp_tensor *out[3] = {NULL, NULL, NULL};
    tp_tensors list = {NULL, 0};
    bool ok = true;
    switch (which) {
    case 0: out[0] = tpo_index(x, TP_LIST(index)); break;
    case 1: out[0] = tpo_cat(TP_LIST(x, x), 1); break;
    case 2: out[0] = tpo_masked_select(x, mask); break;
    case 3: out[0] = tpo_repeat(x, TP_INTS(2, 2)); break;
    case 4: out[0] = tpo_nonzero(x); break;
    case 5: out[0] = tpo_roll(x, TP_INTS(1), TP_INTS(0)); break;
    case 6: out[0] = tpo_as_strided_scatter(x, x, TP_INTS(2, 3), TP_INTS(3, 1), 0); break;
    case 7: out[0] = tpo_index_put(x, TP_LIST(index), x, false); break;
    case 8: ok = tpo_sort(x, 0, false, false, out); break;
    case 9: ok = tpo_unique(x, true, true, true, TP_NONE, out); break;
    case 10: ok = tpo_unique_dim(x, 1, true, true, true, out); break;
    case 11:
        list = tpo_split(x, 1, 0);
        ok = list.v != NULL;
        break;
    case 12: out[0] = tpo_quantile_scalar(x, 0.3, 0, false, "linear"); break;
    default: out[0] = tpo_histc(x, 4, tp_int(0), tp_int(0)); break;
    }
    if (which < 8 || which > 11) ok = out[0] != NULL;
    for (int i = 0; i < 3; i++) tpi_release(out[i]);
    if (list.v) tpi_release_list(list);
    return ok;
}

static void edges_answer_as_pytorch_does(void **state) {
    (void)state;
    tp_tensor *x = counting(TP_INTS(2, 3)), *row = counting(TP_INTS(3)), *index = LONGS(TP_INTS(1, 2), -1, 0),
              *mask = tpo_gt(x, tp_operand_double(1.5));
    expect_floats(tpo_take_along_dim(x, index, 1), TP_INTS(2, 2), (const float[]){2, 0, 5, 3});
    expect_floats(tpo_masked_scatter(row, mask, x), TP_INTS(2, 3),
                  (const float[]){0, 1, 0, 1, 2, 3}); /* self takes the mask's shape */
    assert_null(tpo_masked_scatter_(row, mask, x));
    assert_non_null(strstr(tp_error(), "the result's shape [2, 3] does not fit the tensor's shape [3]"));
    tp_error_clear();
    expect_floats(tpo_diff(x, 0, 0, x, x), TP_INTS(2, 3),
                  (const float[]){0, 1, 2, 3, 4, 5}); /* no difference, so nothing is joined */
    tp_tensor *two = FLOATS(TP_INTS(2), 2, 2), *counts[2];
    assert_true(tpo_histogram(two, 2, tp_no_floats(), NULL, false, counts));
    expect_floats(counts[0], TP_INTS(2), (const float[]){0, 2});
    expect_floats(counts[1], TP_INTS(3), (const float[]){1.5f, 2, 2.5f});
    tpi_release(x);
    tpi_release(row);
    tpi_release(index);
    tpi_release(mask);
    tpi_release(two);
}

static void failing_allocations_leave_nothing_behind(void **state) {
    (void)state;
    tp_tensor *x = FLOATS(TP_INTS(2, 3), 3, 1, 2, 3, 0, -1), *index = LONGS(TP_INTS(2), 1, 0), *mask = NULL;
    mask = tpo_gt(x, tp_operand_double(-5));
    for (int which = 0; which <= LAST_CALL; which++) {
        assert_true(call_one(which, x, index, mask));
        int64_t live = tpi_alloc_live();
        for (int64_t nth = 1;; nth++) {
            tpi_alloc_fail_at(nth, false);
            bool ok = call_one(which, x, index, mask);
            tpi_alloc_fail_at(0, false);
            if (!ok && tp_ok())
                fail_msg("call %d failed without an error when allocation %lld did", which, (long long)nth);
            if (tpi_alloc_live() != live) fail_msg("call %d leaks when allocation %lld fails", which, (long long)nth);
            bool done = ok && tp_ok();
            tp_error_clear();
            if (done) break;
        }
    }
    tpi_release(x);
    tpi_release(index);
    tpi_release(mask);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, remember_live, nothing_left)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_largest_and_the_smallest_keep_nan),
        TEST(elements_of_every_size_are_picked),
        TEST(indices_side_by_side_stay_in_place),
        TEST(indices_apart_come_first),
        TEST(masks_pick_where_they_are_true),
        TEST(index_errors_name_index_dim_and_size),
        TEST(duplicates_add_up),
        TEST(writing_a_tensor_into_itself_is_refused),
        TEST(cat_promotes_and_skips_empty_vectors),
        TEST(long_rows_cross_chunks),
        TEST(sorting_is_stable_and_puts_nan_last),
        TEST(long_rows_sort_like_short_ones),
        TEST(extremes_say_where_the_first_one_stands),
        TEST(unique_counts_and_inverts),
        TEST(thread_counts_do_not_show),
        TEST(edges_answer_as_pytorch_does),
        TEST(failing_allocations_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
