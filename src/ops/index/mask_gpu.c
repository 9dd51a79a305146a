/* Masks on GPUs whose results' shapes are known, so that the host need not wait: an element of the mask takes part by
 * how many are true before it. */
#include "ops/temporaries.h"
#include "ops/native_gpu.h"
#include "tpi_ops.h"

/* A mask broadcast to the shape, one-dimensional, contiguous; and for each of its elements how many are true before it,
 * where it is. */
typedef struct counted {
    tpi_temporaries temps;
    tp_tensor *mask, *before;
} counted;

static bool count(counted *c, tp_tensor *mask, tp_ints shape) {
    *c = (counted){.mask = NULL};
    tp_tensor *wide = mask->dtype == TP_BOOL ? tpi_put(&c->temps, tpi_expanded(mask, shape)) : NULL;
    c->mask = wide ? tpi_put(&c->temps, tpo_reshape(wide, TP_INTS(-1))) : NULL;
    tp_tensor *sums = c->mask ? tpi_put(&c->temps, tpo_cumsum(c->mask, 0, TP_INT64)) : NULL;
    c->before = sums ? tpi_put(&c->temps, tpo_sub(TP_OPERAND(sums), tp_operand_int(1), tp_int(1))) : NULL;
    return c->before;
}

/* `plain` (a tensor of the shape, or a number) where the mask is false, elsewhere the elements of part in their order.
 */
static tp_tensor *spread(tp_tensor *mask, tp_tensor *part, tp_operand rest, tp_ints shape) {
    counted c;
    tp_tensor *out = NULL;
    if (count(&c, mask, shape)) {
        tp_tensor *from = tpi_put(&c.temps, tpo_clamp_min(c.before, tp_operand_int(0))),
                  *alone = tpi_put(&c.temps, tpi_detached(part));
        tp_tensor *values = from && alone ? tpi_put(&c.temps, tpo_take(alone, from)) : NULL,
                  *shaped = tpi_put(&c.temps, tpo_reshape(values, shape));
        tp_tensor *where = shaped ? tpi_put(&c.temps, tpo_reshape(c.mask, shape)) : NULL;
        out = where ? tpo_where(where, TP_OPERAND(shaped), rest) : NULL;
    }
    return tpi_release_temporaries(&c.temps, out);
}

tpi_served tpi_gpu_masked_scatter(tp_tensor *self, tp_tensor *mask, tp_tensor *source, tp_tensor **result) {
    int64_t shape[TP_MAX_DIMS];
    int ndim;
    if (source->dtype != self->dtype || !source->numel ||
        !tpi_broadcast(tpi_shape(self), tpi_shape(mask), shape, &ndim)) {
        tp_error_clear();
        return TPI_DECLINED;
    }
    tp_tensor *alone = tpi_detached(self);
    return tpi_serve(alone ? tpi_release_then(alone, spread(mask, source, TP_OPERAND(alone), tp_ints_view(shape, ndim)))
                           : NULL,
                     result);
}

tpi_served tpi_gpu_masked_select_backward(tp_tensor *grad, tp_ints size, tp_tensor *mask, tp_tensor **result) {
    int64_t shape[TP_MAX_DIMS];
    int ndim;
    if (!tpi_broadcast(size, tpi_shape(mask), shape, &ndim)) {
        tp_error_clear();
        return TPI_DECLINED;
    }
    if (!grad->numel)
        return tpi_serve(tpo_zeros(tp_ints_view(shape, ndim), (tp_dtype)grad->dtype, tpi_device(grad)), result);
    return tpi_serve(spread(mask, grad, tp_operand_int(0), tp_ints_view(shape, ndim)), result);
}

/* values of the mask's elements that are true, one behind the other, in `size` elements that are `rest` otherwise; what
 * does not fit is left out. Owned. */
