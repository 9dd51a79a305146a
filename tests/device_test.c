/* The drivers of maps, folds, scans and copies against one element at a time: dtypes, strides, broadcasting, tails,
 * overlap, empty and zero-dimensional shapes, and the same bits on any number of threads. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "kernels_fixture.h"

static const tp_device cpu = {TP_CPU, 0};

/* ---- Elements by row-major position ---- */
static char *element(const tp_tensor *t, int64_t at) {
    char *p = t->data;
    for (int d = t->ndim - 1; d >= 0; d--) {
        p += at % t->shape[d] * t->strides[d] * (int64_t)tpi_itemsize(t);
        at /= t->shape[d];
    }
    return p;
}
static double value(const tp_tensor *t, int64_t at) {
    return tp_scalar_to_double(tpi_load_scalar(element(t, at), (tp_dtype)t->dtype));
}
static void put(tp_tensor *t, int64_t at, double v) {
    tpi_store_scalar(element(t, at), (tp_dtype)t->dtype, tp_float(v));
}

static double rounded(double v, tp_dtype dtype) {
    char bytes[16];
    tpi_store_scalar(bytes, dtype, tp_float(v));
    return tp_scalar_to_double(tpi_load_scalar(bytes, dtype));
}

/* Small whole numbers, exact in every dtype. */
static double pattern(int64_t i) { return (double)(i * 7 % 11); }
static tp_tensor *ramp(tp_ints shape, tp_dtype dtype) {
    tp_tensor *t = tpi_empty(shape, dtype, cpu);
    assert_non_null(t);
    for (int64_t i = 0; i < t->numel; i++) put(t, i, pattern(i));
    return t;
}
static tp_tensor *noise(tp_ints shape) {
    tp_tensor *t = tpi_empty(shape, TP_FLOAT32, cpu);
    uint32_t u = 12345;
    for (int64_t i = 0; i < t->numel; i++)
        ((float *)t->data)[i] = (float)((u = u * 1664525u + 1013904223u) >> 8) / 16777216.0f - 0.3f;
    return t;
}
static tp_tensor *transposed(tp_tensor *t) { /* two dims; consumes t */
    tp_tensor *v = tpi_alias(t, 2, (int64_t[]){t->shape[1], t->shape[0]}, (int64_t[]){t->strides[1], t->strides[0]},
                             tpi_offset(t));
    tpi_release(t);
    return v;
}
static tp_tensor *every_second(tp_tensor *t) { /* of the last dim; consumes t */
    int64_t shape[TP_MAX_DIMS], strides[TP_MAX_DIMS];
    for (int d = 0; d < t->ndim; d++) {
        shape[d] = t->shape[d];
        strides[d] = t->strides[d];
    }
    shape[t->ndim - 1] /= 2;
    strides[t->ndim - 1] *= 2;
    tp_tensor *v = tpi_alias(t, t->ndim, shape, strides, tpi_offset(t));
    tpi_release(t);
    return v;
}
static void assert_failed(const char *words) {
    assert_false(tp_ok());
    if (!strstr(tp_error(), words)) fail_msg("expected an error with '%s', got '%s'", words, tp_error());
    tp_error_clear();
}

static tp_tensor *add(tp_tensor *a, tp_tensor *b) {
    return tpi_run_map(&op_add, NULL, (tp_operand[]){tp_operand_tensor(a), tp_operand_tensor(b)}, NULL);
}

/* ---- Maps ---- */
static void check_add(tp_tensor *a, tp_tensor *b, tp_dtype expected) { /* same shapes */
    tp_tensor *c = add(a, b);
    assert_non_null(c);
    assert_int_equal(c->dtype, expected);
    for (int64_t i = 0; i < c->numel; i++) {
        double sum = value(a, i) + value(b, i);
        assert_true(value(c, i) == (expected == TP_BOOL ? sum != 0 : sum));
    }
    tpi_release(a);
    tpi_release(b);
    tpi_release(c);
}

static void map_takes_every_dtype_and_length(void **s) {
    (void)s;
    static const int64_t lengths[] = {0, 1, 2, 15, 16, 17, 100, 1023, 1040, 5000};
    for (int d = TP_BOOL; d <= TP_COMPLEX128; d++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            check_add(ramp(TP_INTS(lengths[l]), (tp_dtype)d), ramp(TP_INTS(lengths[l]), (tp_dtype)d), (tp_dtype)d);
            check_add(every_second(ramp(TP_INTS(2 * lengths[l]), (tp_dtype)d)), ramp(TP_INTS(lengths[l]), TP_FLOAT32),
                      tp_promote_types((tp_dtype)d, TP_FLOAT32));
        }
}

