/* Pseudo-inverse, rank and exponential of matrices. Values only. */
#include "linalg/blas.h"
#include "ops/linalg/batch.h"
#include "ops/linalg/eigen.h"
#include <float.h>
#include <math.h>

/* ---- What counts as zero among singular values ---- */

static double real_at(const tp_tensor *t, int64_t i) {
    return t->dtype == TP_FLOAT32 ? (double)((const float *)t->data)[i] : ((const double *)t->data)[i];
}

/* max(atol, rtol * the largest): NaN stands for "not given"; without either rtol is the precision times the larger
 * side. */
static double cutoff(const tp_tensor *A, double largest, double atol, double rtol) {
    int64_t m = A->shape[A->ndim - 2], n = A->shape[A->ndim - 1];
    double epsilon = A->dtype == TP_FLOAT32 || A->dtype == TP_COMPLEX64 ? FLT_EPSILON : DBL_EPSILON;
    if (isnan(rtol)) rtol = !isnan(atol) && atol > 0 ? 0 : epsilon * (double)(m > n ? m : n);
    if (isnan(atol)) atol = 0;
    return fmax(atol, rtol * largest);
}

/* Singular values, or the sizes of eigenvalues, of one matrix: the largest of k. */
static double largest_of(const tp_tensor *s, int64_t first, int64_t k) {
    double largest = 0;
    for (int64_t i = 0; i < k; i++) {
        double size = fabs(real_at(s, first + i));
        if (size > largest) largest = size; /* fmax here is an internal error of gcc 12 for aarch64 */
    }
    return largest;
}

tp_tensor *tpi_native_matrix_rank(tp_tensor *self, double atol, double rtol, bool hermitian) {
    tp_tensor *s = hermitian ? tpi_native_eigvalsh(self, "L") : tpi_native_svdvals(self);
    tp_tensor *rank = s ? tpi_batch_new(self, 2, TP_INT64) : NULL;
    int64_t k = s ? s->shape[s->ndim - 1] : 0;
    for (int64_t b = 0; rank && b < rank->numel; b++) {
        double limit = cutoff(self, largest_of(s, b * k, k), atol, rtol);
        int64_t count = 0;
        for (int64_t i = 0; i < k; i++) count += fabs(real_at(s, b * k + i)) > limit;
        ((int64_t *)rank->data)[b] = count;
    }
    tpi_release(s);
    return rank;
}

/* ---- Pseudo-inverse ---- */

/* Divides column j of u (column-major, m rows) by s[j], or clears it where s[j] counts as zero. */
static void divide_columns(tp_tensor *u, const tp_tensor *s, const tp_tensor *A, double atol, double rtol) {
    int64_t k = s->shape[s->ndim - 1], m = u->shape[u->ndim - 2], batches = tpi_batches_of(u, 2);
    int parts = tp_dtype_is_complex((tp_dtype)u->dtype) ? 2 : 1;
    for (int64_t b = 0; b < batches; b++) {
        double limit = cutoff(A, largest_of(s, b * k, k), atol, rtol);
        for (int64_t j = 0; j < k; j++) {
            double v = real_at(s, b * k + j), factor = fabs(v) > limit ? 1 / v : 0;
            for (int64_t i = 0; i < m * parts; i++) {
                int64_t at = (b * k + j) * m * parts + i;
                if (s->dtype == TP_FLOAT32)
                    ((float *)u->data)[at] = factor != 0 ? ((float *)u->data)[at] * (float)factor : 0;
                else
                    ((double *)u->data)[at] = factor != 0 ? ((double *)u->data)[at] * factor : 0;
            }
        }
    }
}

static void conjugate(tp_tensor *t) { /* a dense tensor, in place */
    for (int64_t i = 0; i < t->numel; i++) {
        if (t->dtype == TP_COMPLEX64)
            ((tpi_c64 *)t->data)[i].im = -((tpi_c64 *)t->data)[i].im;
        else if (t->dtype == TP_COMPLEX128)
            ((tpi_c128 *)t->data)[i].im = -((tpi_c128 *)t->data)[i].im;
    }
}

