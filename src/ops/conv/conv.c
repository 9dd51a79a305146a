/* The convolution operator and its two backward operators: checks, geometry, dtypes and layouts around the products of
 * conv.h. */
#include "ops/conv/conv.h"
#include "ops/native.h"
#include "ops/compute_dtype.h"
#include "tensor/channels_last.h"
#include "ops/spatial_arguments.h"

static bool check_channels(tp_ints input, tp_ints weight, bool batched, const tpi_conv_setting *s) {
    if (s->groups < 1)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'groups': non-positive groups is not supported, got %lld",
                          (long long)s->groups);
    if (weight.v[0] < s->groups)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "Given groups=%lld, expected weight to be at least %lld at dimension 0, but got weight of size %s instead",
            (long long)s->groups, (long long)s->groups, tpi_shape_text(weight));
    if (weight.v[0] % s->groups != 0)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "Given groups=%lld, expected weight to be divisible by %lld at dimension 0, but got weight "
                          "of size [%s] instead",
                          (long long)s->groups, (long long)s->groups, tpi_shape_text(weight));
    int64_t channels = input.v[batched],
            expected = s->transposed ? weight.v[0] : tpi_size_times(weight.v[1], s->groups);
    if (channels != expected)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "Given %s=%lld, weight of size %s, expected input%s to have %lld channels, but got %lld channels instead",
            s->transposed ? "transposed" : "groups", s->transposed ? 1LL : (long long)s->groups, tpi_shape_text(weight),
            tpi_shape_text(input), (long long)expected, (long long)channels);
    return true;
}

static bool check_steps(const tpi_conv *c, int n) {
    for (int i = 3 - n; i < 3; i++) {
        if (c->stride[i] < 1)
            return tpi_refuse(TP_ERR_RUNTIME, "argument 'stride': non-positive stride is not supported, got %lld",
                              (long long)c->stride[i]);
        if (c->pad[i] < 0)
            return tpi_refuse(TP_ERR_RUNTIME, "argument 'padding': negative padding is not supported, got %lld",
                              (long long)c->pad[i]);
        if (c->dilation[i] < 1)
            return tpi_refuse(TP_ERR_RUNTIME, "argument 'dilation': dilation should be greater than zero, but got %lld",
                              (long long)c->dilation[i]);
        if (c->k[i] < 1)
            return tpi_refuse(TP_ERR_RUNTIME,
                              "argument 'weight': kernel size should be greater than zero, but got %lld",
                              (long long)c->k[i]);
    }
    return true;
}

/* ---- The other side's size: of what is convolved to, or, transposed, from ---- */

/* How far a kernel reaches along dim d. */
static int64_t reach_of(const tpi_conv *c, int d) {
    return tpi_size_plus(tpi_size_times(c->dilation[d], c->k[d] - 1), 1);
}

/* y of x, along the last n of three dims. */
static bool set_outputs(tpi_conv *c, int n, const int64_t *extra) {
    (void)extra;
    char buffer[2][TPI_BY_X];
    const int at = 3 - n;
    for (int d = at; d < 3; d++) {
        const int64_t reach = reach_of(c, d), padded = tpi_size_plus(c->x[d], 2 * c->pad[d]);
        if (padded < reach)
            return tpi_refuse(TP_ERR_RUNTIME,
                              "Calculated padded input size per channel: (%s). Kernel size: (%s). Kernel size can't be "
                              "greater than actual input size",
                              tpi_sizes_by_x(c->x + at, n, c->pad + at, buffer[0]),
                              tpi_sizes_by_x(c->k + at, n, NULL, buffer[1]));
        c->y[d] = (padded - reach) / c->stride[d] + 1;
    }
    return true;
}

