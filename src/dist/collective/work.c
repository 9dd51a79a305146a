/* Collectives as calls: arguments are checked, and the work begins on the tensors' GPU (gpu.c); or tensors that are not
 * contiguous or not in the CPU's memory get a copy that is, and the work is handed to the group's thread. Sends and
 * receives begin at once, in the caller's. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"
#include "dist/collective/gpu.h"
#include "dist/collective/group.h"
#include "dist/engine/net.h"
#include "dist/collective/reduce.h"
#include "tensor/tensor.h"

static _Thread_local char call_site_now[TPI_CALL_SITE_BYTES];

void tp_dist_set_place(const char *text) { snprintf(call_site_now, sizeof call_site_now, "%s", text ? text : ""); }

/* ---- Works ---- */
static void free_pieces(tpi_piece *pieces, int n) {
    for (int i = 0; pieces && i < n; i++) {
        if (pieces[i].flat && pieces[i].flat != pieces[i].t) tp_release(pieces[i].flat);
        tp_release(pieces[i].t);
    }
    tpi_mfree(pieces);
}

void tp_work_release(tp_work *w) {
    if (TPI_ENDED(w, "a collective's work")) return;
    if (!w) return;
    if (w->request && !w->orphan &&
        atomic_load(&w->refs) ==
            1) { /* a message under way uses the tensor's memory: the group keeps it until it is done */
        w->orphan = true;
        return;
    }
    if (atomic_fetch_sub(&w->refs, 1) != 1) return;
    free_pieces(w->in, w->nin);
    free_pieces(w->out, w->nout);
    tpi_gpu_work_free(w);
    tpi_group_release(w->group);
    tpi_mfree(w->error);
    tpi_handle_mfree(w);
}

static tp_group *group_of(tp_group *g) {
    if (!tp_ok()) return NULL;
    if (!tpi_job_now) return tpi_fail(TP_ERR_RUNTIME, "there is no process group: call tp_dist_init first");
    if (tpi_job_now->pid != getpid())
        return tpi_fail(TP_ERR_RUNTIME, "this process was forked from rank %d, and has no part in its process groups",
                        tpi_job_now->rank);
    if (!g) g = tp_dist_world();
    if (g->rank < 0)
        return tpi_fail(TP_ERR_VALUE, "argument 'group': rank %d is not in group '%s'", g->job->rank, g->name);
    return tpi_job_ok(g->job) ? g : NULL;
}

static bool set_pieces(tpi_piece **pieces, int *n, tp_tensors list, const char *argument) {
    *pieces = list.n ? tpi_malloc(sizeof **pieces * (size_t)list.n) : NULL;
    if (list.n && !*pieces) return false;
    for (; *n < list.n; (*n)++) {
        if (!list.v[*n]) return tpi_refuse(TP_ERR_TYPE, "argument '%s': expected a tensor, got NULL", argument);
        if (tpi_marked(list.v[*n]))
            return tpi_refuse(TP_ERR_TYPE,
                              "argument '%s': got a lazy conjugate or negative view, whose memory holds other values: "
                              "hand over its resolve_conj() or resolve_neg()",
                              argument);
        (*pieces)[*n] = (tpi_piece){.t = tpi_retain(list.v[*n])};
    }
    return true;
}

/* The memory as an engine on the host needs it. `reads`: what is in it counts. */
static bool on_host(tpi_piece *p, bool reads) {
    tp_tensor *t = p->t;
    if (tpi_device(t).type == TP_CPU && tp_is_contiguous(t))
        p->flat = t;
    else
        p->flat = tpi_empty(tpi_shape(t), (tp_dtype)t->dtype, (tp_device){TP_CPU, 0});
    return p->flat && (p->flat == t || !reads || tpi_copy_data(p->flat, t));
}

bool tpi_work_by_host(tp_work *w) {
    for (int i = 0; i < w->nin; i++)
        if (!on_host(&w->in[i], true)) return false;
    for (int i = 0; i < w->nout; i++)
        if (!on_host(&w->out[i], false)) return false;
    return true;
}

bool tpi_work_bring_back(tp_work *w) {
    bool in_place = tpi_work_in_place(w);
    tpi_piece *pieces = in_place ? w->in : w->out;
    for (int i = 0; i < (in_place ? w->nin : w->nout); i++)
        if (pieces[i].flat && pieces[i].flat != pieces[i].t && !tpi_copy_data(pieces[i].t, pieces[i].flat))
            return false;
    return true;
}

