/* How a product is split into tasks: see gemm.h. The split depends on the shape and on how many threads there are; bits
 * depend on neither. */
#include "linalg/gemm.h"
#include <string.h>
#include "base/min_max.h"
#include "base/memory.h"
#include "base/threads.h"
#include "device/device.h"

enum {
    TASK = 1 << 17, /* multiply-adds that a task should have, 3 us of one thread, */
    TASKS = 128,    /* which are enough for balance */
    A_THREAD = 16,  /* for each thread, */
    SPREAD = 32,    /* and at least so many for more than a few threads, if that takes no tiles below so many rows */
    FEW_THREADS = 2,
    LOW_ROWS = 64,
    STRIP = 12,             /* a multiple of every kernel's height: tiles of whole strips are the fastest */
    WORTH_WAKING = 1 << 22, /* below which nobody is woken for it, unless many such loops follow each other */
    FEW_ROWS = 256,         /* up to which tiles pack b for themselves */
    PACKED = 1 << 22        /* floats that are packed at a time; a larger a is packed tile by tile */
};

/* One type's kernels at this processor's level. */
typedef struct kernels {
    size_t item, b_item; /* bytes of an element of a and c, and of one of b before it is packed */
    void (*pack)(const tpi_gemm *g, int64_t first, int64_t columns, void *packed);
    void (*pack_rows)(const tpi_gemm *g, int64_t first, int64_t rows, void *packed, int64_t step);
    void (*tile)(const tpi_gemm *g, int64_t i, int64_t rows, int64_t j, int64_t columns);
} kernels;

typedef struct job {
    const tpi_product *p;
    kernels of;
    tpi_gemm g;
    int64_t tile_rows, tile_columns, tiles_down, tiles_across;
    bool alone;    /* does each tile pack the panels of b that it needs? */
    int64_t group; /* products per task when they are small */
    int absent;    /* of those, as in tpi_gemm */
    void *packed;  /* b's panels; NULL: each tile packs what it needs of it */
    void *rows;    /* a's rows, which tiles beside each other share; NULL: each packs what it needs, or they are read
                      where they are */
    int64_t rows_step, pack_tasks; /* elements between those; tasks that pack b, before those that pack a */
} job;

bool tpi_gemm_serves(int64_t m, int64_t n, int64_t k) { return tpi_cpu_isa >= TPI_ISA_AVX2 && m > 1 && n > 1 && k > 0; }

bool tpi_gemm_serves_bf16(int64_t m, int64_t n, int64_t k) {
#ifdef TPI_GEMM_NEWER_UNITS
    return tpi_cpu_bf16 != TPI_BF16_NONE && m > 1 && n > 1 && k > 0;
#else
    (void)m;
    (void)n;
    (void)k;
    return false;
#endif
}

static int64_t even_part(int64_t n, int64_t parts, int64_t multiple) { /* of n cut into that many */
    return tpi_ceil_div(tpi_ceil_div(n, parts), multiple) * multiple;
}

static int64_t row_step(int64_t m) { return even_part(m, tpi_ceil_div(m, TPI_GEMM_ROWS), STRIP); }

static kernels kernels_of(tp_dtype dtype) {
#ifdef TPI_GEMM_NEWER_UNITS
    if (dtype == TP_BFLOAT16)
        return (kernels){sizeof(float), sizeof(float) / 2, tpi_gemm_bf16_pack, tpi_gemm_bf16_pack_rows,
                         tpi_cpu_bf16 == TPI_BF16_AMX ? tpi_gemm_amx_tile : tpi_gemm_bf16_tile};
    if (dtype == TP_UINT8 && tpi_cpu_bytes != TPI_BYTES_NONE)
        return (kernels){sizeof(uint32_t), 1, tpi_gemm_vnni_pack, tpi_gemm_vnni_pack_rows,
                         tpi_cpu_bytes == TPI_BYTES_AMX ? tpi_gemm_amx_bytes_tile : tpi_gemm_vnni_tile};
#endif
    if (dtype == TP_UINT8)
        return (kernels){sizeof(uint32_t), 1, TPI_ISA_PICK(tpi_gemm_bytes_pack), TPI_ISA_PICK(tpi_gemm_bytes_pack_rows),
                         TPI_ISA_PICK(tpi_gemm_bytes_tile)};
    if (dtype == TP_FLOAT64)
        return (kernels){sizeof(double), sizeof(double), TPI_ISA_PICK(tpi_gemm_f64_pack),
                         TPI_ISA_PICK(tpi_gemm_f64_pack_rows), TPI_ISA_PICK(tpi_gemm_f64_tile)};
    return (kernels){sizeof(float), sizeof(float), TPI_ISA_PICK(tpi_gemm_pack), TPI_ISA_PICK(tpi_gemm_pack_rows),
                     TPI_ISA_PICK(tpi_gemm_tile)};
}

