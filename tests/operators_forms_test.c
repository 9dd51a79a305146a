/* The forms of every operator beside the plain call: in place and `out`, with the same values and gradients; and calls
 * that must fail: with the words of the table and the operator's name, with every input as it was, and with the thread
 * fit to go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "samples.h"
#include "tensor/tensor.h"

static const tp_dtype tried[] = {TP_INT16, TP_INT64, TP_BFLOAT16, TP_FLOAT32, TP_FLOAT64, TP_COMPLEX64};
enum { TRIED = sizeof tried / sizeof *tried };

static bool usable(const tp_operator *op) { return !leaves_memory_unset(op->name) && !depends_on_strides(op->name); }

/* Copies of the tensor arguments' bytes as they were, to see that a failed call changed nothing. */
typedef struct snapshot {
    int n;
    tp_tensor *copies[MAX_TENSORS];
    int64_t versions[MAX_TENSORS];
} snapshot;
static void record_values(snapshot *s, const arguments *args) {
    *s = (snapshot){.n = args->ntensors};
    for (int i = 0; i < s->n; i++) {
        tp_tensor *t = args->tensors[i];
        s->copies[i] = tpi_empty_like(t, (tp_dtype)t->dtype);
        if (!s->copies[i] || !tpi_copy_data(s->copies[i], t)) report_error("copying an argument");
        s->versions[i] = tp_tensor_version(t);
    }
}
static void expect_unchanged(const snapshot *s, const arguments *args) {
    for (int i = 0; i < s->n; i++)
        if (!same_bits(args->tensors[i], s->copies[i]))
            report("argument %s changed: %s", args->op->args[args->argument[i]].name, difference());
}
static void drop_snapshot(snapshot *s) {
    for (int i = 0; i < s->n; i++) tp_release(s->copies[i]);
}

/* ---- In place ---- */

/* Can the plain call's result be written into self? Otherwise the in-place call has to be refused. */
static bool fits_self(const arguments *args, const results *plain) {
    const tp_tensor *self = args->values[0].as.tensor;
    return plain->n == 1 && tpi_same_shape(self, plain->tensors[0]) &&
           tp_can_cast((tp_dtype)plain->tensors[0]->dtype, (tp_dtype)self->dtype);
}

/* Calls the in-place form; true when it worked. */
static bool call_inplace(const arguments *args) {
    tp_value result = {0};
    tp_manual_seed(7);
    if (!args->op->invoke_inplace(args->values, &result)) return false;
    if (result.as.tensor != args->values[0].as.tensor) report("the in-place form gave back another tensor than self");
    tp_release(result.as.tensor);
    return true;
}

static void check_written(const arguments *args, const results *want, int64_t version) {
    tp_tensor *self = args->values[0].as.tensor;
    if (!strcmp(args->op->kind, "view")) { /* a new geometry for self; nothing is written */
        if (!same_bits(self, want->tensors[0])) report("%s", difference());
        return;
    }
    if (!fits_self(args, want))
        return report("took a result that does not fit: %s into %s", tpi_shape_text(tpi_shape(want->tensors[0])),
                      tpi_shape_text(tpi_shape(self)));
    tp_tensor *cast = tpi_as_dtype_data(want->tensors[0], (tp_dtype)self->dtype);
    if (!near(self, cast, tolerance_of((tp_dtype)self->dtype) / 4)) report("%s", difference());
    if (tp_tensor_version(self) <= version && self->numel) report("the version was not raised");
    tp_release(cast);
}

static void check_inplace_values(const operator_sample *sample, tp_dtype dtype, variant how) {
    arguments plain, args;
    results want = {0};
    if (!make_arguments(sample, dtype, how, NULL, &plain) || !make_arguments(sample, dtype, how, NULL, &args)) return;
    if (args.values[0].kind == TP_K_TENSOR &&
        call(&plain, &want)) { /* samples that do not suit are the values test's affair */
        snapshot before;
        int64_t version = tp_tensor_version(args.values[0].as.tensor);
        record_values(&before, &args);
        if (call_inplace(&args))
            check_written(&args, &want, version);
        else {
            if (fits_self(&args, &want)) report_error("failed");
            tp_error_clear();
            expect_unchanged(&before, &args);
        }
        drop_snapshot(&before);
    }
    tp_error_clear();
    drop_results(&want);
    drop_arguments(&plain);
    drop_arguments(&args);
}

/* The gradients of the weighted result: plain; in place on a copy of self; in place on a part of a larger tensor. */
typedef enum form { FUNCTIONAL, IN_PLACE, IN_PLACE_ON_VIEW } form;

