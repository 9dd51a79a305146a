/* Steps of a graph that a GPU's driver starts as one (src/graph/gpu_segments.c): results, gradients and random numbers
 * are those of the operators one by one, results stay as they are while somebody has them, and what cannot be recorded
 * runs step by step. On a driver with graphs: capturing_driver.h. */
#include "tape_fixture.h"
#include <taper/gpu.h>
#include <taper/graph.h>
#include "capturing_driver.h"
#include "graph/graph.h"
#include "tensor/tensor.h"

enum { RUNS = 8, ROWS = 6, WIDTH = 5 };

static tp_device gpu;
static bool there;
static tp_tensor *weight, *bias, *seen; /* seen: what a function writes */

static int choose_device(void **state) {
    (void)state;
    there = tpt_put_capturing_driver();
    gpu = tpt_capturing_device();
    return 0;
}

static int begin(void **state) {
    (void)state;
    if (!there) return 0;
    tp_manual_seed(3);
    weight = tp_randn(TP_INTS(WIDTH, WIDTH), .device = gpu);
    bias = tp_randn(TP_INTS(WIDTH), .device = gpu);
    seen = tp_zeros(TP_INTS(WIDTH), .device = gpu);
    return weight && bias && seen ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    tp_release(weight);
    tp_release(bias);
    tp_release(seen);
    return tp_ok() ? 0 : -1;
}

static void need_device(void) {
    if (there) return;
    print_message("SKIPPED: %s\n", tpt_no_device());
    skip();
}

static void must(bool fine) {
    if (!fine) fail_msg("%s", tp_error() ? tp_error() : "failed without an error");
}

static tp_tensor *on_host(tp_tensor *t) {
    must(t != NULL);
    return tp_to(t, .device = {TP_CPU, 0});
}

static void assert_same(tp_tensor *a, tp_tensor *b) { assert_true(tp_equal(on_host(a), on_host(b))); }

static tp_tensor *numbers(int64_t seed) { /* at an address of its own */
    tp_manual_seed(seed);
    return tp_randn(TP_INTS(ROWS, WIDTH), .device = gpu);
}

static tp_tensor *network(tp_tensor *x) { return tp_sum(tp_mul(tp_relu(tp_add(tp_matmul(x, weight), bias)), 0.5)); }

static tp_compiled *captured(tp_tensor *(*function)(tp_tensor *), tp_tensor *x) {
    tp_capture *capture = tp_capture_begin(TP_LIST(x));
    tp_tensor *y = function(x);
    tp_compiled *g = tp_capture_end(capture, TP_LIST(y));
    must(g != NULL);
    return g;
}

static tp_tensor *run(tp_compiled *g, tp_tensor *x) {
    tp_tensor *y = NULL;
    must(tp_compiled_fits(g, TP_LIST(x)) && tp_compiled_run(g, TP_LIST(x), &y));
    return y;
}

/* A training step: the loss, and gradients in the leaves. */
static tp_tensor *trained(tp_compiled *g, tp_tensor *x) {
    tp_tensor *loss = g ? run(g, x) : network(x);
    must(tp_backward(loss));
    return loss;
}

static void forget_gradients(void) { must(tp_zero_grad(weight) && tp_zero_grad(bias)); }

static void ask_for_gradients(void) {
    tp_set_requires_grad(weight, true);
    tp_set_requires_grad(bias, true);
}

static void steps_are_started_as_one(void **state) {
    (void)state;
    need_device();
    TP_SCOPE {
        ask_for_gradients();
        tp_compiled *g = captured(network, numbers(0));
        for (int i = 0; i < RUNS; i++)
            TP_SCOPE {
                tp_tensor *x = numbers(i);
                tp_tensor *want = on_host(trained(NULL, x)), *slope = on_host(tp_grad(weight)),
                          *shift = on_host(tp_grad(bias));
                forget_gradients();
                int before = tpt_graph_launches;
                tp_tensor *loss = trained(g, x);
                assert_int_equal(tpt_graph_launches - before, i < 2 ? 0 : 2); /* forward and backward */
                assert_same(loss, want);
                assert_same(tp_grad(weight), slope);
                assert_same(tp_grad(bias), shift);
                forget_gradients();
            }
        tp_compiled_release(g);
    }
}

