/* Batches of matrices for LAPACK: see ops/linalg/batch.h. */
#include "ops/linalg/batch.h"
#include "tensor/sizes.h"
#include "tensor/storage.h"
#include "dispatch/fallback.h"
#include <limits.h>
#include <stdio.h>

enum { GROUPS = 64, WORTH = 1 << 14 };

typedef struct loop {
    const tpi_matrices *x;
    tpi_matrix_fn fn;
    char *memory;
    size_t scratch;
    int64_t group;
} loop;

static void run_group(int64_t chunk, void *context) {
    const loop *l = context;
    int64_t first = chunk * l->group, end = first + l->group < l->x->batches ? first + l->group : l->x->batches;
    tpi_scratch s = {l->memory + (size_t)chunk * l->scratch, l->scratch};
    for (int64_t i = first; i < end; i++) l->fn(l->x, i, &s);
}

bool tpi_each_matrix(const tpi_matrices *x, size_t scratch, tpi_matrix_fn fn) {
    if (x->a.made_up) {
        if (x->info) memset(x->info, 0, (size_t)x->batches * sizeof *x->info);
        return true;
    }
    if (!x->batches) return true;
    /* Never NULL, which would be a query; each group on cache lines of its own. */
    loop l = {.x = x,
              .fn = fn,
              .scratch = (scratch + TPI_ALIGN) / TPI_ALIGN * TPI_ALIGN,
              .group = tpi_ceil_div(x->batches, GROUPS)};
    int64_t chunks = tpi_ceil_div(x->batches, l.group), work = x->batches * x->m * x->n * (x->m < x->n ? x->m : x->n);
    l.memory = tpi_alloc((size_t)chunks * l.scratch);
    if (!l.memory) return false;
    tpi_parallel_for(chunks, work >= WORTH, run_group, &l);
    tpi_free(l.memory, (size_t)chunks * l.scratch);
    return true;
}

static tp_tensor *columns_of(const int64_t *batch, int ndim, int64_t rows, int64_t cols, tp_dtype dtype,
                             tp_device device) {
    int64_t shape[TP_MAX_DIMS], strides[TP_MAX_DIMS], step = tpi_size_times(rows, cols);
    shape[ndim] = rows;
    shape[ndim + 1] = cols;
    strides[ndim] = 1;
    strides[ndim + 1] = rows > 1 ? rows : 1;
    for (int d = ndim - 1; d >= 0; d--) {
        shape[d] = batch[d];
        strides[d] = step > 1 ? step : 1;
        step = tpi_size_times(step, batch[d]);
    }
    tp_ints sizes = tp_ints_view(shape, ndim + 2), steps = tp_ints_view(strides, ndim + 2);
    if (device.type != TP_CPU || !tp_dtype_is_complex(dtype)) return tpi_empty_strided(sizes, steps, dtype, device);
    /* OpenBLAS's cgemv and zgemv (seen in 0.3.21) read one element behind the vector's last. When LAPACK hands them a
     * row of the last matrix, that element is in the column behind the matrix: so there is one. */
    int64_t bytes = tpi_span_bytes(sizes, steps, dtype);
    size_t column = (size_t)rows * tpi_dtype_bytes[dtype];
    tpi_storage *storage = bytes < 0 ? NULL : tpi_storage_new(device, (size_t)bytes + column);
    return storage ? tpi_tensor_over(storage, dtype, sizes, steps, 0) : NULL;
}

tp_tensor *tpi_columns_new(const tp_tensor *like, int drop, int64_t rows, int64_t cols, tp_dtype dtype) {
    tp_tensor *t = columns_of(like->shape, like->ndim - drop, rows, cols, dtype, tpi_device(like));
    if (t) t->storage->made_up = tpi_is_made_up(like);
    return t;
}

tp_tensor *tpi_columns_copy(const tp_tensor *t, tp_ints batch) {
    if (!batch.v) batch = tp_ints_view(t->shape, t->ndim - 2);
    tp_tensor *copy = columns_of(batch.v, (int)batch.n, t->shape[t->ndim - 2], t->shape[t->ndim - 1],
                                 (tp_dtype)t->dtype, tpi_device(t));
    if (copy) copy->storage->made_up = tpi_is_made_up(t);
    if (copy && tpi_copy_data(copy, t)) return copy;
    return tpi_release_then(copy, NULL);
}

