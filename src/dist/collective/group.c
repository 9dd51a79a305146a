/* Groups: their thread, their queue, and waiting for works. A work is on the list of those that wait from the moment it
 * begins until it is done, so that the watcher can tell what this rank stands at. */
#include "dist/collective/group.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"
#include "dist/collective/gpu.h"
#include "dist/engine/net.h"
#include "dist/store/store.h"
#include "dist/watch/watch.h"
#include "tensor/tensor.h"

/* ---- The list of works that wait, and of those that are done (under the lock) ---- */
static void list_add(tp_group *g, tp_work *w) { /* the oldest is first */
    tp_work **at = &g->waiting;
    while (*at) at = &(*at)->next_waiting;
    w->next_waiting = NULL;
    *at = w;
    w->listed = true;
}

static void list_remove(tp_group *g, tp_work *w) {
    for (tp_work **at = &g->waiting; *at; at = &(*at)->next_waiting)
        if (*at == w) {
            *at = w->next_waiting;
            break;
        }
    w->listed = false;
}

static void begin(tp_work *w, const char about[TPI_ABOUT_BYTES]) {
    tp_group *g = w->group;
    if (w->listed) return; /* one that was to go by NCCL, and goes by the host */
    w->since = tpi_now();
    list_add(g, w);
    if (!w->number || w->number < g->entered)
        return; /* a message, or one that a later one, on a GPU, did not wait for */
    g->entered = w->number;
    memcpy(g->last, about, sizeof g->last);
    memcpy(g->call_site, w->call_site, sizeof g->call_site);
}

void tpi_work_begin(tp_work *w) {
    char about[TPI_ABOUT_BYTES] = "";
    tpi_work_about(w, about);
    pthread_mutex_lock(&w->group->lock);
    begin(w, about);
    pthread_mutex_unlock(&w->group->lock);
}

void tpi_work_close(tp_work *w, char *error, tp_code code) {
    tp_group *g = w->group;
    w->failed = code != TP_OK;
    w->error = error;
    w->code = code;
    w->done = true;
    if (w->listed) list_remove(g, w);
    if (w->number && w->number >= g->left && !w->failed) {
        g->left = w->number;
        g->left_at = tpi_now();
    }
    pthread_cond_broadcast(&g->changed);
}

void tpi_work_end(tp_work *w) {
    bool ok = tp_ok() && tpi_work_bring_back(w);
    tp_code code = ok ? TP_OK : tp_error_code();
    char *error = ok ? NULL : tpi_strdup(tp_error());
    tp_error_clear();
    pthread_mutex_lock(&w->group->lock);
    tpi_work_close(w, error, code);
    pthread_mutex_unlock(&w->group->lock);
}

/* ---- The thread ---- */
tp_work *tpi_next_work(tp_group *g, tp_work **first, tp_work ***end) {
    pthread_mutex_lock(&g->lock);
    while (!*first && !g->closing) pthread_cond_wait(&g->changed, &g->lock);
    tp_work *w = *first;
    if (w && !(*first = w->next)) *end = first;
    pthread_mutex_unlock(&g->lock);
    return w;
}

static void *group_main(void *context) {
    tp_group *g = context;
    for (tp_work *w; (w = tpi_next_work(g, &g->first, &g->end)); tp_work_release(w)) {
        if (w->gpu) {
            tpi_gpu_check(w);
            continue;
        }
        tpi_work_begin(w);
        if (tpi_job_ok(g->job) && !tpi_collective_run(w) && tp_ok()) tpi_fail(TP_ERR_RUNTIME, "the collective failed");
        tpi_work_end(w);
    }
    return NULL;
}

bool tpi_group_add(tp_work *w) {
    tp_group *g = w->group;
    char about[TPI_ABOUT_BYTES] = "";
    bool alone = w->gpu && (g->n == 1 || !tpi_checks_wanted()); /* the thread has nothing to do for it */
    tpi_work_about(w, about);
    pthread_mutex_lock(&g->lock);
    int error = g->threaded || alone ? 0 : pthread_create(&g->thread, NULL, group_main, g);
    if (!error && !w->number) w->number = ++g->number;
    if (!error && w->gpu) begin(w, about);
    if (!error && !alone) {
        g->threaded = true;
        w->next = NULL;
        atomic_fetch_add(&w->refs, 1); /* the thread's */
        *g->end = w;
        g->end = &w->next;
        pthread_cond_broadcast(&g->changed);
    }
    pthread_mutex_unlock(&g->lock);
    return !error || tpi_refuse(TP_ERR_MEMORY, "cannot start the group's thread: %s", strerror(error));
}

