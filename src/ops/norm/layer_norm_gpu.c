/* Layer norm and rms norm on GPUs. The gradients of weight and bias come out of the same pass as the input's: every
 * group of threads adds up the rows it goes through, and the groups' sums are added in order. */
#include "ops/native_gpu.h"

static const tpi_gpu_site forward_site = {"layer_norm_gpu_kernel.h", "forward"},
                          backward_site = {"layer_norm_gpu_kernel.h", "backward"},
                          columns_site = {"layer_norm_gpu_kernel.h", "columns"};

/* Threads of the backward for each processor: as many as it has registers for, with a row computed on and the next one
 * on its way. */
enum { AT_ONCE = 640 };

/* Does the call fit these kernels, and is it right? What is not is the CPU's to serve or to refuse. */
static bool serves(tp_tensor *input, tp_ints normalized, tp_tensor *weight, tp_tensor *bias, int64_t *n) {
    *n = 1;
    if (!tpi_gpu_floats(input) || normalized.n < 1 || input->ndim < normalized.n) return false;
    for (int64_t i = 0; i < normalized.n; i++) {
        if (input->shape[input->ndim - normalized.n + i] != normalized.v[i]) return false;
        *n *= normalized.v[i];
    }
    tp_tensor *affine[2] = {weight, bias};
    for (int k = 0; k < 2; k++) {
        if (!affine[k]) continue;
        if (!tpi_gpu_floats(affine[k]) || affine[k]->ndim != normalized.n || !tp_is_contiguous(affine[k]) ||
            (weight && affine[k]->dtype != weight->dtype))
            return false;
        for (int64_t i = 0; i < normalized.n; i++)
            if (affine[k]->shape[i] != normalized.v[i]) return false;
    }
    return *n > 0 && *n <= INT32_MAX && input->numel > 0;
}

static bool is_wide(const tp_tensor *t) { return t->dtype == TP_FLOAT64; }

static tp_ints stats_shape(const tp_tensor *input, int64_t normalized, int64_t *buffer) {
    for (int i = 0; i < input->ndim; i++) buffer[i] = i < input->ndim - normalized ? input->shape[i] : 1;
    return tp_ints_view(buffer, input->ndim);
}

static uintptr_t joint(tp_tensor *const *t, int n) {
    uintptr_t bits = 0;
    for (int i = 0; i < n; i++)
        if (t[i]) bits |= (uintptr_t)t[i]->data;
    return bits;
}

static int largest(tp_tensor *const *t, int n) {
    size_t size = 1;
    for (int i = 0; i < n; i++)
        if (t[i] && tpi_itemsize(t[i]) > size) size = tpi_itemsize(t[i]);
    return (int)size;
}

