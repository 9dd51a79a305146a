/* Linear algebra composed of other operators: unpacking and solving with LU, ormqr, matrix norms, condition numbers,
 * tensor inverses and Vandermonde matrices. They differentiate themselves. */
#include "ops/formula.h"
#include "ops/native.h"
#include <math.h>

/* ---- LU ---- */

/* An empty tensor, for results that were not asked for. */
static tp_tensor *nothing(const tp_tensor *like) {
    return tpi_empty(TP_INTS(0), (tp_dtype)like->dtype, tpi_device(like));
}

bool tpi_compose_lu_unpack(tp_tensor *LU_data, tp_tensor *LU_pivots, bool unpack_data, bool unpack_pivots,
                           tp_tensor **out) {
    if (LU_data->ndim < 2)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'LU_data': expected at least 2 dimensions, got shape %s",
                          tpi_shape_text(tpi_shape(LU_data)));
    int64_t m = row_count(LU_data), n = column_count(LU_data), k = m < n ? m : n;
    tpi_temporaries temps = {0};
    out[0] = unpack_pivots ? tpo_lu_permutation(LU_pivots, m, (tp_dtype)LU_data->dtype) : nothing(LU_data);
    if (unpack_data) {
        tp_tensor *l = column_range(&temps, LU_data, 0, k), *u = row_range(&temps, LU_data, 0, k);
        out[1] = tpi_retain(plus(&temps, lower(&temps, l, -1), identity(&temps, m, k, LU_data)));
        out[2] = tpo_triu(u, 0);
    } else {
        out[1] = nothing(LU_data);
        out[2] = nothing(LU_data);
    }
    tpi_release_temporaries(&temps, NULL);
    if (out[0] && out[1] && out[2]) return true;
    for (int i = 0; i < 3; i++) {
        tpi_release(out[i]);
        out[i] = NULL;
    }
    return false;
}

/* A = P L U. A X = B: X = U^-1 L^-1 P^T B; with A^H: X = P L^-H U^-H B. On the right side the adjoint of the whole is
 * solved. */
tp_tensor *tpi_compose_lu_solve(tp_tensor *LU, tp_tensor *pivots, tp_tensor *B, bool left, bool adjoint_too) {
    tp_tensor *parts[3];
    if (!tpo_lu_unpack(LU, pivots, true, true, parts)) return NULL;
    tpi_temporaries temps = {0};
    for (int i = 0; i < 3; i++) tpi_put(&temps, parts[i]);
    tp_tensor *p = parts[0], *l = parts[1], *u = parts[2], *b = left ? B : adjoint(&temps, B), *x;
    if (adjoint_too == left) {
        tp_tensor *y =
            solved(&temps, adjoint(&temps, l), solved(&temps, adjoint(&temps, u), b, false, false), true, true);
        x = product(&temps, p, y);
    } else {
        tp_tensor *pb = product(&temps, tpi_put(&temps, tpo_transpose(p, -2, -1)), b);
        x = solved(&temps, u, solved(&temps, l, pb, false, true), true, false);
    }
    return tpi_release_temporaries(&temps, left ? tpi_retain(x) : tpo_adjoint_physical(x));
}

/* The full Q is the product of the reflectors padded to a square. */
tp_tensor *tpi_compose_ormqr(tp_tensor *self, tp_tensor *tau, tp_tensor *other, bool left, bool transpose) {
    if (self->ndim < 2 || other->ndim < 2)
        return tpi_fail(TP_ERR_RUNTIME,
                        "arguments 'self' and 'input3': expected at least 2 dimensions, got shapes %s and %s",
                        tpi_shape_text(tpi_shape(self)), tpi_shape_text(tpi_shape(other)));
    tpi_temporaries temps = {0};
    int64_t m = row_count(self), n = column_count(self), shape[TP_MAX_DIMS];
    tp_tensor *square = self;
    if (m > n) {
        memcpy(shape, self->shape, sizeof *shape * (size_t)self->ndim);
        shape[self->ndim - 1] = m - n;
        tp_tensor *zeros =
            tpi_put(&temps, tpo_zeros(tp_ints_view(shape, self->ndim), (tp_dtype)self->dtype, tpi_device(self)));
        square = joined(&temps, self, zeros, -1);
    } else if (m < n)
        square = column_range(&temps, self, 0, m); /* there are no reflectors further on */
    tp_tensor *q = tpi_put(&temps, tpo_linalg_householder_product(square, tau));
    if (transpose) q = adjoint(&temps, q);
    return tpi_release_temporaries(&temps, left ? tpo_matmul(q, other) : tpo_matmul(other, q));
}

