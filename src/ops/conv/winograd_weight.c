/* The weight's gradient by Winograd's method: see ops/conv/winograd.h. Patches of x and tiles of y are transformed,
 * then 36 products run over the tiles, and what they give is turned into taps.
 *
 * Tiles come in portions of limited size, one after the other. Sums of few filters are kept in one array, and a task is
 * one of the 36 products; sums of many filters are turned into taps where they are made, a rectangle of filters per
 * task, and added portion by portion. The order of the tiles alone decides the bits. */
#include "ops/conv/winograd_grid.h"

enum {
    PORTION = 1 << 21,  /* floats of transformed patches and tiles, about; twice as many with many filters */
    FEW_SUMS = 1 << 20, /* floats of sums that are kept */
    ROWS = 48,          /* y's channels of a rectangle; those of x: */
    COLUMNS = 64
};

typedef struct job {
    grid x, y; /* x's patches and y's tiles */
    const float *from_x, *from_y;
    float *w;
    int64_t panel, columns;         /* x's channels in whole panels */
    int64_t first, tiles, row;      /* of the portion; y's transformed rows */
    float *patches, *spread, *sums; /* (36, columns / panel, tiles, panel), (36, y's channels, row), (36, y's channels,
                                       columns) of few filters */
    atomic_size_t missing;
} job;

/* A task: the patches of one block in one panel of channels, a channel to a lane. */
static void patches_task(int64_t task, void *context) {
    job *j = context;
    block b;
    int64_t blocks = tpi_ceil_div(j->tiles, BLOCK), at = task % blocks * BLOCK, channel = task / blocks * j->panel,
            lanes[32];
    lay_out(&j->x, j->first + at, tpi_min64(BLOCK, j->tiles - at), j->panel, &b);
    int64_t floats = b.size * j->panel, there = tpi_min64(j->panel, j->x.channels - channel);
    float *copy = task_scratch(floats, &j->missing), *to = j->patches + channel * j->tiles + at * j->panel;
    if (!copy) return;
    memset(copy, 0, (size_t)floats * sizeof *copy);
    for (int64_t i = 0; i < j->panel; i++) lanes[i] = i * b.size;
    for (int64_t i = 0; i < there; i++) TPI_ISA_PICK(tpi_winograd_copy)
    (b.strips, b.strip, j->from_x + (channel + i) * j->x.height * j->x.width, j->x.width, copy + lanes[i], b.row);
    for (int64_t i = 0; i < b.count; i++) TPI_ISA_PICK(tpi_winograd_w_patches)
    (j->panel / TPI_WINOGRAD_LANES, lanes, copy + b.offsets[i], b.row, to + i * j->panel, apart(j->columns * j->tiles),
     0);
    task_done(copy, floats);
}

/* A task: the tiles of one block in as many channels, a tile to a lane. */
static void spread_task(int64_t task, void *context) {
    job *j = context;
    block b;
    int64_t blocks = tpi_ceil_div(j->tiles, BLOCK), at = task % blocks * BLOCK, channel = task / blocks * j->panel;
    lay_out(&j->y, j->first + at, tpi_min64(BLOCK, j->tiles - at), TPI_WINOGRAD_LANES, &b);
    float *copy = task_scratch(b.size, &j->missing);
    if (!copy) return;
    memset(copy, 0, (size_t)b.size * sizeof *copy);
    for (int64_t c = channel; c < tpi_min64(channel + j->panel, j->y.channels); c++) {
        TPI_ISA_PICK(tpi_winograd_copy)
        (b.strips, b.strip, j->from_y + c * j->y.height * j->y.width, j->y.width, copy, b.row);
        TPI_ISA_PICK(tpi_winograd_spread)
        (b.groups, b.offsets, copy, b.row, j->spread + c * j->row + at, apart(j->y.channels * j->row));
    }
    task_done(copy, b.size);
}

/* Few filters: a task is one product, then some rows. */
static void product_task(int64_t task, void *context) {
    job *j = context;
    int64_t rows = j->y.channels;
    tpi_gemm g = {.m = rows,
                  .n = j->columns,
                  .k = j->tiles,
                  .a = j->spread + task * apart(rows * j->row),
                  .a_row = j->row,
                  .a_col = 1,
                  .b = j->patches,
                  .c = j->sums + task * apart(rows * j->columns),
                  .c_row = j->columns,
                  .alpha = 1,
                  .beta = j->first > 0,
                  .packed = j->patches + task * apart(j->columns * j->tiles)};
    tpi_gemm_alone(&g);
}

