/* How a float32 product is split into tasks: see gemm.h. The split depends on the shape alone. */
#include "linalg/gemm.h"
#include "base/range.h"
#include "base/memory.h"
#include "base/threads.h"
#include "device/device.h"

enum {
    TASK = 1 << 17,         /* multiply-adds that a task should have, 3 us of one thread, */
    TASKS = 32,             /* which are enough for balance */
    WORTH_WAKING = 1 << 22, /* below which nobody is woken for it, unless many such loops follow each other */
    TALL = 256,
    FEW_TALL = 2,    /* rows of a tile that packs b for itself, and how many of those stand below each other at most */
    PACKED = 1 << 22 /* floats that are packed at a time; a larger a is packed tile by tile */
};

typedef struct job {
    const tpi_product *p;
    tpi_gemm g;
    int64_t tile_rows, tile_columns, tiles_down, tiles_across;
    int64_t group; /* products per task when they are small */
    float *packed; /* b's panels; NULL: each tile packs what it needs of it */
    float *rows;   /* a's rows, which tiles beside each other share; NULL: each packs what it needs, or they are read
                      where they are */
    int64_t rows_step, pack_tasks; /* floats between those; tasks that pack b, before those that pack a */
} job;

bool tpi_gemm_serves(int64_t m, int64_t n, int64_t k) { return tpi_cpu_isa >= TPI_ISA_AVX2 && m > 1 && n > 1 && k > 0; }

static int64_t even_part(int64_t n, int64_t parts, int64_t multiple) { /* of n cut into that many */
    return tpi_ceil_div(tpi_ceil_div(n, parts), multiple) * multiple;
}

static int64_t row_step(int64_t m) { return even_part(m, tpi_ceil_div(m, TPI_GEMM_ROWS), 4); }

void tpi_gemm_alone(const tpi_gemm *g) {
    int64_t step = row_step(g->m);
    for (int64_t i = 0; i < g->m; i += step) TPI_ISA_PICK(tpi_gemm_tile)(g, i, tpi_min64(step, g->m - i), 0, g->n);
}

static tpi_gemm one_of(const tpi_product *p, int64_t batch) {
    return (tpi_gemm){.m = p->m,
                      .n = p->n,
                      .k = p->k,
                      .a = (const float *)(const void *)p->a.data + batch * p->a.batch,
                      .b = (const float *)(const void *)p->b.data + batch * p->b.batch,
                      .a_row = p->a.row,
                      .a_col = p->a.col,
                      .b_row = p->b.row,
                      .b_col = p->b.col,
                      .c = (float *)(void *)p->c + batch * p->c_batch,
                      .c_row = p->c_row,
                      .alpha = (float)tp_scalar_to_double(p->alpha),
                      .beta = (float)tp_scalar_to_double(p->beta),
                      .every_row = (const float *)(const void *)p->every_row};
}

static void group_task(int64_t task, void *context) {
    const job *j = context;
    for (int64_t i = task * j->group; i < tpi_min64((task + 1) * j->group, j->p->batches); i++) {
        tpi_gemm g = one_of(j->p, i);
        tpi_gemm_alone(&g);
    }
}

static void pack_task(int64_t task, void *context) {
    job *j = context;
    if (task >= j->pack_tasks) {
        int64_t first = (task - j->pack_tasks) * TPI_GEMM_WIDTH;
        TPI_ISA_PICK(tpi_gemm_pack_rows)
        (&j->g, first, tpi_min64(TPI_GEMM_WIDTH, j->g.m - first), j->rows, j->rows_step);
        return;
    }
    int64_t at = task * TPI_GEMM_WIDTH;
    TPI_ISA_PICK(tpi_gemm_pack)(&j->g, at, tpi_min64(TPI_GEMM_WIDTH, j->g.n - at), j->packed);
}

static void tile_task(int64_t task, void *context) {
    const job *j = context;
    int64_t i = task / j->tiles_across * j->tile_rows, at = task % j->tiles_across * j->tile_columns;
    TPI_ISA_PICK(tpi_gemm_tile)
    (&j->g, i, tpi_min64(j->tile_rows, j->g.m - i), at, tpi_min64(j->tile_columns, j->g.n - at));
}

/* Few rows make tall tiles where columns are enough for balance: nobody waits for a packed b, nor fetches it from
 * another core (256 by 256 by 256, two threads, 147 -> 159 GFLOP/s). */
static bool suits_tall(const tpi_gemm *g) {
    return g->a_col == 1 && g->m <= FEW_TALL * TALL && g->n >= 8 * TPI_GEMM_WIDTH;
}

