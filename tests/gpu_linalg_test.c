/* Linear algebra on GPUs must come out as on the CPU: by CUDA's library where there is a device; elsewhere all but the
 * library is tested, PoCL's driver gets a solver in place of one, which is LAPACK on the host. Small matrices must not
 * go there, nor by way of the host, and neither must sequences of labels. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <taper/taper.h>
#include "device/gpu/driver.h"
#include "linalg/lapack.h"

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

/* As the library has them: of a real matrix's pair the real parts, and the imaginary ones behind them. */
static void pack(const tpi_gpu_solver *s, const char *values, const char *from, char *to) {
    size_t n = (size_t)s->n, size = tpi_dtype_bytes[s->dtype];
    for (size_t j = 0; j < n; j++) {
        double im = size == 4 ? ((const float *)values)[2 * j + 1] : ((const double *)values)[2 * j + 1];
        for (size_t i = 0; i < n; i++)
            memcpy(to + (j * n + i) * size, from + ((im < 0 ? j - 1 : j) * n + i) * 2 * size + (im < 0 ? size : 0),
                   size);
    }
}

static int general(const tpi_gpu_solver *s, char *a, char *b, char *values, tpi_scratch *need) {
    bool real = !tp_dtype_is_complex(s->dtype);
    char *wide = real && s->vectors ? malloc((size_t)(s->n * s->n) * 16) : NULL;
    tpi_lapack_geev(s->dtype, s->vectors, (int)s->n, NULL, NULL, NULL, need);
    scratch_for(need);
    int info = tpi_lapack_geev(s->dtype, s->vectors, (int)s->n, a, values, wide ? wide : b, need);
    if (wide) pack(s, values, wide, b);
    free(wide);
    return info;
}

/* A square matrix becomes its adjoint. */
static void turn_over(tp_dtype dtype, int n, char *c) {
    size_t size = tpi_dtype_bytes[dtype], half = size / 2;
    char was[16];
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            char *a = c + (size_t)(i * n + j) * size, *b = c + (size_t)(j * n + i) * size;
            memcpy(was, a, size);
            memmove(a, b, size);
            memcpy(b, was, size);
            for (int k = 0; k < 2 && tp_dtype_is_complex(dtype) && (k == 0 || a != b); k++) {
                char *im = (k ? b : a) + half;
                if (half == 8)
                    *(double *)(void *)im = -*(double *)(void *)im;
                else
                    *(float *)(void *)im = -*(float *)(void *)im;
            }
        }
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
    if (s->what == TPI_SOLVER_TRIANGULAR)
        tpi_lapack_trsm(s->dtype, !s->right, s->upper, 'N', s->unit, s->right ? (int)s->columns : n,
                        s->right ? n : (int)s->columns, a, b);
    if (s->what == TPI_SOLVER_EIGH) {
        tpi_lapack_syevd(s->dtype, s->vectors, s->upper, n, NULL, NULL, &need);
        scratch_for(&need);
        *info = tpi_lapack_syevd(s->dtype, s->vectors, s->upper, n, a, values, &need);
    }
    if (s->what == TPI_SOLVER_EIG) *info = general(s, a, b, values, &need);
    if (s->what == TPI_SOLVER_SVD || s->what == TPI_SOLVER_SVD_BY_ROTATIONS) {
        tpi_lapack_gesdd(s->dtype, 'S', m, n, NULL, NULL, NULL, NULL, &need);
        scratch_for(&need);
        *info = tpi_lapack_gesdd(s->dtype, 'S', m, n, a, values, b, c, &need);
        if (s->what == TPI_SOLVER_SVD_BY_ROTATIONS) turn_over(s->dtype, n, c);
    }
    if (s->what == TPI_SOLVER_QR) {
        tpi_lapack_geqrf(s->dtype, m, n, NULL, NULL, &need);
        scratch_for(&need);
        tpi_lapack_geqrf(s->dtype, m, n, a, b, &need);
    }
    if (s->what == TPI_SOLVER_QR_PRODUCT) {
        tpi_lapack_orgqr(s->dtype, m, n, (int)s->columns, NULL, NULL, &need);
        scratch_for(&need);
        tpi_lapack_orgqr(s->dtype, m, n, (int)s->columns, a, b, &need);
    }
    free(need.memory);
    free(narrow);
}

