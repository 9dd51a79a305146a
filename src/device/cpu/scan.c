/* The driver of scans along one dim. Columns are the other dims; a column is scanned alone where its elements lie
 * together (`inner`), and many side by side where columns do (`outer`).
 *
 * A few long columns are cut into pieces of a fixed length: the totals of pieces, their running merge, then each piece
 * from the state before it. That goes group by group of pieces, so that the second pass finds the first one's elements
 * in the caches. Whether and where to cut depends on shapes alone, and so do the bits. */
#include "base/scratch.h"
#include "base/threads.h"
#include "device/cpu/axes.h"
#include "device/cpu/cpu.h"
#include "device/launch.h"
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 512,        /* columns side by side */
    BLOCK = 512,        /* elements of a column that go through scratch at a time */
    INNER_PIECE = 8192, /* elements of a piece of one column */
    OUTER_PIECE = 256,  /* rows of a piece of many columns */
    GROUP = 64,         /* pieces that the two passes go over before the next */
    FEW_COLUMNS = 16,
    FEW_BLOCKS = 16, /* from this many blocks on, there is work enough without cutting columns */
};

typedef struct scan_job {
    const tpi_scan_op *op;
    const tpi_scan_kernel *kernel;
    const tpi_param *params;
    tp_tensor *x;
    tp_tensor *const *outs;
    tpi_axes kept;
    int64_t length, x_step, out_step[TPI_AXES_OUTS]; /* along the scanned dim, in bytes */
    int64_t across[1 + TPI_AXES_OUTS];               /* from column to column: x, then the results */
    tp_dtype type, out_type[TPI_AXES_OUTS];          /* of the kernel's blocks */
    bool side_by_side;
    bool direct; /* a column's elements, read and written, lie as the kernel wants them */
    int64_t width, blocks, piece, pieces, per_chunk;
    tpi_states states; /* of all pieces but the last: totals, then what comes before each next piece */
    bool totals_only;
    int64_t first, last; /* the group's pieces: first .. last - 1 */
    tpi_scratch scratch; /* scan_scratch of each thread */
} scan_job;

typedef struct scan_scratch { /* where a chunk has its blocks */
    char *x, *out[TPI_AXES_OUTS], *state[TPI_STATES];
} scan_scratch;

enum { SCRATCH_BLOCK = (BLOCK > WIDTH ? BLOCK : WIDTH) * 16 };

static size_t scratch_bytes(const scan_job *job) {
    return (size_t)(1 + job->op->nout + job->op->nstate) * SCRATCH_BLOCK;
}

static scan_scratch lay_out(const scan_job *job, char *scratch) {
    scan_scratch s = {.x = scratch};
    for (int k = 0; k < job->op->nout; k++) s.out[k] = scratch += SCRATCH_BLOCK;
    for (int v = 0; v < job->op->nstate; v++) s.state[v] = scratch += SCRATCH_BLOCK;
    return s;
}

/* One kernel call over n elements, x_stride and out_stride bytes apart, in place where they lie as the kernel wants
 * them. */
static void scan_run(const scan_job *job, scan_scratch *s, int64_t n, const char *x, int64_t x_stride, char *const *out,
                     const int64_t *out_stride, int64_t index, char *const *state) {
    if (job->x->dtype != job->type || x_stride != tpi_dtype_bytes[job->type]) {
        tpi_load_run(n, x, x_stride, job->x->dtype, s->x, job->type);
        x = s->x;
    }
    char *to[TPI_AXES_OUTS];
    for (int k = 0; k < job->op->nout; k++) {
        bool direct = !job->totals_only && job->outs[k]->dtype == job->out_type[k] &&
                      out_stride[k] == tpi_dtype_bytes[job->out_type[k]];
        to[k] = direct ? out[k] : s->out[k];
    }
    (job->side_by_side ? job->kernel->outer : job->kernel->inner)(n, x, index, state, to, job->params);
    for (int k = 0; k < job->op->nout && !job->totals_only; k++)
        if (to[k] == s->out[k]) tpi_store_run(n, to[k], job->out_type[k], out[k], out_stride[k], job->outs[k]->dtype);
}

