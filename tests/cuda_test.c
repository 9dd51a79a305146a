/* CUDA itself, on a machine that has it: driver, NVRTC, allocator, graphs, cuBLASLt and cuDNN against plain loops, with
 * a few figures printed. The compiler needs no GPU, so it is tried wherever NVRTC is found; the rest is skipped, and
 * said so, where there is no device. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <taper/gpu.h>
#include <time.h>
#include "device/gpu/driver.h"

static const tp_device gpu = {TP_CUDA, 0};
static const tpi_gpu_driver *driver = &tpi_cuda_driver;

static const char saxpy_text[] =
    "extern \"C\" __global__ void saxpy(float *y, const float *x, float a, long long n) {\n"
    "    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * "
    "blockDim.x) y[i] += a * x[i];\n"
    "}\n";

static void need_cuda(void) {
    if (tp_gpu_count(TP_CUDA)) return;
    print_message("SKIPPED: no CUDA device here (%s)\n", tp_gpu_missing(TP_CUDA));
    skip();
}
static void must(bool fine) {
    if (!fine) fail_msg("%s", tp_error() ? tp_error() : "failed without an error");
}
static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Values: small, so that sums are exact or nearly so ---- */
static float pattern(int64_t i) { return (float)((i * 7 + i / 13) % 9 - 4) / 8; }
static uint16_t bf16_of(float v) {
    uint32_t u;
    memcpy(&u, &v, 4);
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}
static float of_bf16(uint16_t h) {
    uint32_t u = (uint32_t)h << 16;
    float v;
    memcpy(&v, &u, 4);
    return v;
}
static void store(void *block, int64_t i, tp_dtype dtype, float v) {
    if (dtype == TP_FLOAT32)
        ((float *)block)[i] = v;
    else if (dtype == TP_FLOAT64)
        ((double *)block)[i] = v;
    else
        ((uint16_t *)block)[i] = bf16_of(v);
}
static double value(const void *block, int64_t i, tp_dtype dtype) {
    if (dtype == TP_FLOAT32) return ((const float *)block)[i];
    if (dtype == TP_FLOAT64) return ((const double *)block)[i];
    return of_bf16(((const uint16_t *)block)[i]);
}
static void *filled(int64_t n, tp_dtype dtype, int64_t from) {
    void *block = malloc((size_t)n * tpi_dtype_bytes[dtype]);
    for (int64_t i = 0; i < n; i++) store(block, i, dtype, pattern(i + from));
    return block;
}
static void *on_gpu(const void *host, int64_t bytes) {
    void *block = tpi_gpu_alloc(gpu, (size_t)bytes);
    must(block != NULL);
    if (host) must(tpi_gpu_copy_host(gpu, block, host, (size_t)bytes, TPI_GPU_FROM_HOST));
    return block;
}
static void *from_gpu(const void *block, int64_t bytes) {
    void *host = malloc((size_t)bytes);
    must(tpi_gpu_copy_host(gpu, host, block, (size_t)bytes, TPI_GPU_TO_HOST));
    return host;
}

/* ---- The compiler ---- */
static void nvrtc_compiles_without_a_gpu(void **s) {
    (void)s;
    if (!driver->compiler()) {
        print_message("SKIPPED: NVRTC was not found\n");
        skip();
    }
    size_t bytes = 0;
    double from = seconds();
    char *cubin = driver->compile(saxpy_text, "saxpy", "sm_90", &bytes);
    must(cubin != NULL);
    assert_memory_equal(cubin, "\177ELF", 4);
    print_message("%s: sm_90 in %.0f ms, %zu bytes\n", driver->compiler(), 1e3 * (seconds() - from), bytes);
    tpi_mfree(cubin);
    char *ptx = driver->compile(saxpy_text, "saxpy", "compute_80", &bytes);
    must(ptx != NULL);
    assert_non_null(strstr(ptx, ".target sm_80"));
    tpi_mfree(ptx);
    ptx = driver->compile(saxpy_text, "saxpy", "sm_999",
                          &bytes); /* a chip that it does not know yet: text that the driver translates */
    must(ptx != NULL);
    assert_non_null(strstr(ptx, ".version"));
    tpi_mfree(ptx);
    assert_null(driver->compile("this is no program", "broken", "sm_90", &bytes));
    assert_non_null(strstr(tp_error(), "broken"));
    tp_error_clear();
    assert_null(driver->compile(saxpy_text, "saxpy", "gfx90a", &bytes));
    tp_error_clear();
}