/* Rows of n elements of x to y, with their statistics; mean is NULL for rms norm. */
static bool launch_forward(tp_tensor *x, tp_tensor *y, tp_tensor *weight, tp_tensor *bias, tp_tensor *mean,
                           tp_tensor *rstd, int64_t n, double eps, const tpi_neighbours *neighbours) {
    tp_device device = tpi_device(x);
    tp_tensor *const moved[] = {x, y, weight, bias};
    tpi_gpu_rows r = tpi_gpu_rows_for(device, n, largest(moved, 4), joint(moved, 4), 1);
    const tpi_gpu_define defines[] = {TPI_DEFINE("RMS", !mean),
                                      TPI_DEFINE("WEIGHT", weight != NULL),
                                      TPI_DEFINE("BIAS", bias != NULL),
                                      TPI_DEFINE_ROWS(r),
                                      TPI_DEFINE_DTYPE("X", x->dtype),
                                      TPI_DEFINE_DTYPE("Y", y->dtype),
                                      TPI_DEFINE_DTYPE("W", weight ? weight->dtype
                                                            : bias ? bias->dtype
                                                                   : x->dtype),
                                      TPI_DEFINE_DTYPE("S", rstd->dtype)};
    tpi_neighbour *first = r.is_long ? NULL : tpi_gpu_prologue_for(neighbours, x, r.vector);
    tpi_neighbour *then = r.is_long ? NULL : tpi_gpu_epilogue_for(neighbours, y, r.vector);
    tpi_gpu_function *kernel = tpi_gpu_site_kernel_with(device, &forward_site, is_wide(x), 12, defines, first, then);
    int64_t rows = x->numel / n;
    int width = (int)n;
    tpi_gpu_neighbour_params params, first_params;
    tpi_gpu_arg args[9 + 2 * TPI_GPU_NEIGHBOUR_ARGS] = {TPI_GPU_PTR(y->data),
                                                        TPI_GPU_PTR(x->data),
                                                        TPI_GPU_PTR(tpi_gpu_data(weight)),
                                                        TPI_GPU_PTR(tpi_gpu_data(bias)),
                                                        TPI_GPU_PTR(tpi_gpu_data(mean)),
                                                        TPI_GPU_PTR(rstd->data),
                                                        TPI_GPU_VAL(rows),
                                                        TPI_GPU_VAL(width),
                                                        TPI_GPU_REAL(eps, is_wide(x))};
    int nargs = 9 + tpi_gpu_neighbour_args(first, args + 9, &first_params);
    nargs += tpi_gpu_neighbour_args(then, args + nargs, &params);
    bool ok =
        kernel && tpi_gpu_launch(device, kernel, tpi_ceil_div(rows, r.groups), r.group * r.groups, 0, nargs, args);
    if (ok && then) then->taken = true;
    if (ok && first) first->taken = true;
    return ok;
}

static bool forward(tp_tensor *input, tp_ints normalized, tp_tensor *weight, tp_tensor *bias, double eps, bool rms,
                    tp_tensor **out, const tpi_neighbours *neighbours) {
    int64_t n, buffer[TP_MAX_DIMS];
    if (!serves(input, normalized, weight, bias, &n)) return false;
    tp_device device = tpi_device(input);
    tp_dtype compute = is_wide(input) ? TP_FLOAT64 : TP_FLOAT32;
    tp_dtype kept = rms ? compute : weight && weight->dtype == TP_FLOAT32 ? TP_FLOAT32 : (tp_dtype)input->dtype;
    tp_ints stats = stats_shape(input, normalized.n, buffer);
    tp_tensor *x = tpi_contiguous_data(input),
              *y = x ? tpi_empty(tpi_shape(input), (tp_dtype)input->dtype, device) : NULL;
    tp_tensor *mean = y && !rms ? tpi_empty(stats, kept, device) : NULL,
              *rstd = y ? tpi_empty(stats, kept, device) : NULL;
    bool ok = rstd && (rms || mean) && launch_forward(x, y, weight, bias, mean, rstd, n, eps, neighbours);
    tpi_release(x);
    if (!ok) {
        tpi_release(y);
        tpi_release(mean);
        tpi_release(rstd);
        return false;
    }
    int at = 0;
    out[at++] = y;
    if (!rms) out[at++] = mean;
    out[at] = rstd;
    return true;
}

/* The sums of the weight's and the bias's parts. */
static bool add_lines(tp_tensor *dweight, tp_tensor *dbias, const tp_tensor *parts, int64_t lines, int64_t n,
                      bool wide) {
    tp_tensor *some = dweight ? dweight : dbias;
    tp_device device = tpi_device(some);
    const tpi_gpu_define defines[] = {TPI_DEFINE("PARTS", (dweight != NULL) + 2 * (dbias != NULL)),
                                      TPI_DEFINE("GROUP", 1),
                                      TPI_DEFINE("GROUPS", 1),
                                      TPI_DEFINE("PER", 1),
                                      TPI_DEFINE("VEC", 1),
                                      TPI_DEFINE_DTYPE("X", some->dtype),
                                      TPI_DEFINE_DTYPE("Y", some->dtype),
                                      TPI_DEFINE_DTYPE("W", some->dtype)};
    tpi_gpu_function *kernel = tpi_gpu_site_kernel(device, &columns_site, wide, 8, defines);
    int width = (int)n;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(dweight)), TPI_GPU_PTR(tpi_gpu_data(dbias)),
                                TPI_GPU_PTR(parts->data), TPI_GPU_VAL(lines), TPI_GPU_VAL(width)};
    const unsigned grid[3] = {(unsigned)tpi_ceil_div(n, 8), dweight && dbias ? 2 : 1, 1}, block[3] = {256, 1, 1};
    return kernel && tpi_gpu_launch3(device, kernel, grid, block, 0, 5, args);
}

