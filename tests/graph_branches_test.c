/* Steps of a graph side by side: the same bits on any number of threads, forward, backward and in whole training steps;
 * what shares memory, random numbers and statistics keeps its order; an error in one branch reaches the caller. */
#include <stdio.h>
#include <string.h>
#include <taper/graph.h>
#include <taper/optim.h>
#include "graph/graph.h"
#include "tape_fixture.h"
#include "tensor/tensor.h"

enum { TOWERS = 6, WIDTH = 64, ROWS = 32, RUNS = 20 };

static void assert_same(tp_tensor *a, tp_tensor *b) {
    if (!a || !b) fail_msg("no tensor: %s", tp_error() ? tp_error() : "and no error");
    assert_int_equal(tp_numel(a), tp_numel(b));
    assert_memory_equal(tp_data(tp_contiguous(a)), tp_data(tp_contiguous(b)), tp_numel(a) * tp_item_bytes(a));
}

typedef struct network {
    tp_tensor *w[TOWERS][2], *b[TOWERS][2];
    tp_tensor *input; /* the same memory as mean[0] */
    tp_tensor *mean[TOWERS], *var[TOWERS];
} network;

static void make(network *n, bool tracked) {
    tp_manual_seed(5);
    for (int t = 0; t < TOWERS; t++) {
        for (int l = 0; l < 2; l++) {
            n->w[t][l] = tp_set_requires_grad(tp_mul(tp_randn(TP_INTS(WIDTH, WIDTH)), 0.1), tracked);
            n->b[t][l] = tp_set_requires_grad(tp_randn(TP_INTS(WIDTH)), tracked);
        }
        n->mean[t] = tp_zeros(TP_INTS(WIDTH));
        n->var[t] = tp_ones(TP_INTS(WIDTH));
    }
    n->input = tp_zeros(TP_INTS(ROWS, WIDTH));
    n->mean[0] = tp_select(n->input, 0, 0);
}

static tp_tensor *tower(const network *n, int t, tp_tensor *x) {
    tp_tensor *h = tp_relu(tp_linear(x, n->w[t][0], .bias = n->b[t][0]));
    return tp_tanh(tp_linear(h, n->w[t][1], .bias = n->b[t][1]));
}

/* Towers over one tensor and over views of it. Where asked to, they draw, keep statistics, or are added in place to
 * parts of what they all read. */
enum { PLAIN, IN_PLACE = 1, DRAWS = 2, STATISTICS = 4 };

static tp_tensor *all_towers(const network *n, tp_tensor *x, int traits) {
    tp_tensor *y = tp_mul(x, 1.0), *parts[TOWERS];
    for (int t = 0; t < TOWERS; t++) {
        parts[t] = tower(n, t, t % 2 ? tp_flip(y, TP_INTS(1)) : tp_narrow(y, 0, 0, ROWS));
        if (traits & DRAWS) parts[t] = tp_dropout(parts[t], .p = 0.3);
        if (traits & STATISTICS) parts[t] = tp_batch_norm(parts[t], n->mean[t], n->var[t], .training = true);
    }
    if (traits & IN_PLACE) tp_neg_(tp_narrow(y, 0, 0, ROWS));
    for (int t = 0; t < TOWERS && traits & IN_PLACE; t++)
        tp_add_(tp_narrow(y, 0, t, ROWS - TOWERS), tp_narrow(parts[t], 0, 0, ROWS - TOWERS));
    for (int t = 0; t < TOWERS; t++) y = tp_add(y, parts[t]);
    return y;
}

static tp_compiled *capture(const network *n, tp_tensor *x, int traits) {
    tp_capture *c = tp_capture_begin(TP_LIST(x));
    tp_tensor *y = all_towers(n, x, traits);
    tp_compiled *g = y ? tp_capture_end(c, TP_LIST(y)) : NULL;
    if (!g) fail_msg("%s", tp_error());
    return g;
}

static const int threads[] = {1, 2, 4};

