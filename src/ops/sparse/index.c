/* The indices of sparse tensors: from one layout to another, in groups, in order. */
#include "dispatch/fallback.h"
#include "ops/sort/order.h"
#include "ops/sparse/sparse.h"

tp_dtype tpi_sparse_compute_dtype(const tp_tensor *t, const char *argument) {
    switch (t->dtype) {
    case TP_UINT8:
    case TP_INT8:
    case TP_INT16:
    case TP_INT32:
    case TP_INT64: return TP_INT64;
    case TP_FLOAT16:
    case TP_BFLOAT16:
    case TP_FLOAT32: return TP_FLOAT32;
    case TP_FLOAT64: return TP_FLOAT64;
    case TP_COMPLEX64: return TP_COMPLEX64;
    case TP_COMPLEX128: return TP_COMPLEX128;
    default:
        tpi_fail(TP_ERR_MISSING, "argument '%s': not implemented for '%s'", argument,
                 tp_dtype_word((tp_dtype)t->dtype));
        return TP_NO_DTYPE;
    }
}

/* ---- Checks ---- */

bool tpi_sparse_check_size(int64_t size, const char *argument) {
    if (tpi_sparse_size_fits(size)) return true;
    return tpi_refuse(TP_ERR_RUNTIME, "argument '%s': expected a size from 0 to 2^63 - 2, got %lld", argument,
                      (long long)size);
}

bool tpi_sparse_in_range(const int64_t *index, int64_t n, int64_t size) {
    if (size < 1) return n == 0;
    uint64_t outside = 0, last = (uint64_t)size - 1; /* the sign bit of each difference that is negative is kept */
    for (int64_t i = 0; i < n; i++) outside |= (uint64_t)index[i] | (last - (uint64_t)index[i]);
    return !(outside >> 63);
}

bool tpi_sparse_check_range(const int64_t *index, int64_t n, int64_t size, const char *argument) {
    if (tpi_sparse_in_range(index, n, size)) return true;
    for (int64_t i = 0; i < n; i++)
        if (index[i] < 0 || index[i] >= size)
            return tpi_refuse(TP_ERR_INDEX, "argument '%s': index %lld is out of range for a size of %lld", argument,
                              (long long)index[i], (long long)size);
    return true;
}

bool tpi_row_index_read(tpi_row_index *r, tp_tensor *crow, tp_tensor *col) {
    *r = (tpi_row_index){0};
    if (crow->ndim != 1 || crow->numel == 0)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'crow': expected one dim with a number for each row and one more, got %s",
                          tpi_shape_text(tpi_shape(crow)));
    if (col->ndim != 1)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'col': expected one dim, got %s", tpi_shape_text(tpi_shape(col)));
    r->crow = tpi_index_data(crow, "crow");
    r->col = r->crow ? tpi_index_data(col, "col") : NULL;
    if (!r->col) return false;
    r->rows = crow->numel - 1;
    r->stored = col->numel;
    r->begins = (const int64_t *)(const void *)r->crow->data;
    r->columns = (const int64_t *)(const void *)r->col->data;
    if (tpi_is_made_up(crow)) { /* rows without elements */
        memset(r->crow->data, 0, (size_t)crow->numel * sizeof *r->begins);
        memset(r->col->data, 0, (size_t)col->numel * sizeof *r->columns);
        return true;
    }
    bool falls = r->begins[0] != 0 || r->begins[r->rows] != r->stored;
    for (int64_t i = 0; i < r->rows; i++) falls |= r->begins[i + 1] < r->begins[i];
    if (falls)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'crow': expected numbers that rise from 0 to %lld, the length of 'col'",
                          (long long)r->stored);
    return true;
}

void tpi_row_index_drop(tpi_row_index *r) {
    tpi_release(r->crow);
    tpi_release(r->col);
}

/* ---- Rows, compressed and not ---- */

/* Where each of `size` rows begins among n row numbers in order. */
static bool compress(const int64_t *row, int64_t n, int64_t size, int64_t *begins) {
    int64_t next = 0; /* the first row whose beginning is not known yet */
    for (int64_t i = 0; i < n; i++) {
        if (row[i] < next - 1 || row[i] >= size) return false;
        while (next <= row[i]) begins[next++] = i;
    }
    while (next <= size) begins[next++] = n;
    return true;
}

tp_tensor *tpi_native_coo_to_csr(tp_tensor *self, int64_t size, bool out_int32) {
    if (self->ndim != 1)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected one dim, got %s", tpi_shape_text(tpi_shape(self)));
    if (!tpi_sparse_check_size(size, "size")) return NULL;
    tp_tensor *row = tpi_index_data(self, "self"),
              *out = row ? tpi_empty(TP_INTS(size + 1), TP_INT64, tpi_device(self)) : NULL;
    bool ok =
        out &&
        (compress((const int64_t *)(const void *)row->data, row->numel, size, (int64_t *)(void *)out->data) ||
         tpi_refuse(TP_ERR_RUNTIME, "argument 'self': expected rows in order, from 0 to %lld", (long long)size - 1));
    tpi_release(row);
    if (!ok) return tpi_release_then(out, NULL);
    return out_int32 ? tpi_release_then(out, tpi_as_dtype_data(out, TP_INT32)) : out;
}

