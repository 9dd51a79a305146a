/* Linear algebra on GPUs: factorisations and systems by the driver's library where matrices are large enough for it, by
 * kernels of a block per matrix (factor_gpu_kernel.h) where they are small, or many. What goes wrong is declined: the
 * CPU's natives say why. */
#include "device/gpu/trace.h"
#include "ops/temporaries.h"
#include "ops/linalg/factor_gpu.h"
#include "tpi_ops.h"

enum { LEAST = 64, MOST_MATRICES = 64 };

static int64_t rows_of(const tp_tensor *t) { return tpi_rows_of(t); }
static int64_t cols_of(const tp_tensor *t) { return tpi_cols_of(t); }

const tpi_gpu_driver *tpi_gpu_solver_for(const tp_tensor *t) { /* NULL without an error: not worth it, or not there */
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)tpi_device(t).type);
    if (!driver || !driver->solver || t->ndim < 2 || (tp_dtype_is_floating((tp_dtype)t->dtype) && tpi_itemsize(t) < 4))
        return NULL;
    if (!tp_dtype_is_floating((tp_dtype)t->dtype) && !tp_dtype_is_complex((tp_dtype)t->dtype)) return NULL;
    int64_t least = rows_of(t) < cols_of(t) ? rows_of(t) : cols_of(t), batch = tpi_batches_of(t, 2);
    return least >= LEAST && batch >= 1 && batch <= MOST_MATRICES ? driver : NULL;
}

bool tpi_gpu_library_solves(const tpi_gpu_driver *driver, const tp_tensor *a, tpi_gpu_solver s) {
    tp_device device = tpi_device(a);
    s.dtype = (tp_dtype)a->dtype;
    s.m = rows_of(a);
    s.n = cols_of(a);
    s.batch = tpi_batches_of(a, 2);
    s.a = a->data;
    tpi_gpu_span span = tpi_gpu_span_begin(device, TP_ACTIVITY_LIBRARY, "solver", 0);
    bool served = driver->solver(device.index, tpi_gpu_stream_of(device), &s) == TPI_SERVED;
    tpi_gpu_span_end(&span, served);
    return served;
}

bool tpi_gpu_info_clear(const tp_tensor *info) {
    tp_tensor *here = tpi_empty(tpi_shape(info), TP_INT32, (tp_device){TP_CPU, 0});
    int64_t batch;
    bool zero = here && tpi_copy_data(here, info) && tpi_first_info(here, &batch) == 0;
    tpi_release(here);
    return zero;
}

bool tpi_gpu_hand_over(int n, tp_tensor *const *made, bool ok, tp_tensor **out) {
    for (int i = 0; i < n; i++) {
        if (ok)
            out[i] = made[i];
        else
            tpi_release(made[i]);
    }
    return ok;
}

tpi_served tpi_gpu_cholesky_ex(tp_tensor *self, bool upper, bool check_errors, tp_tensor **out) {
    const tpi_gpu_driver *driver = tpi_gpu_solver_for(self);
    if ((!driver && !tpi_gpu_blocks_fit(self)) || rows_of(self) != cols_of(self)) return TPI_DECLINED;
    tp_tensor *plain = tpi_detached(self),
              *seen = plain && upper && !driver
                          ? tpo_adjoint_physical(plain)
                          : tpi_retain(plain); /* the kernel reads the lower triangle, and A is its own adjoint */
    tp_tensor *l = seen ? tpi_columns_copy(seen, tp_no_ints()) : NULL,
              *info = l ? tpi_batch_new(self, 2, TP_INT32) : NULL;
    tpi_release(seen);
    tpi_release(plain);
    bool ok =
        info &&
        (driver ? tpi_gpu_library_solves(
                      driver, l,
                      (tpi_gpu_solver){.what = TPI_SOLVER_CHOLESKY, .upper = upper, .info = (int32_t *)info->data})
                : tpi_gpu_block_cholesky(l, info));
    ok = ok && (!check_errors || tpi_gpu_info_clear(info)) &&
         (upper && driver ? tpo_triu_(l, 0) : tpo_tril_(l, 0)) != NULL;
    if (ok && upper && !driver) ok = (l = tpi_release_then(l, tpo_adjoint_physical(l))) != NULL;
    return tpi_serve_if(tpi_gpu_hand_over(2, (tp_tensor *[]){l, info}, ok, out));
}

