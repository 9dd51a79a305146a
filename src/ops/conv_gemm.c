/* Convolution as matrix products over patches. Work is cut into tasks by shapes alone (images, groups, slices of channels, tiles of
 * output rows), and a task's partial sums are added in the order of the images, so the bits do not depend on threads. */
#include <stdatomic.h>
#include <string.h>
#include "base/threads.h"
#include "ops/blas.h"
#include "ops/conv_direct.h"
#include "ops/im2col.h"

#define TILE_BYTES (256 << 10) /* a tile of columns stays in the second-level cache */
#define MAX_SLICES 16          /* enough tasks for balance, few enough that each has a gemm worth calling */

typedef struct job {
    const tpi_conv *c;
    tp_dtype dtype;
    size_t item;
    const char *x, *y, *w; /* what is read; the written one is `out` */
    const char *bias;
    char *out;
    int64_t tile_rows, tiles;     /* output rows (depth and height together) in a tile, and how many tiles there are */
    int64_t slices;               /* x's channels of a group are cut into this many slices */
    int64_t chunks;               /* the batch is cut into this many chunks, each with its own partial sum (weight gradient) */
    bool plain;                   /* 1x1 taps, stride 1, no padding: an image is its own matrix of columns */
    atomic_bool failed;           /* a task found no memory */
} job;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

static void im2col(const job *j, int64_t channels, int64_t row0, int64_t rows, const char *x, char *cols) {
    if (j->dtype == TP_FLOAT32)
        TPI_ISA_PICK(tpi_im2col_f32)(j->c, channels, row0, rows, (const float *)x, (float *)cols);
    else if (j->dtype == TP_FLOAT64)
        TPI_ISA_PICK(tpi_im2col_f64)(j->c, channels, row0, rows, (const double *)x, (double *)cols);
    else
        TPI_ISA_PICK(tpi_im2col_i64)(j->c, channels, row0, rows, (const int64_t *)x, (int64_t *)cols);
}

static void col2im(const job *j, int64_t channels, int64_t row0, int64_t rows, const char *cols, char *x) {
    if (j->dtype == TP_FLOAT32)
        TPI_ISA_PICK(tpi_col2im_f32)(j->c, channels, row0, rows, (const float *)cols, (float *)x);
    else if (j->dtype == TP_FLOAT64)
        TPI_ISA_PICK(tpi_col2im_f64)(j->c, channels, row0, rows, (const double *)cols, (double *)x);
    else
        TPI_ISA_PICK(tpi_col2im_i64)(j->c, channels, row0, rows, (const int64_t *)cols, (int64_t *)x);
}

/* c (m, n) = a (m, k) b (k, n), or += when `add`; ta, tb: the operand is stored transposed. Row-major with leading sizes. */
static void product(tp_dtype dtype, bool ta, bool tb, int64_t m, int64_t n, int64_t k, const char *a, int64_t lda, const char *b,
                    int64_t ldb, bool add, char *c, int64_t ldc) {
    if (dtype == TP_FLOAT32) {
        tpi_gemm_f32(ta, tb, m, n, k, 1.0f, (const float *)a, lda, (const float *)b, ldb, add ? 1.0f : 0.0f, (float *)c, ldc);
        return;
    }
    if (dtype == TP_FLOAT64) {
        tpi_gemm_f64(ta, tb, m, n, k, 1.0, (const double *)a, lda, (const double *)b, ldb, add ? 1.0 : 0.0, (double *)c, ldc);
        return;
    }
    const int64_t *ia = (const int64_t *)a, *ib = (const int64_t *)b;
    for (int64_t i = 0; i < m; i++) {
        int64_t *row = (int64_t *)c + i * ldc;
        if (!add) memset(row, 0, (size_t)n * sizeof *row);
        for (int64_t p = 0; p < k; p++) {
            int64_t left = ta ? ia[p * lda + i] : ia[i * lda + p];
            for (int64_t q = 0; q < n; q++) row[q] += left * (tb ? ib[q * ldb + p] : ib[p * ldb + q]);
        }
    }
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
    int64_t rows = c->y[0] * c->y[1];
    int64_t row_bytes = max64(channels * tpi_conv_taps(c) * c->y[2] * (int64_t)j->item, 1);
    j->tile_rows = min64(max64(TILE_BYTES / row_bytes, tpi_ceil_div(64, max64(c->y[2], 1))), max64(rows, 1));
    j->tiles = tpi_ceil_div(rows, j->tile_rows);
    j->plain = tpi_conv_taps(c) == 1 && tpi_conv_xsize(c) == tpi_conv_ysize(c) && c->stride[0] == 1 && c->stride[1] == 1 &&
               c->stride[2] == 1 && c->pad[0] == 0 && c->pad[1] == 0 && c->pad[2] == 0;
}

