/* Collectives as rounds of messages, for engines that only send and receive, and for what an engine leaves to us.
 *
 * Reductions take the ranks in order, whatever arrives first. Large ones go in segments: each rank combines its part of
 * a segment from everybody's and hands it to all, so that every byte crosses a link twice and the memory needed stays
 * small. */
#include "dist/collective/collective.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "dist/collective/reduce.h"
#include "tensor/tensor.h"

enum { SMALL = 32 << 10, SEGMENT = 8 << 20, LONG_BROADCAST = 256 << 10 }; /* bytes */

const char *const tpi_work_names[] = {"all_reduce",     "reduce",     "broadcast", "all_gather", "gather", "scatter",
                                      "reduce_scatter", "all_to_all", "barrier",   "new_group",  "send",   "recv"};

static char *data_of(const tpi_piece *p) { return p->flat->data; }
static int64_t bytes_of(const tpi_piece *p) { return p->flat->numel * (int64_t)tpi_itemsize(p->flat); }

/* ---- Reductions: `data` has n elements; `rows` is room for the others' parts ---- */
typedef struct parts {
    tp_work *w;
    tp_dtype dtype;
    int64_t item;
    char *scratch; /* a row of row_bytes for each rank */
    int64_t row_bytes;
    const void **rows; /* group's n */
} parts;

static bool parts_new(parts *p, tp_work *w, tp_dtype dtype, int64_t row_elements) {
    int n = w->group->n;
    *p = (parts){.w = w, .dtype = dtype, .item = tpi_dtype_bytes[dtype]};
    p->row_bytes = (row_elements * p->item + 63) / 64 * 64;
    p->rows = tpi_malloc(sizeof *p->rows * (size_t)n);
    p->scratch = p->rows ? tpi_malloc((size_t)(p->row_bytes * n) + 64) : NULL;
    if (!p->scratch) {
        tpi_mfree(p->rows);
        return false;
    }
    for (int i = 0; i < n; i++) p->rows[i] = p->scratch + i * p->row_bytes;
    return true;
}

static void parts_free(parts *p) {
    tpi_mfree(p->rows);
    tpi_mfree(p->scratch);
}

static char *row(const parts *p, int i) { return p->scratch + i * p->row_bytes; }

static bool reduce_small(tp_work *w, char *data, int64_t n, tp_dtype dtype) { /* everybody sends all to all */
    tp_group *g = w->group;
    parts p;
    if (!parts_new(&p, w, dtype, n)) return false;
    tpi_round r = tpi_round_new(w, TPI_CHANNEL_DATA);
    for (int k = 1; k < g->n; k++) {
        int to = (g->rank + k) % g->n, from = (g->rank - k + g->n) % g->n;
        tpi_round_recv(&r, from, row(&p, from), n * p.item);
        tpi_round_send(&r, to, data, n * p.item);
    }
    bool ok = tpi_round_end(&r);
    p.rows[g->rank] = data;
    if (ok) tpi_reduce_rows(dtype, w->op, data, p.rows, g->n, n);
    parts_free(&p);
    return ok;
}

static int64_t part_from(int64_t n, int parts_, int i) { return n * i / parts_; }

static bool reduce_segment(parts *p, char *data, int64_t n) {
    tp_group *g = p->w->group;
    int64_t mine = part_from(n, g->n, g->rank), many = part_from(n, g->n, g->rank + 1) - mine;
    tpi_round r = tpi_round_new(p->w, TPI_CHANNEL_DATA);
    for (int k = 1; k < g->n; k++) {
        int to = (g->rank + k) % g->n, from = (g->rank - k + g->n) % g->n;
        int64_t at = part_from(n, g->n, to);
        tpi_round_recv(&r, from, row(p, from), many * p->item);
        tpi_round_send(&r, to, data + at * p->item, (part_from(n, g->n, to + 1) - at) * p->item);
    }
    if (!tpi_round_end(&r)) return false;
    p->rows[g->rank] = data + mine * p->item;
    tpi_reduce_rows(p->dtype, p->w->op, data + mine * p->item, p->rows, g->n, many);
    r = tpi_round_new(p->w, TPI_CHANNEL_DATA);
    for (int k = 1; k < g->n; k++) {
        int to = (g->rank + k) % g->n, from = (g->rank - k + g->n) % g->n;
        int64_t at = part_from(n, g->n, from);
        tpi_round_recv(&r, from, data + at * p->item, (part_from(n, g->n, from + 1) - at) * p->item);
        tpi_round_send(&r, to, data + mine * p->item, many * p->item);
    }
    return tpi_round_end(&r);
}

