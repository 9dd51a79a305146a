/* Bags of rows on GPUs, one_hot, and rows held to a norm: by sums over sorted numbers
 * (ops/index/index_select_gpu.c), searches and rows by their numbers. */
#include "ops/temporaries.h"
#include "ops/sort/order_gpu.h"
#include "tensor/recorder.h"
#include "tpi_ops.h"

static const tpi_gpu_site largest_site = {"index_select_gpu_kernel.h", "largest"};

static tp_tensor *numbers_of(tp_tensor *index, tpi_temporaries *held) { /* contiguous int64 */
    tp_tensor *wide = tpi_gpu_is_index(index) ? tpi_put(held, tpi_as_dtype_data(index, TP_INT64)) : NULL;
    return wide ? tpi_put(held, tpi_contiguous_data(wide)) : NULL;
}

/* Classes are counted by the host if it is not told; what is out of range marks nothing, and is a fault. */
tpi_served tpi_gpu_one_hot(tp_tensor *self, int64_t num_classes, tp_tensor **result) {
    if (self->dtype != TP_INT64 || !self->numel || self->ndim == TP_MAX_DIMS || num_classes == 0 || num_classes < -1)
        return TPI_DECLINED;
    tpi_temporaries held = {0};
    if (num_classes == -1) {
        tp_tensor *most = tpi_put(&held, tpo_max(self));
        tp_scalar last = most ? tp_item_scalar(most) : tp_no_scalar();
        if (last.kind != TP_SCALAR_INT || last.as.i < 0) {
            tpi_release_temporaries(&held, NULL);
            return tpi_not_served();
        }
        num_classes = last.as.i + 1;
    }
    tp_tensor *numbers = tpi_put(&held, tpi_contiguous_data(self)),
              *column = numbers ? tpi_put(&held, tpo_unsqueeze(numbers, -1)) : NULL,
              *classes = column ? tpi_put(&held, tpo_arange(tp_int(num_classes), TP_INT64, tpi_device(self))) : NULL;
    tp_tensor *hot = classes && tpi_gpu_watch_numbers(numbers, num_classes)
                         ? tpi_put(&held, tpo_eq(column, TP_OPERAND(classes)))
                         : NULL;
    return tpi_serve(tpi_release_temporaries(&held, hot ? tpi_as_dtype_data(hot, TP_INT64) : NULL), result);
}

/* Rows by their numbers, zeros where the mask (of the numbers' shape) is. */
static tp_tensor *rows_but(tp_tensor *table, tp_tensor *index, tp_tensor *mask, tpi_temporaries *held) {
    tp_tensor *alone = tpi_put(held, tpi_detached(table)),
              *rows = tpi_put(held, tpo_embedding_rows(alone, index, -1, false));
    tp_tensor *column = mask ? tpi_put(held, tpo_unsqueeze(mask, -1)) : NULL;
    return column && rows ? tpo_masked_fill(rows, column, tp_int(0)) : NULL;
}

tpi_served tpi_gpu_embedding_backward_backward(tp_tensor *grad, tp_tensor *indices, int64_t padding_idx,
                                               tp_tensor **result) {
    if (grad->ndim != 2 || !grad->numel || !indices->numel || !tpi_gpu_is_index(indices)) return TPI_DECLINED;
    tpi_temporaries held = {0};
    return tpi_serve(
        tpi_release_temporaries(
            &held, rows_but(grad, indices, tpi_put(&held, tpo_eq(indices, TP_OPERAND(padding_idx))), &held)),
        result);
}

tpi_served tpi_gpu_segment_spread(tp_tensor *self, tp_tensor *number, tp_tensor **result) {
    if (self->ndim != 2 || !self->numel || !number->numel || !tpi_gpu_is_index(number)) return TPI_DECLINED;
    tpi_temporaries held = {0};
    tp_tensor *some = tpi_put(&held, tpo_clamp_min(number, tp_operand_int(0)));
    return tpi_serve(
        tpi_release_temporaries(
            &held, some ? rows_but(self, some, tpi_put(&held, tpo_lt(number, tp_operand_int(0))), &held) : NULL),
        result);
}

tpi_served tpi_gpu_segment_sum(tp_tensor *rows, tp_tensor *number, int64_t bags, tp_tensor **result) {
    if (rows->ndim != 2 || !rows->numel || !bags || !tpi_gpu_is_index(number)) return TPI_DECLINED;
    tpi_temporaries held = {0};
    tp_tensor *alone = tpi_put(&held, tpi_detached(rows));
    return tpi_serve(
        tpi_release_temporaries(&held, alone ? tpo_embedding_dense_backward(alone, number, bags, -1, false) : NULL),
        result); /* which leaves out what is no row's number */
}

