/* See gather_index.h. Reads are split by rows of the result; writes only where the written elements are surely
 * different: over `before` and over stretches of `after`, each of which sees all positions in order. So what duplicates
 * do is settled.
 */
#include "ops/index/gather_index.h"
#include "ops/native.h"

#define READ_BYTES   (64 * 1024)
#define WRITE_RUN    512 /* elements of a run that one chunk writes */
#define OFFSET_CHUNK 65536

/* ---- Offsets from index tensors ---- */

typedef struct offsets_job {
    int64_t *offset;
    const int64_t *index;
    int64_t n, size, stride; /* stride in bytes */
    bool wrap, first;
    atomic_bool bad;
} offsets_job;

static void add_offsets(int64_t chunk, void *context) {
    offsets_job *j = context;
    int64_t i = chunk * OFFSET_CHUNK, end = i + OFFSET_CHUNK < j->n ? i + OFFSET_CHUNK : j->n,
            low = j->wrap ? -j->size : 0;
    bool bad = false;
    for (; i < end; i++) {
        int64_t at = j->index[i];
        bool outside = at < low || at >= j->size;
        bad |= outside;
        at = outside ? 0 : at;
        at = at < 0 ? at + j->size : at;
        j->offset[i] = (j->first ? 0 : j->offset[i]) + at * j->stride;
    }
    if (bad) atomic_store(&j->bad, true);
}

/* offset += index * stride for every position; index is contiguous int64. */
static bool add_index(tpi_gather_index *p, const int64_t *index, int64_t dim, int64_t size, int64_t stride, bool wrap,
                      bool first) {
    offsets_job j = {
        .offset = p->offset, .index = index, .n = p->n, .size = size, .stride = stride, .wrap = wrap, .first = first};
    tpi_parallel_for(tpi_ceil_div(p->n, OFFSET_CHUNK), p->n > OFFSET_CHUNK, add_offsets, &j);
    if (!atomic_load(&j.bad)) return true;
    for (int64_t i = 0; i < p->n; i++)
        if (index[i] >= size || index[i] < (wrap ? -size : 0)) return tpi_index_error("index", index[i], dim, size);
    return true;
}

/* Works out runs and pieces of the dims after the indexed ones. */
static bool lay_out(tpi_gather_index *p) {
    int64_t size = (int64_t)tpi_itemsize(p->self);
    p->before = 1;
    p->pieces = 1;
    p->run = 1;
    p->run_stride = size;
    for (int d = 0; d < p->nbefore; d++) p->before *= p->before_shape[d];
    int d = p->nafter - 1;
    for (bool started = false; d >= 0; d--) {
        if (p->after_shape[d] == 1) continue;
        if (!started) {
            p->run_stride = p->after_stride[d];
            p->run = p->after_shape[d];
            started = true;
        } else if (p->after_stride[d] == p->run * p->run_stride)
            p->run *= p->after_shape[d];
        else
            break;
    }
    tpi_odometer w = {.nargs = 1};
    for (int o = 0; o <= d; o++) {
        p->pieces *= p->after_shape[o];
        tpi_odometer_dim(&w, p->after_shape[o], &p->after_stride[o]);
    }
    if (p->pieces <= 1) return true;
    p->piece = tpi_malloc(sizeof(int64_t) * (size_t)p->pieces);
    if (!p->piece) return false;
    tpi_odometer_seek(&w, 0);
    for (int64_t i = 0; i < p->pieces; i++, tpi_odometer_next(&w)) p->piece[i] = w.offset[0];
    return true;
}

static void keep_dim(tpi_gather_index *p, int d, bool before) {
    int64_t stride = p->self->strides[d] * (int64_t)tpi_itemsize(p->self);
    if (before) {
        p->before_shape[p->nbefore] = p->self->shape[d];
        p->before_stride[p->nbefore++] = stride;
    } else {
        p->after_shape[p->nafter] = p->self->shape[d];
        p->after_stride[p->nafter++] = stride;
    }
}

