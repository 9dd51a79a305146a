/* gather and the scatters: an index for every element. For element (..., i, ...) the index takes the place of i along
 * dim.
 *
 * Elements that differ in any other coordinate never meet, so the work is split over those and each chunk goes along
 * dim in order: what duplicates add up to is the same on any number of threads. */
#include "ops/index/combine.h"
#include "tensor/fits.h"
#include "ops/native.h"

#define COLUMNS     256 /* neighbouring columns that one chunk works on */
#define CHUNK_BYTES (64 * 1024)

typedef struct scatter_layout { /* how the index tensor, the indexed tensor and the plain one lie, dim by dim */
    tpi_odometer outer;         /* operands: indexed, plain, index (bytes) */
    int64_t rows, cols;         /* along dim, and along the last dim when that is another one */
    int64_t row[3], col[3];     /* byte strides of those two, per operand; row[0] is the scale of an index */
    char *indexed, *plain;
    const char *index;
    int64_t outers, parts;
    tp_dtype dtype;
    tpi_combine_op op;
    int64_t per_chunk;
} scatter_layout;

static void set_layout(scatter_layout *l, const tp_tensor *indexed, const tp_tensor *plain, const tp_tensor *index,
                       int dim) {
    int64_t size = (int64_t)tpi_itemsize(indexed);
    *l = (scatter_layout){.outer = {.nargs = 3},
                          .rows = 1,
                          .cols = 1,
                          .indexed = indexed->data,
                          .plain = plain->data,
                          .index = index->data,
                          .outers = 1,
                          .dtype = indexed->dtype};
    for (int d = 0; d < index->ndim; d++) {
        int64_t strides[3] = {indexed->strides[d] * size, plain->ndim == index->ndim ? plain->strides[d] * size : 0,
                              index->strides[d] * (int64_t)sizeof(int64_t)};
        if (d == dim) {
            l->rows = index->shape[d];
            memcpy(l->row, strides, sizeof strides);
        } else if (d == index->ndim - 1) {
            l->cols = index->shape[d];
            memcpy(l->col, strides, sizeof strides);
        } else {
            tpi_odometer_dim(&l->outer, index->shape[d], strides);
            l->outers *= index->shape[d];
        }
    }
}

static tpi_indexed_block block(const scatter_layout *l, const tpi_odometer *w, int64_t row, int64_t rows, int64_t col,
                               int64_t cols) {
    const int64_t word = (int64_t)sizeof(int64_t);
    tpi_indexed_block at = {
        .indexed = l->indexed + w->offset[0] + col * l->col[0],
        .plain = l->plain + w->offset[1] + col * l->col[1] + row * l->row[1],
        .index = (const int64_t *)(const void *)(l->index + w->offset[2] + col * l->col[2] + row * l->row[2]),
        .rows = rows,
        .cols = cols,
        .index_row = l->row[2] / word,
        .index_col = l->col[2] / word,
        .scale = l->row[0],
        .indexed_col = l->col[0],
        .plain_row = l->row[1],
        .plain_col = l->col[1]};
    if (cols == 1 && rows > 1) { /* one line along dim: the inner loop is the only one */
        at.rows = 1;
        at.cols = rows;
        at.index_col = at.index_row;
        at.plain_col = at.plain_row;
        at.indexed_col = 0;
    }
    return at;
}

static void write_lines(int64_t chunk, void *context) {
    const scatter_layout *l = context;
    tpi_odometer w = l->outer;
    for (int64_t unit = chunk * l->per_chunk, end = unit + l->per_chunk; unit < end && unit < l->outers * l->parts;
         unit++) {
        int64_t col = unit % l->parts * COLUMNS, cols = l->cols - col < COLUMNS ? l->cols - col : COLUMNS;
        tpi_odometer_seek(&w, unit / l->parts);
        tpi_indexed_block at = block(l, &w, 0, l->rows, col, cols);
        tpi_combine(l->op, l->dtype, &at);
    }
}

