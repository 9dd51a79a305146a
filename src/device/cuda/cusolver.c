/* Factorisations of matrices by cuSOLVER's 64-bit interface, one matrix after the other; its workspace comes from the
 * allocators. Triangular systems go to cuBLAS. */
#include <float.h>
#include <pthread.h>
#include <string.h>
#include "device/cuda/driver_api.h"

enum { R_32F = 0, R_64F = 1, C_32F = 4, C_64F = 5 }; /* the library's types */

static struct {
    bool tried, there;
    int (*create)(void **handle);
    int (*params_new)(void **params);
    int (*set_stream)(void *handle, void *stream);
    int (*cholesky_space)(void *handle, void *params, int upper, int64_t n, int type, const void *a, int64_t lda,
                          int compute, size_t *device, size_t *host);
    int (*cholesky)(void *handle, void *params, int upper, int64_t n, int type, void *a, int64_t lda, int compute,
                    void *space, size_t bytes, void *host, size_t host_bytes, int *info);
    int (*lu_space)(void *handle, void *params, int64_t m, int64_t n, int type, const void *a, int64_t lda, int compute,
                    size_t *device, size_t *host);
    int (*lu)(void *handle, void *params, int64_t m, int64_t n, int type, void *a, int64_t lda, int64_t *pivots,
              int compute, void *space, size_t bytes, void *host, size_t host_bytes, int *info);
    int (*lu_solve)(void *handle, void *params, int trans, int64_t n, int64_t columns, int type, const void *a,
                    int64_t lda, const int64_t *pivots, int b_type, void *b, int64_t ldb, int *info);
    int (*eigen_space)(void *handle, void *params, int vectors, int upper, int64_t n, int type, const void *a,
                       int64_t lda, int value_type, const void *values, int compute, size_t *device, size_t *host);
    int (*eigen)(void *handle, void *params, int vectors, int upper, int64_t n, int type, void *a, int64_t lda,
                 int value_type, void *values, int compute, void *space, size_t bytes, void *host, size_t host_bytes,
                 int *info);
    int (*svd_space)(void *handle, void *params, signed char u_job, signed char v_job, int64_t m, int64_t n, int type,
                     const void *a, int64_t lda, int value_type, const void *values, int u_type, const void *u,
                     int64_t ldu, int v_type, const void *vh, int64_t ldv, int compute, size_t *device, size_t *host);
    int (*svd)(void *handle, void *params, signed char u_job, signed char v_job, int64_t m, int64_t n, int type,
               void *a, int64_t lda, int value_type, void *values, int u_type, void *u, int64_t ldu, int v_type,
               void *vh, int64_t ldv, int compute, void *space, size_t bytes, void *host, size_t host_bytes, int *info);
    int (*qr_space)(void *handle, void *params, int64_t m, int64_t n, int type, const void *a, int64_t lda,
                    int tau_type, const void *tau, int compute, size_t *device, size_t *host);
    int (*qr)(void *handle, void *params, int64_t m, int64_t n, int type, void *a, int64_t lda, int tau_type, void *tau,
              int compute, void *space, size_t bytes, void *host, size_t host_bytes, int *info);
    int (*eig_space)(void *handle, void *params, int left, int right, int64_t n, int type, const void *a, int64_t lda,
                     int value_type, const void *values, int left_type, const void *vl, int64_t ldl, int right_type,
                     const void *vr, int64_t ldr, int compute, size_t *device,
                     size_t *host); /* since CUDA 12.8; may be NULL */
    int (*eig)(void *handle, void *params, int left, int right, int64_t n, int type, void *a, int64_t lda,
               int value_type, void *values, int left_type, void *vl, int64_t ldl, int right_type, void *vr,
               int64_t ldr, int compute, void *space, size_t bytes, void *host, size_t host_bytes, int *info);
    int (*product_space[4])(void *handle, int m, int n, int k, const void *a, int lda, const void *tau,
                            int *elements); /* by type: see product_of */
    int (*product[4])(void *handle, int m, int n, int k, void *a, int lda, const void *tau, void *space, int elements,
                      int *info);
    int (*rotations_new)(void **rotations);
    int (*rotations_tolerance)(void *rotations, double tolerance);
    int (*rotations_space[4])(void *handle, int vectors, int thin, int m, int n, const void *a, int lda,
                              const void *values, const void *u, int ldu, const void *v, int ldv, int *elements,
                              void *rotations);
    int (*rotations[4])(void *handle, int vectors, int thin, int m, int n, void *a, int lda, void *values, void *u,
                        int ldu, void *v, int ldv, void *space, int elements, int *info, void *rotations);
    void *params;
    void *by_rotations[2]; /* for 32-bit and 64-bit floats: how exact they are to be */
    void *handle[TPI_MAX_GPUS];
} solver;

