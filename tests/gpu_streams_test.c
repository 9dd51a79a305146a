/* Backward and streams: what was computed on another stream is waited for, there and back, once per run; a program of
 * one stream waits for nothing. On whichever GPU is there, PoCL's counts; its driver is watched. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <taper/taper.h>
#include "device/gpu/driver.h"

static tp_device gpu;
static tpi_gpu_driver driver;
static bool (*stream_wait)(int index, tpi_gpu_stream *stream, tpi_gpu_event *event);
static tpi_gpu_stream *waiters[16];
static int nwaiters;

static bool watched_wait(int index, tpi_gpu_stream *stream, tpi_gpu_event *event) {
    if (nwaiters < 16) waiters[nwaiters++] = stream;
    return stream_wait(index, stream, event);
}

static int choose_device(void **s) {
    (void)s;
    setenv("TAPER_XPU_DEVICES", "all", 0);
    const tpi_gpu_driver *there = tpi_cuda_driver.count() > 0     ? &tpi_cuda_driver
                                  : tpi_opencl_driver.count() > 0 ? &tpi_opencl_driver
                                                                  : NULL;
    if (!there) return 0;
    gpu = (tp_device){(int16_t)there->type, 0};
    driver = *there;
    stream_wait = driver.stream_wait;
    driver.stream_wait = watched_wait;
    tpi_gpu_put_driver(&driver);
    return 0;
}

static void need_device(void) {
    if (gpu.type) return;
    print_message("SKIPPED: no GPU and no OpenCL device here (%s; %s)\n", tpi_cuda_driver.missing(),
                  tpi_opencl_driver.missing());
    skip();
}

/* Three squares deep; forward and backward on streams of their own. The gradient is 8 x^7. */
static void check(tp_stream *forward, tp_stream *backward) {
    TP_SCOPE {
        tp_tensor *x = tp_full(TP_INTS(1000), 1.5, .device = gpu);
        assert_true(x);
        assert_true(tp_set_requires_grad(x, true));
        assert_true(tp_stream_wait(gpu, forward, gpu, NULL));
        assert_true(tp_stream_set_current(gpu, forward));
        tp_tensor *y = x;
        for (int i = 0; i < 3; i++) y = tp_mul(y, y);
        y = tp_sum(y);
        assert_true(tp_stream_set_current(gpu, backward));
        nwaiters = 0;
        if (!tp_backward(y)) fail_msg("%s", tp_error());
        tp_tensor *g = tp_to(tp_grad(x), .device = {TP_CPU, 0});
        assert_true(tp_stream_set_current(gpu, NULL));
        assert_non_null(g);
        double expected = 8 * 1.5 * 1.5 * 1.5 * 1.5 * 1.5 * 1.5 * 1.5;
        assert_true(tp_allclose(g, tp_full(TP_INTS(1000), expected)));
    }
}

static void one_stream_waits_for_nothing(void **s) {
    (void)s;
    need_device();
    check(NULL, NULL);
    assert_int_equal(nwaiters, 0);
}

static void other_streams_are_waited_for(void **s) {
    (void)s;
    need_device();
    tp_stream *side = NULL, *third = NULL;
    assert_true(tp_stream_new(gpu, 0, &side));
    assert_true(tp_stream_new(gpu, 0, &third));
    check(side, NULL);
    assert_int_equal(nwaiters, 2); /* backward's stream for the forward's, and at the end the other way round */
    assert_ptr_equal(waiters[0], NULL);
    assert_ptr_equal(waiters[1], side);
    check(side, third);
    assert_int_equal(nwaiters, 2);
    assert_ptr_equal(waiters[0], third);
    check(NULL, third);
    assert_int_equal(nwaiters, 2);
    assert_ptr_equal(waiters[1], NULL);
    check(side, side);
    assert_int_equal(nwaiters, 0);
    check(NULL, NULL);
    assert_int_equal(nwaiters, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_stream_waits_for_nothing),
                                       cmocka_unit_test(other_streams_are_waited_for)};
    return cmocka_run_group_tests(tests, choose_device, NULL);
}
