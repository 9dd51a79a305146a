/* Group norm on GPUs: sums by parts, statistics from the parts, then one pass over the elements; back the same way,
 * plane by plane. */
#include "ops/native_gpu.h"
#include "ops/compute_dtype.h"

static const tpi_gpu_site sums_site = {"group_norm_gpu_kernel.h", "sums"},
                          settle_site = {"group_norm_gpu_kernel.h", "settle"},
                          apply_site = {"group_norm_gpu_kernel.h", "apply"};

typedef struct call {
    tp_device device;
    int64_t images, plane, n, rows; /* n: elements of a row, which is a group of one image */
    int channels, groups, each, units;
    bool wide, back;
    tp_dtype compute, kept;               /* of the statistics */
    tp_tensor *x, *g, *y, *weight, *bias; /* contiguous and owned */
    tp_tensor *mean, *rstd, *parts, *coefficients;
    int vector, nparts;
} call;

static bool is_affine(const tp_tensor *t, int64_t channels) {
    return !t || (t->ndim == 1 && t->numel == channels && tpi_gpu_floats(t));
}

/* What does not fit, or is wrong, is the CPU's. */
static bool prepare(call *c, tp_tensor *input, tp_tensor *grad, tp_tensor *weight, tp_tensor *bias, int64_t images,
                    int64_t channels, int64_t plane, int64_t groups) {
    const tpi_gpu_caps *caps = tpi_gpu_caps_of(tpi_device(input));
    if (!caps || !tpi_gpu_floats(input) || !input->numel || groups < 1 || channels % groups ||
        channels > INT32_MAX / 2 || input->numel != images * channels * plane)
        return false;
    if (!is_affine(weight, channels) || !is_affine(bias, channels) || (weight && bias && weight->dtype != bias->dtype))
        return false;
    if (grad && (grad->dtype != input->dtype || !tpi_same_shape(grad, input))) return false;
    *c = (call){.device = tpi_device(input),
                .images = images,
                .plane = plane,
                .channels = (int)channels,
                .groups = (int)groups,
                .each = (int)(channels / groups),
                .units = caps->units,
                .wide = input->dtype == TP_FLOAT64,
                .back = grad != NULL};
    c->n = c->each * plane;
    c->rows = images * groups;
    c->compute = c->wide ? TP_FLOAT64 : TP_FLOAT32;
    c->kept = weight && weight->dtype == TP_FLOAT32 ? TP_FLOAT32 : (tp_dtype)input->dtype;
    c->x = tpi_contiguous_data(input);
    c->g = grad ? tpi_contiguous_data(grad) : NULL;
    c->weight = weight ? tpi_contiguous_data(weight) : NULL;
    c->bias = bias ? tpi_contiguous_data(bias) : NULL;
    c->y = tpi_empty(tpi_shape(input), (tp_dtype)input->dtype, c->device);
    c->coefficients = tpi_empty(TP_INTS(2, c->rows), c->compute, c->device);
    if (!c->x || !c->y || !c->coefficients || (grad && !c->g) || (weight && !c->weight) || (bias && !c->bias))
        return false;
    uintptr_t bits = (uintptr_t)c->x->data | (uintptr_t)c->y->data | (uintptr_t)tpi_gpu_data(c->g);
    int size = (int)tpi_itemsize(input);
    c->vector = 16 / size;
    while (c->vector > 1 && (plane % c->vector || bits % (uintptr_t)(c->vector * size))) c->vector /= 2;
    return true;
}

static void drop(call *c) {
    tpi_release(c->x);
    tpi_release(c->g);
    tpi_release(c->weight);
    tpi_release(c->bias);
    tpi_release(c->parts);
    tpi_release(c->coefficients);
}