static struct {
    bool tried, there;
    int (*create)(void **handle);
    int (*set_stream)(void *handle, void *stream);
    int (*triangular[4])(void *handle, int right, int upper, int op, int unit, int m, int n, const void *one,
                         const void *a, int lda, void *b, int ldb);
    void *handle[TPI_MAX_GPUS];
} blas;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool open_library(void) {
    static const char *const names[] = {"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so", NULL};
    const tpi_symbol symbols[] = {{"cusolverDnCreate", &solver.create},
                                  {"cusolverDnCreateParams", &solver.params_new},
                                  {"cusolverDnSetStream", &solver.set_stream},
                                  {"cusolverDnXpotrf_bufferSize", &solver.cholesky_space},
                                  {"cusolverDnXpotrf", &solver.cholesky},
                                  {"cusolverDnXgetrf_bufferSize", &solver.lu_space},
                                  {"cusolverDnXgetrf", &solver.lu},
                                  {"cusolverDnXgetrs", &solver.lu_solve},
                                  {"cusolverDnXsyevd_bufferSize", &solver.eigen_space},
                                  {"cusolverDnXsyevd", &solver.eigen},
                                  {"cusolverDnXgesvd_bufferSize", &solver.svd_space},
                                  {"cusolverDnXgesvd", &solver.svd},
                                  {"cusolverDnXgeqrf_bufferSize", &solver.qr_space},
                                  {"cusolverDnXgeqrf", &solver.qr},
                                  {"cusolverDnSorgqr_bufferSize", &solver.product_space[0]},
                                  {"cusolverDnDorgqr_bufferSize", &solver.product_space[1]},
                                  {"cusolverDnCungqr_bufferSize", &solver.product_space[2]},
                                  {"cusolverDnZungqr_bufferSize", &solver.product_space[3]},
                                  {"cusolverDnSorgqr", &solver.product[0]},
                                  {"cusolverDnDorgqr", &solver.product[1]},
                                  {"cusolverDnCungqr", &solver.product[2]},
                                  {"cusolverDnZungqr", &solver.product[3]}};
    const tpi_symbol rotations[] = {{"cusolverDnCreateGesvdjInfo", &solver.rotations_new},
                                    {"cusolverDnXgesvdjSetTolerance", &solver.rotations_tolerance},
                                    {"cusolverDnSgesvdj_bufferSize", &solver.rotations_space[0]},
                                    {"cusolverDnDgesvdj_bufferSize", &solver.rotations_space[1]},
                                    {"cusolverDnCgesvdj_bufferSize", &solver.rotations_space[2]},
                                    {"cusolverDnZgesvdj_bufferSize", &solver.rotations_space[3]},
                                    {"cusolverDnSgesvdj", &solver.rotations[0]},
                                    {"cusolverDnDgesvdj", &solver.rotations[1]},
                                    {"cusolverDnCgesvdj", &solver.rotations[2]},
                                    {"cusolverDnZgesvdj", &solver.rotations[3]}};
    const tpi_symbol newer[] = {{"cusolverDnXgeev_bufferSize", &solver.eig_space}, {"cusolverDnXgeev", &solver.eig}};
    void *library = tpi_cuda_library(names);
    if (library && !tpi_cuda_symbols(library, newer, 2)) {
        solver.eig_space = NULL;
        solver.eig = NULL;
    }
    if (library && tpi_cuda_symbols(library, rotations, (int)(sizeof rotations / sizeof *rotations)))
        for (int wide = 0; wide < 2; wide++)
            if (solver.rotations_new(&solver.by_rotations[wide]) != 0 ||
                solver.rotations_tolerance(solver.by_rotations[wide], wide ? DBL_EPSILON : FLT_EPSILON) != 0)
                solver.by_rotations[wide] = NULL;
    return library && tpi_cuda_symbols(library, symbols, (int)(sizeof symbols / sizeof *symbols)) &&
           solver.params_new(&solver.params) == 0;
}

