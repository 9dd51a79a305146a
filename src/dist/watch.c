/* The watcher's thread. Each rank tells rank 0's watcher, once a second, where it stands. One whose collective has waited for the stall time asks there
 * who has not come, and reports it. A connection that closes without a goodbye is a death: rank 0 asks the others where they stand, which says more about
 * where the dead one stood than what it told up to a second ago, and tells everybody; so does a rank that fails and can still say why. */
#define _GNU_SOURCE /* pipe2 */
#include "dist/watch.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/error.h"
#include "base/memory.h"
#include "dist/gpu.h"
#include "dist/net.h"
#include "dist/store.h"

enum { HELLO = 1, STATE, ASK, ANSWER, BYE, FAILED, DEAD, SOMEBODY_LEFT, TELL };
#define INQUEST 0.7 /* seconds that the others have to say where they stand when a rank has died */
enum { TEXT = 8192, MOST_BODY = 4 << 20 };

typedef struct head {
    uint32_t kind, bytes;
} head;
typedef struct hello {
    uint64_t number;
    int64_t rank;
    char who[160];
} hello;
typedef struct question { /* followed by the n ranks, or by the answer's text */
    int32_t group, n;
    int64_t number;
    int32_t missing, gone;
} question;

typedef struct link_ { /* a connection, and what has come of its next message */
    int fd, rank;     /* rank -1: it has not said hello */
    char *in;
    size_t have, room;
} link_;

typedef struct tpi_watch {
    tpi_job *job;
    pthread_t thread;
    bool threaded, closing, left;
    int wake[2], listener;
    uint64_t number;       /* that tells ranks from strangers */
    link_ server;          /* of ranks other than 0 */
    link_ *clients;        /* of rank 0 */
    struct pollfd *polls;
    int nclients, room;
    tpi_ranks *list;       /* of rank 0; of others: what they know of rank 0 */
    bool somebody_left, server_left;
    int dead;              /* rank 0: who has died and is not reported yet, since when; -1: nobody */
    double dead_since;
    double told, asked, failed_at; /* when; 0: not */
    double patience;       /* seconds that an answer may take */
    double joining;        /* since when, or since the last report of it */
    bool ended;
    pthread_mutex_t lock;  /* of what is sent */
} watch;

/* ---- What the program wants to hear ---- */
static struct {
    void (*report)(const char *text);
    void (*end)(const char *text);
    double grace;
} listener_of = {NULL, NULL, 6};

void tp_dist_set_watcher(void (*report)(const char *text), void (*end)(const char *text), double grace) {
    listener_of.report = report, listener_of.end = end;
    if (grace > 0) listener_of.grace = grace;
}

void tpi_report(const char *text) {
    if (listener_of.report) listener_of.report(text);
}

double tpi_stall_time(void) {
    const char *stall = getenv("TAPER_STALL");
    return stall && atof(stall) > 0 ? atof(stall) : 30;
}

/* ---- Messages ---- */
static bool tell(watch *w, int fd, uint32_t kind, const void *body, size_t n, const void *more, size_t m) {
    head h = {kind, (uint32_t)(n + m)};
    double deadline = tpi_now() + 2;
    pthread_mutex_lock(&w->lock);
    bool ok = fd >= 0 && tpi_net_send(fd, &h, sizeof h, deadline) && (!n || tpi_net_send(fd, body, n, deadline)) && (!m || tpi_net_send(fd, more, m, deadline));
    pthread_mutex_unlock(&w->lock);
    return ok;
}

static void tell_all(watch *w, uint32_t kind, const char *text, int but) {
    for (int i = 0; i < w->nclients; i++)
        if (w->clients[i].rank >= 0 && w->clients[i].rank != but) tell(w, w->clients[i].fd, kind, text, strlen(text), NULL, 0);
}