/* ---- Norms ---- */

static tp_tensor *in_dtype(tpi_temporaries *temps, tp_tensor *t, tp_dtype dtype) {
    return dtype ? tpi_put(temps, tpo_to_dtype(t, dtype)) : t;
}

static bool matrix_dims(const tp_tensor *t, tp_ints dim, int *row, int *column) {
    if (t->ndim < 2)
        return tpi_refuse(TP_ERR_RUNTIME, "linalg.matrix_norm: The input tensor A must have at least 2 dimensions.");
    if (dim.n != 2)
        return tpi_refuse(TP_ERR_RUNTIME, "linalg.matrix_norm: dim must be a 2-tuple. Got %s", tpi_shape_text(dim));
    *row = TPI_DIM(t, dim.v[0]);
    *column = *row < 0 ? -1 : TPI_DIM(t, dim.v[1]);
    if (*row < 0 || *column < 0) return false;
    return *row != *column || tpi_refuse(TP_ERR_RUNTIME, "linalg.matrix_norm: dims must be different. Got (%lld, %lld)",
                                         (long long)dim.v[0], (long long)dim.v[1]);
}

/* The singular values of the matrices along two dims, along the last dim. */
static tp_tensor *singular_values(tpi_temporaries *temps, tp_tensor *t, int row, int column) {
    tp_tensor *last = tpi_put(temps, tpo_movedim(t, TP_INTS(row, column), TP_INTS(-2, -1)));
    return tpi_put(temps, tpo_linalg_svdvals(last, NULL));
}

static tp_tensor *keep_dims(tpi_temporaries *temps, tp_tensor *t, int row,
                            int column) { /* puts both dims back, with size 1 */
    int first = row < column ? row : column, second = row < column ? column : row;
    return tpi_put(temps, tpo_unsqueeze(tpi_put(temps, tpo_unsqueeze(t, first)), second));
}

/* The largest of sizes along a dim: of none it is zero, as PyTorch has it, while none is the smallest of none. */
static tp_tensor *largest_of(tp_tensor *sizes, int64_t dim, bool keepdim) {
    return sizes && sizes->shape[dim < 0 ? dim + sizes->ndim : dim] == 0
               ? tpo_sum(sizes, TP_INTS(dim), keepdim, TP_NO_DTYPE)
               : tpo_amax(sizes, TP_INTS(dim), keepdim);
}

static tp_tensor *singular_norm(tp_tensor *x, int row, int column, char which, bool keepdim) {
    tpi_temporaries temps = {0};
    tp_tensor *s = singular_values(&temps, x, row, column);
    tp_tensor *r = tpi_put(&temps, which == '+'   ? tpo_sum(s, TP_INTS(-1), false, TP_NO_DTYPE)
                                   : which == '>' ? largest_of(s, -1, false)
                                                  : tpo_amin(s, TP_INTS(-1), false));
    return tpi_release_temporaries(&temps, tpi_retain(keepdim ? keep_dims(&temps, r, row, column) : r));
}

