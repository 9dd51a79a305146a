/* The driver of reductions. Dims are sorted into kept ones (columns of the result) and reduced ones (what a column
 * folds). Where elements of a column lie together, the kernel runs down columns one at a time (`inner`); where columns
 * lie side by side, it takes a row of many columns at a time (`outer`). Long columns are cut into pieces of a fixed
 * length whose states merge in order by a tree of fixed shape: the bits depend on shapes alone, and rounding errors
 * stay small.
 *
 * A fold may be fed by a block program (device/block_program.h): then each stretch of elements is made right before the
 * kernel reads it. */
#include "base/scratch.h"
#include "base/threads.h"
#include "device/cpu/axes.h"
#include "device/cpu/cpu.h"
#include "device/cpu/block_program.h"
#include "device/cpu/join.h"
#include "device/launch.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 1024,        /* columns at a time */
    ROWS = 4,            /* rows of them that go through scratch at a time */
    INNER_PIECE = 4096,  /* elements of a column's piece when columns are taken one at a time */
    OUTER_PIECE = 256,   /* and when they are taken side by side */
    FEW_COLUMNS = 16,    /* fewer side by side are not worth a row */
    SHORT_COLUMN = 32,   /* shorter columns are taken side by side even if their elements lie together */
    ENOUGH_CHUNKS = 64,  /* for balance between threads */
    SHORT_STRETCH = 256, /* elements: a program is not started for fewer */
};

typedef struct fold_job {
    const tpi_fold_op *op;
    const tpi_fold_kernel *kernel;
    const tpi_param *params;
    tp_tensor *x;
    tp_tensor *const *outs;
    tpi_axes kept, reduced;
    tp_dtype type; /* of the kernel's blocks */
    bool side_by_side;
    tpi_join join;               /* joins narrow elements before the kernel sees them, if it has kernels */
    bool direct;                 /* one column after the other, and the kernel reads x itself */
    bool columns_lie_closer;     /* than elements of a column: then units of the same piece come one after the other */
    int64_t width, blocks;       /* columns in a block, blocks */
    int64_t piece, pieces;       /* elements in a piece, pieces of a column */
    int64_t units, per_chunk;    /* unit: one piece of one block */
    int64_t joined;              /* pieces whose states are merged where they were made: a power of two, 1: none */
    tpi_states states;           /* of all pieces, when there is more than one */
    const tpi_program_job *feed; /* NULL: the elements are in x */
    int64_t together;            /* fed: columns (inner) or rows (outer) that are made at once */
    tpi_fold_end end;            /* fed: what the program does itself with its elements where it can */
    tpi_scratch scratch;         /* fold_scratch of each thread */
    size_t x_bytes, column_bytes,
        fed_bytes; /* its parts: elements of x; a variable of all columns of a block; what a program needs */
} fold_job;

typedef struct fed_scratch {
    tpi_register_program registers;
    _Alignas(64) char raw[INNER_PIECE * 16]; /* in the program's dtype, where the kernel has another */
    tpi_program_scratch program;             /* its last blocks are there if the program has so many */
} fed_scratch;

typedef struct fold_scratch { /* where a chunk has its blocks */
    fed_scratch *fed;         /* NULL: no program feeds it */
    char *x, *state[TPI_STATES], *out[TPI_AXES_OUTS];
} fold_scratch;

static size_t whole_lines(int64_t bytes) { return (size_t)(bytes + 63) / 64 * 64; }

/* The parts' sizes; the sum of them. */
static size_t scratch_bytes(fold_job *job) {
    int64_t columns = job->kept.ndim && job->kept.size[0] < job->width ? job->kept.size[0]
                      : job->kept.ndim                                 ? job->width
                                                                       : 1;
    bool whole_piece = job->side_by_side || job->feed || job->reduced.total > INNER_PIECE;
    int64_t elements = job->direct ? 0 : whole_piece ? INNER_PIECE : job->reduced.total;
    job->x_bytes = whole_lines(elements * tpi_dtype_bytes[job->type]);
    job->column_bytes = whole_lines((columns + TPI_LANES - 1) / TPI_LANES * TPI_LANES * 16);
    job->fed_bytes =
        job->feed ? whole_lines((int64_t)offsetof(fed_scratch, program)) + tpi_program_scratch_bytes(job->feed) : 0;
    int states = job->pieces == 1 ? job->op->nstate : 0;
    size_t join_bytes = job->join.n ? TPI_JOIN_SCRATCH : 0;
    return job->fed_bytes + job->x_bytes + join_bytes + (size_t)(states + job->op->nout) * job->column_bytes;
}

