/* Works on GPUs. A collective is put into its communicator's stream by the caller, behind what the caller's stream has
 * to do so far; copies to contiguous memory and back are in that stream too. An event tells its end, which the watcher
 * and whoever asks look at. Until then the work is on the group's list, which holds it and with it the tensors.
 *
 * Ranks compare the collectives that they call as they do on the host, in the group's thread, while the GPU works. Only
 * a collective that was not seen before (another kind, another shape) waits for the comparison, so that it never begins
 * where ranks disagree. */
#include "dist/collective/gpu.h"
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <taper/gpu.h>
#include "base/error.h"
#include "base/memory.h"
#include "dist/collective/collective.h"
#include "dist/collective/nccl.h"
#include "dist/engine/net.h"
#include "dist/store/store.h"
#include "tensor/tensor.h"
#include "tensor/same_device.h"

/* ---- What NCCL does ---- */
typedef struct reduction { /* of elements that are `each` of type */
    int type, each, op;
    tp_dtype dtype; /* what they have to be: int16 goes as int32 */
} reduction;

static bool reduction_of(tp_dtype dtype, tp_reduce_op op, reduction *r) {
    static const int types[TP_DTYPE_COUNT] = {
        [TP_BOOL] = TPI_NCCL_UINT8,      [TP_UINT8] = TPI_NCCL_UINT8,       [TP_INT8] = TPI_NCCL_INT8,
        [TP_INT16] = TPI_NCCL_INT32,     [TP_INT32] = TPI_NCCL_INT32,       [TP_INT64] = TPI_NCCL_INT64,
        [TP_FLOAT16] = TPI_NCCL_FLOAT16, [TP_BFLOAT16] = TPI_NCCL_BFLOAT16, [TP_FLOAT32] = TPI_NCCL_FLOAT32,
        [TP_FLOAT64] = TPI_NCCL_FLOAT64, [TP_COMPLEX64] = TPI_NCCL_FLOAT32, [TP_COMPLEX128] = TPI_NCCL_FLOAT64};
    static const int ops[] = {[TP_REDUCE_SUM] = TPI_NCCL_SUM,
                              [TP_REDUCE_AVG] = TPI_NCCL_AVG,
                              [TP_REDUCE_PRODUCT] = TPI_NCCL_PROD,
                              [TP_REDUCE_MIN] = TPI_NCCL_MIN,
                              [TP_REDUCE_MAX] = TPI_NCCL_MAX};
    bool pairs = tp_dtype_is_complex(dtype), truth = dtype == TP_BOOL;
    if (op > TP_REDUCE_MAX || (pairs && op > TP_REDUCE_AVG)) return false;
    if (types[dtype] == TPI_NCCL_INT8 && dtype != TP_INT8) return false; /* a dtype that is not in the list */
    *r = (reduction){
        .type = types[dtype], .each = pairs ? 2 : 1, .op = ops[op], .dtype = dtype == TP_INT16 ? TP_INT32 : dtype};
    if (truth)
        r->op =
            op == TP_REDUCE_PRODUCT || op == TP_REDUCE_MIN ? TPI_NCCL_MIN : TPI_NCCL_MAX; /* truths add up to a truth */
    return true;
}

static bool reduces(const tp_work *w) {
    return w->kind == TPI_ALL_REDUCE || w->kind == TPI_REDUCE || w->kind == TPI_REDUCE_SCATTER;
}

static bool shares_gpu(tp_group *g, tp_device device) { /* it is known that two of the group's ranks do */
    bool shares = false;
    pthread_mutex_lock(&g->lock);
    for (const tpi_comm *c = g->comms; c; c = c->next)
        shares = shares || (c->by_host && c->from < 0 && tpi_same_device(c->device, device));
    pthread_mutex_unlock(&g->lock);
    return shares;
}

