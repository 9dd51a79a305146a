/* The iteration plan: broadcasts operands to one shape, drops dims of size one, orders the rest as PyTorch's iterator
 * does (so that results and rounding orders agree) and merges neighbours that every operand walks as one. Allocates
 * nothing.
 *
 * Most calls are contiguous tensors of one shape, perhaps with one-element operands: these become one dimension at
 * once. */
#include "tensor/plan.h"

static bool shape_is(const tp_tensor *t, tp_ints shape) {
    if (t->ndim != shape.n) return false;
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] != shape.v[i]) return false;
    return true;
}

static bool not_shaped(const tp_tensor *t, int operand, bool output, tp_ints shape) {
    const char *format = output ? "output %d: expected shape %s, got %s"
                                : "operand %d: cannot be broadcast to shape %s, its shape is %s";
    return tpi_refuse(TP_ERR_RUNTIME, format, operand, tpi_shape_text(shape), tpi_shape_text(tpi_shape(t)));
}

/* The number of elements if t has exactly this shape and is contiguous (and not empty), otherwise -1. */
static inline int64_t flat_numel(const tp_tensor *t, tp_ints shape) {
    if (t->ndim != shape.n) return -1;
    int64_t step = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        int64_t size = t->shape[i];
        if (size != shape.v[i] || (size != 1 && t->strides[i] != step)) return -1;
        step *= size;
    }
    return step > 0 ? step : -1;
}

/* One pass: true when every operand is either contiguous with exactly `shape`, or an input of one element. */
static bool make_flat(tpi_plan *p, tp_ints shape, tp_tensor *const *operands) {
    p->numel = flat_numel(operands[0], shape);
    if (p->numel < 0) return false;
    for (int k = 0; k < p->nargs; k++) {
        const tp_tensor *t = operands[k];
        bool broadcast = k >= p->nout && t->numel == 1 && t->ndim <= shape.n;
        if (!broadcast && k > 0 && flat_numel(t, shape) < 0) return false;
        p->stride[k][0] = broadcast ? 0 : (int64_t)tpi_itemsize(t);
    }
    p->ndim = p->numel == 1 ? 0 : 1;
    p->shape[0] = p->numel;
    return true;
}

/* Strides in bytes of an operand seen with `shape`; 0 where it is broadcast. */
static bool broadcast_strides(const tp_tensor *t, tp_ints shape, int64_t *strides) {
    int64_t lead = shape.n - t->ndim, item = (int64_t)tpi_itemsize(t);
    if (lead < 0) return false;
    for (int64_t i = 0; i < lead; i++) strides[i] = 0;
    for (int64_t i = lead; i < shape.n; i++) {
        int64_t size = t->shape[i - lead];
        if (size != shape.v[i] && size != 1) return false;
        strides[i] = size == 1 || t->numel == 0 ? 0 : t->strides[i - lead] * item;
    }
    return true;
}

static bool mergeable(const tpi_plan *p, int inner, int outer) {
    for (int k = 0; k < p->nargs; k++)
        if (p->stride[k][inner] * p->shape[inner] != p->stride[k][outer]) return false;
    return true;
}

/* Dims come in the order of `perm`, those of size one are left out, and a dim that continues the one before joins it.
 */
static void order_and_merge(tpi_plan *p, int ndim, const int64_t *shape, int64_t strides[][TP_MAX_DIMS],
                            const int *perm) {
    p->ndim = 0;
    for (int i = 0; i < ndim; i++) {
        int dim = perm[i], at = p->ndim;
        if (shape[dim] == 1) continue;
        p->shape[at] = shape[dim];
        for (int k = 0; k < p->nargs; k++) p->stride[k][at] = strides[k][dim];
        if (at > 0 && mergeable(p, at - 1, at))
            p->shape[at - 1] *= shape[dim];
        else
            p->ndim++;
    }
}

static bool make_general(tpi_plan *p, tp_ints shape, tp_tensor *const *operands) {
    int64_t strides[TPI_MAX_OPERANDS][TP_MAX_DIMS];
    const int64_t *rows[TPI_MAX_OPERANDS];
    p->numel = tpi_numel_of(shape);
    if (p->numel < 0) return false;
    for (int k = 0; k < p->nargs; k++) {
        bool output = k < p->nout;
        if (output && !shape_is(operands[k], shape)) return not_shaped(operands[k], k, true, shape);
        if (!broadcast_strides(operands[k], shape, strides[k])) return not_shaped(operands[k], k, false, shape);
        rows[k] = strides[k];
    }
    if (p->numel < 2) { /* nothing, or one element whatever the dims: the strides are there for drivers that look */
        p->ndim = 1 - (int)p->numel;
        p->shape[0] = p->numel;
        for (int k = 0; k < p->nargs; k++) p->stride[k][0] = (int64_t)tpi_itemsize(operands[k]);
        return true;
    }
    int perm[TP_MAX_DIMS];
    tpi_order_dims((int)shape.n, shape.v, p->nargs, rows, perm);
    order_and_merge(p, (int)shape.n, shape.v, strides, perm);
    return true;
}

bool tpi_plan_make(tpi_plan *p, tp_ints shape, int nout, int nargs, tp_tensor *const *operands) {
    if (nargs < 1 || nargs > TPI_MAX_OPERANDS)
        return tpi_refuse(TP_ERR_RUNTIME, "expected 1 to %d operands, got %d", TPI_MAX_OPERANDS, nargs);
    if (shape.n > TP_MAX_DIMS)
        return tpi_refuse(TP_ERR_RUNTIME, "expected at most %d dimensions, got %lld", TP_MAX_DIMS, (long long)shape.n);
    p->nout = nout;
    p->nargs = nargs;
    p->numbers = 0;
    for (int k = 0; k < nargs; k++) {
        p->data[k] = operands[k]->data;
        p->dtype[k] = operands[k]->dtype;
    }
    return make_flat(p, shape, operands) || make_general(p, shape, operands);
}

int64_t tpi_plan_seek(const tpi_plan *p, int64_t at, char **data) {
    for (int k = 0; k < p->nargs; k++) data[k] = p->data[k];
    if (p->numel - at <= 0) return 0;
    if (p->ndim == 0) return 1;
    int64_t follow = 0;
    for (int d = 0; d < p->ndim; d++) {
        int64_t next = d + 1 < p->ndim ? at / p->shape[d] : 0, index = at - next * p->shape[d];
        if (d == 0) follow = p->shape[0] - index;
        for (int k = 0; k < p->nargs; k++) data[k] += index * p->stride[k][d];
        at = next;
    }
    return follow;
}
