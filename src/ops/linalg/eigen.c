/* Eigenvalues, eigenvectors and singular values. Values only. */
#include "ops/linalg/eigen.h"
#include "dispatch/fallback.h"
#include "ops/linalg/batch.h"
#include <math.h>

/* The code of a matrix that was not begun with, since it holds an infinity or NaN: LAPACK's own codes are sizes and
 * positions. */
enum { NOT_FINITE = INT32_MAX };

static bool converged(const char *op, const tp_tensor *info, const char *values) {
    int64_t batch;
    int bad = tpi_first_info(info, &batch);
    if (bad == NOT_FINITE)
        return tpi_refuse(TP_ERR_LINALG,
                          "%sThe algorithm failed to converge because the input matrix contained non-finite values.",
                          tpi_failed_text(op, batch));
    return !bad || tpi_refuse(TP_ERR_LINALG,
                              "%sThe algorithm failed to converge because the input matrix is ill-conditioned or has "
                              "too many repeated %s (error code: %d).",
                              tpi_failed_text(op, batch), values, bad);
}

/* ---- Symmetric and Hermitian ---- */

static void eigh_one(const tpi_matrices *x, int64_t i, tpi_scratch *s) {
    x->info[i] = tpi_lapack_syevd(x->dtype, x->vectors, x->upper, x->n, tpi_at(x->a, i), tpi_at(x->b, i), s);
}

static bool eigh(tp_tensor *self, const char *UPLO, bool vectors, tp_tensor **values, tp_tensor **made) {
    bool upper = UPLO[0] == 'U' || UPLO[0] == 'u';
    *values = *made = NULL;
    if ((!upper && UPLO[0] != 'L' && UPLO[0] != 'l') || UPLO[1])
        return tpi_refuse(TP_ERR_RUNTIME, "Expected UPLO argument to be 'L' or 'U', but got %s", UPLO);
    if (!tpi_check_square(self, "self")) return false;
    int n = (int)self->shape[self->ndim - 1];
    *made = tpi_columns_copy(self, tp_no_ints());
    *values = *made ? tpi_rows_new(self, 2, n, tpi_dtype_to_real((tp_dtype)self->dtype)) : NULL;
    tp_tensor *info = *values ? tpi_batch_new(self, 2, TP_INT32) : NULL;
    bool ok = info && tpi_fill_data(info, tp_int(0));
    if (ok && n) {
        tpi_matrices x = {.dtype = (tp_dtype)self->dtype,
                          .batches = tpi_batches_of(self, 2),
                          .m = n,
                          .n = n,
                          .a = tpi_columns_part(*made),
                          .b = tpi_rows_part(*values),
                          .info = (int32_t *)info->data,
                          .upper = upper,
                          .vectors = vectors};
        tpi_scratch need = {0};
        tpi_lapack_syevd(x.dtype, vectors, upper, n, NULL, NULL, &need);
        ok = tpi_each_matrix(&x, need.bytes, eigh_one) && converged("linalg.eigh", info, "eigenvalues");
    }
    tpi_release(info);
    return ok;
}

bool tpi_native_eigh(tp_tensor *self, const char *UPLO, tp_tensor **out) {
    return eigh(self, UPLO, true, &out[0], &out[1]) || tpi_no_results(out, 2);
}

tp_tensor *tpi_native_eigvalsh(tp_tensor *self, const char *UPLO) {
    tp_tensor *values, *scrap;
    bool ok = eigh(self, UPLO, false, &values, &scrap);
    tpi_release(scrap);
    return ok ? values : tpi_release_then(values, NULL);
}

/* ---- General ---- */

/* LAPACK's divide and conquer may never come back from a matrix with an infinity in it, and its QR iteration prints on
 * one. */
static bool is_finite(tp_dtype dtype, const void *a, int64_t n) {
    if (tp_dtype_is_complex(dtype)) n *= 2;
    if (dtype == TP_FLOAT32 || dtype == TP_COMPLEX64) {
        for (int64_t i = 0; i < n; i++)
            if (!isfinite(((const float *)a)[i])) return false;
        return true;
    }
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(((const double *)a)[i])) return false;
    return true;
}

static void eig_one(const tpi_matrices *x, int64_t i, tpi_scratch *s) {
    x->info[i] = tpi_lapack_geev(x->dtype, x->vectors, x->n, tpi_at(x->a, i), tpi_at(x->b, i),
                                 x->vectors ? tpi_at(x->c, i) : NULL, s);
}

