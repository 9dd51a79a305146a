/* A differentiable function of one's own: a clipped exponential whose gradient is written by hand, checked against
 * differences.
 *     custom_function */
#include <math.h>
#include <stdio.h>
#include <taper/taper.h>

/* y = exp(min(x, limit)); the context holds the limit. */
static bool forward(tp_function_call *call, void *context, tp_tensors inputs, tp_tensor **outputs, int64_t noutputs) {
    (void)noutputs;
    const double limit = *(const double *)context;
    outputs[0] = tp_exp(tp_clamp(inputs.v[0], .max = tp_float(limit)));
    return tp_function_save(call, TP_LIST(inputs.v[0], outputs[0])); /* for backward */
}

/* dy/dx is y below the limit, and 0 above it. */
static bool backward(tp_function_call *call, void *context, tp_tensor *const *grads, int64_t noutputs,
                     tp_tensor **grad_inputs, int64_t ninputs) {
    (void)noutputs;
    (void)ninputs;
    const double limit = *(const double *)context;
    tp_tensor *x = tp_function_saved(call, 0), *y = tp_function_saved(call, 1);
    grad_inputs[0] = tp_mul(tp_mul(grads[0], y), tp_to(tp_lt(x, limit), .dtype = tp_dtype_of(x)));
    return grad_inputs[0] != NULL;
}

static double limit = 1;
static tp_tensor *clipped_exp(tp_tensor *x) {
    const tp_function function = {
        .size = sizeof function, .name = "ClippedExp", .forward = forward, .backward = backward};
    tp_tensor *y = NULL;
    return tp_apply(&function, &limit, TP_LIST(x), &y, 1) ? y : NULL;
}

int main(void) {
    TP_SCOPE {
        const double values[] = {-1, 0, 0.5, 2};
        tp_tensor *x = tp_set_requires_grad(tp_from_data(values, TP_FLOAT64, TP_INTS(4)), true);
        tp_tensor *y = clipped_exp(x);
        printf("made by %s\n", tp_grad_fn_name(y));
        tp_print(y);
        tp_backward(tp_sum(y));
        tp_print(tp_grad(x));

        const double step = 1e-6;
        tp_tensor *difference = NULL;
        TP_NO_GRAD
            difference = tp_div(tp_sub(clipped_exp(tp_add(x, step)), clipped_exp(tp_sub(x, step))), 2 * step);
        printf("largest difference: %.1e\n", tp_item(tp_max(tp_abs(tp_sub(difference, tp_grad(x))))));
    }
    if (tp_ok()) return 0;
    fprintf(stderr, "custom_function: %s\n", tp_error());
    return 1;
}