/* Who keeps a result keeps its values, and gradients add up where they are not forgotten. */
static void results_stay_as_they_are(void **state) {
    (void)state;
    need_device();
    TP_SCOPE {
        ask_for_gradients();
        tp_tensor *kept[RUNS], *want[RUNS], *slope;
        for (int i = 0; i < RUNS; i++) want[i] = on_host(trained(NULL, numbers(i)));
        slope = on_host(tp_grad(weight));
        forget_gradients();
        tp_compiled *g = captured(network, numbers(0));
        int before = tpt_graph_launches;
        for (int i = 0; i < RUNS; i++) kept[i] = trained(g, numbers(i));
        for (int i = 0; i < RUNS; i++) assert_same(kept[i], want[i]);
        assert_same(tp_grad(weight), slope);
        assert_int_equal(tpt_graph_launches - before, 2 * (RUNS - 2)); /* losses that are kept are copies */
        tp_compiled_release(g);                                        /* what is kept lives on */
        for (int i = 0; i < RUNS; i++) assert_same(kept[i], want[i]);
        forget_gradients();
    }
}

/* Two forwards before their backwards: the second does not write what the first has saved. */
static void saved_values_are_not_written_again(void **state) {
    (void)state;
    need_device();
    TP_SCOPE {
        ask_for_gradients();
        tp_compiled *g = captured(network, numbers(0));
        for (int i = 0; i < RUNS; i++) {
            tp_tensor *x = numbers(i), *other = numbers(100 + i);
            trained(NULL, other);
            trained(NULL, x);
            tp_tensor *slope = on_host(tp_grad(weight));
            forget_gradients();
            tp_tensor *first = run(g, x), *second = run(g, other);
            must(tp_backward(second) && tp_backward(first));
            assert_same(tp_grad(weight), slope);
            forget_gradients();
        }
        tp_compiled_release(g);
    }
}

/* Inputs at odd addresses: kernels choose by them, so a copy must lie as the input does. */
static void copies_lie_as_inputs_do(void **state) {
    (void)state;
    need_device();
    TP_SCOPE {
        tp_tensor *whole = tp_randn(TP_INTS(ROWS * WIDTH * 2), .device = gpu);
        tp_compiled *g = captured(network, numbers(0));
        int before = tpt_graph_launches;
        for (int i = 0; i < 2 * RUNS; i++)
            TP_SCOPE {
                tp_tensor *x = tp_view(tp_narrow(whole, 0, i % 4, ROWS * WIDTH), TP_INTS(ROWS, WIDTH));
                assert_same(run(g, x), network(x));
            }
        assert_true(tpt_graph_launches > before);
        tp_compiled_release(g);
    }
}

static tp_tensor *normed(tp_tensor *x) {
    tp_tensor *total = tp_add(x, tp_matmul(x, weight));
    return tp_sum(tp_matmul(tp_mul(tp_layer_norm(total, TP_INTS(WIDTH), .weight = bias), 2.0), weight));
}

/* A norm's kernel runs the maps before and behind it: what the call reads is made by its own step. */
static void norms_take_their_maps_along(void **state) {
    (void)state;
    need_device();
    TP_SCOPE {
        tp_tensor *x = numbers(0);
        tp_compiled *g = captured(normed, x);
        int before = tpt_graph_launches;
        for (int i = 0; i < RUNS; i++)
            TP_SCOPE {
                tp_tensor *other = numbers(i);
                assert_same(run(g, other), normed(other));
            }
        assert_int_equal(tpt_graph_launches - before, RUNS - 2);
        tp_compiled_release(g);
    }
}

static tp_tensor *drawn(tp_tensor *x) {
    return tp_sum(tp_mul(tp_matmul(tp_dropout(x, .p = 0.5), weight), tp_rand(TP_INTS(ROWS, WIDTH), .device = gpu)));
}

static void random_numbers_go_on(void **state) {
    (void)state;
    need_device();
    TP_SCOPE {
        tp_generator *generator = tp_default_generator_of(gpu);
        tp_tensor *x = numbers(0), *want[RUNS];
        tp_compiled *g = captured(drawn, x);
        tp_generator_seed(generator, 11);
        for (int i = 0; i < RUNS; i++) want[i] = on_host(drawn(x));
        tp_generator_seed(generator, 11);
        int before = tpt_graph_launches;
        for (int i = 0; i < RUNS; i++)
            TP_SCOPE
                assert_same(run(g, x), want[i]);
        assert_int_equal(tpt_graph_launches - before, RUNS - 2);
        tp_compiled_release(g);
    }
}

static tp_tensor *noted(tp_tensor *x) {
    tp_tensor *y = tp_tanh(tp_matmul(x, weight));
    tp_add_(seen, tp_mean(y, .dim = TP_INTS(0)));
    return tp_sum(y);
}