/* Takes what has arrived: 1 a message is whole, 0 not yet, -1 the other side is gone. */
static int take(link_ *l) {
    for (;;) {
        head h = {0};
        if (l->have >= sizeof h) memcpy(&h, l->in, sizeof h);
        size_t whole = sizeof h + h.bytes;
        if (l->have >= sizeof h && (h.bytes > MOST_BODY || l->have == whole)) return h.bytes > MOST_BODY ? -1 : 1;
        size_t want = l->have < sizeof h ? sizeof h : whole;
        if (want + 1 > l->room) {
            char *in = tpi_realloc(l->in, want + 1);
            if (!in) return tp_error_clear(), -1;
            l->in = in, l->room = want + 1;
        }
        ssize_t n = recv(l->fd, l->in + l->have, want - l->have, 0);
        if (n == 0) return -1;
        if (n < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
        l->have += (size_t)n;
    }
}

static char *body_of(link_ *l, size_t *n) { /* ends with a zero, as a text may be in it */
    *n = l->have - sizeof(head);
    l->in[l->have] = 0;
    return l->in + sizeof(head);
}

/* ---- A job that fails ---- */
static void fail_job(watch *w, const char *text) {
    if (w->failed_at > 0 || w->closing) return;
    char line[TPI_REASON_BYTES + 64];
    w->failed_at = tpi_now();
    tpi_job_fail(w->job, text);
    snprintf(line, sizeof line, "rank %d: %.*s", w->job->rank, TPI_REASON_BYTES, text);
    tpi_report(line);
}

static int world_of(void) { return tp_dist_world() && tpi_checks_wanted() ? tp_dist_world()->id : -1; }

static void tell_death(watch *w, int rank, const char *why) { /* rank 0's watcher tells everybody */
    char name[200], last[480], text[TPI_REASON_BYTES + 256];
    w->list->ranks[rank].presence = TPI_DEAD;
    if (w->failed_at > 0) return; /* those that follow end because of the first */
    tpi_ranks_name(w->list, rank, name, sizeof name);
    tpi_ranks_last(w->list, rank, world_of(), last, sizeof last);
    if (why) snprintf(text, sizeof text, "%s failed: %s", name, why);
    else snprintf(text, sizeof text, "%s died: its process ended without leaving the job (killed, or crashed); %s", name, last);
    tell_all(w, DEAD, text, rank);
    fail_job(w, text);
}

static void rank_died(watch *w, int rank) {
    if (w->list->ranks[rank].presence != TPI_HERE) return;
    w->list->ranks[rank].presence = TPI_DEAD;
    if (w->failed_at > 0 || w->dead >= 0) return;
    w->dead = rank, w->dead_since = tpi_now();
    tell_all(w, TELL, "", rank);
}

/* ---- Where this rank stands ---- */
static tpi_standing standing_of(tp_group *g) {
    tpi_standing s = {.group = g->id};
    pthread_mutex_lock(&g->lock);
    s.entered = g->entered, s.left = g->left;
    memcpy(s.about, g->last, sizeof s.about);
    memcpy(s.place, g->place, sizeof s.place);
    double now = tpi_now();
    s.since = g->left_at > 0 ? now - g->left_at : 0;
    for (const tp_work *work = g->waiting; work; work = work->next_waiting)
        if (work->number && !s.waits) s.waits = 1, s.since = now - work->since; /* the oldest */
    pthread_mutex_unlock(&g->lock);
    return s;
}

static void tell_state(watch *w) {
    tpi_standing few[16], *all = few;
    tpi_job *job = w->job;
    pthread_mutex_lock(&job->lock);
    int n = 0, room = 0;
    for (const tp_group *g = job->all; g; g = g->next) room++;
    if (room > 16 && !(all = tpi_malloc(sizeof *all * (size_t)room))) tp_error_clear(), all = few, room = 16;
    for (tp_group *g = job->all; g && n < room; g = g->next)
        if (g->rank >= 0) all[n++] = standing_of(g);
    pthread_mutex_unlock(&job->lock);
    if (!tpi_ranks_update(w->list, job->rank, all, n)) tp_error_clear();
    if (job->rank != 0 && !w->server_left)
        tell(w, w->server.fd, STATE, all, sizeof *all * (size_t)n, NULL, 0);
    if (all != few) tpi_mfree(all);
    w->told = tpi_now();
}

/* Reports the death when all that are still there have said where they stand. */
static void look_for_death(watch *w) {
    if (w->dead < 0) return;
    bool all = true;
    for (int i = 1; i < w->job->size; i++) all = all && (w->list->ranks[i].presence != TPI_HERE || w->list->ranks[i].heard >= w->dead_since);
    if (!all && tpi_now() - w->dead_since < INQUEST) return;
    tell_state(w);
    tell_death(w, w->dead, NULL);
    w->dead = -1;
}

/* ---- Stalls ---- */
static tp_work *find_work(tpi_job *job, int group, int64_t number, tp_group **of) { /* with the job's lock; gives the group's too */
    for (tp_group *g = job->all; g; g = g->next) {
        if (g->id != group) continue;
        pthread_mutex_lock(&g->lock);
        for (tp_work *work = g->waiting; work; work = work->next_waiting)
            if ((work->number ? work->number : INT64_MAX) == number) return *of = g, work;
        pthread_mutex_unlock(&g->lock);
    }
    return NULL;
}

/* Says who has not come to what this rank waits for. If one of them is gone, it never will: the job fails. */
static void answered(watch *w, const question *q, const char *who) {
    tpi_job *job = w->job;
    tp_group *g;
    char text[TEXT], about[TPI_ABOUT_BYTES], name[TPI_NAME_BYTES], place[TPI_PLACE_BYTES];
    pthread_mutex_lock(&job->lock);
    tp_work *work = find_work(job, q->group, q->number, &g);
    double waited = work ? tpi_now() - work->since : 0;
    bool due = work && waited >= job->stall && tpi_now() - work->reported >= job->stall;
    /* A message that nobody waits for harms nobody, and what may come from anyone may come from those who are still there. */
    bool gone = q->gone && work && (work->number || (work->finishing && work->root >= 0));
    if (work) {
        tpi_work_about(work, about);
        memcpy(name, g->name, sizeof name);
        memcpy(place, work->place, sizeof place);
        if (due) work->reported = tpi_now();
        pthread_mutex_unlock(&g->lock);
    }
    pthread_mutex_unlock(&job->lock);
    if (!work || (!due && !gone)) return; /* it has come in the meantime */
    char number[48] = "";
    if (q->number != INT64_MAX) snprintf(number, sizeof number, ", number %lld of group '%s'", (long long)q->number, name);
    snprintf(text, sizeof text, "rank %d (host %s, pid %d) has waited %.0f s in %s%s, at %s. %s%s", job->rank, tpi_net_host(), (int)getpid(), waited, about,
             number, *place ? place : "?", q->missing < 0 ? "Nobody knows who is missing:\n" : q->missing ? "Not there:\n" : "All ranks have come, the data has not.", who);
    if (due) tpi_report(text);
    if (!gone) return;
    snprintf(text, sizeof text, "%s%s waits for a rank that is gone, %.*s", about, number, (int)strcspn(who + 2, "\n"), who + 2);
    if (job->rank == 0) tell_all(w, DEAD, text, 0); /* so that all have one reason */
    else if (!w->server_left) tell(w, w->server.fd, FAILED, text, strlen(text), NULL, 0);
    fail_job(w, text);
}

static void server_is_silent(watch *w, const question *q) {
    char who[512], name[200];
    question silent = *q;
    silent.missing = -1;
    tpi_ranks_name(w->list, 0, name, sizeof name);
    snprintf(who, sizeof who, "  %s, which keeps the list, does not answer: it is stopped, or its machine is.", name);
    answered(w, &silent, who);
}

static void ask(watch *w, const question *q, const int32_t *ranks) {
    if (w->job->rank == 0 || w->server_left) { /* who has no server left knows at least where rank 0 stood at its end */
        char text[TEXT];
        bool gone;
        question a = *q;
        int32_t zero = 0;
        bool with_zero = w->job->rank == 0;
        for (int i = 0; i < q->n && !with_zero; i++) with_zero = ranks[i] == 0;
        if (!with_zero) return;
        a.missing = tpi_ranks_missing(w->list, q->group, q->number, w->job->rank == 0 ? ranks : &zero, w->job->rank == 0 ? q->n : 1, text, sizeof text, &gone);
        a.gone = gone;
        answered(w, &a, text);
        return;
    }
    if (w->asked > 0 && tpi_now() - w->asked > w->patience) server_is_silent(w, q);
    if (w->asked == 0) w->asked = tpi_now();
    tell(w, w->server.fd, ASK, q, sizeof *q, ranks, sizeof *ranks * (size_t)q->n);
}

/* GPUs' collectives, which nobody on the host waits for. */
static void look_at_gpus(watch *w) {
    char text[TPI_REASON_BYTES], name[TPI_REASON_BYTES + 200];
    if (!tpi_gpu_trouble(w->job, text)) return;
    snprintf(name, sizeof name, "rank %d (host %s, pid %d): %s", w->job->rank, tpi_net_host(), (int)getpid(), text);
    if (w->job->rank == 0) tell_all(w, DEAD, name, 0);
    else if (!w->server_left) tell(w, w->server.fd, FAILED, text, strlen(text), NULL, 0);
    fail_job(w, name);
}

/* Asks about everything that has waited for long, a while before it is to be reported; where a rank has left, about everything that waits. */
static void look_for_stalls(watch *w) {
    tpi_job *job = w->job;
    enum { MOST = 8 };
    question due[MOST];
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
            if (now - last < 0.6 * job->stall && !(w->somebody_left && now - work->since > 0.3)) continue;
            bool message = !work->number; /* then it is about one peer */
            int32_t *list = tpi_malloc(sizeof *list * (size_t)g->n);
            if (!list) {
                tp_error_clear();
                continue;
            }
            int count = 0;
            for (int i = 0; i < g->n; i++)
                if (message ? i == work->root || (work->root < 0 && i != g->rank) : i != g->rank) list[count++] = g->ranks[i];
            due[n] = (question){.group = g->id, .n = count, .number = message ? INT64_MAX : work->number};
            members[n++] = list;
        }
        pthread_mutex_unlock(&g->lock);
    }
    pthread_mutex_unlock(&job->lock);
    if (!n) w->asked = 0;
    for (int i = 0; i < n; i++) {
        ask(w, &due[i], members[i]);
        tpi_mfree(members[i]);
    }
}