static void map_takes_strided_and_short_rows(void **s) {
    (void)s;
    for (int d = TP_BOOL; d <= TP_COMPLEX128; d++) {
        check_add(transposed(ramp(TP_INTS(37, 53), (tp_dtype)d)), ramp(TP_INTS(53, 37), (tp_dtype)d), (tp_dtype)d);
        check_add(every_second(ramp(TP_INTS(900, 6), (tp_dtype)d)), ramp(TP_INTS(900, 3), (tp_dtype)d), (tp_dtype)d);
        check_add(every_second(ramp(TP_INTS(5, 700), (tp_dtype)d)), transposed(ramp(TP_INTS(350, 5), (tp_dtype)d)),
                  (tp_dtype)d);
    }
    check_add(every_second(ramp(TP_INTS(7, 5, 3, 4), TP_FLOAT32)), every_second(ramp(TP_INTS(7, 5, 3, 4), TP_INT16)),
              TP_FLOAT32);
}

static void map_broadcasts(void **s) {
    (void)s;
    static const int64_t widths[] = {1, 3, 300, 2000};
    for (size_t w = 0; w < 4; w++) {
        int64_t n = widths[w];
        tp_tensor *a = ramp(TP_INTS(70, 1), TP_FLOAT32), *b = ramp(TP_INTS(n), TP_FLOAT64), *c = add(a, b);
        assert_int_equal(c->dtype, TP_FLOAT64);
        assert_int_equal(c->numel, 70 * n);
        for (int64_t i = 0; i < c->numel; i++) assert_true(value(c, i) == pattern(i / n) + pattern(i % n));
        tpi_release(a);
        tpi_release(b);
        tpi_release(c);
    }
    tp_tensor *a = ramp(TP_INTS(2, 3), TP_FLOAT32), *b = ramp(TP_INTS(4), TP_FLOAT32);
    assert_null(add(a, b));
    assert_failed("3");
    tpi_release(a);
    tpi_release(b);
}

static void map_takes_numbers(void **s) {
    (void)s;
    tp_tensor *a = ramp(TP_INTS(3000), TP_INT32), *zero_dim = ramp(tp_ints_view((int64_t[]){0}, 0), TP_FLOAT64);
    tp_tensor *b = tpi_run_map(&op_add, NULL, (tp_operand[]){tp_operand_int(5), tp_operand_tensor(a)}, NULL);
    assert_int_equal(b->dtype, TP_INT32);
    tp_tensor *c = tpi_run_map(&op_add, NULL, (tp_operand[]){tp_operand_tensor(a), tp_operand_double(0.5)}, NULL);
    assert_int_equal(c->dtype, TP_FLOAT32);
    for (int64_t i = 0; i < a->numel; i++)
        assert_true(value(b, i) == pattern(i) + 5 && value(c, i) == pattern(i) + 0.5);
    tp_tensor *d = add(c, zero_dim); /* a zero-dimensional float64 does not raise float32 */
    assert_int_equal(d->dtype, TP_FLOAT32);
    tp_tensor *e = tpi_run_map(&op_add, NULL, (tp_operand[]){tp_operand_int(2), tp_operand_int(3)}, NULL);
    assert_int_equal(e->dtype, TP_INT64);
    assert_true(e->ndim == 0);
    assert_true(value(e, 0) == 5);
    tp_tensor *f =
        tpi_run_map(&op_scale, NULL, (tp_operand[]){tp_operand_tensor(a)}, (tp_scalar[]){tp_float(0.5), tp_int(3)});
    assert_true(f->dtype == TP_FLOAT32);
    assert_true(value(f, 9) == pattern(9) * 0.5 + 3);
    tpi_release(a);
    tpi_release(b);
    tpi_release(c);
    tpi_release(d);
    tpi_release(e);
    tpi_release(f);
    tpi_release(zero_dim);
    assert_null(tpi_run_map(&op_add, NULL, (tp_operand[]){tp_operand_tensor(NULL), tp_operand_int(3)}, NULL));
    assert_failed("NULL");
}

