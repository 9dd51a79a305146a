/* Several GPUs in one process, on a machine without any: the driver is tests/fake_cuda.c, whose streams do nothing
 * before they must. Copies between devices come after what made their source and before what reads them, whatever
 * streams are current; every call finds the right context. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <taper/gpu.h>
#include <taper/taper.h>
#include <unistd.h>
#include "tensor/tensor.h"

static const tp_device cpu = {TP_CPU, 0}, first = {TP_CUDA, 0}, second = {TP_CUDA, 1};
static int (*peers)(int from, int to), (*blocks)(int device), (*retain)(void **context, int device),
    (*set_current)(void *context);

static void must(bool fine) {
    if (!fine) fail_msg("%s", tp_error() ? tp_error() : "failed without an error");
}
static tp_tensor *on(tp_tensor *t, tp_device device) {
    tp_tensor *there = tp_to(t, .device = device);
    must(there != NULL);
    return there;
}

static int open_fake(void **s) {
    (void)s;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return -1;
    *(void **)&peers = dlsym(library, "fake_cuda_peers");
    *(void **)&blocks = dlsym(library, "fake_cuda_blocks");
    *(void **)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
    *(void **)&set_current = dlsym(library, "cuCtxSetCurrent");
    return peers && blocks && retain && set_current ? 0 : -1;
}

static void both_are_there(void **s) {
    (void)s;
    assert_int_equal(tp_gpu_count(TP_CUDA), 2);
    assert_int_equal(tp_gpu_current(TP_CUDA), 0);
    TP_SCOPE {
        tp_tensor *x = on(tp_arange(tp_int(1000)), second); /* the thread's device is another */
        assert_int_equal(tp_device_of(x).index, 1);
        assert_true(blocks(1) > 0);
        assert_true(tp_equal(on(x, cpu), tp_arange(tp_int(1000))));
    }
}

/* There and back, and the source is written again before anybody has waited. */
static void go_round(void) {
    TP_SCOPE {
        tp_tensor *x = tp_arange(tp_int(4096)), *other = tp_arange(tp_int(4096), .dtype = TP_INT64);
        tp_tensor *here = on(x, first), *there = on(here, second);
        must(tpi_copy_data(here, on(tp_flip(other, TP_INTS(0)), cpu)));
        tp_tensor *again = on(there, first);
        must(tpi_copy_data(there, here));
        assert_true(tp_equal(on(again, cpu), x));
        assert_true(tp_equal(on(there, cpu), tp_flip(other, TP_INTS(0))));
    }
}

static void copies_between_are_in_order(void **s) {
    (void)s;
    tp_stream *streams[2][2];
    go_round();
    for (int i = 0; i < 2; i++)
        must(tp_stream_new(first, 0, &streams[0][i]) && tp_stream_new(second, 0, &streams[1][i]));
    for (int mode = 0; mode < 4; mode++) {
        must(tp_stream_set_current(first, mode & 1 ? streams[0][0] : NULL) &&
             tp_stream_set_current(second, mode & 2 ? streams[1][0] : NULL));
        go_round();
    }
    must(tp_stream_set_current(first, NULL) && tp_stream_set_current(second, NULL));
    assert_int_equal(peers(0, 1), 1); /* asked for once each */
    assert_int_equal(peers(1, 0), 1);
}

/* Another library turns the thread to another device, or to none. */
static void others_turn_the_thread(void **s) {
    (void)s;
    void *other = NULL;
    assert_int_equal(retain(&other, 1), 0);
    TP_SCOPE {
        tp_tensor *x = tp_arange(tp_int(1 << 22)); /* more than is free anywhere: a new block */
        for (int round = 0; round < 2; round++) {
            tp_tensor *before = on(x, first);
            int there = blocks(1), here = blocks(0);
            set_current(round ? NULL : other);
            tp_tensor *copy = on(x, first);
            assert_int_equal(blocks(1), there);
            assert_int_equal(blocks(0), here + 1);
            assert_true(tp_equal(on(copy, cpu), x));
            assert_true(tp_equal(on(before, cpu), x));
        }
    }
}

static void *let_go(void *tensor) { /* a thread that has not met the driver */
    tp_release(tensor);
    tp_pinned_trim();
    return NULL;
}

static void any_thread_frees_pinned_memory(void **s) {
    (void)s;
    tp_tensor *x = tp_arange(tp_int(100)), *pinned = tp_pin_memory(x);
    must(pinned != NULL);
    int before = blocks(-1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, let_go, pinned), 0);
    pthread_join(thread, NULL);
    assert_int_equal(blocks(-1), before - 1);
    tp_release(x);
}

static void marks_stay_on_their_device(void **s) {
    (void)s;
    tp_mark *one = tp_mark_new(TP_CUDA, true), *two = tp_mark_new(TP_CUDA, true);
    double ms;
    must(tp_mark_record(one, second, NULL) && tp_mark_record(two, first, NULL));
    assert_false(tp_mark_record(one, first, NULL));
    assert_non_null(strstr(tp_error(), "does not match"));
    tp_error_clear();
    must(tp_stream_wait_mark(first, NULL, one) && tp_mark_synchronize(one) &&
         tp_mark_synchronize(two)); /* a stream may wait for another device's */
    assert_false(tp_mark_elapsed(one, two, &ms));
    tp_error_clear();
    tp_mark_free(one);
    tp_mark_free(two);
}

int main(int argc, char **argv) {
    char folder[1024];
    const char *build = getenv("TAPER_BUILD_DIR");
    (void)argc;
    if (!getenv("TAPER_FAKE_CUDA")) { /* the loader looks in these folders only if they are named before the program
                                         starts */
        snprintf(folder, sizeof folder, "%s/tests/fake-cuda", build ? build : "build");
        setenv("LD_LIBRARY_PATH", folder, 1);
        setenv("TAPER_FAKE_CUDA", "1", 1);
        unsetenv("CUDA_VISIBLE_DEVICES");
        execv("/proc/self/exe", argv);
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_are_there), cmocka_unit_test(copies_between_are_in_order),
                                       cmocka_unit_test(others_turn_the_thread),
                                       cmocka_unit_test(any_thread_frees_pinned_memory),
                                       cmocka_unit_test(marks_stay_on_their_device)};
    return cmocka_run_group_tests(tests, open_fake, NULL);
}