static void fetch_lines(int64_t chunk, void *context) {
    const scatter_layout *l = context;
    tpi_odometer w = l->outer;
    for (int64_t unit = chunk * l->per_chunk, end = unit + l->per_chunk; unit < end && unit < l->outers * l->parts;
         unit++) {
        int64_t each = l->cols == 1 ? 65536 : 1 + 16384 / l->cols, row = unit % l->parts * each,
                rows = l->rows - row < each ? l->rows - row : each;
        tpi_odometer_seek(&w, unit / l->parts);
        tpi_indexed_block at = block(l, &w, row, rows, 0, l->cols);
        tpi_fetch(tpi_dtype_bytes[l->dtype], &at);
    }
}

/* ---- Checks ---- */
typedef struct bounds_job {
    const int64_t *at;
    int64_t n, size;
    atomic_bool bad;
} bounds_job;

static void bounds_chunk(int64_t chunk, void *context) {
    bounds_job *j = context;
    int64_t i = chunk * 65536, end = i + 65536 < j->n ? i + 65536 : j->n;
    /* A negative index has its highest bit set, and one that is too large sets that of the difference: two operations
     * that every instruction set has for vectors, where comparisons of 64 bits are missing in the baseline. */
    const uint64_t last = (uint64_t)j->size - 1;
    uint64_t bits = 0;
    for (; i < end; i++) bits |= (uint64_t)j->at[i] | (last - (uint64_t)j->at[i]);
    if (bits >> 63) atomic_store(&j->bad, true);
}

/* The dense case is looked through in parallel; the walk is for expanded and strided indices, and finds the culprit. */
static bool check_bounds(const tp_tensor *index, int dim, int64_t size) {
    if (index->numel == 0) return true;
    const int64_t *at = (const int64_t *)(const void *)index->data;
    if (tp_is_contiguous(index)) {
        bounds_job j = {.at = at, .n = index->numel, .size = size};
        tpi_parallel_for(tpi_ceil_div(j.n, 65536), j.n > 65536, bounds_chunk, &j);
        if (!atomic_load(&j.bad)) return true;
    }
    int64_t span = 1;
    tpi_odometer w = {.nargs = 1};
    for (int d = 0; d < index->ndim; d++)
        if (index->strides[d] != 0 && index->shape[d] > 1) {
            tpi_odometer_dim(&w, index->shape[d], &index->strides[d]);
            span *= index->shape[d];
        }
    tpi_odometer_seek(&w, 0);
    for (int64_t i = 0; i < span; i++, tpi_odometer_next(&w)) {
        int64_t v = at[w.offset[0]];
        if (v < 0 || v >= size) /* PyTorch's RuntimeError, unlike other bad indices */
            return tpi_refuse(TP_ERR_RUNTIME,
                              "argument 'index': index %lld is out of bounds for dimension %d with size %lld",
                              (long long)v, dim, (long long)size);
    }
    return true;
}

/* The index as int64 with whatever strides it has: owned. */
static tp_tensor *wide_index(tp_tensor *index) {
    if (index->dtype != TP_INT64 && index->dtype != TP_INT32)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'index': Expected dtype int32/int64 for index, got %s",
                        tp_dtype_name(index->dtype));
    return tpi_as_dtype_data(index, TP_INT64);
}

static bool check_index(const tp_tensor *self, const tp_tensor *index, int dim) {
    bool fits = (index->ndim ? index->ndim : 1) == (self->ndim ? self->ndim : 1);
    if (!fits)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'index': Index tensor must have the same number of dimensions as input tensor, got "
                          "shapes %s and %s",
                          tpi_shape_text(tpi_shape(index)), tpi_shape_text(tpi_shape(self)));
    for (int d = 0; d < index->ndim && fits && self->ndim; d++) fits = d == dim || index->shape[d] <= self->shape[d];
    return fits ||
           tpi_refuse(TP_ERR_RUNTIME,
                      "argument 'index': expected a shape no larger than self's %s apart from dimension %d, got %s",
                      tpi_shape_text(tpi_shape(self)), dim, tpi_shape_text(tpi_shape(index)));
}

/* Zero-dimensional tensors take part as vectors of one element: owned. */
static tp_tensor *as_line(tp_tensor *t) { return t->ndim ? tpi_retain(t) : tpi_dim_last(t, 0); }

