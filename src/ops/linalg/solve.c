/* Solving: inverses, linear systems, triangular systems, determinants, least squares. Values only. */
#include "ops/linalg/batch.h"
#include <float.h>
#include <math.h>

static int64_t rows_of(const tp_tensor *t) { return t->shape[t->ndim - 2]; }
static int64_t cols_of(const tp_tensor *t) { return t->shape[t->ndim - 1]; }
static bool is_single(const tp_tensor *t) { return t->dtype == TP_FLOAT32 || t->dtype == TP_COMPLEX64; }

/* A view with the last two dims swapped. */
static tp_tensor *swapped(tp_tensor *t) {
    int64_t shape[TP_MAX_DIMS], strides[TP_MAX_DIMS];
    int n = t->ndim;
    memcpy(shape, t->shape, sizeof *shape * (size_t)n);
    memcpy(strides, t->strides, sizeof *shape * (size_t)n);
    shape[n - 2] = t->shape[n - 1];
    shape[n - 1] = t->shape[n - 2];
    strides[n - 2] = t->strides[n - 1];
    strides[n - 1] = t->strides[n - 2];
    return tpi_alias(t, n, shape, strides, tpi_offset(t));
}

/* ---- Inverse ---- */

static size_t pivot_bytes(int n) { return ((size_t)n * sizeof(int) + 63) / 64 * 64; }

/* The factors move to the scratch space and the identity takes their place: solving with it, as PyTorch does, keeps
 * exact zeros positive, and makes a singular matrix's inverse infinite. */
static void inverse_one(const tpi_matrices *x, int64_t i, tpi_scratch *s) {
    int *pivots = (int *)s->memory;
    char *factors = s->memory + pivot_bytes(x->n), *a = tpi_at(x->a, i);
    size_t item = (size_t)tp_dtype_size(x->dtype), n = (size_t)x->n;
    x->info[i] = tpi_lapack_getrf(x->dtype, x->n, x->n, a, pivots);
    memcpy(factors, a, n * n * item);
    memset(a, 0, n * n * item);
    for (size_t k = 0; k < n; k++) tpi_store_scalar(a + k * (n + 1) * item, x->dtype, tp_int(1));
    tpi_lapack_inverse(x->dtype, x->n, factors, pivots, a);
}

bool tpi_native_inv_ex(tp_tensor *A, bool check_errors, tp_tensor **out) {
    if (!tpi_check_square(A, "A")) return false;
    int n = (int)cols_of(A);
    int64_t batch;
    tp_tensor *inverse = tpi_columns_copy(A, tp_no_ints()), *info = inverse ? tpi_batch_new(A, 2, TP_INT32) : NULL;
    bool ok = info != NULL;
    if (ok) {
        tpi_matrices x = {.dtype = (tp_dtype)A->dtype,
                          .batches = tpi_batches_of(A, 2),
                          .m = n,
                          .n = n,
                          .a = tpi_columns_part(inverse),
                          .info = (int32_t *)info->data};
        ok = tpi_each_matrix(&x, pivot_bytes(n) + (size_t)n * (size_t)n * tpi_itemsize(A), inverse_one);
    }
    int bad = ok && check_errors ? tpi_first_info(info, &batch) : 0;
    if (bad)
        ok = tpi_refuse(TP_ERR_LINALG,
                        "%sThe diagonal element %d is zero, the inversion could not be completed because the input "
                        "matrix is singular.",
                        tpi_failed_text("linalg.inv", batch), bad);
    return tpi_put_pair(ok, inverse, info, out);
}

/* ---- Linear systems ---- */

static void solve_one(const tpi_matrices *x, int64_t i, tpi_scratch *s) {
    int *pivots = (int *)s->memory;
    x->info[i] = tpi_lapack_getrf(x->dtype, x->n, x->n, tpi_at(x->a, i), pivots);
    /* a singular matrix gives infinities and NaNs */
    tpi_lapack_getrs(x->dtype, x->left ? 'N' : 'T', x->n, x->k, tpi_at(x->a, i), pivots, tpi_at(x->b, i));
}

bool tpi_are_vectors(const tp_tensor *A, const tp_tensor *B) {
    if (B->ndim == 1) return true;
    if (B->ndim != A->ndim - 1) return false;
    for (int d = 0; d < B->ndim; d++)
        if (B->shape[d] != A->shape[d]) return false;
    return true;
}

