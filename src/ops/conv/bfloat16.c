/* Convolution of bfloat16s as they are, where the processor multiplies pairs of them: matrix products over patches,
 * summed in float32. x, w and y are bfloat16, and the result is float32.
 *
 * Images follow one another; the products and the patches are split among threads. */
#include <string.h>
#include "base/threads.h"
#include "base/min_max.h"
#include "device/device.h"
#include "linalg/gemm.h"
#include "ops/conv/conv.h"
#include "ops/conv/im2col.h"

enum {
    TILE = 1 << 22, /* elements of columns that are made at once */
    CHANNELS = 4,   /* whose columns a task makes */
    MANY = 1 << 15, /* elements of columns from which on threads make them */
    SHALLOW = 32,   /* a patch, or channels of a result, for which pairs bring less than their packing costs */
    WORK = 1 << 20  /* multiply-adds from which on they bring anything */
};

typedef struct job {
    const tpi_conv *c;
    int64_t row0, rows, columns; /* of a tile: output rows, and their elements */
    const uint16_t *x;           /* of an image */
    uint16_t *patches;
    float *sums, *dx; /* the input's gradient: columns of it, and where they go */
} job;

static bool is_plain(const tpi_conv *c) {
    for (int i = 0; i < 3; i++)
        if (c->k[i] != 1 || c->stride[i] != 1 || c->pad[i] != 0 || c->x[i] != c->y[i]) return false;
    return true;
}

static void patches_task(int64_t task, void *context) {
    const job *j = context;
    int64_t first = task * CHANNELS, n = tpi_min64(CHANNELS, j->c->cx - first), taps = tpi_conv_taps(j->c);
    TPI_ISA_PICK(tpi_im2col_u16)
    (j->c, n, j->row0, j->rows, j->x + first * tpi_conv_xsize(j->c), j->patches + first * taps * j->columns,
     j->columns);
}

static void spread_task(int64_t task, void *context) {
    const job *j = context;
    int64_t first = task * CHANNELS, n = tpi_min64(CHANNELS, j->c->cx - first), taps = tpi_conv_taps(j->c);
    TPI_ISA_PICK(tpi_col2im_f32)
    (j->c, n, j->row0, j->rows, j->sums + first * taps * j->columns, j->columns, j->dx + first * tpi_conv_xsize(j->c));
}

/* Starts an image of results from the bias, or 0. */
static void start_from_bias(const float *bias, int64_t channels, int64_t n, float *to) {
    for (int64_t channel = 0; channel < channels; channel++)
        for (int64_t i = 0; i < n; i++) *to++ = bias ? bias[channel] : 0;
}

/* (m, n) of floats from (m, k) and (k, n) of bfloat16s. */
static bool multiply(int64_t m, int64_t n, int64_t k, tpi_operand_matrix a, tpi_operand_matrix b, bool add, float *to,
                     int64_t to_row) {
    tpi_product p = {.dtype = TP_BFLOAT16,
                     .batches = 1,
                     .m = m,
                     .n = n,
                     .k = k,
                     .a = a,
                     .b = b,
                     .c = (char *)to,
                     .c_row = to_row,
                     .alpha = tp_int(1),
                     .beta = tp_int(add)};
    return tpi_gemm_multiply(&p);
}

/* w transposed, for the input's gradient: (cx * taps, cy). Owned. */
static uint16_t *transposed_weight(const tpi_conv_call *call, int64_t patch) {
    const uint16_t *w = call->w;
    uint16_t *out = tpi_alloc((size_t)(patch * call->c->cy) * sizeof *out);
    for (int64_t p = 0; out && p < patch; p++)
        for (int64_t o = 0; o < call->c->cy; o++) out[p * call->c->cy + o] = w[o * patch + p];
    return out;
}

/* A tile of an image: n columns of a patch each, from element `at` of a plane of y on. */
typedef struct tile {
    int64_t patch, n, at, ysize;
    bool many, begins; /* columns are worth threads; nothing was added to the weight's gradient yet */
    const uint16_t *w, *y;
} tile;

/* The columns as a matrix (patch, n), made unless the image is that as it lies. */
static const char *make_columns(const tile *t, job *j) {
    if (is_plain(j->c)) return (const char *)j->x;
    tpi_parallel_for(tpi_ceil_div(j->c->cx, CHANNELS), t->many, patches_task, j);
    return (const char *)j->patches;
}

/* y (cy, n) = w (cy, patch) columns. */
static bool forward_tile(const tile *t, job *j, bool add, float *out) {
    const tpi_operand_matrix columns = {make_columns(t, j), 0, t->n, 1};
    return multiply(j->c->cy, t->n, t->patch, (tpi_operand_matrix){(const char *)t->w, 0, t->patch, 1}, columns, add,
                    out + t->at, t->ysize);
}