/* ---- What comes in, at rank 0 ---- */
static bool greet(watch *w, link_ *l, const hello *h, size_t n) {
    if (n != sizeof *h || h->number != w->number || h->rank < 1 || h->rank >= w->job->size) return false;
    l->rank = (int)h->rank;
    struct tpi_known *k = &w->list->ranks[l->rank];
    k->presence = TPI_HERE, k->heard = tpi_now();
    snprintf(k->who, sizeof k->who, "%.*s", (int)sizeof h->who - 1, h->who);
    if (w->failed_at > 0) tell(w, l->fd, DEAD, w->job->reason, strlen(w->job->reason), NULL, 0);
    return true;
}

static void answer(watch *w, link_ *l, const char *body, size_t n) {
    question q;
    char text[TEXT];
    bool gone;
    if (n < sizeof q) return;
    memcpy(&q, body, sizeof q);
    const int32_t *ranks = (const int32_t *)(body + sizeof q);
    if (q.n < 0 || (size_t)q.n * sizeof *ranks != n - sizeof q) return;
    for (int i = 0; i < q.n; i++)
        if (ranks[i] < 0 || ranks[i] >= w->job->size) return;
    q.missing = tpi_ranks_missing(w->list, q.group, q.number, ranks, q.n, text, sizeof text, &gone);
    q.gone = gone;
    tell(w, l->fd, ANSWER, &q, sizeof q, text, strlen(text));
}

