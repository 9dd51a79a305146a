/* Sparse matrices on GPUs: products by kernels of their own, indices by searches and sorts. Integers and complex
 * numbers go by way of the host. */
#include "ops/sort/order_gpu.h"
#include "ops/sparse/sparse.h"
#include "ops/temporaries.h"
#include "tpi_ops.h"

static const tpi_gpu_site rows_site = {"sparse_gpu_kernel.h", "rows"}, dots_site = {"sparse_gpu_kernel.h", "dots"};

static tp_tensor *numbers_of(tp_tensor *index, tpi_temporaries *temps) { /* contiguous int64 */
    tp_tensor *wide = tpi_gpu_is_index(index) ? tpi_put(temps, tpi_as_dtype_data(index, TP_INT64)) : NULL;
    return wide ? tpi_put(temps, tpi_contiguous_data(wide)) : NULL;
}

/* How many threads share a row, and blocks of 256 for so many rows. */
static int group_for(int64_t width) {
    int group = 1;
    while (group < 256 && group < width) group *= 2;
    return group;
}
static int64_t blocks_for(int64_t rows, int group) {
    int64_t blocks = tpi_ceil_div(rows, 256 / group);
    return blocks < 1 << 20 ? blocks : 1 << 20;
}

tpi_served tpi_gpu_sparse_mm_rows(tp_tensor *crow, tp_tensor *col, tp_tensor *values, tp_tensor *dense,
                                  tp_tensor **result) {
    if (!tpi_gpu_floats(dense) || dense->ndim != 2 || crow->ndim != 1 || crow->numel < 2 ||
        (values && (values->dtype != dense->dtype || values->numel != col->numel)))
        return TPI_DECLINED;
    tp_device device = tpi_device(dense);
    if (!col->numel || !dense->numel)
        return tpi_serve(tpo_zeros(TP_INTS(crow->numel - 1, dense->shape[1]), (tp_dtype)dense->dtype, device), result);
    tpi_temporaries temps = {0};
    tp_tensor *begins = numbers_of(crow, &temps), *columns = begins ? numbers_of(col, &temps) : NULL,
              *table = columns ? tpi_put(&temps, tpi_contiguous_data(dense)) : NULL,
              *weights = table && values ? tpi_put(&temps, tpi_contiguous_data(values)) : NULL;
    int64_t rows = crow->numel - 1, width = dense->shape[1], height = dense->shape[0];
    tp_tensor *out =
        table && (weights || !values) ? tpi_empty(TP_INTS(rows, width), (tp_dtype)dense->dtype, device) : NULL;
    int group = group_for(width);
    const tpi_gpu_define defines[] = {TPI_DEFINE("GROUP", group), TPI_DEFINE("WEIGHTED", values != NULL),
                                      TPI_DEFINE_DTYPE("X", dense->dtype)};
    tpi_gpu_function *kernel =
        out ? tpi_gpu_site_kernel(device, &rows_site, dense->dtype == TP_FLOAT64, 3, defines) : NULL;
    const tpi_gpu_fault fault = tpi_gpu_fault_of(device);
    const tpi_gpu_arg args[] = {TPI_GPU_FAULT(fault),
                                TPI_GPU_PTR(tpi_gpu_data(out)),
                                TPI_GPU_PTR(tpi_gpu_data(begins)),
                                TPI_GPU_PTR(tpi_gpu_data(columns)),
                                TPI_GPU_PTR(tpi_gpu_data(weights ? weights : table)), /* not read without weights */
                                TPI_GPU_PTR(tpi_gpu_data(table)),
                                TPI_GPU_VAL(rows),
                                TPI_GPU_VAL(width),
                                TPI_GPU_VAL(height)};
    bool ok = kernel && fault.word && tpi_gpu_launch(device, kernel, blocks_for(rows, group), 256, 0, 10, args);
    return tpi_serve(tpi_release_temporaries(&temps, ok ? out : tpi_release_then(out, NULL)), result);
}

