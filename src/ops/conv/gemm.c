/* Convolution as matrix products over patches. Work is cut into tasks by shapes alone (images, groups, slices of
 * channels, tiles of output rows), and a task's partial sums are added in the order of the images, so the bits do not
 * depend on threads. */
#include <stdatomic.h>
#include <string.h>
#include "base/threads.h"
#include "base/min_max.h"
#include "linalg/product.h"
#include "ops/conv/conv.h"
#include "ops/conv/im2col.h"

/* A forward task multiplies a block of input channels at a time, about DEPTH rows of columns, so that columns stay in
 * the second-level cache while each packing of weights by the gemm serves MANY_COLUMNS columns. */
#define DEPTH        512
#define TILE_BYTES   (1 << 20)
#define FEW_COLUMNS  256 /* planes smaller than this are worked on several images at a time */
#define MANY_COLUMNS 512
#define TASKS        32 /* enough tasks for balance, few enough that each has a gemm worth calling */

typedef struct job {
    const tpi_conv *c;
    tp_dtype dtype;
    size_t item;
    const char *x, *y, *w; /* what is read; the written one is `out` */
    const char *bias;
    char *out;
    int64_t tile_rows, tiles; /* output rows (depth and height together) in a tile, and how many tiles there are */
    int64_t depth;            /* forward: input channels at a time */
    int64_t together;         /* images per step; more than one only where a tile is a whole plane */
    int64_t slices;           /* channels of a group (y's forward, x's backward) are cut into this many slices */
    int64_t chunks;     /* the batch is cut into this many chunks, each with its own partial sum (weight gradient) */
    bool plain;         /* 1x1 taps, stride 1, no padding: an image is its own matrix of columns */
    atomic_bool failed; /* a task found no memory */
} job;

static void im2col(const job *j, int64_t channels, int64_t row0, int64_t rows, const char *x, char *cols, int64_t ld) {
    if (j->dtype == TP_FLOAT32)
        TPI_ISA_PICK(tpi_im2col_f32)(j->c, channels, row0, rows, (const float *)x, (float *)cols, ld);
    else if (j->dtype == TP_FLOAT64)
        TPI_ISA_PICK(tpi_im2col_f64)(j->c, channels, row0, rows, (const double *)x, (double *)cols, ld);
    else
        TPI_ISA_PICK(tpi_im2col_i64)(j->c, channels, row0, rows, (const int64_t *)x, (int64_t *)cols, ld);
}

static void col2im(const job *j, int64_t channels, int64_t row0, int64_t rows, const char *cols, int64_t ld, char *x) {
    if (j->dtype == TP_FLOAT32)
        TPI_ISA_PICK(tpi_col2im_f32)(j->c, channels, row0, rows, (const float *)cols, ld, (float *)x);
    else if (j->dtype == TP_FLOAT64)
        TPI_ISA_PICK(tpi_col2im_f64)(j->c, channels, row0, rows, (const double *)cols, ld, (double *)x);
    else
        TPI_ISA_PICK(tpi_col2im_i64)(j->c, channels, row0, rows, (const int64_t *)cols, ld, (int64_t *)x);
}

/* c (m, n) = a (m, k) b (k, n), or += when `add`; ta, tb: the operand is stored transposed. Row-major with leading
 * sizes. */
static void product(tp_dtype dtype, bool ta, bool tb, int64_t m, int64_t n, int64_t k, const char *a, int64_t lda,
                    const char *b, int64_t ldb, bool add, char *c, int64_t ldc) {
    if (dtype == TP_FLOAT32) {
        tpi_gemm_f32(ta, tb, m, n, k, 1.0f, (const float *)a, lda, (const float *)b, ldb, add ? 1.0f : 0.0f, (float *)c,
                     ldc);
        return;
    }
    if (dtype == TP_FLOAT64) {
        tpi_gemm_f64(ta, tb, m, n, k, 1.0, (const double *)a, lda, (const double *)b, ldb, add ? 1.0 : 0.0, (double *)c,
                     ldc);
        return;
    }
    const tpi_product integers = {.dtype = TP_INT64,
                                  .batches = 1,
                                  .m = m,
                                  .n = n,
                                  .k = k,
                                  .a = {a, 0, ta ? 1 : lda, ta ? lda : 1},
                                  .b = {b, 0, tb ? 1 : ldb, tb ? ldb : 1},
                                  .c = c,
                                  .c_row = ldc,
                                  .alpha = tp_int(1),
                                  .beta = tp_int(add)};
    TPI_ISA_PICK(tpi_integer_rows)(&integers, 0, 0, m);
}