static bool from_client(watch *w, link_ *l) { /* false: hang up */
    size_t n;
    head h;
    memcpy(&h, l->in, sizeof h);
    char *body = body_of(l, &n);
    l->have = 0;
    if (l->rank < 0) {
        hello first;
        if (h.kind != HELLO || n != sizeof first) return false;
        memcpy(&first, body, sizeof first);
        return greet(w, l, &first, n);
    }
    if (h.kind == STATE && !tpi_ranks_update(w->list, l->rank, (const tpi_standing *)body, (int)(n / sizeof(tpi_standing)))) tp_error_clear();
    if (h.kind == ASK) answer(w, l, body, n);
    if (h.kind == FAILED && w->list->ranks[l->rank].presence == TPI_HERE) tell_death(w, l->rank, body);
    if (h.kind == BYE) {
        w->list->ranks[l->rank].presence = TPI_LEFT;
        w->somebody_left = true;
        tell_all(w, SOMEBODY_LEFT, "", l->rank);
    }
    return true;
}

static void hang_up(watch *w, int i) {
    int rank = w->clients[i].rank;
    tpi_net_close(w->clients[i].fd);
    tpi_mfree(w->clients[i].in);
    w->clients[i] = w->clients[--w->nclients];
    if (rank >= 0) rank_died(w, rank);
}