static void alone(const tpi_gemm *g, const kernels *of) {
    const int64_t step = g->a_col == 1 && g->m <= FEW_ROWS ? g->m : row_step(g->m); /* of few rows, b is packed once */
    for (int64_t i = 0; i < g->m; i += step) of->tile(g, i, tpi_min64(step, g->m - i), 0, g->n);
}

void tpi_gemm_alone(const tpi_gemm *g) {
    const kernels of = kernels_of(TP_FLOAT32);
    alone(g, &of);
}

void tpi_gemm_alone_f64(const tpi_gemm *g) {
    const kernels of = kernels_of(TP_FLOAT64);
    alone(g, &of);
}

static const void *plus(const void *data, int64_t elements, size_t item) {
    return (const char *)data + elements * (int64_t)item;
}

static tpi_gemm one_of(const tpi_product *p, int64_t batch, const kernels *of) {
    return (tpi_gemm){.m = p->m,
                      .n = p->n,
                      .k = p->k,
                      .a = plus(p->a.data, batch * p->a.batch, of->item),
                      .b = plus(p->b.data, batch * p->b.batch, of->b_item),
                      .a_row = p->a.row,
                      .a_col = p->a.col,
                      .b_row = p->b.row,
                      .b_col = p->b.col,
                      .c = (void *)plus(p->c, batch * p->c_batch, of->item),
                      .c_row = p->c_row,
                      .alpha = tp_scalar_to_double(p->alpha),
                      .beta = tp_scalar_to_double(p->beta),
                      .every_row = p->every_row};
}

static void group_task(int64_t task, void *context) {
    const job *j = context;
    for (int64_t i = task * j->group; i < tpi_min64((task + 1) * j->group, j->p->batches); i++) {
        tpi_gemm g = one_of(j->p, i, &j->of);
        g.absent = j->absent;
        alone(&g, &j->of);
    }
}

static void pack_task(int64_t task, void *context) {
    job *j = context;
    if (task >= j->pack_tasks) {
        int64_t first = (task - j->pack_tasks) * TPI_GEMM_WIDTH;
        j->of.pack_rows(&j->g, first, tpi_min64(TPI_GEMM_WIDTH, j->g.m - first), j->rows, j->rows_step);
        return;
    }
    int64_t at = task * TPI_GEMM_WIDTH;
    j->of.pack(&j->g, at, tpi_min64(TPI_GEMM_WIDTH, j->g.n - at), j->packed);
}

static void tile_task(int64_t task, void *context) {
    const job *j = context;
    int64_t i = task / j->tiles_across * j->tile_rows, at = task % j->tiles_across * j->tile_columns;
    j->of.tile(&j->g, i, tpi_min64(j->tile_rows, j->g.m - i), at, tpi_min64(j->tile_columns, j->g.n - at));
}

/* Tiles of the result, a task each. They are small enough that sixteen threads and more find about as much to do, and
 * large enough that a's rows are worth fetching. Where there are few rows, each tile packs the panels of b that it
 * needs, so nobody waits for a packed b nor fetches it from another core. */
static void choose_tiles(job *j) {
    const tpi_gemm *g = &j->g;
    const int64_t work = g->m * g->n * g->k, threads = tp_num_threads(),
                  tasks = tpi_min64(tpi_min64(TASKS, A_THREAD * threads), tpi_max64(1, work / TASK));
    j->alone = g->a_col == 1 && g->m <= FEW_ROWS && g->n >= 8 * TPI_GEMM_WIDTH;
    j->tile_rows = row_step(g->m);
    if (threads > FEW_THREADS && tasks >= SPREAD &&
        tpi_ceil_div(g->m, j->tile_rows) * tpi_ceil_div(g->n, TPI_GEMM_WIDTH) < SPREAD)
        j->tile_rows = even_part(g->m, tpi_ceil_div(g->m, LOW_ROWS), 4);
    if (j->alone && tpi_ceil_div(g->n, TPI_GEMM_WIDTH) >= 4 * threads) j->tile_rows = g->m; /* b is packed once */
    j->tiles_down = tpi_ceil_div(g->m, j->tile_rows);
    j->tile_columns = even_part(g->n, tpi_ceil_div(tasks, j->tiles_down), TPI_GEMM_WIDTH);
    j->tiles_across = tpi_ceil_div(g->n, j->tile_columns);
}