/* The places in the order of the result's rows, then by rows. */
tpi_served tpi_gpu_sparse_mm_coo(tp_tensor *at, tp_tensor *values, tp_tensor *dense, int64_t rows, bool transpose,
                                 tp_tensor **result) {
    if (!tpi_gpu_floats(dense) || dense->ndim != 2 || at->ndim != 2 || at->shape[0] != 2 || rows < 1)
        return TPI_DECLINED;
    if (!at->numel || !dense->numel)
        return tpi_serve(tpo_zeros(TP_INTS(rows, dense->shape[1]), (tp_dtype)dense->dtype, tpi_device(dense)), result);
    tpi_temporaries temps = {0};
    tp_tensor *groups[2], *to = tpi_put(&temps, tpo_select(at, 0, transpose)),
                          *from = tpi_put(&temps, tpo_select(at, 0, !transpose));
    if (!to || !from || !tpo_sparse_group(to, rows, groups)) {
        tpi_release_temporaries(&temps, NULL);
        return tpi_not_served();
    }
    tp_tensor *begins = tpi_put(&temps, groups[0]), *order = tpi_put(&temps, groups[1]);
    tp_tensor *columns = tpi_put(&temps, tpo_index_select(from, 0, order));
    tp_tensor *alone = values ? tpi_put(&temps, tpi_detached(values)) : NULL,
              *weights = alone ? tpi_put(&temps, tpo_index_select(alone, 0, order)) : NULL,
              *table = tpi_put(&temps, tpi_detached(dense));
    bool ok = columns && table && (weights || !values);
    return tpi_serve(tpi_release_temporaries(&temps, ok ? tpo_sparse_mm_rows(begins, columns, weights, table) : NULL),
                     result);
}

tpi_served tpi_gpu_sparse_dots(tp_tensor *at, tp_tensor *left, tp_tensor *right, tp_tensor **result) {
    if (!tpi_gpu_floats(left) || left->dtype != right->dtype || left->ndim != 2 || right->ndim != 2 ||
        left->shape[1] != right->shape[1] || at->ndim != 2 || at->shape[0] != 2)
        return TPI_DECLINED;
    tp_device device = tpi_device(left);
    if (!at->numel || !left->numel || !right->numel)
        return tpi_serve(tpo_zeros(TP_INTS(at->shape[1]), (tp_dtype)left->dtype, device), result);
    tpi_temporaries temps = {0};
    tp_tensor *indices = numbers_of(at, &temps), *x = indices ? tpi_put(&temps, tpi_contiguous_data(left)) : NULL,
              *y = x ? tpi_put(&temps, tpi_contiguous_data(right)) : NULL;
    int64_t n = at->shape[1], width = left->shape[1], rows = left->shape[0], columns = right->shape[0];
    tp_tensor *out = y ? tpi_empty(TP_INTS(n), (tp_dtype)left->dtype, device) : NULL;
    int group = group_for(width < 32 ? width : 32);
    const tpi_gpu_define defines[] = {TPI_DEFINE("GROUP", group), TPI_DEFINE_DTYPE("X", left->dtype)};
    tpi_gpu_function *kernel =
        out ? tpi_gpu_site_kernel(device, &dots_site, left->dtype == TP_FLOAT64, 2, defines) : NULL;
    const tpi_gpu_fault fault = tpi_gpu_fault_of(device);
    const tpi_gpu_arg args[] = {TPI_GPU_FAULT(fault),
                                TPI_GPU_PTR(tpi_gpu_data(out)),
                                TPI_GPU_PTR(tpi_gpu_data(indices)),
                                TPI_GPU_PTR(tpi_gpu_data(x)),
                                TPI_GPU_PTR(tpi_gpu_data(y)),
                                TPI_GPU_VAL(n),
                                TPI_GPU_VAL(width),
                                TPI_GPU_VAL(rows),
                                TPI_GPU_VAL(columns)};
    bool ok = kernel && fault.word && tpi_gpu_launch(device, kernel, blocks_for(n, group), 256, 0, 10, args);
    return tpi_serve(tpi_release_temporaries(&temps, ok ? out : tpi_release_then(out, NULL)), result);
}