static bool make_offsets(tpi_gather_index *p) {
    p->offset = tpi_malloc(sizeof(int64_t) * (size_t)(p->n ? p->n : 1));
    return p->offset != NULL;
}

void tpi_gather_index_free(tpi_gather_index *p) {
    tpi_mfree(p->offset);
    tpi_mfree(p->piece);
}

bool tpi_gather_index_along(tpi_gather_index *p, tp_tensor *self, int64_t dim, tp_tensor *index, bool wrap) {
    *p = (tpi_gather_index){.self = self, .index_ndim = 1, .n = index->numel};
    int d = TPI_DIM(self, dim);
    if (d < 0) return false;
    if (index->ndim > 1)
        return tpi_refuse(TP_ERR_INDEX, "argument 'index': expected one dimension, got shape %s",
                          tpi_shape_text(tpi_shape(index)));
    tp_tensor *positions = tpi_index_data(index, "index");
    if (!positions) return false;
    p->index_shape[0] = p->n;
    for (int i = 0; i < self->ndim; i++)
        if (i != d) keep_dim(p, i, i < d);
    bool ok = make_offsets(p) && lay_out(p) &&
              add_index(p, (const int64_t *)(const void *)positions->data, d, self->ndim ? self->shape[d] : 1,
                        self->ndim ? self->strides[d] * (int64_t)tpi_itemsize(self) : 0, wrap, true);
    if (self->ndim == 0) p->index_ndim = 0;
    tpi_release(positions);
    return ok;
}

bool tpi_gather_index_flat(tpi_gather_index *p, tp_tensor *self, tp_tensor *index) {
    *p = (tpi_gather_index){.self = self, .index_ndim = index->ndim, .n = index->numel};
    memcpy(p->index_shape, index->shape, sizeof(int64_t) * index->ndim);
    tp_tensor *positions = tpi_index_data(index, "index");
    bool ok = positions && make_offsets(p) && lay_out(p) &&
              add_index(p, (const int64_t *)(const void *)positions->data, 0, self->numel, (int64_t)tpi_itemsize(self),
                        true, true);
    tpi_release(positions);
    if (!ok || tp_is_contiguous(self)) return ok;
    int64_t size = (int64_t)tpi_itemsize(self);
    for (int64_t i = 0; i < p->n; i++) { /* the place of a flat position among strides */
        int64_t at = p->offset[i] / size, offset = 0;
        for (int d = self->ndim - 1; d >= 0; d--) {
            offset += at % self->shape[d] * self->strides[d];
            at /= self->shape[d];
        }
        p->offset[i] = offset * size;
    }
    return true;
}

/* ---- Advanced indexing ---- */

typedef struct index_list {     /* one index per dim of self, masks replaced by the positions they mean */
    tp_tensor *at[TP_MAX_DIMS]; /* owned; NULL: the dim is taken whole */
    int ndim;
    bool masks_only;
} index_list;

static void drop_list(index_list *l) {
    for (int d = 0; d < l->ndim; d++) tpi_release(l->at[d]);
}

static bool is_mask(const tp_tensor *t) { return t->dtype == TP_BOOL || t->dtype == TP_UINT8; }

static bool add_mask(index_list *l, tp_tensor *self, tp_tensor *mask) {
    for (int d = 0; d < mask->ndim; d++)
        if (mask->shape[d] != self->shape[l->ndim + d])
            return tpi_refuse(TP_ERR_INDEX,
                              "argument 'indices': the mask's shape %s does not fit self's shape %s at dimension %d",
                              tpi_shape_text(tpi_shape(mask)), tpi_shape_text(tpi_shape(self)), l->ndim + d);
    if (!tpi_mask_positions(mask, l->at + l->ndim)) return false;
    l->ndim += mask->ndim;
    return true;
}

