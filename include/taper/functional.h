/* Functions that take modules or functions as arguments: a network with other tensors in the place of its parameters,
 * and losses by any distance. As PyTorch's torch.func and torch.nn.functional. */
#ifndef TAPER_FUNCTIONAL_H
#define TAPER_FUNCTIONAL_H
#include <taper/nn.h>
#include <taper/transforms.h>

TP_BEGIN

/* The module's answer with other tensors in the place of its parameters and buffers of these names ("0.weight");
 * gradients flow to them. The module is as before afterwards. */
TP_API tp_tensor *tp_functional_call(tp_module *m, int64_t n, const char *const *names, tp_tensor *const *tensors,
                                     tp_tensor *input);
/* All elements of the parameters in one row, one after the other; gradients flow back. */
TP_API tp_tensor *tp_parameters_to_vector(tp_tensors parameters);
/* The row's elements into the parameters, which keep their shapes. The row must have as many; otherwise nothing is
 * changed. */
TP_API bool tp_vector_to_parameters(tp_tensor *vector, tp_tensors parameters);
/* max(distance(anchor, positive) - distance(anchor, negative) + margin, 0). `distance` gets a list of two and gives a
 * number for each row; NULL: tp_pairwise_distance. swap: the negative's distance to the positive counts if it is less.
 * reduction: "mean", "sum" or "none". */
TP_API tp_tensor *tp_triplet_margin_with_distance_loss(tp_tensor *anchor, tp_tensor *positive, tp_tensor *negative,
                                                       tp_segment_fn distance, void *context, double margin, bool swap,
                                                       const char *reduction);

TP_END
#endif