static tp_work *new_work(tp_group *g, tpi_work_kind kind, tp_tensors in, tp_tensors out) {
    tp_work *w = tpi_malloc(sizeof *w);
    if (!w) return NULL;
    atomic_fetch_add(&g->refs, 1);
    *w = (tp_work){.refs = 1, .group = g, .kind = kind};
    snprintf(w->call_site, sizeof w->call_site, "%s", call_site_now);
    if (set_pieces(&w->in, &w->nin, in, "tensor") && set_pieces(&w->out, &w->nout, out, "output")) return w;
    tp_work_release(w);
    return NULL;
}

static tp_tensors one(tp_tensor **t) { return (tp_tensors){t, 1}; }
static const tp_tensors none = {NULL, 0};

static bool check_root(const tp_group *g, int root, const char *argument) {
    return (root >= 0 && root < g->n) ||
           tpi_refuse(TP_ERR_VALUE, "argument '%s': expected 0 to %d, got %d", argument, g->n - 1, root);
}

static bool check_list(const tp_group *g, tp_tensors list, const char *argument) {
    if (list.n != g->n)
        return tpi_refuse(TP_ERR_VALUE, "argument '%s': expected %d tensors, one for each rank, got %lld", argument,
                          g->n, (long long)list.n);
    for (int64_t i = 0; i < list.n; i++)
        if (!list.v[i]) return tpi_refuse(TP_ERR_TYPE, "argument '%s': tensor %lld is NULL", argument, (long long)i);
    return true;
}

/* Is each of the list like t? all_gather lets them differ in number, but for the one of this rank (`only` >= 0). */
static bool check_like(tp_tensors list, const tp_tensor *t, int only, const char *argument) {
    for (int64_t i = 0; i < list.n; i++) {
        const tp_tensor *o = list.v[i];
        if (o->dtype != t->dtype)
            return tpi_refuse(TP_ERR_TYPE, "argument '%s': expected %s as the tensor has, got %s", argument,
                              tp_dtype_name((tp_dtype)t->dtype), tp_dtype_name((tp_dtype)o->dtype));
        if ((only < 0 || i == only) && o->numel != t->numel)
            return tpi_refuse(TP_ERR_VALUE, "argument '%s': tensor %lld has shape %s, expected the %lld elements of %s",
                              argument, (long long)i, tpi_shape_text(tpi_shape(o)), (long long)t->numel,
                              tpi_shape_text(tpi_shape(t)));
    }
    return true;
}

static bool check_op(const tp_group *g, const tp_tensor *t, tp_reduce_op op) {
    bool nccl = g->job->by_nccl && tpi_device(t).type != TP_CPU; /* its averages of whole numbers are whole */
    return tpi_check_reduce((tp_dtype)t->dtype, nccl && op == TP_REDUCE_AVG ? TP_REDUCE_SUM : op);
}

static bool check_written(tp_tensors list) {
    for (int64_t i = 0; i < list.n; i++)
        if (tpi_overlaps_itself(list.v[i]))
            return tpi_refuse(
                TP_ERR_RUNTIME,
                "argument 'tensor': several of its elements share memory (it is expanded); clone it first");
    for (int64_t i = 0; i < list.n; i++) tpi_touch(list.v[i]);
    return true;
}

static tp_work *submit(tp_work *w) {
    if (!w) return NULL;
    bool in_place = tpi_work_in_place(w), ok = true;
    for (int i = 0; ok && i < (in_place ? w->nin : w->nout); i++)
        ok = check_written(one(&(in_place ? w->in : w->out)[i].t));
    if (ok && tpi_gpu_serves(w)) return tpi_gpu_collective(w);
    if (ok && tpi_work_by_host(w) && tpi_group_add(w)) return w;
    tp_work_release(w);
    return NULL;
}

/* ---- The calls ---- */
tp_work *tp_dist_all_reduce(tp_group *g, tp_tensor *t, tp_reduce_op op) {
    if (TPI_ENDED(g, "a group") || TPI_ENDED(t, "a tensor")) return NULL;
    if (!(g = group_of(g)) || (t && !check_op(g, t, op))) return NULL;
    tp_work *w = new_work(g, TPI_ALL_REDUCE, one(&t), none);
    if (w) w->op = op;
    return submit(w);
}

tp_work *tp_dist_reduce(tp_group *g, tp_tensor *t, tp_reduce_op op, int root) {
    if (TPI_ENDED(g, "a group") || TPI_ENDED(t, "a tensor")) return NULL;
    if (!(g = group_of(g)) || !check_root(g, root, "dst") || (t && !check_op(g, t, op))) return NULL;
    tp_work *w = new_work(g, TPI_REDUCE, one(&t), none);
    if (w) {
        w->op = op;
        w->root = root;
    }
    return submit(w);
}