static bool list_indices(index_list *l, tp_tensor *self, tp_tensors indices) {
    *l = (index_list){.masks_only = true};
    int found = 0;
    for (int64_t i = 0; i < indices.n; i++) {
        tp_tensor *t = indices.v[i];
        int ndims = t && is_mask(t) ? t->ndim : 1;
        if (l->ndim + ndims > self->ndim)
            return tpi_refuse(TP_ERR_INDEX, "argument 'indices': too many indices for a tensor of %d dimension(s)",
                              self->ndim);
        if (!t) {
            l->at[l->ndim++] = NULL;
            continue;
        }
        found++;
        if (is_mask(t)) {
            if (t->ndim == 0)
                return tpi_refuse(TP_ERR_MISSING,
                                  "argument 'indices': a zero-dimensional mask; expected one with dimensions");
            if (!add_mask(l, self, t)) return false;
            continue;
        }
        if (!(tpi_dtype_category[t->dtype] & TPI_CAT_INT))
            return tpi_refuse(TP_ERR_INDEX,
                              "argument 'indices': expected tensors of int64, int32, uint8 or bool, got %s",
                              tp_dtype_name(t->dtype));
        tp_tensor *wide = tpi_as_dtype_data(t, TP_INT64);
        if (!wide) return false;
        l->at[l->ndim++] = wide;
        l->masks_only = false;
    }
    while (l->ndim < self->ndim) l->at[l->ndim++] = NULL;
    l->masks_only = l->masks_only && found == 1;
    return found || tpi_refuse(TP_ERR_INDEX, "argument 'indices': at least one index must be provided");
}

static bool broadcasts(tp_ints a, tp_ints b) {
    for (int64_t i = 1; i <= a.n && i <= b.n; i++)
        if (a.v[a.n - i] != b.v[b.n - i] && a.v[a.n - i] != 1 && b.v[b.n - i] != 1) return false;
    return true;
}

static bool broadcast_indices(tpi_gather_index *p, const index_list *l) {
    for (int d = 0; d < l->ndim; d++) {
        if (!l->at[d]) continue;
        int64_t next[TP_MAX_DIMS];
        int ndim;
        tp_ints before = {p->index_shape, p->index_ndim}, shape = tpi_shape(l->at[d]);
        if (!broadcasts(before, shape))
            return tpi_refuse(TP_ERR_INDEX,
                              "shape mismatch: indexing tensors could not be broadcast together with shapes %s, %s",
                              tpi_shape_text(before), tpi_shape_text(shape));
        if (!tpi_broadcast(before, shape, next, &ndim)) return false;
        memcpy(p->index_shape, next, sizeof(int64_t) * (size_t)ndim);
        p->index_ndim = ndim;
    }
    p->n = tpi_numel_of((tp_ints){p->index_shape, p->index_ndim});
    return p->n >= 0;
}

static bool add_indices(tpi_gather_index *p, index_list *l) {
    bool first = true;
    for (int d = 0; d < l->ndim; d++) {
        if (!l->at[d]) continue;
        if (p->n == 0) continue;
        if (p->self->shape[d] == 0) return tpi_index_error("indices", 0, d, 0);
        tp_tensor *wide = tpi_expanded(l->at[d], (tp_ints){p->index_shape, p->index_ndim}),
                  *whole = wide ? tpi_contiguous_data(wide) : NULL;
        tpi_release(wide);
        bool ok = whole && add_index(p, (const int64_t *)(const void *)whole->data, d, p->self->shape[d],
                                     p->self->strides[d] * (int64_t)tpi_itemsize(p->self), true, first);
        tpi_release(whole);
        if (!ok) return false;
        first = false;
    }
    return true;
}

bool tpi_gather_index_advanced(tpi_gather_index *p, tp_tensor *self, tp_tensors indices) {
    *p = (tpi_gather_index){.self = self};
    index_list l;
    bool ok = list_indices(&l, self, indices) && broadcast_indices(p, &l) && make_offsets(p) && add_indices(p, &l);
    int first = -1, last = -1, count = 0;
    for (int d = 0; d < l.ndim; d++)
        if (l.at[d]) {
            first = first < 0 ? d : first;
            last = d;
            count++;
        }
    bool together = last - first + 1 == count;
    for (int d = 0; ok && d < self->ndim; d++)
        if (!l.at[d]) keep_dim(p, d, together && d < first);
    p->distinct = l.masks_only;
    ok = ok && lay_out(p);
    drop_list(&l);
    return ok;
}

