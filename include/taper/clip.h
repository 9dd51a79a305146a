/* Gradients kept within bounds before an optimiser's step. */
#ifndef TAPER_CLIP_H
#define TAPER_CLIP_H
#include <taper/tensor.h>

TP_BEGIN

/* The norm of all elements of all tensors as one vector: zero-dimensional, without history. norm_type: 2, 1, INFINITY
 * or any other order. */
TP_API tp_tensor *tp_total_norm(tp_tensors tensors, double norm_type);
/* Scales the tensors in place by max_norm / (total_norm + 1e-6) where that is below one. */
TP_API bool tp_clip_to_norm(tp_tensors tensors, double max_norm, tp_tensor *total_norm);
/* Scales the gradients of n parameters so that their joint 2-norm is at most max_norm. Returns the norm they had; -1
 * and an error on failure. Parameters without a gradient are passed over. */
TP_API double tp_clip_grad_norm(int64_t n, tp_tensor *const *parameters, double max_norm);
/* Moves every element of the gradients of n parameters into [-clip_value, clip_value]. */
TP_API bool tp_clip_grad_value(int64_t n, tp_tensor *const *parameters, double clip_value);

TP_END
#endif