/* x of y, with `extra` elements more. */
static bool set_inputs(tpi_conv *c, int n, const int64_t *extra) {
    char buffer[2][TPI_BY_X];
    const int at = 3 - n;
    for (int d = at; d < 3; d++) {
        c->x[d] = tpi_size_plus(tpi_size_times(tpi_size_minus(c->y[d], 1), c->stride[d]),
                                tpi_size_plus(reach_of(c, d), extra[d] - 2 * c->pad[d]));
        if (extra[d] < 0 || (extra[d] >= c->stride[d] && extra[d] >= c->dilation[d]))
            return tpi_refuse(TP_ERR_RUNTIME,
                              "argument 'output_padding': output padding must be smaller than either stride or "
                              "dilation, but got %lld",
                              (long long)extra[d]);
        if (c->x[d] < 0)
            return tpi_refuse(TP_ERR_RUNTIME,
                              "Given input size per channel: (%s). Calculated output size per channel: (%s). Output "
                              "size is too small",
                              tpi_sizes_by_x(c->y + at, n, NULL, buffer[0]),
                              tpi_sizes_by_x(c->x + at, n, NULL, buffer[1]));
    }
    return true;
}

bool tpi_conv_geometry(tpi_conv *c, tp_ints input, tp_ints weight, const tpi_conv_setting *s) {
    int n = (int)weight.n - 2;
    if (n < 1 || n > 3)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'weight': expected 3 to 5 dims, got %s", tpi_shape_text(weight));
    if (input.n != weight.n && input.n != weight.n - 1)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "Expected %dD (unbatched) or %dD (batched) input to conv%dd, but got input of size: %s",
                          n + 1, n + 2, n, tpi_shape_text(input));
    bool batched = input.n == weight.n;
    if (!check_channels(input, weight, batched, s)) return false;
    *c = (tpi_conv){.batch = batched ? input.v[0] : 1,
                    .groups = s->groups,
                    .cx = weight.v[1],
                    .cy = weight.v[0] / s->groups,
                    .x = {1, 1, 1},
                    .y = {1, 1, 1},
                    .k = {1, 1, 1},
                    .stride = {1, 1, 1},
                    .dilation = {1, 1, 1}};
    int64_t extra[3] = {0}, zeros[3] = {0}, ones[3] = {1, 1, 1};
    int at = 3 - n; /* where the spatial dims start in the arrays of three */
    if (!tpi_expand_steps("stride", s->stride, n, ones, c->stride + at) ||
        !tpi_expand_steps("padding", s->padding, n, zeros, c->pad + at) ||
        !tpi_expand_steps("dilation", s->dilation, n, ones, c->dilation + at) ||
        !tpi_expand_steps("output_padding", s->output_padding, n, zeros, extra + at))
        return false;
    for (int i = 0; i < n; i++) c->k[at + i] = weight.v[2 + i];
    if (!check_steps(c, n)) return false;
    for (int i = 0; i < n; i++) (s->transposed ? c->y : c->x)[at + i] = input.v[1 + batched + i];
    return (s->transposed ? set_inputs : set_outputs)(c, n, extra);
}

/* ---- Ways ---- */

static const tpi_conv_way *const ways[] = {&tpi_conv_narrow, &tpi_conv_winograd,  &tpi_conv_onednn,
                                           &tpi_conv_direct, &tpi_conv_depthwise, &tpi_conv_products};

/* The first way that fits; the last one takes everything that is contiguous. */
static bool run_first(const tpi_conv_call *call) {
    const tpi_conv_way *const *way = ways;
    while (!(*way)->fits(call)) way++;
    return (*way)->run(call);
}

/* Are images worth computing channels last, in which only the library does? Tiles are worth moving images to the layout
 * that they want. */
static bool fits_last(const tpi_conv_call *call) {
    tpi_conv_call last = *call;
    last.last = true;
    return !tpi_conv_winograd.fits(call) && tpi_conv_onednn.fits(&last);
}

/* What the two operands of an operator are: `a` is its input or the gradient, `b` the weight or, where the weight's
 * gradient is computed, the input. In a transposed convolution the input is y. */