static void map_results_of_other_types(void **s) {
    (void)s;
    tp_tensor *a = ramp(TP_INTS(40, 50), TP_BFLOAT16), *b = ramp(TP_INTS(50), TP_INT64);
    tp_tensor *less = tpi_run_map(&op_lt, NULL, (tp_operand[]){tp_operand_tensor(a), tp_operand_tensor(b)}, NULL);
    assert_int_equal(less->dtype, TP_BOOL);
    for (int64_t i = 0; i < less->numel; i++) assert_true(value(less, i) == (value(a, i) < value(b, i % 50)));
    tp_tensor *chosen = tpi_run_map(
        &op_where, NULL, (tp_operand[]){tp_operand_tensor(less), tp_operand_tensor(a), tp_operand_double(-1)}, NULL);
    assert_int_equal(chosen->dtype, TP_BFLOAT16);
    for (int64_t i = 0; i < less->numel; i++) assert_true(value(chosen, i) == (value(less, i) ? value(a, i) : -1));
    assert_null(tpi_run_map(&op_where, NULL,
                            (tp_operand[]){tp_operand_tensor(b), tp_operand_tensor(a), tp_operand_tensor(a)}, NULL));
    assert_failed("expected a tensor of dtype bool, got int64");
    tp_tensor *z = tpi_empty(TP_INTS(33), TP_COMPLEX64, cpu);
    for (int i = 0; i < 33; i++) ((tpi_c64 *)z->data)[i] = (tpi_c64){3.0f * (float)i, -4.0f * (float)i};
    tp_tensor *m = tpi_run_map(&op_abs, NULL, (tp_operand[]){tp_operand_tensor(z)}, NULL);
    assert_int_equal(m->dtype, TP_FLOAT32);
    for (int i = 0; i < 33; i++) assert_true(value(m, i) == 5.0 * i);
    assert_null(tpi_run_map(&op_exp, NULL, (tp_operand[]){tp_operand_tensor(z)}, NULL));
    assert_failed("\"exp_cpu\" not implemented for 'ComplexFloat': expected floating point tensors, got complex64");
    tp_tensor *e = tpi_run_map(&op_exp, NULL, (tp_operand[]){tp_operand_tensor(b)}, NULL);
    assert_true(e->dtype == TP_FLOAT32);
    assert_true(value(e, 0) == 1);
    tpi_release(a);
    tpi_release(b);
    tpi_release(less);
    tpi_release(chosen);
    tpi_release(z);
    tpi_release(m);
    tpi_release(e);
}

static tp_tensor *add_into(tp_tensor *out, tp_tensor *a, tp_tensor *b) {
    return tpi_run_map(&op_add, out, (tp_operand[]){tp_operand_tensor(a), tp_operand_tensor(b)}, NULL);
}

static void map_writes_in_place(void **s) {
    (void)s;
    tp_tensor *a = ramp(TP_INTS(70, 80), TP_FLOAT32), *b = ramp(TP_INTS(80), TP_INT32),
              *half = ramp(TP_INTS(70, 80), TP_FLOAT16);
    tp_tensor *r = add_into(a, a, b);
    assert_ptr_equal(r, a);
    tpi_release(r);
    for (int64_t i = 0; i < a->numel; i++) assert_true(value(a, i) == pattern(i) + pattern(i % 80));
    tpi_release(add_into(half, half, b));
    for (int64_t i = 0; i < a->numel; i++) assert_true(value(half, i) == pattern(i) + pattern(i % 80));
    assert_null(add_into(b, a, b));
    assert_failed("result type Float can't be cast to the desired output type Int");
    assert_null(add_into(b, b, half));
    assert_failed("can't be cast");
    tp_tensor *row = ramp(TP_INTS(80), TP_FLOAT32), *fresh = tpi_empty(TP_INTS(0), TP_FLOAT32, cpu);
    assert_null(add_into(row, row, a));
    assert_failed("output with shape [80] doesn't match the broadcast shape [70, 80]");
    tpi_release(add_into(fresh, row, a));
    assert_int_equal(fresh->numel, 5600);
    tp_tensor *wide = tpi_alias(row, 2, (int64_t[]){70, 80}, (int64_t[]){0, 1}, 0);
    assert_null(add_into(wide, wide, a));
    assert_failed("single memory location");
    tpi_release(a);
    tpi_release(b);
    tpi_release(half);
    tpi_release(row);
    tpi_release(fresh);
    tpi_release(wide);
}

static void map_reads_what_it_overwrites_first(void **s) {
    (void)s;
    tp_tensor *all = ramp(TP_INTS(5001), TP_FLOAT64);
    tp_tensor *front = tpi_alias(all, 1, (int64_t[]){2499}, (int64_t[]){2}, 0),
              *back = tpi_alias(all, 1, (int64_t[]){2499}, (int64_t[]){2}, 2);
    tpi_release(add_into(back, back, front));
    for (int64_t i = 0; i < 2499; i++) assert_true(value(back, i) == pattern(2 * i + 2) + pattern(2 * i));
    tpi_release(all);
    tpi_release(front);
    tpi_release(back);
}

