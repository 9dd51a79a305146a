/* Activations that arrange their arguments before a kernel. */
#include "tensor/same_device.h"
#include "device/device.h"
#include "ops/native.h"
#include "tpi_ops.h"

/* One weight serves for all; otherwise weights lie along dim 1: (C) becomes (C, 1, ...). */
tp_tensor *tpi_compose_prelu(tp_tensor *self, tp_tensor *weight) {
    int64_t channels = self->ndim > 1 ? self->shape[1] : 1;
    if (weight->ndim > 1)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'weight': expected a tensor of 0 or 1 dimensions, got %d",
                        weight->ndim);
    if (weight->numel != 1 && weight->numel != channels)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'weight': Mismatch of parameter numbers and input channel size. Found parameter "
                        "numbers = %lld and channel size = %lld.",
                        (long long)weight->numel, (long long)channels);
    if (weight->dtype != self->dtype)
        return tpi_fail(TP_ERR_RUNTIME, "prelu: Type promoting not supported. Got %s and %s",
                        tp_dtype_word((tp_dtype)self->dtype), tp_dtype_word((tp_dtype)weight->dtype));
    const tp_device here = tpi_device(self),
                    there = tpi_device(weight); /* as a single number it would be taken from anywhere */
    if (weight->ndim && !tpi_same_device(here, there)) {
        tpi_refuse_device(here, there, " (prelu)");
        return NULL;
    }
    int64_t shape[TP_MAX_DIMS] = {weight->numel};
    int ndim = weight->numel == 1 ? 0 : self->ndim - 1;
    for (int i = 1; i < ndim; i++) shape[i] = 1;
    tp_tensor *lined = tpo_reshape(weight, tp_ints_view(shape, ndim));
    return lined ? tpi_release_then(lined, tpo_prelu_kernel(self, lined)) : NULL;
}
