/* Batch norm on GPUs: sums per channel by parts, a channel's statistics from the parts, then one pass over the
 * elements. */
#include "tensor/channels_last.h"
#include "ops/native_gpu.h"

static const tpi_gpu_site sums_site = {"batch_norm_gpu_kernel.h", "sums"},
                          settle_site = {"batch_norm_gpu_kernel.h", "settle"},
                          apply_site = {"batch_norm_gpu_kernel.h", "apply"};

enum { SETTLE_LANES = 8, SETTLE_THREADS = 256 }; /* of a block of `settle`: channels, threads */

typedef struct call {
    tp_device device;
    int64_t images, plane, n; /* n: elements of a channel */
    int channels, vector, lanes, units;
    bool columns, wide, back, training;
    tp_dtype dtype, weight_dtype, running_dtype;
    tp_tensor *weight, *bias;
    int parts;
    tp_tensor *x, *g, *y, *mean, *rstd, *sums; /* x, g: as they lie in memory for the kernels; owned, as is `sums` */
} call;

static bool is_vector(const tp_tensor *t, int64_t channels) {
    return !t || (t->ndim == 1 && t->numel == channels && tp_is_contiguous(t) && tpi_gpu_floats(t));
}

/* t lying in memory as the input's layout asks; owned. */
static tp_tensor *laid_out(const call *c, tp_tensor *t, const tp_tensor *input) {
    if (!c->columns || input->ndim < 4)
        return tpi_contiguous_data(t); /* rows of channels, also where a plane is one element */
    return tpi_gpu_laid_out(t, tpi_layout_of(true, t->ndim));
}

static bool prepare(call *c, tp_tensor *input, tp_tensor *weight, tp_tensor *bias) {
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(tpi_device(input));
    if (!caps || input->ndim < 2 || !tpi_gpu_floats(input) || !input->numel || input->shape[1] > 1 << 24) return false;
    c->device = tpi_device(input);
    c->units = caps->units;
    c->images = input->shape[0];
    c->channels = (int)input->shape[1];
    c->plane = 1;
    for (int i = 2; i < input->ndim; i++) c->plane *= input->shape[i];
    c->n = c->images * c->plane;
    if (c->plane > INT32_MAX || !is_vector(weight, c->channels) || !is_vector(bias, c->channels) ||
        (weight && bias && weight->dtype != bias->dtype))
        return false;
    c->columns = input->ndim == 2 || c->plane == 1 || tpi_is_only_channels_last(input);
    c->dtype = (tp_dtype)input->dtype;
    c->wide = c->dtype == TP_FLOAT64;
    c->weight = weight;
    c->bias = bias;
    c->weight_dtype = weight    ? (tp_dtype)weight->dtype
                      : bias    ? (tp_dtype)bias->dtype
                      : c->wide ? TP_FLOAT64
                                : TP_FLOAT32;
    c->running_dtype = c->wide ? TP_FLOAT64 : TP_FLOAT32;
    return (c->x = laid_out(c, input, input)) != NULL;
}

static void choose_vector(call *c) {
    int size = (int)tpi_dtype_bytes[c->dtype];
    uintptr_t bits = (uintptr_t)c->x->data | (c->g ? (uintptr_t)c->g->data : 0) | (uintptr_t)c->y->data;
    int64_t line = c->columns ? c->channels : c->plane;
    c->vector = 16 / size;
    while (c->vector > 1 && (line % c->vector || bits % (uintptr_t)(c->vector * size))) c->vector /= 2;
    c->lanes = 1;
    while (c->lanes < 32 && c->lanes * c->vector < c->channels) c->lanes *= 2;
}

static tpi_gpu_function *kernel_of(const call *c, const tpi_gpu_site *site, bool running, const tpi_neighbour *first,
                                   const tpi_neighbour *then) {
    const tpi_gpu_define defines[] = {TPI_DEFINE("COLUMNS", c->columns),
                                      TPI_DEFINE("BACK", c->back),
                                      TPI_DEFINE("TRAINING", c->training),
                                      TPI_DEFINE("RUNNING", running),
                                      TPI_DEFINE("WEIGHT", c->weight != NULL),
                                      TPI_DEFINE("BIAS", c->bias != NULL),
                                      TPI_DEFINE("VEC", c->vector),
                                      TPI_DEFINE("LANES", c->lanes),
                                      TPI_DEFINE_DTYPE("X", c->dtype),
                                      TPI_DEFINE_DTYPE("Y", c->dtype),
                                      TPI_DEFINE_DTYPE("W", c->weight_dtype),
                                      TPI_DEFINE_DTYPE("R", c->running_dtype)};
    return tpi_gpu_site_kernel_with(c->device, site, c->wide, 12, defines, first, then);
}

/* The parts' sums, in a fresh tensor; owned. As many parts as keep the device busy, which depends on shape and device
 * alone. The maps that make the gradient are run here, and their result is kept for `apply`. */
