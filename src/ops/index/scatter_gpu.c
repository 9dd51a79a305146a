/* Elements by places on GPUs: gather, scatter and scattered reductions, masks, triangles. Reductions go by sorted
 * places, so their order is fixed. */
#include "ops/index/gather_index_gpu.h"
#include "ops/sort/order_gpu.h"
#include "tpi_ops.h"

enum { MOST_DIMS = 8 };

static const tpi_gpu_site gather_site = {"scatter_gpu_kernel.h", "gather"},
                          scatter_site = {"scatter_gpu_kernel.h", "scatter"},
                          places_site = {"scatter_gpu_kernel.h", "places"},
                          wrap_site = {"scatter_gpu_kernel.h", "wrap"},
                          reduce_site = {"scatter_gpu_kernel.h", "reduce"},
                          compact_site = {"scatter_gpu_kernel.h", "compact"},
                          triangle_site = {"scatter_gpu_kernel.h", "triangle"};

typedef struct layout { /* as ops/index/scatter_gpu_kernel.h has it, for as many dims as there are */
    int64_t numbers[2 * MOST_DIMS + 2];
    int dims;
} layout;

/* Places in x of the elements of an index tensor along dim d. */
static layout layout_of(tp_ints shape, const int64_t *strides, int d, int64_t size) {
    layout l = {.dims = shape.n > 0 ? (int)shape.n : 1};
    int64_t *at = l.numbers;
    for (int i = 0; i < l.dims; i++) *at++ = shape.n ? shape.v[i] : 1;
    for (int i = 0; i < l.dims; i++) *at++ = shape.n && i != d ? strides[i] : 0;
    *at++ = shape.n && d >= 0 ? strides[d] : 0;
    *at = size;
    return l;
}
static tpi_gpu_arg layout_arg(const layout *l) {
    return (tpi_gpu_arg){TPI_GPU_VALUE, (uint32_t)((2 * l->dims + 2) * 8), l->numbers};
}

static tpi_gpu_function *kernel_of(tp_device device, const tpi_gpu_site *site, int dims, tp_dtype x, tp_dtype index,
                                   bool more) {
    /* one word more for whichever needs one: VALUE, COORDINATES, LOWER */
    const tpi_gpu_define defines[] = {TPI_DEFINE("DIMS", dims),        TPI_DEFINE("VALUE", more),
                                      TPI_DEFINE("COORDINATES", more), TPI_DEFINE("LOWER", more),
                                      TPI_DEFINE_DTYPE("X", x),        TPI_DEFINE_DTYPE("INDEX", index)};
    return tpi_gpu_site_kernel(device, site, x == TP_FLOAT64, 6, defines);
}

/* Does an index tensor fit self along the dim: as many dims, and no larger elsewhere? -1: no, or it is the CPU's to say
 * what is wrong. */
static int fitting_dim(const tp_tensor *self, int64_t dim, const tp_tensor *index, const tp_tensor *source) {
    int d = self->ndim ? TPI_DIM(self, dim) : 0;
    if (d < 0) {
        tp_error_clear();
        return -1;
    }
    if (!tpi_gpu_is_index(index) || index->ndim != self->ndim || self->ndim > MOST_DIMS || !tpi_gpu_has_dtype(self) ||
        !self->numel || !index->numel)
        return -1;
    for (int i = 0; i < self->ndim; i++)
        if ((i != d && index->shape[i] > self->shape[i]) || (source && index->shape[i] > source->shape[i])) return -1;
    return d;
}

