/* Linear algebra on GPUs must come out as on the CPU: by CUDA's library where there is a device; elsewhere all but the library is tested, PoCL's driver gets
 * a solver in place of one, which is LAPACK on the host. Small matrices must not go there. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <taper/taper.h>
#include "device/gpu/driver.h"
#include "ops/lapack.h"

static const tp_device cpu = {TP_CPU, 0};
static tp_device gpu = {TP_XPU, 0};
static tpi_gpu_driver driver;
static int served;

/* A block of the device on the host, and back when it is done with. */
static void *fetch(const void *block, size_t bytes) {
    void *here = malloc(bytes + 1);
    assert_true(!block || (driver.copy(0, NULL, here, block, bytes, TPI_GPU_TO_HOST) && driver.stream_sync(0, NULL)));
    return here;
}
static void put_back(void *block, void *here, size_t bytes) {
    if (block) assert_true(driver.copy(0, NULL, block, here, bytes, TPI_GPU_FROM_HOST) && driver.stream_sync(0, NULL));
    free(here);
}

static void *scratch_for(tpi_scratch *need) {
    need->memory = malloc(need->bytes + 64);
    return need->memory;
}

static void one(const tpi_gpu_solver *s, char *a, char *b, char *c, char *values, int64_t *pivots, int32_t *info) {
    int m = (int)s->m, n = (int)s->n, least = m < n ? m : n;
    int32_t *narrow = calloc((size_t)least + 1, 4);
    tpi_scratch need = {0};
    if (s->what == TPI_SOLVER_CHOLESKY) *info = tpi_lapack_potrf(s->dtype, s->upper, n, a);
    if (s->what == TPI_SOLVER_LU) {
        *info = tpi_lapack_getrf(s->dtype, m, n, a, narrow);
        for (int i = 0; i < least; i++) pivots[i] = narrow[i];
    }
    if (s->what == TPI_SOLVER_LU_SOLVE) {
        for (int i = 0; i < n; i++) narrow[i] = (int32_t)pivots[i];
        tpi_lapack_getrs(s->dtype, 'N', n, (int)s->columns, a, narrow, b);
        *info = 0;
    }
    if (s->what == TPI_SOLVER_EIGH) {
        tpi_lapack_syevd(s->dtype, s->vectors, s->upper, n, NULL, NULL, &need);
        scratch_for(&need);
        *info = tpi_lapack_syevd(s->dtype, s->vectors, s->upper, n, a, values, &need);
    }
    if (s->what == TPI_SOLVER_SVD) {
        tpi_lapack_gesdd(s->dtype, 'S', m, n, NULL, NULL, NULL, NULL, &need);
        scratch_for(&need);
        *info = tpi_lapack_gesdd(s->dtype, 'S', m, n, a, values, b, c, &need);
    }
    free(need.memory), free(narrow);
}

static tpi_gpu_served by_lapack(int index, tpi_gpu_stream *stream, const tpi_gpu_solver *s) {
    (void)index;
    assert_true(driver.stream_sync(0, stream));
    size_t size = tpi_dtype_bytes[s->dtype], real = s->dtype == TP_FLOAT64 || s->dtype == TP_COMPLEX128 ? 8 : 4, least = (size_t)(s->m < s->n ? s->m : s->n);
    size_t a_step = (size_t)(s->m * s->n) * size, b_step = s->what == TPI_SOLVER_SVD ? a_step : (size_t)(s->n * s->columns) * size, c_step = (size_t)(s->n * s->n) * size;
    size_t batch = (size_t)s->batch, v_step = least * real;
    char *a = fetch(s->a, batch * a_step), *b = fetch(s->b, s->b ? batch * b_step : 0), *c = fetch(s->c, s->c ? batch * c_step : 0);
    char *values = fetch(s->values, s->values ? batch * v_step : 0);
    int64_t *pivots = fetch(s->pivots, s->pivots ? batch * least * 8 : 0);
    int32_t *info = fetch(s->info, batch * 4);
    for (size_t i = 0; i < batch; i++) one(s, a + i * a_step, b + i * b_step, c + i * c_step, values + i * v_step, pivots + i * least, info + i);
    put_back(s->a, a, batch * a_step), put_back(s->b, b, batch * b_step), put_back(s->c, c, batch * c_step), put_back(s->values, values, batch * v_step);
    put_back(s->pivots, pivots, batch * least * 8), put_back(s->info, info, batch * 4);
    served++;
    return TPI_GPU_SERVED;
}

static tpi_gpu_served by_cuda(int index, tpi_gpu_stream *stream, const tpi_gpu_solver *s) {
    served++;
    return tpi_cuda_driver.solver(index, stream, s);
}

