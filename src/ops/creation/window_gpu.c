/* Windows, frequencies and grids of places on GPUs, written where they are wanted. */
#include "ops/creation/window.h"
#include "ops/native_gpu.h"

enum { TERMS = 8 }; /* as ops/creation/window_gpu_kernel.h has it */

static const tpi_gpu_site window_site = {"window_gpu_kernel.h", "window"},
                          frequencies_site = {"window_gpu_kernel.h", "frequencies"},
                          grid_site = {"window_gpu_kernel.h", "grid"};

static tpi_gpu_function *kernel_of(const tpi_gpu_site *site, tp_device device, tp_dtype dtype, bool wide, int64_t n,
                                   int kind, bool corners) {
    const tpi_gpu_define defines[] = {TPI_DEFINE("LARGE", tpi_gpu_is_large(n)), TPI_DEFINE("KIND", kind),
                                      TPI_DEFINE("CORNERS", corners), TPI_DEFINE_DTYPE("Y", dtype)};
    return tpi_gpu_site_kernel(device, site, wide, 4, defines);
}

/* In double precision where the device has it, as on the CPU. */
tp_tensor *tpi_gpu_window(int64_t length, int64_t last, const tpi_window *w, tp_dtype dtype, tp_device device) {
    bool wide = tpi_gpu_has_f64(device), sum = w->kind == TPI_WINDOW_SUM;
    if (length < 1 || (sum && w->sum.n > TERMS) || (dtype == TP_FLOAT64 && !wide)) return NULL;
    struct {
        double v[TERMS];
    } terms = {{w->a, w->b, w->c}};
    struct {
        float v[TERMS];
    } narrow;
    int count = sum ? (int)w->sum.n : 3;
    for (int k = 0; sum && k < count; k++) terms.v[k] = w->sum.v[k];
    for (int k = 0; k < TERMS; k++) narrow.v[k] = (float)terms.v[k];
    double center = w->center == w->center ? w->center : (double)last / 2;
    tp_tensor *out = tpi_empty((tp_ints){&length, 1}, dtype, device);
    tpi_gpu_function *kernel = out ? kernel_of(&window_site, device, dtype, wide, length, (int)w->kind, false) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(out)),
                                TPI_GPU_VAL(length),
                                TPI_GPU_VAL(last),
                                TPI_GPU_REAL(w->beta, wide),
                                TPI_GPU_REAL(center, wide),
                                wide ? TPI_GPU_VAL(terms) : TPI_GPU_VAL(narrow),
                                TPI_GPU_VAL(count)};
    return kernel && tpi_gpu_launch_each(device, kernel, length, 7, args) ? out : tpi_release_then(out, NULL);
}

static tp_tensor *frequencies(int64_t n, double d, tp_dtype dtype, tp_device device, bool positive) {
    dtype = tpi_dtype_or_default(dtype);
    device = tpi_device_or_default(device);
    bool wide = dtype == TP_FLOAT64;
    if (n < 1 || !tp_dtype_is_floating(dtype) || (wide && !tpi_gpu_has_f64(device))) return NULL;
    int64_t count = positive ? n / 2 + 1 : n, positives = positive ? count : (n + 1) / 2;
    double step = 1.0 / ((double)n * d);
    tp_tensor *out = tpi_empty((tp_ints){&count, 1}, dtype, device);
    tpi_gpu_function *kernel = out ? kernel_of(&frequencies_site, device, dtype, wide, count, 0, false) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(out)), TPI_GPU_VAL(count), TPI_GPU_VAL(positives),
                                TPI_GPU_REAL(step, wide)};
    return kernel && tpi_gpu_launch_each(device, kernel, count, 4, args) ? out : tpi_release_then(out, NULL);
}

tpi_served tpi_gpu_fftfreq(int64_t n, double d, tp_dtype dtype, tp_device device, tp_tensor **result) {
    return tpi_serve(frequencies(n, d, dtype, device, false), result);
}
tpi_served tpi_gpu_rfftfreq(int64_t n, double d, tp_dtype dtype, tp_device device, tp_tensor **result) {
    return tpi_serve(frequencies(n, d, dtype, device, true), result);
}

tpi_served tpi_gpu_base_grid(tp_ints size, bool align_corners, tp_dtype dtype, tp_device device, tp_tensor **result) {
    int dims = (int)size.n - 2;
    dtype = tpi_dtype_or_default(dtype);
    device = tpi_device_or_default(device);
    bool wide = tpi_gpu_has_f64(device);
    if (dims < 1 || dims > 3 || !tp_dtype_is_floating(dtype) || (dtype == TP_FLOAT64 && !wide)) return TPI_DECLINED;
    int64_t sizes[3] = {1, 1, 1}, points = 1;
    for (int d = 0; d < dims; d++) {
        sizes[d] = size.v[size.n - 1 - d];
        points *= sizes[d];
    }
    if (points < 1) return TPI_DECLINED;
    int64_t n = points * (dims + 1);
    tp_tensor *out = tpi_empty(TP_INTS(points, dims + 1), dtype, device);
    tpi_gpu_function *kernel = out ? kernel_of(&grid_site, device, dtype, wide, n, dims, align_corners) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(out)), TPI_GPU_VAL(n), TPI_GPU_VAL(sizes[0]),
                                TPI_GPU_VAL(sizes[1]), TPI_GPU_VAL(sizes[2])};
    return tpi_serve(tpi_gpu_launch_each(device, kernel, n, 5, args) ? out : tpi_release_then(out, NULL), result);
}
