/* Which convolutions Winograd's method serves, and the split of results (y, or x's gradient) into tasks: see
 * ops/conv/winograd.h.
 *
 * Filters that are few are transformed once, and a task makes some tiles of all channels from patches of its own.
 * Filters that are many would not stay in the caches: there the patches are transformed once, and a task makes some
 * channels of all tiles, from filters that it transforms bit by bit. The split depends on the shape alone. */
#include "ops/conv/winograd_grid.h"
#include <stdlib.h>

enum {
    FEW_FILTERS = 1 << 20,  /* floats of transformed filters that all tasks share */
    TASK_PATCHES = 1 << 17, /* floats of transformed patches of a task: with some filters and results they stay in the
                               second cache */
    ROWS = 32,              /* channels of results that are multiplied together */
    DEPTH = 64,             /* channels of x whose filters are transformed together */
    TILES = 128             /* tiles whose patches are shared by tasks */
};

static atomic_int enabled = -1; /* until the environment was asked */

bool tpi_conv_winograd_enable(bool on) { return atomic_exchange(&enabled, on) != 0; }

static bool is_enabled(void) {
    int on = atomic_load(&enabled);
    if (on >= 0) return on;
    const char *text = getenv("TAPER_WINOGRAD");
    on = !text || strcmp(text, "0");
    atomic_store(&enabled, on);
    return on;
}

/* Multiply-adds, and what stands beside them in their measure: transforms of filters, patches and tiles. Direct
 * convolutions reach about nine tenths of what products reach. */
static bool fits(const tpi_conv_call *call) {
    const tpi_conv *c = call->c;
    tpi_conv_role role = call->role;
    if (call->dtype != TP_FLOAT32 || call->last || tpi_cpu_isa < TPI_ISA_AVX2 || c->groups != 1 || c->x[0] != 1 ||
        c->k[0] != 1 || c->pad[0] != 0 || c->stride[0] != 1)
        return false;
    for (int i = 1; i < 3; i++)
        if (c->k[i] != 3 || c->stride[i] != 1 || c->dilation[i] != 1 || c->pad[i] > 2) return false;
    const int64_t *results = role == TPI_CONV_X ? c->x : c->y;
    if (c->batch == 0 || tpi_conv_ysize(c) == 0 || !is_enabled()) return false;
    int64_t tile = role == TPI_CONV_W ? TPI_WINOGRAD_W_TILE : TPI_WINOGRAD_TILE;
    double pairs = (double)c->cx * (double)c->cy,
           tiles = (double)c->batch * (double)tpi_ceil_div(results[1], tile) * (double)tpi_ceil_div(results[2], tile);
    double direct = 9 * pairs * (double)c->batch * (double)tpi_conv_ysize(c);
    double columns = role == TPI_CONV_W ? tiles + 16 : (double)round_up((int64_t)tiles, panel_width()),
           channels = (double)(c->cx + c->cy);
    double here = role == TPI_CONV_W
                      ? TPI_WINOGRAD_W_PRODUCTS * pairs * columns + 800 * pairs + 500 * columns * channels
                      : TPI_WINOGRAD_PRODUCTS * pairs * columns + 110 * pairs + 220 * columns * channels;
    return here < direct;
}

typedef struct job {
    grid in;
    int64_t y[3], rows, depth; /* results' size and channels; x's channels */
    const float *x, *w, *bias;
    float *out;
    int64_t row_step, column_step, taken; /* of filters; tiles of a block */
    bool rotated;
    int64_t panel, first, tiles, panels; /* the tiles whose patches are shared */
    float *filters, *patches;            /* shared ones, or NULL */
    atomic_size_t missing;
} job;

/* Transforms a block's patches of some channels: at `to`, matrices `step` apart and panels panel_step. */
static void make_patches(const job *j, const block *b, int64_t channel, int64_t channels, float *copy, float *to,
                         int64_t step, int64_t panel_step) {
    memset(copy, 0, (size_t)b->size * sizeof *copy); /* strips fill the same places each time */
    for (int64_t c = channel; c < channel + channels; c++, to += j->panel) {
        TPI_ISA_PICK(tpi_winograd_copy)
        (b->strips, b->strip, j->x + c * j->in.height * j->in.width, j->in.width, copy, b->row);
        TPI_ISA_PICK(tpi_winograd_patches)(b->groups, b->offsets, copy, b->row, to, step, panel_step);
    }
}

/* Writes `count` tiles from `first` on, at most BLOCK, of channels [row, row + rows): element e at m + e * step, m's
 * rows m_row apart. */
