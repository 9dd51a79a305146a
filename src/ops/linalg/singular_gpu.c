/* What follows from singular values on GPUs: those themselves, with vectors or without, rank, pseudo-inverse and least
 * squares. Small matrices, and many, go by Jacobi's rotations (a block each), large ones by the driver's library; what
 * neither serves is the CPU's. */
#include <float.h>
#include <math.h>
#include "ops/temporaries.h"
#include "ops/linalg/factor_gpu.h"
#include "tpi_ops.h"

static const tpi_gpu_site jacobi_site = {"jacobi_gpu_kernel.h", "jacobi"};

/* A = left right^H: left has the columns U diag(S), right is V; S in no order. */
typedef struct singular {
    tp_tensor *left, *right, *values;
} singular;

static bool is_tall(const tp_tensor *A) { return tpi_rows_of(A) >= tpi_cols_of(A); }

/* The same by rotations, of which every thread of a block has a share. sorted: the values alone, from the largest;
 * NULL: all. */
static bool rotate(tpi_temporaries *temps, tp_tensor *A, singular *out, tp_tensor **sorted) {
    int m = (int)tpi_rows_of(A), n = (int)tpi_cols_of(A);
    tp_dtype real = tpi_dtype_to_real((tp_dtype)A->dtype);
    out->left = tpi_put(temps, tpi_columns_copy(A, tp_no_ints()));
    out->right = out->left && !sorted ? tpi_put(temps, tpi_columns_new(A, 2, n, n, (tp_dtype)A->dtype)) : NULL;
    out->values = out->left ? tpi_put(temps, tpi_rows_new(A, 2, n, real)) : NULL;
    if (sorted) *sorted = out->values ? tpi_put(temps, tpi_rows_new(A, 2, n, real)) : NULL;
    if (!out->values || !(sorted ? *sorted : out->right)) return false;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(out->left->data),
                                TPI_GPU_PTR(tpi_gpu_data(out->right)),
                                TPI_GPU_PTR(out->values->data),
                                TPI_GPU_PTR(sorted ? (*sorted)->data : NULL),
                                TPI_GPU_VAL(m),
                                TPI_GPU_VAL(n)};
    return tpi_gpu_each_matrix(
        (tpi_gpu_matrix_kernel){&jacobi_site, tpi_gpu_held(m, n) + (sorted ? 0 : tpi_gpu_held(n, n)), !sorted},
        out->left, 6, args);
}

/* Of A, which has no fewer rows than columns; `temps` owns the results. False without an error: not served. */
static bool decompose(tpi_temporaries *temps, tp_tensor *A, singular *out) {
    tp_tensor *made[3];
    if (tpi_gpu_solver_for(A)) {
        if (!tpi_gpu_library_svd(A, made)) return false;
        tp_tensor *u = tpi_put(temps, made[0]), *vh = tpi_put(temps, made[2]);
        out->values = tpi_put(temps, made[1]);
        out->right = tpi_put(temps, tpo_adjoint_physical(vh));
        tp_tensor *row = tpi_put(temps, tpo_unsqueeze(out->values, -2));
        out->left = row ? tpi_put(temps, tpo_mul(tp_operand_tensor(u), tp_operand_tensor(row))) : NULL;
        return out->left && out->right;
    }
    return tpi_gpu_blocks_fit(A) && rotate(temps, A, out, NULL);
}

/* A without its history, seen with no fewer rows than columns; hermitian: its lower triangle is all that is read, and
 * of the diagonal the real parts. */
static tp_tensor *tall(tpi_temporaries *temps, tp_tensor *A, bool hermitian) {
    tp_tensor *x = tpi_put(temps, tpi_detached(A));
    if (!x || (is_tall(x) && !hermitian)) return x;
    tp_tensor *adjoint = tpi_put(temps, tpo_adjoint_physical(x));
    if (!hermitian || !adjoint) return adjoint;
    tp_tensor *low = tpi_put(temps, tpo_tril(x, 0)), *high = low ? tpi_put(temps, tpo_triu(adjoint, 1)) : NULL;
    tp_tensor *whole =
        high ? tpi_put(temps, tpo_add(tp_operand_tensor(low), tp_operand_tensor(high), tp_int(1))) : NULL;
    if (!whole || !tp_dtype_is_complex((tp_dtype)A->dtype)) return whole;
    tp_tensor *diagonal = tpi_put(temps, tpo_diagonal(whole, 0, -2, -1)),
              *parts = diagonal ? tpi_put(temps, tpo_imag(diagonal)) : NULL;
    return parts && tpi_fill_data(parts, tp_int(0)) ? whole : NULL;
}