static void taps_task(int64_t row, void *context) {
    job *j = context;
    TPI_ISA_PICK(tpi_winograd_filter_grads)
    (j->x.channels, j->sums + row * j->columns, apart(j->y.channels * j->columns), false,
     j->w + row * j->x.channels * 9);
}

/* Many: a task is a rectangle. */
static void rectangle_task(int64_t task, void *context) {
    job *j = context;
    int64_t across = tpi_ceil_div(j->columns, COLUMNS), row = task / across * ROWS
    , column = task % across * COLUMNS;
    int64_t rows = tpi_min64(ROWS, j->y.channels - row), columns = tpi_min64(COLUMNS, j->columns - column),
            step = apart(ROWS * COLUMNS), floats = TPI_WINOGRAD_W_PRODUCTS * step;
    float *sums = task_scratch(floats, &j->missing);
    if (!sums) return;
    multiply_all(TPI_WINOGRAD_W_PRODUCTS, j->spread + row * j->row, j->row, apart(j->y.channels * j->row),
                 j->patches + column * j->tiles, apart(j->columns * j->tiles), rows, j->tiles, columns, sums, step,
                 false);
    for (int64_t r = 0; r < rows; r++) TPI_ISA_PICK(tpi_winograd_filter_grads)
    (tpi_min64(columns, j->x.channels - column), sums + r * columns, step, j->first > 0,
     j->w + ((row + r) * j->x.channels + column) * 9);
    task_done(sums, floats);
}

static void run_portions(job *j, int64_t each) {
    for (; j->first < j->x.tiles && !atomic_load(&j->missing); j->first += each) {
        j->tiles = tpi_min64(each, j->x.tiles - j->first);
        j->row = apart(round_up(j->tiles, TPI_WINOGRAD_LANES));
        int64_t blocks = tpi_ceil_div(j->tiles, BLOCK);
        tpi_parallel_for(blocks * (j->columns / j->panel), true, patches_task, j);
        tpi_parallel_for(blocks * tpi_ceil_div(j->y.channels, j->panel), true, spread_task, j);
        if (atomic_load(&j->missing)) return;
        if (j->sums)
            tpi_parallel_for(TPI_WINOGRAD_W_PRODUCTS, true, product_task, j);
        else
            tpi_parallel_for(tpi_ceil_div(j->y.channels, ROWS) * tpi_ceil_div(j->columns, COLUMNS), true,
                             rectangle_task, j);
    }
    if (j->sums && !atomic_load(&j->missing)) tpi_parallel_for(j->y.channels, true, taps_task, j);
}

bool tpi_conv_winograd_w(const tpi_conv *c, const float *x, const float *y, float *w) {
    job j = {.x = grid_of(c->batch, c->cx, c->x, c->pad[1], c->pad[2], c->y, TPI_WINOGRAD_W_TILE, TPI_WINOGRAD_W_PATCH),
             .y = grid_of(c->batch, c->cy, c->y, 0, 0, c->y, TPI_WINOGRAD_W_TILE, TPI_WINOGRAD_W_TILE),
             .from_x = x,
             .from_y = y,
             .w = w,
             .panel = panel_width()};
    j.columns = round_up(c->cx, j.panel);
    int64_t sums = TPI_WINOGRAD_W_PRODUCTS * apart(c->cy * j.columns),
            per_tile = TPI_WINOGRAD_W_PRODUCTS * (c->cy + j.columns);
    bool kept = sums <= FEW_SUMS;
    int64_t each =
        tpi_min64(round_up((kept ? 1 : 2) * PORTION / per_tile, BLOCK), round_up(j.x.tiles, TPI_WINOGRAD_LANES));
    int64_t patches = TPI_WINOGRAD_W_PRODUCTS * apart(each * j.columns),
            spread = TPI_WINOGRAD_W_PRODUCTS * apart(apart(each) * c->cy);
    j.patches = task_scratch(patches + spread, &j.missing);
    j.spread = j.patches ? j.patches + patches : NULL;
    j.sums = kept ? task_scratch(sums, &j.missing) : NULL;
    if (!atomic_load(&j.missing)) run_portions(&j, each);
    task_done(j.patches, patches + spread);
    task_done(j.sums, sums);
    return succeeded(&j.missing);
}
