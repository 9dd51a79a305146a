/* Convolutions on GPUs by the driver's library. In the words of ops/conv/conv.h: x and y are what a convolution reads
 * and writes, w its weight, and each of the three may be the result; a transposed convolution exchanges x and y. All
 * three lie in one layout, contiguous or channels_last. */
#include "device/gpu/trace.h"
#include "tensor/channels_last.h"
#include "ops/conv/conv.h"
#include "ops/native_gpu.h"
#include "tpi_ops.h"
#include <taper/gpu.h>

/* A convolution over one dim is one over two, the first of which has one row. */
static void describe(const tp_tensor *t, int spatial, bool has_batch, int64_t *shape, int64_t *stride) {
    int n = 0, at = 0;
    shape[n] = has_batch ? t->shape[at] : 1;
    stride[n++] = has_batch ? t->strides[at] : t->numel;
    at += has_batch;
    shape[n] = t->shape[at];
    stride[n++] = t->strides[at++];
    if (spatial == 1) {
        shape[n] = 1;
        stride[n++] = t->shape[at] * t->strides[at] > 0 ? t->shape[at] * t->strides[at] : 1;
    }
    for (int i = 0; i < spatial; i++) {
        shape[n] = t->shape[at];
        stride[n++] = t->strides[at++];
    }
}

/* a and b are the two that are given, `role` of the third, which has `shape`. */
static tp_tensor *multiply(const tpi_conv *c, tpi_conv_role role, tp_tensor *a, tpi_conv_role role_a, tp_tensor *b,
                           tpi_conv_role role_b, int spatial, tp_ints shape) {
    tp_device device = tpi_device(a);
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device.type);
    if (!driver || !driver->conv || a->dtype != b->dtype || !tpi_gpu_floats(a) || !a->numel || !b->numel) return NULL;
    bool last = tpi_is_only_channels_last(a) || tpi_is_only_channels_last(b);
    tp_layout layout = tpi_layout_of(last, spatial + 2);
    if (last && (a->ndim != spatial + 2 || b->ndim != spatial + 2 || shape.n != spatial + 2)) layout = TP_CONTIGUOUS;
    tp_tensor *of[3] = {NULL};
    of[role_a] = tpi_gpu_laid_out(a, layout);
    of[role_b] = tpi_gpu_laid_out(b, layout);
    of[role] = tpi_empty_layout(shape, (tp_dtype)a->dtype, device, layout);
    tpi_served served = TPI_FAILED;
    if (of[TPI_CONV_X] && of[TPI_CONV_W] && of[TPI_CONV_Y] && of[role]->numel) {
        tpi_gpu_conv job = {.what = role == TPI_CONV_Y   ? TPI_CONV_FORWARD
                                    : role == TPI_CONV_X ? TPI_CONV_GRAD_INPUT
                                                         : TPI_CONV_GRAD_WEIGHT,
                            .dtype = (tp_dtype)a->dtype,
                            .dims = spatial == 1 ? 2 : spatial,
                            .groups = c->groups,
                            .x = of[TPI_CONV_X]->data,
                            .w = of[TPI_CONV_W]->data,
                            .y = of[TPI_CONV_Y]->data,
                            .tf32 = tp_gpu_is_on(TP_GPU_CONV_TF32),
                            .benchmark = tp_gpu_is_on(TP_GPU_CONV_BENCHMARK),
                            .deterministic = tp_gpu_is_on(TP_GPU_CONV_DETERMINISTIC)};
        describe(of[TPI_CONV_X], spatial, of[TPI_CONV_X]->ndim == spatial + 2, job.x_shape, job.x_stride);
        describe(of[TPI_CONV_W], spatial, true, job.w_shape, job.w_stride);
        describe(of[TPI_CONV_Y], spatial, of[TPI_CONV_Y]->ndim == spatial + 2, job.y_shape, job.y_stride);
        for (int i = 0; i < job.dims; i++) {
            int d = 3 - job.dims + i;
            job.stride[i] = c->stride[d];
            job.padding[i] = c->pad[d];
            job.dilation[i] = c->dilation[d];
        }
        tpi_gpu_span span = tpi_gpu_span_begin(device, TP_ACTIVITY_LIBRARY, "convolution", 0);
        served = tp_gpu_is_on(TP_GPU_CONV_LIBRARY) ? driver->conv(device.index, tpi_gpu_stream_of(device), &job)
                                                   : TPI_DECLINED;
        tpi_gpu_span_end(&span, served == TPI_SERVED);
    }
    tpi_release(of[role_a]);
    tpi_release(of[role_b]);
    return served == TPI_SERVED ? of[role] : tpi_release_then(of[role], NULL);
}

