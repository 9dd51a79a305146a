/* Rows of a tensor, read one by one to be sorted: see sorted_rows.h. */
#include "ops/sort/sorted_rows.h"
#include "ops/native.h"

#define MOST_CHUNKS 64 /* memory for the order of a row is held once per chunk */

bool tpi_rows_start(tpi_rows *x, tp_tensor *self, int64_t dim, int64_t k) {
    *x = (tpi_rows){.k = k};
    if (tp_dtype_is_complex(self->dtype))
        return tpi_refuse(TP_ERR_TYPE, " Sort does not support complex dtypes on CPU");
    x->dim = TPI_DIM(self, dim);
    if (x->dim < 0) return false;
    tp_tensor *view = tpi_dim_last(self, x->dim);
    x->in = view ? tpi_contiguous_data(view) : NULL;
    tpi_release(view);
    if (!x->in) return false;
    x->n = x->in->shape[x->in->ndim - 1];
    x->count = x->n ? x->in->numel / x->n : 0;
    int64_t shape[TP_MAX_DIMS];
    memcpy(shape, x->in->shape, sizeof(int64_t) * x->in->ndim);
    shape[x->in->ndim - 1] = k;
    x->values = tpi_empty((tp_ints){shape, x->in->ndim}, self->dtype, tpi_device(self));
    x->indices = x->values ? tpi_empty((tp_ints){shape, x->in->ndim}, TP_INT64, tpi_device(self)) : NULL;
    return x->indices != NULL;
}

void tpi_rows_free(tpi_rows *x) {
    tpi_release(x->in);
    tpi_release(x->values);
    tpi_release(x->indices);
}

typedef struct rows_job {
    tpi_rows *x;
    tpi_row_fn fn;
    const void *context;
    tpi_row_order *order; /* per chunk */
    int64_t per_chunk;
} rows_job;

static void run_chunk(int64_t chunk, void *context) {
    const rows_job *j = context;
    const tpi_rows *x = j->x;
    size_t size = tpi_itemsize(x->in);
    int64_t r = chunk * j->per_chunk, end = r + j->per_chunk < x->count ? r + j->per_chunk : x->count;
    for (; r < end; r++)
        j->fn(x, x->in->data + (size_t)(r * x->n) * size, &j->order[chunk], x->values->data + (size_t)(r * x->k) * size,
              (int64_t *)(void *)x->indices->data + r * x->k, j->context);
}

bool tpi_rows_run(tpi_rows *x, tpi_row_fn fn, const void *context) {
    if (x->count == 0) return true;
    bool long_rows = x->n > TPI_LONG_ROW; /* one after the other, each by all threads */
    int64_t chunks = long_rows ? 1 : x->count < MOST_CHUNKS ? x->count : MOST_CHUNKS, made = 0;
    bool small = x->count * x->n < 4096;
    if (small) chunks = 1;
    tpi_row_order order[MOST_CHUNKS];
    for (; made < chunks; made++)
        if (!tpi_row_order_new(&order[made], x->n, x->in->dtype)) break;
    rows_job j = {.x = x, .fn = fn, .context = context, .order = order, .per_chunk = tpi_ceil_div(x->count, chunks)};
    if (made == chunks && chunks == 1)
        run_chunk(0, &j); /* not inside a loop: the row's own loops may be parallel */
    else if (made == chunks)
        tpi_parallel_for(tpi_ceil_div(x->count, j.per_chunk), true, run_chunk, &j);
    for (int64_t i = 0; i < made; i++) tpi_row_order_free(&order[i]);
    return made == chunks;
}

/* t (dim last) with the dim back in its place, as a new contiguous tensor; itself when it is there already. */
static tp_tensor *put_back(tp_tensor *t, tp_tensor *self, int dim, bool keep) {
    int64_t shape[TP_MAX_DIMS], strides[TP_MAX_DIMS];
    int last = t->ndim - 1, n = 0;
    if (self->ndim == 0 || !keep) {
        n = self->ndim == 0 ? 0 : last;
        for (int d = 0; d < n; d++) {
            shape[d] = t->shape[d];
            strides[d] = t->strides[d];
        }
    } else {
        n = t->ndim;
        for (int d = 0, from = 0; d < n; d++) {
            int s = d == dim ? last : from++;
            shape[d] = t->shape[s];
            strides[d] = t->strides[s];
        }
    }
    tp_tensor *view = tpi_alias(t, n, shape, strides, 0), *out = NULL;
    if (!view) return NULL;
    if (tp_is_contiguous(view)) { /* a result of its own: nobody's view */
        out = tpi_detached(view);
    } else {
        out = tpi_empty((tp_ints){shape, n}, t->dtype, tpi_device(t));
        if (out && !tpi_copy_data(out, view)) out = tpi_release_then(out, NULL);
    }
    return tpi_release_then(view, out);
}

bool tpi_rows_finish(tpi_rows *x, tp_tensor *self, bool keep, tp_tensor **out) {
    out[0] = put_back(x->values, self, x->dim, keep);
    out[1] = out[0] ? put_back(x->indices, self, x->dim, keep) : NULL;
    if (out[1]) return true;
    tpi_release(out[0]);
    out[0] = NULL;
    return false;
}

typedef struct pick_job {
    char *out;
    const char *row;
    const int64_t *at;
    int64_t n;
    size_t itemsize;
} pick_job;

#define PICK(type)                                                                                     \
    for (; i < end; i++) ((type *)(void *)j->out)[i] = ((const type *)(const void *)j->row)[j->at[i]]; \
    break

static void pick_chunk(int64_t chunk, void *context) {
    const pick_job *j = context;
    int64_t i = chunk * TPI_LONG_ROW, end = i + TPI_LONG_ROW < j->n ? i + TPI_LONG_ROW : j->n;
    switch (j->itemsize) {
    case 1: PICK(uint8_t);
    case 2: PICK(uint16_t);
    case 4: PICK(uint32_t);
    default: PICK(uint64_t);
    }
}

void tpi_row_pick(char *out, const char *row, const int64_t *at, int64_t n, size_t itemsize) {
    pick_job j = {.out = out, .row = row, .at = at, .n = n, .itemsize = itemsize};
    int64_t chunks = tpi_ceil_div(n, TPI_LONG_ROW);
    tpi_parallel_for(chunks, chunks > 1, pick_chunk, &j);
}
