/* Derivatives of every differentiable operator against central differences, in float64 and, where the operator takes
 * complex numbers, in complex128: first derivatives, derivatives of those, and first ones again for arguments and
 * gradients that lie otherwise in memory.
 *
 * All floating results are weighted with fixed random numbers into one real loss, Re(sum(conj(w) * result)); its
 * gradient with respect to a complex number is dL/dRe + i dL/dIm, PyTorch's convention. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "samples.h"
#include "tensor/tensor.h"

/* gradcheck's figures */
static const double step = 1e-6, absolute = 1e-5, relative = 1e-3;

/* Re(sum(conj(w) * t)) with w = weights_like(t, seed). */
static double weigh(const tp_tensor *t, uint64_t seed) {
    tp_tensor *w = weights_like(t, seed);
    double *x = numbers_of(t), *y = w ? numbers_of(w) : NULL, sum = 0;
    for (int64_t i = 0; x && y && i < 2 * t->numel; i++) sum += x[i] * y[i];
    free(x);
    free(y);
    tp_release(w);
    return sum;
}

/* ---- One evaluation: arguments with one number moved ---- */

typedef struct nudge {
    int tensor;
    int64_t at; /* number within the tensor: 2 * element + (imaginary) */
    double by;
} nudge;

static void move(tp_tensor *t, int64_t i, double by) {
    bool complex = tp_dtype_is_complex((tp_dtype)t->dtype);
    ((double *)t->data)[complex ? i : i / 2] += by;
}

static bool evaluate(const operator_sample *sample, tp_dtype dtype, variant how, const nudge *nudge, evaluation *e) {
    if (!prepare(sample, dtype, how, e)) return false;
    if (nudge) move(e->args.tensors[nudge->tensor], nudge->at, nudge->by);
    if (call(&e->args, &e->results)) return true;
    report_error("failed");
    drop_evaluation(e);
    return false;
}

static bool differentiate_or_report(evaluation *e, bool create_graph, weighting how) {
    if (differentiate(e, create_graph, how)) return true;
    report_error(create_graph ? "backward with create_graph failed" : "backward failed");
    return false;
}

static double loss_of(const evaluation *e) {
    double sum = 0;
    for (int i = 0; i < e->results.n; i++)
        if (is_weighted(e->results.tensors[i])) sum += weigh(e->results.tensors[i], (uint64_t)i + 1);
    return sum;
}

/* ---- First derivatives ---- */

static bool loss_at(const operator_sample *sample, tp_dtype dtype, nudge where, double *loss) {
    evaluation e;
    bool fine = false;
    TP_NO_GRAD
        fine = evaluate(sample, dtype, PLAIN, &where, &e);
    if (!fine) return false;
    *loss = loss_of(&e);
    drop_evaluation(&e);
    return true;
}

static bool close_enough(double got, double want) {
    return fabs(got - want) <= absolute + relative * fabs(want) || (isnan(got) && isnan(want));
}

typedef bool (*value_at)(const operator_sample *sample, tp_dtype dtype, nudge where, double *value);

/* `grad` against the differences of `value` with respect to one tensor argument; one report per argument is enough. */
static bool check_tensor(const operator_sample *sample, tp_dtype dtype, const arguments *args, int tensor,
                         const tp_tensor *grad, value_at value, const char *what) {
    const tp_tensor *t = args->tensors[tensor];
    double *got = grad ? numbers_of(grad) : NULL;
    bool fine = !grad || got;
    for (int64_t i = 0; fine && i < 2 * t->numel; i += tp_dtype_is_complex((tp_dtype)t->dtype) ? 1 : 2) {
        double above = 0, below = 0;
        fine = value(sample, dtype, (nudge){tensor, i, step}, &above) &&
               value(sample, dtype, (nudge){tensor, i, -step}, &below);
        double want = (above - below) / (2 * step), has = got ? got[i] : 0;
        if (!fine || close_enough(has, want)) continue;
        report("%s derivative of %s, element %lld%s: %.6g, by differences %.6g%s", what,
               args->op->args[args->argument[tensor]].name, (long long)i / 2, i % 2 ? " (imaginary)" : "", has, want,
               grad ? "" : " (no gradient came)");
        fine = false;
    }
    free(got);
    return fine;
}

static bool check_first(const operator_sample *sample, tp_dtype dtype) {
    evaluation e;
    if (!evaluate(sample, dtype, PLAIN, NULL, &e)) return false;
    bool fine = differentiate_or_report(&e, false, WEIGHTS_ALL);
    for (int i = 0; fine && i < e.n; i++) {
        const tp_tensor *t = e.args.tensors[e.which[i]], *g = e.grads[i];
        if (g && !same_kind(g, t)) {
            report("the gradient of %s: %s", e.args.op->args[e.args.argument[e.which[i]]].name, difference());
            fine = false;
        } else
            fine = check_tensor(sample, dtype, &e.args, e.which[i], g, loss_at, "first");
    }
    drop_evaluation(&e);
    return fine;
}