static void set_operands(tpi_conv_call *call, bool transposed, const void *a, const void *b) {
    if (call->role == TPI_CONV_W) {
        call->x = transposed ? a : b;
        call->y = transposed ? b : a;
        return;
    }
    if (call->role == TPI_CONV_Y)
        call->x = a;
    else
        call->y = a;
    call->w = b;
}

/* ---- Complex values: four real products over planes of real and imaginary parts ---- */

/* Splits an interleaved complex array into the plane of real parts and, behind it, that of imaginary ones. */
static char *split_planes(const char *z, int64_t n, tp_dtype real) {
    char *planes = tpi_alloc((size_t)(2 * n) * tpi_dtype_bytes[real]);
    if (!planes) return NULL;
    for (int64_t i = 0; i < n; i++) {
        if (real == TP_FLOAT32) {
            ((float *)planes)[i] = ((const float *)z)[2 * i];
            ((float *)planes)[n + i] = ((const float *)z)[2 * i + 1];
        } else {
            ((double *)planes)[i] = ((const double *)z)[2 * i];
            ((double *)planes)[n + i] = ((const double *)z)[2 * i + 1];
        }
    }
    return planes;
}

/* Adds a real product, with a sign, to part `part` (0: real, 1: imaginary) of the interleaved result. */
static void add_part(char *out, int64_t part, const char *product, int64_t n, tp_dtype real, int sign) {
    for (int64_t i = 0; i < n; i++) {
        if (real == TP_FLOAT32)
            ((float *)out)[2 * i + part] += (float)sign * ((const float *)product)[i];
        else
            ((double *)out)[2 * i + part] += sign * ((const double *)product)[i];
    }
}

static bool multiply_complex(const tpi_conv_call *whole, bool transposed, const tp_tensor *a, const tp_tensor *b,
                             const tp_tensor *bias, tp_tensor *out) {
    tp_dtype real = tpi_dtype_to_real(whole->dtype);
    size_t item = tpi_dtype_bytes[real];
    char *pa = split_planes(a->data, a->numel, real), *pb = split_planes(b->data, b->numel, real);
    char *pc = bias ? split_planes(bias->data, bias->numel, real) : NULL;
    size_t bytes = (size_t)out->numel * item;
    char *product = tpi_alloc(bytes);
    bool ok = pa && pb && product && (pc || !bias);
    if (ok) memset(out->data, 0, bytes * 2);
    for (int i = 0; i < 4 && ok; i++) { /* re re, im im, re im, im re; the bias joins the first product of each part */
        int left = i == 1 || i == 3, right = i == 1 || i == 2, part = i >= 2;
        const char *with = pc && (i == 0 || i == 2) ? pc + (size_t)(part * bias->numel) * item : NULL;
        tpi_conv_call call = {.c = whole->c, .role = whole->role, .dtype = real, .bias = with, .out = product};
        set_operands(&call, transposed, pa + (size_t)(left * a->numel) * item, pb + (size_t)(right * b->numel) * item);
        ok = run_first(&call);
        if (ok) add_part(out->data, part, product, out->numel, real, i == 1 ? -1 : 1);
    }
    if (pa) tpi_free(pa, (size_t)(2 * a->numel) * item);
    if (pb) tpi_free(pb, (size_t)(2 * b->numel) * item);
    if (pc) tpi_free(pc, (size_t)(2 * bias->numel) * item);
    if (product) tpi_free(product, bytes);
    return ok;
}

/* ---- The operators ---- */

static bool channels_last(const tp_tensor *t) { return tpi_suggested_layout(t) != TP_CONTIGUOUS; }

/* The values of t in the dtype and the layout. Owned; t itself when it is so already. */
static tp_tensor *data_in(tp_tensor *t, tp_dtype dtype, tp_layout layout) {
    if (t->dtype == dtype && tp_is_contiguous_as(t, layout)) return tpi_retain(t);
    tp_tensor *out = tpi_empty_layout(tpi_shape(t), dtype, tpi_device(t), layout);
    if (out && tpi_copy_data(out, t)) return out;
    tpi_release(out);
    return NULL;
}