/* The largest or smallest sum of sizes: of columns (ord 1) or rows (inf). */
static tp_tensor *sum_norm(tp_tensor *x, int along, int across, bool largest, bool keepdim) {
    tpi_temporaries temps = {0};
    tp_tensor *sums = tpi_put(&temps, tpo_sum(tpi_put(&temps, tpo_abs(x)), TP_INTS(along), keepdim, TP_NO_DTYPE));
    int64_t dim = !keepdim && across > along ? across - 1 : across;
    return tpi_release_temporaries(&temps,
                                   largest ? largest_of(sums, dim, keepdim) : tpo_amin(sums, TP_INTS(dim), keepdim));
}

tp_tensor *tpi_compose_matrix_norm(tp_tensor *self, tp_scalar ord, tp_ints dim, bool keepdim, tp_dtype dtype) {
    int row, column;
    if (!matrix_dims(self, dim, &row, &column)) return NULL;
    double p = tp_scalar_to_double(ord), size = fabs(p);
    if (size != 1 && size != 2 && !isinf(p))
        return tpi_fail(TP_ERR_RUNTIME, "linalg.matrix_norm: Order %g not supported.", p);
    tpi_temporaries temps = {0};
    tp_tensor *x = in_dtype(&temps, self, dtype);
    if (!x) return NULL;
    tp_tensor *r = size == 2   ? singular_norm(x, row, column, p > 0 ? '>' : '<', keepdim)
                   : size == 1 ? sum_norm(x, row, column, p > 0, keepdim)
                               : sum_norm(x, column, row, p > 0, keepdim);
    return tpi_release_temporaries(&temps, r);
}

tp_tensor *tpi_compose_matrix_norm_str(tp_tensor *self, const char *ord, tp_ints dim, bool keepdim, tp_dtype dtype) {
    int row, column;
    bool nuclear = !strcmp(ord, "nuc");
    if (!nuclear && strcmp(ord, "fro"))
        return tpi_fail(TP_ERR_RUNTIME, "linalg.matrix_norm: Order %s not supported.", ord);
    if (!matrix_dims(self, dim, &row, &column)) return NULL;
    if (!nuclear) return tpo_linalg_vector_norm(self, tp_int(2), dim, keepdim, dtype);
    tpi_temporaries temps = {0};
    tp_tensor *x = in_dtype(&temps, self, dtype);
    return x ? tpi_release_temporaries(&temps, singular_norm(x, row, column, '+', keepdim)) : NULL;
}

bool tpi_native_norm_has_identity(tp_tensor *self, tp_scalar ord, tp_ints dim, bool *out) {
    if (ord.kind == TP_SCALAR_COMPLEX)
        return tpi_refuse(TP_ERR_RUNTIME, "linalg.vector_norm: Expected a non-complex scalar as the order of norm.");
    double order = ord.kind == TP_SCALAR_NONE ? 2 : tp_scalar_to_double(ord);
    *out = self->numel || (order >= 0 && order != INFINITY);
    if (*out || !dim.v || !dim.n) return true;
    *out = true; /* the result may have no elements either */
    for (int64_t i = 0; i < dim.n; i++) {
        int d = TPI_DIM(self, dim.v[i]);
        if (d < 0) return false;
        if (self->ndim && self->shape[d] == 0) *out = false;
    }
    return true;
}

tp_tensor *tpi_compose_norm(tp_tensor *self, tp_scalar ord, tp_ints dim, bool keepdim, tp_dtype dtype) {
    bool given = ord.kind != TP_SCALAR_NONE;
    if (dim.v && dim.n != 1 && dim.n != 2)
        return tpi_fail(TP_ERR_RUNTIME, "linalg.norm: If dim is specified, it must be of length 1 or 2. Got %s",
                        tpi_shape_text(dim));
    if (given && dim.v ? dim.n == 2 : given && self->ndim == 2)
        return tpo_linalg_matrix_norm(self, ord, dim.v ? dim : TP_INTS(-2, -1), keepdim, dtype);
    if (given && !dim.v && self->ndim > 2)
        return tpi_fail(TP_ERR_RUNTIME,
                        "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got %dD.",
                        self->ndim);
    return tpo_linalg_vector_norm(self, given ? ord : tp_int(2), dim, keepdim, dtype);
}

