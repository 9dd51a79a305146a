/* Products of a sparse matrix and a dense one, and of rows of two dense ones at a sparse matrix's places. No product of
 * an element with a row is ever kept. */
#include <stdatomic.h>
#include "ops/compute_dtype.h"
#include "ops/sparse/sparse.h"

enum {
    CHUNK = 32768, /* elements that one chunk adds up, about */
    TASKS = 16,    /* ranges of rows into which a list of places is sorted */
};

static bool is_matrix(const tp_tensor *t, const char *argument) {
    return t->ndim == 2 || tpi_refuse(TP_ERR_RUNTIME, "argument '%s': expected a matrix, got %s", argument,
                                      tpi_shape_text(tpi_shape(t)));
}

static bool fits_values(const tp_tensor *values, int64_t stored, const tp_tensor *dense) {
    return !values || (tpi_check_shape(values, "values", TP_INTS(stored)) &&
                       tpi_check_same_dtype(values, "values", dense, "dense"));
}

/* ---- By rows ---- */

typedef struct rows_job {
    const tpi_sparse_kernels *kernels;
    tpi_sparse_rows a;
    int64_t rows, per_chunk, width, height; /* height: the rows of dense */
    const void *dense;
    void *out;
    bool largest;
    int64_t *place; /* NULL: sums */
    atomic_bool bad;
} rows_job;

/* A chunk's columns are looked at before any of them is followed. */
static void run_rows(int64_t chunk, void *context) {
    rows_job *j = context;
    int64_t first = chunk * j->per_chunk, last = first + j->per_chunk < j->rows ? first + j->per_chunk : j->rows;
    const int64_t *crow = j->a.crow;
    if (!tpi_sparse_in_range(j->a.col + crow[first], crow[last] - crow[first], j->height))
        atomic_store(&j->bad, true);
    else if (j->place)
        j->kernels->extreme_rows(&j->a, first, last, j->width, j->largest, j->dense, j->out, j->place);
    else
        j->kernels->mm_rows(&j->a, first, last, j->width, j->dense, j->out);
}

static bool run_all_rows(rows_job *j, const tpi_row_index *index) {
    int64_t work = (index->stored + j->rows) * j->width;
    j->per_chunk = 1 + (int64_t)((double)j->rows * CHUNK / (double)(work + 1));
    tpi_parallel_for(tpi_ceil_div(j->rows, j->per_chunk), work > CHUNK, run_rows, j);
    return !atomic_load(&j->bad) || tpi_sparse_check_range(index->columns, index->stored, j->height, "col");
}

/* Sums into out[0]; the largest or smallest summands, with their places in out[1]. */
static bool multiply_rows(tp_tensor *crow, tp_tensor *col, tp_tensor *values, tp_tensor *dense, bool extreme,
                          bool largest, tp_tensor **out) {
    tp_dtype compute = tpi_sparse_compute_dtype(dense, "dense");
    out[0] = NULL;
    if (!compute || !is_matrix(dense, "dense")) return false;
    if (extreme && tp_dtype_is_complex(compute))
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'dense': complex numbers have no largest or smallest");
    tpi_row_index index;
    bool ok = tpi_row_index_read(&index, crow, col) && fits_values(values, index.stored, dense);
    tp_tensor *table = ok ? tpi_to_compute(dense, compute) : NULL,
              *weights = table && values ? tpi_to_compute(values, compute) : NULL;
    ok = table && (weights || !values);
    out[0] = ok ? tpi_empty(TP_INTS(index.rows, dense->shape[1]), compute, tpi_device(dense)) : NULL;
    if (extreme) out[1] = out[0] ? tpi_empty(tpi_shape(out[0]), TP_INT64, tpi_device(dense)) : NULL;
    ok = out[0] && (!extreme || out[1]);
    if (ok && out[0]->numel) {
        rows_job j = {.kernels = TPI_ISA_PICK(tpi_sparse_kernels_for)(compute),
                      .a = {index.begins, index.columns, weights ? weights->data : NULL},
                      .rows = index.rows,
                      .width = dense->shape[1],
                      .height = dense->shape[0],
                      .dense = table->data,
                      .out = out[0]->data,
                      .largest = largest,
                      .place = extreme ? (int64_t *)(void *)out[1]->data : NULL};
        ok = run_all_rows(&j, &index);
    }
    tpi_row_index_drop(&index);
    tpi_release(table);
    tpi_release(weights);
    if (ok) out[0] = tpi_from_compute(out[0], (tp_dtype)dense->dtype);
    if (ok && out[0]) return true;
    tpi_release(out[0]);
    if (extreme) tpi_release(out[1]);
    return false;
}

tp_tensor *tpi_native_sparse_mm_rows(tp_tensor *crow, tp_tensor *col, tp_tensor *values, tp_tensor *dense) {
    tp_tensor *out[1];
    return multiply_rows(crow, col, values, dense, false, false, out) ? out[0] : NULL;
}

bool tpi_native_sparse_mm_extreme(tp_tensor *crow, tp_tensor *col, tp_tensor *values, tp_tensor *dense, bool largest,
                                  tp_tensor **out) {
    return multiply_rows(crow, col, values, dense, true, largest, out);
}

/* ---- By places ---- */

/* Places [2, n] as contiguous int64, owned. */
static tp_tensor *read_indices(tp_tensor *at) {
    if (at->ndim != 2 || at->shape[0] != 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'at': expected a row of row numbers and one of columns, got %s",
                        tpi_shape_text(tpi_shape(at)));
    return tpi_index_data(at, "at");
}