static void what_the_program_has_is_written_each_time(void **state) {
    (void)state;
    need_device();
    TP_SCOPE {
        tp_tensor *x = numbers(0);
        tp_compiled *g = captured(noted, x);
        must(tp_fill_(seen, tp_int(0)) != NULL);
        for (int i = 0; i < RUNS; i++) noted(numbers(i));
        tp_tensor *want = on_host(seen);
        must(tp_fill_(seen, tp_int(0)) != NULL);
        for (int i = 0; i < RUNS; i++)
            TP_SCOPE {
                uint32_t version = tpi_version(seen);
                run(g, numbers(i));
                assert_true(tpi_version(seen) > version);
            }
        assert_same(seen, want);
        tp_compiled_release(g);
    }
}

static void tensors_of_the_program_may_move(void **state) {
    (void)state;
    need_device();
    TP_SCOPE {
        tp_tensor *x = numbers(0);
        tp_compiled *g = captured(network, x);
        for (int i = 0; i < RUNS; i++)
            TP_SCOPE {
                if (i % 5 == 4) must(tp_set_data(weight, tp_randn(TP_INTS(WIDTH, WIDTH), .device = gpu)));
                assert_same(run(g, x), network(x));
            }
        tp_compiled_release(g);
    }
}

static void what_cannot_be_recorded_runs_step_by_step(void **state) {
    (void)state;
    need_device();
    if (gpu.type == TP_CUDA) skip(); /* its captures do not fail on demand */
    TP_SCOPE {
        ask_for_gradients();
        tp_compiled *g = captured(network, numbers(0));
        tpt_capture_fails = true;
        int before = tpt_graph_launches;
        for (int i = 0; i < RUNS; i++) {
            tp_tensor *x = numbers(i), *want = on_host(trained(NULL, x)), *slope = on_host(tp_grad(weight));
            forget_gradients();
            assert_same(trained(g, x), want);
            assert_same(tp_grad(weight), slope);
            forget_gradients();
        }
        tpt_capture_fails = false;
        assert_int_equal(tpt_graph_launches, before);
        tp_compiled_release(g);
    }
}

static void a_program_may_choose(void **state) {
    (void)state;
    need_device();
    TP_SCOPE {
        tp_tensor *x = numbers(0);
        tp_compiled *g = captured(network, x);
        must(tp_compiled_set_replay(g, TP_REPLAY_STEPS));
        int before = tpt_graph_launches;
        for (int i = 0; i < RUNS; i++)
            TP_SCOPE
                run(g, x);
        assert_int_equal(tpt_graph_launches, before);
        must(tp_compiled_set_replay(g, TP_REPLAY_LAUNCH_ONCE));
        for (int i = 0; i < RUNS; i++)
            TP_SCOPE
                run(g, x);
        assert_true(tpt_graph_launches > before);
        assert_false(tp_compiled_set_replay(g, (tp_replay)7));
        assert_error("argument 'how'");
        tp_compiled_release(g);
    }
}

static void pageable_memory_is_no_part_of_a_graph(void **state) {
    (void)state;
    need_device();
    TP_SCOPE {
        tp_stream *side;
        tp_tensor *x = tp_ones(TP_INTS(3));
        must(tp_stream_new(gpu, 0, &side) && tp_stream_set_current(gpu, side));
        tp_gpu_graph *graph = tp_gpu_graph_new();
        must(tp_gpu_graph_begin(graph, gpu, 0, TP_CAPTURE_GLOBAL));
        assert_null(tp_to(x, .device = gpu));
        assert_error("pageable");
        tp_gpu_graph_end(graph);
        tp_error_clear();
        must(tp_stream_set_current(gpu, NULL));
        tp_gpu_graph_free(graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(steps_are_started_as_one, begin, end),
        cmocka_unit_test_setup_teardown(results_stay_as_they_are, begin, end),
        cmocka_unit_test_setup_teardown(saved_values_are_not_written_again, begin, end),
        cmocka_unit_test_setup_teardown(copies_lie_as_inputs_do, begin, end),
        cmocka_unit_test_setup_teardown(norms_take_their_maps_along, begin, end),
        cmocka_unit_test_setup_teardown(random_numbers_go_on, begin, end),
        cmocka_unit_test_setup_teardown(what_the_program_has_is_written_each_time, begin, end),
        cmocka_unit_test_setup_teardown(tensors_of_the_program_may_move, begin, end),
        cmocka_unit_test_setup_teardown(what_cannot_be_recorded_runs_step_by_step, begin, end),
        cmocka_unit_test_setup_teardown(a_program_may_choose, begin, end),
        cmocka_unit_test_setup_teardown(pageable_memory_is_no_part_of_a_graph, begin, end)}; /* sets a stream: last */
    return cmocka_run_group_tests(tests, choose_device, NULL);
}