tpi_served tpi_gpu_gather(tp_tensor *self, int64_t dim, tp_tensor *index, bool sparse_grad, tp_tensor **result) {
    int d = fitting_dim(self, dim, index, NULL);
    if (d < 0 || sparse_grad) return TPI_DECLINED;
    layout l = layout_of(tpi_shape(index), self->strides, self->ndim ? d : -1, self->ndim ? self->shape[d] : 1);
    tp_tensor *k = tpi_contiguous_data(index),
              *out = k ? tpi_empty(tpi_shape(index), (tp_dtype)self->dtype, tpi_device(self)) : NULL;
    tpi_gpu_function *kernel =
        out ? kernel_of(tpi_device(self), &gather_site, l.dims, (tp_dtype)self->dtype, (tp_dtype)index->dtype, false)
            : NULL;
    const tpi_gpu_fault fault = tpi_gpu_fault_of(tpi_device(self));
    const tpi_gpu_arg args[] = {TPI_GPU_FAULT(fault),    TPI_GPU_PTR(out ? out->data : NULL),
                                TPI_GPU_PTR(self->data), TPI_GPU_PTR(k ? k->data : NULL),
                                layout_arg(&l),          TPI_GPU_VAL(index->numel)};
    bool ok =
        fault.word && kernel && tpi_gpu_launch(tpi_device(self), kernel, tpi_gpu_blocks(index->numel), 256, 0, 7, args);
    tpi_release(k);
    return tpi_serve(ok ? out : tpi_release_then(out, NULL), result);
}

/* The part of source that the index covers, contiguous; owned. */
static tp_tensor *covered(tp_tensor *source, const tp_tensor *index) {
    tp_tensor *part = tpi_alias(source, index->ndim, index->shape, source->strides, tpi_offset(source));
    return part ? tpi_release_then(part, tpi_contiguous_data(part)) : NULL;
}

/* Where two numbers name one place, one of the two values stays: as in PyTorch it is not said which. */
static bool put_positions(tp_tensor *self, int d, tp_tensor *index, tp_tensor *src, bool value) {
    layout l = layout_of(tpi_shape(index), self->strides, self->ndim ? d : -1, self->ndim ? self->shape[d] : 1);
    tp_tensor *k = tpi_contiguous_data(index);
    tpi_gpu_function *kernel =
        k ? kernel_of(tpi_device(self), &scatter_site, l.dims, (tp_dtype)self->dtype, (tp_dtype)index->dtype, value)
          : NULL;
    const tpi_gpu_fault fault = tpi_gpu_fault_of(tpi_device(self));
    const tpi_gpu_arg args[] = {TPI_GPU_FAULT(fault),   TPI_GPU_PTR(self->data),
                                TPI_GPU_PTR(src->data), TPI_GPU_PTR(k ? k->data : NULL),
                                layout_arg(&l),         TPI_GPU_VAL(index->numel)};
    bool ok =
        fault.word && kernel && tpi_gpu_launch(tpi_device(self), kernel, tpi_gpu_blocks(index->numel), 256, 0, 7, args);
    tpi_release(k);
    return ok;
}

tpi_served tpi_gpu_scatter(tp_tensor *self, int64_t dim, tp_tensor *index, tp_tensor *src) {
    int d = src->ndim == index->ndim && src->dtype == self->dtype ? fitting_dim(self, dim, index, src) : -1;
    tp_tensor *part = d < 0 ? NULL : covered(src, index);
    bool ok = part && put_positions(self, d, index, part, false);
    tpi_release(part);
    return tpi_serve_if(ok);
}

tpi_served tpi_gpu_scatter_value(tp_tensor *self, int64_t dim, tp_tensor *index, tp_scalar value) {
    int d = fitting_dim(self, dim, index, NULL);
    tp_tensor *one = d < 0 ? NULL : tpi_empty((tp_ints){self->shape, 0}, (tp_dtype)self->dtype, tpi_device(self));
    bool ok = one && tpi_fill_data(one, value) && put_positions(self, d, index, one, true);
    tpi_release(one);
    return tpi_serve_if(ok);
}

/* ---- Reductions ---- */
enum { SUM, PRODUCT, MEAN, LARGEST, SMALLEST }; /* as ops/index/scatter_gpu_kernel.h has them */

static bool reduces_in(const tp_tensor *t) {
    return t->dtype != TP_BOOL && !tp_dtype_is_complex((tp_dtype)t->dtype) && tpi_gpu_has_dtype(t) &&
           tpi_gpu_is_counted(t);
}