typedef struct backward_tensors { /* weight, mean (rms norm) and parts may be NULL; parts: of the sums */
    tp_tensor *x, *g, *dx, *weight, *mean, *rstd, *parts;
} backward_tensors;

/* dx of rows of n elements, and the parts of the sums over rows, as many as groups of threads. */
static bool launch_backward(const backward_tensors *t, int64_t n, tpi_gpu_rows r, int64_t blocks,
                            const tpi_neighbours *neighbours) {
    tp_device device = tpi_device(t->x);
    int64_t rows = t->x->numel / n;
    const tpi_gpu_define defines[] = {TPI_DEFINE("RMS", t->mean == NULL),
                                      TPI_DEFINE("WEIGHT", t->weight != NULL),
                                      TPI_DEFINE("SUMS", t->parts != NULL),
                                      TPI_DEFINE_ROWS(r),
                                      TPI_DEFINE_DTYPE("X", t->x->dtype),
                                      TPI_DEFINE_DTYPE("Y", t->dx->dtype),
                                      TPI_DEFINE_DTYPE("W", t->weight ? t->weight->dtype : t->x->dtype),
                                      TPI_DEFINE_DTYPE("S", t->rstd->dtype),
                                      TPI_DEFINE_DTYPE("G", t->g->dtype)};
    tpi_neighbour *then = r.is_long ? NULL : tpi_gpu_epilogue_for(neighbours, t->dx, r.vector);
    tpi_gpu_function *kernel = tpi_gpu_site_kernel_with(device, &backward_site, is_wide(t->x), 13, defines, NULL, then);
    int width = (int)n;
    tpi_gpu_neighbour_params params;
    tpi_gpu_arg args[9 + TPI_GPU_NEIGHBOUR_ARGS] = {TPI_GPU_PTR(t->dx->data),
                                                    TPI_GPU_PTR(t->g->data),
                                                    TPI_GPU_PTR(t->x->data),
                                                    TPI_GPU_PTR(tpi_gpu_data(t->weight)),
                                                    TPI_GPU_PTR(tpi_gpu_data(t->mean)),
                                                    TPI_GPU_PTR(t->rstd->data),
                                                    TPI_GPU_PTR(tpi_gpu_data(t->parts)),
                                                    TPI_GPU_VAL(rows),
                                                    TPI_GPU_VAL(width)};
    int nargs = 9 + tpi_gpu_neighbour_args(then, args + 9, &params);
    bool ok = kernel && tpi_gpu_launch(device, kernel, blocks, r.group * r.groups, 0, nargs, args);
    if (ok && then) then->taken = true;
    return ok;
}