static tp_tensor *with_last_dim(tp_tensor *t) {
    int64_t shape[TP_MAX_DIMS], strides[TP_MAX_DIMS];
    memcpy(shape, t->shape, sizeof *shape * (size_t)t->ndim);
    memcpy(strides, t->strides, sizeof *shape * (size_t)t->ndim);
    shape[t->ndim] = strides[t->ndim] = 1;
    return tpi_alias(t, t->ndim + 1, shape, strides, tpi_offset(t));
}

static tp_tensor *without_last_dim(tp_tensor *t) {
    return tpi_alias(t, t->ndim - 1, t->shape, t->strides, tpi_offset(t));
}

static bool check_system(const tp_tensor *A, const tp_tensor *B, bool left) {
    if (!tpi_check_square(A, "A")) return false;
    if (A->dtype != B->dtype)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "arguments 'A' and 'B': Expected A and B to have the same dtype, but found A of type %s and "
                          "B of type %s instead",
                          tp_dtype_word((tp_dtype)A->dtype), tp_dtype_word((tp_dtype)B->dtype));
    if (B->ndim < 2)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'B': The input tensor B must have at least 2 dimensions. Got shape %s",
                          tpi_shape_text(tpi_shape(B)));
    return (left ? rows_of(B) : cols_of(B)) == cols_of(A) ||
           tpi_refuse(
               TP_ERR_RUNTIME,
               "arguments 'A' and 'B': Incompatible shapes of A and B for the equation %s (%lldx%lld and %lldx%lld)",
               left ? "AX = B" : "XA = B", (long long)rows_of(A), (long long)cols_of(A), (long long)rows_of(B),
               (long long)cols_of(B));
}

/* X (a new tensor) with A X = B, or X A = B, both with two dims or more; info gets one entry per matrix. */
static tp_tensor *solve_systems(tp_tensor *A, tp_tensor *B, bool left, tp_tensor **info) {
    int64_t batch[TP_MAX_DIMS];
    int ndim, n = (int)cols_of(A);
    if (!tpi_broadcast(tp_ints_view(A->shape, A->ndim - 2), tp_ints_view(B->shape, B->ndim - 2), batch, &ndim))
        return NULL;
    tp_ints shape = tp_ints_view(batch, ndim);
    tp_tensor *right = left ? tpi_retain(B) : swapped(B); /* X A = B is A^T X^T = B^T */
    tp_tensor *a = right ? tpi_columns_copy(A, shape) : NULL, *b = a ? tpi_columns_copy(right, shape) : NULL;
    *info = b ? tpi_batch_new(b, 2, TP_INT32) : NULL;
    bool ok = *info != NULL;
    if (ok) {
        tpi_matrices x = {.dtype = (tp_dtype)A->dtype,
                          .batches = tpi_batches_of(b, 2),
                          .m = n,
                          .n = n,
                          .k = (int)cols_of(b),
                          .left = left,
                          .a = tpi_columns_part(a),
                          .b = tpi_columns_part(b),
                          .info = (int32_t *)(*info)->data};
        ok = tpi_each_matrix(&x, (size_t)n * sizeof(int), solve_one);
    }
    tpi_release(right);
    tpi_release(a);
    if (!ok) return tpi_release_then(b, NULL);
    return left ? b : tpi_release_then(b, swapped(b));
}

bool tpi_native_solve_ex(tp_tensor *A, tp_tensor *B, bool left, bool check_errors, tp_tensor **out) {
    if (!tpi_check_square(A, "A")) return false;
    bool vector = tpi_are_vectors(A, B);
    if (vector && !left) return tpi_refuse(TP_ERR_RUNTIME, "argument 'left': vectors on the right side need left=True");
    tp_tensor *b = vector ? with_last_dim(B) : tpi_retain(B), *info = NULL;
    tp_tensor *x = b && check_system(A, b, left) ? solve_systems(A, b, left, &info) : NULL;
    tpi_release(b);
    int64_t batch;
    int bad = x && check_errors ? tpi_first_info(info, &batch) : 0;
    if (bad)
        x = tpi_release_then(x, tpi_fail(TP_ERR_LINALG, "%sThe solver failed because the input matrix is singular.",
                                         tpi_failed_text("torch.linalg.solve", batch)));
    if (x && vector) x = tpi_release_then(x, without_last_dim(x));
    if (x) {
        out[0] = x;
        out[1] = info;
    } else
        tpi_release(info);
    return x != NULL;
}

