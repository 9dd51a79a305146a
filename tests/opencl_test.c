/* The OpenCL driver by itself: memory behind addresses, copies, streams, events, programs, launches, threads, and a
 * fork. Skipped where OpenCL has no device. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/gpu/program.h"
#include "device/opencl/cl.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const tpi_gpu_driver *const driver = &tpi_opencl_driver;
static tpi_gpu_caps caps;

static void assert_failed(const char *words) {
    assert_non_null(tp_error());
    assert_non_null(strstr(tp_error(), words));
    tp_error_clear();
}

static const char source[] =
    "__kernel void scale(__global char *x, ulong x_at, __global char *y, ulong y_at, int n, float by) {\n"
    "    __global const float *from = (__global const float *)(x + x_at);\n"
    "    __global float *to = (__global float *)(y + y_at);\n"
    "    int i = (int)get_global_id(0);\n"
    "    if (i < n) to[i] = from[i] * by;\n"
    "}\n";

static tpi_gpu_function *scale(void) {
    size_t bytes;
    void *binary = driver->compile(source, "scale", caps.arch, &bytes);
    assert_non_null(binary);
    tpi_gpu_module *module;
    tpi_gpu_function *function;
    assert_true(driver->load(0, binary, bytes, &module));
    assert_true(driver->function(0, module, "scale", &function));
    tpi_mfree(binary);
    return function;
}

static void launch(tpi_gpu_function *f, tpi_gpu_stream *stream, const char *x, char *y, int n, float by) {
    tpi_gpu_arg args[] = {TPI_GPU_PTR(x), TPI_GPU_PTR(y), TPI_GPU_VAL(n), TPI_GPU_VAL(by)};
    unsigned grid[3] = {(unsigned)(n + 63) / 64, 1, 1}, block[3] = {64, 1, 1};
    assert_true(driver->launch(0, stream, f, grid, block, 0, 4, args));
}

static void addresses_can_be_added_to(void **s) {
    (void)s;
    char *a = driver->alloc(0, 1 << 20), *b = driver->alloc(0, 4096);
    float there[100], back[100];
    for (int i = 0; i < 100; i++) there[i] = (float)i;
    assert_true(driver->copy(0, NULL, a + 1000, there, sizeof there, TPI_GPU_FROM_HOST));
    assert_true(driver->copy(0, NULL, b + 64, a + 1000, sizeof there, TPI_GPU_WITHIN));
    assert_true(driver->set(0, NULL, b + 64, 0, 4));
    assert_true(driver->copy(0, NULL, back, b + 64, sizeof back, TPI_GPU_TO_HOST));
    there[0] = 0;
    assert_memory_equal(there, back, sizeof back);
    driver->free(0, a);
    assert_false(driver->copy(0, NULL, back, a + 1000, 4, TPI_GPU_TO_HOST));
    assert_failed("is not in the memory of an xpu device");
    driver->free(0, b);
}

static void kernels_take_addresses_and_values(void **s) {
    (void)s;
    enum { N = 1000 };
    tpi_gpu_function *f = scale();
    char *block = driver->alloc(0, 1 << 16);
    float values[N];
    for (int i = 0; i < N; i++) values[i] = (float)i;
    assert_true(driver->copy(0, NULL, block + 256, values, sizeof values, TPI_GPU_FROM_HOST));
    launch(f, NULL, block + 256, block + 8192, N, 3);
    assert_true(driver->copy(0, NULL, values, block + 8192, sizeof values, TPI_GPU_TO_HOST));
    for (int i = 0; i < N; i++) assert_true(values[i] == 3.0f * (float)i);
    driver->free(0, block);
}

/* What was built stays to the end, as with kernels of the library. */
static bool builds(const char *text, const char *name) {
    static tpi_gpu_module *modules[4];
    static tpi_gpu_function *functions[4];
    static int n;
    assert_true(n < 4);
    if (!driver->build(0, text, name, &modules[n]) || !driver->function(0, modules[n], name, &functions[n]))
        return false;
    n++;
    return true;
}

/* Kernels' text needs no more of OpenCL than kernels/builtins.h declares; what does is compiled all the same, with all
 * of it. */
static void programs_declare_what_they_call(void **s) {
    (void)s;
    static const char whole[] = "__kernel void whole(__global char *x, ulong x_at) { ((__global float *)(x + x_at))[0] "
                                "= dot((float4)(1, 2, 3, 4), (float4)(1)); }\n";
    if (!caps.keeps) {
        print_message("SKIPPED: expected PoCL\n");
        skip();
    }
    tpi_cl_device *d = tpi_cl_device_at(0);
    assert_true(strlen(tpi_kernel_text_of("builtins.h")) > 0);
    assert_true(builds(source, "scale"));
    assert_false(builds("__kernel void broken( {", "broken"));
    assert_failed("could not build broken");
    assert_true(atomic_load(&d->declares));
    assert_true(builds(whole, "whole"));
    assert_false(atomic_load(&d->declares));
    assert_true(builds(source, "scale"));
    atomic_store(&d->declares, true);
}

