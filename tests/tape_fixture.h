/* What tests of the tape share: small float vectors, comparing them, errors, and the check that a test leaves nothing
 * behind. */
#ifndef TAPE_FIXTURE_H
#define TAPE_FIXTURE_H
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include <taper/taper.h>
#include "base/memory.h"

#define VALUES(...) \
    (int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)), (const float[]) { __VA_ARGS__ }
static inline tp_tensor *of_values(int n, const float *v) { return tp_from_data(v, TP_FLOAT32, TP_INTS(n)); }
#define VECTOR(...) of_values(VALUES(__VA_ARGS__))
#define LEAF(...)   tp_set_requires_grad(VECTOR(__VA_ARGS__), true)

static inline void assert_values(const tp_tensor *t, int n, const float *want) {
    float got[64];
    if (!t) fail_msg("no tensor: %s", tp_error() ? tp_error() : "and no error");
    assert_int_equal(tp_dtype_of(t), TP_FLOAT32);
    assert_int_equal(tp_numel(t), n);
    assert_true(tp_copy_out(t, got, sizeof got));
    for (int i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i]))))
            fail_msg("element %d: got %g, expected %g", i, (double)got[i], (double)want[i]);
}
#define ASSERT_VALUES(t, ...) assert_values(t, VALUES(__VA_ARGS__))

static inline void assert_error(const char *words) {
    assert_non_null(tp_error());
    if (!strstr(tp_error(), words)) fail_msg("expected '%s' in '%s'", words, tp_error());
    tp_error_clear();
}

static inline tp_tensor *square_sum(tp_tensor *x) { return tp_sum(tp_mul(x, x)); }
static inline tp_tensor *item(tp_tensor *x, int64_t i) { return tp_select(x, 0, i); }

/* The gradient of the sum of y, recorded. */
static inline tp_tensor *grad_of(tp_tensor *y, tp_tensor *x) {
    tp_tensor *g = NULL;
    tp_grad_options options = {.size = sizeof options, .create_graph = true};
    if (!tp_gradients(TP_LIST(tp_sum(y)), TP_LIST(x), NULL, &g, &options)) fail_msg("%s", tp_error());
    return g;
}

/* Every test leaves nothing behind. What the first calls of a thread set up stays: they are made before counting. */
static int64_t live_before;
static inline int remember_live(void **state) {
    (void)state;
    tp_error_clear(); /* whatever a failed test left */
    tp_grad_mode_leave(&(tp_grad_mode){false, false});
    TP_SCOPE {
        tp_tensor *x = LEAF(1, 2);
        tp_tensor *y = tp_add(tp_mul(tp_mul(x, 2), 2.5), x);
        tp_exp_(item(y, 1));
        tp_backward(tp_sum(grad_of(tp_mul(y, y), x)));
        tp_checkpoint(NULL, NULL, (tp_tensors){NULL, 0});
        tp_error_clear();
        tp_randn(TP_INTS(2));
    }
    live_before = tpi_alloc_live();
    return 0;
}
static inline int nothing_left(void **state) {
    (void)state;
    if (!tp_ok()) print_message("left an error: %s\n", tp_error());
    if (tpi_alloc_live() != live_before)
        print_message("left %lld blocks\n", (long long)(tpi_alloc_live() - live_before));
    return tp_ok() && tpi_alloc_live() == live_before ? 0 : -1;
}

/* Runs the work once to warm up and once per allocation it makes, with that one failing: nothing may leak. */
static inline void fail_each_allocation(void (*work)(void)) {
    work();
    if (!tp_ok()) fail_msg("%s", tp_error());
    int64_t count = tpi_alloc_count();
    work();
    count = tpi_alloc_count() - count;
    for (int64_t i = 1; i <= count; i++) {
        int64_t live = tpi_alloc_live();
        tpi_alloc_fail_at(i, i % 2);
        work();
        tpi_alloc_fail_at(0, false);
        tp_error_clear();
        if (tpi_alloc_live() != live)
            fail_msg("failing allocation %lld of %lld leaves %lld blocks", (long long)i, (long long)count,
                     (long long)(tpi_alloc_live() - live));
    }
}
#define CASE(test) cmocka_unit_test_setup_teardown(test, remember_live, nothing_left)
#endif