static bool can(const tp_tensor *A, bool hermitian) {
    return A->ndim >= 2 && A->numel && (!hermitian || tpi_rows_of(A) == tpi_cols_of(A)) &&
           (tpi_gpu_blocks_fit(A) || tpi_gpu_solver_for(A));
}

tpi_served tpi_gpu_svdvals(tp_tensor *A, tp_tensor **result) {
    tpi_temporaries temps = {0};
    singular s;
    tp_tensor *x = can(A, false) ? tall(&temps, A, false) : NULL, *values = NULL;
    if (x && tpi_gpu_solver_for(x))
        values = decompose(&temps, x, &s) ? s.values : NULL; /* which are in order */
    else if (x && !rotate(&temps, x, &s, &values))
        values = NULL;
    return tpi_serve(tpi_release_temporaries(&temps, tpi_retain(values)), result);
}

/* ---- With vectors ---- */
static tp_tensor *in_order(tpi_temporaries *temps, tp_tensor *columns, tp_tensor *order) {
    tp_tensor *row = tpi_put(temps, tpo_unsqueeze(order, -2));
    return row ? tpi_put(temps, tpo_take_along_dim(columns, row, -1)) : NULL;
}

/* U of the columns of U diag(S): their QR, which is that but for signs, and has for columns of zeros what a basis
 * lacks. full: all of a basis. */
static tp_tensor *unit_columns(tpi_temporaries *temps, tp_tensor *left, bool full) {
    tp_tensor *made[2];
    if (tpi_gpu_qr(left, full ? "complete" : "reduced", made) != TPI_SERVED) return NULL;
    tp_tensor *q = tpi_put(temps, made[0]), *r = tpi_put(temps, made[1]),
              *diagonal = tpi_put(temps, tpo_diagonal(r, 0, -2, -1));
    if (diagonal && tp_dtype_is_complex((tp_dtype)r->dtype))
        diagonal = tpi_put(temps, tpo_real(diagonal)); /* it has no other parts */
    tp_tensor *row = diagonal ? tpi_put(temps, tpo_unsqueeze(diagonal, -2)) : NULL,
              *below = row ? tpi_put(temps, tpo_lt(row, tp_operand_double(0))) : NULL;
    tp_tensor *sign = below ? tpi_put(temps, tpo_where(below, tp_operand_double(-1), tp_operand_double(1))) : NULL;
    tp_tensor *first = sign ? tpi_put(temps, tpi_narrowed(q, q->ndim - 1, 0, tpi_cols_of(left))) : NULL;
    return first && tpo_mul_(first, tp_operand_tensor(sign)) ? q : NULL;
}

/* Of x, which has no fewer rows than columns: out is U, S, V. False without an error: not served, or the CPU says why.
 */
static bool with_vectors(tpi_temporaries *temps, tp_tensor *x, bool full, tp_tensor **out) {
    tp_tensor *made[3], *sorted[2];
    singular s;
    bool square = tpi_rows_of(x) == tpi_cols_of(x);
    if (tpi_gpu_solver_for(x)) {
        if ((full && !square) || !tpi_gpu_library_svd(x, made)) return false;
        out[0] = tpi_put(temps, made[0]);
        out[1] = tpi_put(temps, made[1]);
        out[2] = tpi_put(temps, tpo_adjoint_physical(tpi_put(temps, made[2])));
        return out[2] != NULL;
    }
    if (tpi_cols_of(x) > TPI_GPU_MOST_ROTATED || !tpi_gpu_blocks_fit(x) || !rotate(temps, x, &s, NULL) ||
        !tpi_gpu_is_finite(temps, s.values))
        return false;
    if (!tpo_sort(s.values, -1, true, true, sorted)) return false;
    tp_tensor *order = tpi_put(temps, sorted[1]), *left = in_order(temps, s.left, order);
    out[1] = tpi_put(temps, sorted[0]);
    out[2] = left ? in_order(temps, s.right, order) : NULL;
    out[0] = out[2] ? unit_columns(temps, left, full && !square) : NULL;
    return out[0] != NULL;
}

