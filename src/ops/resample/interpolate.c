/* Interpolation: nearest, linear and cubic, with or without antialiasing, one spatial axis after the other. Places and
 * weights are worked out in the type PyTorch uses (float for float32 and 16-bit inputs), so that nearest picks the same
 * elements. */
#include <math.h>
#include "ops/native.h"
#include "tensor/sizes.h"
#include "ops/compute_dtype.h"
#include "ops/resample/resample.h"

typedef struct plan { /* one axis */
    tpi_taps taps;
    size_t index_bytes, weight_bytes;
} plan;

static double as(const tpi_resample_kind *k, double v) { return k->narrow ? (double)(float)v : v; }

double tpi_resample_step(const tpi_resample_kind *k, int64_t in, int64_t out, double scale) {
    if (k->align_corners && !k->nearest) return out > 1 ? as(k, as(k, (double)(in - 1)) / as(k, (double)(out - 1))) : 0;
    return scale == scale && scale > 0 ? as(k, 1.0 / scale) : as(k, as(k, (double)in) / as(k, (double)out));
}

static double cubic_near(double x, double a) { return ((a + 2) * x - (a + 3)) * x * x + 1; }
static double cubic_far(double x, double a) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; }

static int64_t clamp(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

double tpi_resample_reach(const tpi_resample_kind *k, double each) {
    return (k->lanczos ? 3.0 : k->cubic ? 2.0 : 1.0) * (each >= 1 ? each : 1);
}

static double sinc(double x) { return x == 0 ? 1 : sin(M_PI * x) / (M_PI * x); }

static double filter(const tpi_resample_kind *k, double x) {
    x = fabs(x);
    if (k->lanczos) return x < 3 ? sinc(x) * sinc(x / 3) : 0;
    if (!k->cubic) return x < 1 ? 1 - x : 0;
    return x < 1 ? cubic_near(x, -0.5) : x < 2 ? cubic_far(x, -0.5) : 0;
}

static void antialiased(const tpi_resample_kind *k, tpi_taps *t, double each, int64_t o) {
    double support = tpi_resample_reach(k, each), center = each * ((double)o + 0.5), inverse = each >= 1 ? 1 / each : 1,
           total = 0;
    int64_t first = (int64_t)(center - support + 0.5), last = (int64_t)(center + support + 0.5);
    first = first < 0 ? 0 : first;
    last = last > t->in ? t->in : last;
    double *w = t->weight + o * t->width;
    for (int64_t i = 0; i < last - first && i < t->width; i++) {
        t->index[o * t->width + i] = first + i;
        w[i] = filter(k, ((double)(first + i) - center + 0.5) * inverse);
        total += w[i];
    }
    for (int64_t i = 0; total != 0 && i < t->width; i++) w[i] /= total;
}

static void find_taps(const tpi_resample_kind *k, tpi_taps *t, double each, int64_t o) {
    int64_t *index = t->index + o * t->width;
    double *w = t->weight + o * t->width;
    if (k->antialias) {
        antialiased(k, t, each, o);
        return;
    }
    if (k->nearest) {
        index[0] = clamp((int64_t)floor(as(k, as(k, (double)o + (k->exact ? 0.5 : 0)) * each)), t->in);
        w[0] = 1;
        return;
    }
    double at = k->align_corners ? as(k, each * (double)o) : as(k, as(k, each * ((double)o + 0.5)) - 0.5);
    if (!k->cubic && at < 0) at = 0;
    int64_t low = tpi_whole(floor(at < -2              ? -2
                                  : at > (double)t->in ? (double)t->in
                                                       : at)); /* places further out read the same elements */
    if (!k->cubic) {
        low = clamp(low, t->in);
        double part = as(k, at - (double)low);
        part = part < 0 ? 0 : part > 1 ? 1 : part;
        index[0] = low;
        index[1] = clamp(low + 1, t->in);
        w[0] = as(k, 1 - part);
        w[1] = part;
        return;
    }
    double part = as(k, at - (double)low), a = -0.75;
    w[0] = cubic_far(part + 1, a);
    w[1] = cubic_near(part, a);
    w[2] = cubic_near(1 - part, a);
    w[3] = cubic_far(2 - part, a);
    for (int i = 0; i < 4; i++) index[i] = clamp(low - 1 + i, t->in);
}

static void free_plan(plan *p) {
    if (p->taps.index) tpi_free(p->taps.index, p->index_bytes);
    if (p->taps.weight) tpi_free(p->taps.weight, p->weight_bytes);
}

int64_t tpi_resample_width(const tpi_resample_kind *k, double each) {
    if (k->nearest) return 1;
    if (k->antialias) return tpi_whole(2 * ceil(tpi_resample_reach(k, each)) + 1);
    return k->cubic ? 4 : 2;
}

/* PyTorch's CPU keeps the weights of 16-bit inputs in their dtype, but for bilinear ones and for gradients. */
static double rounded(double weight, tp_dtype dtype) {
    if (dtype == TP_BFLOAT16) return (double)tpi_bf16_to_float(tpi_float_to_bf16((float)weight));
    return (double)tpi_half_to_float(tpi_float_to_half((float)weight));
}

static void round_weights(const tpi_resample_kind *k, tpi_taps *t, tp_dtype dtype) {
    for (int64_t i = 0; i < t->out * t->width; i++) t->weight[i] = rounded(t->weight[i], dtype);
    for (int64_t i = 0; !k->cubic && i < t->out; i++) t->weight[2 * i] = rounded(1 - t->weight[2 * i + 1], dtype);
}

/* PyTorch's CPU resamples images of bytes by whole numbers: weights are those of 16 bits that the largest one allows,
 * times a power of two, after those of one element at an edge are added up. Sums of them times bytes are exact here
 * too.
 */
static void round_to_16_bits(tpi_taps *t) {
    double most = 0, unit = 1;
    int64_t n = t->out * t->width;
    for (int64_t i = 1; i < n; i++) {
        if (i % t->width == 0 || t->index[i] != t->index[i - 1]) continue;
        t->weight[i] += t->weight[i - 1];
        t->weight[i - 1] = 0;
    }
    for (int64_t i = 0; i < n; i++) most = t->weight[i] > most ? t->weight[i] : most;
    for (int bits = 0; bits < 22 && floor(0.5 + most * unit * 2) < 0x1p15; bits++) unit *= 2;
    for (int64_t i = 0; i < n; i++) t->weight[i] = trunc(t->weight[i] * unit + copysign(0.5, t->weight[i])) / unit;
}

static bool make_plan(plan *p, const tpi_resample_kind *k, int64_t in, int64_t out, double scale) {
    double each = tpi_resample_step(k, in, out, scale);
    int64_t width = tpi_resample_width(k, each);
    p->taps = (tpi_taps){.in = in, .out = out, .width = width};
    p->index_bytes = p->weight_bytes = tpi_size_bytes(tpi_size_times(out, width), sizeof(int64_t));
    p->taps.index = tpi_alloc(p->index_bytes);
    p->taps.weight = tpi_alloc(p->weight_bytes);
    if (!p->taps.index || !p->taps.weight) {
        free_plan(p);
        return false;
    }
    memset(p->taps.index, 0, p->index_bytes);
    memset(p->taps.weight, 0, p->weight_bytes);
    for (int64_t o = 0; o < out; o++) find_taps(k, &p->taps, each, o);
    return true;
}

/* ---- One axis of a whole tensor ---- */

typedef struct pass {
    const tpi_taps *taps;
    tp_dtype dtype;
    bool back;
    int64_t inner;
    const char *from;
    char *to;
} pass;

static void row_task(int64_t row, void *context) {
    pass *p = context;
    int64_t item = tpi_dtype_bytes[p->dtype], small = p->taps->in * p->inner, large = p->taps->out * p->inner;
    const void *from = p->from + row * (p->back ? large : small) * item;
    void *to = p->to + row * (p->back ? small : large) * item;
    if (p->back) memset(to, 0, (size_t)(small * item));
    if (p->dtype == TP_FLOAT32) {
        if (p->back)
            TPI_ISA_PICK(tpi_resample_back_f32)(p->taps, p->inner, from, to);
        else
            TPI_ISA_PICK(tpi_resample_f32)(p->taps, p->inner, from, to);
    } else {
        if (p->back)
            TPI_ISA_PICK(tpi_resample_back_f64)(p->taps, p->inner, from, to);
        else
            TPI_ISA_PICK(tpi_resample_f64)(p->taps, p->inner, from, to);
    }
}

/* Takes over x (contiguous) and returns it resampled along dim. */
static tp_tensor *along(tp_tensor *x, int dim, const tpi_taps *taps, bool back) {
    int64_t shape[TP_MAX_DIMS], rows = 1;
    pass p = {.taps = taps, .dtype = (tp_dtype)x->dtype, .back = back, .inner = 1, .from = x->data};
    for (int i = 0; i < x->ndim; i++) shape[i] = x->shape[i];
    for (int i = 0; i < dim; i++) rows *= shape[i];
    for (int i = dim + 1; i < x->ndim; i++) p.inner *= shape[i];
    shape[dim] = back ? taps->in : taps->out;
    tp_tensor *y = tpi_empty(tp_ints_view(shape, x->ndim), p.dtype, tpi_device(x));
    if (y && y->numel > 0) {
        p.to = y->data;
        tpi_parallel_for(rows, y->numel + x->numel > 16384, row_task, &p);
    }
    tpi_release(x);
    return y;
}

bool tpi_resample_read(tpi_resample_kind *k, const char *mode, bool align_corners, bool antialias, bool narrow) {
    *k = (tpi_resample_kind){.align_corners = align_corners, .antialias = antialias, .narrow = narrow};
    if (!strcmp(mode, "nearest")) return k->nearest = true;
    if (!strcmp(mode, "nearest-exact")) return k->nearest = k->exact = true;
    if (!strcmp(mode, "linear")) return true;
    if (!strcmp(mode, "cubic")) return k->cubic = true;
    if (!strcmp(mode, "lanczos")) return k->lanczos = true;
    return tpi_refuse(TP_ERR_VALUE,
                      "argument 'mode': expected nearest, nearest-exact, linear, cubic or lanczos, got %s", mode);
}

/* Bytes go through float, and are whole numbers in range again after every axis, as PyTorch's are. */
static void round_to_bytes(tp_tensor *y) {
    float *v = (float *)y->data;
    for (int64_t i = 0; i < y->numel; i++) {
        float whole = floorf(v[i] + 0.5f);
        v[i] = whole < 0 ? 0 : whole > 255 ? 255 : whole;
    }
}

/* Forward from an input of input_shape to output_size, or back. scales: one per spatial dim, NaN (or none at all) where
 * not given. */
static tp_tensor *resample(tp_tensor *t, tp_ints input_shape, tp_ints output_size, const char *mode, bool align_corners,
                           bool antialias, tp_floats scales, bool back) {
    int n = (int)output_size.n;
    bool bytes = t->dtype == TP_UINT8;
    tp_dtype compute = bytes ? TP_FLOAT32 : tpi_compute_dtype(t, "input");
    tpi_resample_kind k;
    bool image = bytes && n == 2;
    if (!compute || !tpi_resample_read(&k, mode, align_corners, antialias, compute == TP_FLOAT32)) return NULL;
    if (image && !k.nearest) k.narrow = false;
    if (n < 1 || n > 3 || input_shape.n != n + 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'input': expected %d dims for %d output sizes, got %s", n + 2, n,
                        tpi_shape_text(input_shape));
    for (int i = 0; i < n; i++)
        if (output_size.v[i] < 1 || input_shape.v[2 + i] < 1)
            return tpi_fail(
                TP_ERR_RUNTIME,
                "argument 'output_size': Input and output sizes should be greater than 0, but got input %s output %s",
                tpi_shape_text(input_shape), tpi_shape_text(output_size));
    if (input_shape.v[1] == 0)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'input': Non-empty %dD data tensor expected but got a tensor with sizes %s", n + 2,
                        tpi_shape_text(input_shape));
    int64_t large[5] = {input_shape.v[0], input_shape.v[1]};
    for (int i = 0; i < n; i++) large[2 + i] = output_size.v[i];
    tp_ints out_shape = tp_ints_view(large, n + 2);
    if (tpi_numel_of(input_shape) < 0 || tpi_numel_of(out_shape) < 0 ||
        !tpi_check_shape(t, back ? "grad" : "input", back ? out_shape : input_shape))
        return NULL;
    const bool narrow_weights =
        (t->dtype == TP_BFLOAT16 || t->dtype == TP_FLOAT16) && !back && !k.nearest && !antialias && (k.cubic || n != 2);
    tp_tensor *x = tpi_to_compute(t, compute);
    for (int i = 0; x && i < n; i++) {
        int dim = back ? 2 + i : 1 + n - i; /* forward from the last dim on, back from the first */
        plan p;
        if (!make_plan(&p, &k, input_shape.v[dim], output_size.v[dim - 2],
                       scales.v && dim - 2 < scales.n ? scales.v[dim - 2] : TP_NO_FLOAT)) {
            tpi_release(x);
            return NULL;
        }
        if (narrow_weights) round_weights(&k, &p.taps, (tp_dtype)t->dtype);
        if (image && !k.nearest) round_to_16_bits(&p.taps);
        x = along(x, dim, &p.taps, back);
        if (x && bytes) round_to_bytes(x);
        free_plan(&p);
    }
    return tpi_from_compute_like(x, (tp_dtype)t->dtype, t);
}

tp_tensor *tpi_native_resample(tp_tensor *self, tp_ints output_size, const char *mode, bool align_corners,
                               bool antialias, tp_floats scales) {
    return resample(self, tpi_shape(self), output_size, mode, align_corners, antialias, scales, false);
}

tp_tensor *tpi_native_resample_backward(tp_tensor *grad, tp_ints input_shape, tp_ints output_size, const char *mode,
                                        bool align_corners, bool antialias, tp_floats scales) {
    return resample(grad, input_shape, output_size, mode, align_corners, antialias, scales, true);
}
