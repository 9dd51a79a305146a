/* Derivatives of functions: products with the Jacobian from either side, whole Jacobians and Hessians, and a function
 * over slices. As PyTorch's torch.autograd.functional and torch.func.
 *
 *     static tp_tensor *energy(tp_tensors in, void *context) { return tp_sum(tp_pow(in.v[0], 3)); }
 *     tp_tensor *h;
 *     tp_hessian(energy, NULL, TP_LIST(x), &h, false);            // (n, n), for x of n numbers
 *
 * The function gets tensors of its own, which require gradients and share the memory of those given, and returns one
 * tensor; it runs in a scope of its own. Results go to the innermost scope, as an operator's do. With create_graph they
 * have a history that leads to the tensors given. */
#ifndef TAPER_TRANSFORMS_H
#define TAPER_TRANSFORMS_H
#include <taper/autograd.h>

TP_BEGIN

/* v^T J: fills grads with one tensor per input. v has the output's shape; NULL: ones, for a one-element output. output
 * gets the function's result; it may be NULL. */
TP_API bool tp_vjp(tp_segment_fn fn, void *context, tp_tensors inputs, tp_tensor *v, tp_tensor **output,
                   tp_tensor **grads, bool create_graph);
/* J v: tangents has one tensor per input, of its shape. */
TP_API tp_tensor *tp_jvp(tp_segment_fn fn, void *context, tp_tensors inputs, tp_tensors tangents, tp_tensor **output,
                         bool create_graph);
/* Fills jacobians with one tensor per input, of shape output's shape + input's shape. */
TP_API bool tp_jacobian(tp_segment_fn fn, void *context, tp_tensors inputs, tp_tensor **jacobians, bool create_graph);
/* Of a function of one element: fills hessians with n * n tensors, hessians[i * n + j] of shape inputs[i]'s shape +
 * inputs[j]'s shape. */
TP_API bool tp_hessian(tp_segment_fn fn, void *context, tp_tensors inputs, tp_tensor **hessians, bool create_graph);
/* H v, of a function of one element: fills products with one tensor per input. */
TP_API bool tp_hvp(tp_segment_fn fn, void *context, tp_tensors inputs, tp_tensors v, tp_tensor **output,
                   tp_tensor **products, bool create_graph);
/* The function over slices: input i is cut along in_dims[i] (TP_NONE: it is given whole to each; no list: all along 0),
 * the results are stacked along out_dim. It calls the function once for each slice. Gradients flow to the inputs. */
TP_API tp_tensor *tp_vmap(tp_segment_fn fn, void *context, tp_tensors inputs, tp_ints in_dims, int64_t out_dim);

typedef struct tp_gradcheck_options {
    TP_STRUCT_SIZE(tp_gradcheck_options);
    double eps TP_MEMBER(1e-6);  /* how far an element is moved to either side */
    double atol TP_MEMBER(1e-5); /* what may differ: atol + rtol * |difference quotient| */
    double rtol TP_MEMBER(1e-3);
    TP_OPTIONS_GUARD_
} tp_gradcheck_options;
/* Are the function's gradients right? Compares its Jacobian at inputs of float64 with quotients of differences. False,
 * with an error that names the element, where they differ. For a custom function: tp_gradcheck(fn, NULL, TP_LIST(x)).
 */
TP_API bool tp_gradcheck_with(tp_segment_fn fn, void *context, tp_tensors inputs, const tp_gradcheck_options *options);
#ifdef __cplusplus
static inline bool tp_gradcheck(tp_segment_fn fn, void *context, tp_tensors inputs,
                                const tp_gradcheck_options &options = tp_gradcheck_options()) {
    return tp_gradcheck_with(fn, context, inputs, &options);
}
#else
#define tp_gradcheck(...)      TP_GRADCHECK_(__VA_ARGS__, )
#define TP_GRADCHECK_DEFAULTS_ .size = (int64_t)sizeof(tp_gradcheck_options), .eps = 1e-6, .atol = 1e-5, .rtol = 1e-3
#define TP_GRADCHECK_(fn, context, inputs, ...) \
    TP_WITH_(tp_gradcheck_options, tp_gradcheck_with(fn, context, inputs, &tp_o_), TP_GRADCHECK_DEFAULTS_, __VA_ARGS__)
#endif

TP_END
#endif
