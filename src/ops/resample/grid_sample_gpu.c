/* grid_sample on GPUs. The input's gradient is a sum over whatever positions named an element: an embedding's gradient,
 * whose rows are pixels. */
#include "ops/temporaries.h"
#include "ops/native_gpu.h"
#include "ops/compute_dtype.h"
#include "tpi_ops.h"

static const tpi_gpu_site forward_site = {"grid_sample_gpu_kernel.h", "forward"},
                          places_site = {"grid_sample_gpu_kernel.h", "places"},
                          slopes_site = {"grid_sample_gpu_kernel.h", "slopes"};

typedef struct geometry { /* as ops/resample/grid_sample_gpu_kernel.h has it */
    int in[3], channels;
    int64_t positions;
} geometry;

typedef struct call {
    tp_device device;
    geometry g;
    int64_t images, size; /* elements of an input plane */
    int dims, taps;
    int64_t mode, padding;
    bool align, wide;
    tp_dtype dtype;
    tp_tensor *x, *grid; /* contiguous, owned */
} call;

static void drop(call *c) {
    tpi_release(c->x);
    tpi_release(c->grid);
}

/* What does not fit, or is wrong, is the CPU's. */
static bool prepare(call *c, tp_tensor *input, tp_tensor *grid, int64_t mode, int64_t padding, bool align) {
    int n = input->ndim - 2;
    if (!tpi_gpu_floats(input) || grid->dtype != input->dtype || !input->numel || !grid->numel || (n != 2 && n != 3) ||
        grid->ndim != n + 2 || grid->shape[n + 1] != n || grid->shape[0] != input->shape[0] || mode < 0 || mode > 2 ||
        (n == 3 && mode == 2) || padding < 0 || padding > 2 || input->shape[1] > INT32_MAX)
        return false;
    *c = (call){.device = tpi_device(input),
                .g = {{1, 1, 1}, (int)input->shape[1], 1},
                .images = input->shape[0],
                .size = 1,
                .dims = n,
                .mode = mode,
                .padding = padding,
                .align = align,
                .wide = input->dtype == TP_FLOAT64,
                .dtype = (tp_dtype)input->dtype};
    for (int i = 0; i < n; i++) {
        if (input->shape[2 + i] > INT32_MAX / 2) return false;
        c->g.in[3 - n + i] = (int)input->shape[2 + i];
        c->g.positions *= grid->shape[1 + i];
        c->size *= input->shape[2 + i];
    }
    int count = mode == 2 ? 4 : mode == 1 ? 1 : 2;
    c->taps = count * count * (n == 3 ? count : 1);
    c->x = tpi_contiguous_data(input);
    c->grid = tpi_contiguous_data(grid);
    return c->x && c->grid;
}

static tpi_gpu_function *kernel_of(const call *c, const tpi_gpu_site *site, int64_t n) {
    const tpi_gpu_define defines[] = {TPI_DEFINE("DIMS", c->dims),
                                      TPI_DEFINE("MODE", c->mode),
                                      TPI_DEFINE("PADDING", c->padding),
                                      TPI_DEFINE("ALIGN", c->align),
                                      TPI_DEFINE("LARGE", tpi_gpu_is_large(n)),
                                      TPI_DEFINE_DTYPE("X", c->dtype)};
    return tpi_gpu_site_kernel(c->device, site, c->wide, 6, defines);
}

tpi_served tpi_gpu_grid_sampler(tp_tensor *input, tp_tensor *grid, int64_t mode, int64_t padding, bool align_corners,
                                tp_tensor **result) {
    call c = {0};
    bool ok = prepare(&c, input, grid, mode, padding, align_corners);
    int64_t shape[5] = {c.images, c.g.channels};
    for (int i = 0; ok && i < c.dims; i++) shape[2 + i] = grid->shape[1 + i];
    tp_tensor *y = ok ? tpi_empty(tp_ints_view(shape, c.dims + 2), c.dtype, c.device) : NULL;
    int64_t n = y ? y->numel : 0;
    tpi_gpu_function *kernel = y ? kernel_of(&c, &forward_site, n) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(y)), TPI_GPU_PTR(tpi_gpu_data(c.x)),
                                TPI_GPU_PTR(tpi_gpu_data(c.grid)), TPI_GPU_VAL(c.g), TPI_GPU_VAL(n)};
    ok = kernel && tpi_gpu_launch(c.device, kernel, tpi_gpu_blocks(n), 256, 0, 5, args);
    drop(&c);
    return tpi_serve(ok ? tpi_from_compute_like(y, (tp_dtype)input->dtype, input) : tpi_release_then(y, NULL), result);
}