static void put_tiles(const job *j, int64_t first, int64_t count, int64_t row, int64_t rows, const float *m,
                      int64_t step, int64_t m_row) {
    tpi_winograd_tile tiles[BLOCK];
    int64_t groups = tpi_ceil_div(count, TPI_WINOGRAD_LANES), plane = j->y[1] * j->y[2];
    for (int64_t i = 0; i < groups * TPI_WINOGRAD_LANES; i++) {
        int64_t column = (first + i) % j->in.across, at = (first + i) / j->in.across, line = at % j->in.down,
                image = at / j->in.down;
        tiles[i] = (tpi_winograd_tile){
            .offset = image * j->rows * plane + TPI_WINOGRAD_TILE * (line * j->y[2] + column),
            .rows = i < count ? (int32_t)tpi_min64(j->y[1] - TPI_WINOGRAD_TILE * line, TPI_WINOGRAD_TILE) : 0,
            .columns = (int32_t)tpi_min64(j->y[2] - TPI_WINOGRAD_TILE * column, TPI_WINOGRAD_TILE)};
    }
    for (int64_t r = 0; r < rows; r++) TPI_ISA_PICK(tpi_winograd_tiles)
    (groups, tiles, m + r * m_row, step, j->bias ? j->bias[row + r] : 0, j->out + (row + r) * plane, j->y[2]);
}

/* ---- Few filters: a task is a block of tiles ---- */
static void filters_task(int64_t task, void *context) {
    const job *j = context;
    int64_t row = task * ROWS;
    TPI_ISA_PICK(tpi_winograd_filters)
    (tpi_min64(ROWS, j->rows - row), j->depth, j->w + row * j->row_step, j->row_step, j->column_step, j->rotated,
     j->filters + row * j->depth, apart(j->rows * j->depth));
}

static void tiles_task(int64_t task, void *context) {
    job *j = context;
    block b;
    int64_t first = task * j->taken, count = tpi_min64(j->taken, j->in.tiles - first);
    lay_out(&j->in, first, count, j->panel, &b);
    int64_t columns = b.groups * TPI_WINOGRAD_LANES, step = apart(columns * j->depth), m_step = apart(ROWS * columns);
    int64_t floats = b.size + TPI_WINOGRAD_PRODUCTS * (step + m_step);
    float *scratch = task_scratch(floats, &j->missing), *m = scratch, *patches = m + TPI_WINOGRAD_PRODUCTS * m_step;
    if (!scratch) return;
    make_patches(j, &b, 0, j->depth, patches + TPI_WINOGRAD_PRODUCTS * step, patches, step, j->depth * j->panel);
    for (int64_t row = 0; row < j->rows; row += ROWS) {
        int64_t rows = tpi_min64(ROWS, j->rows - row);
        multiply_all(TPI_WINOGRAD_PRODUCTS, j->filters + row * j->depth, j->depth, apart(j->rows * j->depth), patches,
                     step, rows, j->depth, columns, m, m_step, false);
        put_tiles(j, first, count, row, rows, m, m_step, columns);
    }
    task_done(scratch, floats);
}

static bool run_tiles(job *j) {
    int64_t floats = TPI_WINOGRAD_PRODUCTS * apart(j->rows * j->depth);
    j->filters = task_scratch(floats, &j->missing);
    if (!j->filters) return succeeded(&j->missing);
    j->taken = tpi_min64(tpi_max64(TASK_PATCHES / (TPI_WINOGRAD_PRODUCTS * j->depth) / j->panel, 1) * j->panel, BLOCK);
    tpi_parallel_for(tpi_ceil_div(j->rows, ROWS), true, filters_task, j);
    tpi_parallel_for(tpi_ceil_div(j->in.tiles, j->taken), true, tiles_task, j);
    task_done(j->filters, floats);
    return succeeded(&j->missing);
}

/* ---- Many filters: a task is a block of channels. Shared patches are (depth / DEPTH, products, panels, DEPTH, panel)
 * ---- */
static void patches_task(int64_t task, void *context) {
    job *j = context;
    block b;
    int64_t blocks = tpi_ceil_div(j->tiles, BLOCK), at = task % blocks * BLOCK, channel = task / blocks * DEPTH,
            depth = tpi_min64(DEPTH, j->depth - channel);
    lay_out(&j->in, j->first + at, tpi_min64(BLOCK, j->tiles - at), j->panel, &b);
    float *copy = task_scratch(b.size, &j->missing);
    if (!copy) return;
    int64_t columns = j->panels * j->panel;
    float *to = j->patches + task / blocks * TPI_WINOGRAD_PRODUCTS * apart(columns * DEPTH);
    make_patches(j, &b, channel, depth, copy, to + at * depth, apart(columns * depth), depth * j->panel);
    task_done(copy, b.size);
}