static tp_tensor *packed(counted *c, tp_tensor *values, int64_t size, tp_scalar rest) {
    tp_tensor *padded = tpi_put(&c->temps, tpo_full(TP_INTS(size + 1), rest, (tp_dtype)values->dtype,
                                                    tpi_device(values))); /* one more, for the others */
    tp_tensor *to = padded ? tpi_put(&c->temps, tpo_where(c->mask, TP_OPERAND(c->before), TP_OPERAND(size))) : NULL,
              *within = to ? tpi_put(&c->temps, tpo_clamp_max(to, TP_OPERAND(size))) : NULL;
    tp_tensor *out = within && tpo_scatter_(padded, 0, within, values)
                         ? tpi_empty(TP_INTS(size), (tp_dtype)values->dtype, tpi_device(values))
                         : NULL;
    tp_tensor *part = out ? tpi_put(&c->temps, tpi_narrowed(padded, 0, 0, size)) : NULL;
    return part && (!size || tpi_copy_data(out, part)) ? out : tpi_release_then(out, NULL);
}

tpi_served tpi_gpu_masked_scatter_backward(tp_tensor *grad, tp_tensor *mask, tp_ints size, tp_tensor **result) {
    int64_t n = tpi_numel_of(size);
    counted c;
    tp_tensor *out = NULL;
    if (n < 0 || !grad->numel || !tpi_gpu_has_dtype(grad)) {
        tp_error_clear();
        return TPI_DECLINED;
    }
    if (count(&c, mask, tpi_shape(grad))) {
        tp_tensor *alone = tpi_put(&c.temps, tpi_detached(grad)),
                  *line = tpi_put(&c.temps, tpo_reshape(alone, TP_INTS(-1)));
        out = line ? packed(&c, line, n, tp_int(0)) : NULL;
        tpi_geometry g = {.ndim = (int)size.n};
        memcpy(g.shape, size.v, sizeof *size.v * (size_t)size.n);
        tpi_contiguous_strides(size, g.strides);
        if (out && !tpi_set_geometry(out, &g)) out = tpi_release_then(out, NULL);
    }
    return tpi_serve(tpi_release_temporaries(&c.temps, out), result);
}

/* Positions among all elements first; their coordinates from those. */
tpi_served tpi_gpu_nonzero_static(tp_tensor *self, int64_t size, int64_t fill_value, tp_tensor **result) {
    counted c;
    if (size <= 0 || !self->ndim || self->ndim > 16 || !self->numel || !tpi_gpu_has_dtype(self)) return TPI_DECLINED;
    tp_tensor *alone = tpi_detached(self), *mask = alone ? tpo_ne(alone, tp_operand_int(0)) : NULL;
    tpi_release(alone);
    tp_tensor *out = mask && count(&c, mask, tpi_shape(self))
                         ? tpi_empty(TP_INTS(size, self->ndim), TP_INT64, tpi_device(self))
                         : NULL;
    if (!mask) return tpi_not_served();
    tp_tensor *all = out ? tpi_put(&c.temps, tpo_arange(tp_int(self->numel), TP_INT64, tpi_device(self))) : NULL,
              *at = all ? tpi_put(&c.temps, packed(&c, all, size, tp_int(-1))) : NULL;
    tp_tensor *none = at ? tpi_put(&c.temps, tpo_lt(at, tp_operand_int(0))) : NULL;
    bool ok = none;
    for (int d = self->ndim - 1; d >= 0 && ok; d--) {
        tp_tensor *index = tpo_remainder(TP_OPERAND(at), TP_OPERAND(self->shape[d])),
                  *filled = index ? tpo_masked_fill(index, none, tp_int(fill_value)) : NULL;
        tp_tensor *rest = filled ? tpo_floor_divide(TP_OPERAND(at), TP_OPERAND(self->shape[d])) : NULL,
                  *column = rest ? tpi_narrowed(out, 1, d, 1) : NULL;
        tp_tensor *upright = column ? tpi_alias(filled, 2, TP_INTS(size, 1).v, TP_INTS(1, 1).v, 0) : NULL;
        ok = upright && tpi_copy_data(column, upright);
        tpi_release(index);
        tpi_release(filled);
        tpi_release(column);
        tpi_release(upright);
        if (rest) at = tpi_put(&c.temps, rest);
    }
    tpi_release(mask);
    return tpi_serve(tpi_release_temporaries(&c.temps, ok ? out : tpi_release_then(out, NULL)), result);
}