static void fill_bias(const job *j, int64_t channel, char *plane, int64_t stride, int64_t rows_of, int64_t n) {
    for (int64_t i = 0; i < rows_of; i++) {
        char *at = plane + i * stride * (int64_t)j->item;
        if (!j->bias) {
            memset(at, 0, (size_t)n * j->item);
        } else if (j->dtype == TP_FLOAT32) {
            float b = ((const float *)j->bias)[channel + i];
            for (int64_t p = 0; p < n; p++) ((float *)at)[p] = b;
        } else if (j->dtype == TP_FLOAT64) {
            double b = ((const double *)j->bias)[channel + i];
            for (int64_t p = 0; p < n; p++) ((double *)at)[p] = b;
        } else {
            int64_t b = ((const int64_t *)j->bias)[channel + i];
            for (int64_t p = 0; p < n; p++) ((int64_t *)at)[p] = b;
        }
    }
}

static void plan_tiles(job *j, int64_t channels) {
    const tpi_conv *c = j->c;
    int64_t rows = c->y[0] * c->y[1], plane = tpi_max64(rows * c->y[2], 1), item = (int64_t)j->item;
    int64_t row_bytes = tpi_max64(channels * tpi_conv_taps(c) * c->y[2] * item, 1);
    j->tile_rows =
        tpi_min64(tpi_max64(TILE_BYTES / row_bytes, tpi_ceil_div(64, tpi_max64(c->y[2], 1))), tpi_max64(rows, 1));
    j->tiles = tpi_ceil_div(rows, j->tile_rows);
    j->together =
        j->tiles == 1 && plane < FEW_COLUMNS
            ? tpi_min64(tpi_max64(tpi_min64(MANY_COLUMNS / plane, TILE_BYTES / (row_bytes * tpi_max64(rows, 1))), 1),
                        tpi_max64(c->batch, 1))
            : 1;
    j->plain = tpi_conv_taps(c) == 1 && j->together == 1 && tpi_conv_xsize(c) == tpi_conv_ysize(c) &&
               c->stride[0] == 1 && c->stride[1] == 1 && c->stride[2] == 1 && c->pad[0] == 0 && c->pad[1] == 0 &&
               c->pad[2] == 0;
}

static job make_job(const tpi_conv_call *call) {
    return (job){.c = call->c,
                 .dtype = call->dtype,
                 .item = tpi_dtype_bytes[call->dtype],
                 .x = call->x,
                 .y = call->y,
                 .w = call->w,
                 .bias = call->bias,
                 .out = call->out,
                 .together = 1,
                 .slices = 1,
                 .chunks = 1};
}

static bool run_tasks(job *j, int64_t tasks, tpi_chunk_fn fn) {
    const tpi_conv *c = j->c;
    double work = (double)c->batch * c->groups * c->cy * c->cx * tpi_conv_taps(c) * tpi_conv_ysize(c);
    tpi_parallel_for(tasks, work > 50e3, fn, j);
    if (atomic_load(&j->failed)) {
        tpi_fail_memory(TILE_BYTES, "convolution columns");
        return false;
    }
    return true;
}

static char *scratch_for(job *j, int64_t elements, size_t *bytes) {
    *bytes = (size_t)elements * j->item;
    char *scratch = tpi_alloc(*bytes);
    if (!scratch) atomic_store(&j->failed, true);
    return scratch;
}

/* Slice number `slice` of n channels. */
static void slice_of(const job *j, int64_t slice, int64_t n, int64_t *first, int64_t *count) {
    int64_t each = tpi_ceil_div(n, j->slices);
    *first = tpi_min64(slice * each, n);
    *count = tpi_min64(each, n - *first);
}