/* x[number], joined with the values of that number; everything contiguous. The number behind x's last element is
 * nowhere. alone: without what x[number] was. */
static bool reduce_at(tp_tensor *x, tp_tensor *numbers, tp_tensor *values, int what, bool alone) {
    tp_tensor *sorted = NULL, *order = tpi_gpu_order_indices(numbers, x->numel, &sorted);
    const tpi_gpu_define defines[] = {
        TPI_DEFINE("DIMS", 1),           TPI_DEFINE("REDUCE", what),
        TPI_DEFINE("ALONE", alone),      TPI_DEFINE("WHOLE", !tp_dtype_is_floating((tp_dtype)x->dtype)),
        TPI_DEFINE_DTYPE("X", x->dtype), TPI_DEFINE_DTYPE("INDEX", numbers->dtype)};
    tpi_gpu_function *kernel =
        order ? tpi_gpu_site_kernel(tpi_device(x), &reduce_site, x->dtype == TP_FLOAT64, 6, defines) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(x->data),
                                TPI_GPU_PTR(values->data),
                                TPI_GPU_PTR(sorted ? sorted->data : NULL),
                                TPI_GPU_PTR(order ? order->data : NULL),
                                TPI_GPU_VAL(numbers->numel),
                                TPI_GPU_VAL(x->numel)};
    bool ok = tpi_gpu_launch_each(tpi_device(x), kernel, numbers->numel, 6, args);
    tpi_release(order);
    tpi_release(sorted);
    return ok;
}

static tp_tensor *positions_of(tp_tensor *index, const layout *l, int64_t nowhere) {
    tp_tensor *k = tpi_contiguous_data(index),
              *out =
                  k ? tpi_empty(tpi_shape(index), nowhere <= INT32_MAX ? TP_INT32 : TP_INT64, tpi_device(index)) : NULL;
    tpi_gpu_function *kernel =
        out ? kernel_of(tpi_device(index), &places_site, l->dims, (tp_dtype)out->dtype, (tp_dtype)index->dtype, false)
            : NULL;
    const tpi_gpu_fault fault = tpi_gpu_fault_of(tpi_device(index));
    const tpi_gpu_arg args[] = {
        TPI_GPU_FAULT(fault), TPI_GPU_PTR(out ? out->data : NULL), TPI_GPU_PTR(k ? k->data : NULL),
        layout_arg(l),        TPI_GPU_VAL(index->numel),           TPI_GPU_VAL(nowhere)};
    bool ok = fault.word && kernel &&
              tpi_gpu_launch(tpi_device(index), kernel, tpi_gpu_blocks(index->numel), 256, 0, 7, args);
    tpi_release(k);
    return ok ? out : tpi_release_then(out, NULL);
}

/* Lines of elements along the dim, each by itself, where they are of a length that a block, or threads, can take. */
enum { FEW = 32, MOST_IN_LINE = 4096 };
static bool joins_lines(const tp_tensor *self, int d, const tp_tensor *index) {
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(tpi_device(self));
    int64_t n = index->ndim ? index->shape[d] : 1;
    return caps && caps->max_threads >= 256 && n <= MOST_IN_LINE && index->numel / n <= INT32_MAX;
}