static void rows_task(int64_t task, void *context) {
    job *j = context;
    int64_t row = task * ROWS
    , rows = tpi_min64(ROWS, j->rows - row), columns = j->panels * j->panel;
    int64_t u_step = apart(ROWS * DEPTH), m_step = apart(ROWS * columns),
            floats = TPI_WINOGRAD_PRODUCTS * (u_step + m_step);
    float *scratch = task_scratch(floats, &j->missing), *m = scratch + TPI_WINOGRAD_PRODUCTS * u_step;
    if (!scratch) return;
    for (int64_t k = 0; k < j->depth; k += DEPTH) {
        int64_t depth = tpi_min64(DEPTH, j->depth - k);
        TPI_ISA_PICK(tpi_winograd_filters)
        (rows, depth, j->w + row * j->row_step + k * j->column_step, j->row_step, j->column_step, j->rotated, scratch,
         u_step);
        const float *patches = j->patches + k / DEPTH * TPI_WINOGRAD_PRODUCTS * apart(columns * DEPTH);
        multiply_all(TPI_WINOGRAD_PRODUCTS, scratch, depth, u_step, patches, apart(columns * depth), rows, depth,
                     columns, m, m_step, k > 0);
    }
    for (int64_t at = 0; at < j->tiles; at += BLOCK)
        put_tiles(j, j->first + at, tpi_min64(BLOCK, j->tiles - at), row, rows, m + at, m_step, columns);
    task_done(scratch, floats);
}

static bool run_rows(job *j) {
    int64_t most = tpi_min64(TILES, round_up(j->in.tiles, j->panel)),
            floats = TPI_WINOGRAD_PRODUCTS * tpi_ceil_div(j->depth, DEPTH) * apart(most * DEPTH);
    j->patches = task_scratch(floats, &j->missing);
    for (; j->patches && j->first < j->in.tiles; j->first += TILES) {
        j->tiles = tpi_min64(TILES, j->in.tiles - j->first);
        j->panels = tpi_ceil_div(j->tiles, j->panel);
        tpi_parallel_for(tpi_ceil_div(j->tiles, BLOCK) * tpi_ceil_div(j->depth, DEPTH), true, patches_task, j);
        if (!atomic_load(&j->missing)) tpi_parallel_for(tpi_ceil_div(j->rows, ROWS), true, rows_task, j);
    }
    task_done(j->patches, floats);
    return succeeded(&j->missing);
}

static bool run_job(job *j) {
    j->panel = panel_width();
    return TPI_WINOGRAD_PRODUCTS * j->rows * j->depth <= FEW_FILTERS ? run_tiles(j) : run_rows(j);
}

static bool run_y(const tpi_conv *c, const float *x, const float *w, const float *bias, float *y) {
    job j = {.in = grid_of(c->batch, c->cx, c->x, c->pad[1], c->pad[2], c->y, TPI_WINOGRAD_TILE, TPI_WINOGRAD_PATCH),
             .y = {1, c->y[1], c->y[2]},
             .rows = c->cy,
             .depth = c->cx,
             .x = x,
             .w = w,
             .bias = bias,
             .out = y,
             .row_step = 9 * c->cx,
             .column_step = 9};
    return run_job(&j);
}

/* x's gradient is y convolved with the filters rotated by half a circle, rows and columns exchanged. */
static bool run_x(const tpi_conv *c, const float *y, const float *w, const float *bias, float *x) {
    job j = {
        .in = grid_of(c->batch, c->cy, c->y, 2 - c->pad[1], 2 - c->pad[2], c->x, TPI_WINOGRAD_TILE, TPI_WINOGRAD_PATCH),
        .y = {1, c->x[1], c->x[2]},
        .rows = c->cx,
        .depth = c->cy,
        .x = y,
        .w = w,
        .bias = bias,
        .out = x,
        .row_step = 9,
        .column_step = 9 * c->cx,
        .rotated = true};
    return run_job(&j);
}

static bool run(const tpi_conv_call *call) {
    switch (call->role) {
    case TPI_CONV_Y: return run_y(call->c, call->x, call->w, call->bias, call->out);
    case TPI_CONV_X: return run_x(call->c, call->y, call->w, call->bias, call->out);
    default: return tpi_conv_winograd_w(call->c, call->x, call->y, call->out);
    }
}

const tpi_conv_way tpi_conv_winograd = {fits, run};