static bool open_blas(void) {
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so", NULL};
    const tpi_symbol symbols[] = {{"cublasCreate_v2", &blas.create},       {"cublasSetStream_v2", &blas.set_stream},
                                  {"cublasStrsm_v2", &blas.triangular[0]}, {"cublasDtrsm_v2", &blas.triangular[1]},
                                  {"cublasCtrsm_v2", &blas.triangular[2]}, {"cublasZtrsm_v2", &blas.triangular[3]}};
    void *library = tpi_cuda_library(names);
    return library && tpi_cuda_symbols(library, symbols, (int)(sizeof symbols / sizeof *symbols));
}

static int library_type(tp_dtype dtype) {
    return dtype == TP_FLOAT32      ? R_32F
           : dtype == TP_FLOAT64    ? R_64F
           : dtype == TP_COMPLEX64  ? C_32F
           : dtype == TP_COMPLEX128 ? C_64F
                                    : -1;
}

/* Products of reflectors, rotations and triangular systems have a function for each type. */
static int product_of(tp_dtype dtype) {
    switch (dtype) {
    case TP_FLOAT32: return 0;
    case TP_FLOAT64: return 1;
    case TP_COMPLEX64: return 2;
    default: return 3;
    }
}

static int product_space(void *h, const tpi_gpu_solver *s, size_t *device) {
    int elements = 0, status = solver.product_space[product_of(s->dtype)](h, (int)s->m, (int)s->n, (int)s->columns,
                                                                          s->a, (int)s->m, s->b, &elements);
    *device = (size_t)elements * tpi_dtype_bytes[s->dtype];
    return status;
}

static int rotations_space(void *h, const tpi_gpu_solver *s, size_t *device) {
    int elements = 0, m = (int)s->m, n = (int)s->n,
        status =
            solver.rotations_space[product_of(s->dtype)](h, 1, 1, m, n, s->a, m, s->values, s->b, m, s->c, n, &elements,
                                                         solver.by_rotations[library_type(s->dtype) & 1]);
    *device = (size_t)elements * tpi_dtype_bytes[s->dtype];
    return status;
}

static int space_for(void *h, const tpi_gpu_solver *s, size_t *device, size_t *host) {
    int type = library_type(s->dtype), real = type & 1 ? R_64F : R_32F, complex = type & 1 ? C_64F : C_32F;
    *device = *host = 0;
    switch (s->what) {
    case TPI_SOLVER_CHOLESKY:
        return solver.cholesky_space(h, solver.params, s->upper, s->n, type, s->a, s->n, type, device, host);
    case TPI_SOLVER_LU: return solver.lu_space(h, solver.params, s->m, s->n, type, s->a, s->m, type, device, host);
    case TPI_SOLVER_EIGH:
        return solver.eigen_space(h, solver.params, s->vectors, s->upper, s->n, type, s->a, s->n, real, s->values, type,
                                  device, host);
    case TPI_SOLVER_SVD:
        return solver.svd_space(h, solver.params, 'S', 'S', s->m, s->n, type, s->a, s->m, real, s->values, type, s->b,
                                s->m, type, s->c, s->n, type, device, host);
    case TPI_SOLVER_QR:
        return solver.qr_space(h, solver.params, s->m, s->n, type, s->a, s->m, type, s->b, type, device, host);
    case TPI_SOLVER_QR_PRODUCT: return product_space(h, s, device);
    case TPI_SOLVER_SVD_BY_ROTATIONS: return rotations_space(h, s, device);
    case TPI_SOLVER_EIG:
        return solver.eig_space(h, solver.params, 0, s->vectors, s->n, type, s->a, s->n, complex, s->values, type, NULL,
                                s->n, type, s->b, s->n, type, device, host);
    default: return 0;
    }
}

