/* Small parts of losses: questions asked of arguments, and losses that arrange shapes before a kernel. */
#include "ops/loss/loss.h"
#include "ops/temporaries.h"
#include "ops/native.h"
#include "ops/compute_dtype.h"
#include "tpi_ops.h"
#include <math.h>

bool tpi_native_is_same_size(tp_tensor *self, tp_tensor *other, bool *out) {
    *out = tpi_same_shape(self, other);
    return true;
}

bool tpi_native_within(tp_tensor *self, double low, double high, bool *out) {
    tp_dtype dtype = tpi_compute_dtype(self, "self");
    tp_tensor *t = dtype ? tpi_to_compute(self, dtype) : NULL;
    if (!t) return false;
    int64_t outside = 0;
    if (dtype == TP_FLOAT64)
        for (int64_t i = 0; i < t->numel; i++)
            outside += !(((const double *)t->data)[i] >= low && ((const double *)t->data)[i] <= high);
    else
        for (int64_t i = 0; i < t->numel; i++)
            outside += !(((const float *)t->data)[i] >= (float)low && ((const float *)t->data)[i] <= (float)high);
    *out = outside == 0;
    tpi_release(t);
    return true;
}

/* One variance for each value, one for each but the last dim, or with a single dim of size 1 that broadcasts. */
static tp_tensor *variance(tpi_temporaries *temps, tp_tensor *input, tp_tensor *var) {
    if (tpi_same_shape(input, var)) return var;
    if (var->ndim == input->ndim - 1 && !memcmp(var->shape, input->shape, sizeof *var->shape * (size_t)var->ndim))
        return tpi_put(temps, tpo_unsqueeze(var, -1));
    int64_t apart = 0;
    if (var->ndim == input->ndim)
        for (int i = 0; i < var->ndim; i++) apart += var->shape[i] == input->shape[i] ? 0 : var->shape[i];
    if (apart == 1) return var;
    return tpi_fail(TP_ERR_VALUE, "argument 'var': var is of incorrect size: %s for an input of %s",
                    tpi_shape_text(tpi_shape(var)), tpi_shape_text(tpi_shape(input)));
}

tp_tensor *tpi_compose_gaussian_nll_loss(tp_tensor *input, tp_tensor *target, tp_operand var, bool full, double eps,
                                         const char *reduction) {
    tpi_temporaries temps = {0};
    tp_tensor *v = var.tensor;
    if (!v) v = tpi_put(&temps, tpo_full_like(input, var.scalar, TP_NO_DTYPE, (tp_device){0, 0}, TP_PRESERVE));
    bool fine = false;
    if (!v || !tpo_within(v, 0, INFINITY, &fine)) return tpi_release_temporaries(&temps, NULL);
    if (!fine)
        return tpi_release_temporaries(&temps,
                                       tpi_fail(TP_ERR_VALUE, "argument 'var': var has negative entry/entries"));
    if (!(v = variance(&temps, input, v))) return tpi_release_temporaries(&temps, NULL);
    tp_tensor *each = tpi_put(&temps, tpo_gaussian_nll(input, target, v, eps));
    if (full)
        each = tpi_put(&temps, tpo_add(tp_operand_tensor(each), tp_operand_double(0.91893853320467274178), tp_int(1)));
    return tpi_release_temporaries(&temps, each ? tpo_reduce_loss(each, reduction) : NULL);
}
