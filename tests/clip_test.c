/* Clipping gradients from C: what the norm is, what becomes of the gradients, the same bits on any number of threads,
 * memory that fails. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include <taper/taper.h>
#include "base/memory.h"

enum { MANY = 100003 };

/* A parameter of n elements whose gradient is scale * (1, 2, 3, ...) modulo 7. */
static tp_tensor *parameter(int64_t n, tp_dtype dtype, double scale) {
    tp_tensor *p = tp_own(tp_new((tp_ints){&n, 1}, dtype)), *grad = tp_own(tp_new((tp_ints){&n, 1}, dtype));
    for (int64_t i = 0; i < n; i++) {
        double v = scale * (double)((i + 1) % 7);
        if (dtype == TP_FLOAT32)
            ((float *)tp_data(grad))[i] = (float)v;
        else
            ((double *)tp_data(grad))[i] = v;
    }
    assert_true(tp_set_grad(p, grad));
    tp_release(grad);
    return p;
}

static void test_norm_and_scale(void **state) {
    (void)state;
    tp_tensor *p[] = {parameter(3, TP_FLOAT32, 2), parameter(2, TP_FLOAT32, -1),
                      tp_own(tp_new((tp_ints){(int64_t[]){2}, 1}, TP_FLOAT32))};
    double norm = sqrt(4 + 16 + 36 + 1 + 4);
    assert_float_equal(tp_clip_grad_norm(3, p, 1.0), norm, 1e-6);
    const float *g = tp_data(tp_grad(p[0]));
    assert_float_equal(g[2], 6 / (norm + 1e-6), 1e-6);
    assert_null(tp_grad(p[2]));
    assert_float_equal(tp_clip_grad_norm(3, p, 5.0), 1.0, 1e-5); /* within the bound already: left alone */
    assert_float_equal(g[2], 6 / (norm + 1e-6), 1e-6);
    assert_true(tp_clip_grad_value(3, p, 0.5));
    assert_float_equal(g[2], 0.5, 0);
    for (int i = 0; i < 3; i++) tp_release(p[i]);
}

static void test_orders_of_norm(void **state) {
    (void)state;
    tp_tensor *p = parameter(4, TP_FLOAT64, 1), *half = NULL;
    tp_tensors grads = TP_LIST(tp_grad(p), tp_grad(p));
    const struct { double order, norm; } cases[] = {{2, sqrt(60)}, {1, 20}, {INFINITY, 4}, {3, cbrt(200)}};
    for (int i = 0; i < 4; i++) {
        tp_tensor *norm = tp_own(tp_total_norm(grads, cases[i].order));
        assert_float_equal(tp_item(norm), cases[i].norm, 1e-12);
        tp_release(norm);
    }
    ((double *)tp_data(tp_grad(p)))[1] = NAN;
    tp_tensor *norm = tp_own(tp_total_norm(grads, INFINITY));
    assert_true(isnan(tp_item(norm)));
    tp_release(norm);
    tp_tensor *none = tp_own(tp_total_norm((tp_tensors){NULL, 0}, 2));
    assert_float_equal(tp_item(none), 0, 0);
    assert_false(tp_clip_to_norm(TP_LIST(half), 1, none));
    assert_non_null(strstr(tp_error(), "entry 0 is NULL"));
    tp_error_clear();
    tp_release(none);
    tp_release(p);
}

static void test_same_bits_on_any_number_of_threads(void **state) {
    (void)state;
    int threads = tp_num_threads();
    double norm[3];
    float last[3];
    for (int run = 0; run < 3; run++) {
        tp_set_num_threads(1 << run);
        tp_tensor *p[] = {parameter(MANY, TP_FLOAT32, 0.1), parameter(5, TP_FLOAT32, 0.3),
                          parameter(MANY, TP_FLOAT32, 0.7)};
        norm[run] = tp_clip_grad_norm(3, p, 2.5);
        last[run] = ((float *)tp_data(tp_grad(p[2])))[MANY - 1];
        for (int i = 0; i < 3; i++) tp_release(p[i]);
    }
    tp_set_num_threads(threads);
    assert_memory_equal(&norm[0], &norm[1], sizeof *norm);
    assert_memory_equal(&norm[0], &norm[2], sizeof *norm);
    assert_memory_equal(&last[0], &last[1], sizeof *last);
    assert_memory_equal(&last[0], &last[2], sizeof *last);
}

static void test_without_memory_nothing_changes(void **state) {
    (void)state;
    tp_tensor *p = parameter(3, TP_FLOAT32, 2);
    for (int nth = 1;; nth++) {
        assert_true(nth < 100);
        tpi_alloc_fail_at(nth, false);
        double norm = tp_clip_grad_norm(1, &p, 1.0);
        tpi_alloc_fail_at(0, false);
        if (tp_ok()) {
            assert_true(norm > 0);
            break;
        }
        assert_int_equal(tp_error_code(), TP_ERR_MEMORY);
        tp_error_clear();
        assert_float_equal(((float *)tp_data(tp_grad(p)))[2], 6, 0);
    }
    tp_release(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_norm_and_scale), cmocka_unit_test(test_orders_of_norm),
                                       cmocka_unit_test(test_same_bits_on_any_number_of_threads),
                                       cmocka_unit_test(test_without_memory_nothing_changes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
