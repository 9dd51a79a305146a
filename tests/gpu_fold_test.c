/* Reductions, scans and matrix products of GPUs against the CPU's: shapes, strides, dtypes, columns that are cut,
 * threads that work together, and the same bits every time. On the OpenCL device that is found, PoCL at least; skipped
 * where there is none. A CPU's compiler takes half a second for a kernel, so every form is met once, and not in every
 * dtype. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <taper/taper.h>
#include "ops/kernels.h"
#include "device/gpu/axes.h"
#include "device/gpu/program.h"
#include "ops/matmul/matmul_gpu.h"
#include "tpi_ops.h"

static const tp_device cpu = {TP_CPU, 0}, xpu = {TP_XPU, 0};

/* ---- Tensors here and there ---- */
static double value(const tp_tensor *t, int64_t i) {
    const char *p = t->data;
    for (int d = t->ndim - 1; d >= 0; i /= t->shape[d], d--)
        p += i % t->shape[d] * t->strides[d] * (int64_t)tpi_itemsize(t);
    return tp_scalar_to_double(tpi_load_scalar(p, (tp_dtype)t->dtype));
}

static tp_tensor *noise(tp_ints shape,
                        tp_dtype dtype) { /* whole numbers from -6 to 6 in quarters; 0 to 6 where there is no sign */
    tp_tensor *t = tpi_empty(shape, dtype, cpu);
    assert_non_null(t);
    bool whole = tpi_dtype_category[dtype] & (TPI_CAT_BOOL | TPI_CAT_INT);
    for (int64_t i = 0; i < t->numel; i++) {
        double v = (double)((i * 2654435761u >> 7) % 49) / 4 - 6;
        tpi_store_scalar(t->data + i * (int64_t)tpi_itemsize(t), dtype, tp_float(whole ? fabs(floor(v)) : v));
    }
    return t;
}

static tp_tensor *transposed(tp_tensor *t) { /* the last two dims swapped */
    int64_t shape[TP_MAX_DIMS], strides[TP_MAX_DIMS];
    for (int d = 0; d < t->ndim; d++) {
        int from = d == t->ndim - 1 ? d - 1 : d == t->ndim - 2 ? d + 1 : d;
        shape[d] = t->shape[from];
        strides[d] = t->strides[from];
    }
    tp_tensor *view = tpi_alias(t, t->ndim, shape, strides, tpi_offset(t));
    tpi_release(t);
    return view;
}

static tp_tensor *there(const tp_tensor *t) {
    tp_tensor *y = tpi_empty_strided(tpi_shape(t), tpi_strides(t), (tp_dtype)t->dtype, xpu);
    assert_true(y);
    assert_true(tpi_copy_data(y, t));
    return y;
}

static tp_tensor *here(tp_tensor *t) {
    if (!t) fail_msg("%s", tp_error());
    tp_tensor *y = tpi_empty(tpi_shape(t), (tp_dtype)t->dtype, cpu);
    assert_true(y);
    assert_true(tpi_copy_data(y, t));
    return y;
}

static void assert_same(const char *name, tp_tensor *want, tp_tensor *got_there, double tolerance) {
    tp_tensor *got = here(got_there);
    assert_true(want->dtype == got->dtype);
    assert_true(tpi_same_shape(want, got));
    for (int64_t i = 0; i < want->numel; i++) {
        double a = value(want, i), b = value(got, i);
        if (a != b && !(fabs(a - b) <= tolerance * (1 + fabs(a))) && !(isnan(a) && isnan(b)))
            fail_msg("%s of shape %s: element %lld is %g, expected %g", name, tpi_shape_text(tpi_shape(want)),
                     (long long)i, b, a);
    }
    tpi_release(got);
    tpi_release(got_there);
    tpi_release(want);
}

/* ---- Folds and scans ---- */
static const tpi_fold_op *fold_named(const char *name) {
    for (const tpi_family *f = tpi_families; f->maps; f++)
        for (const tpi_fold_op *const *o = f->folds; *o; o++)
            if (!strcmp((*o)->name, name)) return *o;
    fail_msg("no fold '%s'", name);
    return NULL;
}

static const tpi_scan_op *scan_named(const char *name) {
    for (const tpi_family *f = tpi_families; f->maps; f++)
        for (const tpi_scan_op *const *o = f->scans; *o; o++)
            if (!strcmp((*o)->name, name)) return *o;
    fail_msg("no scan '%s'", name);
    return NULL;
}

static void check_fold(const char *name, tp_tensor *x, tp_ints dims) {
    const tpi_fold_op *op = fold_named(name);
    tp_tensor *y = there(x), *want[4], *got[4];
    tp_scalar params[4] = {tp_float(1)};
    assert_true(tpi_run_fold(op, want, x, dims, false, TP_NO_DTYPE, params));
    if (!tpi_run_fold(op, got, y, dims, false, TP_NO_DTYPE, params)) fail_msg("%s: %s", name, tp_error());
    for (int k = 0; k < op->nout; k++) assert_same(name, want[k], got[k], 1e-5);
    tpi_release(x);
    tpi_release(y);
}

