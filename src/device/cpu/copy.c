/* Copies and fills on the CPU: any strides, any dtypes. Contiguous memory moves in large chunks; where source and
 * destination run fastest along different dimensions, tiles are read row by row, transposed in L1 and written row by
 * row. */
#include "base/threads.h"
#include "device/cpu/convert.h"
#include "device/cpu/cpu.h"
#include <string.h>

enum {
    BYTES_CHUNK = 1 << 18, /* bytes of a plain copy that one thread takes at a time */
    BLOCK = 1024,          /* elements that go through scratch when neither side is contiguous */
    LONG_RUN = 64,
    TILE_BYTES = 128, /* a tile's rows, read and written: two cache lines */
    TILE_STREAMED =
        256, /* and those of a tile that is streamed: memory takes longer runs faster, the first cache holds no more */
    TILES_AHEAD = 2, /* tiles before one is transposed, it is on its way; of 1 to 4, and tiles of 128 to 512 bytes, what
                        was fastest */
    TILE_MOST = 64,  /* rows of a tile, at most */
    TILE_PAD = 64,   /* keeps the rows of a tile from meeting in the same cache sets */
    SAME_SETS = 2048, /* bytes: more than a few rows that far apart do */
    TILES_CHUNK = 16,
    TRANSPOSED_STREAM_BYTES = 4 << 20, /* rows far apart meet in the same cache sets long before the caches are full */
};

typedef struct copy_job {
    const tpi_plan *plan;
    tpi_walk to, from;
    int64_t to_size, from_size;
    bool to_packed, from_packed;
    bool stream;
    int across;                /* transposed copies: the dimension along which the source is contiguous */
    int64_t tile[2], tiles[2]; /* elements along dimension 0 and `across`, and how many tiles */
    int64_t all_tiles;
} copy_job;

static void copy_bytes(int64_t chunk, void *context) {
    const copy_job *job = context;
    const tpi_plan *p = job->plan;
    int64_t bytes = p->numel * job->to_size, at = chunk * BYTES_CHUNK,
            n = bytes - at < BYTES_CHUNK ? bytes - at : BYTES_CHUNK;
    if (!job->stream) {
        memcpy(p->data[0] + at, p->data[1] + at, (size_t)n);
        return;
    }
    TPI_ISA_PICK(tpi_nontemporal_copy)(n, p->data[1] + at, p->data[0] + at);
    TPI_ISA_PICK(tpi_nontemporal_end)();
}

/* Into contiguous memory that is too large for the caches: converted in L1, then streamed. */
static void stream_chunk(const copy_job *job, int64_t at, int64_t end) {
    const tpi_plan *p = job->plan;
    _Alignas(64) char block[BLOCK * 16];
    for (int64_t n; at < end; at += n) {
        n = end - at < BLOCK ? end - at : BLOCK;
        tpi_load_walk(&job->from, at, n, p->data[1], p->dtype[1], block, p->dtype[0]);
        TPI_ISA_PICK(tpi_nontemporal_copy)(n * job->to_size, block, p->data[0] + at * job->to_size);
    }
    TPI_ISA_PICK(tpi_nontemporal_end)();
}

static void copy_chunk(int64_t chunk, void *context) {
    const copy_job *job = context;
    const tpi_plan *p = job->plan;
    int to = p->dtype[0], from = p->dtype[1];
    int64_t at = chunk * TPI_CHUNK, end = at + TPI_CHUNK < p->numel ? at + TPI_CHUNK : p->numel;
    if (job->to_packed && job->stream) {
        stream_chunk(job, at, end);
        return;
    }
    if (job->to_packed) {
        tpi_load_walk(&job->from, at, end - at, p->data[1], from, p->data[0] + at * job->to_size, to);
        return;
    }
    if (job->from_packed) {
        tpi_store_walk(&job->to, at, end - at, p->data[1] + at * job->from_size, from, p->data[0], to);
        return;
    }
    _Alignas(64) char block[BLOCK * 16];
    while (at < end) {
        char *data[TPI_MAX_OPERANDS];
        int64_t run = tpi_plan_seek(p, at, data), n = end - at < BLOCK ? end - at : BLOCK;
        if (p->stride[0][0] == job->to_size && p->shape[0] >= LONG_RUN) {
            n = end - at < run ? end - at : run;
            tpi_load_run(n, data[1], p->stride[1][0], from, data[0], to);
        } else {
            tpi_load_walk(&job->from, at, n, p->data[1], from, block, to);
            tpi_store_walk(&job->to, at, n, block, to, p->data[0], to);
        }
        at += n;
    }
}