typedef struct expand_job { /* a batch of compressed indices; see fill_lines */
    const int64_t *crow, *col;
    int64_t lines, stored, ndim;
    const int64_t *batch;
    int64_t *line, *other, *group; /* out's rows: the line, the index within the line, and the batch's number */
    int64_t total;
} expand_job;

static bool fill_lines(const expand_job *j) {
    int64_t groups = j->stored ? j->total / j->stored : 0;
    for (int64_t g = 0; g < groups; g++) {
        const int64_t *crow = j->crow + g * (j->lines + 1);
        int64_t *line = j->line + g * j->stored, *other = j->other + g * j->stored, rest = g;
        if (crow[0] != 0 || crow[j->lines] != j->stored) return false;
        for (int64_t i = 0; i < j->lines; i++) {
            if (crow[i + 1] < crow[i] || crow[i + 1] > j->stored) return false;
            for (int64_t k = crow[i]; k < crow[i + 1]; k++) line[k] = i;
        }
        memcpy(other, j->col + g * j->stored, sizeof(int64_t) * (size_t)j->stored);
        for (int64_t d = j->ndim - 1; d >= 0; d--) {
            int64_t number = rest % j->batch[d], *to = j->group + d * j->total + g * j->stored;
            for (int64_t k = 0; k < j->stored; k++) to[k] = number;
            rest /= j->batch[d];
        }
    }
    return true;
}

tp_tensor *tpi_native_csr_to_coo(tp_tensor *crow_indices, tp_tensor *col_indices, bool out_int32, bool transpose) {
    int ndim = crow_indices->ndim - 1;
    bool fits = ndim >= 0 && col_indices->ndim == ndim + 1 && crow_indices->shape[ndim] > 0;
    for (int d = 0; fits && d < ndim; d++) fits = crow_indices->shape[d] == col_indices->shape[d];
    if (!fits)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'col_indices': expected the batch of crow_indices %s, got %s",
                        tpi_shape_text(tpi_shape(crow_indices)), tpi_shape_text(tpi_shape(col_indices)));
    tp_tensor *crow = tpi_index_data(crow_indices, "crow_indices"),
              *col = crow ? tpi_index_data(col_indices, "col_indices") : NULL;
    int64_t total = col_indices->numel;
    tp_tensor *out = col ? tpi_empty(TP_INTS(ndim + 2, total), TP_INT64, tpi_device(col_indices)) : NULL;
    bool ok = out != NULL;
    if (ok) {
        int64_t *at = (int64_t *)(void *)out->data, *first = at + ndim * total, *second = first + total;
        expand_job j = {.crow = (const int64_t *)(const void *)crow->data,
                        .col = (const int64_t *)(const void *)col->data,
                        .lines = crow_indices->shape[ndim] - 1,
                        .stored = col_indices->shape[ndim],
                        .ndim = ndim,
                        .batch = crow_indices->shape,
                        .line = transpose ? second : first,
                        .other = transpose ? first : second,
                        .group = at,
                        .total = total};
        ok = fill_lines(&j) ||
             tpi_refuse(TP_ERR_RUNTIME, "argument 'crow_indices': expected numbers that rise from 0 to %lld",
                        (long long)j.stored);
    }
    tpi_release(crow);
    tpi_release(col);
    if (!ok) return tpi_release_then(out, NULL);
    return out_int32 ? tpi_release_then(out, tpi_as_dtype_data(out, TP_INT32)) : out;
}

/* ---- Groups ---- */

void tpi_sparse_group(const int64_t *index, int64_t n, int64_t size, int64_t *begins, int64_t *order) {
    memset(begins, 0, sizeof(int64_t) * (size_t)(size + 1));
    for (int64_t i = 0; i < n; i++) begins[index[i] + 1]++;
    for (int64_t i = 0; i < size; i++) begins[i + 1] += begins[i];
    for (int64_t i = 0; i < n; i++) order[begins[index[i]]++] = i;
    for (int64_t i = size; i > 0; i--) begins[i] = begins[i - 1]; /* each was moved to its group's end */
    begins[0] = 0;
}

bool tpi_native_sparse_group(tp_tensor *index, int64_t size, tp_tensor **out) {
    if (index->ndim != 1)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'index': expected one dim, got %s",
                          tpi_shape_text(tpi_shape(index)));
    if (!tpi_sparse_check_size(size, "size")) return false;
    tp_tensor *numbers = tpi_index_data(index, "index");
    const int64_t *v = numbers ? (const int64_t *)(const void *)numbers->data : NULL;
    bool ok = numbers && tpi_sparse_check_range(v, numbers->numel, size, "index");
    out[0] = ok ? tpi_empty(TP_INTS(size + 1), TP_INT64, tpi_device(index)) : NULL;
    out[1] = out[0] ? tpi_empty(TP_INTS(index->numel), TP_INT64, tpi_device(index)) : NULL;
    if (out[1])
        tpi_sparse_group(v, numbers->numel, size, (int64_t *)(void *)out[0]->data, (int64_t *)(void *)out[1]->data);
    tpi_release(numbers);
    if (!out[1]) tpi_release(out[0]);
    return out[1] != NULL;
}