/* A^+ = V S^-1 U^H. u is (m, k) and vh (k, n), column-major; both are used up. */
static tp_tensor *pinv_product(tp_tensor *A, tp_tensor *u, tp_tensor *s, tp_tensor *vh, double atol, double rtol) {
    int64_t m = A->shape[A->ndim - 2], n = A->shape[A->ndim - 1], k = s->shape[s->ndim - 1];
    int64_t shape[TP_MAX_DIMS];
    memcpy(shape, A->shape, sizeof *shape * (size_t)A->ndim);
    shape[A->ndim - 2] = n;
    shape[A->ndim - 1] = m;
    tp_tensor *out = tpi_empty(tp_ints_view(shape, A->ndim), (tp_dtype)A->dtype, tpi_device(A));
    if (!out) return NULL;
    divide_columns(u, s, A, atol, rtol);
    conjugate(u);
    conjugate(vh);
    if (!k) return tpi_fill_data(out, tp_int(0)) ? out : tpi_release_then(out, NULL);
    /* V is vh^T: its rows are vh's columns; U^H's rows are u's columns. */
    tpi_product p = {.dtype = (tp_dtype)A->dtype,
                     .batches = tpi_batches_of(A, 2),
                     .m = n,
                     .n = m,
                     .k = k,
                     .a = {vh->data, n * k, k, 1},
                     .b = {u->data, m * k, m, 1},
                     .c = out->data,
                     .c_batch = n * m,
                     .c_row = m,
                     .alpha = tp_int(1),
                     .beta = tp_int(0)};
    tpi_multiply(&p);
    return out;
}

/* A = V L V^H: the eigenvectors serve as U, and their conjugate transpose as Vh. */
static bool hermitian_svd(tp_tensor *A, tp_tensor **usv) {
    tp_tensor *e[2];
    if (!tpi_native_eigh(A, "L", e)) return false;
    tp_tensor *v = e[1];
    int n = v->ndim;
    int64_t strides[TP_MAX_DIMS];
    memcpy(strides, v->strides, sizeof *strides * (size_t)n);
    strides[n - 2] = v->strides[n - 1];
    strides[n - 1] = v->strides[n - 2];
    tp_tensor *flipped = tpi_alias(v, n, v->shape, strides, tpi_offset(v)),
              *vh = flipped ? tpi_columns_copy(flipped, tp_no_ints()) : NULL;
    tpi_release(flipped);
    if (!vh) {
        tpi_release(e[0]);
        tpi_release(e[1]);
        return false;
    }
    conjugate(vh);
    usv[0] = v;
    usv[1] = e[0];
    usv[2] = vh;
    return true;
}

tp_tensor *tpi_native_pinv(tp_tensor *self, double atol, double rtol, bool hermitian) {
    tp_tensor *usv[3];
    if (!(hermitian ? hermitian_svd(self, usv) : tpi_native_svd(self, false, usv))) return NULL;
    tp_tensor *out = pinv_product(self, usv[0], usv[1], usv[2], atol, rtol);
    for (int i = 0; i < 3; i++) tpi_release(usv[i]);
    return out;
}

/* ---- Exponential ---- */

/* Scaling and squaring with the diagonal Pade approximant of degree 13 (Higham 2005): exp(A) = r(A / 2^s)^(2^s), where
 * the norm of A / 2^s is at most 5.37, and r = (V - U)^-1 (V + U) with U odd and V even in A. */
const double tpi_pade[14] = {64764752532480000,
                             32382376266240000,
                             7771770303897600,
                             1187353796428800,
                             129060195264000,
                             10559470521600,
                             670442572800,
                             33522128640,
                             1323241920,
                             40840800,
                             960960,
                             16380,
                             182,
                             1};
enum { BUFFERS = 6 };

typedef struct square {
    tp_dtype t;
    int n;
    int64_t values; /* real numbers in a matrix: n * n, twice that for complex */
} square;

static double get(const square *q, const char *a, int64_t i) {
    return q->t == TP_FLOAT32 || q->t == TP_COMPLEX64 ? (double)((const float *)a)[i] : ((const double *)a)[i];
}
static void set(const square *q, char *a, int64_t i, double v) {
    if (q->t == TP_FLOAT32 || q->t == TP_COMPLEX64)
        ((float *)a)[i] = (float)v;
    else
        ((double *)a)[i] = v;
}

static double one_norm(const square *q, const char *a) {
    double most = 0;
    int parts = tp_dtype_is_complex(q->t) ? 2 : 1;
    for (int64_t j = 0; j < q->n; j++) {
        double sum = 0;
        for (int64_t i = 0; i < q->n; i++) {
            int64_t at = (j * q->n + i) * parts;
            sum += parts == 2 ? hypot(get(q, a, at), get(q, a, at + 1)) : fabs(get(q, a, at));
        }
        if (!(sum <= most)) most = sum;
    }
    return most;
}

/* c = a b, for column-major matrices, which are each other's transposes in row-major order: c^T = b^T a^T. */
static void multiply_squares(const square *q, const char *a, const char *b, char *c) {
    tpi_product p = {.dtype = q->t,
                     .batches = 1,
                     .m = q->n,
                     .n = q->n,
                     .k = q->n,
                     .a = {b, 0, q->n, 1},
                     .b = {a, 0, q->n, 1},
                     .c = c,
                     .c_row = q->n,
                     .alpha = tp_int(1),
                     .beta = tp_int(0)};
    tpi_multiply(&p);
}

