/* Adafactor: the gradient's mean square per row and per column stands for that of each element, v[i, j] = r[i] c[j] /
 * mean(r); the step is as large as the parameter's own root mean square asks for. */
#include "optim/native.h"
#include "tpi_optimisers.h"
#include <float.h>
#include <math.h>
#include <taper/ops.h>

static double smallest_step(tp_dtype d) { /* finfo(dtype).eps */
    switch (d) {
    case TP_FLOAT64: return DBL_EPSILON;
    case TP_FLOAT32: return (double)FLT_EPSILON;
    case TP_FLOAT16: return 0x1p-10;
    default: return 0x1p-7;
    }
}

static double norm(tp_tensor *x) { return tp_item(tp_linalg_vector_norm(x)); }

/* The mean square along a dim, which stays. */
static tp_tensor *mean_square(tp_tensor *grad, int64_t dim) {
    tp_tensor *n = tp_linalg_vector_norm(grad, .dim = TP_INTS(dim), .keepdim = true);
    return tp_div(tp_square(n), tp_size(grad, dim));
}

static bool new_values(const double *o, tp_tensor *param, tp_tensor *grad, tp_tensor *const *state, tp_tensor **out) {
    if (tp_dtype_is_complex(param->dtype))
        return tpi_refuse(TP_ERR_RUNTIME, "Adafactor does not support complex parameters");
    const double step =
        tp_scalar_to_double(tpi_load_scalar(state[ADAFACTOR_STATE_STEP]->data, state[ADAFACTOR_STATE_STEP]->dtype)) + 1;
    const double fresh = pow(step, o[ADAFACTOR_BETA2_DECAY]), rate = fmin(o[ADAFACTOR_LR], 1 / sqrt(step));
    const double eps1 = isnan(o[ADAFACTOR_EPS1]) ? smallest_step(param->dtype) : o[ADAFACTOR_EPS1];
    const double size = fmax(o[ADAFACTOR_EPS2], norm(param) / sqrt((double)param->numel)) * rate;
    tp_tensor *g = o[ADAFACTOR_MAXIMIZE] != 0 ? tp_neg(grad) : grad, *p = param, *estimate;
    if (o[ADAFACTOR_WEIGHT_DECAY] != 0) p = tp_mul(p, 1 - o[ADAFACTOR_LR] * o[ADAFACTOR_WEIGHT_DECAY]);
    if (grad->ndim > 1) {
        tp_tensor *row = tp_lerp(state[ADAFACTOR_STATE_ROW_VAR], mean_square(g, -1), fresh);
        tp_tensor *column = tp_lerp(state[ADAFACTOR_STATE_COL_VAR], mean_square(g, -2), fresh);
        estimate = tp_div(tp_matmul(row, column),
                          tp_clamp(tp_mean(row, .dim = TP_INTS(-2), .keepdim = true), .min = tp_float(eps1)));
        out[1 + ADAFACTOR_STATE_ROW_VAR] = tp_retain(row);
        out[1 + ADAFACTOR_STATE_COL_VAR] = tp_retain(column);
    } else {
        estimate = tp_lerp(state[ADAFACTOR_STATE_VARIANCE], tp_square(g), fresh);
        out[1 + ADAFACTOR_STATE_VARIANCE] = tp_retain(estimate);
    }
    tp_tensor *update = tp_mul(tp_rsqrt(tp_clamp(estimate, .min = tp_float(eps1 * eps1))), g);
    const double clip = fmax(1, norm(update) / (sqrt((double)param->numel) * o[ADAFACTOR_D]));
    out[0] = tp_retain(tp_sub(p, update, .alpha = tp_float(size / clip)));
    return tp_ok();
}

bool tpi_adafactor_update(int64_t n, const tpi_update_entry *entries) {
    return tpi_update_by_values(n, entries, 4, new_values);
}