/* As PyTorch: where no gap leaves a doubt. */
static void map_refuses_to_overwrite_what_it_reads(void **s) {
    (void)s;
    tp_tensor *all = ramp(TP_INTS(5001), TP_FLOAT64);
    tp_tensor *front = tpi_alias(all, 1, (int64_t[]){5000}, (int64_t[]){1}, 0),
              *back = tpi_alias(all, 1, (int64_t[]){5000}, (int64_t[]){1}, 1);
    assert_null(add_into(back, back, front));
    assert_failed("some elements of the input tensor and the written-to tensor refer to a single memory location");
    tp_tensor *square = ramp(TP_INTS(90, 90), TP_FLOAT32), *swapped = transposed(tpi_retain(square));
    assert_null(add_into(square, square, swapped));
    assert_failed("some elements of the input tensor");
    for (int64_t i = 0; i < 5000; i++) assert_true(value(back, i) == pattern(i + 1));
    for (int64_t i = 0; i < 8100; i++) assert_true(value(square, i) == pattern(i));
    tpi_release(all);
    tpi_release(front);
    tpi_release(back);
    tpi_release(square);
    tpi_release(swapped);
}

static void map_keeps_the_stride_order(void **s) {
    (void)s;
    tp_tensor *last = tpi_empty_layout(TP_INTS(2, 3, 4, 5), TP_FLOAT32, cpu, TP_CHANNELS_LAST),
              *bias = ramp(TP_INTS(3, 1, 1), TP_FLOAT32);
    tpi_fill_data(last, tp_int(2));
    tp_tensor *r = add(last, bias),
              *lt = tpi_run_map(&op_lt, NULL, (tp_operand[]){tp_operand_tensor(last), tp_operand_int(3)}, NULL);
    assert_true(tp_is_contiguous_as(r, TP_CHANNELS_LAST));
    assert_true(tp_is_contiguous_as(lt, TP_CHANNELS_LAST));
    for (int64_t i = 0; i < r->numel; i++) assert_true(value(r, i) == 2 + pattern(i / 20 % 3) && value(lt, i) == 1);
    tpi_release(last);
    tpi_release(bias);
    tpi_release(r);
    tpi_release(lt);
}

/* A value does not depend on where it stands: not in a block, not in a tail. */
static void map_values_do_not_depend_on_place(void **s) {
    (void)s;
    tp_tensor *x = tpi_empty(TP_INTS(1037), TP_FLOAT32, cpu);
    tpi_fill_data(x, tp_float(0.7));
    tp_tensor *e = tpi_run_map(&op_exp, NULL, (tp_operand[]){tp_operand_tensor(x)}, NULL);
    for (int64_t i = 1; i < e->numel; i++) assert_memory_equal(element(e, 0), element(e, i), 4);
    tpi_release(x);
    tpi_release(e);
}

/* ---- Folds ---- */
/* max and sum of x over the dims, one element at a time. */
static void check_fold(tp_tensor *x, tp_ints dims, bool keepdim) {
    bool reduced[TP_MAX_DIMS];
    assert_true(tpi_wrap_dims(dims, x->ndim, reduced));
    tp_tensor *sum, *max[2];
    assert_true(tpi_run_fold(&op_sum, &sum, x, dims, keepdim, TP_NO_DTYPE, NULL));
    assert_true(tpi_run_fold(&op_max, max, x, dims, keepdim, TP_NO_DTYPE, NULL));
    assert_int_equal(sum->dtype, tpi_dtype_category[x->dtype] & (TPI_CAT_INT | TPI_CAT_BOOL) ? TP_INT64 : x->dtype);
    assert_int_equal(max[0]->dtype, x->dtype);
    assert_int_equal(max[1]->dtype, TP_INT64);
    double *sums = tpi_malloc((size_t)(sum->numel + 1) * sizeof *sums),
           *best = tpi_malloc((size_t)(sum->numel + 1) * sizeof *best);
    int64_t *seen = tpi_malloc((size_t)(sum->numel + 1) * sizeof *seen),
            *where = tpi_malloc((size_t)(sum->numel + 1) * sizeof *where);
    for (int64_t i = 0; i < sum->numel; i++) {
        sums[i] = 0;
        best[i] = -INFINITY;
        seen[i] = 0;
        where[i] = -1;
    }
    for (int64_t i = 0; i < x->numel; i++) {
        int64_t out = 0, step = 1, rest = i;
        for (int d = x->ndim - 1; d >= 0; d--) {
            if (!reduced[d]) {
                out += rest % x->shape[d] * step;
                step *= x->shape[d];
            }
            rest /= x->shape[d];
        }
        double v = value(x, i);
        sums[out] += v;
        if (v > best[out]) {
            best[out] = v;
            where[out] = seen[out];
        }
        seen[out]++;
    }
    for (int64_t i = 0; i < sum->numel; i++) {
        assert_true(value(sum, i) == rounded(sums[i], (tp_dtype)sum->dtype));
        assert_true(value(max[0], i) == best[i]);
        assert_true(value(max[1], i) == (double)where[i]);
    }
    tpi_mfree(sums);
    tpi_mfree(best);
    tpi_mfree(seen);
    tpi_mfree(where);
    tpi_release(sum);
    tpi_release(max[0]);
    tpi_release(max[1]);
    tpi_release(x);
}

