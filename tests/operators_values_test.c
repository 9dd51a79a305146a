/* Every operator's samples in every dtype its table lists. What must hold: the call works; narrow floating types give
 * what float64 gives for the same (rounded) inputs, narrow integers what int64 gives; and how an argument lies in
 * memory changes nothing: to the last bit for pointwise operators and views, up to rounding for the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "base/dtype.h"
#include "samples.h"

static bool call_or_report(const arguments *args, results *out) {
    if (call(args, out)) {
        if (!tp_ok()) report_error("succeeded with an error");
        return true;
    }
    report_error("failed");
    return false;
}

/* ---- A narrow dtype against the widest of its kind ---- */

static tp_dtype widest(tp_dtype dtype) {
    if (tp_dtype_is_complex(dtype)) return TP_COMPLEX128;
    return tp_dtype_is_floating(dtype) ? TP_FLOAT64 : TP_INT64;
}

/* What a result of dtype `wide` should have as dtype when the call is made in `dtype`: the wide types shrink with it,
 * others stay. */
static tp_dtype narrowed(tp_dtype wide, tp_dtype dtype) {
    if (wide == TP_INT64 && widest(dtype) == TP_INT64) return dtype;
    if (wide == TP_COMPLEX128) return tpi_dtype_to_complex(dtype);
    if (wide == TP_FLOAT64 && widest(dtype) != TP_INT64) return tpi_dtype_to_real(dtype);
    return wide;
}

/* Some give one dtype whatever comes in; sums of integers are int64; statistics of 16-bit types may be float32; any and
 * all of uint8 stay uint8. */
static bool right_dtype(const char *op, int result, tp_dtype has, tp_dtype wide, tp_dtype dtype) {
    bool half = dtype == TP_FLOAT16 || dtype == TP_BFLOAT16;
    static const char *const settled[] = {"double", "cdouble", "float_power"};
    for (size_t i = 0; i < sizeof settled / sizeof *settled; i++)
        if (!strcmp(op, settled[i])) return true;
    return has == narrowed(wide, dtype) || (has == TP_INT64 && widest(dtype) == TP_INT64) ||
           (half && result > 0 && has == TP_FLOAT32) || (dtype == TP_UINT8 && wide == TP_BOOL && has == TP_UINT8);
}

static bool names_a_dtype(const operator_sample *sample) {
    for (int i = 0; i < sample->nargs; i++)
        if (sample->args[i].kind == SAMPLE_DTYPE) return true;
    return false;
}

/* Not for random numbers, memory left unset, dtypes the sample fixes, eigenvectors, which are right with either sign,
 * compositions in uint8, which wraps in between, and powers of two, which hold too little to be compared. */
static bool comparable(const operator_sample *sample, const tp_operator *op, tp_dtype dtype) {
    if (dtype == TP_BOOL || dtype == widest(dtype) || dtype == TP_FLOAT8_E8M0FNU ||
        (dtype == TP_UINT8 && !strcmp(op->kind, "compose")))
        return false;
    return !call_was_random() && !leaves_memory_unset(op->name) && !names_a_dtype(sample) &&
           strcmp(op->name, "linalg_eig");
}

static void compare_with_wide(const operator_sample *sample, tp_dtype dtype, const arguments *args,
                              const results *got) {
    arguments wide;
    results want;
    if (!comparable(sample, args->op, dtype)) return;
    if (!widen_arguments(args, &wide)) return report_error("widening the arguments");
    bool whole = widest(dtype) == TP_INT64;
    if (!call(&wide, &want))
        tp_error_clear(); /* a sample that is not for the wide dtype */
    else if (want.n != got->n)
        report("%d results, %d in %s", got->n, want.n, tp_dtype_name(widest(dtype)));
    else
        for (int i = 0; i < got->n; i++) {
            tp_dtype has = tp_dtype_of(got->tensors[i]);
            if (!right_dtype(sample->op, i, has, tp_dtype_of(want.tensors[i]), dtype))
                report("result %d has dtype %s", i, tp_dtype_name(has));
            tp_tensor *same =
                whole ? tp_to(want.tensors[i], .dtype = has) : tp_retain(want.tensors[i]); /* integers wrap */
            if (!near(got->tensors[i], same, whole ? 1e-6 : tolerance_of(dtype)))
                report("result %d, against %s: %s", i, tp_dtype_name(widest(dtype)), difference());
            tp_release(same);
        }
    drop_results(&want);
    drop_arguments(&wide);
}

/* ---- Layouts ---- */

static bool exact(const tp_operator *op) { return !strcmp(op->kind, "map") || !strcmp(op->kind, "view"); }

static void compare_results(const tp_operator *op, const results *got, const results *want, double tolerance) {
    if (got->n != want->n) return report("%d results, %d of plain arguments", got->n, want->n);
    if (got->plain != want->plain && got->plain == got->plain)
        report("gives %g, %g for plain arguments", got->plain, want->plain);
    for (int i = 0; i < got->n; i++)
        if (!same_kind(got->tensors[i], want->tensors[i]) ||
            (exact(op) ? !same_bits(got->tensors[i], want->tensors[i])
                       : !near(got->tensors[i], want->tensors[i], tolerance)))
            report("result %d, against plain arguments: %s", i, difference());
}

