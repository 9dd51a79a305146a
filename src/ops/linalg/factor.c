/* Factorisations: Cholesky, LU, LDL, QR, and products of Householder reflectors. Values only. */
#include "ops/linalg/batch.h"

static void clear_triangle(const tp_tensor *t, bool upper) {
    int64_t n = t->shape[t->ndim - 1], batches = tpi_batches_of(t, 2);
    size_t item = tpi_itemsize(t);
    for (int64_t b = 0; b < batches; b++) {
        char *matrix = t->data + (size_t)(b * n * n) * item;
        for (int64_t j = 0; j < n; j++) { /* column j: rows 0 .. j-1 lie above the diagonal */
            char *column = matrix + (size_t)(j * n) * item;
            if (upper)
                memset(column, 0, (size_t)j * item);
            else
                memset(column + (size_t)(j + 1) * item, 0, (size_t)(n - j - 1) * item);
        }
    }
}

static void cholesky_one(const tpi_matrices *x, int64_t i, tpi_scratch *s) {
    (void)s;
    x->info[i] = tpi_lapack_potrf(x->dtype, x->upper, x->n, tpi_at(x->a, i));
}

bool tpi_native_cholesky_ex(tp_tensor *self, bool upper, bool check_errors, tp_tensor **out) {
    if (!tpi_check_square(self, "self")) return false;
    tp_tensor *l = tpi_columns_copy(self, tp_no_ints()), *info = l ? tpi_batch_new(self, 2, TP_INT32) : NULL;
    if (info) {
        int n = (int)self->shape[self->ndim - 1];
        tpi_matrices x = {.dtype = (tp_dtype)self->dtype,
                          .batches = tpi_batches_of(self, 2),
                          .m = n,
                          .n = n,
                          .a = tpi_columns_part(l),
                          .info = (int32_t *)info->data,
                          .upper = upper};
        if (tpi_each_matrix(&x, 0, cholesky_one)) {
            clear_triangle(l, !upper);
            int64_t batch;
            int bad = check_errors ? tpi_first_info(info, &batch) : 0;
            if (!bad) {
                out[0] = l;
                out[1] = info;
                return true;
            }
            tpi_fail(TP_ERR_LINALG,
                     "%sThe factorization could not be completed because the input is not positive-definite (the "
                     "leading minor of order %d is not positive-definite).",
                     tpi_failed_text("linalg.cholesky", batch), bad);
        }
    }
    tpi_release(l);
    tpi_release(info);
    return false;
}

static void lu_one(const tpi_matrices *x, int64_t i, tpi_scratch *s) {
    (void)s;
    int k = x->m < x->n ? x->m : x->n;
    x->info[i] = tpi_lapack_getrf(x->dtype, x->m, x->n, tpi_at(x->a, i), x->pivots + i * k);
}

/* LU and pivots of the matrices in `a` (column-major, overwritten). */
static bool factor_lu(tp_tensor *a, tp_tensor *pivots, tp_tensor *info) {
    tpi_matrices x = {.dtype = (tp_dtype)a->dtype,
                      .batches = tpi_batches_of(a, 2),
                      .m = (int)a->shape[a->ndim - 2],
                      .n = (int)a->shape[a->ndim - 1],
                      .a = tpi_columns_part(a),
                      .pivots = (int32_t *)pivots->data,
                      .info = (int32_t *)info->data};
    return tpi_each_matrix(&x, 0, lu_one);
}