static void fold_takes_every_dtype_and_dim(void **s) {
    (void)s;
    for (int d = TP_BOOL; d < TP_COMPLEX64; d++) {
        tp_dtype t = (tp_dtype)d;
        check_fold(ramp(TP_INTS(6, 7, 5), t), tp_no_ints(), false);
        check_fold(ramp(TP_INTS(6, 7, 5), t), TP_INTS(-1), true);
        check_fold(ramp(TP_INTS(6, 7, 5), t), TP_INTS(1), false);
        check_fold(ramp(TP_INTS(6, 7, 5), t), TP_INTS(0, 2), true);
        check_fold(ramp(TP_INTS(3, 5, 40), t), TP_INTS(0, 1), false);
        check_fold(transposed(ramp(TP_INTS(40, 30), t)), TP_INTS(0), false);
        check_fold(every_second(ramp(TP_INTS(20, 60), t)), TP_INTS(1), false);
        check_fold(every_second(ramp(TP_INTS(20, 60), t)), TP_INTS(0), false);
    }
}

static void fold_takes_long_and_odd_shapes(void **s) {
    (void)s;
    check_fold(ramp(tp_ints_view((int64_t[]){0}, 0), TP_FLOAT32), tp_no_ints(), false);
    check_fold(ramp(tp_ints_view((int64_t[]){0}, 0), TP_FLOAT32), TP_INTS(0), true);
    check_fold(ramp(TP_INTS(0, 3), TP_FLOAT32), TP_INTS(1), false);
    check_fold(ramp(TP_INTS(100003), TP_FLOAT64), tp_no_ints(), false);
    check_fold(ramp(TP_INTS(3, 50000), TP_FLOAT64), TP_INTS(1), false);
    check_fold(ramp(TP_INTS(50000, 3), TP_INT32), TP_INTS(0), false);
    check_fold(ramp(TP_INTS(20000, 3), TP_FLOAT64), TP_INTS(1), false);
    check_fold(ramp(TP_INTS(3000, 20), TP_FLOAT64), TP_INTS(0), false);
    check_fold(ramp(TP_INTS(600, 3, 20), TP_FLOAT64), TP_INTS(0), true);
    check_fold(ramp(TP_INTS(3, 700, 1100), TP_INT64), TP_INTS(0), false);
    check_fold(ramp(TP_INTS(9, 700, 20), TP_INT64), TP_INTS(1), false);
    check_fold(transposed(ramp(TP_INTS(300, 700), TP_FLOAT64)), tp_no_ints(), false);
    check_fold(every_second(ramp(TP_INTS(700, 30), TP_FLOAT64)), tp_no_ints(), false);
}

static void fold_over_nothing(void **s) {
    (void)s;
    tp_tensor *x = ramp(TP_INTS(2, 0), TP_FLOAT32), *sum, *max[2];
    assert_true(tpi_run_fold(&op_sum, &sum, x, TP_INTS(1), false, TP_NO_DTYPE, NULL));
    assert_true(sum->numel == 2);
    assert_true(value(sum, 0) == 0);
    assert_true(value(sum, 1) == 0);
    assert_false(tpi_run_fold(&op_max, max, x, TP_INTS(1), false, TP_NO_DTYPE, NULL));
    assert_failed("reduction dim 1 to have non-zero size");
    assert_false(tpi_run_fold(&op_max, max, x, tp_no_ints(), false, TP_NO_DTYPE, NULL));
    assert_failed("numel() == 0");
    assert_false(tpi_run_fold(&op_sum, &sum, x, TP_INTS(2), false, TP_NO_DTYPE, NULL));
    assert_failed("2");
    assert_false(tpi_run_fold(&op_sum, &sum, NULL, TP_INTS(2), false, TP_NO_DTYPE, NULL));
    assert_failed("NULL");
    tpi_release(sum);
    tpi_release(x);
}