/* g: (images, channels, positions), contiguous. */
static tp_tensor *input_gradient(const call *c, tp_tensor *g, const tp_tensor *input) {
    int64_t n = c->images * c->g.positions, nowhere = c->images * c->size;
    tp_tensor *numbers = tpi_empty(TP_INTS(n, c->taps), TP_INT64, c->device),
              *weights =
                  numbers ? tpi_empty(TP_INTS(n, c->taps, 1), c->wide ? TP_FLOAT64 : TP_FLOAT32, c->device) : NULL;
    tpi_gpu_function *kernel = weights ? kernel_of(c, &places_site, n) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(numbers)),
                                TPI_GPU_PTR(tpi_gpu_data(weights)),
                                TPI_GPU_PTR(c->grid->data),
                                TPI_GPU_VAL(c->g),
                                TPI_GPU_VAL(n),
                                TPI_GPU_VAL(nowhere)};
    bool ok = kernel && tpi_gpu_launch(c->device, kernel, tpi_gpu_blocks(n), 256, 0, 6, args);
    tpi_temporaries temps = {0};
    tp_tensor *permuted =
        ok ? tpi_put(&temps,
                     tpo_permute(tpi_put(&temps, tpo_reshape(g, TP_INTS(c->images, c->g.channels, c->g.positions))),
                                 TP_INTS(0, 2, 1)))
           : NULL;
    tp_tensor *rows = permuted ? tpi_put(&temps, tpo_reshape(permuted, TP_INTS(n, 1, c->g.channels))) : NULL;
    tp_tensor *terms = rows ? tpi_put(&temps, tpo_mul(TP_OPERAND(weights), TP_OPERAND(rows))) : NULL;
    tp_tensor *sums = terms ? tpi_put(&temps, tpo_embedding_dense_backward(terms, numbers, nowhere, -1, false)) : NULL;
    tp_tensor *planes =
        sums ? tpi_put(&temps,
                       tpo_permute(tpi_put(&temps, tpo_reshape(sums, TP_INTS(c->images, c->size, c->g.channels))),
                                   TP_INTS(0, 2, 1)))
             : NULL;
    tp_tensor *dx = planes ? tpi_empty(tpi_shape(input), c->dtype, c->device) : NULL,
              *flat = dx ? tpi_put(&temps, tpo_reshape(dx, TP_INTS(c->images, c->g.channels, c->size))) : NULL;
    ok = flat && tpi_copy_data(flat, planes);
    tpi_release(numbers);
    tpi_release(weights);
    tpi_release_temporaries(&temps, NULL);
    return ok ? tpi_from_compute_like(dx, c->dtype, input) : tpi_release_then(dx, NULL);
}

tpi_served tpi_gpu_grid_sampler_backward(tp_tensor *grad, tp_tensor *input, tp_tensor *grid, int64_t mode,
                                         int64_t padding, bool align_corners, tp_tensor **out) {
    call c = {0};
    bool ok = grad->dtype == input->dtype && prepare(&c, input, grid, mode, padding, align_corners) &&
              grad->numel == c.images * c.g.channels * c.g.positions;
    tp_tensor *alone = ok ? tpi_detached(grad) : NULL, *g = alone ? tpi_contiguous_data(alone) : NULL,
              *dgrid = g ? tpi_empty(tpi_shape(grid), c.dtype, c.device) : NULL;
    int64_t n = c.images * c.g.positions;
    tpi_gpu_function *kernel = dgrid ? kernel_of(&c, &slopes_site, n) : NULL;
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(tpi_gpu_data(dgrid)),
                                TPI_GPU_PTR(tpi_gpu_data(g)),
                                TPI_GPU_PTR(tpi_gpu_data(c.x)),
                                TPI_GPU_PTR(tpi_gpu_data(c.grid)),
                                TPI_GPU_VAL(c.g),
                                TPI_GPU_VAL(n)};
    ok = kernel && tpi_gpu_launch(c.device, kernel, tpi_gpu_blocks(n), 256, 0, 6, args);
    tp_tensor *dx = ok ? input_gradient(&c, g, input) : NULL;
    tpi_release(alone);
    tpi_release(g);
    drop(&c);
    if (!dx) {
        tpi_release(dgrid);
        return tpi_not_served();
    }
    out[0] = dx;
    out[1] = dgrid;
    return TPI_SERVED;
}