static bool all_reduce_data(tp_work *w, char *data, int64_t n, tp_dtype dtype) {
    tp_group *g = w->group;
    int64_t item = tpi_dtype_bytes[dtype], segment = SEGMENT / item;
    if (n * item <= SMALL) return reduce_small(w, data, n, dtype);
    if (segment > n) segment = n;
    parts p;
    bool ok = parts_new(&p, w, dtype, segment / g->n + 1);
    for (int64_t from = 0; ok && from < n; from += segment)
        ok = reduce_segment(&p, data + from * item, n - from < segment ? n - from : segment);
    if (p.rows) parts_free(&p);
    return ok;
}

static bool reduce_data(tp_work *w, char *data, int64_t n, tp_dtype dtype) {
    tp_group *g = w->group;
    int64_t item = tpi_dtype_bytes[dtype], segment = SEGMENT / g->n / item + 1;
    if (segment > n) segment = n;
    parts p = {.item = item};
    bool root = g->rank == w->root, ok = !root || parts_new(&p, w, dtype, segment);
    for (int64_t from = 0; ok && from < n; from += segment) {
        int64_t m = n - from < segment ? n - from : segment;
        tpi_round r = tpi_round_new(w, TPI_CHANNEL_DATA);
        for (int i = 0; root && i < g->n; i++)
            if (i != g->rank) tpi_round_recv(&r, i, row(&p, i), m * item);
        if (!root) tpi_round_send(&r, w->root, data + from * item, m * item);
        ok = tpi_round_end(&r);
        if (!ok || !root) continue;
        p.rows[g->rank] = data + from * item;
        tpi_reduce_rows(dtype, w->op, data + from * item, p.rows, g->n, m);
    }
    if (p.rows) parts_free(&p);
    return ok;
}

/* ---- Broadcast: down a tree, or in parts that everybody then hands on ---- */
static bool broadcast_tree(tp_work *w, char *data, int64_t bytes) {
    tp_group *g = w->group;
    int here = (g->rank - w->root + g->n) % g->n, step = 1;
    while (here && !(here & step)) step *= 2; /* the lowest bit names the parent */
    if (here) {
        tpi_round r = tpi_round_new(w, TPI_CHANNEL_DATA);
        tpi_round_recv(&r, (here - step + w->root) % g->n, data, bytes);
        if (!tpi_round_end(&r)) return false;
    } else
        while (step < g->n) step *= 2;
    tpi_round r = tpi_round_new(w, TPI_CHANNEL_DATA);
    for (step /= 2; step; step /= 2)
        if (here + step < g->n) tpi_round_send(&r, (here + step + w->root) % g->n, data, bytes);
    return tpi_round_end(&r);
}

static bool broadcast_parts(tp_work *w, char *data, int64_t bytes) {
    tp_group *g = w->group;
    int64_t mine = part_from(bytes, g->n, g->rank), many = part_from(bytes, g->n, g->rank + 1) - mine;
    tpi_round r = tpi_round_new(w, TPI_CHANNEL_DATA);
    for (int i = 0; g->rank == w->root && i < g->n; i++)
        if (i != g->rank)
            tpi_round_send(&r, i, data + part_from(bytes, g->n, i),
                           part_from(bytes, g->n, i + 1) - part_from(bytes, g->n, i));
    if (g->rank != w->root) tpi_round_recv(&r, w->root, data + mine, many);
    if (!tpi_round_end(&r)) return false;
    r = tpi_round_new(w, TPI_CHANNEL_DATA);
    for (int k = 1; k < g->n; k++) {
        int to = (g->rank + k) % g->n, from = (g->rank - k + g->n) % g->n;
        if (g->rank != w->root)
            tpi_round_recv(&r, from, data + part_from(bytes, g->n, from),
                           part_from(bytes, g->n, from + 1) - part_from(bytes, g->n, from));
        if (to != w->root) tpi_round_send(&r, to, data + mine, many);
    }
    return tpi_round_end(&r);
}

/* ---- Each collective. An engine's own way comes first. ---- */
#define BY_ENGINE(w, function, ...)                                                                          \
    do {                                                                                                     \
        tpi_job *job_ = (w)->group->job;                                                                     \
        tpi_engine_result done_ = job_->engine->function                                                     \
                                      ? job_->engine->function(job_->self, (w)->group->members, __VA_ARGS__) \
                                      : TPI_ENGINE_PASS;                                                     \
        if (done_ != TPI_ENGINE_PASS) return done_ == TPI_ENGINE_DONE || tpi_refuse_engine(job_);            \
    } while (0)

