/* im2col and col2im: patches of images as columns, and their sums back; each is the other's derivative. */
#include "ops/conv/im2col.h"
#include "ops/native.h"
#include "ops/compute_dtype.h"
#include "ops/spatial_arguments.h"

typedef struct job {
    tpi_conv c;
    tp_dtype dtype;
    int64_t channels;
    bool back;
    const char *from;
    char *to;
} job;

static void image_task(int64_t task, void *context) { /* one channel of one image */
    job *j = context;
    int64_t item = tpi_dtype_bytes[j->dtype], rows = j->c.y[1], ld = tpi_conv_ysize(&j->c),
            image = tpi_conv_xsize(&j->c), columns = tpi_conv_taps(&j->c) * tpi_conv_ysize(&j->c);
    const void *from = j->from + task * (j->back ? columns : image) * item;
    void *to = j->to + task * (j->back ? image : columns) * item;
    if (j->back) memset(to, 0, (size_t)(image * item));
    if (j->dtype == TP_FLOAT32) {
        if (j->back)
            TPI_ISA_PICK(tpi_col2im_f32)(&j->c, 1, 0, rows, from, ld, to);
        else
            TPI_ISA_PICK(tpi_im2col_f32)(&j->c, 1, 0, rows, from, to, ld);
    } else if (j->dtype == TP_FLOAT64) {
        if (j->back)
            TPI_ISA_PICK(tpi_col2im_f64)(&j->c, 1, 0, rows, from, ld, to);
        else
            TPI_ISA_PICK(tpi_im2col_f64)(&j->c, 1, 0, rows, from, to, ld);
    } else {
        if (j->back)
            TPI_ISA_PICK(tpi_col2im_i64)(&j->c, 1, 0, rows, from, ld, to);
        else
            TPI_ISA_PICK(tpi_im2col_i64)(&j->c, 1, 0, rows, from, to, ld);
    }
}

bool tpi_patches_geometry(tpi_conv *c, int64_t height, int64_t width, tp_ints kernel, tp_ints dilation, tp_ints padding,
                          tp_ints stride) {
    int64_t zeros[2] = {0}, ones[2] = {1, 1};
    *c = (tpi_conv){.batch = 1,
                    .groups = 1,
                    .cx = 1,
                    .cy = 1,
                    .x = {1, height, width},
                    .y = {1, 1, 1},
                    .k = {1, 1, 1},
                    .stride = {1, 1, 1},
                    .dilation = {1, 1, 1}};
    if (!tpi_expand_steps("kernel_size", kernel, 2, NULL, c->k + 1) ||
        !tpi_expand_steps("dilation", dilation, 2, ones, c->dilation + 1) ||
        !tpi_expand_steps("padding", padding, 2, zeros, c->pad + 1) ||
        !tpi_expand_steps("stride", stride, 2, ones, c->stride + 1))
        return false;
    for (int i = 1; i < 3; i++) {
        const struct {
            const char *what;
            int64_t value;
        } least[3] = {{"kernel size", c->k[i]}, {"dilation", c->dilation[i]}, {"stride", c->stride[i]}};
        for (int k = 0; k < 3; k++)
            if (least[k].value < 1)
                return tpi_refuse(TP_ERR_RUNTIME, "%s should be greater than zero, but got %lld", least[k].what,
                                  (long long)least[k].value);
        if (c->pad[i] < 0)
            return tpi_refuse(TP_ERR_RUNTIME, "padding should be non-negative, but got %lld", (long long)c->pad[i]);
        int64_t left = tpi_size_minus(tpi_size_plus(c->x[i], 2 * c->pad[i]), c->dilation[i] * (c->k[i] - 1) + 1);
        c->y[i] = left < 0 ? 0 : left / c->stride[i] + 1;
        if (c->y[i] < 1)
            return tpi_refuse(TP_ERR_RUNTIME,
                              "Given input with spatial size (%lld, %lld), kernel_size=(%lld, %lld), dilation=(%lld, "
                              "%lld), padding=(%lld, %lld), calculated shape of the "
                              "array of sliding blocks is too small in dim %d: its components must be at least one.",
                              (long long)height, (long long)width, (long long)c->k[1], (long long)c->k[2],
                              (long long)c->dilation[1], (long long)c->dilation[2], (long long)c->pad[1],
                              (long long)c->pad[2], i - 1);
    }
    return true;
}