/* One value per channel, added where the result lies. */
static tp_tensor *with_bias(tp_tensor *y, tp_tensor *bias, int spatial) {
    if (!y || !bias) return y;
    int64_t shape[4] = {bias->numel, 1, 1, 1}, strides[4] = {bias->strides[0], 0, 0, 0};
    tp_tensor *column = tpi_alias(bias, 1 + spatial, shape, strides, tpi_offset(bias)),
              *flat = column ? tpi_detached(column) : NULL;
    tp_tensor *sum = flat ? tpo_add(tp_operand_tensor(y), tp_operand_tensor(flat), tp_int(1)) : NULL;
    tpi_release(column);
    tpi_release(flat);
    return tpi_release_then(y, sum);
}

/* What is wrong is the CPU's to say: geometry's error is cleared. */
static bool geometry(tpi_conv *c, tp_ints input, tp_ints weight, const tpi_conv_setting *s) {
    if (tpi_conv_geometry(c, input, weight, s)) return true;
    tp_error_clear();
    return false;
}

tpi_served tpi_gpu_convolution(tp_tensor *input, tp_tensor *weight, tp_tensor *bias, tp_ints stride, tp_ints padding,
                               tp_ints dilation, bool transposed, tp_ints output_padding, int64_t groups,
                               tp_tensor **result) {
    tpi_conv_setting s = {stride, padding, dilation, output_padding, transposed, groups};
    tpi_conv c;
    if (!geometry(&c, tpi_shape(input), tpi_shape(weight), &s)) return tpi_not_served();
    int64_t channels = groups * (transposed ? c.cx : c.cy), shape[5];
    int n = 0, spatial = weight->ndim - 2;
    if (bias && (bias->ndim != 1 || bias->numel != channels || bias->dtype != input->dtype)) return TPI_DECLINED;
    if (input->ndim == weight->ndim) shape[n++] = c.batch;
    shape[n++] = channels;
    for (int i = 3 - spatial; i < 3; i++) shape[n++] = transposed ? c.x[i] : c.y[i];
    tp_tensor *y = multiply(&c, transposed ? TPI_CONV_X : TPI_CONV_Y, input, transposed ? TPI_CONV_Y : TPI_CONV_X,
                            weight, TPI_CONV_W, spatial, tp_ints_view(shape, n));
    return tpi_serve(with_bias(y, bias, spatial), result);
}

tpi_served tpi_gpu_convolution_grad_input(tp_tensor *grad, tp_tensor *weight, tp_ints input_shape, tp_ints stride,
                                          tp_ints padding, tp_ints dilation, bool transposed, tp_ints output_padding,
                                          int64_t groups, tp_tensor **result) {
    tpi_conv_setting s = {stride, padding, dilation, output_padding, transposed, groups};
    tpi_conv c;
    if (!geometry(&c, input_shape, tpi_shape(weight), &s)) return tpi_not_served();
    return tpi_serve(multiply(&c, transposed ? TPI_CONV_Y : TPI_CONV_X, grad, transposed ? TPI_CONV_X : TPI_CONV_Y,
                              weight, TPI_CONV_W, weight->ndim - 2, input_shape),
                     result);
}

tpi_served tpi_gpu_convolution_grad_weight(tp_tensor *grad, tp_tensor *input, tp_ints weight_shape, tp_ints stride,
                                           tp_ints padding, tp_ints dilation, bool transposed, tp_ints output_padding,
                                           int64_t groups, tp_tensor **result) {
    tpi_conv_setting s = {stride, padding, dilation, output_padding, transposed, groups};
    tpi_conv c;
    if (!geometry(&c, tpi_shape(input), weight_shape, &s)) return tpi_not_served();
    return tpi_serve(multiply(&c, TPI_CONV_W, grad, transposed ? TPI_CONV_X : TPI_CONV_Y, input,
                              transposed ? TPI_CONV_Y : TPI_CONV_X, (int)weight_shape.n - 2, weight_shape),
                     result);
}