/* ---- Indices ---- */

/* Where each number from 0 to size begins among sorted ones, owned. */
static tp_tensor *begins_of(tp_tensor *sorted, int64_t size, tpi_temporaries *temps) {
    tp_tensor *numbers = tpi_put(temps, tpo_arange(tp_int(size + 1), TP_INT64, tpi_device(sorted)));
    return tpo_searchsorted(sorted, numbers, false, false, NULL, NULL);
}

tpi_served tpi_gpu_sparse_group(tp_tensor *index, int64_t size, tp_tensor **out) {
    if (index->ndim != 1 || size < 1 || !tpi_sparse_size_fits(size)) return TPI_DECLINED;
    tpi_temporaries temps = {0};
    if (!index->numel) {
        out[0] = tpo_zeros(TP_INTS(size + 1), TP_INT64, tpi_device(index));
        out[1] = out[0] ? tpo_zeros(TP_INTS(0), TP_INT64, tpi_device(index)) : NULL;
        if (!out[1]) tpi_release(out[0]);
        return tpi_serve_if(out[1] != NULL);
    }
    tp_tensor *numbers = numbers_of(index, &temps), *sorted = NULL;
    tp_tensor *order =
        numbers && tpi_gpu_watch_numbers(numbers, size) ? tpi_gpu_order_indices(numbers, size, &sorted) : NULL;
    tpi_put(&temps, order);
    tpi_put(&temps, sorted);
    out[0] = order ? begins_of(sorted, size, &temps) : NULL;
    out[1] = out[0] ? tpi_as_dtype_data(order, TP_INT64) : NULL;
    if (!out[1]) tpi_release(out[0]);
    tpi_release_temporaries(&temps, NULL);
    return tpi_serve_if(out[1] != NULL);
}

tpi_served tpi_gpu_coo_to_csr(tp_tensor *self, int64_t size, bool out_int32, tp_tensor **result) {
    if (self->ndim != 1 || !tpi_sparse_size_fits(size)) return TPI_DECLINED;
    tp_dtype dtype = out_int32 ? TP_INT32 : TP_INT64;
    if (!self->numel) return tpi_serve(tpo_zeros(TP_INTS(size + 1), dtype, tpi_device(self)), result);
    tpi_temporaries temps = {0};
    tp_tensor *numbers = numbers_of(self, &temps);
    tp_tensor *begins = numbers && tpi_gpu_watch_numbers(numbers, size) ? begins_of(numbers, size, &temps) : NULL;
    tpi_put(&temps, begins);
    return tpi_serve(tpi_release_temporaries(&temps, begins ? tpi_as_dtype_data(begins, dtype) : NULL), result);
}

/* The row of element k: how many rows begin at k or before, less one. */
tpi_served tpi_gpu_csr_to_coo(tp_tensor *crow_indices, tp_tensor *col_indices, bool out_int32, bool transpose,
                              tp_tensor **result) {
    if (crow_indices->ndim != 1 || col_indices->ndim != 1 || !col_indices->numel) return TPI_DECLINED;
    tpi_temporaries temps = {0};
    tp_tensor *begins = numbers_of(crow_indices, &temps), *columns = begins ? numbers_of(col_indices, &temps) : NULL;
    tp_tensor *elements =
        columns ? tpi_put(&temps, tpo_arange(tp_int(columns->numel), TP_INT64, tpi_device(columns))) : NULL;
    tp_tensor *count = tpi_put(&temps, tpo_searchsorted(begins, elements, false, true, NULL, NULL));
    tp_tensor *rows = count ? tpi_put(&temps, tpo_sub(TP_OPERAND(count), tp_operand_int(1), tp_int(1))) : NULL;
    tp_tensor *pair[] = {transpose ? columns : rows, transpose ? rows : columns};
    tp_tensor *indices = rows ? tpi_put(&temps, tpo_stack((tp_tensors){pair, 2}, 0)) : NULL;
    return tpi_serve(
        tpi_release_temporaries(&temps, indices ? tpi_as_dtype_data(indices, out_int32 ? TP_INT32 : TP_INT64) : NULL),
        result);
}

