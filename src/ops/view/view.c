/* Views: the geometry (shape, strides, offset) that each `view` operator of tables/operators/view.op works out.
 * Nothing here touches data; a function fills *out, or returns false with an error that names the argument. */
#include "ops/view/view.h"
#include "ops/native.h"
#include "tensor/sizes.h"

static void start_from(const tp_tensor *self, tpi_geometry *out) {
    out->ndim = self->ndim;
    out->offset = tpi_offset(self);
    for (int d = 0; d < self->ndim; d++) {
        out->shape[d] = self->shape[d];
        out->strides[d] = self->strides[d];
    }
}

static void drop_dim(tpi_geometry *g, int dim) {
    for (int d = dim; d + 1 < g->ndim; d++) {
        g->shape[d] = g->shape[d + 1];
        g->strides[d] = g->strides[d + 1];
    }
    g->ndim--;
}

static void put_dim(tpi_geometry *g, int dim, int64_t size, int64_t stride) {
    for (int d = g->ndim; d > dim; d--) {
        g->shape[d] = g->shape[d - 1];
        g->strides[d] = g->strides[d - 1];
    }
    g->shape[dim] = size;
    g->strides[dim] = stride;
    g->ndim++;
}

static bool dims_fit(int64_t ndim) {
    return ndim <= TP_MAX_DIMS || tpi_refuse(TP_ERR_VALUE, "the result would have %lld dimensions, expected at most %d",
                                             (long long)ndim, TP_MAX_DIMS);
}

bool tpi_geometry_alias(tp_tensor *self, tpi_geometry *out) {
    start_from(self, out);
    return true;
}

bool tpi_geometry_view(tp_tensor *self, tp_ints size, tpi_geometry *out) {
    if (!dims_fit(size.n) || !tpi_infer_size(size, self->numel, out->shape)) return false;
    out->ndim = (int)size.n;
    out->offset = tpi_offset(self);
    tp_ints shape = {out->shape, size.n};
    if (tpi_view_strides(self, shape, out->strides)) return true;
    return tpi_refuse(TP_ERR_RUNTIME,
                      "argument 'size': view size is not compatible with input tensor's size and stride (at least one "
                      "dimension spans across two contiguous subspaces). Use .reshape(...) instead. A tensor of shape "
                      "%s and strides %s cannot be seen as %s without a copy",
                      tpi_shape_text(tpi_shape(self)), tpi_shape_text(tpi_strides(self)), tpi_shape_text(shape));
}

/* size may be longer than the shape (new leading dims) and hold -1 for "as it is". */
bool tpi_geometry_expand(tp_tensor *self, tp_ints size, bool implicit, tpi_geometry *out) {
    (void)implicit;
    if (!dims_fit(size.n)) return false;
    if (size.n < self->ndim)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'size': the number of sizes provided (%lld) must be greater or equal to the number "
                          "of dimensions in the tensor (%d)",
                          (long long)size.n, self->ndim);
    out->ndim = (int)size.n;
    out->offset = tpi_offset(self);
    int64_t lead = size.n - self->ndim;
    for (int64_t d = 0; d < size.n; d++) {
        int64_t want = size.v[d], have = d < lead ? 1 : self->shape[d - lead];
        if (want == -1 && d >= lead) want = have;
        if (want < 0 || (have != want && have != 1))
            return d < lead
                       ? tpi_refuse(TP_ERR_RUNTIME,
                                    "argument 'size': The expanded size of the tensor (%lld) isn't allowed in a "
                                    "leading, non-existing dimension %lld",
                                    (long long)want, (long long)d)
                       : tpi_refuse(TP_ERR_RUNTIME,
                                    "argument 'size': The expanded size of the tensor (%lld) must match the existing "
                                    "size (%lld) at non-singleton dimension %lld.  Target sizes: %s.  Tensor sizes: %s",
                                    (long long)want, (long long)have, (long long)d, tpi_shape_text(size),
                                    tpi_shape_text(tpi_shape(self)));
        out->shape[d] = want;
    }
    for (int64_t d = size.n - 1; d >= 0; d--) { /* a new dim of size one gets the stride that unsqueeze gives */
        int64_t have = d < lead ? 1 : self->shape[d - lead];
        int64_t own = d >= lead         ? self->strides[d - lead]
                      : d == size.n - 1 ? 1
                                        : out->shape[d + 1] * out->strides[d + 1];
        out->strides[d] = have != out->shape[d] || !self->ndim ? 0 : own;
    }
    return true;
}