/* The factors take a's place; pivots are 64-bit, as the library's are. */
static bool factor(const tpi_gpu_driver *driver, tp_tensor *a, tp_tensor *pivots, tp_tensor *info) {
    return tpi_gpu_library_solves(
        driver, a,
        (tpi_gpu_solver){.what = TPI_SOLVER_LU, .pivots = (int64_t *)pivots->data, .info = (int32_t *)info->data});
}

static bool lu_of_blocks(tp_tensor *A, bool check_errors, tp_tensor **out) {
    int64_t least = rows_of(A) < cols_of(A) ? rows_of(A) : cols_of(A);
    tp_tensor *lu = tpi_columns_copy(A, tp_no_ints()), *pivots = lu ? tpi_rows_new(A, 2, least, TP_INT32) : NULL,
              *info = pivots ? tpi_batch_new(A, 2, TP_INT32) : NULL;
    bool ok = info && tpi_gpu_block_lu(lu, pivots, info) && (!check_errors || tpi_gpu_info_clear(info));
    return tpi_gpu_hand_over(3, (tp_tensor *[]){lu, pivots, info}, ok, out);
}

tpi_served tpi_gpu_lu_factor_ex(tp_tensor *A, bool pivot, bool check_errors, tp_tensor **out) {
    const tpi_gpu_driver *driver = tpi_gpu_solver_for(A);
    if (!pivot || (!driver && !tpi_gpu_blocks_fit(A))) return TPI_DECLINED;
    if (!driver) return tpi_serve_if(lu_of_blocks(A, check_errors, out));
    int64_t least = rows_of(A) < cols_of(A) ? rows_of(A) : cols_of(A);
    tp_tensor *lu = tpi_columns_copy(A, tp_no_ints()), *wide = lu ? tpi_rows_new(A, 2, least, TP_INT64) : NULL,
              *info = wide ? tpi_batch_new(A, 2, TP_INT32) : NULL;
    bool ok = info && factor(driver, lu, wide, info) && (!check_errors || tpi_gpu_info_clear(info));
    tp_tensor *pivots = ok ? tpi_as_dtype_data(wide, TP_INT32) : NULL;
    tpi_release(wide);
    return tpi_serve_if(tpi_gpu_hand_over(3, (tp_tensor *[]){lu, pivots, info}, ok && pivots, out));
}

/* b becomes the solution of a x = b by the library; a is scratch. */
static bool solve_with(const tpi_gpu_driver *driver, tp_tensor *a, tp_tensor *b, tp_tensor *info) {
    tp_tensor *pivots = tpi_rows_new(a, 2, cols_of(a), TP_INT64),
              *scrap = pivots ? tpi_batch_new(a, 2, TP_INT32) : NULL;
    bool ok = scrap && factor(driver, a, pivots, info) &&
              tpi_gpu_library_solves(driver, a,
                                     (tpi_gpu_solver){.what = TPI_SOLVER_LU_SOLVE,
                                                      .b = b->data,
                                                      .columns = cols_of(b),
                                                      .pivots = (int64_t *)pivots->data,
                                                      .info = (int32_t *)scrap->data});
    tpi_release(pivots);
    tpi_release(scrap);
    return ok;
}

/* b, in column order, becomes the solution of A x = b (inverse: of the identity), where A's batch dims are those of
 * `batch` (not given: its own). info: of A's factors. driver: the library's, or NULL. */
static bool solve(const tpi_gpu_driver *driver, tp_tensor *A, tp_ints batch, tp_tensor *b, bool inverse,
                  tp_tensor *info) {
    tp_tensor *a = tpi_columns_copy(A, batch);
    bool ok = a && (driver ? (!inverse || tpi_gpu_fill_identity(b)) && solve_with(driver, a, b, info)
                           : tpi_gpu_block_solve(a, b, inverse, info));
    tpi_release(a);
    return ok;
}

tpi_served tpi_gpu_inv_ex(tp_tensor *A, bool check_errors, tp_tensor **out) {
    const tpi_gpu_driver *driver = tpi_gpu_solver_for(A);
    if ((!driver && !tpi_gpu_blocks_fit(A)) || rows_of(A) != cols_of(A)) return TPI_DECLINED;
    tp_tensor *x = tpi_columns_new(A, 2, rows_of(A), cols_of(A), (tp_dtype)A->dtype),
              *info = x ? tpi_batch_new(A, 2, TP_INT32) : NULL;
    bool ok = info && solve(driver, A, tp_no_ints(), x, true, info) && (!check_errors || tpi_gpu_info_clear(info));
    return tpi_serve_if(tpi_gpu_hand_over(2, (tp_tensor *[]){x, info}, ok, out));
}

