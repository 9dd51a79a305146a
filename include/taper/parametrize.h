/* Parameters that are computed from others before each forward: weight and spectral norm, pruning. Names are those of
 * PyTorch's torch.nn.utils, so that states go both ways.
 *
 *     tp_weight_norm(layer, "weight", 0);          // weight is made of weight_g and weight_v from now on
 *     tp_prune_l1(layer, "weight", tp_float(0.3)); // weight_orig times weight_mask; the smallest 30 % are masked
 *     tp_unparametrize(layer, "weight");           // a plain parameter again, with the value that it has
 *
 * The tensor that was the parameter goes on as weight_v or weight_orig, so an optimiser that holds it trains it; what
 * is new (weight_g) must be given to one. One parametrization for a name, except that a pruned tensor can be pruned
 * further. Recurrent layers take none. */
#ifndef TAPER_PARAMETRIZE_H
#define TAPER_PARAMETRIZE_H
#include <taper/nn.h>

TP_BEGIN

/* name = name_v with its norms over all dims but `dim` replaced by name_g; dim TP_NONE: one norm for all. */
TP_API bool tp_weight_norm(tp_module *m, const char *name, int64_t dim);
/* name = name_orig over its largest singular value, which `iterations` of power iteration in each training forward
 * follow in name_u and name_v; dim is that of the outputs (TP_NONE: 0, and 1 for transposed convolutions). */
TP_API bool tp_spectral_norm(tp_module *m, const char *name, int64_t iterations, double eps, int64_t dim);

/* ---- Pruning: name = name_orig * name_mask ----
 * amount: tp_int(5) is that many elements or channels, tp_float(0.3) that share, of those that are not pruned yet. */
TP_API bool tp_prune_identity(tp_module *m, const char *name); /* the names alone: nothing is masked */
TP_API bool tp_prune_random(tp_module *m, const char *name, tp_scalar amount);
TP_API bool tp_prune_l1(tp_module *m, const char *name, tp_scalar amount); /* the smallest elements */
/* Masks whole channels along dim, drawn at random. */
TP_API bool tp_prune_random_structured(tp_module *m, const char *name, tp_scalar amount, int64_t dim);
/* The channels along dim whose elements have the smallest norm of the given order (2, 1, INFINITY). */
TP_API bool tp_prune_ln_structured(tp_module *m, const char *name, tp_scalar amount, double order, int64_t dim);
TP_API bool tp_prune_mask(tp_module *m, const char *name, tp_tensor *mask); /* what is 0 in the mask */
/* The smallest elements of n tensors together, as if they were one. */
TP_API bool tp_prune_global_l1(int64_t n, tp_module *const *modules, const char *const *names, tp_scalar amount);
TP_API bool tp_is_pruned(const tp_module *m); /* anything of it, or below it */

/* Makes name a plain parameter again, with the value that it has. */
TP_API bool tp_unparametrize(tp_module *m, const char *name);

TP_END
#endif