static tp_tensor *compute_sums(call *c, const tpi_neighbours *neighbours) {
    int64_t across = c->columns ? tpi_ceil_div(c->channels, c->lanes * c->vector) : c->channels,
            over = c->columns ? c->n : c->images;
    int64_t parts = tpi_ceil_div((int64_t)c->units * 8, across), least = c->columns ? 4 * 256 / c->lanes : 1;
    if (parts > tpi_ceil_div(over, least)) parts = tpi_ceil_div(over, least);
    int64_t each = tpi_ceil_div(over, parts);
    parts = tpi_ceil_div(over, each);
    c->parts = (int)parts;
    tp_tensor *sums = tpi_empty(TP_INTS(2, parts, c->channels), c->wide ? TP_FLOAT64 : TP_FLOAT32, c->device);
    tpi_neighbour *first = c->back ? tpi_gpu_prologue_for(neighbours, c->g, c->vector) : NULL;
    if (first) first->keeps = true;
    tpi_gpu_function *kernel = sums ? kernel_of(c, &sums_site, false, first, NULL) : NULL;
    tpi_gpu_neighbour_params params;
    tpi_gpu_arg args[9 + TPI_GPU_NEIGHBOUR_ARGS] = {TPI_GPU_PTR(tpi_gpu_data(sums)),
                                                    TPI_GPU_PTR(c->x->data),
                                                    TPI_GPU_PTR(tpi_gpu_data(c->g)),
                                                    TPI_GPU_PTR(tpi_gpu_data(c->mean)),
                                                    TPI_GPU_PTR(tpi_gpu_data(c->rstd)),
                                                    TPI_GPU_VAL(over),
                                                    TPI_GPU_VAL(each),
                                                    TPI_GPU_VAL(c->channels),
                                                    TPI_GPU_VAL(c->plane)};
    const int own = c->columns ? 8 : 9, nargs = own + tpi_gpu_neighbour_args(first, args + own, &params);
    const unsigned grid[3] = {(unsigned)across, (unsigned)parts, 1}, block[3] = {256, 1, 1};
    if (!kernel || !tpi_gpu_launch3(c->device, kernel, grid, block, 0, nargs, args))
        return tpi_release_then(sums, NULL);
    if (first) first->taken = true;
    return sums;
}

static bool apply(call *c, const tpi_neighbours *neighbours) {
    tpi_neighbour *then = tpi_gpu_epilogue_for(neighbours, c->y, c->vector);
    tpi_gpu_function *kernel = kernel_of(c, &apply_site, false, NULL, then);
    int64_t rows = c->n,
            across = c->columns ? tpi_ceil_div(c->channels, c->lanes * c->vector) : c->images * c->channels;
    int64_t along = c->columns ? tpi_ceil_div(rows, 256 / c->lanes) : tpi_ceil_div(c->plane, (int64_t)256 * c->vector),
            most = tpi_ceil_div((int64_t)c->units * (c->columns ? 32 : 64), across);
    const unsigned grid[3] = {(unsigned)across, (unsigned)(along < most ? along : most), 1},
                   block[3] = {!c->columns && c->plane / c->vector < 128 ? 64 : 256, 1, 1};
    int plane = (int)c->plane;
    double over = 1 / (double)c->n;
    tpi_gpu_neighbour_params params;
    tpi_gpu_arg args[12 + TPI_GPU_NEIGHBOUR_ARGS] = {TPI_GPU_PTR(c->y->data),
                                                     TPI_GPU_PTR(c->x->data),
                                                     TPI_GPU_PTR(tpi_gpu_data(c->g)),
                                                     TPI_GPU_PTR(c->mean->data),
                                                     TPI_GPU_PTR(c->rstd->data),
                                                     TPI_GPU_PTR(tpi_gpu_data(c->weight)),
                                                     TPI_GPU_PTR(tpi_gpu_data(c->bias)),
                                                     TPI_GPU_PTR(tpi_gpu_data(c->sums)),
                                                     TPI_GPU_VAL(rows),
                                                     TPI_GPU_VAL(c->channels),
                                                     TPI_GPU_VAL(plane),
                                                     TPI_GPU_REAL(over, c->wide)};
    int nargs = 12 + tpi_gpu_neighbour_args(then, args + 12, &params);
    bool ok = kernel && tpi_gpu_launch3(c->device, kernel, grid, block, 0, nargs, args);
    if (ok && then) then->taken = true;
    return ok;
}