/* Planes of `channels` channels of y of the images, side by side as (channels, images * plane), and back. */
static void gather_planes(const job *j, const char *y, int64_t channels, int64_t images, char *to) {
    int64_t plane = tpi_conv_ysize(j->c) * (int64_t)j->item, image = j->c->groups * j->c->cy * plane;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < images; i++, to += plane) memcpy(to, y + i * image + c * plane, (size_t)plane);
}
static void spread_planes(const job *j, const char *from, int64_t channels, int64_t images, char *y) {
    int64_t plane = tpi_conv_ysize(j->c) * (int64_t)j->item, image = j->c->groups * j->c->cy * plane;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < images; i++, from += plane) memcpy(y + i * image + c * plane, from, (size_t)plane);
}

/* ---- y = x * w: a task is one tile of a few images, for a slice of a group's output channels ---- */

static void forward_task(int64_t task, void *context) {
    job *j = context;
    const tpi_conv *c = j->c;
    int64_t slice = task % j->slices, tile = task / j->slices % j->tiles, rest = task / j->slices / j->tiles,
            group = rest % c->groups;
    int64_t image = rest / c->groups * j->together, images = tpi_min64(j->together, c->batch - image), first, channels;
    slice_of(j, slice, c->cy, &first, &channels);
    if (channels == 0) return;
    int64_t patch = c->cx * tpi_conv_taps(c), xsize = tpi_conv_xsize(c), ysize = tpi_conv_ysize(c),
            item = (int64_t)j->item;
    int64_t row0 = tile * j->tile_rows, rows = tpi_min64(j->tile_rows, c->y[0] * c->y[1] - row0), n = rows * c->y[2];
    const char *x = j->x + (image * c->groups + group) * c->cx * xsize * item,
               *w = j->w + (group * c->cy + first) * patch * item;
    char *y = j->out + (((image * c->groups + group) * c->cy + first) * ysize + row0 * c->y[2]) * item;
    if (j->plain) {
        if (j->bias) fill_bias(j, group * c->cy + first, y, ysize, channels, n);
        product(j->dtype, false, false, channels, n, patch, w, patch, x + row0 * c->y[2] * item, ysize, j->bias, y,
                ysize);
        return;
    }
    size_t bytes, out_bytes = 0;
    int64_t ld = n * images, taps = tpi_conv_taps(c);
    char *cols = scratch_for(j, j->depth * taps * ld, &bytes),
         *out = images > 1 && cols ? scratch_for(j, channels * ld, &out_bytes) : y;
    if (cols && out) {
        if (j->bias) fill_bias(j, group * c->cy + first, out, images > 1 ? ld : ysize, channels, ld);
        for (int64_t c0 = 0; c0 < c->cx; c0 += j->depth) {
            int64_t depth = tpi_min64(j->depth, c->cx - c0);
            for (int64_t i = 0; i < images; i++)
                im2col(j, depth, row0, rows, x + (i * c->groups * c->cx + c0) * xsize * item, cols + i * n * item, ld);
            product(j->dtype, false, false, channels, ld, depth * taps, w + c0 * taps * item, patch, cols, ld,
                    j->bias || c0, out, images > 1 ? ld : ysize);
        }
        if (images > 1) spread_planes(j, out, channels, images, y);
    }
    if (out_bytes && out) tpi_free(out, out_bytes);
    if (cols) tpi_free(cols, bytes);
}

static bool run_y(const tpi_conv_call *call) {
    const tpi_conv *c = call->c;
    job j = make_job(call);
    if (c->cx == 0) {
        int64_t ysize = tpi_conv_ysize(c), channels = c->groups * c->cy;
        for (int64_t i = 0; i < c->batch; i++)
            fill_bias(&j, 0, j.out + i * channels * ysize * (int64_t)j.item, ysize, channels, ysize);
        return true;
    }
    j.depth = tpi_min64(tpi_max64(DEPTH / tpi_conv_taps(c), 1), c->cx);
    plan_tiles(&j, j.depth);
    int64_t tasks = tpi_ceil_div(c->batch, j.together) * c->groups * j.tiles;
    j.slices = tpi_min64(tpi_max64(TASKS / 4 / tpi_max64(tasks, 1), 1),
                         tpi_max64(c->cy / 128, 1)); /* few: each slice makes its columns again */
    return run_tasks(&j, tasks * j.slices, forward_task);
}

/* ---- dx = y *' w: a task is one slice of the channels of one group of a few images; its tiles follow one another ----
 */