/* ---- Driver ---- */
static tpi_gpu_function *saxpy(void) {
    static tpi_gpu_function *function;
    if (function) return function;
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(gpu);
    must(caps != NULL);
    size_t bytes = 0;
    void *code = driver->compile(saxpy_text, "saxpy", caps->arch, &bytes);
    must(code != NULL);
    tpi_gpu_module *module;
    must(driver->load(0, code, bytes, &module));
    must(driver->function(0, module, "saxpy", &function));
    tpi_mfree(code);
    return function;
}
static void run_saxpy(void *y, const void *x, float a, long long n) {
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(y), TPI_GPU_PTR(x), TPI_GPU_VAL(a), TPI_GPU_VAL(n)};
    unsigned blocks = (unsigned)((n + 255) / 256 < 4096 ? (n + 255) / 256 : 4096);
    must(driver->launch(0, tpi_gpu_stream_of(gpu), saxpy(), (unsigned[]){blocks, 1, 1}, (unsigned[]){256, 1, 1}, 0, 4,
                        args));
}

static void kernels_run(void **s) {
    (void)s;
    need_cuda();
    char version[128];
    must(tp_gpu_version(TP_CUDA, version, sizeof version) > 0);
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(gpu);
    must(caps != NULL);
    print_message("%s: %s, %s, %d units, %zu MiB, L2 %zu MiB, %zu KiB shared, pci %d:%d\n", version, caps->name,
                  caps->arch, caps->units, caps->memory >> 20, caps->l2 >> 20, caps->shared_most >> 10, caps->pci_bus,
                  caps->pci_device);
    assert_int_equal(caps->warp, 32);
    assert_true(driver->max_blocks(0, saxpy(), 256, 0) > 0);
    enum { N = 1 << 20 };
    float *x = filled(N, TP_FLOAT32, 0), *y = filled(N, TP_FLOAT32, 5);
    void *dx = on_gpu(x, N * 4), *dy = on_gpu(y, N * 4);
    run_saxpy(dy, dx, 2, N);
    float *got = from_gpu(dy, N * 4);
    for (int i = 0; i < N; i++) assert_true(got[i] == y[i] + 2 * x[i]);
    int times = 10000;
    must(tp_gpu_synchronize(gpu));
    double from = seconds();
    for (int i = 0; i < times; i++) run_saxpy(dy, dx, 0, 32);
    double host = seconds() - from;
    must(tp_gpu_synchronize(gpu));
    print_message("a launch: %.2f us on the host, %.2f us in all\n", 1e6 * host / times,
                  1e6 * (seconds() - from) / times);
    tpi_gpu_free(gpu, dx, N * 4);
    tpi_gpu_free(gpu, dy, N * 4);
    free(x);
    free(y);
    free(got);
}

static void memory_has_bandwidth(void **s) {
    (void)s;
    need_cuda();
    int64_t n = (int64_t)1 << 28;
    void *x = on_gpu(NULL, 4 * n), *y = on_gpu(NULL, 4 * n);
    must(driver->set(0, NULL, x, 0, 4 * (size_t)n) && driver->set(0, NULL, y, 0, 4 * (size_t)n));
    tp_mark *from = tp_mark_new(TP_CUDA, true), *to = tp_mark_new(TP_CUDA, true);
    run_saxpy(y, x, 1, n);
    must(tp_mark_record(from, gpu, NULL));
    for (int i = 0; i < 10; i++) run_saxpy(y, x, 1, n);
    must(tp_mark_record(to, gpu, NULL) && tp_mark_synchronize(to));
    double ms = 0;
    must(tp_mark_elapsed(from, to, &ms));
    print_message("saxpy over 1 GiB vectors: %.2f TB/s\n", 10 * 12.0 * (double)n / (ms * 1e-3) / 1e12);
    char *pinned = driver->host_alloc(256 << 20);
    must(pinned != NULL);
    must(tp_gpu_synchronize(gpu));
    double start = seconds();
    must(driver->copy(0, NULL, x, pinned, 256 << 20, TPI_GPU_FROM_HOST) && tp_gpu_synchronize(gpu));
    print_message("pinned memory to the device: %.1f GB/s\n", (256 << 20) / (seconds() - start) / 1e9);
    driver->host_free(pinned);
    tp_mark_free(from);
    tp_mark_free(to);
    tpi_gpu_free(gpu, x, 4 * (size_t)n);
    tpi_gpu_free(gpu, y, 4 * (size_t)n);
}