/* multiply for images that the library takes channels last. The weight's gradient is contiguous until it is laid out as
 * the images are. */
static tp_tensor *multiply_last(tpi_conv_call *call, bool transposed, tp_tensor *a, tp_tensor *b, tp_tensor *bias,
                                tp_ints shape, tp_layout layout) {
    bool weight = call->role == TPI_CONV_W;
    tp_tensor *ta = data_in(a, TP_FLOAT32, layout), *tb = data_in(b, TP_FLOAT32, weight ? layout : TP_CONTIGUOUS),
              *tbias = tpi_to_compute(bias, TP_FLOAT32);
    tp_tensor *out = ta && tb && (tbias || !bias)
                         ? tpi_empty_layout(shape, TP_FLOAT32, tpi_device(a), weight ? TP_CONTIGUOUS : layout)
                         : NULL;
    bool ok = out != NULL;
    if (ok) {
        call->last = true;
        call->bias = tbias ? tbias->data : NULL;
        call->out = out->data;
        set_operands(call, transposed, ta->data, tb->data);
        ok = tpi_conv_onednn.run(call);
    }
    tpi_release(ta);
    tpi_release(tb);
    tpi_release(tbias);
    if (!ok) {
        tpi_release(out);
        return NULL;
    }
    return weight ? tpi_from_compute_like(out, (tp_dtype)a->dtype, channels_last(a) ? a : b)
                  : tpi_from_compute(out, (tp_dtype)a->dtype);
}

/* A gradient has the elements of the convolution's result. */
static bool check_grad(const tpi_conv *c, bool transposed, const tp_tensor *grad) {
    const int64_t sizes[] = {c->batch, c->groups, transposed ? c->cx : c->cy,
                             transposed ? tpi_conv_xsize(c) : tpi_conv_ysize(c)};
    return tpi_check_numel(grad, "grad", tpi_size_product(sizes, 4));
}

/* The product of a and b (both of a's dtype) that the role names, plus bias, as a fresh tensor of the shape. */
static tp_tensor *multiply(const tpi_conv *c, tpi_conv_role role, bool transposed, tp_tensor *a, tp_tensor *b,
                           tp_tensor *bias, tp_ints shape) {
    if (tpi_numel_of(shape) < 0) return NULL;
    tp_dtype dtype = (tp_dtype)a->dtype, compute = dtype;
    if (dtype == TP_BOOL) return tpi_fail(TP_ERR_RUNTIME, "argument 'input': convolution is not implemented for bool");
    if (tp_dtype_is_integral(dtype)) compute = TP_INT64;
    if (dtype == TP_FLOAT16 || dtype == TP_BFLOAT16) compute = TP_FLOAT32;
    tpi_conv_call call = {.c = c, .role = role, .dtype = compute, .bias = bias ? bias->data : NULL};
    bool last = (channels_last(a) || channels_last(b)) && a->ndim == b->ndim && a->ndim == shape.n;
    if (last && fits_last(&call))
        return multiply_last(&call, transposed, a, b, bias, shape, tpi_layout_of(true, a->ndim));
    bool pairs = dtype == TP_BFLOAT16 && tpi_numel_of(shape) > 0 && tpi_conv_bfloat16.fits(&call);
    tp_tensor *ta = tpi_to_compute(a, pairs ? dtype : compute), *tb = tpi_to_compute(b, pairs ? dtype : compute),
              *tbias = tpi_to_compute(bias, compute);
    tp_tensor *out = ta && tb && (tbias || !bias) ? tpi_empty(shape, compute, tpi_device(a)) : NULL;
    bool ok = out != NULL;
    if (ok && out->numel > 0) {
        call.bias = tbias ? tbias->data : NULL;
        call.out = out->data;
        set_operands(&call, transposed, ta->data, tb->data);
        if (pairs)
            ok = tpi_conv_bfloat16.run(&call);
        else if (tp_dtype_is_complex(compute))
            ok = multiply_complex(&call, transposed, ta, tb, tbias, out);
        else
            ok = run_first(&call);
    }
    tpi_release(ta);
    tpi_release(tb);
    tpi_release(tbias);
    if (!ok) {
        tpi_release(out);
        return NULL;
    }
    return tpi_from_compute_like(out, dtype, channels_last(a) ? a : b);
}