/* order[i] is the dim of self that becomes dim i; every dim exactly once. */
static bool check_order(const tp_tensor *self, tp_ints dims, int *order) {
    if (dims.n != self->ndim)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'dims': number of dimensions in the tensor input does not match the length of the "
                          "desired ordering of dimensions i.e. input.dim() = %d is not equal to len(dims) = %lld",
                          self->ndim, (long long)dims.n);
    bool seen[TP_MAX_DIMS] = {false};
    for (int64_t i = 0; i < dims.n; i++) {
        int d = TPI_DIM(self, dims.v[i]);
        if (d < 0) return false;
        if (seen[d])
            return tpi_refuse(TP_ERR_RUNTIME,
                              "argument 'dims': duplicate dims are not allowed. Dimension %d appears twice in %s", d,
                              tpi_shape_text(dims));
        seen[d] = true;
        order[i] = d;
    }
    return true;
}

bool tpi_geometry_permute(tp_tensor *self, tp_ints dims, tpi_geometry *out) {
    int order[TP_MAX_DIMS];
    if (!check_order(self, dims, order)) return false;
    out->ndim = self->ndim;
    out->offset = tpi_offset(self);
    for (int i = 0; i < self->ndim; i++) {
        out->shape[i] = self->shape[order[i]];
        out->strides[i] = self->strides[order[i]];
    }
    return true;
}

bool tpi_geometry_permute_inverse(tp_tensor *self, tp_ints dims, tpi_geometry *out) {
    int order[TP_MAX_DIMS];
    if (!check_order(self, dims, order)) return false;
    out->ndim = self->ndim;
    out->offset = tpi_offset(self);
    for (int i = 0; i < self->ndim; i++) {
        out->shape[order[i]] = self->shape[i];
        out->strides[order[i]] = self->strides[i];
    }
    return true;
}

bool tpi_geometry_transpose(tp_tensor *self, int64_t dim0, int64_t dim1, tpi_geometry *out) {
    int a = TPI_DIM(self, dim0), b = a < 0 ? -1 : TPI_DIM(self, dim1);
    if (b < 0) return false;
    start_from(self, out);
    if (self->ndim == 0) return true;
    out->shape[a] = self->shape[b];
    out->strides[a] = self->strides[b];
    out->shape[b] = self->shape[a];
    out->strides[b] = self->strides[a];
    return true;
}

bool tpi_geometry_t(tp_tensor *self, tpi_geometry *out) {
    if (self->ndim > 2)
        return tpi_refuse(TP_ERR_RUNTIME, "t() expects a tensor with <= 2 dimensions, but self is %dD", self->ndim);
    return tpi_geometry_transpose(self, 0, self->ndim == 2, out);
}

static void squeeze_where(const tp_tensor *self, const bool *wanted, tpi_geometry *out) {
    out->ndim = 0;
    out->offset = tpi_offset(self);
    for (int d = 0; d < self->ndim; d++) {
        if (wanted[d] && self->shape[d] == 1) continue;
        out->shape[out->ndim] = self->shape[d];
        out->strides[out->ndim++] = self->strides[d];
    }
}

bool tpi_geometry_squeeze(tp_tensor *self, tpi_geometry *out) {
    bool all[TP_MAX_DIMS];
    for (int d = 0; d < TP_MAX_DIMS; d++) all[d] = true;
    squeeze_where(self, all, out);
    return true;
}