bool tpi_native_lu_factor_ex(tp_tensor *A, bool pivot, bool check_errors, tp_tensor **out) {
    if (!tpi_check_matrices(A, "A")) return false;
    if (!pivot)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'pivot': LU without pivoting is not implemented on the CPU");
    int64_t m = A->shape[A->ndim - 2], n = A->shape[A->ndim - 1], batch;
    tp_tensor *lu = tpi_columns_copy(A, tp_no_ints()),
              *pivots = lu ? tpi_rows_new(A, 2, m < n ? m : n, TP_INT32) : NULL;
    tp_tensor *info = pivots ? tpi_batch_new(A, 2, TP_INT32) : NULL;
    bool ok = info && factor_lu(lu, pivots, info);
    int bad = ok && check_errors ? tpi_first_info(info, &batch) : 0;
    if (bad)
        ok = tpi_refuse(
            TP_ERR_RUNTIME,
            "%sU[%d,%d] is zero and using it on lu_solve would result in a division by zero. If you still want to "
            "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)",
            tpi_failed_text("torch.linalg.lu_factor", batch), bad, bad);
    if (ok) {
        out[0] = lu;
        out[1] = pivots;
        out[2] = info;
    } else {
        tpi_release(lu);
        tpi_release(pivots);
        tpi_release(info);
    }
    return ok;
}

/* LAPACK's row exchanges as the permutation they make: P (m, m) with A = P L U, one matrix per row of pivots (from 1).
 */
tp_tensor *tpi_native_lu_permutation(tp_tensor *pivots, int64_t m, tp_dtype dtype) {
    if (!tp_dtype_is_integral((tp_dtype)pivots->dtype) || pivots->ndim < 1)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'LU_pivots': expected integers with at least one dimension, got %s of shape %s",
                        tp_dtype_name((tp_dtype)pivots->dtype), tpi_shape_text(tpi_shape(pivots)));
    int64_t k = pivots->shape[pivots->ndim - 1], batches = tpi_batches_of(pivots, 1);
    if (k > m)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'LU_pivots': expected at most %lld for a matrix of as many rows, got shape %s",
                        (long long)m, tpi_shape_text(tpi_shape(pivots)));
    tp_tensor *whole = tpi_as_dtype_data(pivots, TP_INT32),
              *ready = whole ? tpi_release_then(whole, tpi_contiguous_data(whole)) : NULL,
              *p = ready ? tpi_columns_new(pivots, 1, m, m, dtype) : NULL;
    int64_t *row = p ? tpi_malloc(sizeof *row * (size_t)(m + 1)) : NULL;
    bool ok = row && tpi_fill_data(p, tp_int(0));
    for (int64_t b = 0; ok && b < batches; b++) {
        const int32_t *exchange = (const int32_t *)ready->data + b * k;
        for (int64_t i = 0; i < m; i++) row[i] = i;
        for (int64_t i = 0; i < k && ok; i++) {
            int64_t other = exchange[i] - 1;
            if (other < 0 || other >= m) {
                ok = tpi_refuse(TP_ERR_VALUE, "argument 'LU_pivots': expected values from 1 to %lld, got %d",
                                (long long)m, exchange[i]);
                break;
            }
            int64_t held = row[i];
            row[i] = row[other];
            row[other] = held;
        }
        for (int64_t i = 0; i < m && ok; i++)
            tpi_store_scalar(p->data + (size_t)(b * m * m + i * m + row[i]) * tpi_itemsize(p), dtype,
                             tp_int(1)); /* element (row[i], i) */
    }
    tpi_mfree(row);
    tpi_release(ready);
    return ok ? p : tpi_release_then(p, NULL);
}

static void ldl_one(const tpi_matrices *x, int64_t i, tpi_scratch *s) {
    x->info[i] = tpi_lapack_sytrf(x->dtype, x->hermitian, false, x->n, tpi_at(x->a, i), x->pivots + i * x->n, s);
}

