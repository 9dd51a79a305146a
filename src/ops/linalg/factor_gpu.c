/* Factorisations on GPUs by kernels of ours, a block of threads per matrix; QR and what reflectors make, by the
 * driver's library where that is sooner; and determinants, from LU. */
#include "ops/linalg/factor_gpu.h"
#include "tpi_ops.h"

enum { MOST = 512, LONGEST = 1 << 16, FEW = 17 * 32, MANY = 33 * 64, MOST_HELD_BYTES = 17 << 10 };

static const tpi_gpu_site lu_site = {"factor_gpu_kernel.h", "lu"}, solve_site = {"factor_gpu_kernel.h", "solve"},
                          systems_site = {"factor_gpu_kernel.h", "systems"},
                          determinant_site = {"factor_gpu_kernel.h", "determinant"};
static const tpi_gpu_site cholesky_site = {"factor_gpu_kernel.h", "cholesky"},
                          reflectors_site = {"factor_gpu_kernel.h", "reflectors"},
                          product_site = {"factor_gpu_kernel.h", "product"};
static const tpi_gpu_site permutation_site = {"factor_gpu_kernel.h", "permutation"};

static bool is_complex(const tp_tensor *t) { return tp_dtype_is_complex((tp_dtype)t->dtype); }
static bool is_wide(const tp_tensor *t) { return t->dtype == TP_FLOAT64 || t->dtype == TP_COMPLEX128; }

bool tpi_gpu_blocks_fit(const tp_tensor *t) {
    if (tpi_device(t).type == TP_META) return false; /* shapes and layouts are the CPU's: fallback.h */
    if (t->ndim < 2 || !t->numel ||
        !(is_complex(t) || (tp_dtype_is_floating((tp_dtype)t->dtype) && tpi_itemsize(t) >= 4)) || !tpi_gpu_has_dtype(t))
        return false;
    int64_t m = tpi_rows_of(t), n = tpi_cols_of(t);
    return (m < n ? m : n) <= MOST && m <= LONGEST && n <= LONGEST;
}

/* ---- Launching ---- */
typedef struct team {
    int threads, lanes;
} team;

/* Threads for one matrix; on a device whose threads do not work together it has one. */
static team team_for(const tp_tensor *t) {
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(tpi_device(t));
    if (!caps || !tpi_gpu_sharing(caps)) return (team){1, 1};
    return (team){tpi_rows_of(t) * tpi_cols_of(t) <= 256 ? 32 : tpi_gpu_block_size(caps), tpi_rows_of(t) <= 16   ? 8
                                                                                          : tpi_rows_of(t) <= 32 ? 16
                                                                                                                 : 32};
}

/* How many numbers of shared memory a kernel for so many has; 0: it is too much. Few sizes, since each has a kernel of
 * its own. */
static int matrices_that_fit(const tp_tensor *t, int64_t held) {
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(tpi_device(t));
    int limit = held <= FEW ? FEW : MANY;
    return caps && tpi_gpu_sharing(caps) && held <= limit && (int64_t)limit * tpi_itemsize(t) <= MOST_HELD_BYTES ? limit
                                                                                                                 : 0;
}

bool tpi_gpu_holds(const tp_tensor *t, int64_t held) { return matrices_that_fit(t, held) > 0; }

static tpi_gpu_function *kernel_of(const tpi_gpu_matrix_kernel *k, const tp_tensor *t, team of) {
    const tpi_gpu_define defines[] = {TPI_DEFINE("COMPLEX", is_complex(t)), TPI_DEFINE("TEAM", of.threads),
                                      TPI_DEFINE("LANES", of.lanes), TPI_DEFINE("OPTION", k->option),
                                      TPI_DEFINE("HELD", k->held ? matrices_that_fit(t, k->held) : 0)};
    return tpi_gpu_site_kernel(tpi_device(t), k->site, is_wide(t), 5, defines);
}

bool tpi_gpu_each_matrix(tpi_gpu_matrix_kernel k, const tp_tensor *t, int nargs, const tpi_gpu_arg *args) {
    team of = team_for(t);
    tpi_gpu_function *kernel = kernel_of(&k, t, of);
    return kernel && tpi_gpu_launch(tpi_device(t), kernel, tpi_batches_of(t, 2), of.threads, 0, nargs, args);
}

