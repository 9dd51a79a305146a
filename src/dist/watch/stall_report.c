/* Who has not come. A rank whose collective has waited for the stall time asks rank 0's watcher, and reports the
 * answer; one whose collective has waited for its group's timeout asks as well, and then the whole job fails with the
 * answer, the same on every rank. Rank 0 has all ranks say where they stand before it answers, so that one which has
 * just come is not named. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/memory.h"
#include "dist/engine/net.h"
#include "dist/watch/watch_internal.h"

#define INQUEST     1.5 /* seconds that ranks have to say where they stand, at most */
#define TELL_AGAIN  0.3 /* what they said after having been asked that long ago is news enough */
#define SERVER_TIME 4.0 /* seconds until rank 0 counts as silent when a collective's time is up */

struct tpi_inquest {
    tpi_inquest *next;
    int asker;
    double since, until;
    tpi_question q;
    int32_t ranks[];
};

/* ---- What an answer leads to ---- */
static tp_work *find_work(tpi_job *job, int group, int64_t number,
                          tp_group **of) { /* with the job's lock; gives the group's too */
    for (tp_group *g = job->all; g; g = g->next) {
        if (g->id != group) continue;
        pthread_mutex_lock(&g->lock);
        for (tp_work *work = g->waiting; work; work = work->next_waiting)
            if ((work->number ? work->number : INT64_MAX) == number) {
                *of = g;
                return work;
            }
        pthread_mutex_unlock(&g->lock);
    }
    return NULL;
}

static const char *heading(const tpi_question *q, const char *who) {
    if (q->missing < 0) return " Nobody knows who is missing:\n";
    if (q->missing) return " Not there:\n";
    return *who ? " All ranks have come, but not all go on:\n" : " All ranks have come, the data has not.";
}

static void answer_own(tpi_watch *w, const tpi_question *q, const char *who) {
    pthread_mutex_lock(&w->own.lock);
    if (w->own.q.id == q->id && w->own.text) {
        snprintf(w->own.text, w->own.capacity, "%s%s", heading(q, who), who);
        w->own.done = true;
        pthread_cond_broadcast(&w->own.answered);
    }
    pthread_mutex_unlock(&w->own.lock);
}

static void time_is_up(tpi_watch *w, const tpi_question *q, const char *who) {
    char text[TPI_REASON_BYTES];
    snprintf(text, sizeof text, "%s.%s%s", q->what, heading(q, who), who);
    if (w->job->rank == 0 && !w->late) tpi_watch_tell_all(w, TPI_TIME_UP, text, 0);
    tpi_watch_fail(w, text, false);
}

/* Says who has not come to what this rank waits for. If one of them is gone, it never will: the job fails. */
static void stalled(tpi_watch *w, const tpi_question *q, const char *who) {
    tpi_job *job = w->job;
    tp_group *g;
    char text[TPI_WHO_BYTES + 1024], about[TPI_ABOUT_BYTES], name[TPI_NAME_BYTES], call_site[TPI_CALL_SITE_BYTES];
    pthread_mutex_lock(&job->lock);
    tp_work *work = find_work(job, q->group, q->number, &g);
    double waited = work ? tpi_now() - work->since : 0;
    bool due = work && waited >= job->stall && tpi_now() - work->reported >= job->stall;
    /* A message that nobody waits for harms nobody, and what may come from anyone may come from those who are still
     * there. */
    bool gone = q->gone && work && (work->number || (work->finishing && work->root >= 0));
    if (work) {
        tpi_work_about(work, about);
        memcpy(name, g->name, sizeof name);
        memcpy(call_site, work->call_site, sizeof call_site);
        if (due) work->reported = tpi_now();
        pthread_mutex_unlock(&g->lock);
    }
    pthread_mutex_unlock(&job->lock);
    if (!work || (!due && !gone)) return; /* it has come in the meantime */
    char number[48 + TPI_NAME_BYTES] = "";
    if (q->number != INT64_MAX)
        snprintf(number, sizeof number, ", number %lld of group '%s'", (long long)q->number, name);
    snprintf(text, sizeof text, "rank %d (host %s, pid %d) has waited %.0f s in %s%s, at %s.%s%s", job->rank,
             tpi_net_host(), (int)getpid(), waited, about, number, *call_site ? call_site : "?", heading(q, who), who);
    if (due) tpi_report(text);
    if (!gone) return;
    snprintf(text, sizeof text, "%s%s waits for a rank that is gone, %.*s", about, number, (int)strcspn(who + 2, "\n"),
             who + 2);
    if (job->rank == 0)
        tpi_watch_tell_all(w, TPI_DEATH, text, 0); /* so that all have one reason */
    else if (!w->server_left)
        tpi_watch_tell(w, w->server.fd, TPI_RANK_FAILED, text, strlen(text), NULL, 0);
    tpi_watch_fail(w, text, true);
}

void tpi_answered(tpi_watch *w, const tpi_question *q, const char *who) {
    if (q->id)
        answer_own(w, q, who);
    else if (*q->what)
        time_is_up(w, q, who);
    else {
        w->asked = 0;
        stalled(w, q, who);
    }
}