static bool gradients_by(form form, const operator_sample *sample, tp_tensor **grads, int *n) {
    arguments args;
    int which[MAX_TENSORS];
    if (!make_arguments(sample, TP_FLOAT64, PLAIN, NULL, &args)) return false;
    *n = want_gradients(sample, &args, which);
    tp_tensor *inputs[MAX_TENSORS], *self = args.values[0].as.tensor, *weights = NULL, *out = NULL;
    bool fine = false;
    for (int i = 0; i < *n; i++) inputs[i] = args.tensors[which[i]];
    TP_SCOPE {
        if (form == FUNCTIONAL) {
            tp_value result = {0};
            tp_manual_seed(7);
            if (args.op->invoke(args.values, &result)) out = tpi_to_scope(result.as.tensor);
        } else {
            tp_tensor *copy = form == IN_PLACE ? tp_mul(self, 1) : tp_stack(TP_LIST(self, self));
            args.values[0].as.tensor = form == IN_PLACE ? copy : tp_select(copy, 0, 1);
            if (copy && args.values[0].as.tensor && call_inplace(&args))
                out = form == IN_PLACE ? copy : tp_select(copy, 0, 1);
        }
        weights = out ? tpi_to_scope(weights_like(out, 3)) : NULL;
        tp_grad_options options = {.size = sizeof options, .allow_unused = true};
        fine = weights && (!tp_requires_grad(out) ||
                           tp_gradients(TP_LIST(out), (tp_tensors){inputs, *n}, &weights, grads, &options));
        for (int i = 0; fine && i < *n; i++) tp_keep(grads[i]);
    }
    drop_arguments(&args);
    if (!fine)
        report_error(form == FUNCTIONAL ? "backward"
                     : form == IN_PLACE ? "backward through the in-place form"
                                        : "backward through the in-place form on a view");
    return fine;
}

/* No gradient counts as one of zeros. */
static bool same_gradient(tp_tensor *got, tp_tensor *want) {
    if (got && want) return near(got, want, 1e-11);
    tp_tensor *zeros = got || want ? tp_mul(got ? got : want, 0) : NULL;
    bool same = !zeros || near(got ? got : want, zeros, 0);
    tp_release(zeros);
    return same;
}

static void check_inplace_gradients(const operator_sample *sample, const tp_operator *op) {
    arguments args;
    results plain = {0};
    if (!op->differentiable || sample->nograd || !sample_allows(sample, TP_FLOAT64) || !strcmp(op->kind, "view"))
        return;
    if (!make_arguments(sample, TP_FLOAT64, PLAIN, NULL, &args)) return;
    bool fits = args.values[0].kind == TP_K_TENSOR && call(&args, &plain) && fits_self(&args, &plain);
    drop_results(&plain);
    drop_arguments(&args);
    for (form form = IN_PLACE; fits && form <= IN_PLACE_ON_VIEW; form++) {
        tp_tensor *want[MAX_TENSORS] = {NULL}, *got[MAX_TENSORS] = {NULL};
        int n, m;
        at(sample, TP_FLOAT64, form == IN_PLACE ? "in place" : "in place on a view");
        if (gradients_by(FUNCTIONAL, sample, want, &n) && gradients_by(form, sample, got, &m))
            for (int i = 0; i < n; i++)
                if (!same_gradient(got[i], want[i])) report("the gradient of tensor %d: %s", i, difference());
        for (int i = 0; i < MAX_TENSORS; i++) {
            tp_release(want[i]);
            tp_release(got[i]);
        }
    }
}

/* A tensor whose elements share memory cannot be written element by element: the call is refused and nothing changes.
 */
static void check_overlapping_self(const operator_sample *sample) {
    arguments args;
    tp_dtype dtype = first_dtype(sample);
    at(sample, dtype, "in place on an expanded tensor");
    if (!make_arguments(sample, dtype, EXPANDED, NULL, &args)) return;
    tp_tensor *self = args.values[0].kind == TP_K_TENSOR ? args.values[0].as.tensor : NULL;
    if (self && strcmp(args.op->kind, "view") && !args.op->fills && tpi_overlaps_itself(self)) {
        snapshot before;
        record_values(&before, &args);
        if (call_inplace(&args))
            report("worked");
        else if (!tp_error() || !strstr(tp_error(), "memory"))
            report("the message does not speak of memory: %s", tp_error() ? tp_error() : "none");
        tp_error_clear();
        expect_unchanged(&before, &args);
        drop_snapshot(&before);
    }
    drop_arguments(&args);
}

static void inplace_form(const operator_sample *sample, const tp_operator *op) {
    if (!op->inplace || !usable(op)) return;
    for (int i = 0; i < TRIED; i++) {
        if (!sample_allows(sample, tried[i])) continue;
        at(sample, tried[i], "in place");
        check_inplace_values(sample, tried[i], PLAIN);
        at(sample, tried[i], "in place, transposed");
        check_inplace_values(sample, tried[i], TRANSPOSED);
    }
    check_inplace_gradients(sample, op);
    check_overlapping_self(sample);
}

static void inplace_forms_do_what_plain_ones_do(void **state) {
    (void)state;
    for_each_sample(false, inplace_form);
    fail_if_reported();
}

/* ---- out ---- */