static bool join_lines(tp_tensor *self, int d, tp_tensor *index, tp_tensor *values, int what, bool alone) {
    static const tpi_gpu_site block_site = {"scatter_lines_gpu_kernel.h", "block"},
                              few_site = {"scatter_lines_gpu_kernel.h", "few"};
    int64_t size = self->ndim ? self->shape[d] : 1, numbers[3 * MOST_DIMS + 4], *at = numbers;
    int n = index->ndim ? (int)index->shape[d] : 1, dims = 0, others[MOST_DIMS], items = 1, digits = 1;
    for (int i = 0; i < index->ndim; i++)
        if (i != d && index->shape[i] != 1) others[dims++] = i;
    for (int i = 0; i < dims; i++) *at++ = index->shape[others[i]];
    if (!dims) *at++ = 1;
    for (int i = 0; i < dims; i++) *at++ = self->strides[others[i]];
    if (!dims) *at++ = 0;
    for (int i = 0; i < dims; i++) *at++ = index->strides[others[i]];
    if (!dims) *at++ = 0;
    *at++ = size;
    *at++ = self->ndim ? self->strides[d] : 0;
    *at++ = index->ndim ? index->strides[d] : 0;
    *at++ = index->numel / n;
    while (items * 256 < n) items *= 2;
    while (digits < 8 && size >> 8 * digits) digits++;
    const bool few = n <= FEW;
    tp_dtype dtype = (tp_dtype)self->dtype;
    const tpi_gpu_define defines[] = {TPI_DEFINE("DIMS", dims ? dims : 1),
                                      TPI_DEFINE("REDUCE", what),
                                      TPI_DEFINE("ALONE", alone),
                                      TPI_DEFINE("WHOLE", !tp_dtype_is_floating(dtype)),
                                      TPI_DEFINE("KEY", 4),
                                      TPI_DEFINE("ITEMS", few ? 1 : items),
                                      TPI_DEFINE_DTYPE("X", dtype),
                                      TPI_DEFINE_DTYPE("INDEX", index->dtype)};
    tpi_gpu_function *kernel =
        tpi_gpu_site_kernel(tpi_device(self), few ? &few_site : &block_site, dtype == TP_FLOAT64, 8, defines);
    const tpi_gpu_fault fault = tpi_gpu_fault_of(tpi_device(self));
    const tpi_gpu_arg args[] = {TPI_GPU_FAULT(fault),
                                TPI_GPU_PTR(self->data),
                                TPI_GPU_PTR(values->data),
                                TPI_GPU_PTR(index->data),
                                {TPI_GPU_VALUE, (uint32_t)((at - numbers) * 8), numbers},
                                TPI_GPU_VAL(n),
                                TPI_GPU_VAL(digits)};
    return fault.word && kernel &&
           (few ? tpi_gpu_launch(tpi_device(self), kernel, tpi_gpu_blocks(index->numel), 256, 0, 7, args)
                : tpi_gpu_launch(tpi_device(self), kernel, index->numel / n, 256, 0, 8, args));
}

static bool scatter_joined(tp_tensor *self, int64_t dim, tp_tensor *index, tp_tensor *src, int what, bool alone) {
    int d = src->ndim == index->ndim && src->dtype == self->dtype && reduces_in(self)
                ? fitting_dim(self, dim, index, src)
                : -1;
    if (d >= 0 && joins_lines(self, d, index)) {
        tp_tensor *values = covered(src, index), *k = values ? tpi_contiguous_data(index) : NULL;
        bool ok = k && join_lines(self, d, k, values, what, alone);
        tpi_release(values);
        tpi_release(k);
        return ok;
    }
    tp_tensor *x = d < 0 ? NULL : tpi_contiguous_data(self);
    if (!x) return false;
    layout l = layout_of(tpi_shape(index), x->strides, x->ndim ? d : -1, x->ndim ? x->shape[d] : 1);
    tp_tensor *values = covered(src, index), *numbers = values ? positions_of(index, &l, x->numel) : NULL;
    bool ok = numbers && reduce_at(x, numbers, values, what, alone) && (x == self || tpi_copy_data(self, x));
    tpi_release(values);
    tpi_release(numbers);
    tpi_release(x);
    return ok;
}

tpi_served tpi_gpu_scatter_add(tp_tensor *self, int64_t dim, tp_tensor *index, tp_tensor *src) {
    return tpi_serve_if(scatter_joined(self, dim, index, src, SUM, false));
}

tpi_served tpi_gpu_scatter_reduce(tp_tensor *self, int64_t dim, tp_tensor *index, tp_tensor *src, const char *reduce,
                                  bool include_self) {
    static const char *const names[] = {"sum", "prod", "mean", "amax", "amin"};
    for (int what = SUM; what <= SMALLEST; what++)
        if (!strcmp(reduce, names[what]))
            return tpi_serve_if(scatter_joined(self, dim, index, src, what, !include_self));
    return tpi_not_served();
}