static void fold_computes_in_the_asked_dtype(void **s) {
    (void)s;
    tp_tensor *x = tpi_empty(TP_INTS(1000), TP_FLOAT32, cpu), *sum;
    tpi_fill_data(x, tp_float(1.75));
    assert_true(tpi_run_fold(&op_sum, &sum, x, tp_no_ints(), false, TP_FLOAT64, NULL));
    assert_true(sum->dtype == TP_FLOAT64);
    assert_true(value(sum, 0) == 1750);
    tpi_release(sum);
    assert_true(tpi_run_fold(&op_sum, &sum, x, tp_no_ints(), false, TP_INT32, NULL)); /* converts before it adds */
    assert_true(sum->dtype == TP_INT32);
    assert_true(value(sum, 0) == 1000);
    tpi_release(sum);
    assert_true(tpi_run_fold(&op_sum, &sum, x, tp_no_ints(), false, TP_UINT8, NULL));
    assert_true(sum->dtype == TP_UINT8);
    assert_true(value(sum, 0) == 1000 % 256);
    tpi_release(sum);
    tpi_release(x);
}

/* ---- Scans ---- */
static void check_scan(tp_tensor *x, int dim) {
    tp_tensor *y;
    assert_true(tpi_run_scan(&op_cumsum, &y, x, dim, TP_NO_DTYPE, NULL));
    assert_int_equal(y->dtype, tpi_dtype_category[x->dtype] & (TPI_CAT_INT | TPI_CAT_BOOL) ? TP_INT64 : x->dtype);
    assert_true(tpi_same_shape(x, y));
    int64_t step = 1, length = x->ndim ? x->shape[dim] : 1;
    for (int d = dim + 1; d < x->ndim; d++) step *= x->shape[d];
    for (int64_t i = 0; i < x->numel; i++) {
        double before = i / step % length ? value(y, i - step) : 0;
        assert_true(value(y, i) == before + value(x, i));
    }
    tpi_release(x);
    tpi_release(y);
}

static void scan_takes_every_dtype_and_dim(void **s) {
    (void)s;
    for (int d = TP_BOOL; d < TP_COMPLEX64; d++)
        for (int dim = 0; dim < 3; dim++) check_scan(ramp(TP_INTS(6, 7, 5), (tp_dtype)d), dim);
    check_scan(ramp(tp_ints_view((int64_t[]){0}, 0), TP_FLOAT32), 0);
    check_scan(ramp(TP_INTS(3, 0), TP_FLOAT32), 1);
    check_scan(ramp(TP_INTS(200, 40), TP_FLOAT32), 0);
    check_scan(ramp(TP_INTS(2000, 600), TP_INT32), 0);
    check_scan(transposed(ramp(TP_INTS(200, 40), TP_FLOAT32)), 0);
    check_scan(ramp(TP_INTS(100001), TP_FLOAT64), 0);
    check_scan(ramp(TP_INTS(2, 50000), TP_FLOAT64), 1);
    check_scan(ramp(TP_INTS(50000, 2), TP_INT64), 0);
    check_scan(every_second(ramp(TP_INTS(50, 64), TP_INT8)), 1);
}

/* ---- Copies ---- */
static void copies_convert_between_all_dtypes(void **s) {
    (void)s;
    tp_tensor *opaque = tpi_empty(TP_INTS(3), TP_UINT4, cpu), *bytes = ramp(TP_INTS(3), TP_UINT8);
    assert_false(tpi_copy_data(opaque, bytes));
    assert_failed("\"copy_\" not implemented for 'UInt4'");
    tpi_release(opaque);
    tpi_release(bytes);
    for (int from = TP_BOOL; from <= TP_BCOMPLEX32; from++)
        for (int to = TP_BOOL; to <= TP_BCOMPLEX32; to++)
            for (int shape = 0; shape < 3; shape++) {
                tp_tensor *x = shape == 0   ? ramp(TP_INTS(530, 3), (tp_dtype)from)
                               : shape == 1 ? transposed(ramp(TP_INTS(45, 37), (tp_dtype)from))
                                            : every_second(ramp(TP_INTS(7, 1300), (tp_dtype)from));
                tp_tensor *y = shape == 2 ? every_second(ramp(TP_INTS(7, 1300), (tp_dtype)to))
                                          : tpi_empty(tpi_shape(x), (tp_dtype)to, cpu);
                assert_true(tpi_copy_data(y, x));
                for (int64_t i = 0; i < x->numel; i++) {
                    char element[16]; /* one at a time gives the same */
                    tpi_store_scalar(element, (tp_dtype)to, tp_float(value(x, i)));
                    assert_true(value(y, i) == tp_scalar_to_double(tpi_load_scalar(element, (tp_dtype)to)));
                }
                tpi_release(x);
                tpi_release(y);
            }
}