static tp_tensor *make_out(const tp_tensor *like, int kind) {
    const tp_device cpu = {TP_CPU, 0};
    if (kind == 1) return tpi_empty(TP_INTS(0), (tp_dtype)like->dtype, cpu);
    if (kind == 0) return tpi_empty(tpi_shape(like), (tp_dtype)like->dtype, cpu);
    int64_t strides[TP_MAX_DIMS], next = 2;
    for (int d = 0; d < like->ndim; d++) {
        strides[d] = next;
        next *= like->shape[d] ? like->shape[d] : 1;
    }
    return tpi_empty_strided(tpi_shape(like), tp_ints_view(strides, like->ndim), (tp_dtype)like->dtype, cpu);
}

static void out_form(const operator_sample *sample, const tp_operator *op) {
    static const char *const names[] = {"out of the right size", "empty out", "strided out"};
    if (!op->out || !usable(op)) return;
    for (int i = 0; i < TRIED * 3; i++) {
        arguments args;
        results want;
        tp_dtype dtype = tried[i / 3];
        if (!sample_allows(sample, dtype)) continue;
        at(sample, dtype, names[i % 3]);
        if (!make_arguments(sample, dtype, PLAIN, NULL, &args)) continue;
        if (call(&args, &want)) {
            tp_tensor *out = make_out(want.tensors[0], i % 3);
            int64_t version = out ? tp_tensor_version(out) : 0;
            tp_manual_seed(7);
            if (!out || !op->invoke_out(out, args.values))
                report_error("failed");
            else if (!same_kind(out, want.tensors[0]) || !near(out, want.tensors[0], tolerance_of(dtype) / 4))
                report("%s", difference());
            else if (out->numel && tp_tensor_version(out) <= version)
                report("the version was not raised");
            tp_release(out);
            drop_results(&want);
        }
        tp_error_clear();
        drop_arguments(&args);
    }
}

static void out_forms_do_what_plain_ones_do(void **state) {
    (void)state;
    for_each_sample(false, out_form);
    fail_if_reported();
}

/* ---- Calls that must fail ---- */

/* Does the message start with the operator's name, as the user writes it? */
static bool names_operator(const char *message, const char *op) {
    return message && !strncmp(message, op, strcspn(op, "."));
}

static void expect_error(const arguments *args, const char *words) {
    snapshot before;
    bool worked = false;
    record_values(&before, args);
    TP_SCOPE
        worked = tp_call_values(args->op->name, args->op->nargs, args->values, 0, NULL);
    if (worked)
        report("worked; an error with '%s' was expected", words);
    else if (tp_ok())
        report("failed without an error");
    else if (!strstr(tp_error(), words))
        report("the message lacks '%s': %s", words, tp_error());
    else if (!names_operator(tp_error(), args->op->name))
        report("the message does not begin with the operator: %s", tp_error());
    tp_error_clear();
    expect_unchanged(&before, args);
    drop_snapshot(&before);
    tp_tensor *one = tp_scalar_tensor_of(tp_float(1), TP_FLOAT32), *two = tp_add(one, one);
    if (!two || tp_item(two) != 2) report_error("the thread is not fit to go on");
    tp_release(one);
    tp_release(two);
}

static void error_sample(const operator_sample *sample, const tp_operator *op) {
    arguments args;
    (void)op;
    if (!make_arguments(sample, first_dtype(sample), PLAIN, NULL, &args)) return;
    expect_error(&args, sample->error);
    drop_arguments(&args);
}

static void error_samples_fail_and_change_nothing(void **state) {
    (void)state;
    for_each_sample(true, error_sample);
    fail_if_reported();
}

static const char *last_op; /* one sample of each operator is enough */

static void null_arguments(const operator_sample *sample, const tp_operator *op) {
    if (last_op && !strcmp(last_op, op->name)) return;
    last_op = op->name;
    for (int k = 0; k < op->nargs; k++) {
        arguments args;
        const char *type = op->args[k].type;
        if (strcmp(type, "Tensor") && strcmp(type, "Operand") && strcmp(type, "Tensor[]")) continue;
        at(sample, first_dtype(sample), "with a NULL tensor");
        if (!make_arguments(sample, first_dtype(sample), PLAIN, NULL, &args)) return;
        if (strcmp(type, "Tensor[]")) {
            args.values[k] = tp_value_tensor(NULL);
            expect_error(&args, op->args[k].name);
        } else if (args.values[k].as.tensors.n) {
            args.values[k].as.tensors.v[0] = NULL;
            expect_error(&args, op->args[k].name);
        }
        drop_arguments(&args);
    }
}

static void null_tensors_are_errors_that_name_the_argument(void **state) {
    (void)state;
    last_op = NULL;
    for_each_sample(false, null_arguments);
    fail_if_reported();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inplace_forms_do_what_plain_ones_do),
        cmocka_unit_test(out_forms_do_what_plain_ones_do),
        cmocka_unit_test(error_samples_fail_and_change_nothing),
        cmocka_unit_test(null_tensors_are_errors_that_name_the_argument),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