/* ---- Reading and writing ---- */

int tpi_gather_index_shape(const tpi_gather_index *p, int64_t *shape) {
    int n = 0;
    for (int d = 0; d < p->nbefore; d++) shape[n++] = p->before_shape[d];
    for (int d = 0; d < p->index_ndim; d++) shape[n++] = p->index_shape[d];
    for (int d = 0; d < p->nafter; d++) shape[n++] = p->after_shape[d];
    return n;
}

static char *before_at(const tpi_gather_index *p, int64_t b) {
    char *base = p->self->data;
    for (int d = p->nbefore - 1; d >= 0; d--) {
        base += b % p->before_shape[d] * p->before_stride[d];
        b /= p->before_shape[d];
    }
    return base;
}

typedef struct transfer {
    tpi_gather_index *p;
    char *values;
    int64_t row, run_item; /* bytes from one run to the next, and within one; 0 when values is one element */
    int64_t per_chunk, parts, part;
    tpi_combine_op op;
} transfer;

/* Rows are runs, in the order of the result: (before, position, piece). */
static void read_chunk(int64_t chunk, void *context) {
    const transfer *t = context;
    const tpi_gather_index *p = t->p;
    int64_t total = p->before * p->n * p->pieces, row = chunk * t->per_chunk,
            end = row + t->per_chunk < total ? row + t->per_chunk : total;
    size_t size = tpi_itemsize(p->self);
    tpi_indexed_block at = {.cols = p->run,
                            .index_row = 1,
                            .scale = 1,
                            .indexed_col = p->run_stride,
                            .plain_row = t->row,
                            .plain_col = (int64_t)size,
                            .plain_bytes = total * t->row};
    while (row < end) {
        int64_t piece = row % p->pieces, i = row / p->pieces % p->n, b = row / p->pieces / p->n;
        int64_t left = p->piece ? p->pieces - piece : p->n - i;
        at.rows = left < end - row ? left : end - row;
        at.indexed = before_at(p, b) + (p->piece ? p->offset[i] : 0);
        at.index = p->piece ? p->piece + piece : p->offset + i;
        at.plain = t->values + row * t->row;
        if (p->run == 1) { /* single elements: columns instead of rows keep the loop tight */
            tpi_indexed_block line = at;
            line.rows = 1;
            line.cols = at.rows;
            line.index_col = 1;
            line.indexed_col = 0;
            tpi_fetch(size, &line);
        } else
            tpi_fetch(size, &at);
        row += at.rows;
    }
}

tp_tensor *tpi_gather_index_read(tpi_gather_index *p) {
    int64_t shape[TP_MAX_DIMS * 2];
    int ndim = tpi_gather_index_shape(p, shape);
    if (ndim > TP_MAX_DIMS)
        return tpi_fail(TP_ERR_VALUE, "argument 'indices': the result would have %d dimensions, expected at most %d",
                        ndim, TP_MAX_DIMS);
    tp_tensor *out = tpi_empty((tp_ints){shape, ndim}, p->self->dtype, tpi_device(p->self));
    if (!out || out->numel == 0) return out;
    int64_t bytes = p->run * (int64_t)tpi_itemsize(out), rows = p->before * p->n * p->pieces;
    transfer t = {.p = p, .values = out->data, .row = bytes, .per_chunk = 1 + READ_BYTES / bytes};
    tpi_parallel_for(tpi_ceil_div(rows, t.per_chunk), rows * bytes > TPI_WORTH_BYTES, read_chunk, &t);
    return out;
}