bool tpi_native_ldl_factor_ex(tp_tensor *self, bool hermitian, bool check_errors, tp_tensor **out) {
    if (!tpi_check_square(self, "self")) return false;
    int n = (int)self->shape[self->ndim - 1];
    int64_t batch;
    tp_tensor *ld = tpi_columns_copy(self, tp_no_ints()), *pivots = ld ? tpi_rows_new(self, 2, n, TP_INT32) : NULL;
    tp_tensor *info = pivots ? tpi_batch_new(self, 2, TP_INT32) : NULL;
    bool ok = info != NULL;
    if (ok) {
        tpi_matrices x = {.dtype = (tp_dtype)self->dtype,
                          .batches = tpi_batches_of(self, 2),
                          .m = n,
                          .n = n,
                          .a = tpi_columns_part(ld),
                          .pivots = (int32_t *)pivots->data,
                          .info = (int32_t *)info->data,
                          .hermitian = hermitian};
        tpi_scratch need = {0};
        tpi_lapack_sytrf(x.dtype, hermitian, false, n, NULL, NULL, &need);
        ok = tpi_each_matrix(&x, need.bytes, ldl_one);
        if (ok) clear_triangle(ld, true);
    }
    int bad = ok && check_errors ? tpi_first_info(info, &batch) : 0;
    if (bad)
        ok = tpi_refuse(TP_ERR_RUNTIME,
                        "%sD[%d,%d] is zero and using it on ldl_solve would result in a division by zero.",
                        tpi_failed_text("torch.linalg.ldl_factor", batch), bad, bad);
    if (ok) {
        out[0] = ld;
        out[1] = pivots;
        out[2] = info;
    } else {
        tpi_release(ld);
        tpi_release(pivots);
        tpi_release(info);
    }
    return ok;
}

/* ---- QR ---- */

static void geqrf_one(const tpi_matrices *x, int64_t i, tpi_scratch *s) {
    tpi_lapack_geqrf(x->dtype, x->m, x->n, tpi_at(x->a, i), tpi_at(x->b, i), s);
}

static void orgqr_one(const tpi_matrices *x, int64_t i, tpi_scratch *s) {
    tpi_lapack_orgqr(x->dtype, x->m, x->n, x->k, tpi_at(x->a, i), tpi_at(x->b, i), s);
}

bool tpi_native_geqrf(tp_tensor *self, tp_tensor **out) {
    if (!tpi_check_matrices(self, "self")) return false;
    int m = (int)self->shape[self->ndim - 2], n = (int)self->shape[self->ndim - 1];
    tp_tensor *a = tpi_columns_copy(self, tp_no_ints()),
              *tau = a ? tpi_rows_new(self, 2, m < n ? m : n, (tp_dtype)self->dtype) : NULL;
    bool ok = tau != NULL;
    if (ok && tau->numel) {
        tpi_matrices x = {.dtype = (tp_dtype)self->dtype,
                          .batches = tpi_batches_of(self, 2),
                          .m = m,
                          .n = n,
                          .a = tpi_columns_part(a),
                          .b = tpi_rows_part(tau)};
        tpi_scratch need = {0};
        tpi_lapack_geqrf(x.dtype, m, n, NULL, NULL, &need);
        ok = tpi_each_matrix(&x, need.bytes, geqrf_one);
    }
    return tpi_put_pair(ok, a, tau, out);
}

/* The first `cols` columns of Q from reflectors (m, >= k) and tau (k); NULL on failure. */
static tp_tensor *make_q(const tp_tensor *reflectors, const tp_tensor *tau, int64_t cols) {
    int64_t m = reflectors->shape[reflectors->ndim - 2], n = reflectors->shape[reflectors->ndim - 1],
            k = tau->shape[tau->ndim - 1];
    tp_tensor *q = tpi_columns_new(reflectors, 2, m, cols, (tp_dtype)reflectors->dtype);
    if (!q) return NULL;
    int64_t have = n < cols ? n : cols;
    tp_tensor *to = tpi_narrowed(q, q->ndim - 1, 0, have),
              *from = to ? tpi_narrowed((tp_tensor *)reflectors, reflectors->ndim - 1, 0, have) : NULL;
    tp_tensor *t =
        from && tpi_fill_data(q, tp_int(0)) && tpi_copy_data(to, from) ? tpi_contiguous_data((tp_tensor *)tau) : NULL;
    tpi_release(to);
    tpi_release(from);
    bool ok = t != NULL;
    if (ok && q->numel) {
        tpi_matrices x = {.dtype = (tp_dtype)q->dtype,
                          .batches = tpi_batches_of(q, 2),
                          .m = (int)m,
                          .n = (int)cols,
                          .k = (int)k,
                          .a = tpi_columns_part(q),
                          .b = tpi_rows_part(t)};
        tpi_scratch need = {0};
        tpi_lapack_orgqr(x.dtype, x.m, x.n, x.k, NULL, NULL, &need);
        ok = tpi_each_matrix(&x, need.bytes, orgqr_one);
    }
    tpi_release(t);
    return ok ? q : tpi_release_then(q, NULL);
}

