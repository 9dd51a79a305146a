/* Operators run on threads with a small stack: every sample with its gradient, and sizes whose blocks are whole, on a
 * thread of 128 KiB. An operator that needs more ends the process. tests/stack_frames_test.sh refuses frames above 64
 * KiB; this tells about sums of frames, too. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/dtype.h"
#include "samples.h"

/* Sanitizers put room around every variable. */
#if defined(__SANITIZE_ADDRESS__)
enum { STACK = 4 << 20 };
#else
enum { STACK = 128 << 10 }; /* OpenBLAS's thread-local memory takes 60 KiB of it */
#endif

static void *in_thread(void *body) {
    ((void (*)(void))(uintptr_t)body)();
    return NULL;
}

static void run_on_small_stack(void (*body)(void)) {
    pthread_attr_t attributes;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, in_thread, (void *)(uintptr_t)body), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
}

/* ---- Samples ---- */
static void one_sample(const operator_sample *sample, const tp_operator *op) {
    evaluation e;
    if (!prepare(sample, first_dtype(sample), TRANSPOSED, &e)) return;
    if (call(&e.args, &e.results) && op->differentiable && !sample->nograd) differentiate(&e, false, WEIGHTS_ALL);
    tp_error_clear(); /* the values test tells */
    drop_evaluation(&e);
}

static void all_samples(void) { for_each_sample(false, one_sample); }

static void samples_run_on_a_small_stack(void **state) {
    (void)state;
    run_on_small_stack(all_samples);
    fail_if_reported();
}

/* ---- Sizes whose blocks are whole ---- */
static bool fine;

static void large_sizes(void) {
    TP_SCOPE {
        for (int dtype = 0; dtype < 3; dtype++) {
            tp_tensor *x = tp_ones(TP_INTS(600, 700),
                                   .dtype = (tp_dtype[]){TP_FLOAT32, TP_FLOAT64, TP_COMPLEX128}[dtype]),
                      *transposed = tp_transpose(x, 0, 1);
            for (int64_t dim = 0; dim < 2; dim++) {
                tp_sum(x, .dim = TP_INTS(dim));
                tp_sum(transposed, .dim = TP_INTS(dim));
                tp_prod_dim(x, dim);
                tp_cumsum(transposed, dim);
                tp_var(transposed, .dim = TP_INTS(dim));
                if (dtype < 2) tp_softmax(x, dim);
            }
            tp_matmul(transposed, x);
            tp_matmul(x, transposed);
            tp_add(x, tp_transpose(tp_contiguous(transposed), 0, 1));
        }
    }
    fine = tp_ok();
}

static void large_sizes_run_on_a_small_stack(void **state) {
    (void)state;
    run_on_small_stack(large_sizes);
    assert_true(fine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_run_on_a_small_stack),
        cmocka_unit_test(large_sizes_run_on_a_small_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