static void too_much_is_an_error_that_passes(void **s) {
    (void)s;
    need_cuda();
    assert_null(tpi_gpu_alloc(gpu, (size_t)1 << 41));
    print_message("%s\n", tp_error());
    assert_non_null(strstr(tp_error(), "CUDA out of memory. Tried to allocate 2.00 TiB"));
    tp_error_clear();
    void *block = on_gpu(NULL, 1 << 20);
    must(tp_gpu_synchronize(gpu));
    tpi_gpu_free(gpu, block, 1 << 20);
}

static void graphs_replay(void **s) {
    (void)s;
    need_cuda();
    enum { N = 1000 };
    float *x = filled(N, TP_FLOAT32, 0);
    void *dx = on_gpu(x, N * 4), *dy = on_gpu(NULL, N * 4);
    saxpy();
    must(driver->set(0, NULL, dy, 0, N * 4) && tp_gpu_synchronize(gpu));
    tp_stream *side;
    must(tp_stream_new(gpu, 0, &side) && tp_stream_set_current(gpu, side));
    tp_gpu_graph *graph = tp_gpu_graph_new();
    must(tp_gpu_graph_begin(graph, gpu, 0, TP_CAPTURE_GLOBAL));
    assert_true(tp_gpu_capturing(gpu));
    void *inside = tpi_gpu_alloc(gpu, 3 << 20); /* from a new segment, while captured */
    must(inside != NULL);
    must(driver->set(0, tpi_gpu_stream_of(gpu), inside, 0, N * 4));
    run_saxpy(inside, dx, 1, N);
    run_saxpy(dy, inside, 2, N);
    tpi_gpu_free(gpu, inside, 3 << 20);
    must(tp_gpu_graph_end(graph));
    assert_false(tp_gpu_capturing(gpu));
    must(tp_stream_set_current(gpu, NULL));
    void *other = on_gpu(NULL, 3 << 20);
    assert_ptr_not_equal(other, inside);
    for (int i = 0; i < 5; i++) must(tp_gpu_graph_replay(graph));
    float *got = from_gpu(dy, N * 4);
    for (int i = 0; i < N; i++) assert_true(got[i] == 10 * x[i]);
    double from = seconds();
    for (int i = 0; i < 1000; i++) must(tp_gpu_graph_replay(graph));
    double host = seconds() - from;
    must(tp_gpu_synchronize(gpu));
    print_message("replaying a graph of three nodes: %.2f us on the host\n", 1e3 * host);
    tp_gpu_graph_free(graph);
    tpi_gpu_free(gpu, other, 3 << 20);
    tpi_gpu_free(gpu, dx, N * 4);
    tpi_gpu_free(gpu, dy, N * 4);
    free(x);
    free(got);
}

/* ---- cuBLASLt ---- */
static bool serve_gemm(const tpi_gpu_gemm *g) {
    tpi_served served = driver->gemm(0, NULL, g);
    if (served == TPI_FAILED) fail_msg("%s", tp_error());
    return served == TPI_SERVED;
}

static void check_gemm(tp_dtype dtype, char ta, char tb, bool bias, int64_t batch, double tolerance) {
    int64_t m = 40, n = 24, k = 56, size = (int64_t)tpi_dtype_bytes[dtype];
    void *a = filled(m * k * batch, dtype, 1), *b = filled(k * n * batch, dtype, 2), *v = filled(m, dtype, 3);
    tpi_gpu_gemm g = {.dtype = dtype,
                      .result = dtype,
                      .trans_a = ta,
                      .trans_b = tb,
                      .m = m,
                      .n = n,
                      .k = k,
                      .batch = batch,
                      .lda = ta == 'n' ? m : k,
                      .ldb = tb == 'n' ? k : n,
                      .ldc = m,
                      .stride_a = m * k,
                      .stride_b = k * n,
                      .stride_c = m * n,
                      .alpha = 1};
    g.a = on_gpu(a, m * k * batch * size);
    g.b = on_gpu(b, k * n * batch * size);
    g.c = on_gpu(NULL, m * n * batch * size);
    g.bias = bias ? on_gpu(v, m * size) : NULL;
    if (!serve_gemm(&g)) fail_msg("cuBLASLt declined %s %c%c bias %d", tp_dtype_name(dtype), ta, tb, bias);
    void *c = from_gpu(g.c, m * n * batch * size);
    for (int64_t z = 0; z < batch; z++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = bias ? value(v, i, dtype) : 0;
                for (int64_t l = 0; l < k; l++)
                    sum += value(a, z * m * k + (ta == 'n' ? l * m + i : i * k + l), dtype) *
                           value(b, z * k * n + (tb == 'n' ? j * k + l : l * n + j), dtype);
                assert_true(fabs(value(c, z * m * n + j * m + i, dtype) - sum) <= tolerance * (1 + fabs(sum)));
            }
    tpi_gpu_free(gpu, (void *)g.a, 0);
    tpi_gpu_free(gpu, (void *)g.b, 0);
    tpi_gpu_free(gpu, g.c, 0);
    if (bias) tpi_gpu_free(gpu, (void *)g.bias, 0);
    free(a);
    free(b);
    free(c);
    free(v);
}