static void triangular_one(const tpi_matrices *x, int64_t i, tpi_scratch *s) {
    (void)s;
    tpi_lapack_trsm(x->dtype, x->left, x->upper, 'N', x->unit, x->m, x->n, tpi_at(x->a, i), tpi_at(x->b, i));
}

tp_tensor *tpi_native_solve_triangular(tp_tensor *self, tp_tensor *B, bool upper, bool left, bool unitriangular) {
    int64_t batch[TP_MAX_DIMS];
    int ndim;
    if (!check_system(self, B, left)) return NULL;
    if (!tpi_broadcast(tp_ints_view(self->shape, self->ndim - 2), tp_ints_view(B->shape, B->ndim - 2), batch, &ndim))
        return NULL;
    tp_tensor *a = tpi_columns_copy(self, tp_ints_view(batch, ndim)),
              *b = a ? tpi_columns_copy(B, tp_ints_view(batch, ndim)) : NULL;
    bool ok = b != NULL;
    if (ok && b->numel) {
        tpi_matrices x = {.dtype = (tp_dtype)b->dtype,
                          .batches = tpi_batches_of(b, 2),
                          .m = (int)rows_of(b),
                          .n = (int)cols_of(b),
                          .left = left,
                          .upper = upper,
                          .unit = unitriangular,
                          .a = tpi_columns_part(a),
                          .b = tpi_columns_part(b)};
        ok = tpi_each_matrix(&x, 0, triangular_one);
    }
    tpi_release(a);
    return ok ? b : tpi_release_then(b, NULL);
}

static void ldl_solve_one(const tpi_matrices *x, int64_t i, tpi_scratch *s) {
    (void)s;
    tpi_lapack_sytrs(x->dtype, x->hermitian, false, x->n, x->k, tpi_at(x->a, i), x->pivots + i * x->n, tpi_at(x->b, i));
}

/* LAPACK follows pivots without looking: a row's number, negative for one half of a block of two. */
static bool pivots_fit(const tp_tensor *pivots, int64_t n) {
    tp_tensor *wide = tpi_as_dtype_data((tp_tensor *)pivots, TP_INT64),
              *flat = wide ? tpi_release_then(wide, tpi_contiguous_data(wide)) : NULL;
    if (!flat) return false;
    const int64_t *p = (const int64_t *)(const void *)flat->data;
    bool some = true, fit = true;
    for (int64_t i = 0; i < flat->numel; i++) {
        some = some && p[i];
        fit = fit && p[i] >= -n && p[i] <= n;
    }
    tpi_release(flat);
    if (some && fit) return true;
    return tpi_refuse(TP_ERR_RUNTIME,
                      "Pivots given to ldl_solve must all satisfy %s. Did you properly pass the result of ldl_factor?",
                      some ? "|pivot| <= LD.size(-2)" : "|pivot| >= 1");
}

tp_tensor *tpi_native_ldl_solve(tp_tensor *LD, tp_tensor *pivots, tp_tensor *B, bool hermitian) {
    if (!check_system(LD, B, true)) return NULL;
    if (!tp_dtype_is_integral((tp_dtype)pivots->dtype))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'pivots': expected integers, got %s",
                        tp_dtype_name((tp_dtype)pivots->dtype));
    if (pivots->ndim != LD->ndim - 1 || pivots->numel * (LD->numel ? cols_of(LD) : 0) != LD->numel)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'pivots': expected shape (..., n) beside LD's (..., n, n), got %s",
                        tpi_shape_text(tpi_shape(pivots)));
    if (!pivots_fit(pivots, cols_of(LD))) return NULL;
    tp_ints batch = tp_ints_view(LD->shape, LD->ndim - 2);
    tp_tensor *a = tpi_columns_copy(LD, batch), *b = a ? tpi_columns_copy(B, batch) : NULL;
    tp_tensor *whole = b ? tpi_as_dtype_data(pivots, TP_INT32) : NULL,
              *p = whole ? tpi_release_then(whole, tpi_contiguous_data(whole)) : NULL;
    bool ok = p != NULL;
    if (ok && b->numel) {
        tpi_matrices x = {.dtype = (tp_dtype)b->dtype,
                          .batches = tpi_batches_of(b, 2),
                          .m = (int)rows_of(b),
                          .n = (int)rows_of(b),
                          .k = (int)cols_of(b),
                          .hermitian = hermitian,
                          .a = tpi_columns_part(a),
                          .b = tpi_columns_part(b),
                          .pivots = (int32_t *)p->data};
        ok = tpi_each_matrix(&x, 0, ldl_solve_one);
    }
    tpi_release(a);
    tpi_release(p);
    return ok ? b : tpi_release_then(b, NULL);
}