tpi_part tpi_columns_part(const tp_tensor *t) {
    return (tpi_part){t->data, (size_t)(t->shape[t->ndim - 2] * t->shape[t->ndim - 1]) * tpi_itemsize(t),
                      tpi_is_made_up(t)};
}

tp_tensor *tpi_rows_new(const tp_tensor *like, int drop, int64_t n, tp_dtype dtype) {
    int64_t shape[TP_MAX_DIMS];
    int ndim = like->ndim - drop;
    memcpy(shape, like->shape, sizeof *shape * (size_t)ndim);
    shape[ndim] = n;
    return tpi_empty(tp_ints_view(shape, ndim + 1), dtype, tpi_device(like));
}

tp_tensor *tpi_batch_new(const tp_tensor *like, int drop, tp_dtype dtype) {
    return tpi_empty(tp_ints_view(like->shape, like->ndim - drop), dtype, tpi_device(like));
}

tpi_part tpi_rows_part(const tp_tensor *t) {
    return (tpi_part){t->data, (size_t)t->shape[t->ndim - 1] * tpi_itemsize(t), tpi_is_made_up(t)};
}

int64_t tpi_batches_of(const tp_tensor *t, int drop) {
    int64_t n = 1;
    for (int d = 0; d < t->ndim - drop; d++) n *= t->shape[d];
    return n;
}

bool tpi_no_results(tp_tensor **out, int n) {
    for (int i = 0; i < n; i++) {
        tpi_release(out[i]);
        out[i] = NULL;
    }
    return false;
}

bool tpi_check_matrices(const tp_tensor *t, const char *name) {
    if (t->dtype != TP_FLOAT32 && t->dtype != TP_FLOAT64 && !tp_dtype_is_complex((tp_dtype)t->dtype))
        return tpi_refuse(TP_ERR_MISSING, "argument '%s': %s. Got %s", name,
                          tp_dtype_is_floating((tp_dtype)t->dtype)
                              ? "Low precision dtypes not supported"
                              : "Expected a floating point or complex tensor as input",
                          tp_dtype_word((tp_dtype)t->dtype));
    if (t->ndim < 2)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument '%s': The input tensor A must have at least 2 dimensions. Got shape %s", name,
                          tpi_shape_text(tpi_shape(t)));
    bool countable = t->shape[t->ndim - 2] <= INT_MAX / 8 && t->shape[t->ndim - 1] <= INT_MAX / 8;
    return countable || tpi_refuse(TP_ERR_VALUE, "argument '%s': matrices of shape %s are too large for LAPACK", name,
                                   tpi_shape_text(tpi_shape(t)));
}

bool tpi_check_square(const tp_tensor *t, const char *name) {
    if (!tpi_check_matrices(t, name)) return false;
    return t->shape[t->ndim - 2] == t->shape[t->ndim - 1] ||
           tpi_refuse(TP_ERR_RUNTIME,
                      "argument '%s': A must be batches of square matrices, but they are %lld by %lld matrices", name,
                      (long long)t->shape[t->ndim - 2], (long long)t->shape[t->ndim - 1]);
}

int tpi_first_info(const tp_tensor *info, int64_t *batch) {
    const int32_t *v = (const int32_t *)info->data;
    for (int64_t i = 0; i < info->numel; i++) {
        if (!v[i]) continue;
        *batch = info->ndim ? i : -1;
        return v[i];
    }
    return 0;
}

const char *tpi_failed_text(const char *op, int64_t batch) {
    static _Thread_local char text[96];
    int n = tpi_op_now ? 0 : snprintf(text, sizeof text, "%s: ", op);
    text[n] = 0;
    if (batch >= 0) snprintf(text + n, sizeof text - (size_t)n, "(Batch element %lld): ", (long long)batch);
    return text;
}