/* A tile: n0 rows of n1 elements that run along job->across in the source, along dimension 0 in the destination. */
typedef struct tile {
    const char *src;
    char *dst;
    int64_t n0, n1;
} tile;
static tile tile_at(const copy_job *job, int64_t number) {
    const tpi_plan *p = job->plan;
    int64_t i1 = number % job->tiles[1] * job->tile[1], rest = number / job->tiles[1];
    int64_t i0 = rest % job->tiles[0] * job->tile[0], outer = rest / job->tiles[0];
    tile t = {.src = p->data[1] + i0 * p->stride[1][0] + i1 * job->from_size,
              .dst = p->data[0] + i0 * job->to_size + i1 * p->stride[0][job->across]};
    for (int d = 1; d < p->ndim; d++) {
        if (d == job->across) continue;
        t.dst += outer % p->shape[d] * p->stride[0][d];
        t.src += outer % p->shape[d] * p->stride[1][d];
        outer /= p->shape[d];
    }
    t.n0 = p->shape[0] - i0 < job->tile[0] ? p->shape[0] - i0 : job->tile[0];
    t.n1 = p->shape[job->across] - i1 < job->tile[1] ? p->shape[job->across] - i1 : job->tile[1];
    return t;
}

/* Where the transposition reads the tile: in place, or converted. */
static const char *tile_source(const copy_job *job, const tile *t, char *scratch, int64_t *row) {
    const tpi_plan *p = job->plan;
    *row = p->stride[1][0];
    if (p->dtype[0] == p->dtype[1]) return t->src;
    *row = TILE_BYTES + TILE_PAD;
    for (int64_t r = 0; r < t->n0; r++) TPI_ISA_PICK(tpi_convert_run)
    (t->n1, t->src + r * p->stride[1][0], p->dtype[1], scratch + r * *row, p->dtype[0]);
    return scratch;
}

static void copy_tile(const copy_job *job, int64_t number) {
    _Alignas(64) char scratch[TILE_MOST * (TILE_BYTES + TILE_PAD)], transposed[TILE_MOST * (TILE_STREAMED + TILE_PAD)];
    tile t = tile_at(job, number);
    int64_t src_row, dst_row = job->plan->stride[0][job->across], row = job->tile[0] * job->to_size + TILE_PAD;
    int size = (int)job->to_size;
    const char *src = tile_source(job, &t, scratch, &src_row);
    const bool meet = dst_row % SAME_SETS == 0 && size <= 8;
    if (!job->stream && !meet) {
        TPI_ISA_PICK(tpi_transpose)(t.n0, t.n1, src, src_row, t.dst, dst_row, size);
        return;
    }
    TPI_ISA_PICK(tpi_transpose)(t.n0, t.n1, src, src_row, transposed, row, size);
    if (!job->stream) {
        for (int64_t i = 0; i < t.n1; i++) memcpy(t.dst + i * dst_row, transposed + i * row, (size_t)(t.n0 * size));
        return;
    }
    tile next = number + TILES_AHEAD < job->all_tiles ? tile_at(job, number + TILES_AHEAD) : (tile){0};
    tpi_ahead ahead = {next.src, next.n0, next.n1 * job->from_size,
                       job->plan->stride[1][0]}; /* no hardware guesses it */
    TPI_ISA_PICK(tpi_nontemporal_rows)(t.n1, t.n0 * size, transposed, row, t.dst, dst_row, &ahead);
}

static void copy_tiles(int64_t chunk, void *context) {
    const copy_job *job = context;
    int64_t at = chunk * TILES_CHUNK, end = at + TILES_CHUNK < job->all_tiles ? at + TILES_CHUNK : job->all_tiles;
    for (; at < end; at++) copy_tile(job, at);
    TPI_ISA_PICK(tpi_nontemporal_end)();
}

/* The destination is contiguous along dimension 0 and the source along another: worth it when both are more than a few.
 */
static bool is_transposed(copy_job *job) {
    const tpi_plan *p = job->plan;
    if (p->ndim < 2 || p->stride[0][0] != job->to_size || p->shape[0] < 8) return false;
    for (int d = 1; d < p->ndim; d++)
        if (p->stride[1][d] == job->from_size && p->shape[d] >= 8 && p->stride[1][0] != job->from_size &&
            p->stride[1][0] != 0) {
            job->across = d;
            return true;
        }
    return false;
}