tp_tensor *tpi_native_gather(tp_tensor *self, int64_t dim, tp_tensor *index, bool sparse_grad) {
    (void)sparse_grad;
    int d = TPI_DIM(self, dim);
    if (d < 0) return NULL;
    if (index->numel == 0) return tpi_empty(tpi_shape(index), self->dtype, tpi_device(self));
    if (!check_index(self, index, d)) return NULL;
    tp_tensor *wide = wide_index(index), *at = wide ? as_line(wide) : NULL, *from = at ? as_line(self) : NULL,
              *out = NULL, *to = NULL;
    tpi_release(wide);
    if (from && check_bounds(at, d, from->shape[d])) out = tpi_empty(tpi_shape(index), self->dtype, tpi_device(self));
    if (out && (to = as_line(out)) != NULL) {
        scatter_layout l;
        set_layout(&l, from, to, at, d);
        l.parts = l.cols == 1 ? tpi_ceil_div(l.rows, 65536) : tpi_ceil_div(l.rows, 1 + 16384 / l.cols);
        int64_t bytes = out->numel * (int64_t)tpi_itemsize(out), units = l.outers * l.parts;
        l.per_chunk = 1 + CHUNK_BYTES / (1 + bytes / units);
        tpi_parallel_for(tpi_ceil_div(units, l.per_chunk), bytes > TPI_WORTH_BYTES, fetch_lines, &l);
    } else
        out = tpi_release_then(out, NULL);
    tpi_release(to);
    tpi_release(at);
    tpi_release(from);
    return out;
}

/* self combined with src through the index; src may be one element. */
static bool scatter_with(tpi_combine_op op, tp_tensor *self, int64_t dim, tp_tensor *index, tp_tensor *src, bool one) {
    int d = TPI_DIM(self, dim);
    if (d < 0) return false;
    if (index->numel == 0) return true;
    if (!check_index(self, index, d)) return false;
    if (src->dtype != self->dtype)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'src': scatter(): Expected self.dtype to be equal to src.dtype, got %s and %s",
                          tp_dtype_name((tp_dtype)self->dtype), tp_dtype_name((tp_dtype)src->dtype));
    bool fits = one || (src->ndim ? src->ndim : 1) == (index->ndim ? index->ndim : 1);
    for (int i = 0; i < index->ndim && fits && !one && src->ndim; i++) fits = index->shape[i] <= src->shape[i];
    if (!fits)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'src': expected a shape no smaller than the index's %s, got %s",
                          tpi_shape_text(tpi_shape(index)), tpi_shape_text(tpi_shape(src)));
    tp_tensor *wide = wide_index(index), *at = wide ? as_line(wide) : NULL, *to = at ? as_line(self) : NULL,
              *from = to ? as_line(src) : NULL;
    tpi_release(wide);
    bool ok = from && check_bounds(at, d, to->shape[d]) && tpi_check_combine(op, self->dtype, "reduce");
    if (ok) {
        scatter_layout l;
        set_layout(&l, to, from, at, d);
        if (one) { /* every element is the same one */
            l.row[1] = l.col[1] = 0;
            memset(l.outer.stride[1], 0, sizeof l.outer.stride[1]);
        }
        l.op = op;
        l.parts = tpi_ceil_div(l.cols, COLUMNS);
        int64_t bytes = index->numel * (int64_t)tpi_itemsize(self), units = l.outers * l.parts;
        l.per_chunk = 1 + CHUNK_BYTES / (1 + bytes / units);
        tpi_parallel_for(tpi_ceil_div(units, l.per_chunk), bytes > TPI_WORTH_BYTES, write_lines, &l);
    }
    tpi_release(at);
    tpi_release(to);
    tpi_release(from);
    return ok;
}

static bool scatter_number(tpi_combine_op op, tp_tensor *self, int64_t dim, tp_tensor *index, tp_scalar value) {
    tp_tensor *t = tpi_of_scalar(value, self->dtype, tpi_device(self));
    bool ok = t && scatter_with(op, self, dim, index, t, true);
    tpi_release(t);
    return ok;
}

