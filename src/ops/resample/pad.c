/* Padding: with a constant (any dtype, negative amounts cut off), and by indices into the input: reflected, replicated,
 * wrapped around. Amounts come in PyTorch's order: (left, right) of the last dim, then of the one before, and so on. */
#include <string.h>
#include "tensor/fits.h"
#include "ops/native.h"
#include "ops/resample/pad.h"
#include "ops/compute_dtype.h"
#include "tensor/channels_last.h"
#include "tensor/sizes.h"

/* Left and right amounts of dim d. */
static int64_t left_of(tp_ints pad, int ndim, int d) {
    return ndim - 1 - d < pad.n / 2 ? pad.v[2 * (ndim - 1 - d)] : 0;
}
static int64_t right_of(tp_ints pad, int ndim, int d) {
    return ndim - 1 - d < pad.n / 2 ? pad.v[2 * (ndim - 1 - d) + 1] : 0;
}

/* Of amounts with different signs each is added while the sum is near n: what is too large or too small stays so. */
static int64_t padded_size(int64_t n, int64_t left, int64_t right) {
    return tpi_size_plus(n, tpi_size_plus(left, right));
}

static bool padded_shape(tp_ints self, tp_ints pad, int64_t *shape) {
    if (pad.n % 2 != 0)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'pad': Length of pad must be even but instead it equals %lld",
                          (long long)pad.n);
    if (pad.n / 2 > self.n)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'pad': Length of pad should be no more than twice the number of dimensions of the "
                          "input. Pad length is %lld while the input has %d dimensions.",
                          (long long)pad.n, (int)self.n);
    for (int d = 0, ndim = (int)self.n; d < ndim; d++) {
        shape[d] = padded_size(self.v[d], left_of(pad, ndim, d), right_of(pad, ndim, d));
        if (shape[d] < 0)
            return tpi_refuse(TP_ERR_RUNTIME,
                              "argument 'pad': The input size %lld, plus negative padding %lld and %lld, resulted in a "
                              "negative output size, which is invalid. Check dimension %d of your input.",
                              (long long)self.v[d], (long long)left_of(pad, ndim, d), (long long)right_of(pad, ndim, d),
                              d);
    }
    return true;
}

tp_tensor *tpi_native_constant_pad_nd(tp_tensor *self, tp_ints pad, tp_scalar value) {
    int64_t shape[TP_MAX_DIMS];
    if (!padded_shape(tpi_shape(self), pad, shape) || !tpi_check_fits(value, (tp_dtype)self->dtype)) return NULL;
    tp_tensor *out = tpi_empty_layout(tp_ints_view(shape, self->ndim), (tp_dtype)self->dtype, tpi_device(self),
                                      tpi_suggested_layout(self));
    if (!out) return NULL;
    bool same = true; /* nothing but the input goes in: no need to fill first */
    for (int d = 0; d < self->ndim; d++)
        same = same && left_of(pad, self->ndim, d) <= 0 && right_of(pad, self->ndim, d) <= 0;
    int64_t size[TP_MAX_DIMS], from = tpi_offset(self), to = tpi_offset(out);
    bool some = true;
    for (int d = 0; d < self->ndim; d++) {
        int64_t left = left_of(pad, self->ndim, d), right = right_of(pad, self->ndim, d);
        size[d] = self->shape[d] + (left < 0 ? left : 0) + (right < 0 ? right : 0);
        some = some && size[d] > 0;
        *(left < 0 ? &from : &to) += (left < 0 ? -left * self->strides[d] : left * out->strides[d]);
    }
    bool ok = same || tpi_fill_data(out, value);
    if (ok && some) {
        tp_tensor *inner = tpi_alias(out, out->ndim, size, out->strides, to),
                  *part = tpi_alias(self, self->ndim, size, self->strides, from);
        ok = inner && part && tpi_copy_data(inner, part);
        tpi_release(inner);
        tpi_release(part);
    }
    if (!ok) {
        tpi_release(out);
        return NULL;
    }
    return out;
}

/* ---- By index ---- */

bool tpi_pad_mode_of(const char *text, tpi_pad_mode *mode) {
    if (!strcmp(text, "reflect")) {
        *mode = TPI_PAD_REFLECT;
        return true;
    }
    if (!strcmp(text, "replicate")) {
        *mode = TPI_PAD_REPLICATE;
        return true;
    }
    if (!strcmp(text, "circular")) {
        *mode = TPI_PAD_CIRCULAR;
        return true;
    }
    return tpi_refuse(TP_ERR_MISSING, "argument 'mode': Unrecognised padding mode %s", text);
}

/* Where output index o of a dim of size n with `left` in front and `right` behind reads. Wrapping goes around what is
 * left after negative amounts are cut off. */