void *tpi_gemm_scratch(size_t bytes) {
    bool was_fine = tp_ok();
    void *scratch = tpi_alloc(bytes);
    if (!scratch && was_fine) tp_error_clear();
    return scratch;
}

/* One large product. Where several tiles stand below each other, b is packed once for all of them, unless it is read
 * where it is; where several stand beside each other, so is an a that is contiguous in its rows: each would turn it
 * around for itself. */
static void multiply_one(job *j) {
    choose_tiles(j);
    const bool brief = j->g.m * j->g.n * j->g.k < WORTH_WAKING;
    const bool deep = j->g.k > TPI_GEMM_SHALLOW;
    const size_t bytes = (size_t)(tpi_ceil_div(j->g.n, TPI_GEMM_WIDTH) * TPI_GEMM_WIDTH * j->g.k) * j->of.item;
    j->rows_step = j->g.k + 16; /* a power of two apart they would share cache sets */
    const size_t rows_bytes = (size_t)(j->g.m * j->rows_step) * j->of.item;
    if (j->tiles_down > 1 && !j->alone && (deep || j->g.b_col != 1)) j->packed = tpi_gemm_scratch(bytes);
    if (j->tiles_across > 1 && deep && j->g.a_col != 1 && !brief && j->g.m * j->rows_step <= PACKED)
        j->rows = tpi_gemm_scratch(rows_bytes);
    j->pack_tasks = j->packed ? tpi_ceil_div(j->g.n, TPI_GEMM_WIDTH) : 0;
    const int64_t tasks = j->pack_tasks + (j->rows ? tpi_ceil_div(j->g.m, TPI_GEMM_WIDTH) : 0),
                  floats = (j->packed ? j->g.n * j->g.k : 0) + (j->rows ? j->g.m * j->g.k : 0);
    if (tasks) tpi_parallel_for(tasks, floats >= 1 << 15, pack_task, j);
    j->g.packed = j->packed;
    if (j->rows) {
        j->g.a = j->rows;
        j->g.a_row = j->rows_step;
        j->g.a_col = 1;
    }
    (brief ? tpi_parallel_for_brief : tpi_parallel_for)(j->tiles_down * j->tiles_across, true, tile_task, j);
    if (j->packed) tpi_free(j->packed, bytes);
    if (j->rows) tpi_free(j->rows, rows_bytes);
}

/* ... in pieces whose packed form is not too large. */
static void multiply_pieces(const tpi_product *p, const tpi_gemm *whole, const kernels *of) {
    const int64_t n = whole->n, most = PACKED / whole->k / TPI_GEMM_WIDTH * TPI_GEMM_WIDTH,
                  step = even_part(n, tpi_ceil_div(n, most > 256 ? most : 256), TPI_GEMM_WIDTH);
    for (int64_t at = 0; at < n; at += step) {
        job j = {.p = p, .of = *of, .g = *whole};
        j.g.n = tpi_min64(step, n - at);
        j.g.b = plus(whole->b, at * whole->b_col, of->b_item);
        j.g.c = (void *)plus(whole->c, at, of->item);
        if (whole->every_row) j.g.every_row = plus(whole->every_row, at, of->item);
        multiply_one(&j);
    }
}

static void multiply_all(const tpi_product *p, int absent) {
    const kernels of = kernels_of(p->dtype);
    const int64_t work = p->m * p->n * p->k;
    if (p->batches > 1 && work < WORTH_WAKING) {
        job j = {.p = p, .of = of, .group = work < TASK ? TASK / work : 1, .absent = absent};
        int64_t tasks = tpi_ceil_div(p->batches, j.group);
        tpi_parallel_for(tasks, tasks > 1, group_task, &j);
        return;
    }
    for (int64_t i = 0; i < p->batches; i++) {
        tpi_gemm g = one_of(p, i, &of);
        g.absent = absent;
        if (work < 2 * TASK)
            alone(&g, &of);
        else
            multiply_pieces(p, &g, &of);
    }
}

/* ---- bfloat16: a as pairs along k ---- */
typedef struct pairing {
    const tpi_product *p;
    uint16_t *to;
    int64_t row; /* elements of a row there, an even number */
} pairing;

