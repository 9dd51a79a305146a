/* Copies and fills on the CPU: any strides, any dtypes. Contiguous memory moves in large chunks; where source and destination
 * run fastest along different dimensions, tiles are read row by row, turned over in L1 and written row by row. */
#include "base/threads.h"
#include "device/cpu/convert.h"
#include "device/cpu/cpu.h"
#include <string.h>

enum {
    BYTES_CHUNK = 1 << 18, /* bytes of a plain copy that one thread takes at a time */
    BLOCK = 1024,          /* elements that go through scratch when neither side is contiguous */
    TILE = 64,             /* rows and columns of a transposed tile, half of it for elements of 8 bytes and more */
    LONG_RUN = 64,
};

typedef struct copy_job {
    const tpi_plan *plan;
    tpi_walk to, from;
    int64_t to_size, from_size;
    bool to_packed, from_packed;
    int across; /* transposed copies: the dimension along which the source is contiguous */
    int64_t tile, tiles[2];
} copy_job;

static void copy_bytes(int64_t chunk, void *context) {
    const tpi_plan *p = ((const copy_job *)context)->plan;
    int64_t bytes = p->numel * ((const copy_job *)context)->to_size, at = chunk * BYTES_CHUNK;
    memcpy(p->data[0] + at, p->data[1] + at, (size_t)(bytes - at < BYTES_CHUNK ? bytes - at : BYTES_CHUNK));
}

static void copy_chunk(int64_t chunk, void *context) {
    const copy_job *job = context;
    const tpi_plan *p = job->plan;
    int to = p->dtype[0], from = p->dtype[1];
    int64_t at = chunk * TPI_CHUNK, end = at + TPI_CHUNK < p->numel ? at + TPI_CHUNK : p->numel;
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

/* Tile number `chunk`: columns run along dimension 0 (contiguous in the destination), rows along job->across. */
static void copy_tile(int64_t chunk, void *context) {
    const copy_job *job = context;
    const tpi_plan *p = job->plan;
    int64_t i0 = chunk % job->tiles[0] * job->tile, rest = chunk / job->tiles[0];
    int64_t i1 = rest % job->tiles[1] * job->tile, outer = rest / job->tiles[1];
    const char *src = p->data[1] + i0 * p->stride[1][0] + i1 * job->from_size;
    char *dst = p->data[0] + i0 * job->to_size + i1 * p->stride[0][job->across];
    for (int d = 1; d < p->ndim; d++) {
        if (d == job->across) continue;
        dst += outer % p->shape[d] * p->stride[0][d], src += outer % p->shape[d] * p->stride[1][d];
        outer /= p->shape[d];
    }
    int64_t n0 = p->shape[0] - i0 < job->tile ? p->shape[0] - i0 : job->tile;
    int64_t n1 = p->shape[job->across] - i1 < job->tile ? p->shape[job->across] - i1 : job->tile;
    _Alignas(64) char block[TILE * TILE * 4];
    int64_t row = n1 * job->to_size;
    for (int64_t r = 0; r < n0; r++) TPI_ISA_PICK(tpi_convert_run)(n1, src + r * p->stride[1][0], p->dtype[1], block + r * row, p->dtype[0]);
    TPI_ISA_PICK(tpi_transpose)(n0, n1, block, row, dst, p->stride[0][job->across], (int)job->to_size);
}

/* The destination is contiguous along dimension 0 and the source along another: worth it when both are more than a few. */
static bool is_transposed(copy_job *job) {
    const tpi_plan *p = job->plan;
    if (p->ndim < 2 || p->stride[0][0] != job->to_size || p->shape[0] < 8) return false;
    for (int d = 1; d < p->ndim; d++)
        if (p->stride[1][d] == job->from_size && p->shape[d] >= 8 && p->stride[1][0] != job->from_size && p->stride[1][0] != 0) {
            job->across = d;
            return true;
        }
    return false;
}

bool tpi_cpu_copy(tpi_plan *p) {
    if (p->numel == 0) return true;
    copy_job job = {.plan = p, .to = {p->ndim, p->shape, p->stride[0]}, .from = {p->ndim, p->shape, p->stride[1]}};
    job.to_size = tpi_dtype_bytes[p->dtype[0]], job.from_size = tpi_dtype_bytes[p->dtype[1]];
    job.to_packed = tpi_walk_is_packed(&job.to, job.to_size), job.from_packed = tpi_walk_is_packed(&job.from, job.from_size);
    bool worth = p->numel >= TPI_WORTH_THREADS;
    if (p->dtype[0] == p->dtype[1] && job.to_packed && job.from_packed) {
        if (p->data[0] == p->data[1]) return true;
        int64_t bytes = p->numel * job.to_size;
        tpi_parallel_for(tpi_ceil_div(bytes, BYTES_CHUNK), bytes >= 2 * BYTES_CHUNK, copy_bytes, &job);
    } else if (is_transposed(&job)) {
        job.tile = job.to_size > 4 ? TILE / 2 : TILE;
        job.tiles[0] = tpi_ceil_div(p->shape[0], job.tile), job.tiles[1] = tpi_ceil_div(p->shape[job.across], job.tile);
        int64_t outer = p->numel / (p->shape[0] * p->shape[job.across]);
        tpi_parallel_for(job.tiles[0] * job.tiles[1] * outer, worth, copy_tile, &job);
    } else {
        tpi_parallel_for(tpi_ceil_div(p->numel, TPI_CHUNK), worth, copy_chunk, &job);
    }
    return true;
}

/* ---- Fill ------------------------------------------------------------------------------------------------------------------- */
typedef struct fill_job {
    const tpi_plan *plan;
    tpi_walk to;
    bool packed;
    _Alignas(16) char element[16];
} fill_job;

static void fill_chunk(int64_t chunk, void *context) {
    const fill_job *job = context;
    const tpi_plan *p = job->plan;
    int dtype = p->dtype[0], size = tpi_dtype_bytes[dtype];
    int64_t at = chunk * TPI_CHUNK, end = at + TPI_CHUNK < p->numel ? at + TPI_CHUNK : p->numel;
    if (job->packed) {
        TPI_ISA_PICK(tpi_repeat)(end - at, job->element, p->data[0] + at * size, size);
        return;
    }
    _Alignas(64) char block[BLOCK * 16];
    TPI_ISA_PICK(tpi_repeat)(end - at < BLOCK ? end - at : BLOCK, job->element, block, size);
    for (int64_t n; at < end; at += n) {
        n = end - at < BLOCK ? end - at : BLOCK;
        tpi_store_walk(&job->to, at, n, block, dtype, p->data[0], dtype);
    }
}

bool tpi_cpu_fill(tpi_plan *p, const tp_scalar *value) {
    if (p->numel == 0) return true;
    fill_job job = {.plan = p, .to = {p->ndim, p->shape, p->stride[0]}};
    job.packed = tpi_walk_is_packed(&job.to, tpi_dtype_bytes[p->dtype[0]]);
    tpi_store_scalar(job.element, (tp_dtype)p->dtype[0], *value);
    tpi_parallel_for(tpi_ceil_div(p->numel, TPI_CHUNK), p->numel >= TPI_WORTH_THREADS, fill_chunk, &job);
    return true;
}