/* A thread for each of n things. */
static bool each_thread(const tpi_gpu_site *site, const tp_tensor *t, int64_t n, int nargs, const tpi_gpu_arg *args) {
    tpi_gpu_function *kernel = kernel_of(&(tpi_gpu_matrix_kernel){.site = site}, t, (team){1, 1});
    return kernel && tpi_gpu_launch(tpi_device(t), kernel, tpi_ceil_div(n, 64), 64, 0, nargs, args);
}

/* ---- LU and Cholesky ---- */
bool tpi_gpu_block_lu(tp_tensor *a, tp_tensor *pivots, tp_tensor *info) {
    int m = (int)tpi_rows_of(a), n = (int)tpi_cols_of(a);
    return tpi_gpu_each_matrix((tpi_gpu_matrix_kernel){&lu_site, tpi_gpu_held(m, n), 0}, a, 5,
                               (tpi_gpu_arg[]){TPI_GPU_PTR(a->data), TPI_GPU_PTR(pivots->data), TPI_GPU_PTR(info->data),
                                               TPI_GPU_VAL(m), TPI_GPU_VAL(n)});
}

bool tpi_gpu_block_solve(tp_tensor *a, tp_tensor *b, bool inverse, tp_tensor *info) {
    int64_t systems = tpi_batches_of(a, 2);
    int n = (int)tpi_cols_of(a), sides = (int)tpi_cols_of(b);
    tpi_gpu_matrix_kernel both = {&systems_site, tpi_gpu_held(n, (int64_t)n + sides), inverse};
    if (tpi_gpu_holds(a, both.held))
        return tpi_gpu_each_matrix(both, a, 5,
                                   (tpi_gpu_arg[]){TPI_GPU_PTR(a->data), TPI_GPU_PTR(b->data), TPI_GPU_PTR(info->data),
                                                   TPI_GPU_VAL(n), TPI_GPU_VAL(sides)});
    tp_tensor *pivots = tpi_rows_new(a, 2, n, TP_INT32);
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(a->data), TPI_GPU_PTR(tpi_gpu_data(pivots)),
                                TPI_GPU_PTR(b->data), TPI_GPU_VAL(systems),
                                TPI_GPU_VAL(n),       TPI_GPU_VAL(sides)};
    bool ok = pivots && (!inverse || tpi_gpu_fill_identity(b)) && tpi_gpu_block_lu(a, pivots, info) &&
              each_thread(&solve_site, a, systems * sides, 6, args);
    tpi_release(pivots);
    return ok;
}

bool tpi_gpu_fill_identity(tp_tensor *t) {
    tp_tensor *diagonal = tpi_fill_data(t, tp_int(0)) ? tpo_diagonal(t, 0, -2, -1) : NULL;
    bool ok = diagonal && tpi_fill_data(diagonal, tp_int(1));
    tpi_release(diagonal);
    return ok;
}

bool tpi_gpu_block_cholesky(tp_tensor *a, tp_tensor *info) {
    int n = (int)tpi_cols_of(a);
    return tpi_gpu_each_matrix((tpi_gpu_matrix_kernel){&cholesky_site, tpi_gpu_held(n, n), 0}, a, 3,
                               (tpi_gpu_arg[]){TPI_GPU_PTR(a->data), TPI_GPU_PTR(info->data), TPI_GPU_VAL(n)});
}

/* P (m, m) with A = P L U, one matrix per row of pivots. */
tpi_served tpi_gpu_lu_permutation(tp_tensor *pivots, int64_t m, tp_dtype dtype, tp_tensor **result) {
    bool number = tp_dtype_is_complex(dtype) || (tp_dtype_is_floating(dtype) && tpi_dtype_bytes[dtype] >= 4);
    if (pivots->ndim < 1 || !pivots->numel || !tpi_gpu_is_index(pivots) || !number || m < 1 || m > INT32_MAX / 2 ||
        tpi_cols_of(pivots) > m)
        return TPI_DECLINED;
    tp_tensor *p = tpi_columns_new(pivots, 1, m, m, dtype),
              *rows = p && tpi_gpu_has_dtype(p) ? tpi_rows_new(pivots, 1, m, TP_INT32) : NULL;
    tp_tensor *narrow = rows ? tpi_as_dtype_data(pivots, TP_INT32) : NULL,
              *from = narrow ? tpi_contiguous_data(narrow) : NULL;
    const tpi_gpu_fault fault = tpi_gpu_fault_of(tpi_device(pivots));
    int64_t systems = tpi_batches_of(pivots, 1);
    int size = (int)m, k = (int)tpi_cols_of(pivots);
    const tpi_gpu_arg args[] = {TPI_GPU_FAULT(fault),
                                TPI_GPU_PTR(tpi_gpu_data(p)),
                                TPI_GPU_PTR(tpi_gpu_data(from)),
                                TPI_GPU_PTR(tpi_gpu_data(rows)),
                                TPI_GPU_VAL(systems),
                                TPI_GPU_VAL(size),
                                TPI_GPU_VAL(k)};
    bool ok = from && fault.word && tpi_fill_data(p, tp_int(0)) && each_thread(&permutation_site, p, systems, 8, args);
    tpi_release(rows);
    tpi_release(narrow);
    tpi_release(from);
    return tpi_serve(ok ? p : tpi_release_then(p, NULL), result);
}

