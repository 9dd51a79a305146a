/* Masks: where they are true, what they select, and what they overwrite. Chunks of fixed size count first, then write.
 */
#include "tensor/fits.h"
#include "ops/native.h"
#include "tensor/sizes.h"
#include "ops/index/gather_index.h"

#define CHUNK 32768

typedef struct mask_job {
    const uint8_t *mask;
    int64_t n;
    int64_t *start; /* per chunk: how many are true before it; one more at the end */
    /* positions */
    int ndim;
    const int64_t *shape;
    int64_t *out[TP_MAX_DIMS];
    int64_t out_stride; /* in elements */
    /* selection: one side follows the mask, the other is packed */
    char *spread, *packed;
    size_t itemsize;
    bool scatter;
} mask_job;

static int64_t chunk_end(const mask_job *j, int64_t chunk) {
    return (chunk + 1) * CHUNK < j->n ? (chunk + 1) * CHUNK : j->n;
}

static void count_chunk(int64_t chunk, void *context) {
    mask_job *j = context;
    int64_t count = 0;
    for (int64_t i = chunk * CHUNK, end = chunk_end(j, chunk); i < end; i++) count += j->mask[i] != 0;
    j->start[chunk + 1] = count;
}

/* Fills j->start; the number of true elements is its last entry. false without memory. */
static bool count_true(mask_job *j) {
    int64_t chunks = tpi_ceil_div(j->n, CHUNK);
    j->start = tpi_malloc(sizeof(int64_t) * (size_t)(chunks + 1));
    if (!j->start) return false;
    j->start[0] = 0;
    tpi_parallel_for(chunks, j->n > CHUNK, count_chunk, j);
    for (int64_t c = 0; c < chunks; c++) j->start[c + 1] += j->start[c];
    return true;
}

static int64_t total(const mask_job *j) { return j->start[tpi_ceil_div(j->n, CHUNK)]; }

/* Any tensor as contiguous bool: owned. */
static tp_tensor *as_mask(tp_tensor *t) {
    tp_tensor *b = tpi_as_dtype_data(t, TP_BOOL);
    return b ? tpi_release_then(b, tpi_contiguous_data(b)) : NULL;
}

/* ---- Positions ---- */
static void position_chunk(int64_t chunk, void *context) {
    const mask_job *j = context;
    int64_t at = j->start[chunk], i = chunk * CHUNK, end = chunk_end(j, chunk), index[TP_MAX_DIMS], rest = i;
    for (int d = j->ndim - 1; d >= 0; d--) {
        index[d] = rest % j->shape[d];
        rest /= j->shape[d];
    }
    for (; i < end; i++) {
        if (j->mask[i]) {
            for (int d = 0; d < j->ndim; d++) j->out[d][at * j->out_stride] = index[d];
            at++;
        }
        for (int d = j->ndim - 1; d >= 0 && ++index[d] == j->shape[d]; d--) index[d] = d ? 0 : index[d];
    }
}

bool tpi_mask_positions(tp_tensor *mask, tp_tensor **out) {
    tp_tensor *flags = as_mask(mask);
    if (!flags) return false;
    mask_job j = {.mask = (const uint8_t *)flags->data,
                  .n = flags->numel,
                  .ndim = mask->ndim,
                  .shape = mask->shape,
                  .out_stride = 1};
    bool ok = count_true(&j);
    int made = 0;
    for (; ok && made < mask->ndim; made++) {
        int64_t n = total(&j);
        out[made] = tpi_empty((tp_ints){&n, 1}, TP_INT64, tpi_device(mask));
        ok = out[made] != NULL;
        if (ok) j.out[made] = (int64_t *)(void *)out[made]->data;
    }
    if (ok) tpi_parallel_for(tpi_ceil_div(j.n, CHUNK), j.n > CHUNK, position_chunk, &j);
    for (int d = 0; !ok && d < made; d++) {
        tpi_release(out[d]);
        out[d] = NULL;
    }
    tpi_mfree(j.start);
    tpi_release(flags);
    return ok;
}

tp_tensor *tpi_native_nonzero(tp_tensor *self) {
    tp_tensor *flags = as_mask(self);
    if (!flags) return NULL;
    mask_job j = {.mask = (const uint8_t *)flags->data,
                  .n = flags->numel,
                  .ndim = self->ndim,
                  .shape = self->shape,
                  .out_stride = self->ndim};
    tp_tensor *out = count_true(&j) ? tpi_empty(TP_INTS(total(&j), self->ndim), TP_INT64, tpi_device(self)) : NULL;
    if (out) {
        for (int d = 0; d < self->ndim; d++) j.out[d] = (int64_t *)(void *)out->data + d;
        if (out->numel) tpi_parallel_for(tpi_ceil_div(j.n, CHUNK), j.n > CHUNK, position_chunk, &j);
    }
    tpi_mfree(j.start);
    return tpi_release_then(flags, out);
}

