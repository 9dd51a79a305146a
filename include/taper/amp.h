/* Automatic mixed precision: inside TP_AUTOCAST(TP_BFLOAT16) { ... } products and convolutions run in the lower
 * precision, losses and decompositions in float32, as the operator tables say (`autocast`); everything else takes what
 * comes. The casts are on the tape, so that gradients arrive in the parameters' own dtype. And what a gradient scaler
 * needs. */
#ifndef TAPER_AMP_H
#define TAPER_AMP_H
#include <taper/tensor.h>

TP_BEGIN

/* What a region changes, to be put back when it ends. */
typedef struct tp_autocast_mode {
    int64_t device, dtype;
    bool enabled, cache;
} tp_autocast_mode;
TP_API tp_autocast_mode tp_autocast_enter(tp_device_type device, tp_dtype dtype,
                                          bool enabled); /* of this thread; returns what was before */
TP_API void tp_autocast_leave(tp_autocast_mode *before);
/* TP_AUTOCAST(TP_BFLOAT16) { ... } on the CPU; regions nest, and base.h says how blocks are left. The forms with HERE
 * last until the end of the braces that they stand in. */
#define TP_AUTOCAST(dtype) \
    TP_BLOCK_("TP_AUTOCAST", tp_autocast_mode, tp_autocast_leave, tp_autocast_enter(TP_CPU, dtype, true))
#define TP_NO_AUTOCAST                                               \
    TP_BLOCK_("TP_NO_AUTOCAST", tp_autocast_mode, tp_autocast_leave, \
              tp_autocast_enter(TP_CPU, tp_autocast_dtype(TP_CPU), false))
#define TP_AUTOCAST_HERE(dtype) \
    TP_BLOCK_HERE_(tp_autocast_mode, tp_autocast_leave, tp_autocast_enter(TP_CPU, dtype, true))
#define TP_NO_AUTOCAST_HERE \
    TP_BLOCK_HERE_(tp_autocast_mode, tp_autocast_leave, tp_autocast_enter(TP_CPU, tp_autocast_dtype(TP_CPU), false))

/* The thread's settings, one by one. A lower precision is float16 or bfloat16; bfloat16 unless set (on CUDA float16).
 */
TP_API bool tp_autocast_enabled(tp_device_type device);
TP_API bool tp_set_autocast_enabled(tp_device_type device, bool on);
TP_API tp_dtype tp_autocast_dtype(tp_device_type device);
TP_API bool tp_set_autocast_dtype(tp_device_type device, tp_dtype dtype);
/* Casts of float32 leaves that require gradients are kept until the outermost region ends, so that a weight is cast
 * once. */
TP_API bool tp_autocast_cache_enabled(void);
TP_API void tp_set_autocast_cache_enabled(bool on);
TP_API void tp_clear_autocast_cache(void);
TP_API int64_t tp_autocast_nest(int64_t by); /* +1 or -1; returns the depth, and at 0 the kept casts go */

/* Multiplies all gradients by inverse_scale in place, where they stand (no tape; entries may be NULL). *found_inf: some
 * value was infinite or NaN. */
TP_API bool tp_unscale_gradients(tp_tensors grads, double inverse_scale, bool *found_inf);

TP_END
#endif