static void pair_rows(int64_t row, void *context) {
    const pairing *c = context;
    const tpi_product *p = c->p;
    const uint16_t *from = (const uint16_t *)(const void *)p->a.data + row / p->m * p->a.batch + row % p->m * p->a.row;
    uint16_t *to = c->to + row * c->row;
    if (p->a.col == 1)
        memcpy(to, from, (size_t)p->k * sizeof *to);
    else
        for (int64_t i = 0; i < p->k; i++) to[i] = from[i * p->a.col];
    if (p->k < c->row) to[p->k] = 0;
}

static bool multiply_bf16(const tpi_product *p) {
    const bool odd = p->k % 2;
    const bool there = p->a.col == 1 && !odd && p->a.row % 2 == 0 && p->a.batch % 2 == 0;
    tpi_product pairs = *p;
    pairing c = {p, NULL, p->k + odd};
    const size_t bytes = (size_t)(p->batches * p->m * c.row) * sizeof(uint16_t);
    pairs.k = c.row / 2;
    if (there) {
        pairs.a.row /= 2;
        pairs.a.batch /= 2;
    } else {
        c.to = tpi_alloc(bytes);
        if (!c.to) return false;
        tpi_parallel_for(p->batches * p->m, bytes > 1 << 16, pair_rows, &c);
        pairs.a = (tpi_operand_matrix){(const char *)c.to, p->m * pairs.k, pairs.k, 1};
    }
    multiply_all(&pairs, odd);
    if (c.to) tpi_free(c.to, bytes);
    return true;
}

/* ---- 8-bit integers: a as quads along k, of bytes from 0 to 255 ---- */
typedef struct quads {
    const tpi_product *p;
    uint8_t *to;
    int64_t row; /* bytes of a row there, a multiple of 4 */
    uint8_t flip;
    tpi_gemm g; /* b */
    uint32_t *offsets;
} quads;

static void lay_quads(int64_t row, void *context) {
    const quads *c = context;
    const tpi_product *p = c->p;
    const uint8_t *from = (const uint8_t *)p->a.data + row * p->a.row;
    uint8_t *to = c->to + row * c->row;
    for (int64_t i = 0; i < p->k; i++) to[i] = from[i * p->a.col] ^ c->flip;
    for (int64_t i = p->k; i < c->row; i++) to[i] = 0;
}

static void sum_columns(int64_t task, void *context) {
    const quads *c = context;
    const int64_t at = task * TPI_GEMM_WIDTH, columns = tpi_min64(TPI_GEMM_WIDTH, c->g.n - at);
    TPI_ISA_PICK(tpi_gemm_bytes_offsets)(&c->g, at, columns, c->offsets + at);
}

static bool multiply_bytes(const tpi_product *p) {
    const bool is_signed = p->dtype == TP_INT8;
    quads c = {.p = p, .row = tpi_ceil_div(p->k, 4) * 4, .flip = is_signed ? 0x80 : 0};
    const bool there =
        !is_signed && p->a.col == 1 && p->k % 4 == 0 && p->a.row % 4 == 0 && (uintptr_t)p->a.data % 4 == 0;
    const int64_t offsets = is_signed ? p->n : 0, rows = there ? 0 : p->m * c.row;
    const size_t bytes = (size_t)offsets * sizeof *c.offsets + (size_t)rows;
    tpi_product whole = *p;
    whole.dtype = TP_UINT8;
    whole.k = c.row / 4;
    whole.a.row /= 4;
    void *scratch = bytes ? tpi_alloc(bytes) : NULL;
    if (bytes && !scratch) return false;
    if (!there) {
        c.to = (uint8_t *)scratch + (size_t)offsets * sizeof *c.offsets;
        tpi_parallel_for(p->m, rows > 1 << 16, lay_quads, &c);
        whole.a = (tpi_operand_matrix){(const char *)c.to, 0, whole.k, 1};
    }
    const int absent = (int)(c.row - p->k);
    if (is_signed) {
        const kernels of = kernels_of(TP_UINT8);
        c.offsets = scratch;
        c.g = one_of(&whole, 0, &of);
        c.g.absent = absent;
        tpi_parallel_for(tpi_ceil_div(p->n, TPI_GEMM_WIDTH), p->n * p->k > 1 << 16, sum_columns, &c);
        whole.every_row = scratch;
    }
    multiply_all(&whole, absent);
    if (bytes) tpi_free(scratch, bytes);
    return true;
}

bool tpi_gemm_multiply(const tpi_product *p) {
    if (p->dtype == TP_BFLOAT16) return multiply_bf16(p);
    if (p->dtype == TP_INT8 || p->dtype == TP_UINT8) return multiply_bytes(p);
    multiply_all(p, 0);
    return true;
}