static int take_place(void **s) {
    (void)s;
    setenv("TAPER_XPU_DEVICES", "all", 0);
    if (tpi_cuda_driver.count() > 0) {
        gpu.type = TP_CUDA, driver = tpi_cuda_driver, driver.solver = by_cuda;
    } else if (tpi_opencl_driver.count() > 0) {
        driver = tpi_opencl_driver, driver.solver = by_lapack;
    } else {
        return 0;
    }
    tpi_gpu_put_driver(&driver);
    return 0;
}

static tp_tensor *there(tp_tensor *t) { return tp_to(t, .device = gpu); }
static void same(tp_tensor *a, tp_tensor *b, double tolerance) {
    if (!a || !b) fail_msg("%s", tp_error() ? tp_error() : "no result");
    assert_int_equal(tp_device_of(b).type, gpu.type);
    assert_true(tp_allclose(a, tp_to(b, .device = cpu), .rtol = tolerance, .atol = tolerance));
}

static void large_matrices(tp_dtype dtype, tp_ints shape) {
    double tolerance = tp_dtype_size(dtype) / (tp_dtype_is_complex(dtype) ? 2 : 1) == 8 ? 1e-8 : 2e-3;
    TP_SCOPE {
        tp_tensor *x = tp_randn(shape, .dtype = dtype), *b = tp_randn(shape, .dtype = dtype);
        tp_tensor *spd = tp_add(tp_matmul(x, tp_adjoint(x)), tp_mul(tp_eye(tp_size(x, -1), .dtype = dtype), 100)), *well = tp_add(x, tp_mul(tp_eye(tp_size(x, -1), .dtype = dtype), 40));
        int before = served;
        same(tp_linalg_cholesky(spd), tp_linalg_cholesky(there(spd)), tolerance);
        same(tp_linalg_cholesky(spd, .upper = true), tp_linalg_cholesky(there(spd), .upper = true), tolerance);
        same(tp_linalg_inv(well), tp_linalg_inv(there(well)), tolerance);
        same(tp_linalg_solve(well, b), tp_linalg_solve(there(well), there(b)), tolerance);
        same(tp_linalg_eigvalsh(spd), tp_linalg_eigvalsh(there(spd)), 100 * tolerance);
        assert_int_equal(served - before, 7); /* inverse and solution: two steps each */
        tp_linalg_eigh_result e = tp_linalg_eigh(there(spd));
        same(spd, tp_matmul(tp_mul(e.eigenvectors, tp_unsqueeze(e.eigenvalues, -2)), tp_adjoint(e.eigenvectors)), 100 * tolerance);
        tp_linalg_svd_result u = tp_linalg_svd(there(x), .full_matrices = false);
        same(x, tp_matmul(tp_mul(u.U, tp_unsqueeze(u.S, -2)), u.Vh), 10 * tolerance);
        tp_linalg_lu_factor_result here = tp_linalg_lu_factor(well), far = tp_linalg_lu_factor(there(well));
        same(here.LU, far.LU, 10 * tolerance);
        assert_true(tp_equal(here.pivots, tp_to(far.pivots, .device = cpu)));
    }
}

static void what_comes_out_is_right(void **s) {
    (void)s;
    if (!driver.solver) {
        print_message("SKIPPED: no GPU and no OpenCL device here (%s; %s)\n", tpi_cuda_driver.missing(), tpi_opencl_driver.missing());
        skip();
    }
    large_matrices(TP_FLOAT32, TP_INTS(70, 70));
    large_matrices(TP_FLOAT64, TP_INTS(2, 3, 65, 65));
    large_matrices(TP_COMPLEX128, TP_INTS(2, 64, 64));
}

static void what_is_wrong_the_cpu_says(void **s) {
    (void)s;
    if (!driver.solver) skip();
    TP_SCOPE {
        tp_tensor *zeros = tp_zeros(TP_INTS(70, 70), .device = gpu);
        assert_null(tp_linalg_cholesky(zeros));
        assert_non_null(strstr(tp_error(), "not positive-definite"));
        tp_error_clear();
        assert_null(tp_linalg_inv(zeros));
        assert_non_null(strstr(tp_error(), "singular"));
        tp_error_clear();
        int before = served;
        same(tp_linalg_inv(tp_eye(4)), tp_linalg_inv(there(tp_eye(4))), 0);
        assert_int_equal(served, before);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_comes_out_is_right), cmocka_unit_test(what_is_wrong_the_cpu_says)};
    return cmocka_run_group_tests(tests, take_place, NULL);
}