static fold_scratch lay_out(const fold_job *job, char *scratch) {
    fold_scratch s = {.fed = job->feed ? (fed_scratch *)(void *)scratch : NULL, .x = scratch + job->fed_bytes};
    char *at = s.x + job->x_bytes + (job->join.n ? TPI_JOIN_SCRATCH : 0);
    for (int v = 0; v < job->op->nstate && job->pieces == 1; v++, at += job->column_bytes) s.state[v] = at;
    for (int k = 0; k < job->op->nout; k++, at += job->column_bytes) s.out[k] = at;
    return s;
}

/* ---- Fed by a program ---- */

static int64_t position(const fold_job *job, const char *x) {
    return (int64_t)((uintptr_t)x - (uintptr_t)job->x->data) / tpi_dtype_bytes[job->x->dtype];
}

/* n elements from the one that would be at x on, in the kernel's dtype. */
static const char *make_stretch(const fold_job *job, fed_scratch *fed, const char *x, int64_t n, char *scratch) {
    int64_t size = tpi_dtype_bytes[job->x->dtype], at = position(job, x);
    bool same = job->x->dtype == job->type;
    char *to = job->feed->aside < 0 ? (char *)x : same ? scratch : fed->raw; /* in x itself, if it has memory */
    tpi_program_range(job->feed, &fed->program, at, at + n, to);
    if (same) return to;
    tpi_load_run(n, to, size, job->x->dtype, scratch, job->type);
    return scratch;
}

/* The first columns of c whose n elements from x on the program folds itself: how many. */
static int64_t fold_columns(const fold_job *job, const tpi_columns *c, const char *x, int64_t apart, int64_t n,
                            float *state, fed_scratch *fed) {
    int64_t i = 0;
    if (job->end != TPI_FOLD_ENDS_IN_NONE && tpi_program_can_fold(job->feed, n))
        while (i < c->count && tpi_program_fold(job->feed, &fed->program, &fed->registers, job->end,
                                                position(job, x + i * apart), n, &state[i]))
            i++;
    return i;
}

/* Elements from .. to of each column; columns that lie one after the other are made together. */
static void feed_inner(const fold_job *job, const tpi_columns *c, int64_t from, int64_t to, char *const *state,
                       char *scratch, fed_scratch *fed) {
    int64_t n = to - from, size = tpi_dtype_bytes[job->type], apart = job->kept.ndim ? job->kept.x[0] : 0,
            raw = tpi_dtype_bytes[job->x->dtype];
    int64_t folded = fold_columns(job, c, c->x + from * raw, apart, n, (float *)(void *)state[0], fed);
    for (int64_t i = folded, count; i < c->count; i += count) {
        count = c->count - i < job->together ? c->count - i : job->together;
        const char *made = make_stretch(job, fed, c->x + i * apart + from * raw, count * n, scratch);
        char *at[TPI_STATES];
        for (int v = 0; v < job->op->nstate; v++) at[v] = state[v] + i * job->states.size[v];
        job->kernel->inner(&(tpi_stretches){count, n, made, n * size, from, 0, 1}, at, job->params);
    }
}

/* The same, row by row; rows that lie one after the other are made together. */
static void feed_outer(const fold_job *job, const tpi_columns *c, int64_t from, int64_t to, char *const *state,
                       char *scratch, fed_scratch *fed) {
    tpi_walk walk = tpi_axes_walk(&job->reduced);
    int64_t length = walk.ndim ? walk.shape[0] : 1, size = tpi_dtype_bytes[job->type];
    for (int64_t i = from, n; i < to; i += n) {
        n = walk.ndim ? length - i % length : 1;
        if (n > to - i) n = to - i;
        if (n > job->together) n = job->together;
        const char *made = make_stretch(job, fed, c->x + tpi_walk_offset(&walk, i), n * c->count, scratch);
        job->kernel->outer(c->count, n, made, c->count * size, i, state, job->params);
    }
}