/* Matrix i of the batch. */
static int one(void *h, const tpi_gpu_solver *s, int64_t i, void *space, size_t bytes, void *host, size_t host_bytes) {
    int type = library_type(s->dtype), real = type & 1 ? R_64F : R_32F, complex = type & 1 ? C_64F : C_32F;
    size_t size = tpi_dtype_bytes[s->dtype], value_size = (type & 1 ? 8 : 4) * (s->what == TPI_SOLVER_EIG ? 2 : 1);
    int64_t least = s->m < s->n ? s->m : s->n;
    char *a = (char *)s->a + (size_t)(i * s->m * s->n) * size,
         *values = s->values ? (char *)s->values + (size_t)(i * least) * value_size : NULL;
    int64_t *pivots = s->pivots ? s->pivots + i * least : NULL;
    int *info = s->info + i;
    switch (s->what) {
    case TPI_SOLVER_CHOLESKY:
        return solver.cholesky(h, solver.params, s->upper, s->n, type, a, s->n, type, space, bytes, host, host_bytes,
                               info);
    case TPI_SOLVER_LU:
        return solver.lu(h, solver.params, s->m, s->n, type, a, s->m, pivots, type, space, bytes, host, host_bytes,
                         info);
    case TPI_SOLVER_LU_SOLVE:
        return solver.lu_solve(h, solver.params, 0, s->n, s->columns, type, a, s->n, pivots, type,
                               (char *)s->b + (size_t)(i * s->n * s->columns) * size, s->n, info);
    case TPI_SOLVER_EIGH:
        return solver.eigen(h, solver.params, s->vectors, s->upper, s->n, type, a, s->n, real, values, type, space,
                            bytes, host, host_bytes, info);
    case TPI_SOLVER_QR:
        return solver.qr(h, solver.params, s->m, s->n, type, a, s->m, type, (char *)s->b + (size_t)(i * least) * size,
                         type, space, bytes, host, host_bytes, info);
    case TPI_SOLVER_QR_PRODUCT:
        return solver.product[product_of(s->dtype)](h, (int)s->m, (int)s->n, (int)s->columns, a, (int)s->m,
                                                    (char *)s->b + (size_t)(i * s->columns) * size, space,
                                                    (int)(bytes / size), info);
    case TPI_SOLVER_SVD_BY_ROTATIONS:
        return solver.rotations[product_of(s->dtype)](h, 1, 1, (int)s->m, (int)s->n, a, (int)s->m, values,
                                                      (char *)s->b + (size_t)(i * s->m * s->n) * size, (int)s->m,
                                                      (char *)s->c + (size_t)(i * s->n * s->n) * size, (int)s->n, space,
                                                      (int)(bytes / size), info, solver.by_rotations[type & 1]);
    case TPI_SOLVER_EIG:
        return solver.eig(h, solver.params, 0, s->vectors, s->n, type, a, s->n, complex, values, type, NULL, s->n, type,
                          s->vectors ? (char *)s->b + (size_t)(i * s->n * s->n) * size : NULL, s->n, type, space, bytes,
                          host, host_bytes, info);
    default:
        return solver.svd(h, solver.params, 'S', 'S', s->m, s->n, type, a, s->m, real, values, type,
                          (char *)s->b + (size_t)(i * s->m * s->n) * size, s->m, type,
                          (char *)s->c + (size_t)(i * s->n * s->n) * size, s->n, type, space, bytes, host, host_bytes,
                          info);
    }
}