/* dw (cy, patch) += dy (cy, n) columns transposed. */
static bool weight_tile(const tile *t, job *j, float *out) {
    const tpi_operand_matrix columns = {make_columns(t, j), 0, 1, t->n};
    return multiply(j->c->cy, t->patch, t->n, (tpi_operand_matrix){(const char *)t->y, 0, t->ysize, 1}, columns,
                    !t->begins, out, t->patch);
}

/* The columns' gradients (patch, n) = w transposed (patch, cy) dy (cy, n), added where they came from. */
static bool input_tile(const tile *t, job *j, bool add) {
    const bool plain = is_plain(j->c);
    const bool fine =
        multiply(t->patch, t->n, j->c->cy, (tpi_operand_matrix){(const char *)t->w, 0, j->c->cy, 1},
                 (tpi_operand_matrix){(const char *)t->y, 0, t->ysize, 1}, plain && add, plain ? j->dx : j->sums, t->n);
    if (fine && !plain) tpi_parallel_for(tpi_ceil_div(j->c->cx, CHANNELS), t->many, spread_task, j);
    return fine;
}

static bool run_tile(const tpi_conv_call *call, job *j, const uint16_t *w, int64_t image) {
    const tpi_conv *c = call->c;
    const int64_t plane = tpi_conv_ysize(c), before = image * c->cy * plane;
    tile t = {.patch = c->cx * tpi_conv_taps(c), .n = j->columns, .at = j->row0 * c->y[2], .ysize = plane, .w = w};
    t.y = (const uint16_t *)call->y + before + t.at;
    t.many = t.patch * t.n > MANY;
    t.begins = !image && !t.at;
    j->x = (const uint16_t *)call->x + image * c->cx * tpi_conv_xsize(c);
    if (call->role == TPI_CONV_Y) return forward_tile(&t, j, call->bias != NULL, (float *)call->out + before);
    if (call->role == TPI_CONV_W) return weight_tile(&t, j, call->out);
    return input_tile(&t, j, call->bias != NULL);
}

static bool run(const tpi_conv_call *call) {
    const tpi_conv *c = call->c;
    bool back = call->role == TPI_CONV_X, plain = is_plain(c);
    int64_t patch = c->cx * tpi_conv_taps(c), rows = c->y[0] * c->y[1], channels = back ? c->cx : c->cy,
            size = back ? tpi_conv_xsize(c) : tpi_conv_ysize(c);
    int64_t tile = plain ? rows : tpi_min64(tpi_max64(TILE / (patch * c->y[2]), 1), rows);
    size_t bytes = (size_t)(patch * tile * c->y[2]) * (back ? sizeof(float) : sizeof(uint16_t)),
           w_bytes = (size_t)(patch * c->cy) * sizeof(uint16_t);
    uint16_t *w = back ? transposed_weight(call, patch) : NULL;
    void *scratch = plain ? NULL : tpi_alloc(bytes);
    bool ok = (w || !back) && (scratch || plain);
    job j = {.c = c, .patches = scratch, .sums = scratch};
    for (int64_t image = 0; image < c->batch; image++) {
        float *result = (float *)call->out + image * channels * size;
        if (ok && call->role != TPI_CONV_W && (call->bias || (back && !plain)))
            start_from_bias(call->bias, channels, size, result);
        j.dx = result;
        for (j.row0 = 0; ok && j.row0 < rows; j.row0 += tile) {
            j.rows = tpi_min64(tile, rows - j.row0);
            j.columns = j.rows * c->y[2];
            ok = run_tile(call, &j, back ? w : call->w, image);
        }
    }
    if (scratch) tpi_free(scratch, bytes);
    if (w) tpi_free(w, w_bytes);
    return ok;
}

/* Winograd's tiles in float32 need a third of the multiplications, and are about as quick. */
static bool fits(const tpi_conv_call *call) {
    const tpi_conv *c = call->c;
    int64_t taps = tpi_conv_taps(c), n = tpi_conv_ysize(c);
    if (c->groups != 1 || c->cx * taps < SHALLOW || c->cy < SHALLOW || (taps > 1 && c->cx < SHALLOW)) return false;
    if ((double)c->batch * n * c->cx * c->cy * taps < WORK || !tpi_gemm_serves_bf16(c->cy, n, c->cx * taps))
        return false;
    return !tpi_conv_winograd.fits(call);
}

const tpi_conv_way tpi_conv_bfloat16 = {fits, run};