/* How many columns or rows are made at once, 0: the elements of a stretch do not lie together, or are too few. */
static int64_t stretch_of(const fold_job *job) {
    const tpi_axes *k = &job->kept, *r = &job->reduced;
    int64_t size = tpi_dtype_bytes[job->x->dtype], length = r->total < job->piece ? r->total : job->piece, together = 1;
    if (job->side_by_side) {
        if (k->x[0] != size) return 0;
        bool adjoin = r->ndim && r->x[0] == k->size[0] * size && k->size[0] <= job->width;
        if (adjoin) together = INNER_PIECE / k->size[0];
        return adjoin || k->size[0] >= SHORT_STRETCH ? together : 0;
    }
    if (r->ndim != 1 || r->x[0] != size) return 0;
    bool adjoin = job->pieces == 1 && k->ndim && k->x[0] == r->total * size;
    if (adjoin) together = INNER_PIECE / length;
    return together > 1 || length >= SHORT_STRETCH ? together : 0;
}

/* ---- From memory ---- */

/* n elements of each column from `from` on, joined to a few. */
static void join_inner(const fold_job *job, const tpi_columns *c, int64_t from, int64_t n, char *const *state,
                       char *scratch) {
    const int64_t size = job->join.size, apart = job->kept.ndim ? job->kept.x[0] : 0;
    char *joined = scratch + job->x_bytes;
    for (int64_t i = 0; i < c->count; i++) {
        char *at[TPI_STATES];
        for (int v = 0; v < job->op->nstate; v++) at[v] = state[v] + i * job->states.size[v];
        for (int k = 0; k < job->join.n; k++) {
            const int64_t few = tpi_join_column(&job->join, k, n, c->x + i * apart + from * size, joined);
            tpi_load_run(few, joined, size, job->x->dtype, scratch, job->type);
            job->kernel->inner(&(tpi_stretches){1, few, scratch, 0, from, 0, 1}, at, job->params);
        }
    }
}

/* Rows x, x + along, ... of all columns, joined to one. */
static void join_outer(const fold_job *job, const tpi_columns *c, int64_t rows, const char *x, int64_t along,
                       char *const *state, char *scratch) {
    char *joined = scratch + job->x_bytes;
    for (int k = 0; k < job->join.n; k++) {
        tpi_join_rows(&job->join, k, c->count, rows, x, along, joined);
        tpi_load_run(c->count, joined, job->join.size, job->x->dtype, scratch, job->type);
        job->kernel->outer(c->count, 1, scratch, 0, 0, state, job->params);
    }
}

/* Elements from .. to of each column, one column after the other. */
static void fold_inner(const fold_job *job, const tpi_columns *c, int64_t from, int64_t to, char *const *state,
                       char *scratch) {
    const tpi_axes *r = &job->reduced;
    int64_t n = to - from, stride = r->ndim ? r->x[0] : 0, apart = job->kept.ndim ? job->kept.x[0] : 0;
    if (job->join.n && n >= TPI_JOIN_LEAST) {
        join_inner(job, c, from, n, state, scratch);
        return;
    }
    if (job->direct) {
        job->kernel->inner(&(tpi_stretches){c->count, n, c->x + from * stride, apart, from, 0, 1}, state, job->params);
        return;
    }
    tpi_walk walk = tpi_axes_walk(r);
    for (int64_t i = 0; i < c->count; i++) {
        char *at[TPI_STATES];
        for (int v = 0; v < job->op->nstate; v++) at[v] = state[v] + i * job->states.size[v];
        if (r->ndim <= 1)
            tpi_load_run(n, c->x + i * apart + from * stride, stride, job->x->dtype, scratch, job->type);
        else
            tpi_load_walk(&walk, from, n, c->x + i * apart, job->x->dtype, scratch, job->type);
        job->kernel->inner(&(tpi_stretches){1, n, scratch, 0, from, 0, 1}, at, job->params);
    }
}