static double gemm_tflops(tp_dtype dtype, int64_t n, bool tf32) {
    int64_t size = (int64_t)tpi_dtype_bytes[dtype];
    void *x = filled(n * n, dtype, 0);
    tpi_gpu_gemm g = {.dtype = dtype,
                      .result = dtype,
                      .trans_a = 'n',
                      .trans_b = 'n',
                      .m = n,
                      .n = n,
                      .k = n,
                      .batch = 1,
                      .lda = n,
                      .ldb = n,
                      .ldc = n,
                      .alpha = 1,
                      .tf32 = tf32,
                      .reduced = true};
    g.a = on_gpu(x, n * n * size);
    g.b = on_gpu(x, n * n * size);
    g.c = on_gpu(NULL, n * n * size);
    tp_mark *from = tp_mark_new(TP_CUDA, true), *to = tp_mark_new(TP_CUDA, true);
    int times = 50;
    for (int i = 0; i < 5; i++) serve_gemm(&g);
    must(tp_mark_record(from, gpu, NULL));
    for (int i = 0; i < times; i++) serve_gemm(&g);
    must(tp_mark_record(to, gpu, NULL) && tp_mark_synchronize(to));
    double ms = 0;
    must(tp_mark_elapsed(from, to, &ms));
    tpi_gpu_free(gpu, (void *)g.a, 0);
    tpi_gpu_free(gpu, (void *)g.b, 0);
    tpi_gpu_free(gpu, g.c, 0);
    tp_mark_free(from);
    tp_mark_free(to);
    free(x);
    return 2.0 * (double)(n * n * n) * times / (ms * 1e-3) / 1e12;
}

static void products_are_right(void **s) {
    (void)s;
    need_cuda();
    for (int t = 0; t < 4; t++)
        for (int b = 1; b <= 3; b += 2) {
            check_gemm(TP_FLOAT32, t & 1 ? 't' : 'n', t & 2 ? 't' : 'n', false, b, 1e-6);
            check_gemm(TP_FLOAT64, t & 1 ? 't' : 'n', t & 2 ? 't' : 'n', false, b, 1e-12);
            check_gemm(TP_BFLOAT16, t & 1 ? 't' : 'n', t & 2 ? 't' : 'n', false, b, 1e-2);
        }
    check_gemm(TP_FLOAT32, 't', 'n', true, 1, 1e-6);
    check_gemm(TP_BFLOAT16, 't', 'n', true, 1, 1e-2);
    print_message("matmul 4096: bf16 %.0f, f32 %.0f, tf32 %.0f TFLOP/s\n", gemm_tflops(TP_BFLOAT16, 4096, false),
                  gemm_tflops(TP_FLOAT32, 4096, false), gemm_tflops(TP_FLOAT32, 4096, true));
}

/* ---- cuDNN ---- */
static int64_t numel4(const int64_t *shape) { return shape[0] * shape[1] * shape[2] * shape[3]; }
static void lay_out(const int64_t *shape, int64_t *stride, bool last) { /* [n, c, h, w] */
    int64_t c = shape[1], h = shape[2], w = shape[3];
    stride[0] = c * h * w;
    stride[1] = last ? 1 : h * w;
    stride[2] = last ? w * c : w;
    stride[3] = last ? c : 1;
}
static int64_t at4(const int64_t *stride, int64_t n, int64_t c, int64_t h, int64_t w) {
    return n * stride[0] + c * stride[1] + h * stride[2] + w * stride[3];
}