static bool more_room(watch *w) {
    if (w->nclients < w->room) return true;
    int room = w->room ? 2 * w->room : 16;
    link_ *clients = tpi_realloc(w->clients, sizeof *clients * (size_t)room);
    if (clients) w->clients = clients;
    struct pollfd *polls = clients ? tpi_realloc(w->polls, sizeof *polls * (size_t)(room + 2)) : NULL;
    if (!polls) return false;
    w->polls = polls, w->room = room;
    return true;
}

/* ---- What comes in, elsewhere ---- */
static void server_gone(watch *w) {
    char name[200], last[480], text[TPI_REASON_BYTES + 256];
    tpi_net_close(w->server.fd);
    w->server.fd = -1;
    if (w->server_left) return;
    tell_state(w);
    tpi_ranks_name(w->list, 0, name, sizeof name);
    tpi_ranks_last(w->list, 0, world_of(), last, sizeof last);
    snprintf(text, sizeof text, "%s died: its process ended without leaving the job (killed, or crashed); %s", name, last);
    fail_job(w, text);
}

static void from_server(watch *w) {
    size_t n;
    head h;
    memcpy(&h, w->server.in, sizeof h);
    char *body = body_of(&w->server, &n);
    w->server.have = 0;
    question q;
    if (h.kind == DEAD) fail_job(w, body);
    if (h.kind == TELL) tell_state(w);
    if (h.kind == SOMEBODY_LEFT) w->somebody_left = true;
    if (h.kind == ANSWER && n >= sizeof q) {
        memcpy(&q, body, sizeof q);
        w->asked = 0;
        answered(w, &q, body + sizeof q);
    }
    if (h.kind == BYE) { /* with where rank 0 stood last */
        w->server_left = w->somebody_left = true;
        w->list->ranks[0].presence = TPI_LEFT;
        if (!tpi_ranks_update(w->list, 0, (const tpi_standing *)body, (int)(n / sizeof(tpi_standing)))) tp_error_clear();
    }
}

/* ---- The thread ---- */
static double tick_of(const watch *w) { /* seconds between reports to rank 0; more where there are very many ranks */
    double most = w->job->stall / 4, wide = w->job->size / 512.0, tick = wide > 1 ? wide : 1;
    return tick < most ? tick : most;
}

