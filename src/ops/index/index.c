/* Natives of indexing by tensors: index, index_put, index_select and the index_* writers, take and put. gather_index.c
 * does the work. */
#include "tensor/fits.h"
#include "ops/native.h"
#include "ops/index/gather_index.h"

/* ---- Reading ---- */
static tp_tensor *read_and_free(bool ok, tpi_gather_index *p) {
    tp_tensor *out = ok ? tpi_gather_index_read(p) : NULL;
    tpi_gather_index_free(p);
    return out;
}

/* Are whole channels-last images picked by their numbers? */
static bool selects_planes(const tp_tensor *self, tp_tensors indices) {
    return self->ndim == 4 && indices.n == 1 && indices.v[0] && indices.v[0]->ndim == 1 &&
           tp_is_contiguous_as(self, TP_CHANNELS_LAST) && !tp_is_contiguous_as(self, TP_CONTIGUOUS);
}

/* They keep the format: read with the channels behind, the result has them in front again. */
static tp_tensor *select_planes(tp_tensor *self, tp_tensors indices) {
    const int64_t *n = self->shape, *s = self->strides;
    tp_tensor *behind =
        tpi_alias(self, 4, (int64_t[]){n[0], n[2], n[3], n[1]}, (int64_t[]){s[0], s[2], s[3], s[1]}, tpi_offset(self));
    if (!behind) return NULL;
    tpi_gather_index p;
    tp_tensor *out = read_and_free(tpi_gather_index_advanced(&p, behind, indices), &p);
    tp_release(behind);
    if (!out) return NULL;
    tpi_geometry g = {.ndim = 4,
                      .shape = {out->shape[0], n[1], n[2], n[3]},
                      .strides = {n[1] * n[2] * n[3], 1, n[3] * n[1], n[1]},
                      .dtype = TP_NO_DTYPE};
    if (tpi_set_geometry(out, &g)) return out;
    tp_release(out);
    return NULL;
}

tp_tensor *tpi_native_index(tp_tensor *self, tp_tensors indices) {
    if (selects_planes(self, indices)) return select_planes(self, indices);
    tpi_gather_index p;
    return read_and_free(tpi_gather_index_advanced(&p, self, indices), &p);
}

tp_tensor *tpi_native_index_select(tp_tensor *self, int64_t dim, tp_tensor *index) {
    tpi_gather_index p;
    return read_and_free(tpi_gather_index_along(&p, self, dim, index, false), &p);
}

tp_tensor *tpi_native_take(tp_tensor *self, tp_tensor *index) {
    tpi_gather_index p;
    return read_and_free(tpi_gather_index_flat(&p, self, index), &p);
}

/* ---- Writing ---- */
static bool write_and_free(bool ok, tpi_gather_index *p, tpi_combine_op op, tp_tensor *values) {
    ok = ok && tpi_gather_index_write(p, op, values);
    tpi_gather_index_free(p);
    return ok;
}

bool tpi_native_index_put(tp_tensor *self, tp_tensors indices, tp_tensor *values, bool accumulate) {
    if (values->dtype != self->dtype)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "argument 'values': Index put requires the source and destination dtypes match, got %s for the "
            "destination and %s for the source.",
            tp_dtype_word((tp_dtype)self->dtype), tp_dtype_word((tp_dtype)values->dtype));
    tpi_gather_index p;
    return write_and_free(tpi_gather_index_advanced(&p, self, indices), &p, accumulate ? TPI_ADD : TPI_PUT, values);
}

/* source has self's shape with dim replaced by the index's length. */
static bool check_source(tp_tensor *self, int64_t dim, tp_tensor *index, tp_tensor *source) {
    if (!tpi_check_same_dtype(source, "source", self, "self")) return false;
    int d = TPI_DIM(self, dim);
    if (d < 0) return false;
    bool fits = source->ndim == self->ndim || (self->ndim <= 1 && source->ndim <= 1 && source->numel == index->numel);
    for (int i = 0; i < self->ndim && fits && source->ndim == self->ndim; i++)
        fits = source->shape[i] == (i == d ? index->numel : self->shape[i]);
    return fits ||
           tpi_refuse(
               TP_ERR_RUNTIME,
               "source tensor shape must match self tensor shape, excluding the specified dimension: expected %s "
               "with size %lld at dimension %d, got %s",
               tpi_shape_text(tpi_shape(self)), (long long)index->numel, d, tpi_shape_text(tpi_shape(source)));
}

