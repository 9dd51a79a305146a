/* Messages of one round, waited for together; and the round by which ranks see, before any data moves, that they agree.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/memory.h"
#include "dist/collective/collective.h"
#include "dist/engine/net.h"
#include "dist/watch/watch.h"
#include "tensor/tensor.h"

typedef struct tpi_leg {
    void *request;
    int peer; /* in the group */
    bool sends;
    int64_t bytes;
} leg;

tpi_round tpi_round_new(tp_work *work, int channel) {
    return (tpi_round){.work = work, .channel = channel, .ok = true};
}

static leg *next_leg(tpi_round *r) {
    if (r->n == r->capacity) {
        int capacity = r->capacity ? r->capacity * 2 : 16;
        leg *more = tpi_realloc(r->legs, sizeof *more * (size_t)capacity);
        if (!more) {
            r->ok = false;
            return NULL;
        }
        r->legs = more;
        r->capacity = capacity;
    }
    return &r->legs[r->n];
}

static uint64_t label(const tp_work *w) { return (uint64_t)w->number << 8 | (uint64_t)w->kind; }

void tpi_round_send(tpi_round *r, int to, const void *data, int64_t bytes) {
    const tp_group *g = r->work->group;
    leg *l = r->ok ? next_leg(r) : NULL;
    if (!l) return;
    void *request = g->job->engine->send(g->job->self, g->members, g->ranks[to], tpi_message_slot(g, r->channel, 0),
                                         label(r->work), data, bytes);
    if (request) {
        *l = (leg){request, to, true, bytes};
        r->n++;
    } else
        r->ok = false;
}

void tpi_round_recv(tpi_round *r, int from, void *data, int64_t bytes) {
    const tp_group *g = r->work->group;
    leg *l = r->ok ? next_leg(r) : NULL;
    if (!l) return;
    void *request =
        g->job->engine->recv(g->job->self, g->members, g->ranks[from], tpi_message_slot(g, r->channel, 0), data, bytes);
    if (request) {
        *l = (leg){request, from, false, bytes};
        r->n++;
    } else
        r->ok = false;
}

static bool check_message(const tpi_round *r, const leg *l, const tpi_message *m) {
    const tp_work *w = r->work;
    if (l->sends || r->unlabelled || (m->bytes == l->bytes && m->label == label(w))) return true;
    char a[96], b[96];
    tpi_job *job = w->group->job;
    return tpi_refuse(TP_ERR_RUNTIME,
                      "%s, number %lld of group '%s': %s sent %lld bytes (of its number %lld), %s expected %lld",
                      tpi_work_names[w->kind], (long long)w->number, w->group->name,
                      tpi_rank_name(job, w->group->ranks[l->peer], a, sizeof a), (long long)m->bytes,
                      (long long)(m->label >> 8), tpi_rank_name(job, job->rank, b, sizeof b), (long long)l->bytes);
}

/* Only where rank 0, whose watcher tells of timeouts, has left the job: who has not come is not known then. */
static bool late(const tpi_round *r, const leg *l) {
    const tp_work *w = r->work;
    char text[TPI_ABOUT_BYTES + 160];
    tpi_time_up_text(w, w->group->timeout, text, sizeof text);
    return tpi_refuse(TP_ERR_RUNTIME, "%s: rank %d %s, which may itself wait for another", text,
                      w->group->ranks[l->peer],
                      l->sends ? "has not taken what was sent to it" : "has not sent its part");
}

static bool finish(tpi_round *r, leg *l) {
    tpi_job *job = r->work->group->job;
    tpi_message m;
    for (;;) {
        tpi_engine_result done = job->engine->finish(job->self, l->request, 0.25, &m);
        if (done == TPI_ENGINE_DONE) return !r->ok || check_message(r, l, &m);
        if (done == TPI_ENGINE_FAILED) return false;
        if (r->ok && tpi_now() > r->work->since + r->work->group->timeout + TPI_TIME_UP_LATER) r->ok = late(r, l);
        if (!r->ok) job->engine->stop(job->self); /* the memory goes with the round: nothing may be under way */
    }
}

bool tpi_round_end(tpi_round *r) {
    tpi_job *job = r->work->group->job;
    for (int i = 0; i < r->n; i++) {
        if (!r->ok) job->engine->stop(job->self);
        if (!finish(r, &r->legs[i])) r->ok = false;
    }
    tpi_mfree(r->legs);
    r->legs = NULL;
    r->n = r->capacity = 0;
    if (r->ok) return true;
    if (tp_ok()) tpi_refuse_engine(job);
    return false;
}

/* ---- Agreement ---- */
static uint64_t mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
    return h ^ h >> 29;
}

