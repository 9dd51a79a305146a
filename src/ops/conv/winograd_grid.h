/* Images as a grid of tiles, and blocks of tiles that are worked on together: where their patches lie in a copy of the
 * rows they need, which has zeros for what is outside of the image. Shared by the roles of Winograd's convolution
 * (ops/conv/winograd.h). */
#ifndef TPI_CONV_WINOGRAD_GRID_H
#define TPI_CONV_WINOGRAD_GRID_H
#include <stdatomic.h>
#include "base/memory.h"
#include "base/min_max.h"
#include "base/threads.h"
#include "device/device.h"
#include "ops/conv/winograd.h"
#include "linalg/gemm.h"

typedef struct grid {
    int64_t batch, channels, height, width; /* of the images */
    int64_t above, left;                    /* zeros before them */
    int64_t down, across;                   /* tiles of an image */
    int64_t tile, patch;                    /* rows and columns of a tile, and those that it looks at */
    int64_t tiles;                          /* of all images: image by image, row by row */
} grid;

enum { BLOCK = 64 }; /* the most tiles of a block */
typedef struct block {
    int64_t count, groups;     /* tiles; groups of eight in whole panels */
    int64_t strips, size, row; /* of the copy, in floats */
    tpi_winograd_strip strip[BLOCK];
    int64_t offsets[BLOCK]; /* those past the last tile's are the first one's */
} block;

static inline int64_t round_up(int64_t n, int64_t multiple) { return tpi_ceil_div(n, multiple) * multiple; }
/* From one of several arrays of n floats that are used together to the next: a power of two would put them into the
 * same sets of the caches. */
static inline int64_t apart(int64_t n) { return n + 16; }
static inline int64_t panel_width(void) { return tpi_cpu_isa == TPI_ISA_AVX512 ? 32 : 16; }

static inline grid grid_of(int64_t batch, int64_t channels, const int64_t *image, int64_t above, int64_t left,
                           const int64_t *results, int64_t tile, int64_t patch) {
    grid g = {.batch = batch,
              .channels = channels,
              .height = image[1],
              .width = image[2],
              .above = above,
              .left = left,
              .tile = tile,
              .patch = patch,
              .down = tpi_ceil_div(results[1], tile),
              .across = tpi_ceil_div(results[2], tile)};
    g.tiles = batch * g.down * g.across;
    return g;
}

/* A strip of tile rows [top, bottom] of an image, columns [first, last] if it is one row: what is inside of the image
 * goes to the copy at `to`. */
static inline tpi_winograd_strip strip_of(const grid *g, int64_t image, int64_t top, int64_t bottom, int64_t first,
                                          int64_t last, int64_t to, int64_t row) {
    int64_t y = g->tile * top - g->above, y_end = g->tile * bottom + g->patch - g->above;
    int64_t x = g->tile * first - g->left, x_end = g->tile * last + g->patch - g->left;
    int64_t y0 = tpi_max64(y, 0), x0 = tpi_max64(x, 0);
    return (tpi_winograd_strip){.from = (image * g->channels * g->height + y0) * g->width + x0,
                                .to = to + (y0 - y) * row + g->tile * first + x0 - x,
                                .rows = tpi_max64(tpi_min64(y_end, g->height) - y0, 0),
                                .width = tpi_max64(tpi_min64(x_end, g->width) - x0, 0)};
}

/* The block of tiles [first, first + count), at most BLOCK. */
static inline void lay_out(const grid *g, int64_t first, int64_t count, int64_t panel, block *b) {
    int64_t per_image = g->down * g->across, done = 0, panels = tpi_ceil_div(count, panel);
    *b = (block){
        .count = count, .groups = panels * panel / TPI_WINOGRAD_LANES, .row = g->tile * g->across + g->patch - g->tile};
    while (done < count) { /* image by image */
        int64_t image = (first + done) / per_image, at = (first + done) % per_image,
                n = tpi_min64(count - done, per_image - at);
        int64_t top = at / g->across, bottom = (at + n - 1) / g->across;
        bool one = top == bottom;
        b->strip[b->strips++] = strip_of(g, image, top, bottom, one ? at % g->across : 0,
                                         one ? (at + n - 1) % g->across : g->across - 1, b->size, b->row);
        for (int64_t i = 0; i < n; i++)
            b->offsets[done + i] = b->size + g->tile * (((at + i) / g->across - top) * b->row + (at + i) % g->across);
        b->size += (g->tile * (bottom - top) + g->patch) * b->row;
        done += n;
    }
    for (; done < b->groups * TPI_WINOGRAD_LANES; done++) b->offsets[done] = b->offsets[0];
}

/* The products (rows, depth) (depth, columns): a's rows are a_row apart, its matrices a_step; b's are packed. c's rows
 * are `columns` long. */
static inline void multiply_all(int64_t products, const float *a, int64_t a_row, int64_t a_step, const float *b,
                                int64_t b_step, int64_t rows, int64_t depth, int64_t columns, float *c, int64_t c_step,
                                bool add) {
    for (int64_t e = 0; e < products; e++) {
        tpi_gemm g = {.m = rows,
                      .n = columns,
                      .k = depth,
                      .a = a + e * a_step,
                      .a_row = a_row,
                      .a_col = 1,
                      .b = b,
                      .c = c + e * c_step,
                      .c_row = columns,
                      .alpha = 1,
                      .beta = add,
                      .packed = b + e * b_step};
        TPI_ISA_PICK(tpi_gemm_tile)(&g, 0, rows, 0, columns);
    }
}

/* Room of a task, in floats. Without it the job has failed: `missing` tells how many bytes there were not. */
static inline float *task_scratch(int64_t floats, atomic_size_t *missing) {
    size_t bytes = (size_t)floats * sizeof(float);
    if (atomic_load(missing)) return NULL; /* nobody will look at the rest */
    float *scratch = tpi_alloc(bytes);
    if (!scratch) atomic_store(missing, bytes);
    return scratch;
}
static inline void task_done(float *scratch, int64_t floats) {
    if (scratch) tpi_free(scratch, (size_t)floats * sizeof(float));
}
static inline bool succeeded(atomic_size_t *missing) {
    size_t bytes = atomic_load(missing);
    if (bytes) tpi_fail_memory(bytes, "a convolution's tiles");
    return !bytes;
}
#endif