static bool settle(call *c, const tp_tensor *parts, tp_tensor *running_mean, tp_tensor *running_var, double momentum,
                   double eps) {
    c->running_dtype = running_mean ? (tp_dtype)running_mean->dtype : c->running_dtype;
    tpi_gpu_function *kernel = kernel_of(c, &settle_site, running_mean != NULL, NULL, NULL);
    int64_t stride = c->columns ? 1 : c->plane;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(parts)),
                                TPI_GPU_PTR(c->x->data),
                                TPI_GPU_PTR(c->mean->data),
                                TPI_GPU_PTR(c->rstd->data),
                                TPI_GPU_PTR(tpi_gpu_data(running_mean)),
                                TPI_GPU_PTR(tpi_gpu_data(running_var)),
                                TPI_GPU_VAL(c->parts),
                                TPI_GPU_VAL(c->channels),
                                TPI_GPU_VAL(stride),
                                TPI_GPU_VAL(c->n),
                                TPI_GPU_REAL(momentum, c->wide),
                                TPI_GPU_REAL(eps, c->wide)};
    return kernel &&
           tpi_gpu_launch(c->device, kernel, tpi_ceil_div(c->channels, SETTLE_LANES), SETTLE_THREADS, 0, 12, args);
}

tpi_served tpi_gpu_batch_norm_forward(tp_tensor *input, tp_tensor *weight, tp_tensor *bias, tp_tensor *running_mean,
                                      tp_tensor *running_var, bool training, double momentum, double eps,
                                      tp_tensor **out, tpi_neighbours *neighbours) {
    call c = {.training = training};
    bool both = (running_mean != NULL) == (running_var != NULL) && (training || running_mean);
    if (!both || (running_mean && running_mean->dtype != running_var->dtype) || !prepare(&c, input, weight, bias))
        return tpi_not_served();
    if (!is_vector(running_mean, c.channels) || !is_vector(running_var, c.channels)) {
        tpi_release(c.x);
        return tpi_not_served();
    }
    tp_dtype kept = c.wide ? TP_FLOAT64 : TP_FLOAT32;
    c.y = tpi_empty_like(c.x, c.dtype);
    c.mean = tpi_empty(TP_INTS(c.channels), kept, c.device);
    c.rstd = tpi_empty(TP_INTS(c.channels), kept, c.device);
    bool ok = c.y && c.mean && c.rstd;
    tp_tensor *parts = NULL;
    if (ok) {
        choose_vector(&c);
        if (training) ok = (parts = compute_sums(&c, NULL)) != NULL;
        ok = ok && settle(&c, parts, running_mean, running_var, momentum, eps) && apply(&c, neighbours);
    }
    if (ok && training && running_mean) {
        tpi_touch(running_mean);
        tpi_touch(running_var);
    }
    tpi_release(parts);
    tpi_release(c.x);
    if (!ok) {
        tpi_release(c.y);
        tpi_release(c.mean);
        tpi_release(c.rstd);
        return tpi_not_served();
    }
    out[0] = c.y;
    out[1] = c.mean;
    out[2] = c.rstd;
    return TPI_SERVED;
}

static bool settle_back(call *c, const tp_tensor *parts, tp_tensor *dweight, tp_tensor *dbias) {
    tpi_gpu_function *kernel = kernel_of(c, &settle_site, false, NULL, NULL);
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(parts->data),   TPI_GPU_PTR(dweight->data), TPI_GPU_PTR(dbias->data),
                                TPI_GPU_PTR(c->sums->data), TPI_GPU_VAL(c->parts),      TPI_GPU_VAL(c->channels)};
    return kernel &&
           tpi_gpu_launch(c->device, kernel, tpi_ceil_div(c->channels, SETTLE_LANES), SETTLE_THREADS, 0, 6, args);
}

tpi_served tpi_gpu_batch_norm_backward(tp_tensor *grad, tp_tensor *input, tp_tensor *weight, tp_tensor *bias,
                                       tp_tensor *mean, tp_tensor *rstd, bool training, tp_tensor **out,
                                       tpi_neighbours *neighbours) {
    call c = {.training = training, .back = true};
    tp_dtype kept = input->dtype == TP_FLOAT64 ? TP_FLOAT64 : TP_FLOAT32;
    if (grad->dtype != input->dtype || !tpi_same_shape(grad, input) || mean->dtype != kept || rstd->dtype != kept ||
        !prepare(&c, input, weight, bias))
        return tpi_not_served();
    c.mean = mean;
    c.rstd = rstd;
    c.g = laid_out(&c, grad, input);
    c.y = tpi_empty_like(c.x, c.dtype);
    c.sums = tpi_empty(TP_INTS(2, c.channels), kept, c.device);
    tp_tensor *dweight = tpi_empty(TP_INTS(c.channels), c.weight_dtype, c.device),
              *dbias = tpi_empty(TP_INTS(c.channels), c.weight_dtype, c.device), *parts = NULL;
    bool ok = c.g && c.y && c.sums && dweight && dbias;
    if (ok) {
        choose_vector(&c);
        ok = (parts = compute_sums(&c, neighbours)) && settle_back(&c, parts, dweight, dbias) && apply(&c, neighbours);
    }
    tpi_release(parts);
    tpi_release(c.x);
    tpi_release(c.g);
    tpi_release(c.sums);
    if (!ok) {
        tpi_release(c.y);
        tpi_release(dweight);
        tpi_release(dbias);
        return tpi_not_served();
    }
    out[0] = c.y;
    out[1] = dweight;
    out[2] = dbias;
    return TPI_SERVED;
}