static bool eig(tp_tensor *self, tp_tensor **values, tp_tensor **vectors) {
    *values = NULL;
    if (vectors) *vectors = NULL;
    if (!tpi_check_square(self, "self")) return false;
    int n = (int)self->shape[self->ndim - 1];
    tp_dtype phased = tpi_dtype_to_complex((tp_dtype)self->dtype);
    tp_tensor *a = tpi_columns_copy(self, tp_no_ints()), *info = NULL;
    *values = a ? tpi_rows_new(self, 2, n, phased) : NULL;
    if (*values && vectors) *vectors = tpi_columns_new(self, 2, n, n, phased);
    if (*values && (!vectors || *vectors)) info = tpi_batch_new(self, 2, TP_INT32);
    bool ok = info && tpi_fill_data(info, tp_int(0));
    if (ok && !tpi_is_made_up(a) && !is_finite((tp_dtype)a->dtype, a->data, a->numel))
        ok = tpi_refuse(TP_ERR_RUNTIME, "%sinput tensor should not contain infs or NaNs.",
                        tpi_failed_text("torch.linalg.eig", -1));
    if (ok && n) {
        tpi_matrices x = {.dtype = (tp_dtype)self->dtype,
                          .batches = tpi_batches_of(self, 2),
                          .m = n,
                          .n = n,
                          .a = tpi_columns_part(a),
                          .b = tpi_rows_part(*values),
                          .info = (int32_t *)info->data,
                          .vectors = vectors != NULL};
        if (vectors) x.c = tpi_columns_part(*vectors);
        tpi_scratch need = {0};
        tpi_lapack_geev(x.dtype, x.vectors, n, NULL, NULL, NULL, &need);
        ok = tpi_each_matrix(&x, need.bytes, eig_one) && converged("torch.linalg.eig", info, "eigenvalues");
    }
    tpi_release(a);
    tpi_release(info);
    return ok;
}

bool tpi_native_eig(tp_tensor *self, tp_tensor **out) { return eig(self, &out[0], &out[1]) || tpi_no_results(out, 2); }

tp_tensor *tpi_native_eigvals(tp_tensor *self) {
    tp_tensor *values;
    return eig(self, &values, NULL) ? values : tpi_release_then(values, NULL);
}

/* ---- Singular values ---- */

static void svd_one(const tpi_matrices *x, int64_t i, tpi_scratch *s) {
    bool all = x->job != 'N';
    if (!is_finite(x->dtype, tpi_at(x->a, i), (int64_t)x->m * x->n)) {
        x->info[i] = NOT_FINITE;
        return;
    }
    x->info[i] = tpi_lapack_gesdd(x->dtype, x->job, x->m, x->n, tpi_at(x->a, i), tpi_at(x->b, i),
                                  all ? tpi_at(x->c, i) : NULL, all ? tpi_at(x->d, i) : NULL, s);
}

static bool identities(tp_tensor *t) { /* for matrices without rows or columns */
    int64_t n = t->shape[t->ndim - 1], rows = t->shape[t->ndim - 2];
    if (!tpi_fill_data(t, tp_int(0))) return false;
    for (int64_t b = 0; b < tpi_batches_of(t, 2); b++)
        for (int64_t i = 0; i < n && i < rows; i++)
            tpi_store_scalar(t->data + (size_t)(b * n * rows + i * (rows + 1)) * tpi_itemsize(t), (tp_dtype)t->dtype,
                             tp_int(1));
    return true;
}

/* u and vh are NULL for singular values alone. All results are NULL or owned, whatever is returned. */
static bool svd(tp_tensor *A, bool full, tp_tensor **u, tp_tensor **sv, tp_tensor **vh) {
    *sv = NULL;
    if (u) *u = *vh = NULL;
    if (!tpi_check_matrices(A, "A")) return false;
    int64_t m = A->shape[A->ndim - 2], n = A->shape[A->ndim - 1], k = m < n ? m : n;
    tp_dtype dtype = (tp_dtype)A->dtype;
    tp_tensor *a = tpi_columns_copy(A, tp_no_ints()), *info = NULL;
    *sv = a ? tpi_rows_new(A, 2, k, tpi_dtype_to_real(dtype)) : NULL;
    bool ok = *sv != NULL;
    if (u)
        ok = ok && (*u = tpi_columns_new(A, 2, m, full ? m : k, dtype)) &&
             (*vh = tpi_columns_new(A, 2, full ? n : k, n, dtype));
    ok = ok && (info = tpi_batch_new(A, 2, TP_INT32)) && tpi_fill_data(info, tp_int(0));
    if (ok && k) {
        tpi_matrices x = {.dtype = dtype,
                          .batches = tpi_batches_of(A, 2),
                          .m = (int)m,
                          .n = (int)n,
                          .a = tpi_columns_part(a),
                          .b = tpi_rows_part(*sv),
                          .info = (int32_t *)info->data,
                          .job = u ? (full ? 'A' : 'S') : 'N'};
        if (u) {
            x.c = tpi_columns_part(*u);
            x.d = tpi_columns_part(*vh);
        }
        tpi_scratch need = {0};
        tpi_lapack_gesdd(dtype, x.job, x.m, x.n, NULL, NULL, NULL, NULL, &need);
        ok = tpi_each_matrix(&x, need.bytes, svd_one) && converged("linalg.svd", info, "singular values");
    } else if (ok && u) {
        ok = identities(*u) && identities(*vh);
    }
    tpi_release(a);
    tpi_release(info);
    return ok;
}

bool tpi_native_svd(tp_tensor *A, bool full_matrices, tp_tensor **out) {
    return svd(A, full_matrices, &out[0], &out[1], &out[2]) || tpi_no_results(out, 3);
}

tp_tensor *tpi_native_svdvals(tp_tensor *A) {
    tp_tensor *values;
    return svd(A, false, NULL, &values, NULL) ? values : tpi_release_then(values, NULL);
}
