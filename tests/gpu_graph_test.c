/* Graphs of GPU work: memory of a capture is private, and random numbers go on from replay to replay as if the work had
 * been called (capturing_driver.h). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <taper/taper.h>
#include "capturing_driver.h"

static tp_device gpu;
static bool there;

static int choose_device(void **s) {
    (void)s;
    there = tpt_put_capturing_driver();
    gpu = tpt_capturing_device();
    return 0;
}

static void need_device(void) {
    if (there) return;
    print_message("SKIPPED: %s\n", tpt_no_device());
    skip();
}
static void must(bool fine) {
    if (!fine) fail_msg("%s", tp_error() ? tp_error() : "failed without an error");
}
static tp_tensor *numbers(void) {
    tp_tensor *t = tp_rand(TP_INTS(1001), .device = gpu);
    must(t != NULL);
    return t;
}
static bool same(tp_tensor *a, tp_tensor *b) {
    return tp_equal(tp_to(a, .device = {TP_CPU, 0}), tp_to(b, .device = {TP_CPU, 0}));
}

static void random_numbers_go_on(void **s) {
    (void)s;
    need_device();
    TP_SCOPE {
        tp_generator *g = tp_default_generator_of(gpu);
        tp_generator_seed(g, 7);
        tp_tensor *called[6];
        for (int i = 0; i < 6; i++) called[i] = numbers();
        tp_generator_seed(g, 7);
        tp_stream *side;
        must(tp_stream_new(gpu, 0, &side) && tp_stream_set_current(gpu, side));
        tp_gpu_graph *graph = tp_gpu_graph_new();
        must(tp_gpu_graph_begin(graph, gpu, 0, TP_CAPTURE_GLOBAL));
        tp_tensor *x = numbers(), *y = numbers();
        must(tp_gpu_graph_end(graph));
        must(tp_stream_set_current(gpu, NULL));
        if (gpu.type == TP_XPU) assert_int_equal(tpt_kept_calls, 2);
        assert_true(same(numbers(), called[0])); /* the capture took nothing */
        must(tp_gpu_graph_replay(graph));
        assert_true(same(x, called[1]));
        assert_true(same(y, called[2]));
        assert_true(same(numbers(), called[3]));
        must(tp_gpu_graph_replay(graph));
        assert_true(same(x, called[4]));
        assert_true(same(y, called[5]));
        tp_generator_seed(g, 7); /* the seed counts at the replay */
        must(tp_gpu_graph_replay(graph));
        assert_true(same(x, called[0]));
        assert_true(same(y, called[1]));
        tp_gpu_graph_free(graph);
    }
    assert_true(tp_ok());
}

static void memory_is_private(void **s) {
    (void)s;
    need_device();
    tp_stream *side;
    must(tp_stream_new(gpu, 0, &side) && tp_stream_set_current(gpu, side));
    tp_gpu_graph *graph = tp_gpu_graph_new();
    must(tp_gpu_graph_begin(graph, gpu, 0, TP_CAPTURE_GLOBAL));
    assert_true(tp_gpu_capturing(gpu));
    tp_gpu_graph *other = tp_gpu_graph_new();
    assert_false(tp_gpu_graph_begin(other, gpu, 0, TP_CAPTURE_GLOBAL)); /* one at a time */
    tp_error_clear();
    void *inside = tpi_gpu_alloc(gpu, 5000);
    tpi_gpu_free(gpu, inside, 5000);
    void *again = tpi_gpu_alloc(gpu, 5000);
    assert_ptr_equal(inside, again); /* reused within */
    tpi_gpu_free(gpu, again, 5000);
    must(tp_gpu_graph_end(graph));
    assert_false(tp_gpu_capturing(gpu));
    void *outside = tpi_gpu_alloc(gpu, 5000);
    assert_ptr_not_equal(inside, outside); /* and not without */
    tpi_gpu_free(gpu, outside, 5000);
    tp_gpu_graph *second = tp_gpu_graph_new();
    must(tp_gpu_graph_begin(second, gpu, tp_gpu_graph_pool(graph),
                            TP_CAPTURE_GLOBAL)); /* a graph that shares the pool */
    again = tpi_gpu_alloc(gpu, 5000);
    assert_ptr_equal(inside, again);
    tpi_gpu_free(gpu, again, 5000);
    must(tp_gpu_graph_end(second));
    must(tp_stream_set_current(gpu, NULL));
    tp_gpu_memory m = {.size = sizeof m};
    must(tp_gpu_empty_cache((tp_device_type)gpu.type) && tp_gpu_memory_query(gpu, &m));
    int64_t held = m.reserved_bytes[TP_GPU_POOL_ALL].current;
    assert_true(held > 0);
    tp_gpu_graph_free(graph);
    must(tp_gpu_empty_cache((tp_device_type)gpu.type) && tp_gpu_memory_query(gpu, &m));
    assert_int_equal(m.reserved_bytes[TP_GPU_POOL_ALL].current, held); /* the second still holds it */
    tp_gpu_graph_free(second);
    must(tp_gpu_empty_cache((tp_device_type)gpu.type) && tp_gpu_memory_query(gpu, &m));
    assert_true(m.reserved_bytes[TP_GPU_POOL_ALL].current < held);
    assert_false(tp_gpu_graph_begin(other, gpu, 0, TP_CAPTURE_GLOBAL)); /* on the default stream */
    assert_non_null(strstr(tp_error(), "non-default stream"));
    tp_error_clear();
    tp_gpu_graph_free(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_numbers_go_on), cmocka_unit_test(memory_is_private)};
    return cmocka_run_group_tests(tests, choose_device, NULL);
}
