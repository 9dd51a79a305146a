/* The GPU's caching allocator, streams, marks and pinned memory on whichever device is there (PoCL's counts), through
 * the public header. Skipped, and said so, where there is none. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <taper/gpu.h>
#include "device/gpu/driver.h"

static tp_device gpu;
#define MIB ((int64_t)1 << 20)

static int find_device(void **s) {
    (void)s;
    setenv("TAPER_XPU_DEVICES", "all", 0);
    if (tp_gpu_count(TP_CUDA))
        gpu = (tp_device){TP_CUDA, 0};
    else if (tp_gpu_count(TP_XPU))
        gpu = (tp_device){TP_XPU, 0};
    assert_true(tp_ok()); /* a count is never an error */
    return 0;
}

static void need_device(void) {
    if (gpu.type) return;
    print_message("SKIPPED: no GPU and no OpenCL device here (%s; %s)\n", tp_gpu_missing(TP_CUDA),
                  tp_gpu_missing(TP_XPU));
    skip();
}

static tp_gpu_memory stats(void) {
    tp_gpu_memory m = {.size = sizeof m};
    assert_true(tp_gpu_memory_query(gpu, &m));
    return m;
}
static int64_t allocated(void) { return stats().allocated_bytes[TP_GPU_POOL_ALL].current; }
static int64_t reserved(void) { return stats().reserved_bytes[TP_GPU_POOL_ALL].current; }
static char *alloc_bytes(int64_t bytes) {
    char *p = tp_gpu_memory_alloc(gpu, bytes, NULL);
    assert_non_null(p);
    return p;
}
static void free_bytes(void *p) { assert_true(tp_gpu_memory_free(p)); }
static void start_empty(void) {
    need_device();
    assert_true(tp_gpu_empty_cache((tp_device_type)gpu.type));
    assert_int_equal(allocated(), 0);
    assert_int_equal(reserved(), 0);
}
static void assert_failed(const char *words) {
    assert_false(tp_ok());
    if (!strstr(tp_error(), words)) fail_msg("expected an error with '%s', got '%s'", words, tp_error());
    tp_error_clear();
}

static void sizes_are_rounded_and_segments_shared(void **s) {
    (void)s;
    start_empty();
    char *a = alloc_bytes(1), *b = alloc_bytes(513);
    assert_int_equal(allocated(), 512 + 1024);
    assert_int_equal(reserved(), 2 * MIB);
    assert_ptr_equal(b, a + 512);
    char *c = alloc_bytes(5 * MIB), *d = alloc_bytes(31 * MIB + 1);
    assert_int_equal(reserved(), 2 * MIB + 20 * MIB + 32 * MIB);
    assert_int_equal(allocated(),
                     512 + 1024 + 5 * MIB + 32 * MIB); /* what is left of d's segment is too little to cut off */
    tp_gpu_memory m = stats();
    assert_int_equal(m.requested_bytes[TP_GPU_POOL_ALL].current, 1 + 513 + 36 * MIB + 1);
    assert_int_equal(m.allocation[TP_GPU_POOL_SMALL].current, 2);
    assert_int_equal(m.inactive_split[TP_GPU_POOL_ALL].current, 2);
    free_bytes(a);
    free_bytes(b);
    free_bytes(c);
    free_bytes(d);
    assert_int_equal(allocated(), 0);
    assert_int_equal(stats().inactive_split[TP_GPU_POOL_ALL].current,
                     0); /* neighbours joined: all segments are whole again */
    assert_int_equal(reserved(), 54 * MIB);
    assert_true(tp_gpu_empty_cache((tp_device_type)gpu.type));
    assert_int_equal(reserved(), 0);
    assert_int_equal(stats().reserved_bytes[TP_GPU_POOL_ALL].peak, 54 * MIB);
    assert_true(tp_gpu_memory_reset_peak(gpu));
    assert_int_equal(stats().reserved_bytes[TP_GPU_POOL_ALL].peak, 0);
}

static void the_best_fit_is_taken(void **s) {
    (void)s;
    start_empty();
    char *block[9];
    static const int64_t sizes[9] = {4096, 512, 2048, 512, 1536, 512, 8192, 512, 512};
    for (int i = 0; i < 9; i++) block[i] = alloc_bytes(sizes[i]);
    for (int i = 0; i < 8; i += 2) free_bytes(block[i]);
    char *p = alloc_bytes(1500), *q = alloc_bytes(1700), *r = alloc_bytes(5000);
    assert_ptr_equal(p, block[4]);
    assert_ptr_equal(q, block[2]);
    assert_ptr_equal(r, block[6]);
    free_bytes(p);
    free_bytes(q);
    free_bytes(r);
    for (int i = 1; i < 9; i += 2) free_bytes(block[i]);
    free_bytes(block[8]);
    assert_int_equal(stats().inactive_split[TP_GPU_POOL_ALL].current, 0);
}