tp_tensor *tpi_native_nonzero_static(tp_tensor *self, int64_t size, int64_t fill_value) {
    if (size < 0) return tpi_fail(TP_ERR_RUNTIME, "argument 'size': expected 0 or more, got %lld", (long long)size);
    tp_tensor *found = tpi_native_nonzero(self),
              *out = found ? tpi_empty(TP_INTS(size, self->ndim), TP_INT64, tpi_device(self)) : NULL;
    if (out) {
        int64_t have = found->shape[0] < size ? found->shape[0] : size, *to = (int64_t *)(void *)out->data;
        if (have > 0 && self->ndim > 0) memcpy(to, found->data, sizeof(int64_t) * (size_t)(have * self->ndim));
        for (int64_t i = have * self->ndim; i < out->numel; i++) to[i] = fill_value;
    }
    return tpi_release_then(found, out);
}

/* ---- Selection ---- */
typedef struct {
    uint64_t half[2];
} bytes16;

#define MOVE(type)                                                                                       \
    {                                                                                                    \
        type *spread = (type *)(void *)j->spread, *packed = (type *)(void *)j->packed + j->start[chunk]; \
        for (; i < end; i++) {                                                                           \
            if (!j->mask[i]) continue;                                                                   \
            if (j->scatter)                                                                              \
                spread[i] = *packed++;                                                                   \
            else                                                                                         \
                *packed++ = spread[i];                                                                   \
        }                                                                                                \
    }                                                                                                    \
    break

static void move_chunk(int64_t chunk, void *context) {
    const mask_job *j = context;
    int64_t i = chunk * CHUNK, end = chunk_end(j, chunk);
    switch (j->itemsize) {
    case 1: MOVE(uint8_t);
    case 2: MOVE(uint16_t);
    case 4: MOVE(uint32_t);
    case 8: MOVE(uint64_t);
    default: MOVE(bytes16);
    }
}

static void move_masked(mask_job *j, tp_tensor *spread, tp_tensor *packed, bool scatter) {
    j->spread = spread->data;
    j->packed = packed->data;
    j->itemsize = tpi_itemsize(spread);
    j->scatter = scatter;
    tpi_parallel_for(tpi_ceil_div(j->n, CHUNK), j->n > CHUNK, move_chunk, j);
}

/* t broadcast to the shape, contiguous: owned. */
static tp_tensor *spread_to(tp_tensor *t, tp_ints shape, bool mask) {
    tp_tensor *flags = mask ? tpi_as_dtype_data(t, TP_BOOL) : tpi_retain(t),
              *wide = flags ? tpi_expanded(flags, shape) : NULL;
    tpi_release(flags);
    return wide ? tpi_release_then(wide, tpi_contiguous_data(wide)) : NULL;
}

static bool check_mask(const tp_tensor *mask) {
    return mask->dtype == TP_BOOL ||
           tpi_refuse(TP_ERR_RUNTIME, "argument 'mask': expected BoolTensor for mask, got %s: masks are boolean",
                      tp_dtype_name(mask->dtype));
}

tp_tensor *tpi_native_masked_select(tp_tensor *self, tp_tensor *mask) {
    int64_t shape[TP_MAX_DIMS];
    int ndim;
    if (!check_mask(mask) || !tpi_broadcast(tpi_shape(self), tpi_shape(mask), shape, &ndim)) return NULL;
    tp_ints both = {shape, ndim};
    tp_tensor *flags = spread_to(mask, both, true), *from = flags ? spread_to(self, both, false) : NULL, *out = NULL;
    if (from) {
        mask_job j = {.mask = (const uint8_t *)flags->data, .n = flags->numel};
        if (count_true(&j)) {
            int64_t n = total(&j);
            out = tpi_empty((tp_ints){&n, 1}, self->dtype, tpi_device(self));
            if (out && n) move_masked(&j, from, out, false);
        }
        tpi_mfree(j.start);
    }
    tpi_release(flags);
    return tpi_release_then(from, out);
}

/* Zeros of the shape that size and the mask broadcast to, with grad's elements where the mask is true. */
tp_tensor *tpi_native_masked_select_backward(tp_tensor *grad, tp_ints size, tp_tensor *mask) {
    int64_t shape[TP_MAX_DIMS];
    int ndim;
    if (!check_mask(mask) || tpi_numel_of(size) < 0 || !tpi_broadcast(size, tpi_shape(mask), shape, &ndim)) return NULL;
    tp_ints both = {shape, ndim};
    tp_tensor *flags = spread_to(mask, both, true), *packed = flags ? tpi_contiguous_data(grad) : NULL;
    tp_tensor *out = packed ? tpi_empty(both, grad->dtype, tpi_device(grad)) : NULL;
    bool ok = out && tpi_fill_data(out, tp_int(0));
    if (ok) {
        mask_job j = {.mask = (const uint8_t *)flags->data, .n = flags->numel};
        ok = count_true(&j) && tpi_check_numel(packed, "grad", total(&j));
        if (ok && total(&j)) move_masked(&j, out, packed, true);
        tpi_mfree(j.start);
    }
    tpi_release(flags);
    tpi_release(packed);
    return ok ? out : tpi_release_then(out, NULL);
}