typedef struct index_job {
    const tpi_sparse_kernels *kernels;
    int64_t n, width, rows, per_chunk;
    const int64_t *to, *from;
    const void *values, *dense, *other; /* other: what the rows of dense are multiplied with, for dots */
    char *out;
    size_t item;
    const int64_t *list; /* places, those of the first task's rows first */
    int64_t begins[TASKS + 1];
} index_job;

static void add_task(int64_t task, void *context) {
    index_job *j = context;
    j->kernels->mm_list(j->begins[task + 1] - j->begins[task], j->list + j->begins[task], j->to, j->from, j->values,
                        j->width, j->dense, j->out);
}

/* Sorts the places by the task that their row belongs to, in their order. */
static void deal_out(index_job *j, int64_t *list) {
    int64_t each = tpi_ceil_div(j->rows, TASKS), next[TASKS] = {0};
    for (int64_t k = 0; k < j->n; k++) next[j->to[k] / each]++;
    j->begins[0] = 0;
    for (int task = 0; task < TASKS; task++) {
        j->begins[task + 1] = j->begins[task] + next[task];
        next[task] = j->begins[task];
    }
    for (int64_t k = 0; k < j->n; k++) list[next[j->to[k] / each]++] = k;
    j->list = list;
}

/* Each element of the result gets its summands in the order of the list, with tasks and without. */
static bool add_by_indices(index_job *j) {
    if (j->n * j->width <= CHUNK) {
        j->kernels->mm_list(j->n, NULL, j->to, j->from, j->values, j->width, j->dense, j->out);
        return true;
    }
    size_t bytes = sizeof(int64_t) * (size_t)j->n;
    int64_t *list = tpi_alloc(bytes);
    if (!list) return false;
    deal_out(j, list);
    tpi_parallel_for(TASKS, true, add_task, j);
    tpi_free(list, bytes);
    return true;
}

tp_tensor *tpi_native_sparse_mm_coo(tp_tensor *at, tp_tensor *values, tp_tensor *dense, int64_t rows, bool transpose) {
    tp_dtype compute = tpi_sparse_compute_dtype(dense, "dense");
    if (!compute || !is_matrix(dense, "dense") || !tpi_sparse_check_size(rows, "rows")) return NULL;
    tp_tensor *indices = read_indices(at);
    if (!indices) return NULL;
    int64_t n = at->shape[1];
    const int64_t *first = (const int64_t *)(const void *)indices->data;
    index_job j = {.n = n, .width = dense->shape[1], .rows = rows};
    j.to = transpose ? first + n : first;
    j.from = transpose ? first : first + n;
    bool ok = fits_values(values, n, dense) && tpi_sparse_check_range(j.to, n, rows, "at") &&
              tpi_sparse_check_range(j.from, n, dense->shape[0], "at");
    tp_tensor *table = ok ? tpi_to_compute(dense, compute) : NULL,
              *weights = table && values ? tpi_to_compute(values, compute) : NULL;
    tp_tensor *out =
        table && (weights || !values) ? tpi_empty(TP_INTS(rows, j.width), compute, tpi_device(dense)) : NULL;
    ok = out && tpi_fill_data(out, tp_int(0));
    if (ok && n && j.width) {
        j.kernels = TPI_ISA_PICK(tpi_sparse_kernels_for)(compute);
        j.values = weights ? weights->data : NULL;
        j.dense = table->data;
        j.out = out->data;
        ok = add_by_indices(&j);
    }
    tpi_release(indices);
    tpi_release(table);
    tpi_release(weights);
    return ok ? tpi_from_compute(out, (tp_dtype)dense->dtype) : tpi_release_then(out, NULL);
}

static void dot_chunk(int64_t chunk, void *context) {
    index_job *j = context;
    int64_t k = chunk * j->per_chunk, n = k + j->per_chunk < j->n ? j->per_chunk : j->n - k;
    j->kernels->dots(n, j->to + k, j->from + k, j->width, j->other, j->dense, j->out + (size_t)k * j->item);
}

tp_tensor *tpi_native_sparse_dots(tp_tensor *at, tp_tensor *left, tp_tensor *right) {
    tp_dtype compute = tpi_sparse_compute_dtype(left, "left");
    bool fits = compute && is_matrix(left, "left") && is_matrix(right, "right") &&
                tpi_check_same_dtype(right, "right", left, "left") &&
                (left->shape[1] == right->shape[1] ||
                 tpi_refuse(TP_ERR_RUNTIME, "argument 'right': expected rows of %lld elements, as left has, got %s",
                            (long long)left->shape[1], tpi_shape_text(tpi_shape(right))));
    tp_tensor *indices = fits ? read_indices(at) : NULL;
    if (!indices) return NULL;
    index_job j = {.n = at->shape[1], .width = left->shape[1], .item = tpi_dtype_bytes[compute]};
    j.to = (const int64_t *)(const void *)indices->data;
    j.from = j.to + j.n;
    bool ok = tpi_sparse_check_range(j.to, j.n, left->shape[0], "at") &&
              tpi_sparse_check_range(j.from, j.n, right->shape[0], "at");
    tp_tensor *x = ok ? tpi_to_compute(left, compute) : NULL, *y = x ? tpi_to_compute(right, compute) : NULL,
              *out = y ? tpi_empty(TP_INTS(j.n), compute, tpi_device(left)) : NULL;
    if (out && j.n) {
        j.kernels = TPI_ISA_PICK(tpi_sparse_kernels_for)(compute);
        j.other = x->data;
        j.dense = y->data;
        j.out = out->data;
        j.per_chunk = 1 + CHUNK / (j.width + 1);
        tpi_parallel_for(tpi_ceil_div(j.n, j.per_chunk), j.n * j.width > CHUNK, dot_chunk, &j);
    }
    tpi_release(indices);
    tpi_release(x);
    tpi_release(y);
    return tpi_from_compute(out, (tp_dtype)left->dtype);
}