/* ---- Determinants ---- */

/* From LU: the sign (a unit complex number) and the logarithm of the size, or the product itself (job 'd'). */
static void determinant_one(const tpi_matrices *x, int64_t i, tpi_scratch *s) {
    int *pivots = (int *)s->memory, n = x->n;
    char *a = tpi_at(x->a, i);
    tpi_lapack_getrf(x->dtype, n, n, a, pivots);
    double re = 1, im = 0, log_size = 0;
    for (int j = 0; j < n; j++) {
        tpi_c128 d;
        tp_scalar v = tpi_load_scalar(a + (size_t)(j * (n + 1)) * tpi_dtype_bytes[x->dtype], x->dtype);
        d = tpi_param_of(v, TPI_C128).c128;
        if (pivots[j] != j + 1) {
            d.re = -d.re;
            d.im = -d.im;
        }
        double size = hypot(d.re, d.im);
        if (x->job == 's') {
            log_size += log(size);
            if (size > 0) {
                d.re /= size;
                d.im /= size;
            }
        }
        double r = re * d.re - im * d.im;
        im = re * d.im + im * d.re;
        re = r;
    }
    bool phased = tp_dtype_is_complex(x->dtype);
    tpi_store_scalar(tpi_at(x->b, i), x->dtype, phased ? tp_cplx(re, im) : tp_float(re));
    if (x->job == 's') tpi_store_scalar(tpi_at(x->c, i), tpi_dtype_to_real(x->dtype), tp_float(log_size));
}

/* A number for each matrix. */
static tpi_part numbers_part(const tp_tensor *t) { return (tpi_part){t->data, tpi_itemsize(t), tpi_is_made_up(t)}; }

static bool determinants(tp_tensor *A, tp_tensor *first, tp_tensor *second, char job) {
    tp_tensor *a = tpi_columns_copy(A, tp_no_ints());
    if (!a) return false;
    int n = (int)cols_of(A);
    tpi_matrices x = {.dtype = (tp_dtype)A->dtype,
                      .batches = tpi_batches_of(A, 2),
                      .m = n,
                      .n = n,
                      .job = job,
                      .a = tpi_columns_part(a),
                      .b = numbers_part(first)};
    if (second) x.c = numbers_part(second);
    bool ok = tpi_each_matrix(&x, (size_t)n * sizeof(int), determinant_one);
    tpi_release(a);
    return ok;
}

tp_tensor *tpi_native_det(tp_tensor *A) {
    if (!tpi_check_square(A, "A")) return NULL;
    tp_tensor *det = tpi_batch_new(A, 2, (tp_dtype)A->dtype);
    return det && determinants(A, det, NULL, 'd') ? det : tpi_release_then(det, NULL);
}

bool tpi_native_slogdet(tp_tensor *A, tp_tensor **out) {
    if (!tpi_check_square(A, "A")) return false;
    out[0] = tpi_batch_new(A, 2, (tp_dtype)A->dtype);
    out[1] = out[0] ? tpi_batch_new(A, 2, tpi_dtype_to_real((tp_dtype)A->dtype)) : NULL;
    return (out[1] && determinants(A, out[0], out[1], 's')) || tpi_no_results(out, 2);
}

/* ---- Least squares ---- */

static void least_squares_one(const tpi_matrices *x, int64_t i, tpi_scratch *s) {
    x->info[i] = tpi_lapack_gels(x->dtype, x->job, x->m, x->n, x->k, tpi_at(x->a, i), tpi_at(x->b, i), x->tolerance,
                                 x->pivots ? x->pivots + i : NULL, x->c.data ? tpi_at(x->c, i) : NULL, s);
}