static void streams_wait_for_events_and_take_times(void **s) {
    (void)s;
    enum { N = 1 << 16 };
    tpi_gpu_function *f = scale();
    tpi_gpu_stream *one, *two;
    tpi_gpu_event *from, *to;
    assert_true(driver->stream_new(0, 0, &one));
    assert_true(driver->stream_new(0, 0, &two));
    assert_true(driver->event_new(0, true, &from));
    assert_true(driver->event_new(0, true, &to));
    assert_int_equal(driver->event_query(0, from), 1); /* before the first record */
    char *x = driver->alloc(0, N * 4);
    float value = 1;
    for (int i = 0; i < N; i += N - 1) assert_true(driver->copy(0, one, x + i * 4L, &value, 4, TPI_GPU_FROM_HOST));
    assert_true(driver->event_record(0, from, one));
    for (int i = 0; i < 20; i++) launch(f, one, x, x, N, 2);
    assert_true(driver->event_record(0, to, one));
    assert_true(driver->stream_wait(0, two, to));
    for (int i = 0; i < 4; i++) launch(f, two, x, x, N, 0.5f);
    assert_true(driver->copy(0, two, &value, x + (N - 1) * 4L, 4, TPI_GPU_TO_HOST));
    assert_true(value == 65536);
    int done;
    while ((done = driver->stream_query(0, two)) == 0) {}
    assert_int_equal(done, 1);
    double milliseconds = -1;
    assert_true(driver->event_sync(0, to));
    assert_true(driver->event_elapsed(0, from, to, &milliseconds));
    assert_true(milliseconds >= 0);
    assert_true(milliseconds < 60000);
    assert_true(driver->device_sync(0));
    driver->event_free(0, from);
    driver->event_free(0, to);
    driver->stream_free(0, one);
    driver->stream_free(0, two);
    driver->free(0, x);
}

static void what_cannot_be_is_an_error(void **s) {
    (void)s;
    size_t bytes, free, total, then;
    assert_null(driver->compile("__kernel void broken( {", "broken", caps.arch, &bytes));
    assert_failed("could not build broken");
    assert_null(driver->compile(source, "scale", "sm_90", &bytes));
    assert_failed("got 'sm_90'");
    assert_false(driver->device_sync(99));
    assert_failed("device 'xpu:99' is not available here");
    assert_true(driver->memory_info(0, &free, &total));
    assert_null(driver->alloc(0, total + 1));
    assert_null(tp_error());
    void *block = driver->alloc(0, 1 << 20);
    assert_true(driver->memory_info(0, &then, &total));
    assert_true(then == free - (1 << 20));
    driver->free(0, block);
    assert_true(driver->memory_info(0, &then, &total));
    assert_true(then == free);
}

/* Each thread writes a number of its own into memory of its own by the same kernel object. */
static void *work(void *context) {
    tpi_gpu_function *f = context;
    char *x = driver->alloc(0, 4096);
    static atomic_int next;
    float mine = (float)(1 + atomic_fetch_add(&next, 1)), one = 1, got;
    long wrong = !x || !driver->copy(0, NULL, x, &one, 4, TPI_GPU_FROM_HOST);
    int n = 1;
    tpi_gpu_arg args[] = {TPI_GPU_PTR(x), TPI_GPU_PTR(x + 64), TPI_GPU_VAL(n), TPI_GPU_VAL(mine)};
    for (int i = 0; i < 50 && !wrong; i++) {
        wrong |= !driver->launch(0, NULL, f, (unsigned[]){1, 1, 1}, (unsigned[]){1, 1, 1}, 0, 4, args);
        wrong |= !driver->copy(0, NULL, &got, x + 64, 4, TPI_GPU_TO_HOST) || got != mine;
    }
    driver->free(0, x);
    return (void *)wrong;
}

static void threads_share_a_kernel(void **s) {
    (void)s;
    tpi_gpu_function *f = scale();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, f), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

static void a_forked_child_is_told(void **s) {
    (void)s;
    assert_true(driver->device_sync(0));
    pid_t child = fork();
    if (child == 0)
        _exit(!driver->device_sync(0) && strstr(tp_error(), "Cannot re-initialize XPU in forked subprocess") ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_true(WEXITSTATUS(status) == 0);
}

/* How many devices a process finds under these variables: this program, started anew, says so. */
static int count_with(const char *tiles, const char *mask) {
    pid_t child = fork();
    if (child == 0) {
        setenv("TAPER_XPU_TILES", tiles, 1);
        setenv("ZE_AFFINITY_MASK", mask, 1);
        execl("/proc/self/exe", "opencl_test", "count", (char *)NULL);
        _exit(99);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void tiles_and_masks_count(void **s) {
    (void)s;
    if (!caps.host_memory || caps.units < 2 ||
        driver->count() != 1) { /* a GPU's driver may read the mask itself, and its tiles are as they are */
        print_message("SKIPPED: expected one processor of two cores or more\n");
        skip();
    }
    assert_int_equal(count_with("1", ""), 1);
    assert_int_equal(count_with("2", ""), 2);
    assert_int_equal(count_with("2", "0.1"), 1);
    assert_int_equal(count_with("2", "0"), 2);
    assert_int_equal(count_with("1", "1,2"), 0);
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) return driver->count();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_can_be_added_to),
        cmocka_unit_test(kernels_take_addresses_and_values),
        cmocka_unit_test(streams_wait_for_events_and_take_times),
        cmocka_unit_test(what_cannot_be_is_an_error),
        cmocka_unit_test(threads_share_a_kernel),
        cmocka_unit_test(a_forked_child_is_told),
        cmocka_unit_test(tiles_and_masks_count),
        cmocka_unit_test(programs_declare_what_they_call),
    };
    if (driver->count() == 0) {
        fprintf(stderr, "SKIPPED: %s (Debian: pocl-opencl-icd)\n", driver->missing());
        return 77;
    }
    if (!driver->describe(0, &caps)) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