static void serve_sockets(watch *w, int wait_ms) {
    int n = w->job->rank == 0 ? w->nclients : 1;
    w->polls[0] = (struct pollfd){.fd = w->wake[0], .events = POLLIN};
    w->polls[1] = (struct pollfd){.fd = w->listener, .events = POLLIN};
    for (int i = 0; i < n; i++) w->polls[i + 2] = (struct pollfd){.fd = w->job->rank == 0 ? w->clients[i].fd : w->server.fd, .events = POLLIN};
    if (poll(w->polls, (nfds_t)n + 2, wait_ms) <= 0) return;
    for (int i = n - 1; i >= 0; i--) {
        if (!w->polls[i + 2].revents) continue;
        link_ *l = w->job->rank == 0 ? &w->clients[i] : &w->server;
        int whole;
        bool keep = true;
        while (keep && (whole = take(l)) > 0) {
            if (w->job->rank == 0) keep = from_client(w, l);
            else from_server(w);
        }
        if (keep && whole == 0) continue;
        if (w->job->rank == 0) hang_up(w, i);
        else server_gone(w);
    }
    if (!w->polls[1].revents) return;
    int fd = more_room(w) ? tpi_net_accept(w->listener) : (tp_error_clear(), -1);
    if (fd >= 0) w->clients[w->nclients++] = (link_){.fd = fd, .rank = -1};
}

/* While ranks still join: rank 0 tells who has not come. */
static void look_for_absent(watch *w) {
    char text[512], names[320] = "";
    int missing = 0;
    if (w->job->rank != 0 || w->job->begun || tpi_now() - w->joining < w->job->stall) return;
    for (int i = 0; i < w->job->size; i++) {
        if (w->list->ranks[i].presence != TPI_NOT_YET) continue;
        size_t at = strlen(names);
        if (++missing <= 20) snprintf(names + at, sizeof names - at, "%s%d", missing > 1 ? ", " : "", i);
    }
    w->joining = tpi_now();
    if (!missing) return;
    snprintf(text, sizeof text, "rank 0 (%s) waits in init_process_group for %d of %d ranks. Not there: rank%s %s%s", w->list->ranks[0].who, missing, w->job->size,
             missing > 1 ? "s" : "", names, missing > 20 ? " and more" : "");
    tpi_report(text);
}

static void *watch_main(void *context) {
    watch *w = context;
    double tick = tick_of(w), looked = 0;
    w->joining = tpi_now();
    w->patience = w->job->stall < 10 ? 0.3 * w->job->stall : 3;
    while (!w->closing) {
        serve_sockets(w, tick < 0.2 ? (int)(tick * 1000) + 1 : 200);
        double now = tpi_now();
        if (now - w->told >= tick) tell_state(w);
        look_for_absent(w);
        look_for_death(w);
        if (w->failed_at == 0 && now - looked >= (tick < 0.2 ? tick : 0.2)) looked = now, look_at_gpus(w), look_for_stalls(w);
        if (w->failed_at > 0 && now - w->failed_at > listener_of.grace && !w->ended) {
            w->ended = true;
            if (listener_of.end) listener_of.end(w->job->reason);
        }
    }
    return NULL;
}

/* ---- Beginning and ending ---- */
static void watch_free(watch *w) {
    for (int i = 0; i < w->nclients; i++) tpi_net_close(w->clients[i].fd), tpi_mfree(w->clients[i].in);
    tpi_net_close(w->server.fd);
    tpi_net_close(w->listener);
    for (int i = 0; i < 2; i++)
        if (w->wake[i] >= 0) close(w->wake[i]);
    tpi_ranks_free(w->list);
    tpi_mfree(w->server.in);
    tpi_mfree(w->clients);
    tpi_mfree(w->polls);
    pthread_mutex_destroy(&w->lock);
    tpi_mfree(w);
}

static bool listen_here(watch *w) {
    int port;
    char address[TPI_ADDRESS_BYTES], text[TPI_ADDRESS_BYTES + 220];
    const char *first = w->job->store->address;
    w->number = tpi_secret();
    w->listener = tpi_net_listen(0, &port);
    if (w->listener < 0 || !tpi_net_address(port, *first ? first : NULL, address)) return false;
    snprintf(w->list->ranks[0].who, sizeof w->list->ranks[0].who, "host %s, pid %d", tpi_net_host(), (int)getpid());
    snprintf(text, sizeof text, "%llu %s\n%s", (unsigned long long)w->number, address, w->list->ranks[0].who);
    return tpi_store_set_text(w->job->store, "watch", text);
}

