/* Fourier transforms on GPUs: every dim, layout and kind must come out as on the CPU. By CUDA's library where there is
 * a device; elsewhere all but the library is tested: PoCL's driver gets a transform in place of one, which sums on the
 * host. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <taper/gpu.h>
#include <taper/taper.h>
#include "device/gpu/driver.h"

static const tp_device cpu = {TP_CPU, 0};
static tp_device gpu = {TP_XPU, 0};
static tpi_gpu_driver driver;
static int served;

static double part(const void *data, int64_t i, bool wide) {
    return wide ? ((const double *)data)[i] : ((const float *)data)[i];
}
static void put(void *data, int64_t i, bool wide, double v) {
    if (wide)
        ((double *)data)[i] = v;
    else
        ((float *)data)[i] = (float)v;
}

/* Blocks of several dims: each result is a sum over the whole block. */
static void sum_block(const tpi_gpu_fft *f, const void *x, void *y, int64_t size, int64_t block) {
    int64_t stride = f->woven ? f->lines : 1, start = f->woven ? block : block * size;
    for (int64_t k = 0; k < size; k++) {
        double re = 0, im = 0;
        for (int64_t i = 0; i < size; i++) {
            double angle = 0;
            int64_t rest_k = k, rest_i = i;
            for (int d = f->rank - 1; d >= 0; d--) {
                int64_t n = f->shape[d];
                angle += 2 * M_PI * (double)(rest_k % n * (rest_i % n) % n) / (double)n * (f->forward ? -1 : 1);
                rest_k /= n;
                rest_i /= n;
            }
            double a = part(x, (start + i * stride) * 2, f->wide), b = part(x, (start + i * stride) * 2 + 1, f->wide);
            re += a * cos(angle) - b * sin(angle);
            im += a * sin(angle) + b * cos(angle);
        }
        put(y, (start + k * stride) * 2, f->wide, re);
        put(y, (start + k * stride) * 2 + 1, f->wide, im);
    }
}

static tpi_served sum_blocks(int index, tpi_gpu_stream *stream, const tpi_gpu_fft *f) {
    int64_t size = 1;
    for (int d = 0; d < f->rank; d++) size *= f->shape[d];
    size_t bytes = (size_t)(f->lines * size * 2 * (f->wide ? 8 : 4));
    void *x = malloc(bytes), *y = malloc(bytes);
    assert_true(driver.copy(index, stream, x, f->x, bytes, TPI_GPU_TO_HOST));
    assert_true(driver.stream_sync(index, stream));
    for (int64_t block = 0; block < f->lines; block++) sum_block(f, x, y, size, block);
    assert_true(driver.copy(index, stream, f->y, y, bytes, TPI_GPU_FROM_HOST));
    assert_true(driver.stream_sync(index, stream));
    free(x);
    free(y);
    served++;
    return TPI_SERVED;
}

static tpi_served sum_up(int index, tpi_gpu_stream *stream, const tpi_gpu_fft *f) {
    if (f->rank) return sum_blocks(index, stream, f);
    int64_t half = f->n / 2 + 1, from = f->kind == TPI_FFT_C2R ? half : f->n, to = f->kind == TPI_FFT_R2C ? half : f->n,
            size = f->wide ? 8 : 4;
    int64_t in = f->kind == TPI_FFT_R2C ? 1 : 2, out = f->kind == TPI_FFT_C2R ? 1 : 2;
    void *x = malloc((size_t)(f->lines * from * in * size)), *y = malloc((size_t)(f->lines * to * out * size));
    assert_true(driver.copy(index, stream, x, f->x, (size_t)(f->lines * from * in * size), TPI_GPU_TO_HOST));
    assert_true(driver.stream_sync(index, stream));
    for (int64_t line = 0; line < f->lines; line++)
        for (int64_t k = 0; k < to; k++) {
            double re = 0, im = 0;
            for (int64_t i = 0; i < f->n; i++) {
                int64_t at = i < from ? i : f->n - i; /* of half a spectrum: the other half is its conjugate */
                double a = part(x, (line * from + at) * in, f->wide),
                       b = in == 2 ? part(x, (line * from + at) * in + 1, f->wide) : 0;
                double angle = 2 * M_PI * (double)(i * k % f->n) / (double)f->n *
                               (f->kind == TPI_FFT_R2C || (f->kind == TPI_FFT_C2C && f->forward) ? -1 : 1);
                if (i >= from) b = -b;
                re += a * cos(angle) - b * sin(angle);
                im += a * sin(angle) + b * cos(angle);
            }
            put(y, (line * to + k) * out, f->wide, re);
            if (out == 2) put(y, (line * to + k) * out + 1, f->wide, im);
        }
    assert_true(driver.copy(index, stream, f->y, y, (size_t)(f->lines * to * out * size), TPI_GPU_FROM_HOST));
    assert_true(driver.stream_sync(index, stream));
    free(x);
    free(y);
    served++;
    return TPI_SERVED;
}