/* ---- Determinants ---- */
static bool determinants(tp_tensor *A, tp_tensor *sign, tp_tensor *logarithm) {
    tp_tensor *factored[3];
    if (!A->numel)
        return tpi_fill_data(sign, tp_int(1)) &&
               (!logarithm || tpi_fill_data(logarithm, tp_int(0))); /* of matrices without elements */
    if (tpi_gpu_lu_factor_ex(A, true, false, factored) != TPI_SERVED) return false;
    int n = (int)tpi_cols_of(A);
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(factored[0]->data), TPI_GPU_PTR(factored[1]->data), TPI_GPU_PTR(sign->data),
                                TPI_GPU_PTR(tpi_gpu_data(logarithm)), TPI_GPU_VAL(n)};
    bool ok = tpi_gpu_each_matrix((tpi_gpu_matrix_kernel){&determinant_site, 0, logarithm != NULL}, A, 5, args);
    for (int i = 0; i < 3; i++) tpi_release(factored[i]);
    return ok;
}

static bool has_determinants(const tp_tensor *A) {
    return A->ndim >= 2 && tpi_rows_of(A) == tpi_cols_of(A) && tpi_gpu_has_dtype(A) &&
           (is_complex(A) || (tp_dtype_is_floating((tp_dtype)A->dtype) && tpi_itemsize(A) >= 4));
}

tpi_served tpi_gpu_det(tp_tensor *A, tp_tensor **result) {
    tp_tensor *det = has_determinants(A) ? tpi_batch_new(A, 2, (tp_dtype)A->dtype) : NULL;
    return tpi_serve(det && determinants(A, det, NULL) ? det : tpi_release_then(det, NULL), result);
}

tpi_served tpi_gpu_slogdet(tp_tensor *A, tp_tensor **out) {
    if (!has_determinants(A)) return TPI_DECLINED;
    tp_tensor *sign = tpi_batch_new(A, 2, (tp_dtype)A->dtype),
              *size = sign ? tpi_batch_new(A, 2, tpi_dtype_to_real((tp_dtype)A->dtype)) : NULL;
    bool ok = size && determinants(A, sign, size);
    return tpi_serve_if(tpi_put_pair(ok, sign, size, out));
}

/* ---- QR ---- */
static bool reflectors(tp_tensor *a, tp_tensor *tau) { /* false without an error: not served */
    const tpi_gpu_driver *driver = tpi_gpu_solver_for(a);
    if (driver) {
        tp_tensor *info = tpi_batch_new(a, 2, TP_INT32);
        bool ok = info && tpi_gpu_library_solves(
                              driver, a,
                              (tpi_gpu_solver){.what = TPI_SOLVER_QR, .b = tau->data, .info = (int32_t *)info->data});
        tpi_release(info);
        if (ok || tp_error()) return ok;
    }
    int m = (int)tpi_rows_of(a), n = (int)tpi_cols_of(a);
    return tpi_gpu_blocks_fit(a) &&
           tpi_gpu_each_matrix(
               (tpi_gpu_matrix_kernel){&reflectors_site, tpi_gpu_held(m, n), 0}, a, 4,
               (tpi_gpu_arg[]){TPI_GPU_PTR(a->data), TPI_GPU_PTR(tau->data), TPI_GPU_VAL(m), TPI_GPU_VAL(n)});
}