static void check_scan(const char *name, tp_tensor *x, int dim) {
    const tpi_scan_op *op = scan_named(name);
    tp_tensor *y = there(x), *want[4], *got[4];
    assert_true(tpi_run_scan(op, want, x, dim, TP_NO_DTYPE, NULL));
    if (!tpi_run_scan(op, got, y, dim, TP_NO_DTYPE, NULL)) fail_msg("%s: %s", name, tp_error());
    for (int k = 0; k < op->nout; k++) assert_same(name, want[k], got[k], 1e-5);
    tpi_release(x);
    tpi_release(y);
}

static void folds_of_every_shape(void **s) {
    (void)s;
    static const char *const names[] = {"sum", "max.dim"};
    for (int i = 0; i < 2; i++) {
        check_fold(names[i], noise(TP_INTS(64, 40), TP_FLOAT32), TP_INTS(1));  /* rows, 16 bytes at a time */
        check_fold(names[i], noise(TP_INTS(64, 41), TP_FLOAT32), TP_INTS(1));  /* rows that start anywhere */
        check_fold(names[i], noise(TP_INTS(900, 40), TP_FLOAT32), TP_INTS(0)); /* columns, cut into pieces */
        check_fold(names[i], noise(TP_INTS(3, 7), TP_FLOAT32), TP_INTS(0));
        check_fold(names[i], transposed(noise(TP_INTS(64, 40), TP_FLOAT32)), TP_INTS(0));
        check_fold(names[i], noise(TP_INTS(5, 6, 7), TP_FLOAT32), TP_INTS(1)); /* in the middle */
    }
    check_fold("sum", noise(TP_INTS(100003), TP_FLOAT32), tp_no_ints()); /* one long column, in pieces */
    check_fold("sum", noise(tp_ints_view((int64_t[]){0}, 0), TP_FLOAT32), tp_no_ints());
    check_fold("sum", noise(TP_INTS(0, 3), TP_FLOAT32), TP_INTS(0));
    check_fold("sum", transposed(noise(TP_INTS(4, 9, 6), TP_FLOAT32)), TP_INTS(0, 2)); /* two dims apart */
    tp_tensor *many = noise(TP_INTS(2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2),
                            TP_FLOAT32); /* dims, more than a kernel takes */
    check_fold("sum", many, TP_INTS(0, 2, 4, 6, 8, 10, 12, 14, 16));
}

static void folds_of_every_dtype(void **s) {
    (void)s;
    for (int d = TP_BOOL; d <= TP_UINT64; d++) check_fold("sum", noise(TP_INTS(6, 40), (tp_dtype)d), TP_INTS(1));
    check_fold("var_mean", noise(TP_INTS(6, 40), TP_FLOAT32), TP_INTS(1)); /* three variables and a parameter */
    check_fold("argmax", noise(TP_INTS(6, 40), TP_INT16), tp_no_ints());
    check_fold("all", noise(TP_INTS(6, 40), TP_UINT8), TP_INTS(1));
}

static void scans_of_every_shape(void **s) {
    (void)s;
    check_scan("cumsum", noise(TP_INTS(7, 500), TP_FLOAT32), 1);
    check_scan("cumsum", noise(TP_INTS(500, 7), TP_FLOAT32), 0);
    check_scan("cumsum", noise(TP_INTS(5, 6, 7), TP_INT8), 1);
    check_scan("cumsum", noise(tp_ints_view((int64_t[]){0}, 0), TP_BFLOAT16), 0);
    check_scan("cummax", noise(TP_INTS(7, 50), TP_FLOAT32), 1);
}

/* What a GPU runs: threads of a block that work together. */
static void threads_work_together(void **s) {
    (void)s;
    tpi_gpu_sharing_there = true;
    check_fold("sum", noise(TP_INTS(20011), TP_FLOAT32), tp_no_ints());
    check_fold("max.dim", noise(TP_INTS(64, 400), TP_FLOAT32), TP_INTS(1));
    check_fold("sum", noise(TP_INTS(900, 40), TP_FLOAT32), TP_INTS(0));
    check_scan("cumsum", noise(TP_INTS(3, 5003), TP_FLOAT32), 1);
    check_scan("cumsum", noise(TP_INTS(2, 36004), TP_FLOAT32),
               1); /* in one pass: more pieces than one row of cells, the last not full */
    check_scan("cumsum", noise(TP_INTS(900, 40), TP_FLOAT32), 0);
    tpi_gpu_sharing_there = false;
}