/* Whole pieces of a column, from the unit's on, that the kernel takes one after the other. */
static int64_t whole_pieces(const fold_job *job, int64_t unit, int64_t end) {
    if (!job->direct || job->pieces == 1 || job->width > 1 || job->columns_lie_closer) return 0;
    int64_t left = job->reduced.total / job->piece - unit % job->pieces;
    return left < end - unit ? left : end - unit;
}

static void fold_pieces(const fold_job *job, int64_t unit, int64_t count) {
    int64_t piece = unit % job->pieces, stride = job->reduced.x[0], columns = job->states.columns;
    tpi_columns c = tpi_columns_at(&job->kept, job->x, job->op->nout, job->outs, job->width, unit / job->pieces);
    char *state[TPI_STATES];
    for (int64_t k = 0; k < count; k += columns == 1 ? count : 1) {
        tpi_states_of(&job->states, &c, piece + k, state);
        job->kernel->start(columns == 1 ? count : 1, state, job->params);
    }
    tpi_states_of(&job->states, &c, piece, state);
    const tpi_stretches from = {
        count,      job->piece, c.x + piece * job->piece * stride, job->piece * stride, piece * job->piece,
        job->piece, columns};
    job->kernel->inner(&from, state, job->params);
}

/* The same elements, one row of all columns after the other. */
static void fold_outer(const fold_job *job, const tpi_columns *c, int64_t from, int64_t to, char *const *state,
                       char *scratch) {
    tpi_walk walk = tpi_axes_walk(&job->reduced);
    int64_t stride = job->kept.x[0], along = walk.ndim ? walk.stride[0] : 0, length = walk.ndim ? walk.shape[0] : 1;
    int64_t size = tpi_dtype_bytes[job->type];
    bool direct = job->x->dtype == job->type && stride == size,
         from_memory = job->x->numel * size >= tpi_nontemporal_bytes();
    for (int64_t i = from, n; i < to; i += n) {
        const char *x = c->x + tpi_walk_offset(&walk, i);
        n = walk.ndim ? length - i % length : 1; /* rows as far apart from each other */
        if (n > to - i) n = to - i;
        if (job->join.n && n > 1 && c->count >= TPI_LANES) {
            join_outer(job, c, n, x, along, state, scratch);
            continue;
        }
        if (!direct && n > ROWS) n = ROWS;
        if (direct && from_memory) n = 1; /* memory brings one row after the other faster than several side by side */
        for (int64_t r = 0; r < n && !direct; r++)
            tpi_load_run(c->count, x + r * along, stride, job->x->dtype, scratch + r * WIDTH * size, job->type);
        job->kernel->outer(c->count, n, direct ? x : scratch, direct ? along : WIDTH * size, i, state, job->params);
    }
}

static void finish(const fold_job *job, const tpi_columns *c, char *const *state, char *const *out) {
    job->kernel->finish(c->count, state, job->reduced.total, out, job->params);
    for (int k = 0; k < job->op->nout; k++) {
        int dtype = job->outs[k]->dtype;
        int64_t stride = job->kept.ndim ? job->kept.out[k][0] : tpi_dtype_bytes[dtype];
        tpi_store_run(c->count, out[k], tpi_result_dtype(job->op->out_type[k], job->type), c->out[k], stride, dtype);
    }
}

/* Merges the states of `pieces` pieces from `first` on, two and two, then those of pairs, from `step` apart on; the
 * first piece's is the result. */
static void merge_pieces(const fold_job *job, const tpi_columns *c, int64_t first, int64_t pieces, int64_t step) {
    char *left[TPI_STATES], *right[TPI_STATES];
    for (; step < pieces; step *= 2)
        for (int64_t p = 0; p + step < pieces; p += 2 * step) {
            tpi_states_of(&job->states, c, first + p, left);
            tpi_states_of(&job->states, c, first + p + step, right);
            job->kernel->merge(c->count, left, right, job->params);
        }
}