static bool all_reduce_whole(tp_work *w, char *data, int64_t n, tp_dtype dtype) {
    BY_ENGINE(w, all_reduce, data, n, (int)dtype, (int)w->op);
    return all_reduce_data(w, data, n, dtype);
}

static bool run_all_reduce(tp_work *w) {
    return all_reduce_whole(w, data_of(w->in), w->in->flat->numel, (tp_dtype)w->in->flat->dtype);
}

static bool run_reduce(tp_work *w) {
    tp_tensor *t = w->in->flat;
    BY_ENGINE(w, reduce, t->data, t->numel, (int)t->dtype, (int)w->op, w->root);
    return reduce_data(w, t->data, t->numel, (tp_dtype)t->dtype);
}

static bool run_broadcast(tp_work *w) {
    BY_ENGINE(w, broadcast, data_of(w->in), bytes_of(w->in), w->root);
    return (bytes_of(w->in) > LONG_BROADCAST && w->group->n > 2 ? broadcast_parts : broadcast_tree)(w, data_of(w->in),
                                                                                                    bytes_of(w->in));
}

static bool one_block(const tp_work *w) { /* do the results lie one after the other, all of the input's size? */
    for (int i = 0; i < w->nout; i++)
        if (bytes_of(&w->out[i]) != bytes_of(w->in) || data_of(&w->out[i]) != data_of(w->out) + i * bytes_of(w->in))
            return false;
    return true;
}

static bool run_all_gather(tp_work *w) {
    tp_group *g = w->group;
    if (one_block(w)) BY_ENGINE(w, all_gather, data_of(w->in), data_of(w->out), bytes_of(w->in));
    tpi_round r = tpi_round_new(w, TPI_CHANNEL_DATA);
    for (int k = 1; k < g->n; k++) {
        int to = (g->rank + k) % g->n, from = (g->rank - k + g->n) % g->n;
        tpi_round_recv(&r, from, data_of(&w->out[from]), bytes_of(&w->out[from]));
        tpi_round_send(&r, to, data_of(w->in), bytes_of(w->in));
    }
    memmove(data_of(&w->out[g->rank]), data_of(w->in), (size_t)bytes_of(w->in));
    return tpi_round_end(&r);
}

static bool run_gather(tp_work *w) {
    tp_group *g = w->group;
    tpi_round r = tpi_round_new(w, TPI_CHANNEL_DATA);
    if (g->rank != w->root) tpi_round_send(&r, w->root, data_of(w->in), bytes_of(w->in));
    for (int i = 0; g->rank == w->root && i < g->n; i++) {
        if (i != g->rank)
            tpi_round_recv(&r, i, data_of(&w->out[i]), bytes_of(&w->out[i]));
        else
            memmove(data_of(&w->out[i]), data_of(w->in), (size_t)bytes_of(w->in));
    }
    return tpi_round_end(&r);
}

static bool run_scatter(tp_work *w) {
    tp_group *g = w->group;
    tpi_round r = tpi_round_new(w, TPI_CHANNEL_DATA);
    if (g->rank != w->root) tpi_round_recv(&r, w->root, data_of(w->out), bytes_of(w->out));
    for (int i = 0; g->rank == w->root && i < g->n; i++) {
        if (i != g->rank)
            tpi_round_send(&r, i, data_of(&w->in[i]), bytes_of(&w->in[i]));
        else
            memmove(data_of(w->out), data_of(&w->in[i]), (size_t)bytes_of(w->out));
    }
    return tpi_round_end(&r);
}

static bool run_reduce_scatter(tp_work *w) {
    tp_group *g = w->group;
    tp_tensor *out = w->out->flat;
    parts p;
    if (!parts_new(&p, w, (tp_dtype)out->dtype, out->numel)) return false;
    tpi_round r = tpi_round_new(w, TPI_CHANNEL_DATA);
    for (int k = 1; k < g->n; k++) {
        int to = (g->rank + k) % g->n, from = (g->rank - k + g->n) % g->n;
        tpi_round_recv(&r, from, row(&p, from), bytes_of(w->out));
        tpi_round_send(&r, to, data_of(&w->in[to]), bytes_of(&w->in[to]));
    }
    bool ok = tpi_round_end(&r);
    p.rows[g->rank] = data_of(&w->in[g->rank]);
    if (ok) tpi_reduce_rows(p.dtype, w->op, out->data, p.rows, g->n, out->numel);
    parts_free(&p);
    return ok;
}