static tpi_served solve_triangular(int index, tpi_gpu_stream *stream, const tpi_gpu_solver *s) {
    static const double one[2] = {1, 0};
    static const float narrow[2] = {1, 0};
    if (!blas.tried) {
        blas.there = open_blas();
        blas.tried = true;
    }
    if (!blas.there || (!blas.handle[index] && blas.create(&blas.handle[index]) != 0) ||
        blas.set_stream(blas.handle[index], stream) != 0)
        return TPI_DECLINED;
    size_t size = tpi_dtype_bytes[s->dtype];
    int n = (int)s->n, rows = s->right ? (int)s->columns : n, columns = s->right ? n : (int)s->columns, status = 0;
    for (int64_t i = 0; i < s->batch && status == 0; i++)
        status = blas.triangular[product_of(s->dtype)](blas.handle[index], s->right, s->upper, 0, s->unit, rows,
                                                       columns, library_type(s->dtype) & 1 ? (const void *)one : narrow,
                                                       (char *)s->a + (size_t)(i * s->n * s->n) * size, n,
                                                       (char *)s->b + (size_t)(i * s->n * s->columns) * size, rows);
    if (status)
        tpi_fail(TP_ERR_RUNTIME, "cuBLAS: status %d for %lld triangular systems of %lld", status, (long long)s->batch,
                 (long long)s->n);
    return status == 0 ? TPI_SERVED : TPI_FAILED;
}

static tpi_served solve_locked(int index, tpi_gpu_stream *stream, const tpi_gpu_solver *s) {
    if (s->what == TPI_SOLVER_TRIANGULAR) return solve_triangular(index, stream, s);
    if (!solver.tried) {
        solver.there = open_library();
        solver.tried = true;
    }
    if (!solver.there || (s->what == TPI_SOLVER_EIG && !solver.eig) ||
        (s->what == TPI_SOLVER_SVD_BY_ROTATIONS && !solver.by_rotations[library_type(s->dtype) & 1]) ||
        (!solver.handle[index] && solver.create(&solver.handle[index]) != 0))
        return TPI_DECLINED;
    void *h = solver.handle[index];
    size_t bytes, host_bytes;
    if (solver.set_stream(h, stream) != 0 || space_for(h, s, &bytes, &host_bytes) != 0) return TPI_DECLINED;
    tp_device where = {TP_CUDA, (int16_t)index};
    void *space = bytes ? tpi_gpu_alloc_on(where, bytes, stream) : NULL,
         *host = host_bytes ? tpi_alloc(host_bytes) : NULL;
    int status = (bytes && !space) || (host_bytes && !host) ? -1 : 0;
    for (int64_t i = 0; i < s->batch && status == 0; i++) status = one(h, s, i, space, bytes, host, host_bytes);
    if (host && status == 0 && !tpi_cuda_driver.stream_sync(index, stream))
        status = -1; /* the library may read it until then */
    if (host) tpi_free(host, host_bytes);
    tpi_gpu_free(where, space, bytes);
    if (status > 0)
        tpi_fail(TP_ERR_RUNTIME, "cuSOLVER: status %d for %lld matrices of %lld by %lld", status, (long long)s->batch,
                 (long long)s->m, (long long)s->n);
    return status == 0 ? TPI_SERVED : TPI_FAILED;
}

tpi_served tpi_cusolver_solve(int index, tpi_gpu_stream *stream, const tpi_gpu_solver *s) {
    if (library_type(s->dtype) < 0 || s->batch < 1 || s->m < 1 || s->n < 1 ||
        ((s->what == TPI_SOLVER_QR_PRODUCT || s->what == TPI_SOLVER_TRIANGULAR ||
          s->what == TPI_SOLVER_SVD_BY_ROTATIONS) &&
         (s->m > INT32_MAX || s->n > INT32_MAX || s->columns > INT32_MAX)))
        return TPI_DECLINED;
    if (!tpi_cuda_use(index)) return TPI_FAILED;
    pthread_mutex_lock(&lock);
    tpi_served served = solve_locked(index, stream, s);
    pthread_mutex_unlock(&lock);
    return served;
}