tp_tensor *tpi_native_masked_scatter(tp_tensor *self, tp_tensor *mask, tp_tensor *source) {
    int64_t shape[TP_MAX_DIMS];
    int ndim;
    if (!check_mask(mask) || !tpi_check_same_dtype(source, "source", self, "self")) return NULL;
    if (!tpi_broadcast(tpi_shape(self), tpi_shape(mask), shape, &ndim)) return NULL;
    tp_ints both = {shape, ndim};
    tp_tensor *flags = spread_to(mask, both, true), *packed = flags ? tpi_contiguous_data(source) : NULL,
              *wide = packed ? tpi_expanded(self, both) : NULL;
    tp_tensor *out = wide ? tpi_empty(both, (tp_dtype)self->dtype, tpi_device(self)) : NULL;
    bool ok = out && tpi_copy_data(out, wide);
    if (ok) {
        mask_job j = {.mask = (const uint8_t *)flags->data, .n = flags->numel};
        ok = count_true(&j);
        if (ok && total(&j) > packed->numel)
            ok = tpi_refuse(TP_ERR_RUNTIME,
                            "argument 'source': Number of elements of source < number of ones in mask: it is true at "
                            "%lld places, got only %lld elements",
                            (long long)total(&j), (long long)packed->numel);
        if (ok && total(&j)) move_masked(&j, out, packed, true);
        tpi_mfree(j.start);
    }
    tpi_release(flags);
    tpi_release(packed);
    tpi_release(wide);
    return ok ? out : tpi_release_then(out, NULL);
}

/* grad where the mask is true, in order, behind it zeros up to the size of masked_scatter's source. */
tp_tensor *tpi_native_masked_scatter_backward(tp_tensor *grad, tp_tensor *mask, tp_ints size) {
    if (!check_mask(mask)) return NULL;
    tp_tensor *flags = spread_to(mask, tpi_shape(grad), true), *from = flags ? tpi_contiguous_data(grad) : NULL;
    tp_tensor *out = from ? tpi_empty(size, grad->dtype, tpi_device(grad)) : NULL;
    bool ok = out && tpi_fill_data(out, tp_int(0));
    if (ok) {
        mask_job j = {.mask = (const uint8_t *)flags->data, .n = flags->numel};
        ok = count_true(&j);
        if (ok && total(&j) > out->numel)
            ok = tpi_refuse(TP_ERR_RUNTIME, "argument 'size': %s is smaller than what the mask selects",
                            tpi_shape_text(size));
        if (ok && total(&j)) move_masked(&j, from, out, false);
        tpi_mfree(j.start);
    }
    tpi_release(flags);
    tpi_release(from);
    return ok ? out : tpi_release_then(out, NULL);
}

/* ---- fill_diagonal ---- */
/* `count` diagonals of `length` elements, the first from a row on, the others every `period` rows. */
static bool fill_diagonals(tp_tensor *self, int64_t count, int64_t length, int64_t row, int64_t period, int64_t step,
                           tp_scalar value) {
    tp_tensor *lines = tpi_alias(self, 2, (int64_t[]){count, length}, (int64_t[]){period * self->strides[0], step},
                                 tpi_offset(self) + row * self->strides[0]);
    bool ok = lines && tpi_fill_data(lines, value);
    tpi_release(lines);
    return ok;
}

bool tpi_native_fill_diagonal(tp_tensor *self, tp_scalar value, bool wrap) {
    if (self->ndim < 2)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'self': dimensions must larger than 1, expected at least 2 dimensions, got %d",
                          self->ndim);
    if (!self->numel) return true;
    if (!tpi_check_fits(value, (tp_dtype)self->dtype)) return false;
    int64_t rows = self->shape[0], least = rows, step = 0;
    for (int d = 0; d < self->ndim; d++) {
        if (self->ndim > 2 && self->shape[d] != rows)
            return tpi_refuse(TP_ERR_RUNTIME,
                              "argument 'self': all dimensions of input must be of equal length, got shape %s",
                              tpi_shape_text(tpi_shape(self)));
        least = self->shape[d] < least ? self->shape[d] : least;
        step += self->strides[d];
    }
    bool again = wrap && self->ndim == 2 &&
                 least; /* the diagonal starts again one row below where it ended, every `period` rows */
    int64_t period = self->shape[1] + 1, full = again ? (rows + 1) / period : least > 0,
            tail = again ? rows - full * period : 0;
    if (again && full == 0) { /* fewer rows than columns */
        full = 1;
        tail = 0;
    }
    return fill_diagonals(self, full, least, 0, period, step, value) &&
           (tail <= 0 || fill_diagonals(self, 1, tail, full * period, period, step, value));
}