static bool no_indices(int64_t dims, tp_device device, tp_tensor **out) {
    out[0] = tpo_zeros(TP_INTS(dims, 0), TP_INT64, device);
    out[1] = out[0] ? tpo_zeros(TP_INTS(1), TP_INT64, device) : NULL;
    out[2] = out[1] ? tpo_zeros(TP_INTS(0), TP_INT64, device) : NULL;
    if (out[2]) return true;
    tpi_release(out[0]);
    tpi_release(out[1]);
    return false;
}

/* Distinct numbers of places, taken apart again. */
tpi_served tpi_gpu_sparse_coalesce(tp_tensor *indices, tp_ints size, tp_tensor **out) {
    int64_t dims = indices->ndim == 2 ? indices->shape[0] : 0, count = 1;
    if (dims == 0 || dims > size.n || dims > TP_MAX_DIMS) return TPI_DECLINED;
    if (!indices->numel) return tpi_serve_if(no_indices(dims, tpi_device(indices), out));
    for (int64_t d = 0; d < dims; d++)
        if (__builtin_mul_overflow(count, size.v[d], &count) || size.v[d] < 1) return TPI_DECLINED;
    tpi_temporaries temps = {0};
    tp_tensor *key = NULL, *found[3] = {0}, *sorted[2] = {0}, *rows[TP_MAX_DIMS];
    for (int64_t d = 0; d < dims; d++) {
        tp_tensor *row = tpi_put(&temps, tpo_select(indices, 0, d)), *numbers = row ? numbers_of(row, &temps) : NULL;
        if (!numbers || !tpi_gpu_watch_numbers(numbers, size.v[d])) {
            tpi_release_temporaries(&temps, NULL);
            return tpi_not_served();
        }
        tp_tensor *before = key ? tpi_put(&temps, tpo_mul(TP_OPERAND(key), tp_operand_int(size.v[d]))) : NULL;
        key = before ? tpi_put(&temps, tpo_add(TP_OPERAND(before), TP_OPERAND(numbers), tp_int(1)))
              : key  ? NULL
                     : numbers;
        if (!key) {
            tpi_release_temporaries(&temps, NULL);
            return tpi_not_served();
        }
    }
    bool ok = tpo_sort(key, 0, false, true, sorted) && tpo_unique(key, true, false, true, TP_NONE, found);
    for (int i = 0; i < 3; i++) tpi_put(&temps, found[i]);
    for (int i = 0; i < 2; i++) tpi_put(&temps, sorted[i]);
    tp_tensor *rest = ok ? found[0] : NULL;
    for (int64_t d = dims - 1; d >= 0 && rest; d--) {
        rows[d] = tpi_put(&temps, tpo_remainder(TP_OPERAND(rest), tp_operand_int(size.v[d])));
        rest = tpi_put(&temps, tpo_floor_divide(TP_OPERAND(rest), tp_operand_int(size.v[d])));
        if (!rows[d]) rest = NULL;
    }
    out[0] = rest ? tpo_stack((tp_tensors){rows, dims}, 0) : NULL;
    tp_tensor *ends = out[0] ? tpi_put(&temps, tpo_cumsum(found[2], 0, TP_NO_DTYPE)) : NULL,
              *zero = ends ? tpi_put(&temps, tpo_zeros(TP_INTS(1), TP_INT64, tpi_device(key))) : NULL,
              *pair[] = {zero, ends};
    out[1] = zero ? tpo_cat((tp_tensors){pair, 2}, 0) : NULL;
    out[2] = out[1] ? tpi_as_dtype_data(sorted[1], TP_INT64) : NULL;
    if (!out[2]) {
        tpi_release(out[0]);
        tpi_release(out[1]);
    }
    tpi_release_temporaries(&temps, NULL);
    return tpi_serve_if(out[2] != NULL);
}
