/* pad by mode, and the gradient of a constant pad, as calls of other operators. */
#include <string.h>
#include "ops/native.h"
#include "tpi_ops.h"

/* What was added is cut off again, what was cut off comes back as zeros. */
tp_tensor *tpi_compose_constant_pad_nd_backward(tp_tensor *grad, tp_ints pad) {
    int64_t undo[2 * TP_MAX_DIMS];
    for (int64_t i = 0; i < pad.n; i++) undo[i] = -pad.v[i];
    return tpo_constant_pad_nd(grad, tp_ints_view(undo, pad.n), tp_int(0));
}

tp_tensor *tpi_compose_pad(tp_tensor *input, tp_ints pad, const char *mode, double value) {
    if (!strcmp(mode, "constant")) {
        tp_scalar fill = value != value ? tp_int(0) : tp_dtype_is_floating((tp_dtype)input->dtype) || tp_dtype_is_complex((tp_dtype)input->dtype) ? tp_float(value) : tp_int((int64_t)value);
        return tpo_constant_pad_nd(input, pad, fill);
    }
    if (value == value && value != 0)
        return tpi_fail(TP_ERR_VALUE, "argument 'value': Padding mode \"%s\" doesn't take in value argument", mode);
    int64_t n = pad.n / 2;
    bool fits = pad.n % 2 == 0 && n >= 1 && n <= 3 && (input->ndim == n + 1 || input->ndim == n + 2);
    if (!fits)
        return tpi_fail(TP_ERR_MISSING, "argument 'pad': Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now, got input %s and %lld amounts",
                        tpi_shape_text(tpi_shape(input)), (long long)pad.n);
    return tpo_pad_index(input, pad, mode);
}