/* A X = B for matrices on both sides, whose batch dims may broadcast. */
static bool solve_systems(tp_tensor *A, tp_tensor *B, bool check_errors, tp_tensor **out) {
    int64_t batch[TP_MAX_DIMS];
    int ndim;
    if (B->ndim < 2 || rows_of(B) != cols_of(A) || !B->numel) return false;
    if (!tpi_broadcast(tp_ints_view(A->shape, A->ndim - 2), tp_ints_view(B->shape, B->ndim - 2), batch, &ndim)) {
        tp_error_clear();
        return false;
    }
    const tpi_gpu_driver *driver = tpi_gpu_solver_for(A);
    tp_tensor *x = tpi_columns_copy(B, tp_ints_view(batch, ndim)), *info = x ? tpi_batch_new(x, 2, TP_INT32) : NULL;
    if (driver && info && tpi_batches_of(x, 2) > MOST_MATRICES) driver = NULL;
    bool ok = info && (driver || tpi_gpu_blocks_fit(A)) &&
              solve(driver, A, tp_ints_view(batch, ndim), x, false, info) &&
              (!check_errors || tpi_gpu_info_clear(info));
    return tpi_gpu_hand_over(2, (tp_tensor *[]){x, info}, ok, out);
}

/* X A = B is A^T X^T = B^T; a vector is a matrix of one column. */
tpi_served tpi_gpu_solve_ex(tp_tensor *A, tp_tensor *B, bool left, bool check_errors, tp_tensor **out) {
    if (A->ndim < 2 || !A->numel || A->dtype != B->dtype || rows_of(A) != cols_of(A) ||
        !(tpi_gpu_blocks_fit(A) || tpi_gpu_solver_for(A)))
        return tpi_not_served();
    bool vector = tpi_are_vectors(A, B);
    if ((vector && !left) || (!vector && B->ndim < 2)) return TPI_DECLINED;
    tpi_temporaries temps = {0};
    tp_tensor *a = tpi_put(&temps, tpi_detached(A)), *b = tpi_put(&temps, tpi_detached(B)), *made[2] = {NULL};
    if (a && b && !left) {
        a = tpi_put(&temps, tpo_transpose(a, -2, -1));
        b = tpi_put(&temps, tpo_transpose(b, -2, -1));
    }
    if (b && vector) b = tpi_put(&temps, tpo_unsqueeze(b, -1));
    bool ok = a && b && solve_systems(a, b, check_errors, made);
    if (ok && vector) ok = (made[0] = tpi_release_then(made[0], tpo_squeeze_dim(made[0], -1))) != NULL;
    if (ok && !left) ok = (made[0] = tpi_release_then(made[0], tpo_transpose(made[0], -2, -1))) != NULL;
    tpi_release_temporaries(&temps, NULL);
    if (!ok && made[1]) tpi_release(made[1]);
    if (ok) {
        out[0] = made[0];
        out[1] = made[1];
    }
    return tpi_serve_if(ok);
}

/* By rotations, which is faster, and where they do not converge by the other way. */
static bool library_svd(const tpi_gpu_driver *driver, tp_tensor *A, bool rotations, tp_tensor **out) {
    int64_t m = rows_of(A), n = cols_of(A);
    tp_dtype dtype = (tp_dtype)A->dtype;
    tp_tensor *a = tpi_columns_copy(A, tp_no_ints()), *u = a ? tpi_columns_new(A, 2, m, n, dtype) : NULL,
              *vh = u ? tpi_columns_new(A, 2, n, n, dtype) : NULL;
    tp_tensor *values = vh ? tpi_rows_new(A, 2, n, tpi_dtype_to_real(dtype)) : NULL,
              *info = values ? tpi_batch_new(A, 2, TP_INT32) : NULL;
    bool ok = info &&
              tpi_gpu_library_solves(driver, a,
                                     (tpi_gpu_solver){.what = rotations ? TPI_SOLVER_SVD_BY_ROTATIONS : TPI_SOLVER_SVD,
                                                      .b = u->data,
                                                      .c = vh->data,
                                                      .values = values->data,
                                                      .info = (int32_t *)info->data}) &&
              tpi_gpu_info_clear(info);
    tpi_release(a);
    tpi_release(info);
    if (ok && rotations) ok = (vh = tpi_release_then(vh, tpo_adjoint(vh))) != NULL;
    return tpi_gpu_hand_over(3, (tp_tensor *[]){u, values, vh}, ok, out);
}