/* By singular values for 2 and -2, otherwise the norm times that of the inverse. */
tp_tensor *tpi_compose_cond(tp_tensor *self, tp_scalar p) {
    double order = p.kind == TP_SCALAR_NONE ? 2 : tp_scalar_to_double(p);
    tpi_temporaries temps = {0};
    if (order == 2 || order == -2) {
        tp_tensor *s = tpi_put(&temps, tpo_linalg_svdvals(self, NULL));
        if (!s) return NULL;
        int64_t k = column_count(s);
        if (!k) return tpi_release_temporaries(&temps, tpo_sum(s, TP_INTS(-1), false, TP_NO_DTYPE));
        tp_tensor *first = tpi_put(&temps, tpo_select(s, -1, 0)), *last = tpi_put(&temps, tpo_select(s, -1, k - 1));
        return tpi_release_temporaries(&temps, order > 0 ? tpo_div(TP_OPERAND(first), TP_OPERAND(last))
                                                         : tpo_div(TP_OPERAND(last), TP_OPERAND(first)));
    }
    tp_tensor *parts[2] = {NULL};
    if (!tpo_linalg_inv_ex(self, false, parts)) return NULL;
    tp_tensor *inverse = tpi_put(&temps, parts[0]),
              *info = tpi_put(&temps, parts[1]); /* a singular matrix's number is infinite, not an error */
    tp_tensor *a = tpi_put(&temps, tpo_linalg_matrix_norm(self, p, TP_INTS(-2, -1), false, TP_NO_DTYPE));
    tp_tensor *b = tpi_put(&temps, tpo_linalg_matrix_norm(inverse, p, TP_INTS(-2, -1), false, TP_NO_DTYPE));
    tp_tensor *number = tpi_put(&temps, tpo_mul(TP_OPERAND(a), TP_OPERAND(b))),
              *singular = tpi_put(&temps, tpo_ne(info, TP_OPERAND(0)));
    return tpi_release_temporaries(&temps, tpo_masked_fill(number, singular, tp_float(INFINITY)));
}

/* ---- Tensor inverses, Vandermonde ---- */

static int64_t sizes(const int64_t *v, int n) {
    int64_t product_of_them = 1;
    for (int i = 0; i < n; i++) product_of_them *= v[i];
    return product_of_them;
}

tp_tensor *tpi_compose_tensorinv(tp_tensor *self, int64_t ind) {
    if (ind < 1 || ind > self->ndim || sizes(self->shape, (int)ind) != sizes(self->shape + ind, self->ndim - (int)ind))
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'ind': expected a split of shape %s into two parts of equal size, got %lld",
                        tpi_shape_text(tpi_shape(self)), (long long)ind);
    int64_t n = sizes(self->shape, (int)ind), shape[TP_MAX_DIMS];
    int right = self->ndim - (int)ind;
    memcpy(shape, self->shape + ind, sizeof *shape * (size_t)right);
    memcpy(shape + right, self->shape, sizeof *shape * (size_t)ind);
    tpi_temporaries temps = {0};
    tp_tensor *square = tpi_put(&temps, tpo_reshape(self, TP_INTS(n, n)));
    return tpi_release_temporaries(
        &temps, tpo_reshape(tpi_put(&temps, tpo_linalg_inv(square)), tp_ints_view(shape, self->ndim)));
}

