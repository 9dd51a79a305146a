/* A gradient scaler: multiplies the loss so that small gradients survive a 16-bit float, and undoes it before the
 * optimiser's step. The scale grows while gradients stay finite, and a step with others is left out. PyTorch's
 * GradScaler.
 *
 *     tp_scaler *scaler = tp_scaler_new();
 *     TP_AUTOCAST(TP_FLOAT16) loss = tp_cross_entropy(tp_forward(net, x), y);
 *     tp_backward(tp_scaler_scale(scaler, loss));
 *     tp_scaler_unscale(scaler, adam);                 // only to look at the gradients, or to clip them
 *     tp_scaler_step(scaler, adam);
 *     tp_scaler_update(scaler);
 */
#ifndef TAPER_SCALER_H
#define TAPER_SCALER_H
#include <taper/optim.h>

TP_BEGIN

typedef struct tp_scaler tp_scaler;
typedef struct tp_scaler_options {
    TP_STRUCT_SIZE(tp_scaler_options);
    double init_scale TP_MEMBER(65536), growth_factor TP_MEMBER(2), backoff_factor TP_MEMBER(0.5);
    int64_t growth_interval TP_MEMBER(2000); /* steps without infinities before the scale grows */
    bool enabled TP_MEMBER(true);            /* false: losses and steps pass as they are */
    TP_OPTIONS_GUARD_
} tp_scaler_options;
TP_API tp_scaler *tp_scaler_new_with(const tp_scaler_options *options); /* NULL: the defaults */
#ifndef __cplusplus
#define TP_SCALER_DEFAULTS_                                                                                     \
    .size = (int64_t)sizeof(tp_scaler_options), .init_scale = 65536, .growth_factor = 2, .backoff_factor = 0.5, \
    .growth_interval = 2000, .enabled = true
#define tp_scaler_new(...) TP_WITH_(tp_scaler_options, tp_scaler_new_with(&tp_o_), TP_SCALER_DEFAULTS_, __VA_ARGS__)
#else
static inline tp_scaler *tp_scaler_new(const tp_scaler_options &options = tp_scaler_options()) {
    return tp_scaler_new_with(&options);
}
#endif
TP_API void tp_scaler_free(tp_scaler *scaler); /* NULL is fine */

TP_API tp_tensor *tp_scaler_scale(tp_scaler *scaler, tp_tensor *loss); /* the loss times the scale */
/* Divides the gradients of the optimiser's parameters by the scale: once between two updates. */
TP_API bool tp_scaler_unscale(tp_scaler *scaler, tp_optimiser *o);
/* Unscales where that was not done, and steps unless a gradient is infinite or NaN. True also where the step was left
 * out. */
TP_API bool tp_scaler_step(tp_scaler *scaler, tp_optimiser *o);
TP_API bool tp_scaler_update(tp_scaler *scaler); /* the scale for the next step; once, after all optimisers' steps */
TP_API double tp_scaler_get_scale(const tp_scaler *scaler); /* NaN and an error on failure */
TP_API bool tp_scaler_found_inf(const tp_scaler *scaler); /* was any gradient infinite or NaN before the last update? */

/* What a checkpoint keeps, under PyTorch's names. */
typedef struct tp_scaler_state {
    int64_t size; /* sizeof(tp_scaler_state), set by the caller */
    double scale, growth_factor, backoff_factor;
    int64_t growth_interval, growth_tracker;
} tp_scaler_state;
TP_API bool tp_scaler_get_state(const tp_scaler *scaler, tp_scaler_state *state);
TP_API bool tp_scaler_set_state(tp_scaler *scaler, const tp_scaler_state *state);

TP_END
#endif