/* self[index along dim] += source, or = source: as scatter with the index repeated over the other dims. */
static tp_tensor *spread(tp_tensor *index, const tp_tensor *like, int d) {
    int64_t shape[MOST_DIMS], strides[MOST_DIMS];
    for (int i = 0; i < like->ndim; i++) {
        shape[i] = i == d ? index->numel : like->shape[i];
        strides[i] = i == d ? (index->ndim ? index->strides[0] : 1) : 0;
    }
    return tpi_alias(index, like->ndim, shape, strides, tpi_offset(index));
}

static tp_tensor *spread_along(tp_tensor *self, int64_t dim, tp_tensor *index, const tp_tensor *source) {
    int d = self->ndim ? TPI_DIM(self, dim) : -1;
    if (d < 0) {
        tp_error_clear();
        return NULL;
    }
    if (index->ndim > 1 || !tpi_gpu_is_index(index) || self->ndim > MOST_DIMS || (source && source->ndim != self->ndim))
        return NULL;
    for (int i = 0; source && i < self->ndim; i++)
        if (source->shape[i] != (i == d ? index->numel : self->shape[i])) return NULL;
    return spread(index, self, d);
}

tpi_served tpi_gpu_index_add(tp_tensor *self, int64_t dim, tp_tensor *index, tp_tensor *source, tp_scalar alpha) {
    if (source->dtype != self->dtype || alpha.kind == TP_SCALAR_COMPLEX || index->ndim != 1 || !source->numel)
        return TPI_DECLINED;
    int d = self->ndim ? TPI_DIM(self, dim) : -1;
    tp_tensor *fits = d < 0 ? NULL : spread_along(self, d, index, source);
    if (!fits) tp_error_clear(); /* the CPU says what is wrong with the call */
    tp_tensor *alone = fits ? tpi_detached(source) : NULL;
    tp_tensor *times = tp_scalar_to_double(alpha) == 1 ? tpi_retain(alone)
                       : alone                         ? tpo_mul(tp_operand_tensor(alone), tp_operand_scalar(alpha))
                                                       : NULL;
    bool ok = times && tpi_gpu_add_slices(self, d, index, times);
    tpi_release(fits);
    tpi_release(alone);
    tpi_release(times);
    return tpi_serve_if(ok);
}

tpi_served tpi_gpu_index_copy(tp_tensor *self, int64_t dim, tp_tensor *index, tp_tensor *source) {
    if (source->dtype != self->dtype) return TPI_DECLINED;
    tp_tensor *wide = spread_along(self, dim, index, source);
    bool ok = wide && tpi_gpu_scatter(self, dim, wide, source) == TPI_SERVED;
    tpi_release(wide);
    return tpi_serve_if(ok);
}

static tp_tensor *wrapped(tp_tensor *index, int64_t size) { /* contiguous */
    tp_tensor *out = tpi_empty(tpi_shape(index), TP_INT64, tpi_device(index));
    tpi_gpu_function *kernel =
        out ? kernel_of(tpi_device(index), &wrap_site, 1, TP_INT64, (tp_dtype)index->dtype, false) : NULL;
    const tpi_gpu_fault fault = tpi_gpu_fault_of(tpi_device(index));
    const tpi_gpu_arg args[] = {TPI_GPU_FAULT(fault), TPI_GPU_PTR(tpi_gpu_data(out)), TPI_GPU_PTR(index->data),
                                TPI_GPU_VAL(index->numel), TPI_GPU_VAL(size)};
    if (fault.word && kernel &&
        (!index->numel || tpi_gpu_launch(tpi_device(index), kernel, tpi_gpu_blocks(index->numel), 256, 0, 6, args)))
        return out;
    return tpi_release_then(out, NULL);
}