tp_tensor *tpi_compose_tensorsolve(tp_tensor *self, tp_tensor *other, tp_ints dims) {
    tpi_temporaries temps = {0};
    tp_tensor *a = self;
    if (dims.v && dims.n) { /* these dims go to the end, in the order given */
        int64_t end[TP_MAX_DIMS];
        if (dims.n > self->ndim) return tpi_fail(TP_ERR_RUNTIME, "argument 'dims': more dims than the tensor has");
        for (int64_t i = 0; i < dims.n; i++) end[i] = i - dims.n;
        a = tpi_put(&temps, tpo_movedim(self, dims, tp_ints_view(end, dims.n)));
        if (!a) return NULL;
    }
    int right = a->ndim - other->ndim;
    int64_t n = other->numel;
    if (right < 0 || sizes(a->shape, other->ndim) != n || sizes(a->shape + other->ndim, right) != n)
        return tpi_release_temporaries(
            &temps,
            tpi_fail(TP_ERR_RUNTIME,
                     "arguments 'self' and 'other': expected self to be square over other's dims, got shapes %s and %s",
                     tpi_shape_text(tpi_shape(self)), tpi_shape_text(tpi_shape(other))));
    tp_tensor *matrix = tpi_put(&temps, tpo_reshape(a, TP_INTS(n, n))),
              *b = tpi_put(&temps, tpo_reshape(other, TP_INTS(n)));
    tp_tensor *x = matrix && b ? tpi_put(&temps, tpo_linalg_solve(matrix, b, true)) : NULL;
    return tpi_release_temporaries(&temps, tpo_reshape(x, tp_ints_view(a->shape + other->ndim, right)));
}

/* 1, x, x^2, ... by repeated products, which keeps integers exact. */
tp_tensor *tpi_compose_linalg_vander(tp_tensor *x, int64_t N) {
    bool whole = tpi_dtype_category[x->dtype] & (TPI_CAT_BOOL | TPI_CAT_INT) && x->dtype != TP_INT64;
    if (x->ndim < 1 || whole) { /* powers of whole numbers are int64 */
        tp_tensor *as = x->ndim < 1 ? tpo_unsqueeze(x, 0) : tpo_to_dtype(x, TP_INT64);
        return as ? tpi_release_then(as, tpi_compose_linalg_vander(as, N)) : NULL;
    }
    int64_t n = N == TP_NONE ? x->shape[x->ndim - 1] : N;
    if (n < 2) return tpi_fail(TP_ERR_VALUE, "argument 'N': expected more than 1, got %lld", (long long)n);
    if (n > INT32_MAX)
        return tpi_fail(TP_ERR_VALUE, "argument 'N': expected at most %d, got %lld", INT32_MAX, (long long)n);
    tp_tensor **power = tpi_new0(sizeof *power * (size_t)n);
    if (!power) return NULL;
    power[0] = tpo_ones_like(x, TP_NO_DTYPE, (tp_device){0}, TP_PRESERVE);
    for (int64_t i = 1; i < n && power[i - 1]; i++) power[i] = tpo_mul(TP_OPERAND(power[i - 1]), TP_OPERAND(x));
    tp_tensor *out = power[n - 1] ? tpo_stack((tp_tensors){power, n}, -1) : NULL;
    for (int64_t i = 0; i < n; i++) tpi_release(power[i]);
    tpi_delete(power, sizeof *power * (size_t)n);
    return out;
}

/* ---- Thresholds given as tensors ---- */
/* max(atol, rtol * the largest singular value), in a shape that broadcasts against the values (..., k). */
static tp_tensor *thresholds(tpi_temporaries *temps, tp_tensor *matrices, tp_tensor *values, tp_tensor *atol,
                             tp_tensor *rtol) {
    if (column_count(values) == 0) return values; /* no values, and none is above another */
    tp_tensor *limit = NULL;
    if (rtol || !atol) {
        int64_t m = row_count(matrices), n = column_count(matrices);
        double eps = values->dtype == TP_FLOAT32 ? 1.1920928955078125e-07 : 2.220446049250313e-16;
        tp_tensor *largest = tpi_put(temps, tpo_amax(values, TP_INTS(-1), true)),
                  *part = largest && rtol ? as_column(temps, rtol) : NULL;
        if (largest && (part || !rtol))
            limit = tpi_put(temps, tpo_mul(TP_OPERAND(largest),
                                           part ? TP_OPERAND(part) : tp_operand_double((double)(m > n ? m : n) * eps)));
        if (!limit || !atol) return limit;
    }
    tp_tensor *column = as_column(temps, atol),
              *least = column ? tpi_put(temps, tpo_to_dtype(column, (tp_dtype)values->dtype)) : NULL;
    return limit && least ? tpi_put(temps, tpo_maximum(least, limit)) : least;
}