/* ---- Rank 0: answering ---- */
static void answer(tpi_watch *w, int asker, const tpi_question *asked, const int32_t *ranks, double since) {
    char who[TPI_WHO_BYTES];
    bool gone;
    tpi_question q = *asked;
    q.missing = tpi_ranks_missing(w->list, q.group, q.number, ranks, q.n, since, who, sizeof who, &gone);
    q.gone = gone;
    if (asker == w->job->rank || *q.what) {
        tpi_answered(w, &q, who);
        return;
    }
    for (int i = 0; i < w->nclients; i++)
        if (w->clients[i].rank == asker)
            tpi_watch_tell(w, w->clients[i].fd, TPI_ANSWER, &q, sizeof q, who, strlen(who));
}

static void consider(tpi_watch *w, int asker, const tpi_question *q, const int32_t *ranks) {
    double now = tpi_now(), most = *q->what || q->id ? INQUEST : 0.5 * w->patience;
    tpi_inquest *i = q->number == INT64_MAX ? NULL : tpi_malloc(sizeof *i + sizeof *ranks * (size_t)q->n);
    if (!i) { /* what is known has to do; about a message it does */
        if (!tp_ok()) tp_error_clear();
        answer(w, asker, q, ranks, now - 2);
        return;
    }
    if (now - w->tell_since > TELL_AGAIN) {
        w->tell_since = now;
        tpi_watch_tell_all(w, TPI_TELL, "", 0);
    }
    *i = (tpi_inquest){.next = w->inquests, .asker = asker, .since = w->tell_since, .until = now + most, .q = *q};
    memcpy(i->ranks, ranks, sizeof *ranks * (size_t)q->n);
    w->inquests = i;
}

static bool all_have_told(const tpi_watch *w, const tpi_inquest *i) {
    for (int k = 0; k < i->q.n; k++) {
        const struct tpi_known *known = &w->list->ranks[i->ranks[k]];
        if (i->ranks[k] && known->presence == TPI_HERE && known->heard < i->since) return false;
    }
    return true;
}

void tpi_look_at_inquests(tpi_watch *w) {
    bool fresh = false;
    for (tpi_inquest **at = &w->inquests; *at;) {
        tpi_inquest *i = *at;
        if (!all_have_told(w, i) && tpi_now() < i->until) {
            at = &i->next;
            continue;
        }
        if (!fresh) { /* rank 0's own */
            tpi_watch_tell_state(w);
            fresh = true;
        }
        *at = i->next;
        answer(w, i->asker, &i->q, i->ranks, i->since);
        tpi_mfree(i);
    }
}

void tpi_drop_inquests(tpi_watch *w) {
    while (w->inquests) {
        tpi_inquest *i = w->inquests;
        w->inquests = i->next;
        tpi_mfree(i);
    }
}

void tpi_asked(tpi_watch *w, int asker, const char *body, size_t n) {
    tpi_question q;
    if (n < sizeof q) return;
    memcpy(&q, body, sizeof q);
    q.what[sizeof q.what - 1] = 0;
    const int32_t *ranks = (const int32_t *)(body + sizeof q);
    if (q.n < 0 || (size_t)q.n * sizeof *ranks != n - sizeof q) return;
    for (int i = 0; i < q.n; i++)
        if (ranks[i] < 0 || ranks[i] >= w->job->size) return;
    consider(w, asker, &q, ranks);
}

/* ---- Asking ---- */
static void server_is_silent(tpi_watch *w, const tpi_question *q) {
    char who[512], name[200];
    tpi_question silent = *q;
    silent.missing = *q->what ? 1 : -1;
    tpi_ranks_name(w->list, 0, name, sizeof name);
    snprintf(who, sizeof who, "  %s, which keeps the list, does not answer: it is stopped, or its machine is.", name);
    tpi_answered(w, &silent, who);
}

/* Rank 0 has left in order, and with it the list. Where it stood at its end is known. */
static void ask_nobody(tpi_watch *w, const tpi_question *q, const int32_t *ranks) {
    char who[TPI_WHO_BYTES] = "  rank 0, which kept the list, has left the job.";
    bool gone = false;
    tpi_question a = *q;
    int32_t zero = 0;
    bool with_zero = false;
    for (int i = 0; i < q->n; i++) with_zero = with_zero || ranks[i] == 0;
    a.missing = with_zero ? tpi_ranks_missing(w->list, q->group, q->number, &zero, 1, 0, who, sizeof who, &gone) : -1;
    a.gone = gone;
    if (with_zero || *q->what || q->id) tpi_answered(w, &a, who);
}

static void ask(tpi_watch *w, const tpi_question *q, const int32_t *ranks) {
    bool late = *q->what;
    double *since = late ? &w->late_since : &w->asked;
    if (w->job->rank == 0) {
        consider(w, 0, q, ranks);
        return;
    }
    if (w->server_left) {
        ask_nobody(w, q, ranks);
        return;
    }
    if (!q->id && *since > 0 && tpi_now() - *since > (late ? SERVER_TIME : w->patience)) server_is_silent(w, q);
    if (!q->id && *since == 0)
        *since = tpi_now();
    else if (late)
        return; /* once is enough: what it leads to comes to all */
    tpi_watch_tell(w, w->server.fd, TPI_ASK, q, sizeof *q, ranks, sizeof *ranks * (size_t)q->n);
}