static void copies_wrap_and_round_as_casts_do(void **s) {
    (void)s;
    tp_tensor *x = tpi_empty(TP_INTS(4), TP_FLOAT64, cpu), *bytes = tpi_as_dtype_data(x, TP_UINT8),
              *halves = tpi_as_dtype_data(x, TP_FLOAT16);
    put(x, 0, 300);
    put(x, 1, -1);
    put(x, 2, 2.99);
    put(x, 3, 1e6);
    tpi_copy_data(bytes, x);
    tpi_copy_data(halves, x);
    assert_true(value(bytes, 0) == 44);
    assert_true(value(bytes, 1) == 255);
    assert_true(value(bytes, 2) == 2);
    assert_true(value(bytes, 3) == 1000000 % 256);
    assert_true(value(halves, 0) == 300);
    assert_true(value(halves, 2) == 2.990234375);
    assert_true(isinf(value(halves, 3)));
    tpi_release(x);
    tpi_release(bytes);
    tpi_release(halves);
}

static void copies_broadcast_overlap_and_turn(void **s) {
    (void)s;
    tp_tensor *all = ramp(TP_INTS(3001), TP_INT16);
    tp_tensor *front = tpi_alias(all, 1, (int64_t[]){3000}, (int64_t[]){1}, 0),
              *back = tpi_alias(all, 1, (int64_t[]){3000}, (int64_t[]){1}, 1);
    assert_true(tpi_copy_data(back, front));
    for (int64_t i = 0; i < 3000; i++) assert_true(value(back, i) == pattern(i));
    tp_tensor *x = ramp(TP_INTS(5, 67, 131), TP_COMPLEX128);
    tp_tensor *swapped = tpi_alias(x, 3, (int64_t[]){131, 5, 67}, (int64_t[]){1, 67 * 131, 131}, 0),
              *c = tpi_contiguous_data(swapped);
    for (int64_t i = 0; i < c->numel; i++) assert_true(value(c, i) == value(swapped, i));
    tp_tensor *row = ramp(TP_INTS(131), TP_FLOAT32), *grid = tpi_empty(TP_INTS(67, 131), TP_FLOAT64, cpu);
    assert_true(tpi_copy_data(grid, row));
    for (int64_t i = 0; i < grid->numel; i++) assert_true(value(grid, i) == pattern(i % 131));
    assert_false(tpi_copy_data(row, grid));
    assert_failed("131");
    tp_tensor *seconds = every_second(tpi_retain(grid));
    assert_true(tpi_fill_data(seconds, tp_int(9)));
    for (int64_t i = 0; i < grid->numel; i++)
        assert_true(value(grid, i) == (i % 131 % 2 || i % 131 == 130 ? pattern(i % 131) : 9));
    tpi_release(all);
    tpi_release(front);
    tpi_release(back);
    tpi_release(x);
    tpi_release(swapped);
    tpi_release(c);
    tpi_release(row);
    tpi_release(grid);
    tpi_release(seconds);
}

/* Results too large for the caches are streamed past them: same values, odd sizes and offsets included. */
static void large_results_are_right(void **s) {
    (void)s;
    tp_tensor *whole = noise(TP_INTS(3001 * 3003 + 1)),
              *x = tpi_alias(whole, 2, (int64_t[]){3001, 3003}, (int64_t[]){3003, 1}, 1);
    tp_tensor *swapped = transposed(tpi_retain(x)), *c = tpi_contiguous_data(swapped),
              *wide = tpi_as_dtype_data(swapped, TP_FLOAT64);
    tp_tensor *back = tpi_empty(TP_INTS(3001 * 3003 + 3), TP_FLOAT32, cpu),
              *into = tpi_alias(back, 2, (int64_t[]){3001, 3003}, (int64_t[]){3003, 1}, 3);
    assert_true(tpi_copy_data(into, x));
    tp_tensor *twice = add(into, x), *mixed = add(c, swapped);
    for (int64_t i = 0; i < x->numel; i += i < 4000 ? 1 : 97) {
        assert_true(value(into, i) == value(x, i));
        assert_true(value(twice, i) == 2 * value(x, i));
        assert_true(value(c, i) == value(swapped, i));
        assert_true(value(wide, i) == value(swapped, i));
        assert_true(value(mixed, i) == 2 * value(swapped, i));
    }
    assert_true(tpi_fill_data(into, tp_float(0.25)));
    for (int64_t i = 0; i < x->numel; i++) assert_true(((float *)into->data)[i] == 0.25f);
    tpi_release(whole);
    tpi_release(x);
    tpi_release(swapped);
    tpi_release(c);
    tpi_release(wide);
    tpi_release(back);
    tpi_release(into);
    tpi_release(twice);
    tpi_release(mixed);
}