/* Thousands of blocks of all sizes in a fixed disorder: no two live ones overlap, and in the end all is one. */
static void blocks_never_overlap(void **s) {
    (void)s;
    start_empty();
    enum { N = 400 };
    struct {
        char *p;
        int64_t n;
    } live[N] = {{NULL, 0}};
    uint32_t u = 1;
    for (int step = 0; step < 6000; step++) {
        u = u * 1664525u + 1013904223u;
        int i = (int)(u >> 8) % N;
        if (live[i].p) {
            free_bytes(live[i].p);
            live[i].p = NULL;
        } else {
            live[i].n = (int64_t)(u >> 20) * (step % 7 ? 37 : 900);
            live[i].p = alloc_bytes(live[i].n);
        }
        if (step % 500) continue;
        for (int a = 0; a < N; a++)
            for (int b = 0; b < N; b++)
                if (a != b && live[a].p && live[b].p && live[a].p <= live[b].p)
                    assert_true(live[a].p + live[a].n <= live[b].p);
    }
    for (int i = 0; i < N; i++)
        if (live[i].p) free_bytes(live[i].p);
    assert_int_equal(allocated(), 0);
    assert_int_equal(stats().inactive_split[TP_GPU_POOL_ALL].current, 0);
}

static void streams_keep_their_own(void **s) {
    (void)s;
    start_empty();
    tp_stream *side;
    assert_true(tp_stream_new(gpu, 0, &side));
    assert_non_null(side);
    char *a = alloc_bytes(1000);
    free_bytes(a);
    char *b = tp_gpu_memory_alloc(gpu, 1000, side);
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
    char *c = alloc_bytes(1000);
    assert_ptr_equal(a, c);
    tpi_gpu_record_stream(gpu, c, (tpi_gpu_stream *)side);
    free_bytes(c);
    assert_true(tp_stream_synchronize(gpu, side));
    c = alloc_bytes(1000); /* the event has come: handed out again */
    assert_ptr_equal(a, c);
    free_bytes(b);
    free_bytes(c);
    assert_int_equal(allocated(), 0);
    assert_int_equal(stats().active_bytes[TP_GPU_POOL_ALL].current, 0);
}

static void out_of_memory_says_why_and_nothing_breaks(void **s) {
    (void)s;
    start_empty();
    tp_gpu_info info = {.size = sizeof info};
    assert_true(tp_gpu_describe(gpu, &info));
    assert_true(tp_gpu_set_fraction(gpu, 64.5 * (double)MIB / (double)info.memory));
    const char *before = tpi_op_enter("conv2d");
    char *kept = alloc_bytes(30 * MIB);
    tpi_op_leave(before);
    char *loose = alloc_bytes(30 * MIB);
    free_bytes(loose);
    char *other = alloc_bytes(32 * MIB); /* fits only when the loose segment was given back */
    assert_int_equal(stats().num_alloc_retries, 1);
    assert_null(tp_gpu_memory_alloc(gpu, 40 * MIB, NULL));
    assert_int_equal(tp_error_code(), TP_ERR_MEMORY);
    assert_non_null(strstr(tp_error(), "out of memory. Tried to allocate 40.00 MiB."));
    assert_non_null(strstr(tp_error(), "largest free block"));
    assert_failed("30.00 MiB in 1 block of conv2d");
    assert_int_equal(stats().num_ooms, 1);
    free_bytes(kept);
    free_bytes(other);
    free_bytes(alloc_bytes(40 * MIB));
    assert_false(tp_gpu_set_fraction(gpu, 2));
    assert_failed("from 0 to 1");
    assert_true(tp_gpu_set_fraction(gpu, 1));
    assert_false(tp_gpu_memory_free(kept));
    assert_failed("not a live block");
}

static bool add_up(const tp_gpu_block *b, void *context) {
    int64_t *sum = context;
    sum[b->state] += b->bytes;
    return true;
}

static void reports_add_up(void **s) {
    (void)s;
    start_empty();
    char *a = alloc_bytes(700), *b = alloc_bytes(3 * MIB);
    int64_t sum[3] = {0};
    assert_true(tp_gpu_memory_snapshot(gpu, add_up, sum));
    assert_int_equal(sum[TP_GPU_BLOCK_ALLOCATED], allocated());
    assert_int_equal(sum[TP_GPU_BLOCK_FREE] + sum[TP_GPU_BLOCK_ALLOCATED], reserved());
    char text[8192];
    int64_t length = tp_gpu_memory_summary(gpu, false, text, sizeof text);
    assert_int_equal(length, (int64_t)strlen(text));
    assert_int_equal(length % 78, 0); /* every line is as wide as the frame */
    assert_non_null(strstr(text, "| Allocated memory      |   3073 KiB |"));
    assert_int_equal(tp_gpu_memory_summary(gpu, false, text, 10), length);
    free_bytes(a);
    free_bytes(b);
}