/* ---- Making and closing groups ---- */
/* A number that all members find by themselves: of the list of ranks, and of how many groups were made of that list
 * before. 0: all ranks, first time. */
static int id_of(tpi_job *job, int n, const int *ranks) {
    uint32_t h = 2166136261u;
    for (int i = 0; i < n; i++) h = (h ^ (uint32_t)ranks[i]) * 16777619u;
    pthread_mutex_lock(&job->lock);
    int again = 0;
    for (int i = 0; i < job->nmade; i++) again += job->made[i] == h;
    if (job->nmade < TPI_MOST_GROUPS) job->made[job->nmade++] = h;
    bool first = job->nmade == 1;
    pthread_mutex_unlock(&job->lock);
    for (int i = 0; i < again; i++) h = (h ^ 0x5bd1e995u) * 16777619u;
    return first ? 0 : (int)(h & 0x7fffffff) | 1;
}

tp_group *tpi_group_open(tpi_job *job, int n, const int *ranks, double timeout, const char *name) {
    tp_group *g = tpi_malloc(sizeof *g);
    int *copy = g ? tpi_malloc(sizeof *copy * (size_t)(n ? n : 1)) : NULL;
    if (!copy) {
        tpi_mfree(g);
        return NULL;
    }
    *g = (tp_group){.refs = 1,
                    .job = job,
                    .id = id_of(job, n, ranks),
                    .n = n,
                    .rank = -1,
                    .ranks = copy,
                    .timeout = timeout > 0 ? timeout : job->timeout};
    for (int i = 0; i < n; i++) {
        copy[i] = ranks[i];
        if (ranks[i] == job->rank) g->rank = i;
    }
    if (name && *name)
        snprintf(g->name, sizeof g->name, "%s", name);
    else
        snprintf(g->name, sizeof g->name, "%d", g->id);
    g->end = &g->first;
    pthread_mutex_init(&g->lock, NULL);
    pthread_mutex_init(&g->launching, NULL);
    tpi_condition_init(&g->changed);
    if (g->id && g->rank >= 0 && job->engine->group && !(g->members = job->engine->group(job->self, n, copy, g->id))) {
        tpi_refuse_engine(job);
        tpi_mfree(copy);
        tpi_mfree(g);
        return NULL;
    }
    pthread_mutex_lock(&job->lock);
    g->next = job->all;
    job->all = g;
    pthread_mutex_unlock(&job->lock);
    return g;
}

static tp_group *group_new(tp_ints ranks, double timeout, const char *name, bool agree) {
    tpi_job *job = tpi_job_now;
    if (!job) return tpi_fail(TP_ERR_RUNTIME, "there is no process group: call tp_dist_init first");
    int *list = tpi_malloc(sizeof *list * (size_t)(ranks.n ? ranks.n : 1));
    if (!list) return NULL;
    for (int64_t i = 0; i < ranks.n; i++) {
        list[i] = (int)ranks.v[i];
        bool twice = false;
        for (int64_t k = 0; k < i; k++) twice = twice || list[k] == list[i];
        if (ranks.v[i] >= 0 && ranks.v[i] < job->size && !twice) continue;
        tpi_mfree(list);
        return tpi_fail(TP_ERR_VALUE, "argument 'ranks': %lld %s; the job has ranks 0 to %d", (long long)ranks.v[i],
                        twice ? "comes twice" : "is not a rank", job->size - 1);
    }
    bool ok = !agree || job->size == 1 || !tpi_checks_wanted() || tpi_agree_on_group((int)ranks.n, list);
    tp_group *g = ok ? tpi_group_open(job, (int)ranks.n, list, timeout, name) : NULL;
    tpi_mfree(list);
    return g;
}

tp_group *tp_group_new(tp_ints ranks, double timeout, const char *name) {
    return group_new(ranks, timeout, name, true);
}
tp_group *tp_group_new_local(tp_ints ranks, double timeout, const char *name) {
    return group_new(ranks, timeout, name, false);
}