bool tpi_geometry_squeeze_dim(tp_tensor *self, int64_t dim, tpi_geometry *out) {
    bool wanted[TP_MAX_DIMS] = {false};
    int d = TPI_DIM(self, dim);
    if (d < 0) return false;
    wanted[d] = true;
    squeeze_where(self, wanted, out);
    return true;
}

bool tpi_geometry_squeeze_dims(tp_tensor *self, tp_ints dim, tpi_geometry *out) {
    bool wanted[TP_MAX_DIMS] = {false};
    for (int64_t i = 0; i < dim.n; i++) {
        int d = TPI_DIM(self, dim.v[i]);
        if (d < 0) return false;
        if (wanted[d])
            return tpi_refuse(TP_ERR_RUNTIME, "argument 'dim': dimension %d appears twice in %s", d,
                              tpi_shape_text(dim));
        wanted[d] = true;
    }
    squeeze_where(self, wanted, out);
    return true;
}

bool tpi_geometry_unsqueeze(tp_tensor *self, int64_t dim, tpi_geometry *out) {
    if (!dims_fit(self->ndim + 1)) return false;
    int d = tpi_wrap_dim(dim, self->ndim + 1);
    if (d < 0) return false;
    start_from(self, out);
    put_dim(out, d, 1, d < self->ndim ? self->shape[d] * self->strides[d] : 1);
    return true;
}

bool tpi_geometry_select(tp_tensor *self, int64_t dim, int64_t index, tpi_geometry *out) {
    if (self->ndim == 0)
        return tpi_refuse(TP_ERR_INDEX, "argument 'dim': a zero-dimensional tensor has no dimension to select from");
    int d = TPI_DIM(self, dim);
    if (d < 0) return false;
    int64_t size = self->shape[d];
    if (index < -size || index >= size)
        return tpi_refuse(TP_ERR_INDEX, "index %lld out of range for tensor of size %s at dimension %d",
                          (long long)index, tpi_shape_text(tpi_shape(self)), d);
    start_from(self, out);
    out->offset += (index < 0 ? index + size : index) * self->strides[d];
    drop_dim(out, d);
    return true;
}

/* Python's slice: start and end are clamped, never out of range. */
static int64_t clamp_position(int64_t at, int64_t if_none, int64_t size) {
    if (at == TP_NONE) return if_none;
    if (at < 0) at = at < -size ? 0 : at + size;
    return at > size ? size : at;
}

bool tpi_geometry_slice(tp_tensor *self, int64_t dim, int64_t start, int64_t end, int64_t step, tpi_geometry *out) {
    if (self->ndim == 0) return tpi_refuse(TP_ERR_INDEX, "argument 'dim': a zero-dimensional tensor cannot be sliced");
    int d = TPI_DIM(self, dim);
    if (d < 0) return false;
    if (step <= 0)
        return tpi_refuse(TP_ERR_VALUE, "argument 'step': expected a positive number, got %lld", (long long)step);
    int64_t size = self->shape[d], from = clamp_position(start, 0, size), to = clamp_position(end, size, size);
    if (to < from) to = from;
    start_from(self, out);
    out->offset += from * self->strides[d];
    out->shape[d] = to == from ? 0 : (to - from - 1) / step + 1;
    out->strides[d] = tpi_size_times(self->strides[d], step);
    return true;
}

/* Which elements a diagonal has. */
static bool diagonal_of(const tpi_geometry *g, int a, int b, int64_t offset, int64_t *length, int64_t *start) {
    if (a == b)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'dim2': diagonal dimensions cannot be identical %d, %d", a, b);
    int64_t rows = g->shape[a], cols = g->shape[b];
    if (offset < -rows) offset = -rows; /* beyond it there is none, either */
    int64_t n =
        offset >= 0 ? (rows < cols - offset ? rows : cols - offset) : (rows + offset < cols ? rows + offset : cols);
    *length = n > 0 ? n : 0;
    *start = n <= 0 ? 0 : offset >= 0 ? offset * g->strides[b] : -offset * g->strides[a];
    return true;
}