static size_t elements_of_b(const tpi_gpu_solver *s) {
    if (s->what == TPI_SOLVER_SVD || s->what == TPI_SOLVER_SVD_BY_ROTATIONS || s->what == TPI_SOLVER_EIG)
        return (size_t)(s->m * s->n);
    if (s->what == TPI_SOLVER_QR) return (size_t)(s->m < s->n ? s->m : s->n);
    return (size_t)(s->what == TPI_SOLVER_QR_PRODUCT ? s->columns : s->n * s->columns);
}

static tpi_served by_lapack(int index, tpi_gpu_stream *stream, const tpi_gpu_solver *s) {
    (void)index;
    assert_true(driver.stream_sync(0, stream));
    size_t size = tpi_dtype_bytes[s->dtype], real = s->dtype == TP_FLOAT64 || s->dtype == TP_COMPLEX128 ? 8 : 4,
           least = (size_t)(s->m < s->n ? s->m : s->n);
    size_t a_step = (size_t)(s->m * s->n) * size, b_step = elements_of_b(s) * size,
           c_step = (size_t)(s->n * s->n) * size;
    size_t batch = (size_t)s->batch, v_step = least * real * (s->what == TPI_SOLVER_EIG ? 2 : 1);
    char *a = fetch(s->a, batch * a_step), *b = fetch(s->b, s->b ? batch * b_step : 0),
         *c = fetch(s->c, s->c ? batch * c_step : 0);
    char *values = fetch(s->values, s->values ? batch * v_step : 0);
    int64_t *pivots = fetch(s->pivots, s->pivots ? batch * least * 8 : 0);
    int32_t *info = fetch(s->info, s->info ? batch * 4 : 0);
    for (size_t i = 0; i < batch; i++)
        one(s, a + i * a_step, b + i * b_step, c + i * c_step, values + i * v_step, pivots + i * least, info + i);
    put_back(s->a, a, batch * a_step);
    put_back(s->b, b, batch * b_step);
    put_back(s->c, c, batch * c_step);
    put_back(s->values, values, batch * v_step);
    put_back(s->pivots, pivots, batch * least * 8);
    put_back(s->info, info, batch * 4);
    served++;
    return TPI_SERVED;
}

static tpi_served by_cuda(int index, tpi_gpu_stream *stream, const tpi_gpu_solver *s) {
    served++;
    return tpi_cuda_driver.solver(index, stream, s);
}

