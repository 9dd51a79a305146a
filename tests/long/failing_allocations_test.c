/* Out of memory is an error, not a crash. With the Nth allocation failing, for each N in turn until nothing fails: a
 * training step, and every operator's samples forward and backward, end in an error or in success; nothing leaks; and
 * the next run is as if nothing had happened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "base/memory.h"
#include "samples.h"

/* ---- A training step ---- */

enum { PARAMETERS = 4 };

static tp_tensor *forward(tp_tensor *const *p, tp_tensor *x) { /* (N, 1, 8, 8) -> (N, 3) */
    x = tp_max_pool2d(tp_relu(tp_conv2d(x, p[0], .bias = p[1], .padding = TP_INTS(1))), TP_INTS(2)); /* (N, 4, 4, 4) */
    return tp_linear(tp_flatten(x, .start_dim = 1), p[2], .bias = p[3]);
}

/* One step from scratch: data, parameters, loss, gradients, update, the loss again. False: an error is pending. */
static bool train_once(double *loss) {
    const tp_ints shapes[PARAMETERS] = {TP_INTS(4, 1, 3, 3), TP_INTS(4), TP_INTS(3, 64), TP_INTS(3)};
    *loss = 0;
    tp_manual_seed(5);
    TP_SCOPE {
        tp_tensor *p[PARAMETERS], *x = tp_randn(TP_INTS(6, 1, 8, 8)), *labels = tp_randint(3, TP_INTS(6));
        for (int i = 0; i < PARAMETERS; i++) p[i] = tp_set_requires_grad(tp_mul(tp_randn(shapes[i]), 0.3), true);
        if (!tp_backward(tp_cross_entropy(forward(p, x), labels))) return false;
        TP_NO_GRAD {
            for (int i = 0; i < PARAMETERS; i++) tp_sub_(p[i], tp_mul(tp_grad(p[i]), 0.1));
            tp_tensor *after = tp_cross_entropy(forward(p, x), labels);
            if (after) *loss = tp_item(after);
        }
    }
    return tp_ok();
}

static void a_training_step_survives_every_failing_allocation(void **state) {
    (void)state;
    double expected = 0, loss = 0;
    assert_true(train_once(&expected));
    assert_true(train_once(&loss));
    assert_true(expected == loss);
    tp_memory_trim();
    int64_t live = tpi_alloc_live(), failed = 0;
    for (int and_after = 0; and_after < 2; and_after++)
        for (int64_t nth = 1;; nth++) {
            int64_t count = tpi_alloc_count();
            tpi_alloc_fail_at(nth, and_after);
            bool fine = train_once(&loss);
            tpi_alloc_fail_at(0, false);
            bool reached = tpi_alloc_count() - count >= nth;
            if (fine && loss != expected)
                fail_msg("allocation %lld failed and the loss became %.17g", (long long)nth, loss);
            if (!fine && tp_error_code() != TP_ERR_MEMORY)
                fail_msg("allocation %lld failed: %s", (long long)nth, tp_error() ? tp_error() : "no error");
            tp_error_clear();
            if (tpi_alloc_live() != live)
                fail_msg("allocation %lld failed and %lld blocks leaked", (long long)nth,
                         (long long)(tpi_alloc_live() - live));
            if (!train_once(&loss) || loss != expected)
                fail_msg("after allocation %lld failed, the next step gave %.17g", (long long)nth, loss);
            failed += !fine;
            if (fine && !reached) break;
        }
    print_message("%lld failing allocations\n", (long long)failed);
    assert_true(failed > 200);
}

/* ---- Every sample ---- */

static bool run_prepared(const operator_sample *sample, const tp_operator *op, evaluation *e) {
    return call(&e->args, &e->results) &&
           (!op->differentiable || sample->nograd || differentiate(e, false, WEIGHTS_ALL));
}

/* Live blocks that one clean run leaves behind are caches of first calls, so there is one before counting. */
static bool warm_up(const operator_sample *sample, const tp_operator *op, tp_dtype dtype) {
    evaluation e;
    if (!prepare(sample, dtype, PLAIN, &e)) return false;
    bool fine = run_prepared(sample, op, &e);
    tp_error_clear(); /* samples that do not work are the other tests' affair */
    drop_evaluation(&e);
    return fine;
}

static void fail_in_turn(const operator_sample *sample, const tp_operator *op) {
    enum { MOST = 400 };
    tp_dtype dtype = first_dtype(sample);
    if (!warm_up(sample, op, dtype)) return;
    for (int64_t nth = 1; nth <= MOST; nth++) {
        evaluation e;
        int64_t live = tpi_alloc_live();
        if (!prepare(sample, dtype, PLAIN, &e)) return;
        int64_t count = tpi_alloc_count();
        tpi_alloc_fail_at(nth, false);
        bool fine = run_prepared(sample, op, &e);
        tpi_alloc_fail_at(0, false);
        bool reached = tpi_alloc_count() - count >= nth;
        if (!fine && tp_error_code() != TP_ERR_MEMORY)
            report("allocation %lld failed: %s", (long long)nth, tp_error() ? tp_error() : "no error");
        if (fine && !tp_ok())
            report("allocation %lld failed, and the call succeeded with an error: %s", (long long)nth, tp_error());
        bool had_error = !tp_ok();
        tp_error_clear();
        drop_evaluation(&e);
        if (tpi_alloc_live() != live) {
            report("allocation %lld failed and %lld blocks leaked", (long long)nth,
                   (long long)(tpi_alloc_live() - live));
            return;
        }
        if (!had_error && !reached) return;
    }
}

static void samples_survive_every_failing_allocation(void **state) {
    (void)state;
    for_each_sample(false, fail_in_turn);
    fail_if_reported();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_training_step_survives_every_failing_allocation),
        cmocka_unit_test(samples_survive_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
