/* The driver of reductions. Dims are sorted into kept ones (columns of the result) and reduced ones (what a column folds). Where
 * elements of a column lie together, the kernel runs down columns one at a time (`inner`); where columns lie side by side,
 * it takes a row of many columns at a time (`outer`). Long columns are cut into pieces of a fixed length whose states merge
 * in order by a tree of fixed shape: the bits depend on shapes alone, and rounding errors stay small. */
#include "base/threads.h"
#include "device/cpu/axes.h"
#include "device/cpu/cpu.h"
#include "device/launch.h"
#include <stdlib.h>

enum {
    WIDTH = 1024,        /* columns at a time */
    ROWS = 4,            /* rows of them that go through scratch at a time */
    INNER_PIECE = 4096,  /* elements of a column's piece when columns are taken one at a time */
    OUTER_PIECE = 256,   /* and when they are taken side by side */
    FEW_COLUMNS = 16,    /* fewer side by side are not worth a row */
    SHORT_COLUMN = 32,   /* shorter columns are taken side by side even if their elements lie together */
};

typedef struct fold_job {
    const tpi_fold_op *op;
    const tpi_fold_kernel *kernel;
    const tpi_param *params;
    tp_tensor *x;
    tp_tensor *const *outs;
    tpi_axes kept, reduced;
    tp_dtype type;                   /* of the kernel's blocks */
    bool side_by_side;
    bool columns_lie_closer;         /* than elements of a column: then units of the same piece come one after the other */
    int64_t width, blocks;           /* columns in a block, blocks */
    int64_t piece, pieces;           /* elements in a piece, pieces of a column */
    int64_t units, per_chunk;        /* unit: one piece of one block */
    tpi_states states;               /* of all pieces, when there is more than one */
} fold_job;

typedef struct fold_scratch {
    _Alignas(64) char x[INNER_PIECE * 16];
    _Alignas(64) char state[TPI_STATES][WIDTH * 16];
} fold_scratch;

/* Elements from .. to of each column, one column after the other. */
static void fold_inner(const fold_job *job, const tpi_columns *c, int64_t from, int64_t to, char *const *state, char *scratch) {
    const tpi_axes *r = &job->reduced;
    int64_t n = to - from, size = tpi_dtype_bytes[job->type], stride = r->ndim ? r->x[0] : size;
    tpi_walk walk = tpi_axes_walk(r);
    bool one_run = r->ndim <= 1, direct = one_run && job->x->dtype == job->type && (stride == size || n == 1);
    for (int64_t i = 0; i < c->count; i++) {
        const char *x = c->x + (job->kept.ndim ? i * job->kept.x[0] : 0);
        char *at[TPI_STATES];
        for (int v = 0; v < job->op->nstate; v++) at[v] = state[v] + i * job->states.size[v];
        if (direct) x += from * stride;
        else if (one_run) tpi_load_run(n, x + from * stride, stride, job->x->dtype, scratch, job->type);
        else tpi_load_walk(&walk, from, n, x, job->x->dtype, scratch, job->type);
        job->kernel->inner(n, direct ? x : scratch, from, at, job->params);
    }
}

/* The same elements, one row of all columns after the other. */
static void fold_outer(const fold_job *job, const tpi_columns *c, int64_t from, int64_t to, char *const *state, char *scratch) {
    tpi_walk walk = tpi_axes_walk(&job->reduced);
    int64_t stride = job->kept.x[0], along = walk.ndim ? walk.stride[0] : 0, length = walk.ndim ? walk.shape[0] : 1;
    int64_t size = tpi_dtype_bytes[job->type];
    bool direct = job->x->dtype == job->type && stride == size, from_memory = job->x->numel * size >= TPI_STREAM_BYTES;
    for (int64_t i = from, n; i < to; i += n) {
        const char *x = c->x + tpi_walk_offset(&walk, i);
        n = walk.ndim ? length - i % length : 1; /* rows as far apart from each other */
        if (n > to - i) n = to - i;
        if (!direct && n > ROWS) n = ROWS;
        if (direct && from_memory) n = 1; /* memory brings one row after the other faster than several side by side */
        for (int64_t r = 0; r < n && !direct; r++) tpi_load_run(c->count, x + r * along, stride, job->x->dtype, scratch + r * WIDTH * size, job->type);
        job->kernel->outer(c->count, n, direct ? x : scratch, direct ? along : WIDTH * size, i, state, job->params);
    }
}

static void finish(const fold_job *job, const tpi_columns *c, char *const *state) {
    _Alignas(64) char block[TPI_AXES_OUTS][WIDTH * 16];
    char *out[TPI_AXES_OUTS] = {block[0], block[1], block[2], block[3]};
    job->kernel->finish(c->count, state, job->reduced.total, out, job->params);
    for (int k = 0; k < job->op->nout; k++) {
        int dtype = job->outs[k]->dtype;
        int64_t stride = job->kept.ndim ? job->kept.out[k][0] : tpi_dtype_bytes[dtype];
        tpi_store_run(c->count, block[k], tpi_result_dtype(job->op->out_type[k], job->type), c->out[k], stride, dtype);
    }
}