/* The upper triangle of the first `rows` rows. */
static tp_tensor *make_r(const tp_tensor *factored, int64_t rows) {
    int64_t m = factored->shape[factored->ndim - 2], n = factored->shape[factored->ndim - 1],
            batches = tpi_batches_of(factored, 2);
    tp_tensor *r = tpi_columns_new(factored, 2, rows, n, (tp_dtype)factored->dtype);
    if (!r) return NULL;
    size_t item = tpi_itemsize(r);
    for (int64_t c = 0; c < batches * n; c++) {
        int64_t filled = c % n + 1 < rows ? c % n + 1 : rows;
        char *column = r->data + (size_t)(c * rows) * item;
        memcpy(column, factored->data + (size_t)(c * m) * item, (size_t)filled * item);
        memset(column + (size_t)filled * item, 0, (size_t)(rows - filled) * item);
    }
    return r;
}

/* mode: "reduced", "complete", or "r" (Q is then empty). */
bool tpi_native_qr(tp_tensor *A, const char *mode, tp_tensor **out) {
    bool complete = !strcmp(mode, "complete"), r_only = !strcmp(mode, "r");
    if (!complete && !r_only && strcmp(mode, "reduced"))
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "qr received unrecognized mode '%s' but expected one of 'reduced' (default), 'r', or 'complete'", mode);
    tp_tensor *factored[2];
    if (!tpi_native_geqrf(A, factored)) return false;
    int64_t m = A->shape[A->ndim - 2], n = A->shape[A->ndim - 1], rows = complete ? m : m < n ? m : n;
    tp_tensor *q =
        r_only ? tpi_empty(TP_INTS(0), (tp_dtype)A->dtype, tpi_device(A)) : make_q(factored[0], factored[1], rows);
    tp_tensor *r = q ? make_r(factored[0], rows) : NULL;
    tpi_release(factored[0]);
    tpi_release(factored[1]);
    if (r) {
        out[0] = q;
        out[1] = r;
    } else
        tpi_release(q);
    return r != NULL;
}

static bool check_reflectors(const tp_tensor *self, const tp_tensor *tau) {
    if (!tpi_check_matrices(self, "input") || !tpi_check_same_dtype(tau, "tau", self, "input")) return false;
    bool fits = tau->ndim == self->ndim - 1 && self->shape[self->ndim - 2] >= self->shape[self->ndim - 1] &&
                tau->shape[tau->ndim - 1] <= self->shape[self->ndim - 1];
    for (int d = 0; fits && d + 1 < tau->ndim; d++) fits = tau->shape[d] == self->shape[d];
    return fits ||
           tpi_refuse(
               TP_ERR_RUNTIME,
               "arguments 'input' and 'tau': expected shapes (..., m, n) and (..., k) with m >= n >= k, got %s and %s",
               tpi_shape_text(tpi_shape(self)), tpi_shape_text(tpi_shape(tau)));
}

tp_tensor *tpi_native_householder_product(tp_tensor *input, tp_tensor *tau) {
    return check_reflectors(input, tau) ? make_q(input, tau, input->shape[input->ndim - 1]) : NULL;
}