static tpi_gpu_conv conv_of(tp_dtype dtype, int what, bool last, int64_t n, int64_t c, int64_t k, int64_t side,
                            int64_t window, int64_t step, int64_t pad, int64_t groups) {
    tpi_gpu_conv v = {.what = what, .dtype = dtype, .dims = 2, .groups = groups};
    int64_t out = (side + 2 * pad - window) / step + 1;
    memcpy(v.x_shape, (int64_t[]){n, c, side, side}, 32);
    memcpy(v.w_shape, (int64_t[]){k, c / groups, window, window}, 32);
    memcpy(v.y_shape, (int64_t[]){n, k, out, out}, 32);
    lay_out(v.x_shape, v.x_stride, last);
    lay_out(v.w_shape, v.w_stride, last);
    lay_out(v.y_shape, v.y_stride, last);
    for (int d = 0; d < 3; d++) {
        v.stride[d] = step;
        v.padding[d] = pad;
        v.dilation[d] = 1;
    }
    return v;
}

/* Adds, for every window and tap, into whichever of the three is computed. */
static void conv_reference(const tpi_gpu_conv *v, double *x, double *w, double *y) {
    int64_t cg = v->w_shape[1], kg = v->y_shape[1] / v->groups;
    for (int64_t n = 0; n < v->y_shape[0]; n++)
        for (int64_t k = 0; k < v->y_shape[1]; k++)
            for (int64_t p = 0; p < v->y_shape[2] * v->y_shape[3]; p++)
                for (int64_t t = 0; t < cg * v->w_shape[2] * v->w_shape[3]; t++) {
                    int64_t oy = p / v->y_shape[3], ox = p % v->y_shape[3], tx = t % v->w_shape[3],
                            ty = t / v->w_shape[3] % v->w_shape[2], c = t / (v->w_shape[2] * v->w_shape[3]);
                    int64_t iy = oy * v->stride[0] - v->padding[0] + ty, ix = ox * v->stride[1] - v->padding[1] + tx;
                    if (iy < 0 || ix < 0 || iy >= v->x_shape[2] || ix >= v->x_shape[3]) continue;
                    double *px = &x[at4(v->x_stride, n, k / kg * cg + c, iy, ix)],
                           *pw = &w[at4(v->w_stride, k, c, ty, tx)], *py = &y[at4(v->y_stride, n, k, oy, ox)];
                    if (v->what == TPI_CONV_FORWARD)
                        *py += *px * *pw;
                    else if (v->what == TPI_CONV_GRAD_INPUT)
                        *px += *py * *pw;
                    else
                        *pw += *px * *py;
                }
}

static void check_conv(tp_dtype dtype, int what, bool last, int64_t groups, double tolerance) {
    tpi_gpu_conv v = conv_of(dtype, what, last, 2, 16, 32, 9, 3, 2, 1, groups);
    const int64_t count[3] = {numel4(v.x_shape), numel4(v.w_shape), numel4(v.y_shape)},
                  size = (int64_t)tpi_dtype_bytes[dtype];
    int result = what == TPI_CONV_FORWARD ? 2 : what == TPI_CONV_GRAD_INPUT ? 0 : 1;
    void *host[3], *block[3];
    double *wide[3];
    for (int i = 0; i < 3; i++) {
        host[i] = filled(count[i], dtype, i);
        block[i] = on_gpu(host[i], count[i] * size);
        wide[i] = calloc((size_t)count[i], 8);
        for (int64_t e = 0; i != result && e < count[i]; e++) wide[i][e] = value(host[i], e, dtype);
    }
    v.x = block[0];
    v.w = block[1];
    v.y = block[2];
    tpi_served served = driver->conv(0, NULL, &v);
    if (served != TPI_SERVED)
        fail_msg("cuDNN %s %s what %d last %d groups %d: %s", served == TPI_FAILED ? "failed" : "declined",
                 tp_dtype_name(dtype), what, last, (int)groups, tp_error() ? tp_error() : "");
    conv_reference(&v, wide[0], wide[1], wide[2]);
    void *got = from_gpu(block[result], count[result] * size);
    for (int64_t e = 0; e < count[result]; e++) {
        double expected = wide[result][e];
        if (fabs(value(got, e, dtype) - expected) > tolerance * (1 + fabs(expected)))
            fail_msg("what %d element %d: %g, expected %g", what, (int)e, value(got, e, dtype), expected);
    }
    for (int i = 0; i < 3; i++) {
        free(host[i]);
        free(wide[i]);
        tpi_gpu_free(gpu, block[i], 0);
    }
    free(got);
}