static bool run_all_to_all(tp_work *w) {
    tp_group *g = w->group;
    tpi_round r = tpi_round_new(w, TPI_CHANNEL_DATA);
    for (int k = 1; k < g->n; k++) {
        int to = (g->rank + k) % g->n, from = (g->rank - k + g->n) % g->n;
        tpi_round_recv(&r, from, data_of(&w->out[from]), bytes_of(&w->out[from]));
        tpi_round_send(&r, to, data_of(&w->in[to]), bytes_of(&w->in[to]));
    }
    int64_t mine = bytes_of(&w->in[g->rank]), space = bytes_of(&w->out[g->rank]);
    memmove(data_of(&w->out[g->rank]), data_of(&w->in[g->rank]), (size_t)(mine < space ? mine : space));
    return tpi_round_end(&r);
}

static bool run_barrier(tp_work *w) {
    (void)w; /* to have agreed is to have met */
    return true;
}

bool tpi_checks_wanted(void) {
    const char *wish = getenv("TAPER_DIST_CHECK");
    return !wish || strcmp(wish, "0") != 0;
}

bool tpi_collective_run(tp_work *w) {
    static bool (*const run[])(tp_work *) = {run_all_reduce, run_reduce,  run_broadcast,      run_all_gather,
                                             run_gather,     run_scatter, run_reduce_scatter, run_all_to_all,
                                             run_barrier,    run_barrier};
    if ((tpi_checks_wanted() || w->kind == TPI_BARRIER) && !tpi_agree(w)) return false;
    return run[w->kind](w);
}

/* "[2, 3]"; of lists whose tensors differ in size: "in parts of 1, 2, 3 elements". */
static void shape_about(const tp_work *w, const tp_tensor *t, char *text, size_t capacity) {
    const tpi_piece *list = w->kind == TPI_ALL_GATHER ? w->out : w->kind == TPI_REDUCE_SCATTER ? w->in : NULL;
    int n = w->kind == TPI_ALL_GATHER ? w->nout : w->nin;
    bool uneven = false;
    for (int i = 1; list && i < n; i++) uneven = uneven || list[i].t->numel != list[0].t->numel;
    int at = snprintf(text, capacity, "%s", uneven ? "in parts of " : tpi_shape_text(tpi_shape(t)));
    for (int i = 0; uneven && i < n && at + 24 < (int)capacity; i++)
        at += snprintf(text + at, capacity - (size_t)at, "%s%lld", i ? ", " : "", (long long)list[i].t->numel);
    if (uneven) snprintf(text + at, capacity - (size_t)at, " elements");
}

void tpi_work_about(const tp_work *w, char text[TPI_ABOUT_BYTES]) {
    if (w->about[0]) {
        memcpy(text, w->about, TPI_ABOUT_BYTES);
        return;
    }
    static const char *const ops[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"};
    bool reduces = w->kind == TPI_ALL_REDUCE || w->kind == TPI_REDUCE || w->kind == TPI_REDUCE_SCATTER;
    bool rooted = w->kind == TPI_REDUCE || w->kind == TPI_BROADCAST || w->kind == TPI_GATHER || w->kind == TPI_SCATTER;
    const tp_tensor *t = w->kind == TPI_SCATTER || w->kind == TPI_REDUCE_SCATTER || w->kind == TPI_RECV
                             ? (w->nout ? w->out[0].t : NULL)
                         : w->nin ? w->in[0].t
                                  : NULL;
    char root[24] = "", op[16] = "", shape[112] = "";
    const char *where = w->gpu ? w->device.type == TP_CUDA ? " on cuda" : " on xpu"
                               : ""; /* by NCCL; what goes by the host may lie anywhere */
    if (rooted) snprintf(root, sizeof root, ", root %d", w->root);
    if (w->kind == TPI_SEND) snprintf(root, sizeof root, ", to %d", w->root);
    if (w->kind == TPI_RECV && w->root >= 0) snprintf(root, sizeof root, ", from %d", w->root);
    if (reduces) snprintf(op, sizeof op, "(%s)", ops[w->op]);
    if (!t)
        snprintf(text, TPI_ABOUT_BYTES, "%s%s", tpi_work_names[w->kind], op);
    else {
        shape_about(w, t, shape, sizeof shape);
        snprintf(text, TPI_ABOUT_BYTES, "%s%s of %s %s%s%s", tpi_work_names[w->kind], op,
                 tp_dtype_name((tp_dtype)t->dtype), shape, where, root);
    }
}
