/* Muon: the momentum of a matrix, brought near the orthogonal matrix of the same singular vectors by Newton-Schulz
 * steps in bfloat16. */
#include "optim/native.h"
#include "tpi_optimisers.h"
#include <math.h>
#include <taper/ops.h>

/* X <- a X + (b A + c A A) X with A = X X^T, from X with norm 1; wide matrices are cheaper, so tall ones are turned. */
static tp_tensor *orthogonal(const double *o, tp_tensor *x) {
    const bool tall = tp_size(x, 0) > tp_size(x, 1);
    x = tp_to(x, .dtype = TP_BFLOAT16);
    if (tall) x = tp_t(x);
    x = tp_div(x, tp_clamp(tp_linalg_vector_norm(x), .min = tp_float(o[MUON_EPS])));
    for (int64_t i = 0; i < (int64_t)o[MUON_NS_STEPS]; i++) {
        tp_tensor *gram = tp_matmul(x, tp_t(x));
        gram = tp_addmm(gram, gram, gram, .beta = tp_float(o[MUON_NS_B]), .alpha = tp_float(o[MUON_NS_C]));
        x = tp_addmm(x, gram, x, .beta = tp_float(o[MUON_NS_A]));
    }
    return tall ? tp_t(x) : x;
}

/* The learning rate for a matrix of this shape: 1 "original", also by default; 2 "match_rms_adamw"; 3
 * "spectral_unclamped". */
static double adjusted(const double *o, const tp_tensor *p) {
    const double rows = (double)p->shape[0], columns = (double)p->shape[1];
    if (o[MUON_ADJUST_LR_FN] == 2) return o[MUON_LR] * (0.2 * sqrt(fmax(rows, columns)));
    return o[MUON_LR] * sqrt(o[MUON_ADJUST_LR_FN] == 3 ? rows / columns : fmax(1, rows / columns));
}

static bool new_values(const double *o, tp_tensor *param, tp_tensor *grad, tp_tensor *const *state, tp_tensor **out) {
    if (param->ndim != 2 || tp_dtype_is_complex(param->dtype))
        return tpi_refuse(TP_ERR_VALUE,
                          "Muon only supports 2D real parameters whereas we found a parameter with size %s",
                          tpi_shape_text(tpi_shape(param)));
    tp_tensor *momentum = tp_lerp(state[MUON_STATE_MOMENTUM_BUFFER], grad, 1 - o[MUON_MOMENTUM]);
    tp_tensor *update = orthogonal(o, o[MUON_NESTEROV] != 0 ? tp_lerp(grad, momentum, o[MUON_MOMENTUM]) : momentum);
    out[1 + MUON_STATE_MOMENTUM_BUFFER] = tp_retain(momentum);
    out[0] = tp_retain(tp_sub(tp_mul(param, 1 - o[MUON_LR] * o[MUON_WEIGHT_DECAY]),
                              tp_to(update, .dtype = param->dtype), .alpha = tp_float(adjusted(o, param))));
    return tp_ok();
}

bool tpi_muon_update(int64_t n, const tpi_update_entry *entries) {
    return tpi_update_by_values(n, entries, 1, new_values);
}