/* ---- Places in order, each once ---- */

typedef struct index_list {
    int64_t dims, n, groups;
    const int64_t *at, *size; /* [dims, n] */
    int64_t *key, *order, *begins;
} index_list;

/* One number per place, in the order of places. False and an error if a place is none of the tensor's, or if there are
 * more places than an int64 counts. */
static bool number_indices(index_list *p, int64_t *count) {
    *count = 1;
    for (int64_t d = 0; d < p->dims; d++)
        if (__builtin_mul_overflow(*count, p->size[d], count))
            return tpi_refuse(TP_ERR_RUNTIME, "argument 'size': the sparse dims have more places than an int64 counts");
    memset(p->key, 0, sizeof(int64_t) * (size_t)p->n);
    for (int64_t d = 0; d < p->dims; d++) {
        const int64_t *at = p->at + d * p->n;
        if (!tpi_sparse_check_range(at, p->n, p->size[d], "indices")) return false;
        for (int64_t i = 0; i < p->n; i++) p->key[i] = p->key[i] * p->size[d] + at[i];
    }
    return true;
}

/* `order`: the places sorted, those that are the same in the order in which they came. */
static bool sort_indices(index_list *p, int64_t count) {
    bool rises = true;
    for (int64_t i = 1; i < p->n; i++) rises &= p->key[i - 1] <= p->key[i];
    for (int64_t i = 0; i < p->n; i++) p->order[i] = i;
    if (rises) return true;
    bool is_narrow = count <= INT32_MAX;
    tp_dtype dtype = is_narrow ? TP_INT32 : TP_INT64;
    if (is_narrow) /* order.h packs keys of 32 bits; place i is read before it is written over */
        for (int64_t i = 0; i < p->n; i++) ((int32_t *)(void *)p->order)[i] = (int32_t)p->key[i];
    const void *keys = is_narrow ? (const void *)p->order : p->key;
    tpi_row_order sorted;
    if (!tpi_row_order_new(&sorted, p->n, dtype)) return false;
    tpi_row_order_load(&sorted, &(tpi_row){keys, is_narrow ? 4 : 8, dtype, false});
    tpi_row_order_sort(&sorted);
    for (int64_t i = 0; i < p->n; i++) p->order[i] = tpi_row_at(&sorted, i);
    tpi_row_order_free(&sorted);
    return true;
}

static void find_groups(index_list *p) {
    p->groups = 0;
    for (int64_t i = 0; i < p->n; i++)
        if (i == 0 || p->key[p->order[i]] != p->key[p->order[i - 1]]) p->begins[p->groups++] = i;
    p->begins[p->groups] = p->n;
}

static bool write_indices(const index_list *p, tp_device device, tp_tensor **out) {
    out[0] = tpi_empty(TP_INTS(p->dims, p->groups), TP_INT64, device);
    out[1] = out[0] ? tpi_empty(TP_INTS(p->groups + 1), TP_INT64, device) : NULL;
    if (!out[1]) return false;
    memcpy(out[1]->data, p->begins, sizeof(int64_t) * (size_t)(p->groups + 1));
    int64_t *to = (int64_t *)(void *)out[0]->data;
    for (int64_t d = 0; d < p->dims; d++)
        for (int64_t g = 0; g < p->groups; g++) *to++ = p->at[d * p->n + p->order[p->begins[g]]];
    return true;
}

bool tpi_native_sparse_coalesce(tp_tensor *indices, tp_ints size, tp_tensor **out) {
    if (indices->ndim != 2 || indices->shape[0] > size.n)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'indices': expected a row for each of up to %lld dims, got %s",
                          (long long)size.n, tpi_shape_text(tpi_shape(indices)));
    index_list p = {.dims = indices->shape[0], .n = indices->shape[1], .size = size.v};
    tp_tensor *at = tpi_index_data(indices, "indices");
    size_t bytes = sizeof(int64_t) * (size_t)(2 * p.n + 1);
    out[0] = out[1] = NULL;
    out[2] = at ? tpi_empty(TP_INTS(p.n), TP_INT64, tpi_device(indices)) : NULL;
    p.key = out[2] ? tpi_alloc(bytes) : NULL;
    int64_t count;
    bool ok = p.key != NULL;
    if (ok) {
        p.at = (const int64_t *)(const void *)at->data;
        p.begins = p.key + p.n;
        p.order = (int64_t *)(void *)out[2]->data;
        ok = number_indices(&p, &count) && sort_indices(&p, count);
    }
    if (ok) {
        find_groups(&p);
        ok = write_indices(&p, tpi_device(indices), out);
    }
    if (p.key) tpi_free(p.key, bytes);
    tpi_release(at);
    if (!ok)
        for (int i = 0; i < 3; i++) tpi_release(out[i]);
    return ok;
}
