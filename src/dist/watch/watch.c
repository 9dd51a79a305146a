/* The watcher's thread. Each rank tells rank 0's watcher, once a second, where it stands. One whose collective has
 * waited for the stall time asks there who has not come, and reports it. A connection that closes without a goodbye is
 * a death: rank 0 asks the others where they stand, which says more about where the dead one stood than what it told up
 * to a second ago, and tells everybody; so does a rank that fails and can still say why. */
#define _GNU_SOURCE /* pipe2 */
#include "dist/watch/watch_internal.h"
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
#include "dist/collective/gpu.h"
#include "dist/engine/net.h"
#include "dist/store/store.h"

#define INQUEST 0.7 /* seconds that the others have to say where they stand when a rank has died */
enum { MOST_BODY = 4 << 20, FIRST_CAPACITY = 4096 };

typedef tpi_watch watch;
typedef struct hello {
    uint64_t number;
    int64_t rank;
    char who[160];
} hello;

/* ---- What the program wants to hear ---- */
static struct {
    void (*report)(const char *text);
    void (*end)(const char *text);
    double grace;
} listener_of = {NULL, NULL, 6};

void tp_dist_set_watcher(void (*report)(const char *text), void (*end)(const char *text), double grace) {
    listener_of.report = report;
    listener_of.end = end;
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
bool tpi_watch_tell(watch *w, int fd, uint32_t kind, const void *body, size_t n, const void *more, size_t m) {
    tpi_head h = {kind, (uint32_t)(n + m)};
    double deadline = tpi_now() + 2;
    pthread_mutex_lock(&w->lock);
    bool ok = fd >= 0 && tpi_net_send(fd, &h, sizeof h, deadline) && (!n || tpi_net_send(fd, body, n, deadline)) &&
              (!m || tpi_net_send(fd, more, m, deadline));
    pthread_mutex_unlock(&w->lock);
    return ok;
}

void tpi_watch_tell_all(watch *w, uint32_t kind, const char *text, int but) {
    for (int i = 0; i < w->nclients; i++)
        if (w->clients[i].rank >= 0 && w->clients[i].rank != but)
            tpi_watch_tell(w, w->clients[i].fd, kind, text, strlen(text), NULL, 0);
}

/* Takes what has arrived: 1 a message is whole, 0 not yet, -1 the other side is gone. */
static int read_message(tpi_link *l) {
    for (;;) {
        tpi_head h = {0};
        if (l->have >= sizeof h) memcpy(&h, l->in, sizeof h);
        size_t whole = sizeof h + h.bytes;
        if (l->have >= sizeof h && (h.bytes > MOST_BODY || l->have == whole)) return h.bytes > MOST_BODY ? -1 : 1;
        size_t want = l->have < sizeof h ? sizeof h : whole;
        if (l->have + 1 >= l->capacity &&
            !(l->capacity >= want + 1)) { /* twice what has come, and not more than the whole */
            size_t capacity = l->capacity ? 2 * l->capacity : FIRST_CAPACITY;
            char *in = tpi_realloc(l->in, capacity < want + 1 || l->have < sizeof h ? capacity : want + 1);
            if (!in) {
                tp_error_clear();
                return -1;
            }
            l->in = in;
            l->capacity = capacity < want + 1 || l->have < sizeof h ? capacity : want + 1;
        }
        size_t fits = l->capacity - 1 < want ? l->capacity - 1 : want;
        ssize_t n = recv(l->fd, l->in + l->have, fits - l->have, 0);
        if (n == 0) return -1;
        if (n < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
        l->have += (size_t)n;
    }
}

static char *body_of(tpi_link *l, size_t *n) { /* ends with a zero, as a text may be in it */
    *n = l->have - sizeof(tpi_head);
    l->in[l->have] = 0;
    return l->in + sizeof(tpi_head);
}

/* ---- A job that fails ---- */
void tpi_watch_fail(watch *w, const char *text, bool ends) {
    if (w->failed_at > 0 || w->closing) return;
    bool told = w->late; /* what follows a timeout follows from it */
    if (ends)
        w->failed_at = tpi_now();
    else
        w->late = true;
    if (told) return;
    char line[TPI_REASON_BYTES + 64];
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
    if (why)
        snprintf(text, sizeof text, "%s failed: %s", name, why);
    else
        snprintf(text, sizeof text, "%s died: its process ended without leaving the job (killed, or crashed); %s", name,
                 last);
    tpi_watch_tell_all(w, TPI_DEATH, text, rank);
    tpi_watch_fail(w, text, true);
}

static void rank_died(watch *w, int rank) {
    if (w->list->ranks[rank].presence != TPI_HERE) return;
    w->list->ranks[rank].presence = TPI_DEAD;
    if (w->failed_at > 0 || w->dead >= 0) return;
    w->dead = rank;
    w->dead_since = tpi_now();
    tpi_watch_tell_all(w, TPI_TELL, "", rank);
}

/* ---- Where this rank stands ---- */
static tpi_rank_status status_of(tp_group *g) {
    tpi_rank_status s = {.group = g->id};
    char message[TPI_ABOUT_BYTES] = "", call_site[TPI_CALL_SITE_BYTES] = "";
    pthread_mutex_lock(&g->lock);
    s.entered = g->entered;
    s.left = g->left;
    memcpy(s.about, g->last, sizeof s.about);
    memcpy(s.call_site, g->call_site, sizeof s.call_site);
    double now = tpi_now();
    s.since = g->left_at > 0 ? now - g->left_at : 0;
    for (const tp_work *work = g->waiting; work; work = work->next_waiting)
        if (work->number && s.waits != TPI_WAITS_FOR_ALL) { /* the oldest */
            s.waits = TPI_WAITS_FOR_ALL;
            s.since = now - work->since;
        } else if (!work->number && !s.waits && now - work->awaited < 0.5) {
            s.waits = TPI_WAITS_FOR_MESSAGE;
            tpi_work_about(work, message);
            memcpy(call_site, work->call_site, sizeof call_site);
        }
    if (s.waits == TPI_WAITS_FOR_MESSAGE) {
        memcpy(s.about, message, sizeof s.about);
        memcpy(s.call_site, call_site, sizeof s.call_site);
    }
    pthread_mutex_unlock(&g->lock);
    return s;
}

void tpi_watch_tell_state(watch *w) {
    tpi_rank_status few[16], *all = few;
    tpi_job *job = w->job;
    pthread_mutex_lock(&job->lock);
    int n = 0, capacity = 0;
    for (const tp_group *g = job->all; g; g = g->next) capacity++;
    if (capacity > 16 && !(all = tpi_malloc(sizeof *all * (size_t)capacity))) {
        tp_error_clear();
        all = few;
        capacity = 16;
    }
    for (tp_group *g = job->all; g && n < capacity; g = g->next)
        if (g->rank >= 0) all[n++] = status_of(g);
    pthread_mutex_unlock(&job->lock);
    if (!tpi_ranks_update(w->list, job->rank, all, n)) tp_error_clear();
    if (job->rank != 0 && !w->server_left)
        tpi_watch_tell(w, w->server.fd, TPI_STATE, all, sizeof *all * (size_t)n, NULL, 0);
    if (all != few) tpi_mfree(all);
    w->told = tpi_now();
}

/* Reports the death when all that are still there have said where they stand. */
static void look_for_death(watch *w) {
    if (w->dead < 0) return;
    bool all = true;
    for (int i = 1; i < w->job->size; i++)
        all = all && (w->list->ranks[i].presence != TPI_HERE || w->list->ranks[i].heard >= w->dead_since);
    if (!all && tpi_now() - w->dead_since < INQUEST) return;
    tpi_watch_tell_state(w);
    tell_death(w, w->dead, NULL);
    w->dead = -1;
}

/* GPUs' collectives, which nobody on the host waits for. */
static void look_at_gpus(watch *w) {
    char text[TPI_REASON_BYTES], name[TPI_REASON_BYTES + 200];
    if (!tpi_gpu_trouble(w->job, text)) return;
    snprintf(name, sizeof name, "rank %d (host %s, pid %d): %s", w->job->rank, tpi_net_host(), (int)getpid(), text);
    if (w->job->rank == 0)
        tpi_watch_tell_all(w, TPI_DEATH, name, 0);
    else if (!w->server_left)
        tpi_watch_tell(w, w->server.fd, TPI_RANK_FAILED, text, strlen(text), NULL, 0);
    tpi_watch_fail(w, name, true);
}

/* ---- What comes in, at rank 0 ---- */
static bool greet(watch *w, tpi_link *l, const hello *h, size_t n) {
    if (n != sizeof *h || h->number != w->number || h->rank < 1 || h->rank >= w->job->size) return false;
    struct tpi_known *k = &w->list->ranks[h->rank];
    if (k->presence != TPI_NOT_YET)
        return false; /* of another job that came to this one's store: its end is not our rank's */
    l->rank = (int)h->rank;
    k->presence = TPI_HERE;
    k->heard = tpi_now();
    snprintf(k->who, sizeof k->who, "%.*s", (int)sizeof h->who - 1, h->who);
    if (w->failed_at > 0 || w->late)
        tpi_watch_tell(w, l->fd, w->late ? TPI_TIME_UP : TPI_DEATH, w->job->reason, strlen(w->job->reason), NULL, 0);
    return true;
}

static bool from_client(watch *w, tpi_link *l) { /* false: hang up */
    size_t n;
    tpi_head h;
    memcpy(&h, l->in, sizeof h);
    char *body = body_of(l, &n);
    l->have = 0;
    if (l->rank < 0) {
        hello first;
        if (h.kind != TPI_HELLO || n != sizeof first) return false;
        memcpy(&first, body, sizeof first);
        return greet(w, l, &first, n);
    }
    if (h.kind == TPI_STATE &&
        !tpi_ranks_update(w->list, l->rank, (const tpi_rank_status *)body, (int)(n / sizeof(tpi_rank_status))))
        tp_error_clear();
    if (h.kind == TPI_ASK) tpi_asked(w, l->rank, body, n);
    if (h.kind == TPI_RANK_FAILED && w->list->ranks[l->rank].presence == TPI_HERE) tell_death(w, l->rank, body);
    if (h.kind == TPI_BYE) {
        w->list->ranks[l->rank].presence = TPI_LEFT;
        w->somebody_left = true;
        tpi_watch_tell_all(w, TPI_SOMEBODY_LEFT, "", l->rank);
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

static bool grow_message(watch *w) {
    if (w->nclients < w->capacity) return true;
    int capacity = w->capacity ? 2 * w->capacity : 16;
    tpi_link *clients = tpi_realloc(w->clients, sizeof *clients * (size_t)capacity);
    if (clients) w->clients = clients;
    struct pollfd *polls =
        clients ? tpi_realloc(w->polls, sizeof *polls * (size_t)(capacity + 1 + TPI_LISTENER_POLLS)) : NULL;
    if (!polls) return false;
    w->polls = polls;
    w->capacity = capacity;
    return true;
}

/* ---- What comes in, elsewhere ---- */
static void server_gone(watch *w) {
    char name[200], last[480], text[TPI_REASON_BYTES + 256];
    tpi_net_close(w->server.fd);
    w->server.fd = -1;
    if (w->server_left) return;
    tpi_watch_tell_state(w);
    tpi_ranks_name(w->list, 0, name, sizeof name);
    tpi_ranks_last(w->list, 0, world_of(), last, sizeof last);
    snprintf(text, sizeof text, "%s died: its process ended without leaving the job (killed, or crashed); %s", name,
             last);
    tpi_watch_fail(w, text, true);
}

static void from_server(watch *w) {
    size_t n;
    tpi_head h;
    memcpy(&h, w->server.in, sizeof h);
    char *body = body_of(&w->server, &n);
    w->server.have = 0;
    tpi_question q;
    if (h.kind == TPI_DEATH) tpi_watch_fail(w, body, true);
    if (h.kind == TPI_TIME_UP) tpi_watch_fail(w, body, false);
    if (h.kind == TPI_TELL) tpi_watch_tell_state(w);
    if (h.kind == TPI_SOMEBODY_LEFT) w->somebody_left = true;
    if (h.kind == TPI_ANSWER && n >= sizeof q) {
        memcpy(&q, body, sizeof q);
        tpi_answered(w, &q, body + sizeof q);
    }
    if (h.kind == TPI_BYE) { /* with where rank 0 stood last */
        w->server_left = w->somebody_left = true;
        w->list->ranks[0].presence = TPI_LEFT;
        if (!tpi_ranks_update(w->list, 0, (const tpi_rank_status *)body, (int)(n / sizeof(tpi_rank_status))))
            tp_error_clear();
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
    for (int i = 0; i < n; i++)
        w->polls[i + 1] = (struct pollfd){.fd = w->job->rank == 0 ? w->clients[i].fd : w->server.fd, .events = POLLIN};
    int waited = tpi_listener_polls(&w->listener, w->polls + n + 1);
    int ready = poll(w->polls, (nfds_t)(n + 1 + waited), tpi_listener_timeout(&w->listener, wait_ms));
    if (ready < 0 || (ready == 0 && !w->listener.nstrangers)) return;
    char woken[64];
    if (w->polls[0].revents && read(w->wake[0], woken, sizeof woken) < 0) return;
    for (int i = n - 1; i >= 0; i--) {
        if (!w->polls[i + 1].revents) continue;
        tpi_link *l = w->job->rank == 0 ? &w->clients[i] : &w->server;
        int whole;
        bool keep = true;
        while (keep && (whole = read_message(l)) > 0) {
            if (w->job->rank == 0)
                keep = from_client(w, l);
            else
                from_server(w);
        }
        if (keep && whole == 0) continue;
        if (w->job->rank == 0)
            hang_up(w, i);
        else
            server_gone(w);
    }
    struct pollfd polls[TPI_LISTENER_POLLS]; /* making room for a rank may move the others */
    memcpy(polls, w->polls + n + 1, sizeof *polls * (size_t)waited);
    for (int fd; (fd = tpi_listener_accept(&w->listener, polls)) >= 0;) {
        if (grow_message(w))
            w->clients[w->nclients++] = (tpi_link){.fd = fd, .rank = -1};
        else {
            tp_error_clear();
            tpi_net_close(fd);
        }
    }
}

/* While ranks still join: rank 0 tells who has not come. */
static void look_for_absent(watch *w) {
    char text[768], names[320] = "";
    int missing = 0;
    if (w->job->rank != 0 || w->job->begun || tpi_now() - w->joining < w->job->stall) return;
    for (int i = 0; i < w->job->size; i++) {
        if (w->list->ranks[i].presence != TPI_NOT_YET) continue;
        size_t at = strlen(names);
        if (++missing <= 20) snprintf(names + at, sizeof names - at, "%s%d", missing > 1 ? ", " : "", i);
    }
    w->joining = tpi_now();
    if (!missing) return;
    snprintf(text, sizeof text, "rank 0 (%s) waits in init_process_group for %d of %d ranks. Not there: rank%s %s%s",
             w->list->ranks[0].who, missing, w->job->size, missing > 1 ? "s" : "", names,
             missing > 20 ? " and more" : "");
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
        if (now - w->told >= tick) tpi_watch_tell_state(w);
        look_for_absent(w);
        look_for_death(w);
        tpi_watch_read_own_question(w);
        tpi_look_at_inquests(w);
        if (w->failed_at == 0 && !w->late && now - looked >= (tick < 0.2 ? tick : 0.2)) {
            looked = now;
            look_at_gpus(w);
            tpi_check_stalls(w);
        }
        if (w->failed_at > 0 && now - w->failed_at > listener_of.grace && !w->ended) {
            w->ended = true;
            if (listener_of.end) listener_of.end(w->job->reason);
        }
    }
    return NULL;
}

/* ---- Beginning and ending ---- */
static void watch_free(watch *w) {
    for (int i = 0; i < w->nclients; i++) {
        tpi_net_close(w->clients[i].fd);
        tpi_mfree(w->clients[i].in);
    }
    tpi_net_close(w->server.fd);
    tpi_listener_close(&w->listener);
    for (int i = 0; i < 2; i++)
        if (w->wake[i] >= 0) close(w->wake[i]);
    tpi_ranks_free(w->list);
    tpi_mfree(w->server.in);
    tpi_mfree(w->clients);
    tpi_mfree(w->polls);
    tpi_drop_inquests(w);
    pthread_mutex_destroy(&w->lock);
    pthread_mutex_destroy(&w->own.asker_lock);
    pthread_mutex_destroy(&w->own.lock);
    pthread_cond_destroy(&w->own.answered);
    tpi_mfree(w);
}

static bool listen_here(watch *w) {
    int port;
    char address[TPI_ADDRESS_BYTES], text[TPI_ADDRESS_BYTES + 220];
    const char *where = w->job->host.listen;
    w->number = tpi_random_number();
    if (!tpi_listener_open(&w->listener, TPI_FOR_WATCHER, where, 0, &port) || !tpi_net_address(port, where, address))
        return false;
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
    w->server.fd = tpi_connect_proven(address + 1, TPI_FOR_WATCHER, deadline);
    if (w->server.fd < 0) return false;
    return tpi_watch_tell(w, w->server.fd, TPI_HELLO, &h, sizeof h, NULL, 0) ||
           tpi_refuse(TP_ERR_IO, "rank 0's watcher hung up");
}

bool tpi_watch_open(tpi_job *job) {
    watch *w = tpi_malloc(sizeof *w);
    if (!w) return false;
    *w = (watch){
        .job = job, .wake = {-1, -1}, .server = {.fd = -1, .rank = 0}, .dead = -1, .list = tpi_ranks_new(job->size)};
    pthread_mutex_init(&w->lock, NULL);
    pthread_mutex_init(&w->own.asker_lock, NULL);
    pthread_mutex_init(&w->own.lock, NULL);
    tpi_condition_init(&w->own.answered);
    bool ok = w->list && grow_message(w);
    if (ok) {
        w->list->ranks[0].presence = TPI_HERE;
        w->list->ranks[0].heard = tpi_now();
    }
    ok = ok && (job->rank == 0 ? listen_here(w) : connect_to_first(w));
    if (ok && pipe2(w->wake, O_CLOEXEC | O_NONBLOCK) < 0)
        ok = tpi_refuse(TP_ERR_IO, "cannot make a pipe: %s", strerror(errno));
    int error = ok ? pthread_create(&w->thread, NULL, watch_main, w) : 0;
    if (error) ok = tpi_refuse(TP_ERR_MEMORY, "cannot start the watcher's thread: %s", strerror(error));
    w->threaded = ok;
    if (ok)
        job->watch = w;
    else
        watch_free(w);
    return ok;
}

/* The goodbye comes after the last state, so that others know what this rank has still done. */
static void say_goodbye(watch *w) {
    if (w->left) return;
    w->left = true;
    tpi_watch_tell_state(w);
    if (w->job->rank != 0) {
        tpi_watch_tell(w, w->server.fd, TPI_BYE, NULL, 0, NULL, 0);
        return;
    }
    const struct tpi_known *zero = &w->list->ranks[0];
    for (int i = 0; i < w->nclients; i++)
        if (w->clients[i].rank >= 0)
            tpi_watch_tell(w, w->clients[i].fd, TPI_BYE, zero->statuses,
                           sizeof *zero->statuses * (size_t)zero->nstatuses, NULL, 0);
}

static void stop_thread(watch *w) {
    if (!w->threaded) return;
    w->closing = true;
    ssize_t ignored = write(w->wake[1], "", 1);
    (void)ignored;
    pthread_join(w->thread, NULL);
    w->threaded = false;
}

void tpi_watch_leave(tpi_job *job) {
    watch *w = job->watch;
    if (!w) return;
    stop_thread(w);
    say_goodbye(w);
}

void tpi_watch_close(tpi_job *job) {
    watch *w = job->watch;
    if (!w) return;
    tpi_watch_leave(job);
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
        tpi_watch_tell(w, w->server.fd, TPI_RANK_FAILED, reason, strlen(reason), NULL, 0);
        return;
    }
    char text[TPI_REASON_BYTES];
    snprintf(text, sizeof text, "rank 0 (%s) failed: %s", w->list->ranks[0].who, reason);
    tpi_watch_tell_all(w, TPI_DEATH, text, 0);
}
