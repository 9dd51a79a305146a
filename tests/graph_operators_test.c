/* Every operator in a graph: a sample's call is captured on some values and run on others, forward and backward, and
 * must give the bits that the call itself gives. Steps run side by side wherever one does not depend on the other.
 * Calls whose results no graph can repeat must say so instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <taper/graph.h>
#include "graph/graph.h"
#include "samples.h"
#include "tensor/tensor.h"

static int captured, refused;

/* Floating arguments take other values than those of the capture. */
static bool shrink(evaluation *e) {
    bool fine = true;
    TP_NO_GRAD
        for (int i = 0; i < e->args.ntensors && fine; i++) {
            tp_tensor *t = e->args.tensors[i];
            if (!t || !tp_dtype_is_floating(tp_dtype_of(t)) || tp_overlaps_itself(t)) continue;
            fine = tp_mul_(t, 0.75) != NULL;
        }
    return fine;
}

static bool ready(const operator_sample *sample, tp_dtype dtype, variant how, evaluation *e, bool other) {
    if (!prepare(sample, dtype, how, e)) return false;
    if (sample->nograd)
        for (int i = 0; i < e->n; i++) tp_set_requires_grad(e->args.tensors[e->which[i]], false);
    if (sample->nograd) e->n = 0;
    return !other || shrink(e);
}

static tp_compiled *capture(evaluation *e) {
    tp_tensor *inputs[MAX_TENSORS];
    int n = 0;
    for (int i = 0; i < e->args.ntensors; i++)
        if (e->args.tensors[i]) inputs[n++] = e->args.tensors[i];
    tp_capture *c = tp_capture_begin((tp_tensors){inputs, n});
    if (!c) return NULL;
    if (!call(&e->args, &e->results)) { /* samples that do not suit are the values test's affair */
        tp_capture_cancel(c);
        tp_error_clear();
        return NULL;
    }
    return tp_capture_end(c, (tp_tensors){e->results.tensors, e->results.n});
}

static bool replay(tp_compiled *g, evaluation *e) {
    tp_tensor *inputs[MAX_TENSORS];
    int n = 0;
    for (int i = 0; i < e->args.ntensors; i++)
        if (e->args.tensors[i]) inputs[n++] = e->args.tensors[i];
    e->results.n = (int)tp_compiled_outputs(g);
    tp_manual_seed(7);
    if (!tp_compiled_fits(g, (tp_tensors){inputs, n})) {
        report("does not fit what looks the same");
        return false;
    }
    if (tp_compiled_run(g, (tp_tensors){inputs, n}, e->results.tensors)) return true;
    e->results.n = 0;
    report_error("running the graph");
    return false;
}

static void compare(evaluation *got, evaluation *want) {
    for (int i = 0; i < want->results.n; i++) {
        if (!same_bits(got->results.tensors[i], want->results.tensors[i])) report("result %d: %s", i, difference());
        if (tp_requires_grad(got->results.tensors[i]) != tp_requires_grad(want->results.tensors[i]))
            report("result %d: requires_grad is not the call's", i);
    }
    if (!want->n) return;
    if (!differentiate(want, false, WEIGHTS_ALL)) return tp_error_clear();
    if (!differentiate(got, false, WEIGHTS_ALL)) return report_error("the graph's backward");
    for (int i = 0; i < want->n; i++) {
        if (!want->grads[i] != !got->grads[i])
            report("gradient %d: %s", i, got->grads[i] ? "there is one" : "there is none");
        else if (want->grads[i] && !same_bits(got->grads[i], want->grads[i]))
            report("gradient %d: %s", i, difference());
    }
}

static void check(const operator_sample *sample, tp_dtype dtype, variant how) {
    evaluation first, want, got;
    at(sample, dtype, variant_names[how]);
    if (!ready(sample, dtype, how, &first, false)) return;
    tp_compiled *g = capture(&first);
    if (!g) {
        if (tp_error() && !strstr(tp_error(), "cannot be captured")) report_error("capturing");
        refused += tp_error() != NULL;
        tp_error_clear();
        return drop_evaluation(&first);
    }
    captured++;
    if (ready(sample, dtype, how, &want, true)) {
        if (ready(sample, dtype, how, &got, true)) {
            if (!call(&want.args, &want.results))
                tp_error_clear();
            else if (replay(g, &got))
                compare(&got, &want);
            drop_evaluation(&got);
        }
        drop_evaluation(&want);
    }
    tp_compiled_release(g);
    drop_evaluation(&first);
}

/* Steps that draw keep their order, so each operator that does must be known. */
static void check_draws(const operator_sample *sample, const tp_operator *op) {
    evaluation e;
    if (strcmp(op->kind, "native") || !ready(sample, first_dtype(sample), PLAIN, &e, false)) return;
    at(sample, first_dtype(sample), "draws");
    tp_manual_seed(7);
    TP_SCOPE {
        tp_tensor *first = tp_rand(TP_INTS(1));
        tp_manual_seed(7);
        if (!call(&e.args, &e.results))
            tp_error_clear();
        else if (!same_bits(first, tp_rand(TP_INTS(1))) && !op->draws)
            report("draws random numbers, and nobody knows");
    }
    drop_evaluation(&e);
}

static void each(const operator_sample *sample, const tp_operator *op) {
    check_draws(sample, op);
    if (leaves_memory_unset(op->name)) return;
    check(sample, first_dtype(sample), PLAIN);
    if (!depends_on_strides(op->name)) check(sample, first_dtype(sample), TRANSPOSED);
    if (sample_allows(sample, TP_BFLOAT16)) check(sample, TP_BFLOAT16, PLAIN);
}

static void graphs_give_the_calls_bits(void **state) {
    (void)state;
    tpi_branches_gain = -1e9;
    tp_set_num_interop_threads(2);
    for_each_sample(false, each);
    print_message("%d calls captured, %d refused\n", captured, refused);
    fail_if_reported();
    if (captured > 100) assert_true(refused * 12 < captured);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(graphs_give_the_calls_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