static char driver_letter(const char *driver) {
    if (!driver || !strcmp(driver, "gelsy")) return 'y';
    if (!strcmp(driver, "gels")) return 'l';
    if (!strcmp(driver, "gelsd")) return 'd';
    return !strcmp(driver, "gelss") ? 's' : 0;
}

/* b (m rows) in a tensor with max(m, n) rows. */
static tp_tensor *padded_copy(const tp_tensor *b, int64_t rows, tp_ints batch) {
    int64_t shape[TP_MAX_DIMS];
    memcpy(shape, batch.v, sizeof *shape * (size_t)batch.n);
    tp_tensor like = {.alive = TPI_ALIVE, .ndim = (uint8_t)batch.n, .shape = shape, .storage = b->storage};
    tp_tensor *padded = tpi_columns_new(&like, 0, rows, cols_of(b), (tp_dtype)b->dtype);
    tp_tensor *part = padded ? tpi_narrowed(padded, padded->ndim - 2, 0, rows_of(b)) : NULL;
    bool ok = part && tpi_fill_data(padded, tp_int(0)) && tpi_copy_data(part, b);
    tpi_release(part);
    return ok ? padded : tpi_release_then(padded, NULL);
}

/* Sums of squares of what the fit leaves, per column; empty unless m > n, full rank, and not gelsy. */
static tp_tensor *residuals_of(const tp_tensor *b, int64_t m, int64_t n, char driver, const tp_tensor *rank) {
    tp_dtype real = tpi_dtype_to_real((tp_dtype)b->dtype);
    bool given = m > n && driver != 'y';
    for (int64_t i = 0; given && rank && i < rank->numel; i++) given = ((int64_t *)rank->data)[i] == n;
    if (!given) return tpi_empty(TP_INTS(0), real, tpi_device(b));
    tp_tensor *out = tpi_rows_new(b, 2, cols_of(b), real);
    for (int64_t c = 0; out && c < out->numel; c++) {
        double sum = 0;
        for (int64_t r = n; r < m; r++) {
            tpi_c128 v = tpi_param_of(tpi_load_scalar(b->data + (size_t)(c * rows_of(b) + r) * tpi_itemsize(b),
                                                      (tp_dtype)b->dtype),
                                      TPI_C128)
                             .c128;
            sum += v.re * v.re + v.im * v.im;
        }
        tpi_store_scalar(out->data + (size_t)c * tpi_itemsize(out), real, tp_float(sum));
    }
    return out;
}

typedef struct fit {
    tp_tensor *a, *b, *rank32, *sv, *info;
} fit;

static void drop_fit(fit *f) {
    tpi_release(f->a);
    tpi_release(f->b);
    tpi_release(f->rank32);
    tpi_release(f->sv);
    tpi_release(f->info);
}

static bool run_fit(fit *f, tp_tensor *A, tp_tensor *B, tp_ints batch, double rcond, char driver) {
    int64_t m = rows_of(A), n = cols_of(A), k = m < n ? m : n;
    f->a = tpi_columns_copy(A, batch);
    f->b = f->a ? padded_copy(B, m > n ? m : n, batch) : NULL;
    f->rank32 = f->b ? tpi_batch_new(f->b, 2, TP_INT32) : NULL;
    f->info = f->rank32 ? tpi_batch_new(f->b, 2, TP_INT32) : NULL;
    f->sv = f->info ? tpi_rows_new(f->b, 2, k, tpi_dtype_to_real((tp_dtype)A->dtype)) : NULL;
    if (!f->sv || !tpi_fill_data(f->rank32, tp_int(0)) || !tpi_fill_data(f->sv, tp_int(0)) ||
        !tpi_fill_data(f->info, tp_int(0)))
        return false;
    if (!f->a->numel || !f->b->numel) return true;
    tpi_matrices x = {.dtype = (tp_dtype)A->dtype,
                      .batches = tpi_batches_of(f->b, 2),
                      .m = (int)m,
                      .n = (int)n,
                      .k = (int)cols_of(B),
                      .job = driver,
                      .a = tpi_columns_part(f->a),
                      .b = tpi_columns_part(f->b),
                      .pivots = (int32_t *)f->rank32->data,
                      .info = (int32_t *)f->info->data,
                      .tolerance = rcond};
    if (driver == 'd' || driver == 's') x.c = tpi_rows_part(f->sv);
    tpi_scratch need = {0};
    tpi_lapack_gels(x.dtype, driver, x.m, x.n, x.k, NULL, NULL, rcond, NULL, x.c.data, &need);
    if (!tpi_each_matrix(&x, need.bytes, least_squares_one)) return false;
    int64_t at;
    int bad = tpi_first_info(f->info, &at);
    return !bad || tpi_refuse(TP_ERR_RUNTIME,
                              "%sThe least squares solution could not be computed because the input matrix does not "
                              "have full rank (error code: %d).",
                              tpi_failed_text("torch.linalg.lstsq", at), bad);
}