static bool backward(tp_tensor *grad, tp_tensor *input, tp_ints normalized, tp_tensor *mean, tp_tensor *rstd,
                     tp_tensor *weight, tp_tensor *bias, tp_tensor **out, const tpi_neighbours *neighbours) {
    int64_t n;
    if (!serves(input, normalized, weight, bias, &n) || !tpi_gpu_floats(grad) || !tpi_same_shape(grad, input))
        return false;
    tp_device device = tpi_device(input);
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(device);
    tp_tensor *const moved[] = {input, grad, weight};
    int size = largest(moved, 3);
    bool sums = weight || bias, wide = is_wide(input);
    tp_tensor *x = tpi_contiguous_data(input), *g = x ? tpi_contiguous_data(grad) : NULL,
              *dx = g ? tpi_empty(tpi_shape(input), (tp_dtype)input->dtype, device) : NULL;
    tp_tensor *const here[] = {x, g, dx, weight};
    tpi_gpu_rows r = tpi_gpu_rows_for(device, n, size, dx ? joint(here, 4) : 0, 3);
    if (!caps || !dx || (r.is_long && sums)) {
        tpi_release(x);
        tpi_release(g);
        tpi_release(dx);
        return false;
    }
    int64_t rows = x->numel / n, blocks = tpi_ceil_div(rows, r.groups),
            most = (int64_t)caps->units * (AT_ONCE / (r.group * r.groups) < 1 ? 1 : AT_ONCE / (r.group * r.groups));
    if (blocks > most) blocks = most;
    int64_t lines = blocks * r.groups;
    tp_tensor *parts = sums ? tpi_empty(TP_INTS(2, lines, n), wide ? TP_FLOAT64 : TP_FLOAT32, device) : NULL;
    tp_tensor *dweight = weight ? tpi_empty(tpi_shape(weight), (tp_dtype)weight->dtype, device)
                                : tpi_empty(TP_INTS(0), wide ? TP_FLOAT64 : TP_FLOAT32, device);
    tp_tensor *dbias = !mean  ? NULL
                       : bias ? tpi_empty(tpi_shape(bias), (tp_dtype)bias->dtype, device)
                              : tpi_empty(TP_INTS(0), wide ? TP_FLOAT64 : TP_FLOAT32, device);
    bool ok = (parts || !sums) && dweight && (dbias || !mean);
    if (ok) {
        const backward_tensors t = {x, g, dx, weight, mean, rstd, parts};
        ok = launch_backward(&t, n, r, blocks, neighbours) &&
             (!sums || add_lines(weight ? dweight : NULL, bias ? dbias : NULL, parts, lines, n, wide));
    }
    tpi_release(x);
    tpi_release(g);
    tpi_release(parts);
    if (!ok) {
        tpi_release(dx);
        tpi_release(dweight);
        tpi_release(dbias);
        return false;
    }
    out[0] = dx;
    out[1] = dweight;
    if (mean) out[2] = dbias;
    return true;
}

tpi_served tpi_gpu_layer_norm(tp_tensor *input, tp_ints normalized_shape, tp_tensor *weight, tp_tensor *bias,
                              double eps, tp_tensor **out, tpi_neighbours *neighbours) {
    return tpi_serve_if(forward(input, normalized_shape, weight, bias, eps, false, out, neighbours));
}

tpi_served tpi_gpu_layer_norm_backward(tp_tensor *grad, tp_tensor *input, tp_ints normalized_shape, tp_tensor *mean,
                                       tp_tensor *rstd, tp_tensor *weight, tp_tensor *bias, tp_tensor **out,
                                       tpi_neighbours *neighbours) {
    return tpi_serve_if(backward(grad, input, normalized_shape, mean, rstd, weight, bias, out, neighbours));
}

tpi_served tpi_gpu_rms_norm(tp_tensor *input, tp_ints normalized_shape, tp_tensor *weight, double eps, tp_tensor **out,
                            tpi_neighbours *neighbours) {
    if (eps != eps) eps = input->dtype == TP_FLOAT64 ? 0x1p-52 : 0x1p-23;
    return tpi_serve_if(forward(input, normalized_shape, weight, NULL, eps, true, out, neighbours));
}

tpi_served tpi_gpu_rms_norm_backward(tp_tensor *grad, tp_tensor *input, tp_ints normalized_shape, tp_tensor *rstd,
                                     tp_tensor *weight, tp_tensor **out, tpi_neighbours *neighbours) {
    return tpi_serve_if(backward(grad, input, normalized_shape, NULL, rstd, weight, NULL, out, neighbours));
}