void tpi_group_end_thread(tp_group *g) {
    pthread_mutex_lock(&g->lock);
    g->closing = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    if (g->threaded) pthread_join(g->thread, NULL);
    g->threaded = false;
    tpi_gpu_end(g);
}

void tp_group_free(tp_group *g) {
    if (TPI_ENDED(g, "a group")) return;
    if (!g) return;
    tpi_job *job = g->job;
    tpi_group_end_thread(g);
    pthread_mutex_lock(&job->lock);
    for (tp_group **at = &job->all; *at; at = &(*at)->next)
        if (*at == g) {
            *at = g->next;
            break;
        }
    pthread_mutex_unlock(&job->lock);
    if (g->members && job->engine->group_free && !job->failed) job->engine->group_free(job->self, g->members);
    tpi_group_release(g);
}

void tpi_group_release(tp_group *g) {
    if (atomic_fetch_sub(&g->refs, 1) != 1) return;
    tpi_gpu_forget(g);
    pthread_mutex_destroy(&g->lock);
    pthread_mutex_destroy(&g->launching);
    pthread_cond_destroy(&g->changed);
    tpi_mfree(g->ranks);
    tpi_handle_mfree(g);
}

static const tp_group *or_world(const tp_group *g) { return g || !tpi_job_now ? g : tp_dist_world(); }
int tp_group_rank(const tp_group *g) {
    if (TPI_ENDED(g, "a group")) return -1;
    return or_world(g) ? or_world(g)->rank : -1;
}
int tp_group_size(const tp_group *g) {
    if (TPI_ENDED(g, "a group")) return -1;
    return or_world(g) ? or_world(g)->n : -1;
}
const char *tp_group_name(const tp_group *g) {
    if (TPI_ENDED(g, "a group")) return NULL;
    return or_world(g) ? or_world(g)->name : "";
}
int64_t tp_group_number(const tp_group *g) {
    if (TPI_ENDED(g, "a group")) return -1;
    return or_world(g) ? or_world(g)->number : 0;
}
int tp_group_global_rank(const tp_group *g, int rank) {
    if (TPI_ENDED(g, "a group")) return -1;
    g = or_world(g);
    return g && rank >= 0 && rank < g->n ? g->ranks[rank] : -1;
}
void tp_group_set_timeout(tp_group *g, double seconds) {
    if (TPI_ENDED(g, "a group")) return;
    g = (tp_group *)or_world(g);
    if (!g || seconds <= 0) return;
    pthread_mutex_lock(&g->lock);
    g->timeout = seconds;
    pthread_mutex_unlock(&g->lock);
}

/* ---- Waiting ---- */
static void finish_message(tp_work *w, double seconds) { /* of a send or receive, by whoever waits for it */
    tpi_job *job = w->group->job;
    tpi_message m = {0};
    tpi_engine_result done = job->engine->finish(job->self, w->request, seconds, &m);
    if (done == TPI_ENGINE_PASS) return;
    w->request = NULL;
    if (done == TPI_ENGINE_FAILED)
        tpi_refuse_engine(job);
    else if (w->kind == TPI_RECV) {
        const tp_tensor *t = w->out->flat;
        char a[96], b[96];
        for (w->source = 0; w->source < w->group->n - 1 && w->group->ranks[w->source] != m.from;) w->source++;
        if (m.bytes != t->numel * (int64_t)tpi_itemsize(t) || m.label != t->dtype)
            tpi_fail(TP_ERR_RUNTIME, "recv: %s sent %s, %lld bytes; %s expected %s %s, %lld bytes",
                     tpi_rank_name(job, m.from, a, sizeof a), tp_dtype_name((tp_dtype)m.label), (long long)m.bytes,
                     tpi_rank_name(job, job->rank, b, sizeof b), tp_dtype_name((tp_dtype)t->dtype),
                     tpi_shape_text(tpi_shape(t)), (long long)(t->numel * (int64_t)tpi_itemsize(t)));
    }
    tpi_work_end(w);
}