static void choose_tiles(job *j) {
    const tpi_gemm *g = &j->g;
    j->tile_rows = suits_tall(g) ? even_part(g->m, tpi_ceil_div(g->m, TALL), 4) : row_step(g->m),
    j->tiles_down = tpi_ceil_div(g->m, j->tile_rows);
    int64_t work = g->m * g->n * g->k, tasks = tpi_min64(TASKS, work / TASK),
            across = tpi_ceil_div(tasks, j->tiles_down);
    j->tile_columns = even_part(g->n, across < 1 ? 1 : across, TPI_GEMM_WIDTH),
    j->tiles_across = tpi_ceil_div(g->n, j->tile_columns);
}

float *tpi_gemm_room(size_t bytes) {
    bool was_fine = tp_ok();
    float *room = tpi_alloc(bytes);
    if (!room && was_fine) tp_error_clear();
    return room;
}

/* One large product. Where several tiles stand below each other, b is packed once for all of them, unless it is read
 * where it is; where several stand beside each other, so is an a that is contiguous in its rows: each would turn it
 * around for itself. */
static void multiply_one(job *j) {
    choose_tiles(j);
    const bool brief = j->g.m * j->g.n * j->g.k<WORTH_WAKING, deep = j->g.k> TPI_GEMM_SHALLOW;
    const size_t bytes = (size_t)(tpi_ceil_div(j->g.n, TPI_GEMM_WIDTH) * TPI_GEMM_WIDTH * j->g.k) * sizeof(float);
    j->rows_step = j->g.k + 16; /* a power of two apart they would share cache sets */
    const size_t rows_bytes = (size_t)(j->g.m * j->rows_step) * sizeof(float);
    if (j->tiles_down > 1 && j->tile_rows <= TPI_GEMM_ROWS && (deep || j->g.b_col != 1))
        j->packed = tpi_gemm_room(bytes);
    if (j->tiles_across > 1 && deep && j->g.a_col != 1 && !brief && j->g.m * j->rows_step <= PACKED)
        j->rows = tpi_gemm_room(rows_bytes);
    j->pack_tasks = j->packed ? tpi_ceil_div(j->g.n, TPI_GEMM_WIDTH) : 0;
    const int64_t tasks = j->pack_tasks + (j->rows ? tpi_ceil_div(j->g.m, TPI_GEMM_WIDTH) : 0),
                  floats = (j->packed ? j->g.n * j->g.k : 0) + (j->rows ? j->g.m * j->g.k : 0);
    if (tasks) tpi_parallel_for(tasks, floats >= 1 << 15, pack_task, j);
    j->g.packed = j->packed;
    if (j->rows) j->g.a = j->rows, j->g.a_row = j->rows_step, j->g.a_col = 1;
    (brief ? tpi_parallel_for_brief : tpi_parallel_for)(j->tiles_down * j->tiles_across, true, tile_task, j);
    if (j->packed) tpi_free(j->packed, bytes);
    if (j->rows) tpi_free(j->rows, rows_bytes);
}

/* ... in pieces whose packed form is not too large. */
static void multiply_pieces(const tpi_product *p, int64_t batch) {
    tpi_gemm whole = one_of(p, batch);
    int64_t most = PACKED / p->k / TPI_GEMM_WIDTH * TPI_GEMM_WIDTH,
            step = even_part(p->n, tpi_ceil_div(p->n, most > 256 ? most : 256), TPI_GEMM_WIDTH);
    for (int64_t at = 0; at < p->n; at += step) {
        job j = {.p = p, .g = whole};
        j.g.n = tpi_min64(step, p->n - at), j.g.b += at * whole.b_col, j.g.c += at;
        if (whole.every_row) j.g.every_row += at;
        multiply_one(&j);
    }
}

void tpi_gemm_multiply(const tpi_product *p) {
    int64_t work = p->m * p->n * p->k;
    if (p->batches > 1 && work < (int64_t)TASK * TASKS) {
        job j = {.p = p, .group = work < TASK ? TASK / work : 1};
        int64_t tasks = tpi_ceil_div(p->batches, j.group);
        tpi_parallel_for(tasks, tasks > 1, group_task, &j);
        return;
    }
    if (work < 2 * TASK) {
        tpi_gemm g = one_of(p, 0);
        tpi_gemm_alone(&g);
        return;
    }
    for (int64_t i = 0; i < p->batches; i++) multiply_pieces(p, i);
}