tpi_served tpi_gpu_svd(tp_tensor *A, bool full_matrices, tp_tensor **out) {
    tpi_temporaries temps = {0};
    tp_tensor *found[3], *x = can(A, false) ? tall(&temps, A, false) : NULL;
    bool ok = x && with_vectors(&temps, x, full_matrices, found);
    if (ok) { /* a wide A is the adjoint of what was taken apart */
        out[0] = tpi_retain(found[is_tall(A) ? 0 : 2]);
        out[1] = tpi_retain(found[1]);
        ok = (out[2] = tpo_adjoint_physical(found[is_tall(A) ? 2 : 0])) || tpi_no_results(out, 2);
    }
    tpi_release_temporaries(&temps, NULL);
    return tpi_serve_if(ok);
}

/* ---- What counts as zero ---- */
static double precision_of(const tp_tensor *A) {
    return A->dtype == TP_FLOAT32 || A->dtype == TP_COMPLEX64 ? FLT_EPSILON : DBL_EPSILON;
}

/* Whether each value is above max(atol, rtol * the largest), as ops/linalg/matrix_functions.c has it: NaN is "not
 * given". */
static tp_tensor *which_count(tpi_temporaries *temps, const tp_tensor *A, tp_tensor *values, double atol, double rtol) {
    int64_t m = tpi_rows_of(A), n = tpi_cols_of(A);
    if (isnan(rtol)) rtol = !isnan(atol) && atol > 0 ? 0 : precision_of(A) * (double)(m > n ? m : n);
    if (isnan(atol)) atol = 0;
    tp_tensor *largest = tpi_put(temps, tpo_amax(values, TP_INTS(-1), true));
    tp_tensor *part = largest ? tpi_put(temps, tpo_mul(tp_operand_tensor(largest), tp_operand_double(rtol))) : NULL;
    tp_tensor *limit = part ? tpi_put(temps, tpo_clamp_min(part, tp_operand_double(atol))) : NULL;
    return limit ? tpi_put(temps, tpo_gt(values, tp_operand_tensor(limit))) : NULL;
}

tpi_served tpi_gpu_matrix_rank(tp_tensor *self, double atol, double rtol, bool hermitian, tp_tensor **result) {
    tpi_temporaries temps = {0};
    singular s;
    tp_tensor *x = can(self, hermitian) ? tall(&temps, self, hermitian) : NULL;
    tp_tensor *count = x && decompose(&temps, x, &s) ? which_count(&temps, self, s.values, atol, rtol) : NULL;
    return tpi_serve(tpi_release_temporaries(&temps, count ? tpo_sum(count, TP_INTS(-1), false, TP_INT64) : NULL),
                     result);
}

/* ---- Pseudo-inverse: V diag(1 / S) U^H, the two factors divided once each, since squares of small values vanish ----
 */
static tp_tensor *invert(tpi_temporaries *temps, tp_tensor *A, const singular *s, double atol, double rtol) {
    tp_tensor *count = which_count(temps, A, s->values, atol, rtol),
              *over = count ? tpi_put(temps, tpo_reciprocal(s->values)) : NULL;
    tp_tensor *by = over ? tpi_put(temps, tpo_where(count, tp_operand_tensor(over), tp_operand_double(0))) : NULL;
    tp_tensor *row = by ? tpi_put(temps, tpo_unsqueeze(by, -2)) : NULL;
    tp_tensor *u = row ? tpi_put(temps, tpo_mul(tp_operand_tensor(s->left), tp_operand_tensor(row))) : NULL;
    tp_tensor *v = u ? tpi_put(temps, tpo_mul(tp_operand_tensor(s->right), tp_operand_tensor(row))) : NULL;
    tp_tensor *uh = v ? tpi_put(temps, tpo_adjoint_physical(u)) : NULL;
    return uh ? tpi_put(temps, tpo_matmul(v, uh)) : NULL;
}

tpi_served tpi_gpu_pinv(tp_tensor *self, double atol, double rtol, bool hermitian, tp_tensor **result) {
    tpi_temporaries temps = {0};
    singular s;
    tp_tensor *x = can(self, hermitian) ? tall(&temps, self, hermitian) : NULL,
              *p = x && decompose(&temps, x, &s) ? invert(&temps, self, &s, atol, rtol) : NULL;
    if (p && !is_tall(self)) p = tpi_put(&temps, tpo_adjoint_physical(p));
    return tpi_serve(tpi_release_temporaries(&temps, p ? tpi_columns_copy(p, tp_no_ints()) : NULL), result);
}