static void choose_tiles(copy_job *job) {
    const tpi_plan *p = job->plan;
    int64_t sizes[2] = {p->shape[0], p->shape[job->across]};
    bool streamed = job->stream && p->dtype[0] == p->dtype[1];
    for (int i = 0; i < 2; i++) {
        job->tile[i] = (streamed ? TILE_STREAMED : TILE_BYTES) / job->to_size;
        if (job->tile[i] > TILE_MOST && !(i == 0 && streamed)) job->tile[i] = TILE_MOST;
        job->tiles[i] = tpi_ceil_div(sizes[i], job->tile[i]);
    }
    job->all_tiles = job->tiles[0] * job->tiles[1] * (p->numel / (sizes[0] * sizes[1]));
}

bool tpi_cpu_copy(tp_device device, tpi_plan *p) {
    (void)device;
    if (p->numel == 0) return true;
    copy_job job = {.plan = p, .to = {p->ndim, p->shape, p->stride[0]}, .from = {p->ndim, p->shape, p->stride[1]}};
    job.to_size = tpi_dtype_bytes[p->dtype[0]];
    job.from_size = tpi_dtype_bytes[p->dtype[1]];
    job.to_packed = tpi_walk_is_packed(&job.to, job.to_size);
    job.from_packed = tpi_walk_is_packed(&job.from, job.from_size);
    bool worth = p->numel >= TPI_WORTH_THREADS;
    job.stream = p->numel * job.to_size >= tpi_nontemporal_bytes();
    if (p->dtype[0] == p->dtype[1] && job.to_packed && job.from_packed) {
        if (p->data[0] == p->data[1]) return true;
        int64_t bytes = p->numel * job.to_size;
        tpi_parallel_for(tpi_ceil_div(bytes, BYTES_CHUNK), bytes >= 2 * BYTES_CHUNK, copy_bytes, &job);
    } else if (is_transposed(&job)) {
        job.stream = p->numel * job.to_size >= TRANSPOSED_STREAM_BYTES;
        choose_tiles(&job);
        tpi_parallel_for(tpi_ceil_div(job.all_tiles, TILES_CHUNK), worth, copy_tiles, &job);
    } else {
        tpi_parallel_for(tpi_ceil_div(p->numel, TPI_CHUNK), worth, copy_chunk, &job);
    }
    return true;
}

/* ---- Fill ---- */
typedef struct fill_job {
    const tpi_plan *plan;
    tpi_walk to;
    bool packed, stream;
    _Alignas(16) char element[16];
} fill_job;

static void fill_chunk(int64_t chunk, void *context) {
    const fill_job *job = context;
    const tpi_plan *p = job->plan;
    int dtype = p->dtype[0], size = tpi_dtype_bytes[dtype];
    int64_t at = chunk * TPI_CHUNK, end = at + TPI_CHUNK < p->numel ? at + TPI_CHUNK : p->numel;
    if (job->packed && !job->stream) {
        TPI_ISA_PICK(tpi_repeat)(end - at, job->element, p->data[0] + at * size, size);
        return;
    }
    _Alignas(64) char block[BLOCK * 16];
    TPI_ISA_PICK(tpi_repeat)(end - at < BLOCK ? end - at : BLOCK, job->element, block, size);
    for (int64_t n; at < end; at += n) {
        n = end - at < BLOCK ? end - at : BLOCK;
        if (job->packed)
            TPI_ISA_PICK(tpi_nontemporal_copy)(n * size, block, p->data[0] + at * size);
        else
            tpi_store_walk(&job->to, at, n, block, dtype, p->data[0], dtype);
    }
    TPI_ISA_PICK(tpi_nontemporal_end)();
}

bool tpi_cpu_fill(tp_device device, tpi_plan *p, const tp_scalar *value) {
    (void)device;
    if (p->numel == 0) return true;
    fill_job job = {.plan = p, .to = {p->ndim, p->shape, p->stride[0]}};
    job.packed = tpi_walk_is_packed(&job.to, tpi_dtype_bytes[p->dtype[0]]);
    job.stream = p->numel * tpi_dtype_bytes[p->dtype[0]] >= tpi_nontemporal_bytes();
    tpi_store_scalar(job.element, (tp_dtype)p->dtype[0], *value);
    tpi_parallel_for(tpi_ceil_div(p->numel, TPI_CHUNK), p->numel >= TPI_WORTH_THREADS, fill_chunk, &job);
    return true;
}