static void fold_chunk(int64_t chunk, void *context) {
    const fold_job *job = context;
    int64_t unit = chunk * job->per_chunk, end = unit + job->per_chunk < job->units ? unit + job->per_chunk : job->units;
    fold_scratch s;
    for (; unit < end; unit++) {
        int64_t piece = job->columns_lie_closer ? unit / job->blocks : unit % job->pieces;
        int64_t block = job->columns_lie_closer ? unit % job->blocks : unit / job->pieces;
        int64_t from = piece * job->piece, total = job->reduced.total;
        int64_t to = from + job->piece < total ? from + job->piece : total;
        tpi_columns c = tpi_columns_at(&job->kept, job->x, job->op->nout, job->outs, job->width, block);
        char *state[TPI_STATES] = {s.state[0], s.state[1], s.state[2], s.state[3]};
        if (job->pieces > 1) tpi_states_of(&job->states, &c, piece, state);
        job->kernel->start(c.count, state, job->params);
        if (to > from && job->side_by_side) fold_outer(job, &c, from, to, state, s.x);
        else if (to > from) fold_inner(job, &c, from, to, state, s.x);
        if (job->pieces == 1) finish(job, &c, state);
    }
}

static void merge_block(int64_t block, void *context) {
    const fold_job *job = context;
    tpi_columns c = tpi_columns_at(&job->kept, job->x, job->op->nout, job->outs, job->width, block);
    char *left[TPI_STATES], *right[TPI_STATES];
    for (int64_t step = 1; step < job->pieces; step *= 2)
        for (int64_t p = 0; p + step < job->pieces; p += 2 * step) {
            tpi_states_of(&job->states, &c, p, left);
            tpi_states_of(&job->states, &c, p + step, right);
            job->kernel->merge(c.count, left, right, job->params);
        }
    tpi_states_of(&job->states, &c, 0, left);
    finish(job, &c, left);
}

static void choose_cut(fold_job *job) {
    const tpi_axes *k = &job->kept, *r = &job->reduced;
    job->columns_lie_closer = k->ndim && r->ndim && llabs(k->x[0]) < llabs(r->x[0]);
    job->side_by_side = k->ndim && k->size[0] >= FEW_COLUMNS && (job->columns_lie_closer || r->total < SHORT_COLUMN);
    job->piece = job->side_by_side ? OUTER_PIECE : INNER_PIECE;
    job->pieces = r->total > job->piece ? tpi_ceil_div(r->total, job->piece) : 1;
    int64_t length = r->total < job->piece ? r->total : job->piece;
    if (length < 1) length = 1;
    job->width = WIDTH;
    if (!job->side_by_side && TPI_CHUNK / length < WIDTH) job->width = TPI_CHUNK / length;
    if (job->pieces > 1 && !job->side_by_side) job->width = 1;
    job->blocks = tpi_columns_blocks(k, job->width);
    job->units = job->blocks * job->pieces;
    int64_t columns = k->ndim && k->size[0] < job->width ? k->size[0] : job->width;
    job->per_chunk = TPI_CHUNK / (columns * length);
    if (job->per_chunk < 1) job->per_chunk = 1;
}

bool tpi_cpu_fold(const tpi_fold_op *op, tp_tensor *const *outs, tp_tensor *x, const bool *reduced, tpi_ctype compute, const tpi_param *params) {
    fold_job job = {.op = op, .params = params, .x = x, .outs = outs, .type = tpi_ctype_dtype(compute)};
    job.kernel = op->fn[tpi_cpu_isa] ? &op->fn[tpi_cpu_isa][compute] : NULL;
    if (!job.kernel || !job.kernel->start) return tpi_refuse(TP_ERR_MISSING, "%s has no CPU kernel for %s", op->name, tp_dtype_name(job.type));
    job.states = tpi_states_for(op->nstate, op->state_type, compute);
    tpi_axes_take(&job.kept, x, op->nout, outs, reduced, false, false);
    tpi_axes_take(&job.reduced, x, 0, outs, reduced, true, op->uses_index);
    if (job.kept.total == 0) return true;
    choose_cut(&job);
    if (!tpi_states_make(&job.states, job.pieces > 1 ? job.pieces : 0, job.kept.total)) return false;
    bool worth = x->numel >= TPI_WORTH_THREADS;
    tpi_parallel_for(tpi_ceil_div(job.units, job.per_chunk), worth, fold_chunk, &job);
    if (job.pieces > 1) tpi_parallel_for(job.blocks, job.kept.total * job.pieces >= TPI_WORTH_THREADS, merge_block, &job);
    tpi_states_free(&job.states);
    return true;
}