static int choose_device(void **s) {
    (void)s;
    setenv("TAPER_XPU_DEVICES", "all", 0);
    tp_manual_seed(6);
    if (tpi_cuda_driver.count() > 0) {
        gpu.type = TP_CUDA;
        driver = tpi_cuda_driver;
        driver.solver = by_cuda;
    } else if (tpi_opencl_driver.count() > 0) {
        driver = tpi_opencl_driver;
        driver.solver = by_lapack;
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
    if (!tp_allclose(a, tp_to(b, .device = cpu), .rtol = tolerance, .atol = tolerance))
        fail_msg("%g away", tp_item(tp_max(tp_abs(tp_sub(a, tp_to(b, .device = cpu))))));
}

static void large_matrices(tp_dtype dtype, tp_ints shape) {
    double tolerance = tp_dtype_size(dtype) / (tp_dtype_is_complex(dtype) ? 2 : 1) == 8 ? 1e-8 : 2e-3;
    TP_SCOPE {
        tp_tensor *x = tp_randn(shape, .dtype = dtype), *b = tp_randn(shape, .dtype = dtype);
        tp_tensor *spd = tp_add(tp_matmul(x, tp_adjoint(x)), tp_mul(tp_eye(tp_size(x, -1), .dtype = dtype), 100)),
                  *well = tp_add(x, tp_mul(tp_eye(tp_size(x, -1), .dtype = dtype), 40));
        int before = served;
        same(tp_linalg_cholesky(spd), tp_linalg_cholesky(there(spd)), tolerance);
        same(tp_linalg_cholesky(spd, .upper = true), tp_linalg_cholesky(there(spd), .upper = true), tolerance);
        same(tp_linalg_inv(well), tp_linalg_inv(there(well)), tolerance);
        same(tp_linalg_solve(well, b), tp_linalg_solve(there(well), there(b)), tolerance);
        same(tp_linalg_eigvalsh(spd), tp_linalg_eigvalsh(there(spd)), 100 * tolerance);
        assert_int_equal(served - before, 7); /* inverse and solution: two steps each */
        before = served;
        for (int form = 0; form < 8; form++) {
            bool upper = form & 1, left = form & 2, unit = form & 4;
            tp_tensor *part = upper ? tp_triu(well) : tp_tril(well),
                      *sides = tp_narrow(b, left ? -1 : -2, 0, 20); /* unit: the diagonal is not read */
            if (unit) part = tp_div(part, 200);
            same(tp_linalg_solve_triangular(part, sides, upper, .left = left, .unitriangular = unit),
                 tp_linalg_solve_triangular(there(part), there(sides), upper, .left = left, .unitriangular = unit),
                 tolerance);
        }
        assert_int_equal(served - before, 8);
        tp_tensor *factor = tp_linalg_cholesky(spd);
        same(tp_cholesky_solve(b, factor), tp_cholesky_solve(there(b), there(factor)), tolerance);
        assert_int_equal(served - before, 10);
        tp_linalg_eigh_result e = tp_linalg_eigh(there(spd));
        same(spd, tp_matmul(tp_mul(e.eigenvectors, tp_unsqueeze(e.eigenvalues, -2)), tp_adjoint(e.eigenvectors)),
             100 * tolerance);
        before = served;
        tp_linalg_eig_result general = tp_linalg_eig(there(x));
        tp_tensor *phased = tp_to(there(x), .dtype = tp_dtype_of(general.eigenvalues));
        same(tp_to(tp_matmul(phased, general.eigenvectors), .device = cpu),
             tp_mul(general.eigenvectors, tp_unsqueeze(general.eigenvalues, -2)), 10 * tolerance);
        same(tp_ones_like(tp_real(tp_to(general.eigenvalues, .device = cpu))),
             tp_sqrt(tp_sum(tp_square(tp_abs(general.eigenvectors)), .dim = TP_INTS(-2))), tolerance);
        same(tp_to(general.eigenvalues, .device = cpu), tp_linalg_eigvals(there(x)), 10 * tolerance);
        assert_int_equal(served - before, 2);
        tp_linalg_svd_result u = tp_linalg_svd(there(x), .full_matrices = false);
        same(x, tp_matmul(tp_mul(u.U, tp_unsqueeze(u.S, -2)), u.Vh), 10 * tolerance);
        tp_linalg_lu_factor_result here = tp_linalg_lu_factor(well), far = tp_linalg_lu_factor(there(well));
        same(here.LU, far.LU, 10 * tolerance);
        assert_true(tp_equal(here.pivots, tp_to(far.pivots, .device = cpu)));
        before = served;
        tp_linalg_qr_result q = tp_linalg_qr(x), r = tp_linalg_qr(there(x));
        same(q.Q, r.Q, 10 * tolerance);
        same(q.R, r.R, 10 * tolerance);
        same(tp_linalg_lstsq(well, b, .driver = "gels").solution, tp_linalg_lstsq(there(well), there(b)).solution,
             tolerance);
        same(tp_linalg_slogdet(well).logabsdet, tp_linalg_slogdet(there(well)).logabsdet, tolerance);
        same(tp_linalg_svdvals(x), tp_linalg_svdvals(there(x)), tolerance);
        same(tp_linalg_pinv(well), tp_linalg_pinv(there(well)), tolerance);
        assert_int_equal(served - before, 8); /* QR: two steps each time; least squares: a triangular system */
    }
}

/* By kernels of a block per matrix: nothing goes to the library or by way of the host. */
static void small_matrices(tp_dtype dtype, int64_t batch, int64_t m, int64_t n, double tolerance) {
    TP_SCOPE {
        tp_tensor *x = tp_randn(TP_INTS(batch, m, n), .dtype = dtype),
                  *b = tp_randn(TP_INTS(batch, m, 2), .dtype = dtype), *eye = tp_eye(n, .dtype = dtype);
        tp_tensor *square = tp_add(tp_matmul(tp_adjoint(x), x), eye), *far = there(x), *far_square = there(square);
        int before = served;
        int64_t detours = tp_host_detours();
        for (int mode = 0; mode < 3; mode++) {
            const char *name = (const char *[]){"reduced", "complete", "r"}[mode];
            tp_linalg_qr_result q = tp_linalg_qr(x, .mode = name), r = tp_linalg_qr(far, .mode = name);
            same(q.R, r.R, tolerance);
            same(q.Q, r.Q, tolerance);
        }
        same(tp_linalg_pinv(x), tp_linalg_pinv(far), tolerance);
        same(tp_linalg_svdvals(x), tp_linalg_svdvals(far), tolerance);
        same(tp_linalg_matrix_rank(x), tp_linalg_matrix_rank(far), 0);
        same(tp_linalg_pinv(tp_adjoint(x)), tp_linalg_pinv(tp_adjoint(far)), tolerance);
        same(tp_linalg_pinv(square, .hermitian = true), tp_linalg_pinv(far_square, .hermitian = true), tolerance);
        tp_tensor *poor = tp_mul(tp_narrow(x, 1, 0, 1),
                                 tp_narrow(x, 2, 0, 1)); /* of rank one: the other vectors are what a basis lacks */
        for (int form = 0; form < 6; form++) {
            tp_tensor *seen = form % 3 == 1 ? tp_adjoint(x) : form % 3 ? poor : x, *unit[2];
            tp_linalg_svd_result f = tp_linalg_svd(there(seen), .full_matrices = form > 2);
            same(tp_linalg_svdvals(seen), f.S, tolerance);
            unit[0] = f.U;
            unit[1] = tp_adjoint(f.Vh);
            for (int side = 0; side < 2; side++) {
                int64_t columns = tp_size(unit[side], -1);
                same(tp_expand(tp_eye(columns, .dtype = dtype), TP_INTS(batch, columns, columns)),
                     tp_matmul(tp_adjoint(unit[side]), unit[side]), tolerance);
            }
            int64_t k = tp_size(f.S, -1);
            same(seen, tp_matmul(tp_mul(tp_narrow(f.U, 2, 0, k), tp_unsqueeze(f.S, -2)), tp_narrow(f.Vh, 1, 0, k)),
                 tolerance);
        }
        if (tp_dtype_is_complex(dtype)) { /* imaginary parts on the diagonal are not read */
            tp_tensor *ones = tp_real(eye), *odd = tp_add(square, tp_complex(ones, ones)), *far_odd = there(odd);
            same(tp_linalg_pinv(odd, .hermitian = true), tp_linalg_pinv(far_odd, .hermitian = true), tolerance);
            same(tp_linalg_eigvalsh(odd), tp_linalg_eigvalsh(far_odd), tolerance);
        }
        tp_linalg_lstsq_result fit = tp_linalg_lstsq(x, b, .driver = "gels"), far_fit = tp_linalg_lstsq(far, there(b));
        same(fit.solution, far_fit.solution, tolerance);
        same(fit.residuals, far_fit.residuals, tolerance);
        same(tp_linalg_det(tp_mul(square, 0.5)), tp_linalg_det(tp_mul(far_square, 0.5)), tolerance);
        same(tp_linalg_slogdet(square).logabsdet, tp_linalg_slogdet(far_square).logabsdet, tolerance);
        same(tp_linalg_slogdet(square).sign, tp_linalg_slogdet(far_square).sign, tolerance);
        same(tp_linalg_cholesky(square), tp_linalg_cholesky(far_square), tolerance);
        same(tp_linalg_cholesky(square, .upper = true), tp_linalg_cholesky(far_square, .upper = true), tolerance);
        same(tp_linalg_inv(square), tp_linalg_inv(far_square), tolerance);
        same(tp_linalg_solve(square, x, .left = false), tp_linalg_solve(far_square, far, .left = false), tolerance);
        for (int upper = 0; upper < 2; upper++) { /* of a matrix whose values have both signs, and some of which are the
                                                     same; the other triangle is not read */
            const char *UPLO = upper ? "U" : "L";
            tp_tensor *both = tp_sub(square, tp_mul(eye, 0.5 * (double)n + 1)),
                      *part = upper ? tp_triu(both) : tp_tril(both), *far_part = there(part);
            same(tp_linalg_eigvalsh(part, .UPLO = UPLO), tp_linalg_eigvalsh(far_part, .UPLO = UPLO), tolerance);
            tp_linalg_eigh_result e = tp_linalg_eigh(far_part, .UPLO = UPLO);
            same(both, tp_matmul(tp_mul(e.eigenvectors, tp_unsqueeze(e.eigenvalues, -2)), tp_adjoint(e.eigenvectors)),
                 tolerance);
            same(tp_expand(eye, TP_INTS(batch, n, n)), tp_matmul(tp_adjoint(e.eigenvectors), e.eigenvectors),
                 tolerance);
        }
        tp_tensor *ones = tp_expand(eye, TP_INTS(batch, n, n));
        same(tp_linalg_eigvalsh(ones), tp_linalg_eigvalsh(there(ones)), 0);
        tp_tensor *small = tp_mul(
            tp_mul(square, tp_reshape(tp_to(tp_arange(tp_int(batch)), .dtype = dtype), TP_INTS(-1, 1, 1))), -0.1);
        same(tp_linalg_matrix_exp(small), tp_linalg_matrix_exp(there(small)), tolerance);
        assert_int_equal(tp_host_detours(), detours);
        assert_int_equal(served, before);
    }
}

static void small_ones_stay_on_the_device(void **s) {
    (void)s;
    if (!driver.solver) skip();
    small_matrices(TP_FLOAT32, 3, 7, 4, 2e-4);
    small_matrices(TP_FLOAT64, 66, 65, 64, 1e-8);
    small_matrices(TP_COMPLEX64, 4, 5, 5, 5e-3);
    small_matrices(TP_COMPLEX128, 2, 40, 31, 1e-8);
    tpi_gpu_sharing_there = true; /* a block's threads together, as on a GPU */
    small_matrices(TP_FLOAT64, 2, 40, 33, 1e-8);
    small_matrices(TP_COMPLEX64, 3, 9, 6, 5e-3);
    tpi_gpu_sharing_there = false;
}

/* Lengths, repeated labels, labels that cannot be reached, and the same bits again. */
static void sequences_of_labels(void **s) {
    (void)s;
    if (!driver.solver) skip();
    for (int together = 0; together < 2; together++)
        TP_SCOPE {
            tpi_gpu_sharing_there = together;
            tp_tensor *x = tp_log_softmax(tp_randn(TP_INTS(12, 4, 6), .dtype = TP_FLOAT64), 2),
                      *labels = tp_from_data((const int64_t[]){1, 1, 2, 0, 5, 4, 3, 3, 3, 2, 2, 2, 1, 2, 3, 4},
                                             TP_INT64, TP_INTS(4, 4));
            const int64_t steps[] = {12, 9, 4, 0}, lengths[] = {3, 4, 4, 0};
            int64_t detours = tp_host_detours();
            for (int zero = 0; zero < 2; zero++) {
                tp_tensor *here = tp_detach(x), *far = there(x), *again = there(x);
                tp_set_requires_grad(here, true);
                tp_set_requires_grad(far, true);
                tp_set_requires_grad(again, true);
                tp_tensor *a = tp_ctc_loss_IntList(here, labels, tp_ints_view(steps, 4), tp_ints_view(lengths, 4),
                                                   .blank = 5, .reduction = "none", .zero_infinity = zero);
                tp_tensor *b = tp_ctc_loss_IntList(far, there(labels), tp_ints_view(steps, 4), tp_ints_view(lengths, 4),
                                                   .blank = 5, .reduction = "none", .zero_infinity = zero);
                tp_tensor *c =
                    tp_ctc_loss_IntList(again, there(labels), tp_ints_view(steps, 4), tp_ints_view(lengths, 4),
                                        .blank = 5, .reduction = "none", .zero_infinity = zero);
                same(a, b, 1e-12);
                assert_true(tp_backward(tp_sum(a)));
                assert_true(tp_backward(tp_sum(b)));
                assert_true(tp_backward(tp_sum(c)));
                if (zero)
                    same(tp_grad(here), tp_grad(far), 1e-12);
                else
                    same(tp_narrow(tp_grad(here), 1, 0, 2), tp_narrow(tp_grad(far), 1, 0, 2),
                         1e-12); /* the third loss is infinite */
                assert_true(tp_equal(tp_nan_to_num(tp_grad(far)), tp_nan_to_num(tp_grad(again))));
            }
            assert_int_equal(tp_host_detours(), detours);
        }
    tpi_gpu_sharing_there = false;
}

static void what_comes_out_is_right(void **s) {
    (void)s;
    if (!driver.solver) {
        print_message("SKIPPED: no GPU and no OpenCL device here (%s; %s)\n", tpi_cuda_driver.missing(),
                      tpi_opencl_driver.missing());
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
        assert_null(tp_linalg_eig(tp_full(TP_INTS(70, 70), tp_float(INFINITY), .device = gpu)).eigenvalues);
        assert_non_null(strstr(tp_error(), "infs or NaNs"));
        tp_error_clear();
        int before = served;
        same(tp_linalg_inv(tp_eye(4)), tp_linalg_inv(there(tp_eye(4))), 0);
        assert_null(tp_linalg_svd(tp_full(TP_INTS(4, 4), tp_float(NAN), .device = gpu)).S);
        tp_error_clear();
        assert_int_equal(served, before);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_out_is_right), cmocka_unit_test(what_is_wrong_the_cpu_says),
        cmocka_unit_test(small_ones_stay_on_the_device), cmocka_unit_test(sequences_of_labels)};
    return cmocka_run_group_tests(tests, choose_device, NULL);
}