/* out = w6 a6 + w4 a4 + w2 a2 + w0 I */
static void combine(const square *q, char *out, const char *a6, double w6, const char *a4, double w4, const char *a2,
                    double w2, double w0) {
    for (int64_t i = 0; i < q->values; i++)
        set(q, out, i, w6 * get(q, a6, i) + w4 * get(q, a4, i) + w2 * get(q, a2, i));
    int parts = tp_dtype_is_complex(q->t) ? 2 : 1;
    for (int64_t i = 0; w0 != 0 && i < q->n; i++)
        set(q, out, i * (q->n + 1) * parts, get(q, out, i * (q->n + 1) * parts) + w0);
}

static void exponential_one(const tpi_matrices *x, int64_t index, tpi_scratch *s) {
    square q = {x->dtype, x->n, (int64_t)x->n * x->n * (tp_dtype_is_complex(x->dtype) ? 2 : 1)};
    size_t bytes = ((size_t)x->n * (size_t)x->n * tpi_dtype_bytes[x->dtype] + 63) / 64 * 64;
    char *a = tpi_at(x->a, index), *b[BUFFERS];
    for (int i = 0; i < BUFFERS; i++) b[i] = s->memory + (size_t)i * bytes;
    int *pivots = (int *)(s->memory + BUFFERS * bytes);
    double norm = one_norm(&q, a);
    if (!(norm < HUGE_VAL)) { /* infinities and NaN have no exponential */
        for (int64_t i = 0; i < q.values; i++) set(&q, a, i, NAN);
        return;
    }
    int halvings = 0;
    while (ldexp(norm, -halvings) > 5.37) halvings++;
    for (int64_t i = 0; i < q.values; i++) set(&q, a, i, ldexp(get(&q, a, i), -halvings));
    char *a2 = b[0], *a4 = b[1], *a6 = b[2], *u = b[3], *v = b[4], *w = b[5];
    multiply_squares(&q, a, a, a2);
    multiply_squares(&q, a2, a2, a4);
    multiply_squares(&q, a2, a4, a6);
    combine(&q, w, a6, tpi_pade[13], a4, tpi_pade[11], a2, tpi_pade[9], 0);
    multiply_squares(&q, a6, w, v);
    combine(&q, w, a6, tpi_pade[7], a4, tpi_pade[5], a2, tpi_pade[3], tpi_pade[1]);
    for (int64_t i = 0; i < q.values; i++) set(&q, w, i, get(&q, w, i) + get(&q, v, i));
    multiply_squares(&q, a, w, u);
    combine(&q, w, a6, tpi_pade[12], a4, tpi_pade[10], a2, tpi_pade[8], 0);
    multiply_squares(&q, a6, w, v);
    combine(&q, w, a6, tpi_pade[6], a4, tpi_pade[4], a2, tpi_pade[2], tpi_pade[0]);
    for (int64_t i = 0; i < q.values; i++) {
        double even = get(&q, w, i) + get(&q, v, i), odd = get(&q, u, i);
        set(&q, a, i, even + odd);
        set(&q, v, i, even - odd);
    }
    tpi_lapack_getrf(q.t, q.n, q.n, v, pivots);
    tpi_lapack_getrs(q.t, 'N', q.n, q.n, v, pivots, a);
    for (int i = 0; i < halvings; i++) {
        multiply_squares(&q, a, a, w);
        memcpy(a, w, (size_t)x->n * (size_t)x->n * tpi_dtype_bytes[x->dtype]);
    }
}

tp_tensor *tpi_native_matrix_exp(tp_tensor *self) {
    if (!tpi_check_square(self, "self")) return NULL;
    tp_tensor *out = tpi_columns_copy(self, tp_no_ints());
    if (!out || !out->numel) return out;
    int n = (int)self->shape[self->ndim - 1];
    tpi_matrices x = {
        .dtype = (tp_dtype)self->dtype, .batches = tpi_batches_of(self, 2), .m = n, .n = n, .a = tpi_columns_part(out)};
    size_t bytes = ((size_t)n * (size_t)n * tpi_dtype_bytes[x.dtype] + 63) / 64 * 64;
    bool ok = tpi_each_matrix(&x, BUFFERS * bytes + (size_t)n * sizeof(int), exponential_one);
    return tpi_release_then(out, ok ? tpi_contiguous_data(out) : NULL);
}