/* The ranks that a work waits for; about a message, one peer or all that it may come from. With the group's lock. NULL:
 * no memory. */
static int32_t *awaited(const tp_group *g, const tp_work *work, tpi_question *q) {
    bool message = !work->number;
    int32_t *list = tpi_malloc(sizeof *list * (size_t)g->n);
    if (!list) {
        tp_error_clear();
        return NULL;
    }
    *q = (tpi_question){.group = g->id, .number = message ? INT64_MAX : work->number};
    for (int i = 0; i < g->n; i++)
        if (message ? i == work->root || (work->root < 0 && i != g->rank) : i != g->rank) list[q->n++] = g->ranks[i];
    return list;
}

void tpi_time_up_text(const tp_work *work, double seconds, char *text, size_t capacity) {
    char about[TPI_ABOUT_BYTES], number[32] = "";
    tpi_work_about(work, about);
    if (work->number) snprintf(number, sizeof number, ", number %lld", (long long)work->number);
    snprintf(text, capacity, "%s%s of group '%s', timed out after %.1f seconds", about, number, work->group->name,
             seconds);
}

/* Asks about everything that has waited for long, a while before it is to be reported; where a rank has left, about
 * everything that waits. */
void tpi_check_stalls(tpi_watch *w) {
    tpi_job *job = w->job;
    enum { MOST = 8 };
    tpi_question due[MOST];
    int32_t *members[MOST];
    int n = 0;
    double now = tpi_now();
    pthread_mutex_lock(&job->lock);
    for (tp_group *g = job->all; g; g = g->next) {
        pthread_mutex_lock(&g->lock);
        bool on_gpu = false;
        for (tp_work *work = g->waiting; work && n < MOST; work = work->next_waiting) {
            if (work->gpu && work->number && on_gpu) continue; /* those behind the first wait for that one */
            on_gpu = on_gpu || (work->gpu && work->number);
            double last = work->reported > work->since ? work->reported : work->since;
            bool late =
                work->number && now - work->since > g->timeout; /* whoever waits for a message looks after its time */
            if (!late && now - last < 0.6 * job->stall && !(w->somebody_left && now - work->since > 0.3)) continue;
            if (!(members[n] = awaited(g, work, &due[n]))) continue;
            if (late) tpi_time_up_text(work, g->timeout, due[n].what, sizeof due[n].what);
            n++;
        }
        pthread_mutex_unlock(&g->lock);
    }
    pthread_mutex_unlock(&job->lock);
    if (!n) w->asked = 0;
    for (int i = 0; i < n; i++) {
        if (!w->late) ask(w, &due[i], members[i]);
        tpi_mfree(members[i]);
    }
}

/* ---- The program's own question ---- */
void tpi_watch_read_own_question(tpi_watch *w) {
    pthread_mutex_lock(&w->own.lock);
    bool wanted = w->own.wanted;
    tpi_question q = w->own.q;
    int32_t *ranks = wanted ? tpi_malloc(sizeof *ranks * (size_t)(q.n ? q.n : 1)) : NULL;
    if (ranks) memcpy(ranks, w->own.ranks, sizeof *ranks * (size_t)q.n);
    w->own.wanted = false;
    pthread_mutex_unlock(&w->own.lock);
    if (ranks)
        ask(w, &q, ranks);
    else if (wanted)
        tp_error_clear();
    tpi_mfree(ranks);
}

void tpi_watch_ask(tp_work *work, char *text, size_t capacity) {
    static _Atomic int64_t ids;
    tp_group *g = work->group;
    tpi_watch *w = g->job->watch;
    tpi_question q;
    *text = 0;
    if (!w) return;
    pthread_mutex_lock(&g->lock);
    int32_t *ranks = awaited(g, work, &q);
    pthread_mutex_unlock(&g->lock);
    if (!ranks) return;
    q.id = ++ids;
    pthread_mutex_lock(&w->own.asker_lock);
    pthread_mutex_lock(&w->own.lock);
    w->own.q = q;
    w->own.ranks = ranks;
    w->own.text = text;
    w->own.capacity = capacity;
    w->own.wanted = true;
    w->own.done = false;
    ssize_t ignored = write(w->wake[1], "", 1);
    (void)ignored;
    struct timespec until = tpi_until(tpi_now() + 2 * INQUEST);
    while (!w->own.done)
        if (pthread_cond_timedwait(&w->own.answered, &w->own.lock, &until) == ETIMEDOUT) break;
    if (!w->own.done) snprintf(text, capacity, " Rank 0, which keeps the list of who is where, does not answer.");
    w->own.wanted = false;
    w->own.text = NULL;
    w->own.ranks = NULL;
    pthread_mutex_unlock(&w->own.lock);
    pthread_mutex_unlock(&w->own.asker_lock);
    tpi_mfree(ranks);
}