static int64_t source(tpi_pad_mode m, int64_t o, int64_t left, int64_t right, int64_t n) {
    int64_t i = o - left;
    if (m == TPI_PAD_REFLECT) return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
    if (m == TPI_PAD_REPLICATE) return i < 0 ? 0 : i >= n ? n - 1 : i;
    int64_t cut = left < 0 ? -left : 0, kept = n - cut - (right < 0 ? -right : 0);
    return cut + ((i - cut) % kept + kept) % kept;
}

static bool check_amounts(tpi_pad_mode m, tp_ints shape, tp_ints pad) {
    for (int64_t k = 0; k < pad.n / 2; k++) {
        int64_t n = shape.v[shape.n - 1 - k], left = pad.v[2 * k], right = pad.v[2 * k + 1];
        if (m == TPI_PAD_REFLECT && (left >= n || right >= n))
            return tpi_refuse(TP_ERR_RUNTIME,
                              "argument 'pad': Padding size should be less than the corresponding input dimension, but "
                              "got: padding (%lld, %lld) at dimension %lld of input %s",
                              (long long)left, (long long)right, (long long)(shape.n - 1 - k), tpi_shape_text(shape));
        if (m == TPI_PAD_CIRCULAR && (left > n || right > n))
            return tpi_refuse(TP_ERR_RUNTIME, "argument 'pad': Padding value causes wrapping around more than once.");
        bool gone = m == TPI_PAD_CIRCULAR && tpi_size_plus(tpi_size_plus(n, left < 0 ? left : 0),
                                                           right < 0 ? right : 0) < 1; /* nothing to go around */
        if (n == 0 || padded_size(n, left, right) < 1 || gone)
            return tpi_refuse(TP_ERR_RUNTIME,
                              "argument 'pad': input (size %lld) is too small. Calculated output size: %lld",
                              (long long)n, (long long)padded_size(n, left, right));
    }
    return true;
}

static bool read_sizes(tp_ints self, tp_ints pad, const char *mode_text, tpi_pad_mode *mode, int64_t *shape) {
    if (!tpi_pad_mode_of(mode_text, mode) || tpi_numel_of(self) < 0 || !padded_shape(self, pad, shape) ||
        !check_amounts(*mode, self, pad))
        return false;
    if (pad.n / 2 > 3)
        return tpi_refuse(TP_ERR_MISSING,
                          "argument 'pad': only the last three dims can be padded in mode %s, got %lld amounts",
                          mode_text, (long long)pad.n);
    return true;
}

bool tpi_pad_read(const tp_tensor *self, tp_ints pad, const char *mode_text, tpi_pad_mode *mode, int64_t *shape) {
    return read_sizes(tpi_shape(self), pad, mode_text, mode, shape);
}

typedef struct job {
    size_t item;   /* forward: bytes of an element */
    tp_dtype real; /* backward: what is added, `parts` of them per element */
    int parts;
    int64_t planes, in[3], out[3]; /* sizes of the last three dims, padded or not, and the product of the others */
    const int64_t *from[3];        /* per padded dim, the input index of every output index */
    const int64_t *end; /* of the last dim: where the run ends that begins at an index and is one in the input too */
    const char *small;
    char *large; /* forward: written; backward: read */
    char *back;  /* backward: added to, shaped like the input */
} job;

static void move(char *to, const char *from, size_t bytes) {
    if (bytes == 1)
        *to = *from; /* single elements at the borders, without a call */
    else if (bytes == 2)
        memcpy(to, from, 2);
    else if (bytes == 4)
        memcpy(to, from, 4);
    else if (bytes == 8)
        memcpy(to, from, 8);
    else
        memcpy(to, from, bytes);
}

static void forward_plane(int64_t p, void *context) {
    job *j = context;
    size_t item = j->item;
    for (int64_t d = 0; d < j->out[0]; d++)
        for (int64_t h = 0; h < j->out[1]; h++) {
            const char *row =
                j->small + (size_t)(((p * j->in[0] + j->from[0][d]) * j->in[1] + j->from[1][h]) * j->in[2]) * item;
            char *to = j->large + (size_t)(((p * j->out[0] + d) * j->out[1] + h) * j->out[2]) * item;
            for (int64_t w = 0; w < j->out[2]; w = j->end[w])
                move(to + (size_t)w * item, row + (size_t)j->from[2][w] * item, (size_t)(j->end[w] - w) * item);
        }
}