static void total_run(const scan_job *job, scan_scratch *s, int64_t n, const char *x, int64_t index,
                      char *const *state) {
    if (job->x->dtype != job->type || job->x_step != tpi_dtype_bytes[job->type]) {
        tpi_load_run(n, x, job->x_step, job->x->dtype, s->x, job->type);
        x = s->x;
    }
    job->kernel->total(n, x, index, state, job->params);
}

/* Elements from .. to of the block's columns, with the states as they are before `from`. */
static void scan_piece(const scan_job *job, scan_scratch *s, const tpi_columns *c, int64_t from, int64_t to,
                       char *const *state) {
    int nout = job->op->nout, nstate = job->op->nstate;
    for (int64_t i = 0; job->side_by_side && from + i < to; i++) {
        char *out[TPI_AXES_OUTS];
        for (int k = 0; k < nout; k++) out[k] = c->out[k] + (from + i) * job->out_step[k];
        scan_run(job, s, c->count, c->x + (from + i) * job->x_step, job->across[0], out, job->across + 1, from + i,
                 state);
    }
    for (int64_t col = 0; !job->side_by_side && col < c->count; col++) {
        char *out[TPI_AXES_OUTS], *at[TPI_STATES];
        for (int v = 0; v < nstate; v++) at[v] = state[v] + col * job->states.size[v];
        for (int64_t i = from, n; i < to; i += n) {
            n = to - i < BLOCK || job->direct ? to - i : BLOCK;
            if (job->totals_only) {
                total_run(job, s, n, c->x + col * job->across[0] + i * job->x_step, i, at);
                continue;
            }
            for (int k = 0; k < nout; k++) out[k] = c->out[k] + col * job->across[1 + k] + i * job->out_step[k];
            scan_run(job, s, n, c->x + col * job->across[0] + i * job->x_step, job->x_step, out, job->out_step, i, at);
        }
    }
}

static tpi_columns columns_at(const scan_job *job, int64_t block) {
    return tpi_columns_at(&job->kept, job->x, job->op->nout, job->outs, job->width, block);
}

static void scan_block(const scan_job *job, scan_scratch *s, int64_t block, int64_t piece) {
    int64_t from = piece * job->piece, to = from + job->piece < job->length ? from + job->piece : job->length;
    tpi_columns c = columns_at(job, block);
    char *state[TPI_STATES] = {s->state[0], s->state[1], s->state[2], s->state[3]};
    if (job->totals_only)
        tpi_states_of(&job->states, &c, piece, state);
    else if (piece > 0)
        tpi_states_of(&job->states, &c, piece - 1, state);
    if (job->totals_only || piece == 0) job->kernel->start(c.count, state, job->params);
    scan_piece(job, s, &c, from, to, state);
}

static void scan_chunk(int64_t chunk, void *context) {
    const scan_job *job = context;
    int64_t pieces = job->last - job->first, units = job->blocks * pieces;
    int64_t unit = chunk * job->per_chunk, end = unit + job->per_chunk < units ? unit + job->per_chunk : units;
    _Alignas(64) char stack[TPI_SCRATCH_STACK];
    char *scratch = tpi_scratch_acquire(&job->scratch, stack);
    scan_scratch s = lay_out(job, scratch);
    for (; unit < end; unit++) {
        int64_t piece = job->first + unit % pieces;
        if (!job->totals_only || piece < job->pieces - 1) scan_block(job, &s, unit / pieces, piece);
    }
    tpi_scratch_release(&job->scratch, scratch);
}

/* Totals of the group's single pieces become totals of all pieces up to and including each. */
static void prefix_block(int64_t block, void *context) {
    const scan_job *job = context;
    tpi_columns c = columns_at(job, block);
    _Alignas(64) char stack[TPI_SCRATCH_STACK];
    char *scratch = tpi_scratch_acquire(&job->scratch, stack), *now[TPI_STATES];
    scan_scratch s = lay_out(job, scratch);
    char *const *sum = s.state;
    int64_t done = job->first ? job->first - 1 : 0; /* the last piece whose total is one of all before it */
    tpi_states_of(&job->states, &c, done, now);
    for (int v = 0; v < job->op->nstate; v++) memcpy(sum[v], now[v], (size_t)(c.count * job->states.size[v]));
    for (int64_t p = done + 1; p < job->last && p < job->pieces - 1; p++) {
        tpi_states_of(&job->states, &c, p, now);
        job->kernel->merge(c.count, sum, now, job->params);
        for (int v = 0; v < job->op->nstate; v++) memcpy(now[v], sum[v], (size_t)(c.count * job->states.size[v]));
    }
    tpi_scratch_release(&job->scratch, scratch);
}