static void check_forward(int traits) {
    for (int i = 0; i < 3; i++)
        TP_SCOPE {
            network n, same;
            make(&n, false);
            make(&same, false);
            tp_tensor *x = tp_randn(TP_INTS(ROWS, WIDTH)), *got = NULL;
            tp_manual_seed(RUNS);
            tp_compiled *g = capture(&n, x, traits);
            assert_non_null(g->branches);
            tp_manual_seed(RUNS);
            all_towers(&same, x, traits); /* as the capture did */
            tp_set_num_interop_threads(threads[i]);
            for (int k = 0; k < RUNS; k++)
                TP_SCOPE {
                    x = tp_randn(TP_INTS(ROWS, WIDTH));
                    tp_manual_seed(k);
                    assert_true(tp_compiled_run(g, TP_LIST(x), &got));
                    tp_manual_seed(k);
                    assert_same(got, all_towers(&same, x, traits));
                    for (int t = 0; t < TOWERS; t++) {
                        assert_same(n.mean[t], same.mean[t]);
                        assert_same(n.var[t], same.var[t]);
                    }
                }
            tp_compiled_release(g);
        }
    tp_set_num_interop_threads(0);
}

static void branches_give_the_same_bits(void **state) {
    (void)state;
    check_forward(PLAIN);
}

static void writes_draws_and_statistics_keep_their_order(void **state) {
    (void)state;
    check_forward(IN_PLACE);
    check_forward(DRAWS);
    check_forward(STATISTICS);
    check_forward(IN_PLACE | DRAWS | STATISTICS);
}

static void an_input_that_a_step_writes_is_seen_in_order(void **state) {
    (void)state;
    TP_SCOPE {
        network n[2];
        tp_tensor *got[2] = {NULL};
        tp_compiled *g[2];
        for (int i = 0; i < 2; i++) {
            make(&n[i], false);
            g[i] = capture(&n[i], tp_randn(TP_INTS(ROWS, WIDTH)), STATISTICS);
        }
        for (int k = 0; k < RUNS; k++) { /* the running mean of the first tower, over and over, is what all are given */
            for (int i = 0; i < 2; i++) {
                tp_set_num_interop_threads(i ? 4 : 1);
                assert_true(tp_compiled_run(g[i], TP_LIST(n[i].input), &got[i]));
            }
            assert_same(got[0], got[1]);
        }
        tp_set_num_interop_threads(0);
        for (int i = 0; i < 2; i++) tp_compiled_release(g[i]);
    }
}

static void gradients_have_the_same_bits(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++)
        TP_SCOPE {
            network n, same;
            make(&n, true);
            make(&same, true);
            tp_tensor *x = tp_randn(TP_INTS(ROWS, WIDTH)), *got = NULL;
            tp_compiled *g = capture(&n, x, PLAIN);
            assert_true(g->branches);
            assert_true(g->branches->next); /* of the forward, and of the backward */
            tp_set_num_interop_threads(threads[i]);
            for (int k = 0; k < RUNS; k++) {
                assert_true(tp_compiled_run(g, TP_LIST(x), &got));
                assert_true(tp_backward(square_sum(got)));
                assert_true(tp_backward(square_sum(all_towers(&same, x, PLAIN))));
                for (int t = 0; t < TOWERS; t++) {
                    assert_same(tp_grad(n.w[t][0]), tp_grad(same.w[t][0]));
                    assert_same(tp_grad(n.b[t][1]), tp_grad(same.b[t][1]));
                }
            }
            tp_compiled_release(g);
        }
    tp_set_num_interop_threads(0);
}

static tp_tensor *train(const network *n, tp_optimiser *o, tp_tensor *x) {
    tp_optimiser_zero_grad(o);
    tp_tensor *loss = square_sum(all_towers(n, x, DRAWS));
    return tp_backward(loss) && tp_step(o) ? loss : NULL;
}

static tp_optimiser *optimiser_of(network *n) {
    tp_tensor *list[4 * TOWERS];
    for (int t = 0; t < TOWERS; t++)
        for (int l = 0; l < 2; l++) {
            list[4 * t + 2 * l] = n->w[t][l];
            list[4 * t + 2 * l + 1] = n->b[t][l];
        }
    return tp_sgd(tp_list(4 * TOWERS, list), .lr = 1e-4);
}