/* ---- Threads, memory, devices ---- */
static void assert_same_bits(tp_tensor **first, int run, tp_tensor *now) {
    if (run == 0)
        *first = now;
    else {
        assert_memory_equal((*first)->data, now->data, (size_t)now->numel * tpi_itemsize(now));
        tpi_release(now);
    }
}
static void results_do_not_depend_on_threads(void **s) {
    (void)s;
    static const int counts[] = {1, 2, 3, 7};
    tp_tensor *x = noise(TP_INTS(700, 301)), *t = transposed(noise(TP_INTS(301, 700))), *v = noise(TP_INTS(300007)),
              *first[7] = {NULL}, *now;
    for (int run = 0; run < 4; run++) {
        tp_set_num_threads(counts[run]);
        assert_same_bits(&first[0], run, add(x, t));
        for (int dim = 0; dim < 2; dim++) {
            assert_true(tpi_run_fold(&op_sum, &now, x, TP_INTS(dim), false, TP_NO_DTYPE, NULL));
            assert_same_bits(&first[1 + dim], run, now);
            assert_true(tpi_run_scan(&op_cumsum, &now, x, dim, TP_NO_DTYPE, NULL));
            assert_same_bits(&first[3 + dim], run, now);
        }
        assert_true(tpi_run_fold(&op_sum, &now, v, tp_no_ints(), false, TP_NO_DTYPE, NULL));
        assert_same_bits(&first[5], run, now);
        assert_true(tpi_run_scan(&op_cumsum, &now, v, 0, TP_NO_DTYPE, NULL));
        assert_same_bits(&first[6], run, now);
    }
    tp_set_num_threads(0);
    for (int i = 0; i < 7; i++) tpi_release(first[i]);
    tpi_release(x);
    tpi_release(t);
    tpi_release(v);
}

/* Every allocation in turn fails: an error comes back, nothing leaks, nothing changed. */
static void running_out_of_memory_is_an_error(void **s) {
    (void)s;
    tp_tensor *all = noise(TP_INTS(20001)), *sum;
    tp_tensor *front = tpi_alias(all, 1, (int64_t[]){20000}, (int64_t[]){1}, 0),
              *back = tpi_alias(all, 1, (int64_t[]){20000}, (int64_t[]){1}, 1);
    int64_t live = tpi_alloc_live();
    for (int nth = 1; nth <= 3; nth++) {
        tpi_alloc_fail_at(nth, true);
        tp_tensor *r = add(front, back), *q = add_into(back, back, front);
        bool ok = tpi_run_fold(&op_sum, &sum, all, tp_no_ints(), false, TP_NO_DTYPE, NULL);
        tpi_alloc_fail_at(0, false);
        if (nth == 1) assert_true(!r && !q && !ok && tp_error_code() == TP_ERR_MEMORY);
        if (ok) tpi_release(sum);
        tpi_release(r);
        tpi_release(q);
        tp_error_clear();
        assert_int_equal(tpi_alloc_live(), live);
    }
    tpi_release(all);
    tpi_release(front);
    tpi_release(back);
}

static void devices_are_looked_up(void **s) {
    (void)s;
    assert_string_equal(tpi_device_ops_of(cpu)->name, "cpu");
    assert_null(tpi_device_ops_of((tp_device){TP_HIP, 1}));
    assert_failed("device 'hip:1' is not available");
    assert_false(tpi_device_register(TP_TEST_DEVICE, &(tpi_device_ops){.version = 99, .name = "test"}));
    assert_failed("version 99");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_takes_every_dtype_and_length),
        cmocka_unit_test(map_takes_strided_and_short_rows),
        cmocka_unit_test(map_broadcasts),
        cmocka_unit_test(map_takes_numbers),
        cmocka_unit_test(map_results_of_other_types),
        cmocka_unit_test(map_writes_in_place),
        cmocka_unit_test(map_reads_what_it_overwrites_first),
        cmocka_unit_test(map_refuses_to_overwrite_what_it_reads),
        cmocka_unit_test(map_keeps_the_stride_order),
        cmocka_unit_test(map_values_do_not_depend_on_place),
        cmocka_unit_test(fold_takes_every_dtype_and_dim),
        cmocka_unit_test(fold_takes_long_and_odd_shapes),
        cmocka_unit_test(fold_over_nothing),
        cmocka_unit_test(fold_computes_in_the_asked_dtype),
        cmocka_unit_test(scan_takes_every_dtype_and_dim),
        cmocka_unit_test(copies_convert_between_all_dtypes),
        cmocka_unit_test(copies_wrap_and_round_as_casts_do),
        cmocka_unit_test(copies_broadcast_overlap_and_turn),
        cmocka_unit_test(large_results_are_right),
        cmocka_unit_test(results_do_not_depend_on_threads),
        cmocka_unit_test(running_out_of_memory_is_an_error),
        cmocka_unit_test(devices_are_looked_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