static void fold_unit(const fold_job *job, int64_t unit, const fold_scratch *s) {
    int64_t piece = job->columns_lie_closer ? unit / job->blocks : unit % job->pieces;
    int64_t block = job->columns_lie_closer ? unit % job->blocks : unit / job->pieces;
    int64_t from = piece * job->piece, total = job->reduced.total;
    int64_t to = from + job->piece < total ? from + job->piece : total;
    tpi_columns c = tpi_columns_at(&job->kept, job->x, job->op->nout, job->outs, job->width, block);
    char *state[TPI_STATES] = {s->state[0], s->state[1], s->state[2], s->state[3]};
    if (job->pieces > 1) tpi_states_of(&job->states, &c, piece, state);
    job->kernel->start(c.count, state, job->params);
    if (to > from && job->feed)
        (job->side_by_side ? feed_outer : feed_inner)(job, &c, from, to, state, s->x, s->fed);
    else if (to > from && job->side_by_side)
        fold_outer(job, &c, from, to, state, s->x);
    else if (to > from)
        fold_inner(job, &c, from, to, state, s->x);
    if (job->pieces == 1) finish(job, &c, state, s->out);
}

static void fold_chunk(int64_t chunk, void *context) {
    const fold_job *job = context;
    int64_t first = chunk * job->per_chunk,
            end = first + job->per_chunk < job->units ? first + job->per_chunk : job->units;
    _Alignas(64) char stack[TPI_SCRATCH_STACK];
    char *scratch = tpi_scratch_acquire(&job->scratch, stack);
    fold_scratch s = lay_out(job, scratch);
    if (s.fed) {
        tpi_program_begin(job->feed, &s.fed->program);
        s.fed->registers.nops = 0;
    }
    for (int64_t unit = first; unit < end;) {
        const int64_t whole = whole_pieces(job, unit, end);
        if (whole > 1) {
            fold_pieces(job, unit, whole);
            unit += whole;
        } else {
            fold_unit(job, unit, &s);
            unit++;
        }
    }
    tpi_scratch_release(&job->scratch, scratch);
    if (job->pieces == 1 || job->joined == 1) return;
    tpi_columns c = tpi_columns_at(&job->kept, job->x, job->op->nout, job->outs, job->width, first / job->pieces);
    merge_pieces(job, &c, first % job->pieces, end - first, 1);
}

static void merge_block(int64_t block, void *context) {
    const fold_job *job = context;
    tpi_columns c = tpi_columns_at(&job->kept, job->x, job->op->nout, job->outs, job->width, block);
    merge_pieces(job, &c, 0, job->pieces, job->joined);
    char *state[TPI_STATES];
    tpi_states_of(&job->states, &c, 0, state);
    _Alignas(64) char stack[TPI_SCRATCH_STACK];
    char *scratch = tpi_scratch_acquire(&job->scratch, stack);
    finish(job, &c, state, lay_out(job, scratch).out);
    tpi_scratch_release(&job->scratch, scratch);
}

static void choose_cut(fold_job *job) {
    const tpi_axes *k = &job->kept, *r = &job->reduced;
    job->columns_lie_closer = k->ndim && r->ndim && llabs(k->x[0]) < llabs(r->x[0]);
    job->side_by_side = k->ndim && k->size[0] >= FEW_COLUMNS && (job->columns_lie_closer || r->total < SHORT_COLUMN);
    job->direct = !job->side_by_side && job->x->dtype == job->type &&
                  (r->ndim == 0 || (r->ndim == 1 && (r->x[0] == tpi_dtype_bytes[job->type] || r->total == 1)));
    const tpi_axes *along = job->side_by_side ? k : r; /* what lies together is joined */
    if (along->ndim == 0 || along->x[0] != job->join.size || (!job->side_by_side && r->ndim > 1)) job->join.n = 0;
    job->piece = job->side_by_side ? OUTER_PIECE : job->join.n ? TPI_CHUNK : INNER_PIECE;
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
    while (job->pieces > 1 && job->units / job->per_chunk > ENOUGH_CHUNKS)
        job->per_chunk *= 2; /* states merge the same way, whoever has them */
    bool within_a_column = job->blocks == 1 || (!job->columns_lie_closer && job->pieces % job->per_chunk == 0);
    job->joined = within_a_column && (job->per_chunk & (job->per_chunk - 1)) == 0 ? job->per_chunk : 1;
}