bool tpi_gpu_serves(tp_work *w) {
    const tpi_piece *first = w->nin ? w->in : w->out;
    reduction r;
    if (!w->group->job->by_nccl || !first) return false;
    tp_device device = tpi_device(first->t);
    if (!tpi_is_gpu(device) || !tpi_nccl_for((tp_device_type)device.type)) return false;
    for (int i = 0; i < w->nin + w->nout; i++)
        if (!tpi_same_device(tpi_device((i < w->nin ? w->in[i] : w->out[i - w->nin]).t), device)) return false;
    if (reduces(w) && !reduction_of((tp_dtype)first->t->dtype, w->op, &r)) return false;
    if (w->kind < TPI_SEND && shares_gpu(w->group, device)) return false;
    w->device = device;
    return true;
}

/* ---- Into the stream ---- */
static bool flatten(tp_work *w, tpi_piece *pieces, int n, bool reads) {
    reduction r = {.dtype = TP_NO_DTYPE};
    if (reduces(w)) reduction_of((tp_dtype)pieces->t->dtype, w->op, &r);
    for (int i = 0; i < n; i++) {
        tpi_piece *p = &pieces[i];
        tp_dtype dtype = reduces(w) ? r.dtype : (tp_dtype)p->t->dtype;
        if (tp_is_contiguous(p->t) && dtype == p->t->dtype)
            p->flat = p->t;
        else
            p->flat = tpi_empty(tpi_shape(p->t), dtype, w->device);
        if (!p->flat || (p->flat != p->t && reads && !tpi_copy_data(p->flat, p->t))) return false;
    }
    return true;
}

static char *data_of(const tpi_piece *p) { return p->flat->data; }
static size_t bytes_of(const tpi_piece *p) { return (size_t)p->flat->numel * tpi_itemsize(p->flat); }

static bool one_block(const tpi_piece *list, int n) { /* do they lie one after the other, all of one size? */
    for (int i = 1; i < n; i++)
        if (bytes_of(&list[i]) != bytes_of(list) || data_of(&list[i]) != data_of(list) + (size_t)i * bytes_of(list))
            return false;
    return true;
}

static int send_piece(const tpi_comm *c, const tpi_piece *p, int to) {
    return bytes_of(p) ? c->nccl->send(data_of(p), bytes_of(p), TPI_NCCL_UINT8, to, c->comm, c->stream) : 0;
}
static int receive_piece(const tpi_comm *c, const tpi_piece *p, int from) {
    return bytes_of(p) ? c->nccl->recv(data_of(p), bytes_of(p), TPI_NCCL_UINT8, from, c->comm, c->stream) : 0;
}

static bool keep_own(const tpi_comm *c, const tpi_piece *to, const tpi_piece *from) { /* what a rank sends to itself */
    if (!bytes_of(from) || data_of(to) == data_of(from)) return true;
    return c->driver->copy(c->device.index, c->stream, data_of(to), data_of(from), bytes_of(from), TPI_GPU_WITHIN);
}

/* Sends and receives that begin together. in, out: one for each rank, or NULL. */
static bool exchange(const tpi_comm *c, const tpi_piece *in, bool same, const tpi_piece *out) {
    int n = c->group->n, rank = c->group->rank, result = c->nccl->group_start();
    for (int i = 0; i < n && !result; i++) {
        if (i == rank) continue;
        if (in) result = send_piece(c, same ? in : &in[i], i);
        if (out && !result) result = receive_piece(c, &out[i], i);
    }
    int ended = c->nccl->group_end();
    return tpi_comm_ok(c, result ? result : ended, "a group of ncclSend and ncclRecv");
}

static bool all_gather(const tpi_comm *c, const tp_work *w) {
    if (one_block(w->out, w->nout) && bytes_of(w->out) == bytes_of(w->in))
        return tpi_comm_ok(
            c,
            c->nccl->all_gather(data_of(w->in), data_of(w->out), bytes_of(w->in), TPI_NCCL_UINT8, c->comm, c->stream),
            "ncclAllGather");
    return keep_own(c, &w->out[c->group->rank], w->in) && exchange(c, w->in, true, w->out);
}