static job make_job(const tpi_conv *c, tp_dtype dtype, const void *x, const void *y, const void *w, const void *bias, void *out) {
    job j = {.c = c, .dtype = dtype, .item = tpi_dtype_bytes[dtype], .x = x, .y = y, .w = w, .bias = bias, .out = out, .slices = 1, .chunks = 1};
    return j;
}

static bool run(job *j, int64_t tasks, tpi_chunk_fn fn) {
    const tpi_conv *c = j->c;
    double work = (double)c->batch * c->groups * c->cy * c->cx * tpi_conv_taps(c) * tpi_conv_ysize(c);
    tpi_parallel_for(tasks, work > 50e3, fn, j);
    if (atomic_load(&j->failed)) return tpi_fail_memory(TILE_BYTES, "convolution columns"), false;
    return true;
}

static char *columns(job *j, int64_t channels, size_t *bytes) {
    *bytes = (size_t)(channels * tpi_conv_taps(j->c) * j->tile_rows * j->c->y[2]) * j->item;
    char *cols = tpi_alloc(*bytes);
    if (!cols) atomic_store(&j->failed, true);
    return cols;
}

/* ---- y = x * w: a task is one tile of one group of one image ---- */

static void forward_task(int64_t task, void *context) {
    job *j = context;
    const tpi_conv *c = j->c;
    int64_t tile = task % j->tiles, group = task / j->tiles % c->groups, image = task / j->tiles / c->groups;
    int64_t patch = c->cx * tpi_conv_taps(c), ysize = tpi_conv_ysize(c), item = (int64_t)j->item;
    int64_t row0 = tile * j->tile_rows, rows = min64(j->tile_rows, c->y[0] * c->y[1] - row0), n = rows * c->y[2];
    const char *x = j->x + (image * c->groups + group) * c->cx * tpi_conv_xsize(c) * item;
    const char *w = j->w + group * c->cy * patch * item;
    char *y = j->out + ((image * c->groups + group) * c->cy * ysize + row0 * c->y[2]) * item;
    if (j->bias) fill_bias(j, group * c->cy, y, ysize, c->cy, n);
    if (j->plain) {
        product(j->dtype, false, false, c->cy, n, patch, w, patch, x + row0 * c->y[2] * item, ysize, j->bias, y, ysize);
        return;
    }
    size_t bytes;
    char *cols = columns(j, c->cx, &bytes);
    if (!cols) return;
    im2col(j, c->cx, row0, rows, x, cols);
    product(j->dtype, false, false, c->cy, n, patch, w, patch, cols, n, j->bias, y, ysize);
    tpi_free(cols, bytes);
}

bool tpi_conv_y(const tpi_conv *c, tp_dtype dtype, const void *x, const void *w, const void *bias, void *y) {
    if (tpi_conv_direct_fits(c, dtype)) return tpi_conv_direct_y(c, dtype, x, w, bias, y);
    job j = make_job(c, dtype, x, NULL, w, bias, y);
    if (c->cx == 0) {
        for (int64_t i = 0; i < c->batch; i++)
            fill_bias(&j, 0, j.out + i * c->groups * c->cy * tpi_conv_ysize(c) * (int64_t)j.item, tpi_conv_ysize(c), c->groups * c->cy, tpi_conv_ysize(c));
        return true;
    }
    plan_tiles(&j, c->cx);
    return run(&j, c->batch * c->groups * j.tiles, forward_task);
}

/* ---- dx = y *' w: a task is one slice of the channels of one group of one image; its tiles follow one another ---- */

static void slice_of(const job *j, int64_t slice, int64_t *first, int64_t *count) {
    int64_t each = tpi_ceil_div(j->c->cx, j->slices);
    *first = min64(slice * each, j->c->cx);
    *count = min64(each, j->c->cx - *first);
}

static void input_task(int64_t task, void *context) {
    job *j = context;
    const tpi_conv *c = j->c;
    int64_t slice = task % j->slices, group = task / j->slices % c->groups, image = task / j->slices / c->groups;
    int64_t first, channels, item = (int64_t)j->item;
    slice_of(j, slice, &first, &channels);
    if (channels == 0) return;
    int64_t taps = tpi_conv_taps(c), xsize = tpi_conv_xsize(c), ysize = tpi_conv_ysize(c), patch = c->cx * taps;
    char *x = j->out + ((image * c->groups + group) * c->cx + first) * xsize * item;
    const char *w = j->w + (group * c->cy * patch + first * taps) * item;
    const char *y = j->y + (image * c->groups + group) * c->cy * ysize * item;
    if (j->plain && c->cy > 0) {
        if (j->bias) fill_bias(j, group * c->cx + first, x, xsize, channels, xsize);
        product(j->dtype, true, false, channels, ysize, c->cy, w, patch, y, ysize, j->bias, x, xsize);
        return;
    }
    fill_bias(j, group * c->cx + first, x, xsize, channels, xsize);
    if (c->cy == 0) return;
    size_t bytes;
    char *cols = columns(j, channels, &bytes);
    if (!cols) return;
    for (int64_t row0 = 0; row0 < c->y[0] * c->y[1]; row0 += j->tile_rows) {
        int64_t rows = min64(j->tile_rows, c->y[0] * c->y[1] - row0), n = rows * c->y[2];
        product(j->dtype, true, false, channels * taps, n, c->cy, w, patch, y + row0 * c->y[2] * item, ysize, false, cols, n);
        col2im(j, channels, row0, rows, cols, x);
    }
    tpi_free(cols, bytes);
}