static void choose_cut(scan_job *job) {
    const tpi_axes *k = &job->kept;
    job->side_by_side = k->ndim && k->size[0] >= FEW_COLUMNS && llabs(k->x[0]) < llabs(job->x_step);
    job->width = WIDTH;
    if (!job->side_by_side && TPI_CHUNK / job->length < WIDTH)
        job->width = job->length < TPI_CHUNK ? TPI_CHUNK / job->length : 1;
    job->blocks = tpi_columns_blocks(k, job->width);
    job->piece = job->side_by_side ? OUTER_PIECE : INNER_PIECE;
    bool cut = job->kernel->total && job->blocks < FEW_BLOCKS && job->length > 2 * job->piece;
    if (!cut) job->piece = job->length;
    job->pieces = tpi_ceil_div(job->length, job->piece);
    int64_t columns = k->ndim && k->size[0] < job->width ? k->size[0] : job->width;
    job->per_chunk = TPI_CHUNK / (columns * job->piece);
    if (job->per_chunk < 1) job->per_chunk = 1;
}

static bool run_pieces(scan_job *job) {
    bool worth = job->x->numel >= TPI_WORTH_THREADS;
    int64_t most = tpi_ceil_div(job->blocks * (job->pieces < GROUP ? job->pieces : GROUP), job->per_chunk);
    if (!tpi_scratch_make(&job->scratch, scratch_bytes(job), most, worth)) return false;
    bool ok = tpi_states_make(&job->states, job->pieces - 1, job->kept.total);
    for (job->first = 0; ok && job->first < job->pieces; job->first = job->last) {
        job->last = job->first + GROUP < job->pieces ? job->first + GROUP : job->pieces;
        int64_t chunks = tpi_ceil_div(job->blocks * (job->last - job->first), job->per_chunk);
        if (job->pieces > 1) {
            job->totals_only = true;
            tpi_parallel_for(chunks, worth, scan_chunk, job);
            tpi_parallel_for(job->blocks, false, prefix_block, job);
            job->totals_only = false;
        }
        tpi_parallel_for(chunks, worth, scan_chunk, job);
    }
    tpi_states_free(&job->states);
    tpi_scratch_free(&job->scratch);
    return ok;
}

bool tpi_cpu_scan(const tpi_scan_op *op, tp_tensor *const *outs, tp_tensor *x, int dim, tpi_ctype compute,
                  const tpi_param *params) {
    scan_job job = {.op = op, .params = params, .x = x, .outs = outs, .type = tpi_ctype_dtype(compute), .length = 1};
    job.kernel = op->fn[tpi_cpu_isa] ? &op->fn[tpi_cpu_isa][compute] : NULL;
    if (!job.kernel || !job.kernel->start)
        return tpi_refuse(TP_ERR_MISSING, "%s has no CPU kernel for %s", op->name, tp_dtype_name(job.type));
    if (x->numel == 0) return true;
    job.states = tpi_states_for(op->nstate, op->state_type, compute);
    bool mask[TP_MAX_DIMS] = {false};
    if (x->ndim) {
        mask[dim] = true;
        job.length = x->shape[dim];
        job.x_step = x->strides[dim] * (int64_t)tpi_itemsize(x);
    }
    tpi_axes_select(&job.kept, x, op->nout, outs, mask, false, false);
    job.across[0] = job.kept.ndim ? job.kept.x[0] : 0;
    job.direct = x->dtype == job.type && job.x_step == tpi_dtype_bytes[job.type];
    for (int k = 0; k < op->nout; k++) {
        job.out_type[k] = tpi_result_dtype(op->out_type[k], job.type);
        job.out_step[k] = x->ndim ? outs[k]->strides[dim] * (int64_t)tpi_itemsize(outs[k]) : 0;
        job.across[1 + k] = job.kept.ndim ? job.kept.out[k][0] : 0;
        job.direct &= outs[k]->dtype == job.out_type[k] && job.out_step[k] == tpi_dtype_bytes[job.out_type[k]];
    }
    choose_cut(&job);
    return run_pieces(&job);
}