bool tpi_geometry_diagonal(tp_tensor *self, int64_t offset, int64_t dim1, int64_t dim2, tpi_geometry *out) {
    int a = TPI_DIM(self, dim1), b = a < 0 ? -1 : TPI_DIM(self, dim2);
    if (b < 0) return false;
    if (self->ndim < 2)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'self': expected at least 2 dimensions, got shape %s",
                          tpi_shape_text(tpi_shape(self)));
    start_from(self, out);
    int64_t length, start;
    if (!diagonal_of(out, a, b, offset, &length, &start)) return false;
    out->offset += start;
    drop_dim(out, a > b ? a : b);
    drop_dim(out, a > b ? b : a);
    put_dim(out, out->ndim, length, self->strides[a] + self->strides[b]);
    return true;
}

/* Sliding windows along a dim: that dim counts windows, a new last dim runs within one. */
bool tpi_geometry_unfold(tp_tensor *self, int64_t dimension, int64_t size, int64_t step, tpi_geometry *out) {
    int d = TPI_DIM(self, dimension);
    if (d < 0 || !dims_fit(self->ndim + 1)) return false;
    int64_t length = self->ndim ? self->shape[d] : 1, stride = self->ndim ? self->strides[d] : 1;
    if (size < 0) return tpi_refuse(TP_ERR_RUNTIME, "argument 'size': size is %lld but must be >= 0", (long long)size);
    if (size > length)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'size': maximum size for tensor at dimension %d is %lld but size is %lld", d,
                          (long long)length, (long long)size);
    if (step <= 0) return tpi_refuse(TP_ERR_RUNTIME, "argument 'step': step is %lld but must be > 0", (long long)step);
    start_from(self, out);
    if (self->ndim) {
        out->shape[d] = (length - size) / step + 1;
        out->strides[d] = tpi_size_times(stride, step);
    }
    put_dim(out, out->ndim, size, stride);
    return true;
}

bool tpi_geometry_as_strided(tp_tensor *self, tp_ints size, tp_ints stride, int64_t storage_offset, tpi_geometry *out) {
    if (!dims_fit(size.n)) return false;
    if (size.n != stride.n)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'stride': mismatch in length of strides and shape: expected %lld, one per "
                          "dimension of %s, got %lld",
                          (long long)size.n, tpi_shape_text(size), (long long)stride.n);
    int64_t numel = tpi_numel_of(size);
    if (numel < 0) return false;
    int64_t offset = storage_offset == TP_NONE ? tpi_offset(self) : storage_offset, last = offset;
    if (offset < 0)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'storage_offset': expected 0 or more, got %lld", (long long)offset);
    out->ndim = (int)size.n;
    out->offset = offset;
    for (int64_t d = 0; d < size.n; d++) {
        if (stride.v[d] < 0)
            return tpi_refuse(TP_ERR_RUNTIME,
                              "as_strided: Negative strides are not supported at the moment, got strides: %s",
                              tpi_shape_text(stride));
        out->shape[d] = size.v[d];
        out->strides[d] = stride.v[d];
        int64_t span;
        if (numel &&
            (__builtin_mul_overflow(size.v[d] - 1, stride.v[d], &span) || __builtin_add_overflow(last, span, &last)))
            return tpi_refuse(TP_ERR_RUNTIME, "argument 'stride': %s reaches further than memory can",
                              tpi_shape_text(stride));
    }
    int64_t have = (int64_t)(self->storage->bytes / tpi_itemsize(self));
    if (numel && last >= have)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "argument 'size': shape %s with strides %s from element %lld needs %lld elements, the storage has %lld",
            tpi_shape_text(size), tpi_shape_text(stride), (long long)offset, (long long)tpi_size_plus(last, 1),
            (long long)have);
    return true;
}