bool tpi_gpu_library_svd(tp_tensor *A, tp_tensor **out) {
    const tpi_gpu_driver *driver = tpi_gpu_solver_for(A);
    if (!driver || rows_of(A) < cols_of(A)) return false;
    return library_svd(driver, A, true, out) || (!tp_error() && library_svd(driver, A, false, out));
}

/* a and x become matrices in column order; the library's triangular systems. */
static bool library_triangular(tp_tensor *a, tp_tensor *x, bool upper, bool left, bool unit) {
    const tpi_gpu_driver *driver = tpi_gpu_solver_for(a);
    return driver && tpi_gpu_library_solves(driver, a,
                                            (tpi_gpu_solver){.what = TPI_SOLVER_TRIANGULAR,
                                                             .upper = upper,
                                                             .right = !left,
                                                             .unit = unit,
                                                             .b = x->data,
                                                             .columns = left ? cols_of(x) : rows_of(x)});
}

/* Triangular systems, by the library or a thread per right-hand side: matrices that are small, or have many of those.
 * X A = B is A^T X^T = B^T. */
tpi_served tpi_gpu_solve_triangular(tp_tensor *self, tp_tensor *B, bool upper, bool left, bool unitriangular,
                                    tp_tensor **result) {
    static const tpi_gpu_site site = {"triangular_gpu_kernel.h", "triangular"};
    int64_t shape[TP_MAX_DIMS];
    int ndim;
    bool complex = tp_dtype_is_complex((tp_dtype)self->dtype),
         wide = self->dtype == TP_FLOAT64 || self->dtype == TP_COMPLEX128;
    if (!(complex || tpi_gpu_floats(self)) || !tpi_gpu_has_dtype(self) || tpi_itemsize(self) < 4 ||
        self->dtype != B->dtype || self->ndim < 2 || B->ndim < 2 || !self->numel || !B->numel)
        return TPI_DECLINED;
    int64_t n = cols_of(self), sides = left ? cols_of(B) : rows_of(B), rows = rows_of(B);
    if (rows_of(self) != n || (left ? rows_of(B) : cols_of(B)) != n) return TPI_DECLINED;
    if (!tpi_broadcast(tp_ints_view(self->shape, self->ndim - 2), tp_ints_view(B->shape, B->ndim - 2), shape, &ndim)) {
        tp_error_clear();
        return TPI_DECLINED;
    }
    tp_tensor *a = tpi_columns_copy(self, tp_ints_view(shape, ndim)),
              *x = a ? tpi_columns_copy(B, tp_ints_view(shape, ndim)) : NULL;
    bool done = x && library_triangular(a, x, upper, left, unitriangular);
    if (done || (x && (tp_error() || n > 4096 || (n > 512 && sides < n / 8)))) {
        tpi_release(a);
        return tpi_serve(done ? x : tpi_release_then(x, NULL), result);
    }
    int64_t systems = x ? tpi_batches_of(x, 2) : 0, down = left ? 1 : n, across = left ? n : 1, step = left ? 1 : rows,
            next = left ? rows : 1, matrix = n * sides;
    const tpi_gpu_define defines[] = {TPI_DEFINE("UPPER", upper == left), TPI_DEFINE("UNIT", unitriangular),
                                      TPI_DEFINE("COMPLEX", complex), TPI_DEFINE("TEAM", 1), TPI_DEFINE("LANES", 1)};
    tpi_gpu_function *kernel = x ? tpi_gpu_site_kernel(tpi_device(self), &site, wide, 5, defines) : NULL;
    int size = (int)n;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(a)),
                                TPI_GPU_PTR(tpi_gpu_data(x)),
                                TPI_GPU_VAL(systems),
                                TPI_GPU_VAL(sides),
                                TPI_GPU_VAL(size),
                                TPI_GPU_VAL(down),
                                TPI_GPU_VAL(across),
                                TPI_GPU_VAL(step),
                                TPI_GPU_VAL(next),
                                TPI_GPU_VAL(matrix)};
    bool ok = kernel && tpi_gpu_launch(tpi_device(self), kernel, tpi_ceil_div(systems * sides, 64), 64, 0, 10, args);
    tpi_release(a);
    return tpi_serve(ok ? x : tpi_release_then(x, NULL), result);
}