static tpi_gpu_function *kernel_of(const call *c, const tpi_gpu_site *site, int group, bool large) {
    tp_dtype affine = c->weight ? (tp_dtype)c->weight->dtype : c->bias ? (tp_dtype)c->bias->dtype : c->compute;
    const tpi_gpu_define defines[] = {TPI_DEFINE("BACK", c->back),          TPI_DEFINE("WEIGHT", c->weight != NULL),
                                      TPI_DEFINE("BIAS", c->bias != NULL),  TPI_DEFINE("VEC", c->vector),
                                      TPI_DEFINE("PER", c->vector),         TPI_DEFINE("GROUP", group),
                                      TPI_DEFINE("GROUPS", 256 / group),    TPI_DEFINE("LARGE", large),
                                      TPI_DEFINE_DTYPE("X", c->x->dtype),   TPI_DEFINE_DTYPE("W", affine),
                                      TPI_DEFINE_DTYPE("S", c->rstd->dtype)};
    return tpi_gpu_site_kernel(c->device, site, c->wide, 11, defines);
}

/* Forward of rows, back of planes; in as many parts as keep the device busy, which depends on shape and device alone.
 */
static bool compute_sums(call *c) {
    int64_t rows = c->back ? c->images * c->channels : c->rows, n = c->back ? c->plane : c->n;
    int group = 1;
    while (group < 256 && (int64_t)group * c->vector * 4 < n) group *= 2;
    int64_t blocks = tpi_ceil_div(rows, 256 / group), parts = tpi_ceil_div((int64_t)c->units * 4, blocks),
            least = (int64_t)256 * c->vector * 8;
    if (parts > tpi_ceil_div(n, least)) parts = tpi_ceil_div(n, least);
    int64_t share = tpi_ceil_div(tpi_ceil_div(n, parts), c->vector) * c->vector;
    c->nparts = (int)tpi_ceil_div(n, share);
    c->parts = tpi_empty(TP_INTS(c->nparts, 2, rows), c->compute, c->device);
    tpi_gpu_function *kernel = c->parts ? kernel_of(c, &sums_site, group, false) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(c->parts)),
                                TPI_GPU_PTR(c->x->data),
                                TPI_GPU_PTR(tpi_gpu_data(c->g)),
                                TPI_GPU_PTR(c->mean->data),
                                TPI_GPU_PTR(c->rstd->data),
                                TPI_GPU_VAL(rows),
                                TPI_GPU_VAL(n),
                                TPI_GPU_VAL(share),
                                TPI_GPU_VAL(c->each)};
    const unsigned grid[3] = {(unsigned)blocks, (unsigned)c->nparts, 1}, block[3] = {256, 1, 1};
    return kernel && blocks <= INT32_MAX && tpi_gpu_launch3(c->device, kernel, grid, block, 0, 9, args);
}

static bool apply(call *c) {
    int64_t all = c->x->numel / c->vector, pieces = c->plane / c->vector, blocks = tpi_ceil_div(all, 256);
    bool large = all > INT32_MAX / 2;
    int narrow = (int)pieces;
    if (blocks > (int64_t)c->units * 64) blocks = (int64_t)c->units * 64;
    tpi_gpu_function *kernel = kernel_of(c, &apply_site, 256, large);
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(c->y->data),
                                TPI_GPU_PTR(c->x->data),
                                TPI_GPU_PTR(tpi_gpu_data(c->g)),
                                TPI_GPU_PTR(c->coefficients->data),
                                TPI_GPU_PTR(c->mean->data),
                                TPI_GPU_PTR(c->rstd->data),
                                TPI_GPU_PTR(tpi_gpu_data(c->weight)),
                                TPI_GPU_PTR(tpi_gpu_data(c->bias)),
                                TPI_GPU_VAL(c->rows),
                                TPI_GPU_VAL(all),
                                large ? TPI_GPU_VAL(pieces) : TPI_GPU_VAL(narrow),
                                TPI_GPU_VAL(c->channels),
                                TPI_GPU_VAL(c->each)};
    return kernel && tpi_gpu_launch(c->device, kernel, blocks, 256, 0, 13, args);
}

static bool settle_forward(call *c, double eps) {
    tpi_gpu_function *kernel = kernel_of(c, &settle_site, 256, false);
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(c->coefficients->data),
                                TPI_GPU_PTR(c->mean->data),
                                TPI_GPU_PTR(c->rstd->data),
                                TPI_GPU_PTR(c->parts->data),
                                TPI_GPU_PTR(c->x->data),
                                TPI_GPU_VAL(c->rows),
                                TPI_GPU_VAL(c->n),
                                TPI_GPU_VAL(c->nparts),
                                TPI_GPU_REAL(eps, c->wide)};
    return kernel && tpi_gpu_launch(c->device, kernel, tpi_ceil_div(c->rows, 64), 64, 0, 9, args);
}