tpi_served tpi_gpu_bag_sum(tp_tensor *weight, tp_tensor *indices, tp_tensor *offsets, tp_tensor *numbers, int64_t bags,
                           int64_t padding_idx, bool scale_grad_by_freq, tp_tensor **result) {
    static const tpi_gpu_site site = {"bag_rows_gpu_kernel.h", "bags"};
    /* of the gradient */
    (void)numbers;
    (void)scale_grad_by_freq;
    if (weight->ndim != 2 || !tpi_gpu_floats(weight) || !tpi_gpu_is_index(indices) || !tpi_gpu_is_index(offsets) ||
        offsets->numel < bags || bags < 0)
        return TPI_DECLINED;
    tp_device device = tpi_device(weight);
    int64_t n = indices->numel, rows = weight->shape[0], columns = weight->shape[1],
            padding = padding_idx < 0 ? -1 : padding_idx;
    int width = 1;
    tpi_temporaries held = {0};
    tp_tensor *table = tpi_put(&held, tpi_contiguous_data(weight)),
              *index = tpi_put(&held, tpi_contiguous_data(indices)), *start = numbers_of(offsets, &held);
    tp_tensor *out =
        table && index && start ? tpi_empty(TP_INTS(bags, columns), (tp_dtype)weight->dtype, device) : NULL;
    if (!out || !out->numel) return tpi_serve(tpi_release_temporaries(&held, out), result);
    while (width < 256 && width < columns) width *= 2;
    const tpi_gpu_define defines[] = {TPI_DEFINE("WIDTH", width), TPI_DEFINE_DTYPE("X", weight->dtype),
                                      TPI_DEFINE_DTYPE("INDEX", indices->dtype)};
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(device, &site, weight->dtype == TP_FLOAT64, 3, defines);
    const tpi_gpu_fault fault = tpi_gpu_fault_of(device);
    const tpi_gpu_arg args[] = {TPI_GPU_FAULT(fault),     TPI_GPU_PTR(out->data),   TPI_GPU_PTR(table->data),
                                TPI_GPU_PTR(index->data), TPI_GPU_PTR(start->data), TPI_GPU_VAL(n),
                                TPI_GPU_VAL(bags),        TPI_GPU_VAL(rows),        TPI_GPU_VAL(columns),
                                TPI_GPU_VAL(padding)};
    bool ok = fault.word && kernel && tpi_gpu_launch(device, kernel, tpi_ceil_div(bags, 256 / width), 256, 0, 11, args);
    return tpi_serve(tpi_release_temporaries(&held, ok ? out : tpi_release_then(out, NULL)), result);
}

tpi_served tpi_gpu_bag_sum_backward(tp_tensor *grad, tp_tensor *indices, tp_tensor *offsets, tp_tensor *numbers,
                                    int64_t num_weights, int64_t padding_idx, bool scale_grad_by_freq,
                                    tp_tensor **result) {
    (void)offsets; /* of the second derivative */
    if (grad->ndim != 2 || !tpi_gpu_floats(grad)) return TPI_DECLINED;
    if (!grad->numel || !indices->numel)
        return tpi_serve(tpo_zeros(TP_INTS(num_weights, grad->shape[1]), (tp_dtype)grad->dtype, tpi_device(grad)),
                         result);
    tpi_temporaries held = {0};
    tp_tensor *alone = tpi_put(&held, tpi_detached(grad)),
              *rows = alone ? tpi_put(&held, tpo_segment_spread(alone, numbers)) : NULL;
    return tpi_serve(tpi_release_temporaries(&held, rows ? tpo_embedding_dense_backward(rows, indices, num_weights,
                                                                                        padding_idx, scale_grad_by_freq)
                                                         : NULL),
                     result);
}

tpi_served tpi_gpu_segment_argmax(tp_tensor *rows, tp_tensor *number, int64_t bags, tp_tensor **result) {
    if (rows->ndim != 2 || !rows->numel || !bags || !tpi_gpu_floats(rows) || rows->shape[1] > INT32_MAX ||
        number->numel != rows->shape[0])
        return TPI_DECLINED;
    tpi_temporaries held = {0};
    tp_device device = tpi_device(rows);
    int64_t n = rows->shape[0];
    int width = (int)rows->shape[1];
    tp_tensor *x = tpi_put(&held, tpi_contiguous_data(rows)), *numbers = x ? numbers_of(number, &held) : NULL,
              *sorted = NULL;
    tp_tensor *order = numbers ? tpi_put(&held, tpi_gpu_order_indices(numbers, bags, &sorted)) : NULL;
    tp_tensor *out = order ? tpo_zeros(TP_INTS(bags, width), TP_INT64, device) : NULL;
    const tpi_gpu_define defines[] = {TPI_DEFINE_DTYPE("X", rows->dtype)};
    tpi_gpu_function *kernel =
        out ? tpi_gpu_site_kernel(device, &largest_site, rows->dtype == TP_FLOAT64, 1, defines) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(out)),
                                TPI_GPU_PTR(tpi_gpu_data(x)),
                                TPI_GPU_PTR(tpi_gpu_data(sorted)),
                                TPI_GPU_PTR(tpi_gpu_data(order)),
                                TPI_GPU_VAL(n),
                                TPI_GPU_VAL(bags),
                                TPI_GPU_VAL(width)};
    bool ok = kernel && tpi_gpu_launch(device, kernel, n, width >= 128 ? 128 : 64, 0, 7, args);
    tpi_release(sorted);
    return tpi_serve(tpi_release_temporaries(&held, ok ? out : tpi_release_then(out, NULL)), result);
}