static void input_task(int64_t task, void *context) {
    job *j = context;
    const tpi_conv *c = j->c;
    int64_t slice = task % j->slices, group = task / j->slices % c->groups,
            image = task / j->slices / c->groups * j->together;
    int64_t images = tpi_min64(j->together, c->batch - image), first, channels, item = (int64_t)j->item;
    slice_of(j, slice, c->cx, &first, &channels);
    if (channels == 0) return;
    int64_t taps = tpi_conv_taps(c), xsize = tpi_conv_xsize(c), ysize = tpi_conv_ysize(c), patch = c->cx * taps,
            ximage = c->groups * c->cx * xsize * item;
    char *x = j->out + ((image * c->groups + group) * c->cx + first) * xsize * item;
    const char *w = j->w + (group * c->cy * patch + first * taps) * item,
               *y = j->y + (image * c->groups + group) * c->cy * ysize * item;
    if (j->plain && c->cy > 0) {
        if (j->bias) fill_bias(j, group * c->cx + first, x, xsize, channels, xsize);
        product(j->dtype, true, false, channels, ysize, c->cy, w, patch, y, ysize, j->bias, x, xsize);
        return;
    }
    for (int64_t i = 0; i < images; i++) fill_bias(j, group * c->cx + first, x + i * ximage, xsize, channels, xsize);
    if (c->cy == 0) return;
    size_t bytes, in_bytes = 0;
    char *cols = scratch_for(j, channels * taps * j->tile_rows * c->y[2] * images, &bytes),
         *in = images > 1 && cols ? scratch_for(j, c->cy * ysize * images, &in_bytes) : NULL;
    if (in) gather_planes(j, y, c->cy, images, in);
    for (int64_t row0 = 0; cols && (in || images == 1) && row0 < c->y[0] * c->y[1]; row0 += j->tile_rows) {
        int64_t rows = tpi_min64(j->tile_rows, c->y[0] * c->y[1] - row0), n = rows * c->y[2], ld = n * images;
        product(j->dtype, true, false, channels * taps, ld, c->cy, w, patch, in ? in : y + row0 * c->y[2] * item,
                in ? ld : ysize, false, cols, ld);
        for (int64_t i = 0; i < images; i++) col2im(j, channels, row0, rows, cols + i * n * item, ld, x + i * ximage);
    }
    if (in) tpi_free(in, in_bytes);
    if (cols) tpi_free(cols, bytes);
}

static bool run_x(const tpi_conv_call *call) {
    const tpi_conv *c = call->c;
    job j = make_job(call);
    int64_t depth = tpi_min64(tpi_max64(DEPTH / tpi_conv_taps(c), 1), tpi_max64(c->cx, 1));
    plan_tiles(&j, depth);
    j.slices = tpi_ceil_div(c->cx, depth);
    int64_t tasks = tpi_ceil_div(c->batch, j.together) * c->groups;
    return run_tasks(&j, tasks * j.slices, input_task);
}

/* ---- dw = x *" y: a task is one slice of the channels of one group over one chunk of the batch ---- */