/* ---- Second derivatives: of the first gradients, weighted in turn ---- */

enum { SECOND_SEED = 1000 };

static bool gradient_at(const operator_sample *sample, tp_dtype dtype, nudge where, double *value) {
    evaluation e;
    if (!evaluate(sample, dtype, PLAIN, &where, &e)) return false;
    bool fine = differentiate_or_report(&e, false, WEIGHTS_ALL);
    *value = 0;
    for (int i = 0; fine && i < e.n; i++)
        if (e.grads[i]) *value += weigh(e.grads[i], SECOND_SEED + (uint64_t)i);
    drop_evaluation(&e);
    return fine;
}

static void check_second(const operator_sample *sample, tp_dtype dtype) {
    evaluation e;
    tp_tensor *outputs[MAX_TENSORS], *weights[MAX_TENSORS], *inputs[MAX_TENSORS], *seconds[MAX_TENSORS] = {NULL};
    int n = 0;
    if (!evaluate(sample, dtype, PLAIN, NULL, &e)) return;
    bool fine = differentiate_or_report(&e, true, WEIGHTS_ALL);
    for (int i = 0; fine && i < e.n; i++) {
        inputs[i] = e.args.tensors[e.which[i]];
        if (e.grads[i] && tp_requires_grad(e.grads[i])) {
            outputs[n] = e.grads[i];
            weights[n++] = weights_like(e.grads[i], SECOND_SEED + (uint64_t)i);
        }
    }
    tp_grad_options options = {.size = sizeof options, .allow_unused = true};
    if (fine && n && !tp_gradients((tp_tensors){outputs, n}, (tp_tensors){inputs, e.n}, weights, seconds, &options)) {
        report_error("backward of the backward failed");
        fine = false;
    }
    for (int i = 0; fine && i < e.n; i++)
        fine = check_tensor(sample, dtype, &e.args, e.which[i], seconds[i], gradient_at, "second");
    for (int i = 0; i < n; i++) tp_release(weights[i]);
    for (int i = 0; i < e.n; i++) tp_release(seconds[i]);
    drop_evaluation(&e);
}

/* ---- Other layouts ---- */

/* Repeated values may not be for this operator: a matrix of them is singular. */
static bool suits(const operator_sample *sample, tp_dtype dtype, variant how) {
    arguments args;
    results results;
    bool fine = make_arguments(sample, dtype, how, NULL, &args) && call(&args, &results);
    if (fine) drop_results(&results);
    tp_error_clear();
    drop_arguments(&args);
    return fine;
}

static void check_layouts(const operator_sample *sample, tp_dtype dtype) {
    static const struct {
        const char *name;
        variant how, plain;
        weighting weights, plain_weights;
    } cases[] = {{"transposed", TRANSPOSED, PLAIN, WEIGHTS_ALL, WEIGHTS_ALL},
                 {"stepped", STEPPED, PLAIN, WEIGHTS_ALL, WEIGHTS_ALL},
                 {"expanded", EXPANDED, REPEATED, WEIGHTS_ALL, WEIGHTS_ALL},
                 {"expanded gradient", PLAIN, PLAIN, WEIGHTS_EXPANDED, WEIGHTS_REPEATED}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        evaluation got, want;
        at(sample, dtype, cases[c].name);
        if (depends_on_strides(sample->op) || !suits(sample, dtype, cases[c].plain)) continue;
        if (!evaluate(sample, dtype, cases[c].how, NULL, &got)) continue;
        if (evaluate(sample, dtype, cases[c].plain, NULL, &want)) {
            bool fine = differentiate_or_report(&want, false, cases[c].plain_weights) &&
                        differentiate_or_report(&got, false, cases[c].weights);
            for (int i = 0; fine && i < want.n; i++)
                if (!near(got.grads[i], want.grads[i], 1e-10))
                    report("the gradient of %s: %s", got.args.op->args[got.args.argument[got.which[i]]].name,
                           difference());
            drop_evaluation(&want);
        }
        drop_evaluation(&got);
    }
}

static void check_sample(const operator_sample *sample, const tp_operator *op) {
    static const tp_dtype dtypes[] = {TP_FLOAT64, TP_COMPLEX128};
    if (!op->differentiable || sample->nograd) return;
    for (int i = 0; i < 2; i++) {
        if (!sample_allows(sample, dtypes[i])) continue;
        at(sample, dtypes[i], "");
        bool fine = check_first(sample, dtypes[i]);
        if (fine && !sample->nograd2) check_second(sample, dtypes[i]);
        if (fine) check_layouts(sample, dtypes[i]);
    }
}

static void derivatives_agree_with_differences(void **state) {
    (void)state;
    for_each_sample(false, check_sample);
    fail_if_reported();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(derivatives_agree_with_differences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