static bool reduce_scatter(const tpi_comm *c, const tp_work *w, const reduction *r) {
    size_t n = (size_t)(w->out->flat->numel * r->each);
    if (one_block(w->in, w->nin))
        return tpi_comm_ok(
            c, c->nccl->reduce_scatter(data_of(w->in), data_of(w->out), n, r->type, r->op, c->comm, c->stream),
            "ncclReduceScatter");
    int result = c->nccl->group_start();
    for (int i = 0; i < w->nin && !result; i++) /* each to where it belongs */
        result = c->nccl->reduce(data_of(&w->in[i]), i == c->group->rank ? data_of(w->out) : data_of(&w->in[i]),
                                 (size_t)(w->in[i].flat->numel * r->each), r->type, r->op, i, c->comm, c->stream);
    int ended = c->nccl->group_end();
    return tpi_comm_ok(c, result ? result : ended, "a group of ncclReduce");
}

static bool gather(const tpi_comm *c, const tp_work *w) {
    if (c->group->rank == w->root) return keep_own(c, &w->out[w->root], w->in) && exchange(c, NULL, false, w->out);
    return tpi_comm_ok(c, send_piece(c, w->in, w->root), "ncclSend");
}

static bool scatter(const tpi_comm *c, const tp_work *w) {
    if (c->group->rank == w->root) return keep_own(c, w->out, &w->in[w->root]) && exchange(c, w->in, false, NULL);
    return tpi_comm_ok(c, receive_piece(c, w->out, w->root), "ncclRecv");
}

static bool call(const tpi_comm *c, const tp_work *w) {
    const tpi_nccl *nccl = c->nccl;
    reduction r = {.each = 1};
    const tpi_piece *p = w->nin ? w->in : w->out;
    if (reduces(w)) reduction_of((tp_dtype)p->t->dtype, w->op, &r);
    size_t n = (size_t)(p->flat->numel * r.each);
    switch (w->kind) {
    case TPI_ALL_REDUCE:
        return tpi_comm_ok(c, nccl->all_reduce(data_of(p), data_of(p), n, r.type, r.op, c->comm, c->stream),
                           "ncclAllReduce");
    case TPI_REDUCE:
        return tpi_comm_ok(c, nccl->reduce(data_of(p), data_of(p), n, r.type, r.op, w->root, c->comm, c->stream),
                           "ncclReduce");
    case TPI_BROADCAST:
        return tpi_comm_ok(
            c, nccl->broadcast(data_of(p), data_of(p), bytes_of(p), TPI_NCCL_UINT8, w->root, c->comm, c->stream),
            "ncclBroadcast");
    case TPI_ALL_GATHER: return all_gather(c, w);
    case TPI_REDUCE_SCATTER: return reduce_scatter(c, w, &r);
    case TPI_GATHER: return gather(c, w);
    case TPI_SCATTER: return scatter(c, w);
    case TPI_ALL_TO_ALL:
        return keep_own(c, &w->out[c->group->rank], &w->in[c->group->rank]) && exchange(c, w->in, false, w->out);
    case TPI_SEND: return tpi_comm_ok(c, send_piece(c, w->in, 1), "ncclSend"); /* of a direction the sender is rank 0 */
    case TPI_RECV: return tpi_comm_ok(c, receive_piece(c, w->out, 0), "ncclRecv");
    default: return tpi_refuse(TP_ERR_RUNTIME, "%s is nothing that NCCL does", tpi_work_names[w->kind]);
    }
}

static void let_go(tp_work *w) { tp_work_release(w); } /* of the list's hold */

static bool mark(const tp_work *w, tpi_gpu_stream *stream, tpi_gpu_event **event) {
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)w->device.type);
    if (!driver || !driver->event_new(w->device.index, false, event)) return false;
    if (driver->event_record(w->device.index, *event, stream)) return true;
    driver->event_free(w->device.index, *event);
    *event = NULL;
    return false;
}