tpi_served tpi_gpu_group_norm(tp_tensor *input, tp_tensor *weight, tp_tensor *bias, int64_t images, int64_t channels,
                              int64_t plane, int64_t groups, double eps, tp_tensor **out) {
    call c = {0};
    bool ok = prepare(&c, input, NULL, weight, bias, images, channels, plane, groups);
    c.mean = ok ? tpi_empty(TP_INTS(images, groups), c.kept, c.device) : NULL;
    c.rstd = c.mean ? tpi_empty(TP_INTS(images, groups), c.kept, c.device) : NULL;
    ok = c.rstd && compute_sums(&c) && settle_forward(&c, eps) && apply(&c);
    drop(&c);
    tp_tensor *y = ok ? tpi_from_compute_like(c.y, (tp_dtype)input->dtype, input) : tpi_release_then(c.y, NULL);
    if (!y) {
        tpi_release(c.mean);
        tpi_release(c.rstd);
        return tpi_not_served();
    }
    out[0] = y;
    out[1] = c.mean;
    out[2] = c.rstd;
    return TPI_SERVED;
}

static bool settle_back(call *c, tp_tensor *dweight, tp_tensor *dbias) {
    tpi_gpu_function *kernel = kernel_of(c, &settle_site, 256, false);
    double over = 1.0 / (double)c->n;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(c->coefficients->data),
                                TPI_GPU_PTR(dweight->data),
                                TPI_GPU_PTR(dbias->data),
                                TPI_GPU_PTR(c->parts->data),
                                TPI_GPU_PTR(tpi_gpu_data(c->weight)),
                                TPI_GPU_PTR(c->rstd->data),
                                TPI_GPU_VAL(c->images),
                                TPI_GPU_VAL(c->channels),
                                TPI_GPU_VAL(c->groups),
                                TPI_GPU_VAL(c->nparts),
                                TPI_GPU_REAL(over, c->wide)};
    return kernel && tpi_gpu_launch(c->device, kernel, tpi_ceil_div(c->rows + c->channels, 64), 64, 0, 11, args);
}

static tp_tensor *gradient_of(const call *c, const tp_tensor *affine) {
    return affine ? tpi_empty(TP_INTS(c->channels), (tp_dtype)affine->dtype, c->device)
                  : tpi_empty(TP_INTS(0), c->compute, c->device);
}

tpi_served tpi_gpu_group_norm_backward(tp_tensor *grad, tp_tensor *input, tp_tensor *mean, tp_tensor *rstd,
                                       tp_tensor *weight, tp_tensor *bias, int64_t images, int64_t channels,
                                       int64_t plane, int64_t groups, tp_tensor **out) {
    call c = {0};
    if (mean->dtype != rstd->dtype || !tpi_gpu_floats(mean) || mean->numel != images * groups ||
        rstd->numel != images * groups)
        return TPI_DECLINED;
    bool ok = prepare(&c, input, grad, weight, bias, images, channels, plane, groups);
    tp_tensor *dweight = ok ? gradient_of(&c, weight) : NULL, *dbias = dweight ? gradient_of(&c, bias) : NULL;
    c.mean = dbias ? tpi_contiguous_data(mean) : NULL;
    c.rstd = c.mean ? tpi_contiguous_data(rstd) : NULL;
    ok = c.rstd && compute_sums(&c) && settle_back(&c, dweight, dbias) && apply(&c);
    drop(&c);
    tpi_release(c.mean);
    tpi_release(c.rstd);
    tp_tensor *dx = ok ? tpi_from_compute_like(c.y, (tp_dtype)input->dtype, input) : tpi_release_then(c.y, NULL);
    if (!dx) {
        tpi_release(dweight);
        tpi_release(dbias);
        return tpi_not_served();
    }
    out[0] = dx;
    out[1] = dweight;
    out[2] = dbias;
    return TPI_SERVED;
}