tp_work *tp_dist_broadcast(tp_group *g, tp_tensor *t, int root) {
    if (TPI_ENDED(g, "a group") || TPI_ENDED(t, "a tensor")) return NULL;
    if (!(g = group_of(g)) || !check_root(g, root, "src")) return NULL;
    tp_work *w = new_work(g, TPI_BROADCAST, one(&t), none);
    if (w) w->root = root;
    return submit(w);
}

tp_work *tp_dist_all_gather(tp_group *g, tp_tensors out, tp_tensor *in) {
    if (TPI_ENDED(g, "a group") || TPI_ENDED(in, "a tensor")) return NULL;
    if (!(g = group_of(g)) || !check_list(g, out, "tensor_list") ||
        (in && !check_like(out, in, g->rank, "tensor_list")))
        return NULL;
    return submit(new_work(g, TPI_ALL_GATHER, one(&in), out));
}

tp_work *tp_dist_gather(tp_group *g, tp_tensors out, tp_tensor *in, int root) {
    if (TPI_ENDED(g, "a group") || TPI_ENDED(in, "a tensor")) return NULL;
    if (!(g = group_of(g)) || !check_root(g, root, "dst")) return NULL;
    bool here = g->rank == root;
    if (here && (!check_list(g, out, "gather_list") || (in && !check_like(out, in, -1, "gather_list")))) return NULL;
    tp_work *w = new_work(g, TPI_GATHER, one(&in), here ? out : none);
    if (w) w->root = root;
    return submit(w);
}

tp_work *tp_dist_scatter(tp_group *g, tp_tensor *out, tp_tensors in, int root) {
    if (TPI_ENDED(g, "a group") || TPI_ENDED(out, "a tensor")) return NULL;
    if (!(g = group_of(g)) || !check_root(g, root, "src")) return NULL;
    bool here = g->rank == root;
    if (here && (!check_list(g, in, "scatter_list") || (out && !check_like(in, out, -1, "scatter_list")))) return NULL;
    tp_work *w = new_work(g, TPI_SCATTER, here ? in : none, one(&out));
    if (w) w->root = root;
    return submit(w);
}

tp_work *tp_dist_reduce_scatter(tp_group *g, tp_tensor *out, tp_tensors in, tp_reduce_op op) {
    if (TPI_ENDED(g, "a group") || TPI_ENDED(out, "a tensor")) return NULL;
    if (!(g = group_of(g)) || !check_list(g, in, "input_list")) return NULL;
    if (out && (!check_op(g, out, op) || !check_like(in, out, g->rank, "input_list"))) return NULL;
    tp_work *w = new_work(g, TPI_REDUCE_SCATTER, in, one(&out));
    if (w) w->op = op;
    return submit(w);
}

tp_work *tp_dist_all_to_all(tp_group *g, tp_tensors out, tp_tensors in) {
    if (TPI_ENDED(g, "a group")) return NULL;
    if (!(g = group_of(g)) || !check_list(g, out, "output_tensor_list") || !check_list(g, in, "input_tensor_list"))
        return NULL;
    for (int64_t i = 0; i < in.n; i++)
        if (in.v[i]->dtype != in.v[0]->dtype || out.v[i]->dtype != in.v[0]->dtype)
            return tpi_fail(TP_ERR_TYPE, "argument 'input_tensor_list': expected tensors of one dtype, got %s and %s",
                            tp_dtype_name((tp_dtype)in.v[0]->dtype),
                            tp_dtype_name((tp_dtype)(in.v[i]->dtype != in.v[0]->dtype ? in.v[i] : out.v[i])->dtype));
    if (in.v[g->rank]->numel != out.v[g->rank]->numel)
        return tpi_fail(TP_ERR_VALUE,
                        "argument 'output_tensor_list': this rank sends itself %lld elements and expects %lld",
                        (long long)in.v[g->rank]->numel, (long long)out.v[g->rank]->numel);
    return submit(new_work(g, TPI_ALL_TO_ALL, in, out));
}