static bool fill_stream(tp_work *w, tpi_comm *c) { /* the communicator's is the thread's current one */
    bool needed = tpi_work_in_place(w) || w->kind == TPI_SEND || w->nin;
    if (needed && !flatten(w, w->in, w->nin, true)) return false;
    if (w->nout && !flatten(w, w->out, w->nout, false)) return false;
    pthread_mutex_lock(&c->lock);
    bool ok = c->comm
                  ? call(c, w)
                  : tpi_job_ok(c->group->job) && tpi_refuse(TP_ERR_RUNTIME, "the group's communicator was given up");
    pthread_mutex_unlock(&c->lock);
    return ok && tpi_work_bring_back(w);
}

static bool launch(tp_work *w, tpi_comm *c) {
    tpi_gpu_stream *current = tpi_gpu_stream_of(w->device);
    tpi_gpu_event *event = NULL;
    bool ok = c->driver->stream_wait(w->device.index, c->stream, w->before) && tpi_gpu_set_stream(w->device, c->stream);
    ok = ok && fill_stream(w, c) && mark(w, c->stream, &event);
    tpi_gpu_set_stream(w->device, current);
    bool captured =
        ok && c->driver->capturing &&
        c->driver->capturing(w->device.index, c->stream); /* its event is part of a graph, and tells nothing */
    pthread_mutex_lock(&w->group->lock);
    w->event = event;
    w->launched = ok;
    w->captured = captured;
    if (captured) tpi_work_close(w, NULL, TP_OK);
    pthread_cond_broadcast(&w->group->changed);
    pthread_mutex_unlock(&w->group->lock);
    if (captured) let_go(w);
    return ok;
}

/* ---- Beginning ---- */
static void fail_job(tpi_job *job,
                     const char *text) { /* the watcher tells the others, and ends a process that waits for its GPU */
    tpi_job_fail(job, text);
    job->failed_on_gpu = true;
}

static void fail(tp_work *w) { /* with an error, which is the job's end: other ranks are in it already */
    char text[TPI_REASON_BYTES];
    snprintf(text, sizeof text, "%s", tp_error());
    bool closing = w->group->closing; /* then nobody else is concerned */
    tpi_work_end(w);
    if (!closing) fail_job(w->group->job, text);
    let_go(w);
}

static bool seen_before(tp_group *g, uint64_t print) {
    for (int i = 0; i < TPI_AGREED && i < g->nagreed; i++)
        if (g->agreed[i] == print) return true;
    return false;
}

static bool await_check(tp_work *w) {
    tp_group *g = w->group;
    for (bool checked = false; !checked;) {
        struct timespec until = tpi_until(tpi_now() + 0.1);
        pthread_mutex_lock(&g->lock);
        if (!w->checked) pthread_cond_timedwait(&g->changed, &g->lock, &until);
        checked = w->checked;
        pthread_mutex_unlock(&g->lock);
        if (!tpi_job_ok(g->job) || tpi_interrupted()) return false;
    }
    return true;
}

