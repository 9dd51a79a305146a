/* conv1d .. conv3d, conv_transpose1d .. 3d and their "same" padding, as calls of the one convolution operator. */
#include <string.h>
#include "ops/native.h"
#include "ops/spatial_arguments.h"
#include "tensor/sizes.h"
#include "tpi_ops.h"

static bool check_rank(const tp_tensor *input, const tp_tensor *weight, int n, const char *name) {
    if (weight->ndim != n + 2)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'weight': expected %d dims for %s, got %s", n + 2, name,
                          tpi_shape_text(tpi_shape(weight)));
    if (input->ndim != n + 1 && input->ndim != n + 2)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "Expected %dD (unbatched) or %dD (batched) input to %s, but got input of size: %s", n + 1,
                          n + 2, name, tpi_shape_text(tpi_shape(input)));
    return true;
}

static tp_tensor *forward(int n, const char *name, tp_tensor *input, tp_tensor *weight, tp_tensor *bias, tp_ints stride,
                          tp_ints padding, tp_ints dilation, int64_t groups) {
    if (!check_rank(input, weight, n, name)) return NULL;
    return tpo_convolution(input, weight, bias, stride, padding, dilation, false, TP_INTS(0), groups);
}

static tp_tensor *transpose(int n, const char *name, tp_tensor *input, tp_tensor *weight, tp_tensor *bias,
                            tp_ints stride, tp_ints padding, tp_ints output_padding, int64_t groups, tp_ints dilation) {
    if (!check_rank(input, weight, n, name)) return NULL;
    return tpo_convolution(input, weight, bias, stride, padding, dilation, true, output_padding, groups);
}

/* "same": the output keeps the input's sizes. The total padding dilation * (kernel - 1) is split in two; an odd one has
 * its extra column on the right, which needs an explicit pad. */
static tp_tensor *by_name(int n, const char *name, tp_tensor *input, tp_tensor *weight, tp_tensor *bias, tp_ints stride,
                          const char *padding, tp_ints dilation, int64_t groups) {
    if (!check_rank(input, weight, n, name)) return NULL;
    if (!strcmp(padding, "valid")) return forward(n, name, input, weight, bias, stride, TP_INTS(0), dilation, groups);
    if (strcmp(padding, "same"))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'padding': Invalid padding string: '%s', expected 'valid' or 'same'",
                        padding);
    for (int64_t i = 0; i < stride.n; i++)
        if (stride.v[i] != 1)
            return tpi_fail(TP_ERR_RUNTIME,
                            "argument 'padding': padding='same' is not supported for strided convolutions");
    int64_t each[3] = {0}, extra[6] = {0}, apart[3];
    bool uneven = false;
    if (!tpi_expand_steps("dilation", dilation, n, (int64_t[]){1, 1, 1}, apart)) return NULL;
    for (int i = 0; i < n; i++) {
        int64_t total = tpi_size_times(apart[i], weight->shape[2 + i] - 1);
        each[i] = total / 2;
        extra[2 * (n - 1 - i) + 1] = total % 2; /* pads are listed from the last dim on, left before right */
        uneven = uneven || total % 2;
    }
    if (!uneven) return forward(n, name, input, weight, bias, stride, tp_ints_view(each, n), dilation, groups);
    tp_tensor *padded = tpo_constant_pad_nd(input, tp_ints_view(extra, 2 * n), tp_int(0));
    return padded ? tpi_release_then(
                        padded, forward(n, name, padded, weight, bias, stride, tp_ints_view(each, n), dilation, groups))
                  : NULL;
}

tp_tensor *tpi_compose_conv1d(tp_tensor *input, tp_tensor *weight, tp_tensor *bias, tp_ints stride, tp_ints padding,
                              tp_ints dilation, int64_t groups) {
    return forward(1, "conv1d", input, weight, bias, stride, padding, dilation, groups);
}
tp_tensor *tpi_compose_conv2d(tp_tensor *input, tp_tensor *weight, tp_tensor *bias, tp_ints stride, tp_ints padding,
                              tp_ints dilation, int64_t groups) {
    return forward(2, "conv2d", input, weight, bias, stride, padding, dilation, groups);
}
tp_tensor *tpi_compose_conv3d(tp_tensor *input, tp_tensor *weight, tp_tensor *bias, tp_ints stride, tp_ints padding,
                              tp_ints dilation, int64_t groups) {
    return forward(3, "conv3d", input, weight, bias, stride, padding, dilation, groups);
}
tp_tensor *tpi_compose_conv1d_padding(tp_tensor *input, tp_tensor *weight, tp_tensor *bias, tp_ints stride,
                                      const char *padding, tp_ints dilation, int64_t groups) {
    return by_name(1, "conv1d", input, weight, bias, stride, padding, dilation, groups);
}
tp_tensor *tpi_compose_conv2d_padding(tp_tensor *input, tp_tensor *weight, tp_tensor *bias, tp_ints stride,
                                      const char *padding, tp_ints dilation, int64_t groups) {
    return by_name(2, "conv2d", input, weight, bias, stride, padding, dilation, groups);
}
tp_tensor *tpi_compose_conv3d_padding(tp_tensor *input, tp_tensor *weight, tp_tensor *bias, tp_ints stride,
                                      const char *padding, tp_ints dilation, int64_t groups) {
    return by_name(3, "conv3d", input, weight, bias, stride, padding, dilation, groups);
}
tp_tensor *tpi_compose_conv_transpose1d(tp_tensor *input, tp_tensor *weight, tp_tensor *bias, tp_ints stride,
                                        tp_ints padding, tp_ints output_padding, int64_t groups, tp_ints dilation) {
    return transpose(1, "conv_transpose1d", input, weight, bias, stride, padding, output_padding, groups, dilation);
}
tp_tensor *tpi_compose_conv_transpose2d(tp_tensor *input, tp_tensor *weight, tp_tensor *bias, tp_ints stride,
                                        tp_ints padding, tp_ints output_padding, int64_t groups, tp_ints dilation) {
    return transpose(2, "conv_transpose2d", input, weight, bias, stride, padding, output_padding, groups, dilation);
}
tp_tensor *tpi_compose_conv_transpose3d(tp_tensor *input, tp_tensor *weight, tp_tensor *bias, tp_ints stride,
                                        tp_ints padding, tp_ints output_padding, int64_t groups, tp_ints dilation) {
    return transpose(3, "conv_transpose3d", input, weight, bias, stride, padding, output_padding, groups, dilation);
}

/* The sum over everything but the channels; an unbatched gradient has one dim less than the weight. */
tp_tensor *tpi_compose_convolution_grad_bias(tp_tensor *grad, int64_t weight_ndim) {
    int64_t dims[TP_MAX_DIMS], n = 0, channel = grad->ndim == weight_ndim;
    for (int64_t i = 0; i < grad->ndim; i++)
        if (i != channel) dims[n++] = i;
    return tpo_sum(grad, tp_ints_view(dims, n), false, TP_NO_DTYPE);
}