static double conv_tflops(int what) { /* a layer of ResNet-50, bf16, channels_last */
    tpi_gpu_conv v = conv_of(TP_BFLOAT16, what, true, 256, 128, 128, 28, 3, 1, 1, 1);
    void *x = on_gpu(NULL, 2 * numel4(v.x_shape)), *w = on_gpu(NULL, 2 * numel4(v.w_shape)),
         *y = on_gpu(NULL, 2 * numel4(v.y_shape));
    must(driver->set(0, NULL, x, 0, 2 * (size_t)numel4(v.x_shape)) &&
         driver->set(0, NULL, w, 0, 2 * (size_t)numel4(v.w_shape)));
    v.x = x;
    v.w = w;
    v.y = y;
    tp_mark *from = tp_mark_new(TP_CUDA, true), *to = tp_mark_new(TP_CUDA, true);
    for (int i = 0; i < 3; i++) must(driver->conv(0, NULL, &v) == TPI_SERVED);
    must(tp_mark_record(from, gpu, NULL));
    for (int i = 0; i < 20; i++) must(driver->conv(0, NULL, &v) == TPI_SERVED);
    must(tp_mark_record(to, gpu, NULL) && tp_mark_synchronize(to));
    double ms = 0;
    must(tp_mark_elapsed(from, to, &ms));
    tp_mark_free(from);
    tp_mark_free(to);
    tpi_gpu_free(gpu, x, 0);
    tpi_gpu_free(gpu, w, 0);
    tpi_gpu_free(gpu, y, 0);
    return 20 * 2.0 * (double)numel4(v.y_shape) * (double)(v.w_shape[1] * 9) / (ms * 1e-3) / 1e12;
}

static void convolutions_are_right(void **s) {
    (void)s;
    need_cuda();
    /* Winograd and Fourier transforms round more than plain sums do. */
    for (int what = TPI_CONV_FORWARD; what <= TPI_CONV_GRAD_WEIGHT; what++)
        for (int last = 0; last < 2; last++) {
            check_conv(TP_FLOAT32, what, last, 1, 1e-4);
            check_conv(TP_FLOAT32, what, last, 4, 1e-4);
            check_conv(TP_BFLOAT16, what, last, 1, 2e-2);
        }
    print_message("conv 256x128x28x28, 3x3, bf16: forward %.0f, input %.0f, weight %.0f TFLOP/s\n",
                  conv_tflops(TPI_CONV_FORWARD), conv_tflops(TPI_CONV_GRAD_INPUT), conv_tflops(TPI_CONV_GRAD_WEIGHT));
}

/* ---- cuDNN's attention ---- */
enum { AB = 2, AH = 3, AT = 100, AD = 64, AN = AB * AH * AT * AD };
static double at_(const double *x, int64_t head, int64_t row, int64_t d) { return x[(head * AT + row) * AD + d]; }

/* One head: probabilities, outputs and all gradients by the formulas. */
static void attention_reference(int64_t head, bool causal, double scale, double *const *x,
                                double *lse) { /* x: q, k, v, grad, o, gq, gk, gv */
    static double p[AT][AT], gp[AT][AT];
    for (int i = 0; i < AT; i++) {
        double most = -1e300, sum = 0, d = 0;
        int keys = causal ? i + 1 : AT;
        for (int j = 0; j < keys; j++) {
            p[i][j] = 0;
            for (int e = 0; e < AD; e++) p[i][j] += scale * at_(x[0], head, i, e) * at_(x[1], head, j, e);
            most = p[i][j] > most ? p[i][j] : most;
        }
        for (int j = 0; j < keys; j++) sum += exp(p[i][j] - most);
        lse[head * AT + i] = most + log(sum);
        for (int j = 0; j < AT; j++) {
            p[i][j] = j < keys ? exp(p[i][j] - lse[head * AT + i]) : 0;
            gp[i][j] = 0;
        }
        for (int j = 0; j < keys; j++)
            for (int e = 0; e < AD; e++) {
                x[4][(head * AT + i) * AD + e] += p[i][j] * at_(x[2], head, j, e);
                gp[i][j] += at_(x[3], head, i, e) * at_(x[2], head, j, e);
            }
        for (int e = 0; e < AD; e++) d += at_(x[3], head, i, e) * at_(x[4], head, i, e);
        for (int j = 0; j < keys; j++)
            for (int e = 0; e < AD; e++) {
                double gs = scale * p[i][j] * (gp[i][j] - d);
                x[5][(head * AT + i) * AD + e] += gs * at_(x[1], head, j, e);
                x[6][(head * AT + j) * AD + e] += gs * at_(x[0], head, i, e);
                x[7][(head * AT + j) * AD + e] += p[i][j] * at_(x[3], head, i, e);
            }
    }
}