void tpi_gpu_check(tp_work *w) {
    tp_group *g = w->group;
    if (!g->job->failed && !tpi_agree(w))
        fail_job(g->job, tp_ok() ? "ranks could not compare what they came to" : tp_error());
    tp_error_clear();
    pthread_mutex_lock(&g->lock);
    w->checked = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

/* In a group whose ranks share a GPU. It keeps its number. */
static bool by_host(tp_work *w) {
    pthread_mutex_lock(&w->group->lock);
    w->gpu = false;
    w->about[0] = 0;
    pthread_mutex_unlock(&w->group->lock);
    if (!tpi_work_by_host(w) || !tpi_group_add(w)) return false;
    let_go(w);
    return true;
}

static bool run(tp_work *w) {
    tp_group *g = w->group;
    if (g->n > 1 && tpi_checks_wanted() && !seen_before(g, w->print)) {
        if (!await_check(w)) return false;
        g->agreed[g->nagreed++ % TPI_AGREED] = w->print;
    }
    tpi_comm *c = tpi_comm_of(g, w->device, -1, -1);
    if (!c || !tpi_comm_meet(c)) return false;
    if (c->by_host) return by_host(w);
    w->comm = c;
    return launch(w, c);
}

/* What it is about is told from now on: once it is in a stream, the caller may give its tensors other shapes. */
static void describe(tp_work *w) {
    char about[TPI_ABOUT_BYTES];
    w->gpu = true;
    w->print = tpi_fingerprint(w);
    tpi_work_about(w, about);
    memcpy(w->about, about, sizeof w->about);
}

static tp_work *not_begun(tp_work *w) {
    tp_work_release(w);
    return NULL;
}

tp_work *tpi_gpu_collective(tp_work *w) {
    tp_group *g = w->group;
    tpi_gpu_reap(g);
    describe(w);
    if (!mark(w, tpi_gpu_stream_of(w->device), &w->before)) return not_begun(w);
    atomic_fetch_add(&w->refs, 1); /* the list's */
    pthread_mutex_lock(&g->launching);
    bool added = tpi_group_add(w), ok = added && run(w);
    pthread_mutex_unlock(&g->launching);
    if (!added) {
        let_go(w);
        return not_begun(w);
    }
    if (!ok) fail(w);
    return w;
}

/* ---- Messages: each direction between two ranks has a communicator, a stream and a thread ---- */
static bool message_by_host(tp_work *w) {
    tpi_job *job = w->group->job;
    tp_group *g = w->group;
    tpi_engine_result done = TPI_ENGINE_PASS;
    if (!tpi_gpu_stream_wait(w->device, tpi_gpu_stream_of(w->device), w->device, w->comm->stream) ||
        !tpi_work_by_host(w))
        return false;
    tp_tensor *t = w->kind == TPI_SEND ? w->in->flat : w->out->flat;
    int64_t bytes = t->numel * (int64_t)tpi_itemsize(t);
    uint64_t slot = tpi_message_slot(g, TPI_CHANNEL_MESSAGE, w->tag);
    void *request = w->kind == TPI_SEND
                        ? job->engine->send(job->self, g->members, g->ranks[w->root], slot, t->dtype, t->data, bytes)
                        : job->engine->recv(job->self, g->members, g->ranks[w->root], slot, t->data, bytes);
    while (request && done == TPI_ENGINE_PASS) {
        done = job->engine->finish(job->self, request, 0.25, NULL);
        if (done == TPI_ENGINE_PASS && g->closing)
            job->engine->stop(job->self); /* the memory must be out of use when this returns */
    }
    return done == TPI_ENGINE_DONE || tpi_refuse_engine(job);
}

static void *direction_main(void *context) {
    tpi_comm *c = context;
    for (tp_work *w; (w = tpi_next_work(c->group, &c->first, &c->end)); tp_work_release(w)) {
        w->comm = c;
        bool ok = tpi_job_ok(c->group->job) && tpi_comm_meet(c);
        if (ok && !c->by_host)
            ok = launch(w, c);
        else if (ok && (ok = c->driver->stream_wait(c->device.index, c->stream, w->before) && message_by_host(w))) {
            tpi_work_end(w);
            let_go(w);
        }
        if (!ok) fail(w);
    }
    return NULL;
}

tp_work *tpi_gpu_message(tp_work *w) {
    tp_group *g = w->group;
    bool sends = w->kind == TPI_SEND;
    tpi_gpu_reap(g);
    tpi_comm *c = tpi_comm_of(g, w->device, sends ? g->rank : w->root, sends ? w->root : g->rank);
    if (!c || !mark(w, tpi_gpu_stream_of(w->device), &w->before)) return not_begun(w);
    describe(w);
    tpi_work_begin(w);
    pthread_mutex_lock(&g->lock);
    int error = c->threaded ? 0 : pthread_create(&c->thread, NULL, direction_main, c);
    if (!error) c->threaded = true;
    atomic_fetch_add(&w->refs, error ? 1 : 2); /* the list's, the thread's */
    if (!error) {
        *c->end = w;
        c->end = &w->next;
    }
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    if (error) {
        tpi_fail(TP_ERR_MEMORY, "cannot start the direction's thread: %s", strerror(error));
        fail(w);
    }
    return w;
}

/* ---- Ending ---- */
/* With the group's lock: 1 it is done, 0 not yet, and the list's hold stays. After a failure it is done as soon as the
 * GPU has let go of it. */
static int settle(tp_work *w) {
    tpi_job *job = w->group->job;
    if (w->done) return 1;
    if (!w->event || (w->number && w->group->n > 1 && !w->checked && tpi_checks_wanted()))
        return 0; /* nobody leaves one that another has not come to */
    int reached = w->comm->driver->event_query(w->device.index, w->event);
    if (reached == 0) return 0;
    bool fine = reached > 0 && !job->failed;
    char *error = fine ? NULL : tpi_strdup(job->failed ? job->reason : tp_error());
    tp_code code = fine ? TP_OK : TP_ERR_RUNTIME;
    if (!tp_ok()) tp_error_clear();
    tpi_work_close(w, error, code);
    return 1;
}

void tpi_gpu_look_at(tp_work *w) {
    tp_group *g = w->group;
    if (!tp_ok()) return;
    pthread_mutex_lock(&g->lock);
    bool here = !w->done && settle(w);
    pthread_mutex_unlock(&g->lock);
    if (here) let_go(w);
}

void tpi_gpu_reap(tp_group *g) {
    tp_work *gone = NULL;
    if (!tp_ok()) return;
    pthread_mutex_lock(&g->lock);
    for (tp_work *w = g->waiting, *next; w; w = next) {
        next = w->next_waiting;
        if (!w->gpu) continue;
        if (!settle(w)) break; /* what comes after it has mostly not come either, and is asked about the next time */
        w->next_waiting = gone;
        gone = w;
    }
    pthread_mutex_unlock(&g->lock);
    for (tp_work *next; gone; gone = next) {
        next = gone->next_waiting;
        let_go(gone);
    }
}

bool tpi_gpu_wait(tp_work *w, double seconds) {
    tp_group *g = w->group;
    double from = tpi_now(), most = seconds >= 0 ? seconds : g->timeout + TPI_TIME_UP_LATER + 5, failed_at = 0;
    for (bool ready = false; !ready && !tp_work_done(w);) {
        struct timespec until = tpi_until(tpi_now() + (seconds >= 0 ? 0.001 : 0.1));
        pthread_mutex_lock(&g->lock);
        w->finishing = true; /* for the watcher: somebody waits for it */
        ready = w->launched && seconds < 0;
        if (!ready && !w->done) pthread_cond_timedwait(&g->changed, &g->lock, &until);
        pthread_mutex_unlock(&g->lock);
        double now = tpi_now();
        if (tpi_interrupted()) return false;
        if (g->job->failed && failed_at == 0) failed_at = now;
        if (failed_at > 0 && now > failed_at + 1) return tpi_job_ok(g->job);
        if (!ready && now > from + most && !tp_work_done(w)) return tpi_work_timed_out(w, most);
    }
    if (w->done && !w->captured) return !w->failed || tpi_refuse(w->code, "%s", w->error ? w->error : "out of memory");
    return tpi_job_ok(g->job) && w->comm->driver->stream_wait(w->device.index, tpi_gpu_stream_of(w->device), w->event);
}

void tpi_gpu_work_free(tp_work *w) {
    if (!w->before && !w->event) return;
    bool fine = tp_ok();
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)w->device.type);
    if (w->before) driver->event_free(w->device.index, w->before);
    if (w->event) driver->event_free(w->device.index, w->event);
    if (fine && !tp_ok()) tp_error_clear();
}