bool tpi_agree_on_group(int n, const int *ranks) {
    tp_group *g = group_of(NULL);
    tp_work *w = g ? new_work(g, TPI_NEW_GROUP, none, none) : NULL;
    if (!w) return false;
    size_t at = (size_t)snprintf(w->about, sizeof w->about, "new_group of ranks [");
    for (int i = 0; i < n; i++) {
        w->print = w->print * 1000003 + (uint64_t)ranks[i] + 1;
        if (at + 24 < sizeof w->about)
            at += (size_t)snprintf(w->about + at, sizeof w->about - at, "%s%d", i ? ", " : "", ranks[i]);
        else if (i == n - 1)
            at += (size_t)snprintf(w->about + at, sizeof w->about - at, ", ..., %d", ranks[i]);
    }
    snprintf(w->about + at, sizeof w->about - at, "]");
    return tp_dist_wait(submit(w));
}

tp_work *tp_dist_barrier(tp_group *g) {
    if (TPI_ENDED(g, "a group")) return NULL;
    return (g = group_of(g)) ? submit(new_work(g, TPI_BARRIER, none, none)) : NULL;
}

/* ---- One tensor as several, one after the other in its memory ---- */
/* n views of a contiguous tensor's memory in one dimension, lengths[i] elements each; NULL: equal ones. The caller
 * frees. */
static tp_tensors cut(tp_tensor *t, int n, const int64_t *lengths) {
    tp_tensors list = {tpi_malloc(sizeof(tp_tensor *) * (size_t)n), 0};
    int64_t at = tpi_offset(t), stride = 1;
    for (; list.v && list.n < n; list.n++) {
        int64_t length = lengths ? lengths[list.n] : t->numel / n;
        list.v[list.n] = tpi_alias(t, 1, &length, &stride, at);
        if (!list.v[list.n]) break;
        at += length;
    }
    if (list.v && list.n == n) return list;
    tpi_release_list(list);
    return none;
}

static bool check_flat(const tp_tensor *t, const char *argument) {
    if (!t) return tpi_refuse(TP_ERR_TYPE, "argument '%s': expected a tensor, got NULL", argument);
    return tp_is_contiguous(t) || tpi_refuse(TP_ERR_VALUE, "argument '%s': expected a contiguous tensor", argument);
}

static bool check_times(const tp_group *g, const tp_tensor *whole, const tp_tensor *part, const char *argument) {
    if (whole->dtype != part->dtype)
        return tpi_refuse(TP_ERR_TYPE, "argument '%s': expected %s as the other tensor has, got %s", argument,
                          tp_dtype_name((tp_dtype)part->dtype), tp_dtype_name((tp_dtype)whole->dtype));
    return whole->numel == part->numel * g->n ||
           tpi_refuse(TP_ERR_VALUE,
                      "argument '%s': expected %d times the %lld elements of the other tensor, got shape %s", argument,
                      g->n, (long long)part->numel, tpi_shape_text(tpi_shape(whole)));
}

tp_work *tp_dist_all_gather_into(tp_group *g, tp_tensor *out, tp_tensor *in) {
    if (TPI_ENDED(g, "a group") || TPI_ENDED(out, "a tensor") || TPI_ENDED(in, "a tensor")) return NULL;
    if (!(g = group_of(g)) || !check_flat(out, "output_tensor") || !in || !check_times(g, out, in, "output_tensor"))
        return NULL;
    tp_tensors list = cut(out, g->n, NULL);
    tp_work *w = list.v ? tp_dist_all_gather(g, list, in) : NULL;
    tpi_release_list(list);
    return w;
}

tp_work *tp_dist_reduce_scatter_of(tp_group *g, tp_tensor *out, tp_tensor *in, tp_reduce_op op) {
    if (TPI_ENDED(g, "a group")) return NULL;
    if (!(g = group_of(g)) || !out || !in) return NULL;
    tp_tensor *flat = tpi_contiguous_data(in);
    tp_tensors list = flat && check_times(g, flat, out, "input") ? cut(flat, g->n, NULL) : none;
    tp_work *w = list.v ? tp_dist_reduce_scatter(g, out, list, op) : NULL;
    tpi_release_list(list);
    tp_release(flat);
    return w;
}

/* How many elements go to or come from each rank. */
static int64_t *row_lengths(const tp_group *g, const tp_tensor *t, tp_ints rows, const char *argument) {
    int64_t first = t->ndim ? t->shape[0] : 1, each = first ? t->numel / first : 0, sum = 0;
    int64_t *lengths = tpi_malloc(sizeof *lengths * (size_t)g->n);
    if (!lengths) return NULL;
    bool ok = rows.n ? rows.n == g->n : first % g->n == 0;
    for (int i = 0; ok && i < g->n; i++) {
        int64_t count = rows.n ? rows.v[i] : first / g->n;
        ok = count >= 0;
        sum += count;
        lengths[i] = count * each;
    }
    if (ok && sum == first) return lengths;
    tpi_fail(TP_ERR_VALUE, "argument '%s': expected %d numbers of rows that add up to the first dimension of %s%s",
             argument, g->n, tpi_shape_text(tpi_shape(t)),
             rows.n ? "" : "; without them it must be divisible by the number of ranks");
    tpi_mfree(lengths);
    return NULL;
}