static tpi_served by_cuda(int index, tpi_gpu_stream *stream, const tpi_gpu_fft *f) {
    served++;
    return tpi_cuda_driver.fft(index, stream, f);
}

static int choose_device(void **s) {
    (void)s;
    setenv("TAPER_XPU_DEVICES", "all", 0);
    if (tpi_cuda_driver.count() > 0) {
        gpu.type = TP_CUDA;
        driver = tpi_cuda_driver;
        driver.fft = by_cuda;
    } else if (tpi_opencl_driver.count() > 0) {
        driver = tpi_opencl_driver;
        driver.fft = sum_up;
    } else {
        return 0;
    }
    tpi_gpu_put_driver(&driver);
    return 0;
}

static void check(tp_tensor *here, tp_tensor *there) {
    assert_non_null(here);
    if (!there) fail_msg("%s", tp_error());
    assert_int_equal(tp_device_of(there).type, gpu.type);
    tp_tensor *back = tp_to(there, .device = cpu);
    assert_non_null(back);
    assert_true(tp_allclose(here, back, .rtol = 1e-4, .atol = 1e-4));
}

static void dims_and_layouts(void **s) {
    (void)s;
    if (!driver.fft) {
        print_message("SKIPPED: no GPU and no OpenCL device here (%s; %s)\n", tpi_cuda_driver.missing(),
                      tpi_opencl_driver.missing());
        skip();
    }
    for (int wide = 0; wide < 2; wide++)
        for (int64_t dim = 0; dim < 3; dim++)
            for (int transposed = 0; transposed < 2; transposed++)
                TP_SCOPE {
                    tp_tensor *x = tp_randn(TP_INTS(4, 5, 6), .dtype = wide ? TP_FLOAT64 : TP_FLOAT32);
                    if (transposed) x = tp_permute(x, TP_INTS(2, 0, 1));
                    tp_tensor *y = tp_to(x, .device = gpu);
                    check(tp_fft_fft(x, .dim = dim), tp_fft_fft(y, .dim = dim));
                    check(tp_fft_ifft(x, .dim = dim), tp_fft_ifft(y, .dim = dim));
                    check(tp_fft_rfft(x, .dim = dim), tp_fft_rfft(y, .dim = dim));
                    check(tp_fft_irfft(tp_fft_rfft(x, .dim = dim), .n = tp_size(x, dim), .dim = dim),
                          tp_fft_irfft(tp_fft_rfft(y, .dim = dim), .n = tp_size(x, dim), .dim = dim));
                    check(tp_fft_fftn(x), tp_fft_fftn(y));
                    check(tp_fft_fft2(x, .dim = TP_INTS(0, 1)), tp_fft_fft2(y, .dim = TP_INTS(0, 1)));
                    check(tp_fft_ifft2(x, .dim = TP_INTS(2, 0)), tp_fft_ifft2(y, .dim = TP_INTS(2, 0)));
                    check(tp_fft_rfftn(x), tp_fft_rfftn(y));
                    check(tp_fft_irfft2(tp_fft_rfft2(x)), tp_fft_irfft2(tp_fft_rfft2(y)));
                }
    assert_true(served > 100); /* the driver's, not the CPU's */
    assert_true(tp_ok());
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(dims_and_layouts)};
    return cmocka_run_group_tests(tests, choose_device, NULL);
}
