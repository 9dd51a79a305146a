/* Gradients against quotients of differences: the Jacobian that the tape gives, column by column beside what the
 * function's values say when one element of an input moves by eps to either side. */
#include "base/memory.h"
#include "autograd/glue.h"
#include "tensor/check_arguments.h"
#include <math.h>
#include <taper/ops.h>
#include <taper/transforms.h>

static bool good(tp_tensors inputs, const tp_gradcheck_options *o) {
    if (!(o->eps > 0))
        return tpi_refuse(TP_ERR_VALUE, "tp_gradcheck: option 'eps': expected a number above 0, got %g", o->eps);
    for (int64_t i = 0; i < inputs.n; i++)
        if (tpi_is_tensor(inputs.v[i], "inputs") && inputs.v[i]->dtype != TP_FLOAT64)
            return tpi_refuse(
                TP_ERR_TYPE,
                "tp_gradcheck: argument 'inputs': tensor %lld: expected float64, got %s: differences need the digits",
                (long long)i, tp_dtype_name((tp_dtype)inputs.v[i]->dtype));
    return tp_ok();
}

/* The function's value with element `at` of inputs[which] moved by `by`, in one row of doubles. */
static tp_tensor *value_beside(tp_segment_fn fn, void *context, tp_tensors inputs, int64_t which, int64_t at,
                               double by) {
    tp_tensor *moved = inputs.v[which], *flat = tp_clone(tp_reshape(tp_detach(moved), TP_INTS(-1)));
    tp_tensor **in = tpi_malloc(sizeof *in * (size_t)inputs.n), *out = NULL;
    if (in && tp_add_(tp_select(flat, 0, at), by)) {
        for (int64_t i = 0; i < inputs.n; i++) in[i] = tp_detach(inputs.v[i]);
        in[which] = tp_reshape(flat, tpi_shape(moved));
        out = tp_ok() ? fn(tp_list(inputs.n, in), context) : NULL;
        if (!out && tp_ok()) tpi_fail(TP_ERR_RUNTIME, "tp_gradcheck: argument 'fn': the function gave no tensor");
    }
    tpi_mfree(in);
    return tp_to(tp_reshape(out, TP_INTS(-1)), .dtype = TP_FLOAT64);
}

static bool column_is_right(const tp_tensor *numeric, const tp_tensor *analytic, int64_t which, int64_t at,
                            const tp_gradcheck_options *o) {
    if (!numeric || !analytic) return false;
    if (numeric->numel != analytic->numel)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "tp_gradcheck: argument 'fn': its result had %lld elements, and %lld in another call",
                          (long long)analytic->numel, (long long)numeric->numel);
    const double *n = tp_data(numeric), *a = tp_data(analytic);
    for (int64_t k = 0; k < numeric->numel; k++)
        if (!(fabs(n[k] - a[k]) <= o->atol + o->rtol * fabs(n[k])))
            return tpi_refuse(
                TP_ERR_RUNTIME,
                "tp_gradcheck: element %lld of the result with respect to element %lld of input %lld: the gradient is "
                "%.9g, differences of values say %.9g",
                (long long)k, (long long)at, (long long)which, a[k], n[k]);
    return true;
}

/* One column of the Jacobian: the derivatives with respect to one element. */
static bool check_column(tp_segment_fn fn, void *context, tp_tensors inputs, int64_t which, int64_t at,
                         tp_tensor *jacobian, const tp_gradcheck_options *o) {
    bool fine = false;
    TP_SCOPE {
        tp_tensor *above = NULL, *below = NULL;
        TP_NO_GRAD {
            above = value_beside(fn, context, inputs, which, at, o->eps);
            below = value_beside(fn, context, inputs, which, at, -o->eps);
        }
        tp_tensor *numeric = tp_div(tp_sub(above, below), 2 * o->eps);
        tp_tensor *flat = tp_reshape(jacobian, TP_INTS(-1, inputs.v[which]->numel));
        tp_tensor *analytic = tp_contiguous(tp_to(tp_select(flat, 1, at), .dtype = TP_FLOAT64));
        fine = column_is_right(numeric, analytic, which, at, o);
    }
    return fine;
}

bool tp_gradcheck_with(tp_segment_fn fn, void *context, tp_tensors inputs, const tp_gradcheck_options *options) {
    tp_gradcheck_options o = TP_DEFAULTS(GRADCHECK);
    if (options && !tpi_copy_options(&o, sizeof o, options, options->size)) return false;
    if (!TPI_GIVEN(fn, "a function") || !TPI_LIST_GIVEN(inputs.v, inputs.n) || !good(inputs, &o)) return false;
    tp_tensor **jacobians = tpi_malloc(sizeof *jacobians * (size_t)(inputs.n + 1));
    bool fine = false;
    TP_SCOPE {
        fine = jacobians && tp_jacobian(fn, context, inputs, jacobians, false);
        for (int64_t i = 0; fine && i < inputs.n; i++)
            for (int64_t at = 0; fine && at < inputs.v[i]->numel; at++)
                fine = check_column(fn, context, inputs, i, at, jacobians[i], &o);
    }
    tpi_mfree(jacobians);
    return fine;
}