/* A chunk is one place of `before` and one stretch of after, for all positions. */
static void write_chunk(int64_t chunk, void *context) {
    const transfer *t = context;
    const tpi_gather_index *p = t->p;
    int64_t b = chunk / t->parts, from = chunk % t->parts * t->part, limit = p->piece ? p->pieces : p->run;
    int64_t to = from + t->part < limit ? from + t->part : limit;
    char *base = before_at(p, b);
    tpi_indexed_block at = {
        .index_row = 1, .scale = 1, .indexed_col = p->run_stride, .plain_row = t->row, .plain_col = t->run_item};
    if (!p->piece) {
        at.indexed = base + from * p->run_stride;
        at.index = p->offset;
        at.rows = p->n;
        at.cols = to - from;
        at.plain = t->values + b * p->n * t->row + from * t->run_item;
        if (p->run == 1) {
            at.cols = at.rows;
            at.rows = 1;
            at.index_col = 1;
            at.indexed_col = 0;
            at.plain_col = at.plain_row;
        }
        tpi_combine(t->op, p->self->dtype, &at);
        return;
    }
    at.rows = to - from;
    at.cols = p->run;
    at.index = p->piece + from;
    for (int64_t i = 0; i < p->n; i++) {
        at.indexed = base + p->offset[i];
        at.plain = t->values + ((b * p->n + i) * p->pieces + from) * t->row;
        tpi_combine(t->op, p->self->dtype, &at);
    }
}

/* Positions that are surely different may be split too. */
static void write_distinct(int64_t chunk, void *context) {
    const transfer *t = context;
    const tpi_gather_index *p = t->p;
    int64_t i = chunk * t->per_chunk, n = i + t->per_chunk < p->n ? t->per_chunk : p->n - i;
    tpi_indexed_block at = {.indexed = p->self->data,
                            .index = p->offset + i,
                            .rows = n,
                            .cols = p->run,
                            .index_row = 1,
                            .scale = 1,
                            .indexed_col = p->run_stride,
                            .plain = t->values + i * t->row,
                            .plain_row = t->row,
                            .plain_col = t->run_item};
    tpi_combine(t->op, p->self->dtype, &at);
}

bool tpi_gather_index_write(tpi_gather_index *p, tpi_combine_op op, tp_tensor *values) {
    int64_t shape[TP_MAX_DIMS * 2];
    int ndim = tpi_gather_index_shape(p, shape);
    if (ndim > TP_MAX_DIMS)
        return tpi_refuse(TP_ERR_VALUE, "argument 'indices': %d dimensions are picked, expected at most %d", ndim,
                          TP_MAX_DIMS);
    tp_tensor *wide = tpi_expanded(values, (tp_ints){shape, ndim}), *whole = NULL;
    if (!wide) return false;
    bool one = values->numel == 1;
    if (tp_shares_storage(values, p->self)) { /* reading what is being written: read it all first */
        whole = tpi_empty(one ? tpi_shape(values) : tpi_shape(wide), values->dtype, tpi_device(values));
        if (whole && !tpi_copy_data(whole, one ? values : wide)) whole = tpi_release_then(whole, NULL);
    } else
        whole = one ? tpi_retain(values) : tpi_contiguous_data(wide);
    bool nothing = wide->numel == 0;
    tpi_release(wide);
    if (!whole) return false;
    int64_t size = (int64_t)tpi_itemsize(p->self), elements = p->before * p->n * p->pieces * p->run;
    transfer t = {.p = p, .values = whole->data, .op = op, .row = one ? 0 : p->run * size, .run_item = one ? 0 : size};
    bool worth = elements * size > TPI_WORTH_BYTES;
    if (nothing) {
    } else if (p->distinct && p->before == 1 && !p->piece) {
        t.per_chunk = 1 + READ_BYTES / (p->run * size);
        tpi_parallel_for(tpi_ceil_div(p->n, t.per_chunk), worth, write_distinct, &t);
    } else {
        t.part = p->piece ? 1 + WRITE_RUN / p->run : WRITE_RUN;
        t.parts = tpi_ceil_div(p->piece ? p->pieces : p->run, t.part);
        tpi_parallel_for(p->before * t.parts, worth, write_chunk, &t);
    }
    tpi_release(whole);
    return true;
}