/* spread_along, of an index that may count from the end. */
static tp_tensor *spread_wrapped(tp_tensor *self, int64_t dim, tp_tensor *index) {
    tp_tensor *fits = spread_along(self, dim, index, NULL), *plain = fits ? tpi_contiguous_data(index) : NULL,
              *forward = plain ? wrapped(plain, self->shape[TPI_DIM(self, dim)]) : NULL,
              *wide = forward ? spread_along(self, dim, forward, NULL) : NULL;
    tpi_release(fits);
    tpi_release(plain);
    tpi_release(forward);
    return wide;
}

tpi_served tpi_gpu_index_fill(tp_tensor *self, int64_t dim, tp_tensor *index, tp_scalar value) {
    tp_tensor *wide = spread_wrapped(self, dim, index);
    bool ok = wide && tpi_gpu_scatter_value(self, dim, wide, value) == TPI_SERVED;
    tpi_release(wide);
    return tpi_serve_if(ok);
}

tpi_served tpi_gpu_index_fill_tensor(tp_tensor *self, int64_t dim, tp_tensor *index, tp_tensor *value) {
    tp_tensor *wide = value->ndim ? NULL : spread_wrapped(self, dim, index),
              *one = wide ? tpi_as_dtype_data(value, (tp_dtype)self->dtype) : NULL;
    int d = one ? fitting_dim(self, dim, wide, NULL) : -1;
    bool ok = d >= 0 && put_positions(self, d, wide, one, true);
    tpi_release(wide);
    tpi_release(one);
    return tpi_serve_if(ok);
}

/* Numbers count through all elements, in their order. */
tpi_served tpi_gpu_put(tp_tensor *self, tp_tensor *index, tp_tensor *source, bool accumulate) {
    if (!tpi_gpu_is_index(index) || source->dtype != self->dtype || source->numel != index->numel || !self->numel ||
        !tpi_gpu_has_dtype(self) || (accumulate && !reduces_in(self)))
        return TPI_DECLINED;
    if (!index->numel) return TPI_SERVED;
    int64_t one = 1;
    tp_tensor *x = tpi_contiguous_data(self), *flat = x ? tpi_alias(x, 1, &x->numel, &one, tpi_offset(x)) : NULL,
              *values = flat ? tpi_contiguous_data(source) : NULL;
    tp_tensor *wide = values ? tpi_as_dtype_data(index, TP_INT64) : NULL,
              *plain = wide ? tpi_contiguous_data(wide) : NULL;
    tp_tensor *line = plain ? tpi_alias(plain, 1, &plain->numel, &one, tpi_offset(plain)) : NULL,
              *numbers = line ? wrapped(line, self->numel) : NULL;
    bool ok =
        numbers &&
        (accumulate ? reduce_at(flat, numbers, values, SUM, false) : put_positions(flat, 0, numbers, values, false)) &&
        (x == self || tpi_copy_data(self, x));
    tpi_release(x);
    tpi_release(flat);
    tpi_release(values);
    tpi_release(wide);
    tpi_release(plain);
    tpi_release(line);
    tpi_release(numbers);
    return tpi_serve_if(ok);
}

/* ---- Masks ---- */

/* The elements of x where the mask (bool, contiguous, of x's shape) is true, or with x NULL their coordinates. The host
 * waits for their number. */