static void weight_task(int64_t task, void *context) {
    job *j = context;
    const tpi_conv *c = j->c;
    int64_t slice = task % j->slices, group = task / j->slices % c->groups, chunk = task / j->slices / c->groups;
    int64_t first, channels, item = (int64_t)j->item;
    slice_of(j, slice, c->cx, &first, &channels);
    if (channels == 0) return;
    int64_t taps = tpi_conv_taps(c), xsize = tpi_conv_xsize(c), ysize = tpi_conv_ysize(c), patch = c->cx * taps,
            ximage = c->groups * c->cx * xsize * item;
    char *w = j->out + ((chunk * c->groups + group) * c->cy * patch + first * taps) * item;
    size_t bytes = 0, in_bytes = 0;
    char *cols = j->plain ? NULL : scratch_for(j, channels * taps * j->tile_rows * c->y[2] * j->together, &bytes);
    char *in = j->together > 1 ? scratch_for(j, c->cy * ysize * j->together, &in_bytes) : NULL;
    int64_t each = tpi_ceil_div(c->batch, j->chunks), end = tpi_min64(c->batch, (chunk + 1) * each);
    bool add = false, ready = (cols || j->plain) && (in || j->together == 1);
    for (int64_t image = chunk * each; ready && image < end; image += j->together) {
        int64_t images = tpi_min64(j->together, end - image);
        const char *x = j->x + ((image * c->groups + group) * c->cx + first) * xsize * item,
                   *y = j->y + (image * c->groups + group) * c->cy * ysize * item;
        if (j->plain) {
            product(j->dtype, false, true, c->cy, channels, ysize, y, ysize, x, xsize, add, w, patch);
            add = true;
            continue;
        }
        if (in) gather_planes(j, y, c->cy, images, in);
        for (int64_t row0 = 0; row0 < c->y[0] * c->y[1]; row0 += j->tile_rows, add = true) {
            int64_t rows = tpi_min64(j->tile_rows, c->y[0] * c->y[1] - row0), n = rows * c->y[2], ld = n * images;
            for (int64_t i = 0; i < images; i++)
                im2col(j, channels, row0, rows, x + i * ximage, cols + i * n * item, ld);
            product(j->dtype, false, true, c->cy, channels * taps, ld, in ? in : y + row0 * c->y[2] * item,
                    in ? ld : ysize, cols, ld, add, w, patch);
        }
    }
    if (!add)
        for (int64_t i = 0; i < c->cy; i++) memset(w + i * patch * item, 0, (size_t)(channels * taps * item));
    if (in) tpi_free(in, in_bytes);
    if (cols) tpi_free(cols, bytes);
}

typedef struct merge {
    const char *parts;
    char *out;
    int64_t n, parts_n;
    tp_dtype dtype;
} merge;
#define MERGE_RUN 4096

static void merge_task(int64_t task, void *context) {
    merge *m = context;
    int64_t lo = task * MERGE_RUN, hi = tpi_min64(m->n, lo + MERGE_RUN);
    for (int64_t part = 0; part < m->parts_n; part++)
        for (int64_t i = lo; i < hi; i++) {
            int64_t at = part * m->n + i;
            if (m->dtype == TP_FLOAT32)
                ((float *)m->out)[i] = (part ? ((float *)m->out)[i] : 0.0f) + ((const float *)m->parts)[at];
            else if (m->dtype == TP_FLOAT64)
                ((double *)m->out)[i] = (part ? ((double *)m->out)[i] : 0.0) + ((const double *)m->parts)[at];
            else
                ((int64_t *)m->out)[i] = (part ? ((int64_t *)m->out)[i] : 0) + ((const int64_t *)m->parts)[at];
        }
}

void tpi_conv_merge(tp_dtype dtype, const void *parts, int64_t n, int64_t count, void *out) {
    merge m = {parts, out, n, count, dtype};
    tpi_parallel_for(tpi_ceil_div(n, MERGE_RUN), n * count > 100000, merge_task, &m);
}

static bool run_w(const tpi_conv_call *call) {
    const tpi_conv *c = call->c;
    job j = make_job(call);
    int64_t weights = c->groups * c->cy * c->cx * tpi_conv_taps(c);
    j.slices = tpi_min64(tpi_max64(TASKS / 2 / c->groups, 1), tpi_max64(c->cx / 16, 1));
    j.chunks = tpi_min64(tpi_max64(TASKS / 2 / (c->groups * j.slices), 1), tpi_max64(c->batch, 1));
    plan_tiles(&j, tpi_ceil_div(c->cx, j.slices));
    j.together = tpi_min64(j.together, tpi_ceil_div(tpi_max64(c->batch, 1), j.chunks));
    if (j.chunks == 1) return run_tasks(&j, c->groups * j.slices, weight_task);
    size_t bytes = (size_t)(weights * j.chunks) * j.item;
    j.out = tpi_alloc(bytes);
    if (!j.out) return false;
    bool ok = run_tasks(&j, c->groups * j.slices * j.chunks, weight_task);
    if (ok) tpi_conv_merge(call->dtype, j.out, weights, j.chunks, call->out);
    tpi_free(j.out, bytes);
    return ok;
}

static bool fits(const tpi_conv_call *call) { return !call->last; }

static bool run(const tpi_conv_call *call) {
    switch (call->role) {
    case TPI_CONV_Y: return run_y(call);
    case TPI_CONV_X: return run_x(call);
    default: return run_w(call);
    }
}

const tpi_conv_way tpi_conv_products = {fits, run};