static void wait_a_while(tp_work *w, double seconds) { /* up to that long, for it to be done */
    tp_group *g = w->group;
    double deadline = tpi_now() + seconds;
    struct timespec until = tpi_until(deadline);
    pthread_mutex_lock(&g->lock);
    while (!w->done && (!w->request || w->finishing) && seconds > 0)
        if (pthread_cond_timedwait(&g->changed, &g->lock, &until) == ETIMEDOUT) break;
    bool mine = !w->done && w->request && !w->finishing;
    if (mine) w->finishing = true;
    if (seconds > 0) w->awaited = tpi_now();
    pthread_mutex_unlock(&g->lock);
    if (!mine) return;
    finish_message(w, seconds);
    pthread_mutex_lock(&g->lock);
    w->finishing = false;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

bool tp_work_done(tp_work *w) {
    if (TPI_ENDED(w, "a collective's work")) return false;
    if (w && !w->done && w->gpu) tpi_gpu_look_at(w);
    if (w && !w->done && w->request) wait_a_while(w, 0);
    return !w || w->done;
}

/* A work of the list that is to be finished, with one more reference; NULL: there is none. */
static tp_work *unfinished(tp_group *g, bool orphans_only, int skip) {
    pthread_mutex_lock(&g->lock);
    tp_work *w = g->waiting;
    while (w && (!w->request || w->finishing || (orphans_only && !w->orphan) || skip-- > 0)) w = w->next_waiting;
    if (w) atomic_fetch_add(&w->refs, 1);
    pthread_mutex_unlock(&g->lock);
    return w;
}

static bool finish_one(tp_work *w) {
    bool done = tp_work_done(w), orphan = w->orphan;
    tp_work_release(w);
    if (done && orphan) tp_work_release(w);
    return done;
}

void tpi_group_reap(tp_group *g) {
    int skip = 0;
    for (tp_work *w; (w = unfinished(g, true, skip));) skip += !finish_one(w);
}

void tpi_group_abandon(tp_group *g) {
    for (tp_work *w; (w = unfinished(g, false, 0));) finish_one(w);
}

bool tp_work_succeeded(tp_work *w) {
    if (TPI_ENDED(w, "a collective's work")) return false;
    return w && tp_work_done(w) && !w->failed;
}
const char *tp_work_error(tp_work *w) {
    if (TPI_ENDED(w, "a collective's work")) return NULL;
    return w && tp_work_done(w) && w->failed ? w->error ? w->error : "out of memory" : NULL;
}
int tp_work_source(tp_work *w) {
    if (TPI_ENDED(w, "a collective's work")) return -1;
    if (w && w->gpu && w->kind == TPI_RECV) return w->root; /* NCCL's come from one rank */
    return w && w->kind == TPI_RECV && tp_work_succeeded(w) ? w->source : -1;
}

bool tpi_work_timed_out(tp_work *w, double seconds) {
    char what[TPI_ABOUT_BYTES + 160], who[TPI_REASON_BYTES - TPI_ABOUT_BYTES - 160];
    tpi_time_up_text(w, seconds, what, sizeof what);
    tpi_watch_ask(w, who, sizeof who);
    return tpi_refuse(TP_ERR_RUNTIME, "%s.%s", what, who);
}

bool tp_work_wait(tp_work *w, double seconds) {
    if (TPI_ENDED(w, "a collective's work")) return false;
    if (!w) return tpi_refuse(TP_ERR_TYPE, "argument 'work': expected a work, got NULL");
    if (!tp_ok()) return false;
    if (w->gpu) return tpi_gpu_wait(w, seconds);
    /* A collective keeps its own time; what can still wait for ever is one that cannot be interrupted, after the job
     * has failed. */
    double from = tpi_now(),
           most = seconds >= 0 ? seconds : w->group->timeout + (w->kind >= TPI_SEND ? 0 : TPI_TIME_UP_LATER + 5),
           patience = 1;
    for (double failed_at = 0; !tp_work_done(w);) {
        double now = tpi_now();
        wait_a_while(w, 0.1);
        if (tpi_interrupted()) return false;
        if (w->group->job->failed && failed_at == 0) failed_at = now;
        if (failed_at > 0 && now > failed_at + patience) return tpi_job_ok(w->group->job);
        if (now > from + most && !tp_work_done(w)) return tpi_work_timed_out(w, most);
    }
    return !w->failed || tpi_refuse(w->code ? w->code : TP_ERR_MEMORY, "%s", tp_work_error(w));
}

bool tp_dist_wait(tp_work *w) {
    if (TPI_ENDED(w, "a collective's work")) return false;
    bool ok = w && tp_work_wait(w, -1);
    tp_work_release(w);
    return ok;
}