static void the_same_bits_every_time(void **s) {
    (void)s;
    tp_tensor *x = tpi_empty(TP_INTS(30011), TP_FLOAT32, cpu), *first = NULL;
    for (int64_t i = 0; i < x->numel; i++) ((float *)x->data)[i] = sinf((float)i) * expf((float)(i % 20));
    tp_tensor *y = there(x), *sum;
    for (int run = 0; run < 5; run++) {
        assert_true(tpi_run_fold(fold_named("sum"), &sum, y, tp_no_ints(), false, TP_NO_DTYPE, NULL));
        tp_tensor *now = here(sum);
        if (first)
            assert_memory_equal(first->data, now->data, sizeof(float));
        else
            first = tpi_retain(now);
        tpi_release(now);
        tpi_release(sum);
    }
    tpi_release(first);
    tpi_release(x);
    tpi_release(y);
}

/* ---- Products ---- */
static void check_mm(tp_tensor *a, tp_tensor *b) {
    tp_tensor *x = there(a), *y = there(b);
    assert_same("mm", tpo_mm(a, b), tpo_mm(x, y), 1e-5);
    tpi_release(a);
    tpi_release(b);
    tpi_release(x);
    tpi_release(y);
}

static void check_addmm(tp_tensor *c, tp_tensor *a, tp_tensor *b, double beta, double alpha) {
    tp_tensor *x = there(a), *y = there(b), *z = there(c);
    assert_same("addmm", tpo_addmm(c, a, b, tp_float(beta), tp_float(alpha)),
                tpo_addmm(z, x, y, tp_float(beta), tp_float(alpha)), 1e-5);
    tpi_release(a);
    tpi_release(b);
    tpi_release(c);
    tpi_release(x);
    tpi_release(y);
    tpi_release(z);
}

static void products(void **s) {
    (void)s;
    check_mm(noise(TP_INTS(33, 18), TP_FLOAT32), noise(TP_INTS(18, 21), TP_FLOAT32));
    check_mm(transposed(noise(TP_INTS(18, 33), TP_FLOAT32)), transposed(noise(TP_INTS(21, 18), TP_FLOAT32)));
    check_mm(noise(TP_INTS(5, 0), TP_FLOAT32), noise(TP_INTS(0, 3), TP_FLOAT32));
    check_addmm(noise(TP_INTS(5, 20), TP_FLOAT32), noise(TP_INTS(5, 7), TP_FLOAT32), noise(TP_INTS(7, 20), TP_FLOAT32),
                0.5, -2);
    check_addmm(noise(TP_INTS(20), TP_FLOAT32), noise(TP_INTS(5, 7), TP_FLOAT32), noise(TP_INTS(7, 20), TP_FLOAT32), 1,
                1);
    check_mm(noise(TP_INTS(5, 18), TP_INT8), noise(TP_INTS(18, 20), TP_INT8));
    check_mm(noise(TP_INTS(5, 18), TP_BFLOAT16), noise(TP_INTS(18, 20), TP_BFLOAT16));
}

static void products_of_threads_together(void **s) {
    (void)s;
    tpi_gpu_sharing_there = true;
    setenv("TAPER_CLBLAST", "0", 1);
    check_mm(noise(TP_INTS(33, 18), TP_INT32), noise(TP_INTS(18, 21), TP_INT32));
    check_mm(transposed(noise(TP_INTS(18, 33), TP_FLOAT16)), transposed(noise(TP_INTS(21, 18), TP_FLOAT16)));
    check_mm(noise(TP_INTS(1, 500), TP_FLOAT16), noise(TP_INTS(500, 1), TP_FLOAT16)); /* a group of threads along k */
    tpi_gpu_sharing_there = false;
}

static void tensors_on_a_device(void **s) {
    (void)s;
    tp_tensor *a = noise(TP_INTS(3, 5), TP_FLOAT32), *b = noise(TP_INTS(5), TP_FLOAT32), *x = there(a), *y = there(b);
    tp_operand here_pair[] = {{.tensor = a}, {.tensor = b}}, there_pair[] = {{.tensor = x}, {.tensor = y}};
    tp_tensor *want = tpo_mul(here_pair[0], here_pair[1]), *got = tpo_mul(there_pair[0], there_pair[1]);
    assert_same("mul", want, got, 0);
    assert_null(tpi_device_ops_of((tp_device){TP_XPU, 63}));
    assert_non_null(strstr(tp_error(), "device 'xpu:63' is not available here"));
    tp_error_clear();
    tpi_release(a);
    tpi_release(b);
    tpi_release(x);
    tpi_release(y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_on_a_device),
        cmocka_unit_test(folds_of_every_shape),
        cmocka_unit_test(folds_of_every_dtype),
        cmocka_unit_test(scans_of_every_shape),
        cmocka_unit_test(threads_work_together),
        cmocka_unit_test(the_same_bits_every_time),
        cmocka_unit_test(products),
        cmocka_unit_test(products_of_threads_together),
    };
    if (tp_device_count(TP_XPU) == 0) {
        fprintf(stderr, "SKIPPED: %s (Debian: pocl-opencl-icd)\n", tp_gpu_missing(TP_XPU));
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