bool tpi_native_index_copy(tp_tensor *self, int64_t dim, tp_tensor *index, tp_tensor *source) {
    if (!check_source(self, dim, index, source)) return false;
    /* One element may be a vector or a number, whatever self is. */
    int64_t one = 1;
    tp_tensor *shaped =
        source->ndim == self->ndim ? tpi_retain(source) : tpi_alias(source, self->ndim, &one, &one, tpi_offset(source));
    if (!shaped) return false;
    tpi_gather_index p;
    bool ok = write_and_free(tpi_gather_index_along(&p, self, dim, index, false), &p, TPI_PUT, shaped);
    tpi_release(shaped);
    return ok;
}

/* source * alpha, in source's dtype; owned. */
static tp_tensor *scaled(tp_tensor *source, tp_scalar alpha) {
    if (alpha.kind != TP_SCALAR_COMPLEX && tp_scalar_to_double(alpha) == 1) return tpi_retain(source);
    tp_tensor *copy = tpi_empty(tpi_shape(source), source->dtype, tpi_device(source)),
              *factor = copy ? tpi_of_scalar(alpha, source->dtype, tpi_device(source)) : NULL;
    bool ok = factor && tpi_copy_data(copy, source);
    if (ok) {
        int64_t zero = 0;
        tpi_indexed_block all = {.indexed = copy->data,
                                 .plain = factor->data,
                                 .index = &zero,
                                 .rows = 1,
                                 .cols = copy->numel,
                                 .indexed_col = (int64_t)tpi_itemsize(copy)};
        tpi_combine(TPI_MUL, copy->dtype, &all);
    }
    tpi_release(factor);
    return ok ? copy : tpi_release_then(copy, NULL);
}

bool tpi_native_index_add(tp_tensor *self, int64_t dim, tp_tensor *index, tp_tensor *source, tp_scalar alpha) {
    if (!check_source(self, dim, index, source)) return false;
    tp_tensor *terms = scaled(source, alpha);
    if (!terms) return false;
    tpi_gather_index p;
    bool ok = write_and_free(tpi_gather_index_along(&p, self, dim, index, false), &p, TPI_ADD, terms);
    tpi_release(terms);
    return ok;
}

bool tpi_native_index_fill_tensor(tp_tensor *self, int64_t dim, tp_tensor *index, tp_tensor *value) {
    if (index->dtype != TP_INT64 && index->dtype != TP_INT32)
        return tpi_refuse(TP_ERR_INDEX, "argument 'index': Expected dtype int64 for index, got %s",
                          tp_dtype_name((tp_dtype)index->dtype));
    if (value->ndim != 0)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'value': expected a zero-dimensional tensor, got shape %s",
                          tpi_shape_text(tpi_shape(value)));
    tp_tensor *same = tpi_as_dtype_data(value, self->dtype);
    if (!same) return false;
    tpi_gather_index p;
    bool ok = write_and_free(tpi_gather_index_along(&p, self, dim, index, true), &p, TPI_PUT, same);
    tpi_release(same);
    return ok;
}

bool tpi_native_index_fill(tp_tensor *self, int64_t dim, tp_tensor *index, tp_scalar value) {
    if (value.kind == TP_SCALAR_COMPLEX && !tp_dtype_is_complex((tp_dtype)self->dtype))
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'value': Converting complex Scalar to non-complex type is not supported");
    if (!tpi_check_fits(value, (tp_dtype)self->dtype)) return false;
    tp_tensor *t = tpi_of_scalar(value, self->dtype, tpi_device(self));
    bool ok = t && tpi_native_index_fill_tensor(self, dim, index, t);
    tpi_release(t);
    return ok;
}

bool tpi_native_put(tp_tensor *self, tp_tensor *index, tp_tensor *source, bool accumulate) {
    if (!tpi_check_same_dtype(source, "source", self, "self")) return false;
    if (source->numel != index->numel)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'source': expected %lld elements, one per index, got %lld",
                          (long long)index->numel, (long long)source->numel);
    int64_t strides[TP_MAX_DIMS];
    tpi_contiguous_strides(tpi_shape(index), strides);
    tp_tensor *flat = tpi_contiguous_data(source),
              *line = flat ? tpi_alias(flat, index->ndim, index->shape, strides, tpi_offset(flat)) : NULL;
    tpi_gather_index p;
    bool ok = line && write_and_free(tpi_gather_index_flat(&p, self, index), &p, accumulate ? TPI_ADD : TPI_PUT, line);
    tpi_release(line);
    tpi_release(flat);
    return ok;
}