bool tpi_conv_x(const tpi_conv *c, tp_dtype dtype, const void *y, const void *w, const void *bias, void *x) {
    if (tpi_conv_direct_fits(c, dtype)) return tpi_conv_direct_x(c, dtype, y, w, bias, x);
    job j = make_job(c, dtype, NULL, y, w, bias, x);
    j.slices = min64(max64(MAX_SLICES / max64(c->batch * c->groups, 1), 1), max64(c->cx / 8, 1));
    plan_tiles(&j, tpi_ceil_div(c->cx, j.slices));
    return run(&j, c->batch * c->groups * j.slices, input_task);
}

/* ---- dw = x *" y: a task is one slice of the channels of one group over one chunk of the batch ---- */

static void weight_task(int64_t task, void *context) {
    job *j = context;
    const tpi_conv *c = j->c;
    int64_t slice = task % j->slices, group = task / j->slices % c->groups, chunk = task / j->slices / c->groups;
    int64_t first, channels, item = (int64_t)j->item;
    slice_of(j, slice, &first, &channels);
    if (channels == 0) return;
    int64_t taps = tpi_conv_taps(c), xsize = tpi_conv_xsize(c), ysize = tpi_conv_ysize(c), patch = c->cx * taps;
    char *w = j->out + ((chunk * c->groups + group) * c->cy * patch + first * taps) * item;
    size_t bytes = 0;
    char *cols = j->plain ? NULL : columns(j, channels, &bytes);
    if (!j->plain && !cols) return;
    int64_t each = tpi_ceil_div(c->batch, j->chunks);
    bool add = false;
    for (int64_t image = chunk * each; image < min64(c->batch, (chunk + 1) * each); image++) {
        const char *x = j->x + ((image * c->groups + group) * c->cx + first) * xsize * item;
        const char *y = j->y + (image * c->groups + group) * c->cy * ysize * item;
        if (j->plain) {
            product(j->dtype, false, true, c->cy, channels, ysize, y, ysize, x, xsize, add, w, patch);
            add = true;
            continue;
        }
        for (int64_t row0 = 0; row0 < c->y[0] * c->y[1]; row0 += j->tile_rows, add = true) {
            int64_t rows = min64(j->tile_rows, c->y[0] * c->y[1] - row0), n = rows * c->y[2];
            im2col(j, channels, row0, rows, x, cols);
            product(j->dtype, false, true, c->cy, channels * taps, n, y + row0 * c->y[2] * item, ysize, cols, n, add, w, patch);
        }
    }
    if (!add)
        for (int64_t i = 0; i < c->cy; i++) memset(w + i * patch * item, 0, (size_t)(channels * taps * item));
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
    int64_t lo = task * MERGE_RUN, hi = min64(m->n, lo + MERGE_RUN);
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

bool tpi_conv_w(const tpi_conv *c, tp_dtype dtype, const void *x, const void *y, void *w) {
    job j = make_job(c, dtype, x, y, NULL, NULL, w);
    int64_t weights = c->groups * c->cy * c->cx * tpi_conv_taps(c);
    if (weights == 0) return true;
    j.slices = min64(max64(MAX_SLICES / c->groups, 1), max64(c->cx / 8, 1));
    j.chunks = min64(max64(MAX_SLICES / (c->groups * j.slices), 1), max64(c->batch, 1));
    bool direct = tpi_conv_direct_fits(c, dtype);
    if (direct) return tpi_conv_direct_w(c, dtype, x, y, w);
    plan_tiles(&j, tpi_ceil_div(c->cx, j.slices));
    if (j.chunks == 1) return run(&j, c->groups * j.slices, weight_task);
    size_t bytes = (size_t)(weights * j.chunks) * j.item;
    j.out = tpi_alloc(bytes);
    if (!j.out) return false;
    bool ok = run(&j, c->groups * j.slices * j.chunks, weight_task);
    merge m = {j.out, w, weights, j.chunks, dtype};
    if (ok) tpi_parallel_for(tpi_ceil_div(weights, MERGE_RUN), weights * j.chunks > 100000, merge_task, &m);
    tpi_free(j.out, bytes);
    return ok;
}
