/* Natives on a GPU at sizes that the operators' samples do not reach: many tiles, rows longer than registers hold,
 * repeated keys. Against the CPU; the device is chosen as for operators_device_test, PoCL (xpu) unless
 * TAPER_TEST_DEVICE says otherwise, and skipped aloud where there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "samples.h"

static tp_device device = {TP_XPU, 0};

static tp_tensor *there(tp_tensor *t) { return tp_to(t, .device = device); }
static tp_tensor *ramp(int64_t n, int64_t times, int64_t modulo) { /* repeated whole numbers, in no order */
    tp_tensor *i = tp_arange(n);
    return tp_remainder(tp_mul(i, tp_operand_int(times)), tp_operand_int(modulo));
}

static void same(tp_tensor *got, tp_tensor *want) {
    if (!got || !want || !same_bits(tp_to(got, .device = {TP_CPU, 0}), want))
        fail_msg("%s", tp_error() ? tp_error() : difference());
}
static void close_to(tp_tensor *got, tp_tensor *want, double tolerance) {
    if (!got || !want || !near(got, want, tolerance)) fail_msg("%s", tp_error() ? tp_error() : difference());
}

static void sorts(tp_tensor *x, int64_t dim) {
    for (int down = 0; down < 2; down++) {
        tp_sort_result here = tp_sort(x, .dim = dim, .descending = down),
                       away = tp_sort(there(x), .dim = dim, .descending = down);
        same(away.values, here.values);
        same(away.indices, here.indices);
    }
}

static void test_sort(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *whole = ramp(70001, 7919, 5003),
                  *floats = tp_sub(tp_div(tp_to(whole, .dtype = TP_FLOAT32), tp_operand_int(16)), tp_operand_int(100));
        sorts(whole, 0);
        sorts(floats, 0);
        sorts(tp_to(floats, .dtype = TP_BFLOAT16), 0);
        sorts(tp_to(floats, .dtype = TP_FLOAT64), 0);
        sorts(tp_to(whole, .dtype = TP_UINT8), 0);
        sorts(tp_reshape(tp_narrow(floats, 0, 0, 70000), TP_INTS(7, 100, 100)), 1);
        sorts(tp_reshape(tp_narrow(floats, 0, 0, 70000), TP_INTS(1000, 70)), -1);
    }
}

static void test_rows(void **state) {
    (void)state;
    TP_SCOPE {
        static const int64_t widths[] = {1, 3, 17, 64, 1000, 1024, 4097, 40000};
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            int64_t n = widths[i];
            tp_tensor *x = tp_reshape(tp_div(tp_to(ramp(5 * n, 31, 257), .dtype = TP_FLOAT32), tp_operand_int(32)),
                                      TP_INTS(5, n)),
                      *w = tp_select(x, 0, 2), *b = tp_select(x, 0, 3);
            close_to(tp_softmax(there(x), 1), tp_softmax(x, 1), 1e-5);
            close_to(tp_log_softmax(there(x), 1), tp_log_softmax(x, 1), 1e-5);
            if (n > 1)
                close_to(tp_layer_norm(there(x), TP_INTS(n), .weight = there(w), .bias = there(b)),
                         tp_layer_norm(x, TP_INTS(n), .weight = w, .bias = b), 1e-4);
            tp_tensor *target = tp_remainder(tp_arange(5), tp_operand_int(n));
            close_to(tp_cross_entropy(there(x), there(target)), tp_cross_entropy(x, target), 1e-5);
            close_to(tp_sum(there(x), .dim = TP_INTS(1)), tp_sum(x, .dim = TP_INTS(1)), 1e-5);
            close_to(tp_sum(there(x), .dim = TP_INTS(0)), tp_sum(x, .dim = TP_INTS(0)), 1e-5);
            close_to(tp_cumsum(there(x), 1), tp_cumsum(x, 1), 1e-5);
        }
    }
}

static void test_embedding(void **state) {
    (void)state;
    TP_SCOPE {
        tp_tensor *index = ramp(5000, 13, 97),
                  *grad = tp_reshape(tp_to(ramp(5000 * 33, 7, 64), .dtype = TP_FLOAT32), TP_INTS(5000, 33));
        same(tp_embedding_dense_backward(there(grad), there(index), 120, 5, false),
             tp_embedding_dense_backward(grad, index, 120, 5, false));
        tp_tensor *table = tp_reshape(tp_to(ramp(97 * 33, 5, 61), .dtype = TP_FLOAT32), TP_INTS(97, 33));
        same(tp_index_select(there(table), 0, there(index)), tp_index_select(table, 0, index));
    }
}

int main(void) {
    const char *wish = getenv("TAPER_TEST_DEVICE");
    if (wish && !strcmp(wish, "cuda"))
        device.type = TP_CUDA;
    else
        setenv("TAPER_XPU_DEVICES", "all", 0);
    if (!tp_device_count((tp_device_type)device.type)) {
        fprintf(stderr, "skipped: there is no such device here\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sort), cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_embedding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