static uint64_t mix_tensor(uint64_t h, const tp_tensor *t) {
    h = mix(mix(h, t->dtype), t->ndim);
    for (int d = 0; d < t->ndim; d++) h = mix(h, (uint64_t)t->shape[d]);
    return h;
}

uint64_t tpi_fingerprint(const tp_work *w) {
    uint64_t h = mix(mix(mix(mix(1, w->kind), w->op), (uint64_t)w->root), w->gpu);
    switch (w->kind) {
    case TPI_ALL_GATHER:
        for (int i = 0; i < w->nout; i++) h = mix(mix(h, w->out[i].t->dtype), (uint64_t)w->out[i].t->numel);
        return h;
    case TPI_ALL_TO_ALL: return w->nin ? mix(h, w->in[0].t->dtype) : h;
    case TPI_REDUCE_SCATTER: /* ranks may get parts of other sizes, but all divide alike */
        for (int i = 0; i < w->nin; i++) h = mix(mix(h, w->in[i].t->dtype), (uint64_t)w->in[i].t->numel);
        return h;
    case TPI_RECV:
    case TPI_SCATTER: return mix_tensor(h, w->out[0].t);
    case TPI_BARRIER: return h;
    case TPI_NEW_GROUP: return mix(h, w->print);
    default: return mix_tensor(h, w->in[0].t);
    }
}

/* The largest fingerprint and the largest complement of one: in rounds with ever farther neighbours, as taking the
 * largest twice does no harm. */
static bool largest(tp_work *w, int64_t pair[2]) {
    tp_group *g = w->group;
    const tpi_engine *engine = g->job->engine;
    tpi_engine_result done = engine->all_reduce
                                 ? engine->all_reduce(g->job->self, g->members, pair, 2, TP_INT64, TP_REDUCE_MAX)
                                 : TPI_ENGINE_PASS;
    if (done != TPI_ENGINE_PASS) return done == TPI_ENGINE_DONE || tpi_refuse_engine(g->job);
    for (int step = 1; step < g->n; step *= 2) {
        int64_t theirs[2];
        tpi_round r = tpi_round_new(w, TPI_CHANNEL_CHECK);
        r.unlabelled = true; /* the label carries number and kind: whether those differ is what this finds out */
        tpi_round_recv(&r, (g->rank - step + g->n) % g->n, theirs, sizeof theirs);
        tpi_round_send(&r, (g->rank + step) % g->n, pair, sizeof theirs);
        if (!tpi_round_end(&r)) return false;
        for (int i = 0; i < 2; i++)
            if (theirs[i] > pair[i]) pair[i] = theirs[i];
    }
    return true;
}

typedef struct stand {
    char about[TPI_ABOUT_BYTES], name[128];
} stand;

static bool tell_stands(
    tp_work *w,
    stand *all) { /* everybody's to everybody; not by the store, which may go with the first rank that gives up */
    tp_group *g = w->group;
    tpi_round r = tpi_round_new(w, TPI_CHANNEL_CHECK);
    r.unlabelled = true;
    for (int i = 0; i < g->n; i++) {
        if (i == g->rank) continue;
        tpi_round_recv(&r, i, &all[i], sizeof *all);
        tpi_round_send(&r, i, &all[g->rank], sizeof *all);
    }
    return tpi_round_end(&r);
}

static bool disagreement(tp_work *w) { /* everybody knows that there is one, and tells what it came to */
    tp_group *g = w->group;
    stand *all = tpi_malloc(sizeof *all * (size_t)g->n);
    if (!all) return false;
    memset(all, 0, sizeof *all * (size_t)g->n);
    tpi_work_about(w, all[g->rank].about);
    snprintf(all[g->rank].name, sizeof all->name, "rank %d (host %.80s, pid %d)", g->job->rank, tpi_net_host(),
             (int)getpid());
    int other = 1;
    if (tell_stands(w, all)) {
        while (other < g->n && strcmp(all[0].about, all[other].about) == 0) other++;
        if (other < g->n)
            tpi_fail(TP_ERR_RUNTIME, "ranks disagree about number %lld of group '%s': %s came to %s, %s to %s",
                     (long long)w->number, g->name, all[0].name, all[0].about, all[other].name, all[other].about);
        else
            tpi_fail(TP_ERR_RUNTIME,
                     "ranks disagree about number %lld of group '%s': all came to %s, with lists of other sizes",
                     (long long)w->number, g->name, all[0].about);
    }
    tpi_mfree(all);
    return false;
}

bool tpi_agree(tp_work *w) {
    uint64_t h = mix(w->gpu ? w->print : tpi_fingerprint(w), (uint64_t)w->number);
    int64_t pair[2] = {(int64_t)h, (int64_t)~h};
    if (!largest(w, pair)) return false;
    return pair[0] == (int64_t)h && pair[1] == (int64_t)~h && pair[0] == ~pair[1] ? true : disagreement(w);
}