static void marks_order_streams(void **s) {
    (void)s;
    need_device();
    tp_stream *side;
    assert_true(tp_stream_new(gpu, -1, &side));
    assert_int_equal(tp_stream_priority(gpu, side), -1);
    tp_mark *first = tp_mark_new((tp_device_type)gpu.type, true), *second = tp_mark_new((tp_device_type)gpu.type, true);
    double ms = -1;
    assert_int_equal(tp_mark_query(first), 1);
    assert_false(tp_mark_elapsed(first, second, &ms));
    assert_failed("recorded");
    assert_true(tp_mark_record(first, gpu, NULL));
    assert_true(tp_stream_wait_mark(gpu, side, first));
    assert_true(tp_stream_wait(gpu, side, gpu, NULL));
    assert_true(tp_mark_record(second, gpu, side));
    assert_true(tp_mark_synchronize(second));
    assert_true(tp_mark_synchronize(first));
    assert_true(tp_mark_elapsed(first, second, &ms));
    assert_true(ms >= 0);
    assert_true(ms < 60000);
    assert_true(tp_stream_set_current(gpu, side));
    assert_ptr_equal(tp_stream_current(gpu), side);
    assert_true(tp_stream_set_current(gpu, NULL));
    assert_false(tp_gpu_set_current((tp_device){gpu.type, 63}));
    assert_failed("invalid device ordinal");
    tp_mark_free(first);
    tp_mark_free(second);
}

static void pinned_memory_is_kept_and_copied(void **s) {
    (void)s;
    need_device();
    tp_tensor *t = tpi_empty(TP_INTS(1000), TP_INT32, (tp_device){TP_CPU, 0});
    for (int i = 0; i < 1000; i++) ((int32_t *)t->data)[i] = i;
    tp_tensor *p = tp_pin_memory(t), *back = tp_pin_memory(t);
    assert_non_null(p);
    assert_true(tp_is_pinned(p));
    assert_false(tp_is_pinned(t));
    assert_memory_equal(p->data, t->data, 4000);
    void *block = tpi_gpu_alloc(gpu, 4000);
    memset(back->data, 0, 4000);
    bool before = tp_set_non_blocking(true);
    assert_true(tpi_gpu_copy_host(gpu, block, p->data, 4000, TPI_GPU_FROM_HOST));
    assert_true(tpi_gpu_copy_host(gpu, back->data, block, 4000, TPI_GPU_TO_HOST));
    tp_set_non_blocking(before);
    assert_true(tp_gpu_synchronize(gpu));
    assert_memory_equal(back->data, t->data, 4000);
    memset(back->data, 0, 4000);
    assert_true(tpi_gpu_copy_host(gpu, back->data, block, 4000, TPI_GPU_TO_HOST)); /* waits */
    assert_memory_equal(back->data, t->data, 4000);
    void *was = p->data;
    tp_release(p);
    p = tp_pin_memory(t);
    assert_ptr_equal(p->data, was);
    tp_release(p);
    tp_release(back);
    tpi_release(t);
    tpi_gpu_free(gpu, block, 4000);
    tp_pinned_trim();
}

static void a_freed_block_is_taken_again_without_the_driver(void **s) {
    (void)s;
    start_empty();
    tpi_gpu_free(gpu, tpi_gpu_alloc(gpu, 4096), 4096);
    const tp_gpu_memory before = stats();
    for (int i = 0; i < 1000; i++) tpi_gpu_free(gpu, tpi_gpu_alloc(gpu, 4096 + 512 * (i % 8)), 4096);
    const tp_gpu_memory after = stats();
    assert_int_equal(after.num_device_alloc, before.num_device_alloc);
    assert_int_equal(after.num_device_free, before.num_device_free);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_rounded_and_segments_shared),
        cmocka_unit_test(the_best_fit_is_taken),
        cmocka_unit_test(blocks_never_overlap),
        cmocka_unit_test(streams_keep_their_own),
        cmocka_unit_test(out_of_memory_says_why_and_nothing_breaks),
        cmocka_unit_test(reports_add_up),
        cmocka_unit_test(marks_order_streams),
        cmocka_unit_test(pinned_memory_is_kept_and_copied),
        cmocka_unit_test(a_freed_block_is_taken_again_without_the_driver),
    };
    return cmocka_run_group_tests(tests, find_device, NULL);
}