/* ---- What the watcher asks ---- */
static bool broken(tp_group *g, char text[TPI_REASON_BYTES]) {
    bool found = false;
    pthread_mutex_lock(&g->lock);
    for (tpi_comm *c = g->comms; c && !found; c = c->next) {
        int error = 0;
        if (pthread_mutex_trylock(&c->lock)) continue; /* somebody is in it: the next time */
        bool asked = c->comm && c->nccl->async_error(c->comm, &error) == 0;
        found = asked && !tpi_comm_ok(c, error, "a collective of NCCL's");
        pthread_mutex_unlock(&c->lock);
        if (found) {
            snprintf(text, TPI_REASON_BYTES, "group '%s': %s", g->name, tp_error());
            tp_error_clear();
        }
    }
    pthread_mutex_unlock(&g->lock);
    return found;
}

/* The group of that place in the list, with one more reference; NULL: there are not so many. What is done with it may
 * take its time, and take the lock. */
static tp_group *group_at(tpi_job *job, int index) {
    pthread_mutex_lock(&job->lock);
    tp_group *g = job->all;
    while (g && index-- > 0) g = g->next;
    if (g) atomic_fetch_add(&g->refs, 1);
    pthread_mutex_unlock(&job->lock);
    return g;
}

bool tpi_gpu_trouble(tpi_job *job, char text[TPI_REASON_BYTES]) {
    bool found = job->failed_on_gpu;
    tp_group *g;
    if (found) snprintf(text, TPI_REASON_BYTES, "%s", job->reason);
    for (int i = 0; !found && (g = group_at(job, i)); i++) {
        if (g->comms) {
            tpi_gpu_reap(g);
            found = broken(g, text);
        }
        tpi_group_release(g);
    }
    return found;
}