/* The results, from a finished fit: solution, residuals, rank, singular values (the last two empty where the driver
 * gives none). */
static bool collect_fit(fit *f, int64_t m, int64_t n, bool vector, char driver, tp_tensor **out) {
    tp_dtype real = tpi_dtype_to_real((tp_dtype)f->b->dtype);
    tp_device device = tpi_device(f->b);
    tp_tensor *rank = tpi_as_dtype_data(f->rank32, TP_INT64),
              *part = rank ? tpi_narrowed(f->b, f->b->ndim - 2, 0, n) : NULL;
    out[0] = part && vector ? without_last_dim(part) : tpi_retain(part);
    out[1] = out[0] ? residuals_of(f->b, m, n, driver, driver == 'l' ? NULL : rank) : NULL;
    out[2] = out[1] ? (driver == 'l' ? tpi_empty(TP_INTS(0), TP_INT64, device) : tpi_retain(rank)) : NULL;
    out[3] = out[2] ? (driver == 'd' || driver == 's' ? tpi_retain(f->sv) : tpi_empty(TP_INTS(0), real, device)) : NULL;
    tpi_release(rank);
    tpi_release(part);
    return out[3] || tpi_no_results(out, 3);
}

bool tpi_native_lstsq(tp_tensor *self, tp_tensor *b, double rcond, const char *driver, tp_tensor **out) {
    char letter = driver_letter(driver);
    if (!letter)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got %s",
                          driver);
    if (self->ndim < 2) return tpi_refuse(TP_ERR_RUNTIME, "torch.linalg.lstsq: input must have at least 2 dimensions.");
    if (b->ndim < 1) return tpi_refuse(TP_ERR_RUNTIME, "torch.linalg.lstsq: other must have at least 1 dimension.");
    if (b->dtype != self->dtype)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype "
                          "%s and other's dtype %s",
                          tp_dtype_word((tp_dtype)self->dtype), tp_dtype_word((tp_dtype)b->dtype));
    if (!tpi_check_matrices(self, "self")) return false;
    bool vector = b->ndim == 1 ||
                  (b->ndim == self->ndim - 1 && !memcmp(b->shape, self->shape, sizeof *b->shape * (size_t)b->ndim));
    tp_tensor *B = vector ? with_last_dim(b) : tpi_retain(b);
    if (!B) return false;
    int64_t batch[TP_MAX_DIMS], m = rows_of(self), n = cols_of(self);
    int ndim;
    bool ok = B->ndim >= 2 && rows_of(B) == m;
    if (!ok)
        tpi_fail(TP_ERR_RUNTIME, "torch.linalg.lstsq: input.size(-2) should match other.size(%d), got shapes %s and %s",
                 vector ? -1 : -2, tpi_shape_text(tpi_shape(self)), tpi_shape_text(tpi_shape(b)));
    ok = ok &&
         tpi_broadcast(tp_ints_view(self->shape, self->ndim - 2), tp_ints_view(B->shape, B->ndim - 2), batch, &ndim);
    if (isnan(rcond)) rcond = (is_single(self) ? FLT_EPSILON : DBL_EPSILON) * (double)(m > n ? m : n);
    fit f = {0};
    ok = ok && run_fit(&f, self, B, tp_ints_view(batch, ndim), rcond, letter) &&
         collect_fit(&f, m, n, vector, letter, out);
    drop_fit(&f);
    tpi_release(B);
    return ok;
}