static tp_tensor *compacted(tp_tensor *x, tp_tensor *mask) {
    int64_t one = 1, n = mask->numel, count = 0;
    tp_tensor *flat = tpi_alias(mask, 1, &n, &one, tpi_offset(mask)), *alone = flat ? tpi_detached(flat) : NULL,
              *counted = alone ? tpo_cumsum(alone, 0, TP_INT64) : NULL;
    tpi_release(flat);
    tpi_release(alone);
    if (!counted) return NULL;
    tp_tensor *last = tpi_narrowed(counted, 0, n - 1, 1);
    tp_scalar total = last ? tp_item_scalar(last) : tp_no_scalar();
    tpi_release(last);
    if (total.kind == TP_SCALAR_NONE) return tpi_release_then(counted, NULL);
    count = total.as.i;
    layout l = layout_of(tpi_shape(mask), mask->strides, -1, 1);
    tp_tensor *out = x ? tpi_empty(TP_INTS(count), (tp_dtype)x->dtype, tpi_device(x))
                       : tpi_empty(TP_INTS(count, mask->ndim), TP_INT64, tpi_device(mask));
    tpi_gpu_function *kernel =
        out ? kernel_of(tpi_device(mask), &compact_site, l.dims, x ? (tp_dtype)x->dtype : TP_INT64, TP_INT64, !x)
            : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(out ? out->data : NULL),
                                TPI_GPU_PTR(x ? x->data : NULL),
                                TPI_GPU_PTR(mask->data),
                                TPI_GPU_PTR(counted->data),
                                layout_arg(&l),
                                TPI_GPU_VAL(n)};
    bool ok = out && (!count || tpi_gpu_launch_each(tpi_device(mask), kernel, n, 6, args));
    tpi_release(counted);
    return ok ? out : tpi_release_then(out, NULL);
}

tpi_served tpi_gpu_masked_select(tp_tensor *self, tp_tensor *mask, tp_tensor **result) {
    if (mask->dtype != TP_BOOL || !tpi_same_shape(self, mask) || !self->numel || self->ndim < 1 ||
        self->ndim > MOST_DIMS || !tpi_gpu_has_dtype(self))
        return TPI_DECLINED;
    tp_tensor *x = tpi_contiguous_data(self), *m = x ? tpi_contiguous_data(mask) : NULL,
              *out = m ? compacted(x, m) : NULL;
    tpi_release(x);
    tpi_release(m);
    return tpi_serve(out, result);
}

tpi_served tpi_gpu_nonzero(tp_tensor *self, tp_tensor **result) {
    if (!self->numel || self->ndim < 1 || self->ndim > MOST_DIMS || !tpi_gpu_has_dtype(self)) return TPI_DECLINED;
    tp_tensor *alone = tpi_detached(self),
              *set = alone ? self->dtype == TP_BOOL ? tpi_retain(alone) : tpo_ne(alone, tp_operand_int(0)) : NULL,
              *m = set ? tpi_contiguous_data(set) : NULL;
    tp_tensor *out = m ? compacted(NULL, m) : NULL;
    tpi_release(alone);
    tpi_release(set);
    tpi_release(m);
    return tpi_serve(out, result);
}

/* ---- Triangles ---- */
static tp_tensor *triangle(tp_tensor *self, int64_t diagonal, bool lower) {
    if (self->ndim < 2 || !self->numel || !tpi_gpu_has_dtype(self)) return NULL;
    int parts = tp_dtype_is_complex((tp_dtype)self->dtype) ? 2 : 1;
    int64_t height = self->shape[self->ndim - 2], width = self->shape[self->ndim - 1] * parts, n = self->numel * parts;
    tp_tensor *x = tpi_contiguous_data(self),
              *out = x ? tpi_empty(tpi_shape(self), (tp_dtype)self->dtype, tpi_device(self)) : NULL;
    tpi_gpu_function *kernel = out ? kernel_of(tpi_device(self), &triangle_site, parts,
                                               tpi_dtype_to_real((tp_dtype)self->dtype), TP_INT64, lower)
                                   : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(out ? out->data : NULL),
                                TPI_GPU_PTR(x ? x->data : NULL),
                                TPI_GPU_VAL(n),
                                TPI_GPU_VAL(height),
                                TPI_GPU_VAL(width),
                                TPI_GPU_VAL(diagonal)};
    bool ok = tpi_gpu_launch_each(tpi_device(self), kernel, n, 6, args);
    tpi_release(x);
    return ok ? out : tpi_release_then(out, NULL);
}
tpi_served tpi_gpu_tril(tp_tensor *self, int64_t diagonal, tp_tensor **result) {
    return tpi_serve(triangle(self, diagonal, true), result);
}
tpi_served tpi_gpu_triu(tp_tensor *self, int64_t diagonal, tp_tensor **result) {
    return tpi_serve(triangle(self, diagonal, false), result);
}