static void compare_layouts(const operator_sample *sample, const tp_operator *op, tp_dtype dtype,
                            const results *plain) {
    if (depends_on_strides(op->name) || leaves_memory_unset(op->name)) return;
    for (variant how = TRANSPOSED; how <= EXPANDED; how++) {
        arguments args, repeated;
        results got, want = {0};
        at(sample, dtype, variant_names[how]);
        if (how == TRANSPOSED && call_was_random()) continue; /* numbers are drawn in the order of memory */
        if (!make_arguments(sample, dtype, how, NULL, &args)) continue;
        if (args.varied && how == EXPANDED && make_arguments(sample, dtype, REPEATED, NULL, &repeated)) {
            bool worked = call(&repeated, &want); /* repeated values may not suit the operator */
            tp_error_clear();
            if (worked && call_or_report(&args, &got)) {
                compare_results(op, &got, &want, tolerance_of(dtype) / 4);
                drop_results(&got);
            }
            drop_results(&want);
            drop_arguments(&repeated);
        } else if (args.varied && call_or_report(&args, &got)) {
            compare_results(op, &got, plain, tolerance_of(dtype) / 4);
            drop_results(&got);
        }
        drop_arguments(&args);
    }
}

static void every_dtype_and_layout(const operator_sample *sample, const tp_operator *op) {
    for (tp_dtype dtype = TP_BOOL; dtype < TP_DTYPE_COUNT; dtype++) {
        arguments args, before;
        results got;
        if (!sample_allows(sample, dtype)) continue;
        at(sample, dtype, "plain");
        if (!make_arguments(sample, dtype, PLAIN, NULL, &args) || !make_arguments(sample, dtype, PLAIN, NULL, &before))
            continue;
        if (call_or_report(&args, &got)) {
            compare_with_wide(sample, dtype, &before, &got);
            compare_layouts(sample, op, dtype, &got);
            drop_results(&got);
        }
        drop_arguments(&args);
        drop_arguments(&before);
    }
}

static void samples_agree_over_dtypes_and_layouts(void **state) {
    (void)state;
    for_each_sample(false, every_dtype_and_layout);
    fail_if_reported();
}

/* ---- Shapes that samples need not spell out: pointwise operators take any ---- */

static bool tensors_alone(const operator_sample *sample) {
    for (int i = 0; i < sample->nargs; i++)
        if (sample->args[i].kind == SAMPLE_LIST ||
            (sample->args[i].kind == SAMPLE_TENSOR &&
             (sample->args[i].maker == MAKE_SPD || sample->args[i].maker == MAKE_WELLCOND)))
            return false;
    return true;
}

static void small_shapes(const operator_sample *sample, const tp_operator *op) {
    static const shape_override shapes[] = {{0, {0}}, {2, {0, 3}}, {1, {1}}};
    if (strcmp(op->kind, "map") || !tensors_alone(sample)) return;
    for (int i = 0; i < 3; i++) {
        arguments args;
        results got;
        tp_dtype dtype = first_dtype(sample);
        at(sample, dtype, i == 0 ? "zero-dimensional" : i == 1 ? "of shape [0, 3]" : "of shape [1]");
        if (!make_arguments(sample, dtype, PLAIN, &shapes[i], &args)) continue;
        if (args.ntensors && call_or_report(&args, &got)) {
            for (int k = 0; k < got.n; k++) {
                tp_tensor *t = got.tensors[k];
                bool fits = tp_ndim(t) == shapes[i].ndim;
                for (int d = 0; fits && d < shapes[i].ndim; d++) fits = tp_size(t, d) == shapes[i].shape[d];
                if (!fits) report("result %d has %d dims and %lld elements", k, tp_ndim(t), (long long)tp_numel(t));
            }
            drop_results(&got);
        }
        drop_arguments(&args);
    }
}

static void pointwise_operators_take_zero_dims_and_empty_tensors(void **state) {
    (void)state;
    for_each_sample(false, small_shapes);
    fail_if_reported();
}

static void every_operator_has_a_sample(void **state) {
    (void)state;
    for (int64_t i = 0; i < tp_operator_count(); i++) {
        int k = 0;
        if (tp_operator_at(i)->internal) continue;
        while (k < operator_sample_count &&
               (operator_samples[k].error || strcmp(operator_samples[k].op, tp_operator_at(i)->name)))
            k++;
        if (k == operator_sample_count) report("%s has no sample", tp_operator_at(i)->name);
    }
    fail_if_reported();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_has_a_sample),
        cmocka_unit_test(samples_agree_over_dtypes_and_layouts),
        cmocka_unit_test(pointwise_operators_take_zero_dims_and_empty_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