static void *claim_comm(tpi_comm *c) { /* nobody uses it any more */
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    if (pthread_mutex_timedlock(&c->lock, &until))
        return NULL; /* somebody is in a call of NCCL's, and stays there: the process has to end by itself */
    void *comm = c->comm;
    c->comm = NULL;
    pthread_mutex_unlock(&c->lock);
    return comm;
}

static tpi_comm *first_of(tp_group *g) { /* more may be put before it; none goes away */
    pthread_mutex_lock(&g->lock);
    tpi_comm *first = g->comms;
    pthread_mutex_unlock(&g->lock);
    return first;
}

void tpi_gpu_abort(tpi_job *job) {
    tp_group *g;
    for (int i = 0; (g = group_at(job, i)); i++) {
        for (tpi_comm *c = first_of(g); c; c = c->next) {
            void *comm = claim_comm(c);
            if (comm) c->nccl->abort(comm);
        }
        tpi_group_release(g);
    }
}

bool tpi_gpu_quiet(tp_group *g, double seconds) {
    for (double until = tpi_now() + seconds;; usleep(200)) {
        bool busy = false;
        if (!first_of(g)) return true;
        tpi_gpu_reap(g);
        pthread_mutex_lock(&g->lock);
        for (const tp_work *w = g->waiting; w; w = w->next_waiting) busy = busy || w->gpu;
        pthread_mutex_unlock(&g->lock);
        if (!busy || g->job->failed || tpi_now() > until) return !busy;
    }
}

void tpi_gpu_end(tp_group *g) {
    for (tpi_comm *c = first_of(g); c; c = c->next) {
        if (c->threaded) pthread_join(c->thread, NULL);
        c->threaded = false;
    }
    bool quiet = tpi_gpu_quiet(g, g->timeout);
    for (tpi_comm *c = first_of(g); c; c = c->next) {
        void *comm = claim_comm(c);
        if (comm) (quiet ? c->nccl->destroy : c->nccl->abort)(comm);
    }
}

void tpi_gpu_forget(tp_group *g) {
    for (tpi_comm *c = g->comms, *next; c; c = next) {
        next = c->next;
        tpi_comm_free(c);
    }
    g->comms = NULL;
}