tp_work *tp_dist_all_to_all_single(tp_group *g, tp_tensor *out, tp_tensor *in, tp_ints out_rows, tp_ints in_rows) {
    if (TPI_ENDED(g, "a group") || TPI_ENDED(out, "a tensor") || TPI_ENDED(in, "a tensor")) return NULL;
    if (!(g = group_of(g)) || !check_flat(out, "output") || !check_flat(in, "input")) return NULL;
    int64_t *to = row_lengths(g, in, in_rows, "input_split_sizes"),
            *from = to ? row_lengths(g, out, out_rows, "output_split_sizes") : NULL;
    tp_tensors ins = from ? cut(in, g->n, to) : none, outs = ins.v ? cut(out, g->n, from) : none;
    tp_work *w = outs.v ? tp_dist_all_to_all(g, outs, ins) : NULL;
    tpi_release_list(ins);
    tpi_release_list(outs);
    tpi_mfree(to);
    tpi_mfree(from);
    return w;
}

/* ---- Messages from one rank to another ---- */
static tp_work *start(tp_work *w, int peer, int64_t tag) {
    if (!w) return NULL;
    tp_group *g = w->group;
    const tpi_engine *engine = g->job->engine;
    w->root = peer;
    w->tag = tag;
    tpi_group_reap(g);
    if (tpi_gpu_serves(w)) return tpi_gpu_message(w);
    if (!tpi_work_by_host(w)) {
        tp_work_release(w);
        return NULL;
    }
    tp_tensor *t = w->kind == TPI_SEND ? w->in->flat : w->out->flat;
    int64_t bytes = t->numel * (int64_t)tpi_itemsize(t);
    uint64_t slot = tpi_message_slot(g, TPI_CHANNEL_MESSAGE, tag);
    int whom = peer < 0 ? TPI_ANY_RANK : g->ranks[peer];
    tpi_work_begin(w);
    w->request = w->kind == TPI_SEND ? engine->send(g->job->self, g->members, whom, slot, t->dtype, t->data, bytes)
                                     : engine->recv(g->job->self, g->members, whom, slot, t->data, bytes);
    if (w->request) return w;
    tpi_refuse_engine(g->job);
    tpi_work_end(w); /* the error goes with the work */
    return w;
}

static bool check_tag(int64_t tag) {
    return (tag >= 0 && tag < 1 << 20) ||
           tpi_refuse(TP_ERR_VALUE, "argument 'tag': expected 0 to %d, got %lld", (1 << 20) - 1, (long long)tag);
}

tp_work *tp_dist_send(tp_group *g, tp_tensor *t, int to, int64_t tag) {
    if (TPI_ENDED(g, "a group") || TPI_ENDED(t, "a tensor")) return NULL;
    if (!(g = group_of(g)) || !check_root(g, to, "dst") || !check_tag(tag)) return NULL;
    if (to == g->rank) return tpi_fail(TP_ERR_VALUE, "argument 'dst': rank %d cannot send to itself", to);
    return start(new_work(g, TPI_SEND, one(&t), none), to, tag);
}

static bool check_source(tp_work *w, int from) { /* from whom it may come decides where it is waited for */
    return from >= 0 || !tpi_gpu_serves(w) ||
           tpi_refuse(TP_ERR_VALUE,
                      "argument 'src': NCCL receives from one rank; from any, a tensor on the CPU can be received");
}

tp_work *tp_dist_recv(tp_group *g, tp_tensor *t, int from, int64_t tag) {
    if (TPI_ENDED(g, "a group") || TPI_ENDED(t, "a tensor")) return NULL;
    if (!(g = group_of(g)) || (from >= 0 && !check_root(g, from, "src")) || !check_tag(tag)) return NULL;
    if (from == g->rank) return tpi_fail(TP_ERR_VALUE, "argument 'src': rank %d cannot receive from itself", from);
    tp_work *w = new_work(g, TPI_RECV, none, one(&t));
    if (w && (!check_written(one(&t)) || !check_source(w, from))) {
        tp_work_release(w);
        return NULL;
    }
    return start(w, from, tag);
}