/* ---- Least squares by QR, PyTorch's one way on GPUs and so the default there: full rank is taken for granted ---- */

/* X with the least |A X - B|, and of those with the least |X| where A is wide. */
static tp_tensor *fit(tpi_temporaries *temps, tp_tensor *A, tp_tensor *B) {
    tp_tensor *x = tall(temps, A, false), *made[2];
    if (!x || tpi_gpu_qr(x, "reduced", made) != TPI_SERVED) return NULL;
    tp_tensor *q = tpi_put(temps, made[0]), *r = tpi_put(temps, made[1]);
    if (is_tall(A)) {
        tp_tensor *qh = tpi_put(temps, tpo_adjoint_physical(q)), *right = qh ? tpi_put(temps, tpo_matmul(qh, B)) : NULL;
        return right ? tpi_put(temps, tpo_linalg_solve_triangular(r, right, true, true, false)) : NULL;
    }
    tp_tensor *rh = tpi_put(temps, tpo_adjoint_physical(r)),
              *y = rh ? tpi_put(temps, tpo_linalg_solve_triangular(rh, B, false, true, false)) : NULL;
    return y ? tpi_put(temps, tpo_matmul(q, y)) : NULL;
}

/* Sums of squares of what X leaves, per column; empty unless A has more rows than columns. */
static tp_tensor *left_over(tpi_temporaries *temps, tp_tensor *A, tp_tensor *B, tp_tensor *X) {
    tp_dtype real = tpi_dtype_to_real((tp_dtype)A->dtype);
    if (tpi_rows_of(A) <= tpi_cols_of(A)) return tpi_empty(TP_INTS(0), real, tpi_device(A));
    tp_tensor *there = tpi_put(temps, tpo_matmul(A, X)),
              *rest = there ? tpi_put(temps, tpo_sub(tp_operand_tensor(B), tp_operand_tensor(there), tp_int(1))) : NULL;
    tp_tensor *size = rest ? tpi_put(temps, tpo_abs(rest)) : NULL,
              *squares = size ? tpi_put(temps, tpo_mul(tp_operand_tensor(size), tp_operand_tensor(size))) : NULL;
    return squares ? tpo_sum(squares, TP_INTS(-2), false, TP_NO_DTYPE) : NULL;
}

static bool fits(const tp_tensor *A, const tp_tensor *B, bool vector) {
    return A->dtype == B->dtype && B->ndim >= (vector ? 1 : 2) && B->numel &&
           B->shape[B->ndim - (vector ? 1 : 2)] == tpi_rows_of(A) && can(A, false);
}

tpi_served tpi_gpu_lstsq(tp_tensor *self, tp_tensor *b, double rcond, const char *driver, tp_tensor **out) {
    if (tpi_device(self).type == TP_META) return TPI_DECLINED;
    if (!driver) { /* if it is not served below, the host must not take its own default */
        tp_tensor *A = tpi_detached(self), *B = A ? tpi_detached(b) : NULL;
        bool ok = B && tpo_linalg_lstsq(A, B, rcond, "gels", out);
        tpi_release(A);
        tpi_release(B);
        return tpi_serve_if(ok);
    }
    bool vector = b->ndim == 1 || b->ndim == self->ndim - 1;
    if (strcmp(driver, "gels") || self->ndim < 2 || !fits(self, b, vector)) return TPI_DECLINED;
    tpi_temporaries temps = {0};
    tp_tensor *A = tpi_put(&temps, tpi_detached(self)), *B = tpi_put(&temps, tpi_detached(b));
    if (B && vector) B = tpi_put(&temps, tpo_unsqueeze(B, -1));
    tp_tensor *x = A && B ? fit(&temps, A, B) : NULL;
    out[0] = !x ? NULL : vector ? tpo_squeeze_dim(x, -1) : tpi_retain(x);
    out[1] = out[0] ? left_over(&temps, A, B, x) : NULL;
    out[2] = out[1] ? tpi_empty(TP_INTS(0), TP_INT64, tpi_device(A)) : NULL;
    out[3] = out[2] ? tpi_empty(TP_INTS(0), tpi_dtype_to_real((tp_dtype)A->dtype), tpi_device(A)) : NULL;
    tpi_release_temporaries(&temps, NULL);
    return tpi_serve_if(out[3] || tpi_no_results(out, 3));
}