tpi_served tpi_gpu_bag_of(tp_tensor *indices, tp_tensor *offsets, bool include_last_offset, int64_t padding_idx,
                          tp_tensor **result) {
    static const tpi_gpu_site site = {"bag_rows_gpu_kernel.h", "bag_of"};
    int64_t bags = offsets->numel - include_last_offset, n = indices->numel;
    if (bags <= 0 || !n || offsets->ndim != 1 || !tpi_gpu_is_index(indices)) return TPI_DECLINED;
    tpi_temporaries held = {0};
    tp_device device = tpi_device(indices);
    tp_tensor *index = tpi_put(&held, tpi_contiguous_data(indices)), *start = index ? numbers_of(offsets, &held) : NULL,
              *out = start ? tpi_empty(TP_INTS(n), TP_INT64, device) : NULL;
    const tpi_gpu_define defines[] = {TPI_DEFINE("WIDTH", 1), TPI_DEFINE_DTYPE("X", TP_FLOAT32),
                                      TPI_DEFINE_DTYPE("INDEX", indices->dtype)};
    tpi_gpu_function *kernel = out ? tpi_gpu_site_kernel(device, &site, false, 3, defines) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(out)),
                                TPI_GPU_PTR(tpi_gpu_data(index)),
                                TPI_GPU_PTR(tpi_gpu_data(start)),
                                TPI_GPU_VAL(n),
                                TPI_GPU_VAL(bags),
                                TPI_GPU_VAL(padding_idx)};
    bool ok = tpi_gpu_launch_each(device, kernel, n, 6, args);
    return tpi_serve(tpi_release_temporaries(&held, ok ? out : tpi_release_then(out, NULL)), result);
}

/* Rows that are named twice are scaled twice alike. */
tpi_served tpi_gpu_embedding_renorm(tp_tensor *self, tp_tensor *indices, double max_norm, double norm_type) {
    if (self->ndim != 2 || !self->numel || !indices->numel || !tpi_gpu_floats(self)) return TPI_DECLINED;
    tpi_looked(self);
    tpi_temporaries held = {0};
    tp_tensor *table = tpi_put(&held, tpi_detached(self)), *numbers = table ? numbers_of(indices, &held) : NULL,
              *line = numbers ? tpi_put(&held, tpo_reshape(numbers, TP_INTS(-1))) : NULL;
    tp_tensor *rows = line ? tpi_put(&held, tpo_index_select(table, 0, line)) : NULL,
              *wide = rows
                          ? tpi_put(&held, tpi_as_dtype_data(rows, self->dtype == TP_FLOAT64 ? TP_FLOAT64 : TP_FLOAT32))
                          : NULL;
    tp_tensor *norm =
        wide ? tpi_put(&held, tpo_linalg_vector_norm(wide, tp_float(norm_type), TP_INTS(1), true, TP_NO_DTYPE)) : NULL;
    tp_tensor *beyond = norm ? tpi_put(&held, tpo_gt(norm, tp_operand_double(max_norm))) : NULL,
              *more = beyond ? tpi_put(&held, tpo_add(TP_OPERAND(norm), tp_operand_double(1e-7), tp_int(1))) : NULL;
    tp_tensor *less = more ? tpi_put(&held, tpo_div(tp_operand_double(max_norm), TP_OPERAND(more))) : NULL,
              *scale = less ? tpi_put(&held, tpo_where(beyond, TP_OPERAND(less), tp_operand_double(1))) : NULL;
    tp_tensor *scaled = scale ? tpi_put(&held, tpo_mul(TP_OPERAND(wide), TP_OPERAND(scale))) : NULL,
              *narrow = scaled ? tpi_put(&held, tpi_as_dtype_data(scaled, (tp_dtype)self->dtype)) : NULL;
    bool ok = narrow && tpo_index_copy_(table, 0, line, narrow);
    tpi_release_temporaries(&held, NULL);
    if (ok) tpi_touch(self);
    return tpi_serve_if(ok);
}
