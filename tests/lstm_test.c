/* A layer of LSTM that runs as one operator, against the same layer cell by cell: values, gradients, and bits on any
 * number of threads. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include <taper/taper.h>
#include "tensor/tensor.h"

enum { STEPS = 5, BATCH = 19, FEATURES = 6, WIDTH = 37, WEIGHTS = 4 };

typedef struct trial {
    tp_tensor *x, *h0, *c0, *weights[WEIGHTS], *out, *h, *c;
} trial;

static tp_tensor *leaf(tp_ints shape, tp_dtype dtype) {
    tp_tensor *t = tp_to(tp_mul(tp_randn(shape), 0.3), .dtype = dtype);
    tp_set_requires_grad(t, true);
    return t;
}

static trial begin(tp_dtype dtype) {
    tp_manual_seed(3);
    trial t = {.x = leaf(TP_INTS(STEPS, BATCH, FEATURES), dtype),
               .h0 = leaf(TP_INTS(1, BATCH, WIDTH), dtype),
               .c0 = leaf(TP_INTS(1, BATCH, WIDTH), dtype)};
    t.weights[0] = leaf(TP_INTS(4 * WIDTH, FEATURES), dtype);
    t.weights[1] = leaf(TP_INTS(4 * WIDTH, WIDTH), dtype);
    t.weights[2] = leaf(TP_INTS(4 * WIDTH), dtype);
    t.weights[3] = leaf(TP_INTS(4 * WIDTH), dtype);
    return t;
}

static void backward(const trial *t) {
    tp_tensor *loss = tp_add(tp_sum(tp_sin(t->out)), tp_add(tp_sum(tp_mul(t->c, t->c)), tp_sum(tp_sin(t->h))));
    assert_true(tp_backward(loss));
}

static trial layer(tp_dtype dtype) {
    trial t = begin(dtype);
    tp_lstm_result r =
        tp_lstm(t.x, TP_LIST(t.h0, t.c0), (tp_tensors){t.weights, WEIGHTS}, true, 1, 0, true, false, false);
    t.out = r.output;
    t.h = r.h_n;
    t.c = r.c_n;
    backward(&t);
    return t;
}

static trial cells(tp_dtype dtype) {
    trial t = begin(dtype);
    tp_tensor *outs[STEPS], *h = tp_select(t.h0, 0, 0), *c = tp_select(t.c0, 0, 0);
    for (int s = 0; s < STEPS; s++) {
        tp_lstm_cell_result r = tp_lstm_cell(tp_select(t.x, 0, s), TP_LIST(h, c), t.weights[0], t.weights[1],
                                             .b_ih = t.weights[2], .b_hh = t.weights[3]);
        outs[s] = h = r.h;
        c = r.c;
    }
    tp_tensors all = {outs, STEPS};
    t.out = tp_stack(all);
    t.h = h;
    t.c = c;
    backward(&t);
    return t;
}

static void close_to(tp_tensor *a, tp_tensor *b, double within) {
    assert_true(a);
    assert_true(b);
    assert_true(a->numel == b->numel);
    assert_true(tp_item(tp_max(tp_abs(tp_sub(tp_reshape(a, TP_INTS(-1)), tp_reshape(b, TP_INTS(-1)))))) <= within);
}

static void same_as_cell_by_cell(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++)
        TP_SCOPE {
            tp_dtype dtype = i ? TP_FLOAT64 : TP_FLOAT32;
            double within = i ? 1e-12 : 2e-5;
            trial a = layer(dtype), b = cells(dtype);
            close_to(a.out, b.out, within);
            close_to(a.h, b.h, within);
            close_to(a.c, b.c, within);
            close_to(tp_grad(a.x), tp_grad(b.x), within);
            close_to(tp_grad(a.h0), tp_grad(b.h0), within);
            close_to(tp_grad(a.c0), tp_grad(b.c0), within);
            for (int w = 0; w < WEIGHTS; w++) close_to(tp_grad(a.weights[w]), tp_grad(b.weights[w]), 20 * within);
        }
}

static bool same_bits(tp_tensor *a, tp_tensor *b) {
    return memcmp(a->data, b->data, (size_t)a->numel * tpi_itemsize(a)) == 0;
}

static void same_bits_on_any_number_of_threads(void **state) {
    (void)state;
    TP_SCOPE {
        tp_set_num_threads(1);
        trial one = layer(TP_FLOAT32);
        for (int threads = 2; threads <= 4; threads++) {
            tp_set_num_threads(threads);
            trial more = layer(TP_FLOAT32);
            assert_true(same_bits(one.out, more.out));
            assert_true(same_bits(tp_grad(one.x), tp_grad(more.x)));
            for (int w = 0; w < WEIGHTS; w++) assert_true(same_bits(tp_grad(one.weights[w]), tp_grad(more.weights[w])));
        }
        tp_set_num_threads(0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_cell_by_cell),
        cmocka_unit_test(same_bits_on_any_number_of_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