static bool check_operands(const tp_tensor *a, const char *a_name, const tp_tensor *b, const char *b_name) {
    if (a->dtype == b->dtype) return true;
    return tpi_refuse(TP_ERR_RUNTIME,
                      "argument '%s': Input type (%s) and weight type (%s) of argument '%s' should be the same: "
                      "expected scalar type %s but found %s",
                      a_name, tp_dtype_name((tp_dtype)a->dtype), tp_dtype_name((tp_dtype)b->dtype), b_name,
                      tp_dtype_word((tp_dtype)a->dtype), tp_dtype_word((tp_dtype)b->dtype));
}

tp_tensor *tpi_native_convolution(tp_tensor *input, tp_tensor *weight, tp_tensor *bias, tp_ints stride, tp_ints padding,
                                  tp_ints dilation, bool transposed, tp_ints output_padding, int64_t groups) {
    tpi_conv_setting s = {stride, padding, dilation, output_padding, transposed, groups};
    tpi_conv c;
    if (!check_operands(input, "input", weight, "weight") ||
        !tpi_conv_geometry(&c, tpi_shape(input), tpi_shape(weight), &s))
        return NULL;
    int64_t channels = groups * (transposed ? c.cx : c.cy);
    if (bias && !check_operands(input, "input", bias, "bias")) return NULL;
    if (bias && (bias->ndim != 1 || bias->numel != channels))
        return tpi_fail(TP_ERR_RUNTIME,
                        "Given weight of size %s, expected bias to be 1-dimensional with %lld elements, but got bias "
                        "of size %s instead",
                        tpi_shape_text(tpi_shape(weight)), (long long)channels, tpi_shape_text(tpi_shape(bias)));
    int64_t shape[5];
    int n = 0, spatial = weight->ndim - 2;
    if (input->ndim == weight->ndim) shape[n++] = c.batch;
    shape[n++] = channels;
    for (int i = 3 - spatial; i < 3; i++) shape[n++] = transposed ? c.x[i] : c.y[i];
    return multiply(&c, transposed ? TPI_CONV_X : TPI_CONV_Y, transposed, input, weight, bias, tp_ints_view(shape, n));
}

tp_tensor *tpi_native_convolution_grad_input(tp_tensor *grad, tp_tensor *weight, tp_ints input_shape, tp_ints stride,
                                             tp_ints padding, tp_ints dilation, bool transposed, tp_ints output_padding,
                                             int64_t groups) {
    tpi_conv_setting s = {stride, padding, dilation, output_padding, transposed, groups};
    tpi_conv c;
    if (!check_operands(grad, "grad", weight, "weight") || !tpi_conv_geometry(&c, input_shape, tpi_shape(weight), &s) ||
        !check_grad(&c, transposed, grad))
        return NULL;
    return multiply(&c, transposed ? TPI_CONV_Y : TPI_CONV_X, transposed, grad, weight, NULL, input_shape);
}

tp_tensor *tpi_native_convolution_grad_weight(tp_tensor *grad, tp_tensor *input, tp_ints weight_shape, tp_ints stride,
                                              tp_ints padding, tp_ints dilation, bool transposed,
                                              tp_ints output_padding, int64_t groups) {
    tpi_conv_setting s = {stride, padding, dilation, output_padding, transposed, groups};
    tpi_conv c;
    if (!check_operands(grad, "grad", input, "input") || !tpi_conv_geometry(&c, tpi_shape(input), weight_shape, &s) ||
        !check_grad(&c, transposed, grad))
        return NULL;
    return multiply(&c, TPI_CONV_W, transposed, grad, input, NULL, weight_shape);
}
