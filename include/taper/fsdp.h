/* Fully sharded data parallel training: every rank keeps its part of the parameters, their gradients and the
 * optimiser's state. A unit's parameters are whole only while its module runs, forward or backward.
 *
 *     tp_fsdp *fsdp = tp_fsdp_new(net);                      // rank 0's parameters and buffers become everybody's
 *     tp_optimiser *adam = tp_adam(tp_fsdp_parts(fsdp), .lr = 1e-3);
 *     ...
 *     tp_backward(loss);
 *     if (!tp_fsdp_finish(fsdp)) ...                         // the parts' gradients are averages now
 *     tp_step(adam);
 *
 * A unit is a module: one of `units`, or else each child of the network. What is in no unit is one unit of the network
 * itself. A module that is a unit must be called as one (tp_forward): its parameters are NaN outside of that. A unit's
 * parameters have one dtype. What the optimiser does must go by element: SGD, Adam and their like, not LBFGS, Muon or
 * Adafactor. */
#ifndef TAPER_FSDP_H
#define TAPER_FSDP_H
#include <taper/dist.h>
#include <taper/nn.h>

TP_BEGIN

typedef struct tp_fsdp tp_fsdp;
typedef struct tp_fsdp_options {
    TP_STRUCT_SIZE(tp_fsdp_options);          /* sizeof(tp_fsdp_options) */
    tp_group *group TP_MEMBER(NULL);          /* NULL: all ranks */
    int64_t nunits TP_MEMBER(0);              /* 0: the network's children */
    tp_module *const *units TP_MEMBER(NULL);  /* modules inside of the network, none inside of another */
    bool keep_after_forward TP_MEMBER(false); /* parameters stay whole until the backward has used them */
    TP_OPTIONS_GUARD_
} tp_fsdp_options;
/* options may be NULL. The network must outlive it. Parameters that require no gradient are sharded, too. */
TP_API tp_fsdp *tp_fsdp_new_with(tp_module *net, const tp_fsdp_options *options);
#ifndef __cplusplus
#define tp_fsdp_new(...)       TP_FSDP_NEW_(__VA_ARGS__, )
#define TP_FSDP_DEFAULTS_      .size = (int64_t)sizeof(tp_fsdp_options), .keep_after_forward = false
#define TP_FSDP_NEW_(net, ...) TP_WITH_(tp_fsdp_options, tp_fsdp_new_with(net, &tp_o_), TP_FSDP_DEFAULTS_, __VA_ARGS__)
#else
static inline tp_fsdp *tp_fsdp_new(tp_module *net, const tp_fsdp_options &options = tp_fsdp_options()) {
    return tp_fsdp_new_with(net, &options);
}
#endif
/* This rank's part of each unit, flat, padded at the end: what an optimiser is made of. Borrowed. */
TP_API tp_tensors tp_fsdp_parts(const tp_fsdp *fsdp);
/* Waits for the averages, after each backward; false: an error. A part of which no parameter was used has no gradient,
 * unless another rank used one. */
TP_API bool tp_fsdp_finish(tp_fsdp *fsdp);
TP_API void tp_fsdp_pause(tp_fsdp *fsdp, bool on); /* while on, whole gradients add up here and nothing is sent */
/* Scales the parts' gradients down to that norm over all ranks; the norm before. NaN on failure. */
TP_API double tp_fsdp_clip_grad_norm(tp_fsdp *fsdp, double max_norm);
/* All parameters whole, to save them or to look at them; and in parts again. with_changes: what was written to the
 * whole parameters (tp_module_load) is kept. All ranks make the calls. */
TP_API bool tp_fsdp_unshard(tp_fsdp *fsdp);
TP_API bool tp_fsdp_reshard(tp_fsdp *fsdp, bool with_changes);
TP_API void tp_fsdp_free(tp_fsdp *fsdp); /* NULL is fine. Parameters that are in parts are NaN from then on */

TP_END
#endif