bool tpi_native_scatter(tp_tensor *self, int64_t dim, tp_tensor *index, tp_tensor *src) {
    return scatter_with(TPI_PUT, self, dim, index, src, false);
}
bool tpi_native_scatter_value(tp_tensor *self, int64_t dim, tp_tensor *index, tp_scalar value) {
    return tpi_check_fits(value, (tp_dtype)self->dtype) && scatter_number(TPI_PUT, self, dim, index, value);
}
bool tpi_native_scatter_add(tp_tensor *self, int64_t dim, tp_tensor *index, tp_tensor *src) {
    return scatter_with(TPI_ADD, self, dim, index, src, false);
}

/* What an element starts with when self's own value is left out. */
static tp_scalar neutral(tpi_combine_op op, tp_dtype dtype) {
    static const int64_t lowest[] = {
        [TP_BOOL] = 0,          [TP_UINT8] = 0,         [TP_INT8] = INT8_MIN, [TP_INT16] = INT16_MIN,
        [TP_INT32] = INT32_MIN, [TP_INT64] = INT64_MIN, [TP_UINT32] = 0};
    static const int64_t highest[] = {
        [TP_BOOL] = 1,          [TP_UINT8] = UINT8_MAX, [TP_INT8] = INT8_MAX,     [TP_INT16] = INT16_MAX,
        [TP_INT32] = INT32_MAX, [TP_INT64] = INT64_MAX, [TP_UINT16] = UINT16_MAX, [TP_UINT32] = UINT32_MAX};
    bool whole = tpi_dtype_category[dtype] & (TPI_CAT_INT | TPI_CAT_BOOL);
    switch (op) {
    case TPI_ADD: return tp_int(0);
    case TPI_MUL: return tp_int(1);
    case TPI_MAX: return whole ? tp_int(lowest[dtype]) : tp_float(-__builtin_inf());
    default: return whole ? tp_int(highest[dtype]) : tp_float(__builtin_inf());
    }
}

/* self / how many went into it, rounded down for integers; elements that got nothing stay. */
static bool divide_by_counts(tp_tensor *self, int64_t dim, tp_tensor *index, bool include_self) {
    tp_tensor *counts = tpi_empty(tpi_shape(self), TP_INT64, tpi_device(self));
    bool ok =
        counts && tpi_fill_data(counts, tp_int(include_self)) && scatter_number(TPI_ADD, counts, dim, index, tp_int(1));
    tpi_odometer w = {.nargs = 1};
    int64_t size = (int64_t)tpi_itemsize(self);
    for (int d = 0; d < self->ndim; d++) tpi_odometer_dim(&w, self->shape[d], (int64_t[]){self->strides[d] * size});
    if (ok && self->numel) tpi_odometer_seek(&w, 0);
    for (int64_t i = 0; ok && i < self->numel; i++, tpi_odometer_next(&w)) {
        int64_t n = ((const int64_t *)(const void *)counts->data)[i];
        if (n <= 1) continue;
        tp_scalar v = tpi_load_scalar(self->data + w.offset[0], self->dtype);
        if (v.kind == TP_SCALAR_INT)
            v.as.i = v.as.i / n - (v.as.i % n != 0 && v.as.i < 0);
        else if (v.kind != TP_SCALAR_BOOL) {
            v.as.d[0] /= (double)n;
            v.as.d[1] /= (double)n;
        }
        tpi_store_scalar(self->data + w.offset[0], self->dtype, v);
    }
    tpi_release(counts);
    return ok;
}

bool tpi_native_scatter_reduce(tp_tensor *self, int64_t dim, tp_tensor *index, tp_tensor *src, const char *reduce,
                               bool include_self) {
    static const struct {
        const char *name;
        tpi_combine_op op;
    } known[] = {{"sum", TPI_ADD}, {"prod", TPI_MUL}, {"mean", TPI_ADD}, {"amax", TPI_MAX}, {"amin", TPI_MIN}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, reduce) != 0) continue;
        tpi_combine_op op = known[i].op;
        if (!include_self && !scatter_number(TPI_PUT, self, dim, index, neutral(op, self->dtype))) return false;
        if (!scatter_with(op, self, dim, index, src, false)) return false;
        return strcmp(reduce, "mean") != 0 || divide_by_counts(self, dim, index, include_self);
    }
    return tpi_refuse(TP_ERR_VALUE,
                      "argument 'reduce': expected \"sum\", \"prod\", \"mean\", \"amax\" or \"amin\", got \"%s\"",
                      reduce);
}
