/* pad by mode, and the gradient of a constant pad, as calls of other operators. */
#include <string.h>
#include "ops/native.h"
#include "tensor/sizes.h"
#include "tpi_ops.h"

/* What was added is cut off again, what was cut off comes back as zeros. */
tp_tensor *tpi_compose_constant_pad_nd_backward(tp_tensor *grad, tp_ints pad) {
    int64_t undo[2 * TP_MAX_DIMS];
    if (pad.n > 2 * TP_MAX_DIMS)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'pad': expected at most %d amounts, got %lld", 2 * TP_MAX_DIMS,
                        (long long)pad.n);
    for (int64_t i = 0; i < pad.n; i++) undo[i] = tpi_size_negated(pad.v[i]);
    return tpo_constant_pad_nd(grad, tp_ints_view(undo, pad.n), tp_int(0));
}

/* Padding with elements of the input: its shape and the amounts must fit. */
static tp_tensor *pad_by_index(tp_tensor *input, tp_ints pad, const char *mode) {
    int64_t n = pad.n / 2;
    bool fits = pad.n % 2 == 0 && n >= 1 && n <= 3 && (input->ndim == n + 1 || input->ndim == n + 2);
    if (!fits)
        return tpi_fail(TP_ERR_MISSING,
                        "argument 'pad': Padding size %lld is not supported for %dD input tensor.\nSupported "
                        "combinations for non-constant padding:\n"
                        "  - 2D or 3D input: padding size = 2 (pads last dimension)\n  - 3D or 4D input: padding size "
                        "= 4 (pads last 2 dimensions)\n"
                        "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)",
                        (long long)pad.n, input->ndim);
    if (strcmp(mode, "circular") && !input->numel && (input->ndim == n + 1 || input->shape[0] > 0))
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'input': Expected %dD or %dD (batch mode) tensor with possibly 0 batch size and "
                        "other non-zero dimensions for input, but got: %s",
                        (int)n + 1, (int)n + 2, tpi_shape_text(tpi_shape(input)));
    return tpo_pad_index(input, pad, mode);
}

tp_tensor *tpi_compose_pad(tp_tensor *input, tp_ints pad, const char *mode, double value) {
    if (pad.n % 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'pad': Padding length must be divisible by 2, got %lld",
                        (long long)pad.n);
    if (pad.n > 2 * input->ndim)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'pad': Padding length should be less than or equal to two times the input dimension "
                        "but got padding length %lld and input of "
                        "dimension %d",
                        (long long)pad.n, input->ndim);
    if (!strcmp(mode, "constant")) {
        return tpo_constant_pad_nd(input, pad, tp_float(tpi_float_given(value) ? value : 0));
    }
    if (tpi_float_given(value) && value != 0)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'value': Padding mode \"%s\" doesn't take in value argument", mode);
    int64_t n = pad.n / 2;
    /* Under their own names, by which automatic mixed precision knows them. */
    bool reflects = !strcmp(mode, "reflect"), replicates = !strcmp(mode, "replicate");
    if (reflects)
        return (n == 1 ? tpo_reflection_pad1d : n == 2 ? tpo_reflection_pad2d : tpo_reflection_pad3d)(input, pad);
    if (replicates)
        return (n == 1 ? tpo_replication_pad1d : n == 2 ? tpo_replication_pad2d : tpo_replication_pad3d)(input, pad);
    return pad_by_index(input, pad, mode);
}

tp_tensor *tpi_compose_reflection_pad(tp_tensor *self, tp_ints padding) {
    return pad_by_index(self, padding, "reflect");
}
tp_tensor *tpi_compose_replication_pad(tp_tensor *self, tp_ints padding) {
    return pad_by_index(self, padding, "replicate");
}