/* Moves need no arithmetic: any dtype of 8 bytes goes as int64, complex64 among them. */
static tp_dtype moved_as(const tp_tensor *t, bool back) {
    tp_dtype d = (tp_dtype)t->dtype;
    if (d == TP_FLOAT32 || d == TP_FLOAT64 || d == TP_INT64) return d;
    if (d == TP_FLOAT16 || d == TP_BFLOAT16) return TP_FLOAT32;
    if (tp_dtype_is_complex(d)) {
        if (d == TP_COMPLEX64 && !back) return d;
        tpi_fail(TP_ERR_MISSING, "argument 'input': not available for %s", tp_dtype_name(d));
        return TP_NO_DTYPE;
    }
    return TP_INT64;
}

static tp_tensor *run(job *j, tp_tensor *self, int64_t planes, tp_ints shape) {
    tp_dtype compute = moved_as(self, j->back);
    if (!compute) return NULL;
    j->dtype = compute == TP_COMPLEX64 ? TP_INT64 : compute;
    tp_tensor *x = tpi_to_compute(self, compute), *y = x ? tpi_empty(shape, compute, tpi_device(self)) : NULL;
    if (y && y->numel > 0) {
        j->from = x->data;
        j->to = y->data;
        tpi_parallel_for(planes, x->numel + y->numel > 16384, image_task, j);
    }
    tpi_release(x);
    return tpi_from_compute(y, (tp_dtype)self->dtype);
}

tp_tensor *tpi_native_im2col(tp_tensor *self, tp_ints kernel, tp_ints dilation, tp_ints padding, tp_ints stride) {
    job j = {0};
    int n = self->ndim;
    if (n != 3 && n != 4)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'input': Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other "
                        "non-zero dimensions for input, but got: %s",
                        tpi_shape_text(tpi_shape(self)));
    if (!self->numel && (n == 3 || self->shape[0] > 0))
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'input': Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other "
                        "non-zero dimensions for input, but got: %s",
                        tpi_shape_text(tpi_shape(self)));
    if (!tpi_patches_geometry(&j.c, self->shape[n - 2], self->shape[n - 1], kernel, dilation, padding, stride))
        return NULL;
    int64_t channels = self->shape[n - 3],
            shape[3] = {self->shape[0], tpi_size_times(channels, tpi_conv_taps(&j.c)), tpi_conv_ysize(&j.c)};
    return run(&j, self, (n == 4 ? self->shape[0] : 1) * channels,
               n == 4 ? tp_ints_view(shape, 3) : tp_ints_view(shape + 1, 2));
}

tp_tensor *tpi_native_col2im(tp_tensor *self, tp_ints output_size, tp_ints kernel, tp_ints dilation, tp_ints padding,
                             tp_ints stride) {
    job j = {.back = true};
    int n = self->ndim;
    int64_t size[2];
    if (n != 2 && n != 3)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'input': Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size "
                        "and non-zero dimensions for input, but got: %s",
                        tpi_shape_text(tpi_shape(self)));
    if (!tpi_expand_ints("output_size", output_size, 2, NULL, size) ||
        !tpi_patches_geometry(&j.c, size[0], size[1], kernel, dilation, padding, stride))
        return NULL;
    int64_t taps = tpi_conv_taps(&j.c), rows = self->shape[n - 2];
    if (rows % taps != 0)
        return tpi_fail(TP_ERR_RUNTIME,
                        "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
                        "input.size(1)=%lld and kernel_size=(%lld, %lld).",
                        (long long)rows, (long long)j.c.k[1], (long long)j.c.k[2]);
    if (self->shape[n - 1] != tpi_conv_ysize(&j.c))
        return tpi_fail(TP_ERR_RUNTIME,
                        "Given output_size=(%lld, %lld), kernel_size=(%lld, %lld), dilation=(%lld, %lld), "
                        "padding=(%lld, %lld), stride=(%lld, %lld), expected size of "
                        "input's dimension 2 to match the calculated number of sliding blocks %lld * %lld = %lld, but "
                        "got input.size(2)=%lld.",
                        (long long)size[0], (long long)size[1], (long long)j.c.k[1], (long long)j.c.k[2],
                        (long long)j.c.dilation[1], (long long)j.c.dilation[2], (long long)j.c.pad[1],
                        (long long)j.c.pad[2], (long long)j.c.stride[1], (long long)j.c.stride[2], (long long)j.c.y[1],
                        (long long)j.c.y[2], (long long)tpi_conv_ysize(&j.c), (long long)self->shape[n - 1]);
    int64_t shape[4] = {self->shape[0], rows / taps, size[0], size[1]};
    return run(&j, self, (n == 3 ? self->shape[0] : 1) * (rows / taps),
               n == 3 ? tp_ints_view(shape, 4) : tp_ints_view(shape + 1, 3));
}