static void compare(const char *what, const void *block, const double *expected, int64_t n, tp_dtype dtype,
                    double tolerance) {
    void *got = from_gpu(block, n * (int64_t)tpi_dtype_bytes[dtype]);
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double off = fabs(value(got, i, dtype) - expected[i]);
        if (!(off <= worst)) worst = off;
    }
    free(got);
    if (!(worst <= tolerance)) fail_msg("%s is off by %g", what, worst);
}

static tpi_gpu_attention attention_of(int64_t batch, int64_t heads, int64_t length, int64_t depth, bool causal) {
    tpi_gpu_attention a = {.causal = causal,
                           .dtype = TP_BFLOAT16,
                           .batch = batch,
                           .heads = heads,
                           .kv_heads = heads,
                           .queries = length,
                           .keys = length,
                           .depth = depth,
                           .depth_v = depth,
                           .scale = 1 / sqrt((double)depth)};
    int64_t *const strides[8] = {a.q_stride,    a.k_stride,  a.v_stride,  a.o_stride,
                                 a.grad_stride, a.gq_stride, a.gk_stride, a.gv_stride};
    for (int i = 0; i < 8; i++) {
        strides[i][0] = heads * length * depth;
        strides[i][1] = length * depth;
        strides[i][2] = depth;
    }
    return a;
}
static void give_memory(tpi_gpu_attention *a, void *block[8]) {
    a->q = block[0];
    a->k = block[1];
    a->v = block[2];
    a->grad = block[3];
    a->o = block[4];
    a->gq = block[5];
    a->gk = block[6];
    a->gv = block[7];
}
static void serve_attention(const tpi_gpu_attention *a) {
    tpi_served served = driver->attention(0, NULL, a);
    if (served != TPI_SERVED)
        fail_msg("cuDNN's attention %s: %s", served == TPI_FAILED ? "failed" : "declined",
                 tp_error() ? tp_error() : "");
}

static void check_attention(bool causal) {
    tpi_gpu_attention a = attention_of(AB, AH, AT, AD, causal);
    void *block[8], *host;
    double *x[8], *lse = calloc(AB * AH * AT, 8);
    for (int i = 0; i < 8; i++) {
        host = filled(AN, TP_BFLOAT16, 11 * i);
        block[i] = on_gpu(host, 2 * AN);
        x[i] = calloc(AN, 8);
        for (int64_t e = 0; i < 4 && e < AN; e++) x[i][e] = value(host, e, TP_BFLOAT16);
        free(host);
    }
    give_memory(&a, block);
    a.lse = on_gpu(NULL, 4 * AB * AH * AT);
    for (int64_t head = 0; head < AB * AH; head++) attention_reference(head, causal, a.scale, x, lse);
    serve_attention(&a);
    compare("the output", a.o, x[4], AN, TP_BFLOAT16, 1e-2);
    compare("lse", a.lse, lse, AB * AH * AT, TP_FLOAT32, 1e-3);
    a.backward = true;
    serve_attention(&a);
    compare("the gradient of v", a.gv, x[7], AN, TP_BFLOAT16, 2e-2);
    compare("the gradient of k", a.gk, x[6], AN, TP_BFLOAT16, 2e-2);
    compare("the gradient of q", a.gq, x[5], AN, TP_BFLOAT16, 2e-2);
    for (int i = 0; i < 8; i++) {
        tpi_gpu_free(gpu, block[i], 0);
        free(x[i]);
    }
    tpi_gpu_free(gpu, a.lse, 0);
    free(lse);
}

static double attention_tflops(bool backward) { /* GPT-2's, causal: half of the products count */
    int64_t batch = 16, heads = 12, length = 1024, depth = 64, n = batch * heads * length * depth;
    tpi_gpu_attention a = attention_of(batch, heads, length, depth, true);
    void *block[8];
    for (int i = 0; i < 8; i++) {
        block[i] = on_gpu(NULL, 2 * n);
        must(driver->set(0, NULL, block[i], 0, 2 * (size_t)n));
    }
    give_memory(&a, block);
    a.lse = on_gpu(NULL, 4 * batch * heads * length);
    double from = seconds();
    serve_attention(&a);
    a.backward = backward;
    if (backward) serve_attention(&a);
    must(tp_gpu_synchronize(gpu));
    print_message("attention's first call: %.2f s\n", seconds() - from);
    tp_mark *start = tp_mark_new(TP_CUDA, true), *end = tp_mark_new(TP_CUDA, true);
    must(tp_mark_record(start, gpu, NULL));
    for (int i = 0; i < 20; i++) serve_attention(&a);
    must(tp_mark_record(end, gpu, NULL) && tp_mark_synchronize(end));
    double ms = 0;
    must(tp_mark_elapsed(start, end, &ms));
    tp_mark_free(start);
    tp_mark_free(end);
    for (int i = 0; i < 8; i++) tpi_gpu_free(gpu, block[i], 0);
    tpi_gpu_free(gpu, a.lse, 0);
    return 20 * (backward ? 2.5 : 1) * 4.0 * (double)(batch * heads * length * length * depth) / 2 / (ms * 1e-3) / 1e12;
}