tpi_served tpi_gpu_geqrf(tp_tensor *self, tp_tensor **out) {
    if (!tpi_gpu_blocks_fit(self) && !tpi_gpu_solver_for(self)) return tpi_not_served();
    int64_t m = tpi_rows_of(self), n = tpi_cols_of(self);
    tp_tensor *a = tpi_columns_copy(self, tp_no_ints()),
              *tau = a ? tpi_rows_new(self, 2, m < n ? m : n, (tp_dtype)self->dtype) : NULL;
    bool ok = tau && reflectors(a, tau);
    return tpi_serve_if(tpi_put_pair(ok, a, tau, out));
}

static bool multiply(tp_tensor *q, const tp_tensor *tau) { /* q: reflectors, which become their product */
    const tpi_gpu_driver *driver = tpi_gpu_solver_for(q);
    int m = (int)tpi_rows_of(q), n = (int)tpi_cols_of(q), k = (int)tpi_cols_of(tau);
    if (driver && k) {
        tp_tensor *info = tpi_batch_new(q, 2, TP_INT32);
        bool ok = info && tpi_gpu_library_solves(driver, q,
                                                 (tpi_gpu_solver){.what = TPI_SOLVER_QR_PRODUCT,
                                                                  .b = tau->data,
                                                                  .columns = k,
                                                                  .info = (int32_t *)info->data});
        tpi_release(info);
        if (ok || tp_error()) return ok;
    }
    return tpi_gpu_blocks_fit(q) &&
           tpi_gpu_each_matrix((tpi_gpu_matrix_kernel){&product_site, tpi_gpu_held(m, n), 0}, q, 5,
                               (tpi_gpu_arg[]){TPI_GPU_PTR(q->data), TPI_GPU_PTR(tau->data), TPI_GPU_VAL(m),
                                               TPI_GPU_VAL(n), TPI_GPU_VAL(k)});
}

/* The first columns of the product of reflectors (m, >= k) with tau (k). */
static tp_tensor *first_columns(tp_tensor *from, tp_tensor *tau, int64_t columns) {
    int64_t have = tpi_cols_of(from) < columns ? tpi_cols_of(from) : columns;
    tp_tensor *q = tpi_columns_new(from, 2, tpi_rows_of(from), columns, (tp_dtype)from->dtype);
    tp_tensor *to = q ? tpi_narrowed(q, q->ndim - 1, 0, have) : NULL,
              *part = to ? tpi_narrowed(from, from->ndim - 1, 0, have) : NULL;
    tp_tensor *t = part && tpi_copy_data(to, part) ? tpi_contiguous_data(tau) : NULL;
    bool ok = t && multiply(q, t);
    tpi_release(to);
    tpi_release(part);
    tpi_release(t);
    return ok ? q : tpi_release_then(q, NULL);
}

tpi_served tpi_gpu_qr(tp_tensor *A, const char *mode, tp_tensor **out) {
    bool complete = !strcmp(mode, "complete"), r_only = !strcmp(mode, "r");
    tp_tensor *factored[2];
    if ((!complete && !r_only && strcmp(mode, "reduced")) || tpi_gpu_geqrf(A, factored) != TPI_SERVED)
        return tpi_not_served();
    int64_t m = tpi_rows_of(A), n = tpi_cols_of(A), rows = complete ? m : m < n ? m : n;
    tp_tensor *q = r_only ? tpi_empty(TP_INTS(0), (tp_dtype)A->dtype, tpi_device(A))
                          : first_columns(factored[0], factored[1], rows);
    tp_tensor *top = q ? tpi_narrowed(factored[0], A->ndim - 2, 0, rows) : NULL,
              *r = top ? tpi_columns_copy(top, tp_no_ints()) : NULL;
    bool ok = r && tpo_triu_(r, 0);
    tpi_release(factored[0]);
    tpi_release(factored[1]);
    tpi_release(top);
    return tpi_serve_if(tpi_put_pair(ok, q, r, out));
}

tpi_served tpi_gpu_householder_product(tp_tensor *input, tp_tensor *tau, tp_tensor **result) {
    bool fits = input->ndim >= 2 && tau->dtype == input->dtype && tau->ndim == input->ndim - 1 && input->numel &&
                tpi_rows_of(input) >= tpi_cols_of(input) && tpi_cols_of(tau) <= tpi_cols_of(input);
    for (int d = 0; fits && d + 1 < tau->ndim; d++) fits = tau->shape[d] == input->shape[d];
    return tpi_serve(fits && (tpi_gpu_blocks_fit(input) || tpi_gpu_solver_for(input))
                         ? first_columns(input, tau, tpi_cols_of(input))
                         : NULL,
                     result);
}