static bool check_matrices(const tp_tensor *t) {
    return t->ndim >= 2 ||
           tpi_refuse(TP_ERR_RUNTIME,
                      "argument 'self': The input tensor A must have at least 2 dimensions. Got shape %s",
                      tpi_shape_text(tpi_shape(t)));
}

tp_tensor *tpi_compose_matrix_rank_tensor(tp_tensor *self, tp_tensor *atol, tp_tensor *rtol, bool hermitian) {
    if (!check_matrices(self)) return NULL;
    tpi_temporaries temps = {0};
    tp_tensor *values = tpi_put(&temps, hermitian ? tpo_linalg_eigvalsh(self, "L") : tpo_linalg_svdvals(self, NULL));
    if (hermitian && values) values = tpi_put(&temps, tpo_abs(values));
    tp_tensor *limit = values ? thresholds(&temps, self, values, atol, rtol) : NULL;
    tp_tensor *above = limit ? tpi_put(&temps, tpo_gt(values, TP_OPERAND(limit))) : NULL;
    return tpi_release_temporaries(&temps, above ? tpo_sum(above, TP_INTS(-1), false, TP_NO_DTYPE) : NULL);
}

tp_tensor *tpi_compose_pinv_tensor(tp_tensor *self, tp_tensor *atol, tp_tensor *rtol, bool hermitian) {
    if (!check_matrices(self)) return NULL;
    tpi_temporaries temps = {0};
    tp_tensor *part[3] = {NULL}, *u, *s, *vh;
    if (hermitian) {
        if (!tpo_linalg_eigh(self, "L", part)) return NULL;
        s = tpi_put(&temps, part[0]);
        u = tpi_put(&temps, part[1]);
        vh = adjoint(&temps, u);
    } else {
        if (!tpo_linalg_svd(self, false, NULL, part)) return NULL;
        u = tpi_put(&temps, part[0]);
        s = tpi_put(&temps, part[1]);
        vh = tpi_put(&temps, part[2]);
    }
    tp_tensor *size = hermitian ? tpi_put(&temps, tpo_abs(s)) : s,
              *limit = size ? thresholds(&temps, self, size, atol, rtol) : NULL;
    tp_tensor *kept = limit ? tpi_put(&temps, tpo_gt(size, TP_OPERAND(limit))) : NULL,
              *inverse = kept ? tpi_put(&temps, tpo_reciprocal(s)) : NULL;
    tp_tensor *weights = inverse ? tpi_put(&temps, tpo_where(kept, TP_OPERAND(inverse), tp_operand_int(0))) : NULL;
    tp_tensor *right = weights ? times(&temps, as_column(&temps, weights), adjoint(&temps, u)) : NULL;
    return tpi_release_temporaries(&temps, right ? tpo_matmul(adjoint(&temps, vh), right) : NULL);
}

tp_tensor *tpi_compose_norm_except_dim(tp_tensor *v, int64_t power, int64_t dim) {
    if (dim == -1) return tpo_norm(v, tp_int(power), tp_no_ints(), false, TP_NO_DTYPE);
    int kept = TPI_DIM(v, dim);
    if (kept < 0) return NULL;
    int64_t others[TP_MAX_DIMS], n = 0;
    for (int d = 0; d < v->ndim; d++)
        if (d != kept) others[n++] = d;
    return n ? tpo_norm(v, tp_int(power), tp_ints_view(others, n), true, TP_NO_DTYPE) : tpo_abs(v);
}