static bool select_axes(fold_job *job, const bool *reduced) {
    tpi_axes_select(&job->kept, job->x, job->op->nout, job->outs, reduced, false, false);
    tpi_axes_select(&job->reduced, job->x, 0, job->outs, reduced, true, job->op->uses_index);
    if (job->kept.total == 0) return false;
    choose_cut(job);
    return true;
}

/* What is taken of x does not lie in the program's order: it is made as a whole, in memory of its own where x has none.
 */
static bool make_first(fold_job *job, const tpi_fold_prologue *feed) {
    tp_tensor *x = feed->has_memory ? tpi_retain(job->x)
                                    : tpi_empty_strided(tpi_shape(job->x), tpi_strides(job->x), (tp_dtype)job->x->dtype,
                                                        (tp_device){TP_CPU, 0});
    if (!x) return false;
    feed->plan->data[feed->operand] = x->data;
    bool ok = tpi_cpu_program((tp_device){TP_CPU, 0}, feed->program, feed->plan);
    if (ok)
        job->x = x;
    else
        tpi_release(x);
    return ok;
}

static bool run_fold(fold_job *job) {
    bool worth = job->x->numel >= TPI_WORTH_THREADS;
    int64_t chunks = tpi_ceil_div(job->units, job->per_chunk);
    if (!tpi_scratch_make(&job->scratch, scratch_bytes(job), chunks, worth)) return false;
    bool ok = tpi_states_make(&job->states, job->pieces > 1 ? job->pieces : 0, job->kept.total);
    if (ok) tpi_parallel_for(chunks, worth, fold_chunk, job);
    if (ok && job->pieces > 1)
        tpi_parallel_for(job->blocks, job->kept.total * job->pieces >= TPI_WORTH_THREADS, merge_block, job);
    tpi_states_free(&job->states);
    tpi_scratch_free(&job->scratch);
    return ok;
}

bool tpi_cpu_fold_of_program(const tpi_fold_op *op, tp_tensor *const *outs, tp_tensor *x, const bool *reduced,
                             tpi_ctype compute, const tpi_param *params, const tpi_fold_prologue *feed) {
    fold_job job = {.op = op, .params = params, .x = x, .outs = outs, .type = tpi_ctype_dtype(compute)};
    job.kernel = op->fn[tpi_cpu_isa] ? &op->fn[tpi_cpu_isa][compute] : NULL;
    if (!job.kernel || !job.kernel->start)
        return tpi_refuse(TP_ERR_MISSING, "%s has no CPU kernel for %s", op->name, tp_dtype_name(job.type));
    job.states = tpi_states_for(op->nstate, op->state_type, compute);
    if (!feed) job.join = tpi_join_for(op, (tp_dtype)x->dtype);
    if (!select_axes(&job, reduced)) return true;
    tpi_program_job program;
    job.together = feed && x->numel ? stretch_of(&job) : 0;
    if (job.together) {
        if (!tpi_program_prepare(&program, feed->program, feed->plan, feed->has_memory ? -1 : feed->operand))
            return false;
        job.feed = &program;
        if (compute == TPI_F32 && x->dtype == TP_FLOAT32) job.end = (tpi_fold_end)op->end;
        job.direct = false;
    } else if (feed && x->numel && !make_first(&job, feed))
        return false;
    bool ok = run_fold(&job);
    if (feed && x->numel && !job.together) tpi_release(job.x);
    return ok;
}

bool tpi_cpu_fold(const tpi_fold_op *op, tp_tensor *const *outs, tp_tensor *x, const bool *reduced, tpi_ctype compute,
                  const tpi_param *params) {
    return tpi_cpu_fold_of_program(op, outs, x, reduced, compute, params, NULL);
}