static bool connect_to_first(watch *w) {
    char text[TPI_ADDRESS_BYTES + 220], *address, *who;
    double deadline = tpi_now() + w->job->host.timeout;
    if (!tpi_store_get_text(w->job->store, "watch", text, sizeof text, deadline)) return false;
    hello h = {.number = strtoull(text, &address, 10), .rank = w->job->rank};
    if ((who = strchr(address, '\n'))) *who++ = 0;
    snprintf(w->list->ranks[0].who, sizeof w->list->ranks[0].who, "%s", who ? who : "");
    snprintf(h.who, sizeof h.who, "host %.100s, pid %d", tpi_net_host(), (int)getpid());
    w->server.fd = tpi_net_connect_to(address + 1, deadline);
    if (w->server.fd < 0) return false;
    return tell(w, w->server.fd, HELLO, &h, sizeof h, NULL, 0) || tpi_refuse(TP_ERR_IO, "rank 0's watcher hung up");
}

bool tpi_watch_open(tpi_job *job) {
    watch *w = tpi_malloc(sizeof *w);
    if (!w) return false;
    *w = (watch){.job = job, .wake = {-1, -1}, .listener = -1, .server = {.fd = -1, .rank = 0}, .dead = -1, .list = tpi_ranks_new(job->size)};
    pthread_mutex_init(&w->lock, NULL);
    bool ok = w->list && more_room(w);
    if (ok) w->list->ranks[0].presence = TPI_HERE, w->list->ranks[0].heard = tpi_now();
    ok = ok && (job->rank == 0 ? listen_here(w) : connect_to_first(w));
    if (ok && pipe2(w->wake, O_CLOEXEC | O_NONBLOCK) < 0) ok = tpi_refuse(TP_ERR_IO, "cannot make a pipe: %s", strerror(errno));
    int error = ok ? pthread_create(&w->thread, NULL, watch_main, w) : 0;
    if (error) ok = tpi_refuse(TP_ERR_MEMORY, "cannot start the watcher's thread: %s", strerror(error));
    w->threaded = ok;
    if (ok) job->watch = w;
    else watch_free(w);
    return ok;
}

/* The goodbye comes after the last state, so that others know what this rank has still done. */
static void say_goodbye(watch *w) {
    if (w->left) return;
    w->left = true;
    tell_state(w);
    if (w->job->rank != 0) {
        tell(w, w->server.fd, BYE, NULL, 0, NULL, 0);
        return;
    }
    const struct tpi_known *zero = &w->list->ranks[0];
    for (int i = 0; i < w->nclients; i++)
        if (w->clients[i].rank >= 0) tell(w, w->clients[i].fd, BYE, zero->standings, sizeof *zero->standings * (size_t)zero->nstandings, NULL, 0);
}

static void stop_thread(watch *w) {
    if (!w->threaded) return;
    w->closing = true;
    ssize_t ignored = write(w->wake[1], "", 1);
    (void)ignored;
    pthread_join(w->thread, NULL);
    w->threaded = false;
}

void tpi_watch_close(tpi_job *job) {
    watch *w = job->watch;
    if (!w) return;
    stop_thread(w);
    say_goodbye(w);
    job->watch = NULL;
    watch_free(w);
}

void tp_dist_tell_failure(const char *reason) {
    tpi_job *job = tpi_job_now;
    watch *w = job ? job->watch : NULL;
    if (!w || w->left || job->pid != getpid()) return;
    stop_thread(w);
    if (!reason || w->failed_at > 0) say_goodbye(w); /* others know already why a job that has failed ends */
    if (w->left) return;
    w->left = true;
    if (job->rank != 0) {
        tell(w, w->server.fd, FAILED, reason, strlen(reason), NULL, 0);
        return;
    }
    char text[TPI_REASON_BYTES];
    snprintf(text, sizeof text, "rank 0 (%s) failed: %s", w->list->ranks[0].who, reason);
    tell_all(w, DEAD, text, 0);
}