static void training_steps_have_the_same_bits(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++)
        TP_SCOPE {
            network n, same;
            make(&n, true);
            make(&same, true);
            tp_optimiser *o = optimiser_of(&n), *p = optimiser_of(&same);
            tp_tensor *x = tp_randn(TP_INTS(ROWS, WIDTH)), *got = NULL;
            tp_manual_seed(1);
            tp_capture *c = tp_capture_begin(TP_LIST(x));
            tp_tensor *loss = train(&n, o, x);
            tp_compiled *g = loss ? tp_capture_end(c, TP_LIST(loss)) : NULL;
            if (!g) fail_msg("%s", tp_error());
            assert_non_null(g->branches);
            tp_manual_seed(1);
            assert_same(loss, train(&same, p, x));
            tp_set_num_interop_threads(threads[i]);
            for (int k = 0; k < RUNS; k++) {
                tp_manual_seed(k);
                assert_true(tp_compiled_run(g, TP_LIST(x), &got));
                tp_manual_seed(k);
                assert_same(got, train(&same, p, x));
                for (int t = 0; t < TOWERS; t++) {
                    assert_same(n.w[t][0], same.w[t][0]);
                    assert_same(tp_grad(n.b[t][1]), tp_grad(same.b[t][1]));
                }
            }
            tp_compiled_release(g);
            tp_optimiser_free(o);
            tp_optimiser_free(p);
        }
    tp_set_num_interop_threads(0);
}

/* Rows of a table by index in one of the branches. */
static void an_error_in_a_branch_reaches_the_caller(void **state) {
    (void)state;
    TP_SCOPE {
        network n;
        make(&n, false);
        tp_tensor *x = tp_randn(TP_INTS(ROWS, WIDTH)), *rows = tp_zeros(TP_INTS(ROWS), .dtype = TP_INT64), *got = NULL;
        tp_capture *c = tp_capture_begin(TP_LIST(x, rows));
        tp_tensor *y = tp_add(all_towers(&n, x, PLAIN), tower(&n, 1, tp_index_select(x, 0, rows)));
        tp_compiled *g = tp_capture_end(c, TP_LIST(y));
        if (!g) fail_msg("%s", tp_error());
        assert_non_null(g->branches);
        tp_tensor *wrong = tp_full(TP_INTS(ROWS), ROWS, .dtype = TP_INT64);
        char text[256] = "";
        for (int i = 0; i < 3; i++) {
            tp_set_num_interop_threads(threads[i]);
            for (int k = 0; k < RUNS; k++) {
                assert_false(tp_compiled_run(g, TP_LIST(x, wrong), &got));
                assert_int_equal(tp_error_code(), TP_ERR_INDEX);
                if (!*text) snprintf(text, sizeof text, "%s", tp_error());
                assert_string_equal(tp_error(), text);
                tp_error_clear();
                assert_true(tp_compiled_run(g, TP_LIST(x, rows), &got));
            }
        }
        tp_set_num_interop_threads(0);
        tp_compiled_release(g);
    }
}

static void capture_and_train(void) {
    TP_SCOPE {
        tp_tensor *w = tp_set_requires_grad(tp_ones(TP_INTS(8, 8)), true),
                  *v = tp_set_requires_grad(tp_ones(TP_INTS(8, 8)), true), *x = tp_ones(TP_INTS(4, 8)), *got = NULL;
        tp_capture *c = x ? tp_capture_begin(TP_LIST(x)) : NULL;
        if (!c) continue;
        tp_tensor *y = tp_sum(tp_mul(tp_tanh(tp_linear(x, w)), tp_linear(tp_flip(x, TP_INTS(1)), v)));
        tp_compiled *g = y ? tp_capture_end(c, TP_LIST(y)) : NULL;
        if (!y) tp_capture_cancel(c);
        if (g && tp_compiled_run(g, TP_LIST(x), &got)) tp_backward(got);
        tp_compiled_release(g);
    }
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    double gain = tpi_branches_gain;
    tpi_branches_gain = -1e9;
    tp_set_num_interop_threads(2);
    fail_each_allocation(capture_and_train);
    tp_set_num_interop_threads(0);
    tpi_branches_gain = gain;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(branches_give_the_same_bits),
        CASE(writes_draws_and_statistics_keep_their_order),
        CASE(an_input_that_a_step_writes_is_seen_in_order),
        CASE(gradients_have_the_same_bits),
        CASE(training_steps_have_the_same_bits),
        CASE(an_error_in_a_branch_reaches_the_caller),
        CASE(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