static void attention_is_right(void **s) {
    (void)s;
    need_cuda();
    check_attention(false);
    check_attention(true);
    double forward = attention_tflops(false), backward = attention_tflops(true);
    print_message("attention 16x12x1024x64, causal, bf16: forward %.0f, backward %.0f TFLOP/s\n", forward, backward);
}

/* ---- cuFFT ---- */
static void transforms_are_right(void **s) {
    (void)s;
    need_cuda();
    enum { N = 30, LINES = 3, HALF = N / 2 + 1 };
    double *x = filled(2 * N * LINES, TP_FLOAT64, 0), *real = filled(N * LINES, TP_FLOAT64, 3);
    void *dx = on_gpu(x, 16 * N * LINES), *dy = on_gpu(NULL, 16 * N * LINES), *dr = on_gpu(real, 8 * N * LINES),
         *dh = on_gpu(NULL, 16 * HALF * LINES);
    if (driver->fft(
            0, NULL,
            &(tpi_gpu_fft){
                .kind = TPI_FFT_C2C, .wide = true, .forward = true, .n = N, .lines = LINES, .x = dx, .y = dy}) !=
        TPI_SERVED)
        fail_msg("cuFFT declined or failed: %s", tp_error() ? tp_error() : "");
    must(driver->fft(0, NULL,
                     &(tpi_gpu_fft){.kind = TPI_FFT_R2C, .wide = true, .n = N, .lines = LINES, .x = dr, .y = dh}) ==
         TPI_SERVED);
    double *y = from_gpu(dy, 16 * N * LINES), *half = from_gpu(dh, 16 * HALF * LINES);
    for (int line = 0; line < LINES; line++)
        for (int k = 0; k < N; k++) {
            double a = 0, b = 0, c = 0, d = 0;
            for (int i = 0; i < N; i++) {
                double cosine = cos(2 * M_PI * i * k / N), sine = -sin(2 * M_PI * i * k / N);
                const double *z = x + 2 * (line * N + i);
                a += z[0] * cosine - z[1] * sine;
                b += z[0] * sine + z[1] * cosine;
                c += real[line * N + i] * cosine;
                d += real[line * N + i] * sine;
            }
            assert_true(fabs(y[2 * (line * N + k)] - a) < 1e-10);
            assert_true(fabs(y[2 * (line * N + k) + 1] - b) < 1e-10);
            if (k < HALF)
                assert_true(fabs(half[2 * (line * HALF + k)] - c) < 1e-10 &&
                            fabs(half[2 * (line * HALF + k) + 1] - d) < 1e-10);
        }
    must(driver->fft(0, NULL,
                     &(tpi_gpu_fft){.kind = TPI_FFT_C2R, .wide = true, .n = N, .lines = LINES, .x = dh, .y = dr}) ==
         TPI_SERVED);
    double *back = from_gpu(dr, 8 * N * LINES);
    for (int i = 0; i < N * LINES; i++) assert_true(fabs(back[i] / N - real[i]) < 1e-10);
    tpi_gpu_free(gpu, dx, 0);
    tpi_gpu_free(gpu, dy, 0);
    tpi_gpu_free(gpu, dr, 0);
    tpi_gpu_free(gpu, dh, 0);
    free(x);
    free(real);
    free(y);
    free(half);
    free(back);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nvrtc_compiles_without_a_gpu),
        cmocka_unit_test(kernels_run),
        cmocka_unit_test(memory_has_bandwidth),
        cmocka_unit_test(too_much_is_an_error_that_passes),
        cmocka_unit_test(graphs_replay),
        cmocka_unit_test(products_are_right),
        cmocka_unit_test(convolutions_are_right),
        cmocka_unit_test(attention_is_right),
        cmocka_unit_test(transforms_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