static void backward_plane(int64_t p, void *context) {
    job *j = context;
    for (int64_t d = 0; d < j->out[0]; d++)
        for (int64_t h = 0; h < j->out[1]; h++) {
            int64_t to = ((p * j->in[0] + j->from[0][d]) * j->in[1] + j->from[1][h]) * j->in[2],
                    from = ((p * j->out[0] + d) * j->out[1] + h) * j->out[2];
            for (int64_t w = 0; w < j->out[2]; w++)
                for (int k = 0; k < j->parts; k++) {
                    int64_t a = (to + j->from[2][w]) * j->parts + k, b = (from + w) * j->parts + k;
                    if (j->real == TP_FLOAT32)
                        ((float *)j->back)[a] += ((const float *)j->large)[b];
                    else
                        ((double *)j->back)[a] += ((const double *)j->large)[b];
                }
        }
}

/* Fills the job's sizes and tables for an input of the shape. The tables are one block, to be freed by the caller. */
static int64_t *tables(job *j, tp_ints shape, tp_ints pad, tpi_pad_mode m, size_t *bytes) {
    int n = (int)(pad.n / 2);
    int64_t left[3] = {0}, right[3] = {0};
    j->planes = 1;
    for (int i = 0; i < 3; i++) j->in[i] = j->out[i] = 1;
    for (int64_t i = 0; i < shape.n; i++) {
        int64_t at = 3 - (shape.n - i);
        if (shape.n - i > n) {
            j->planes *= shape.v[i];
            continue;
        }
        left[at] = left_of(pad, (int)shape.n, (int)i);
        right[at] = right_of(pad, (int)shape.n, (int)i);
        j->in[at] = shape.v[i];
        j->out[at] = padded_size(shape.v[i], left[at], right[at]);
    }
    *bytes = tpi_size_bytes(tpi_size_plus(tpi_size_plus(j->out[0], j->out[1]), tpi_size_times(2, j->out[2])),
                            sizeof(int64_t));
    int64_t *block = tpi_alloc(*bytes), *at = block;
    for (int i = 0; block && i < 3; i++) {
        j->from[i] = at;
        for (int64_t o = 0; o < j->out[i]; o++) *at++ = source(m, o, left[i], right[i], j->in[i]);
    }
    if (block) j->end = at;
    for (int64_t w = j->out[2] - 1; block && w >= 0; w--)
        at[w] = w + 1 < j->out[2] && j->from[2][w + 1] == j->from[2][w] + 1 ? at[w + 1] : w + 1;
    return block;
}

tp_tensor *tpi_native_pad_index(tp_tensor *self, tp_ints pad, const char *mode_text) {
    tpi_pad_mode m;
    int64_t shape[TP_MAX_DIMS];
    if (!tpi_pad_read(self, pad, mode_text, &m, shape)) return NULL;
    job j = {.item = tpi_itemsize(self)};
    size_t bytes;
    int64_t *block = tables(&j, tpi_shape(self), pad, m, &bytes);
    tp_tensor *x = block ? tpi_contiguous_data(self) : NULL,
              *out = x ? tpi_empty(tp_ints_view(shape, self->ndim), (tp_dtype)self->dtype, tpi_device(self)) : NULL;
    if (out) {
        j.small = x->data;
        j.large = out->data;
        if (out->numel > 0) tpi_parallel_for(j.planes, out->numel > 16384, forward_plane, &j);
    }
    tpi_release(x);
    if (block) tpi_free(block, bytes);
    return tpi_from_compute_like(out, (tp_dtype)self->dtype, self);
}

tp_tensor *tpi_native_pad_index_backward(tp_tensor *grad, tp_ints input_shape, tp_ints pad, const char *mode_text) {
    tpi_pad_mode m;
    int64_t shape[TP_MAX_DIMS];
    if (!read_sizes(input_shape, pad, mode_text, &m, shape) ||
        !tpi_check_shape(grad, "grad", tp_ints_view(shape, input_shape.n)))
        return NULL;
    bool complex = tp_dtype_is_complex((tp_dtype)grad->dtype);
    tp_dtype compute = complex ? (tp_dtype)grad->dtype : tpi_compute_dtype(grad, "grad");
    if (!compute) return NULL;
    job j = {.real = tpi_dtype_to_real(compute), .parts = complex ? 2 : 1};
    size_t bytes;
    int64_t *block = tables(&j, input_shape, pad, m, &bytes);
    tp_tensor *g = block ? tpi_to_compute(grad, compute) : NULL,
              *out = g ? tpi_empty(input_shape, compute, tpi_device(grad)) : NULL;
    if (out) {
        j.large = g->data;
        j.back = out->data;
        memset(out->data, 0, (size_t)out->numel * tpi_itemsize(out));
        if (g->numel > 0) tpi_parallel_for(j.planes, g->numel > 16384, backward_plane, &j);
    }
    tpi_release(g);
    if (block) tpi_free(block, bytes);
    return tpi_from_compute_like(out, (tp_dtype)grad->dtype, grad);
}
