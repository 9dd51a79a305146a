/* The library's own engine: a TCP connection between each two ranks, and one thread that reads and writes them all.
 *
 * A message is a head (slot, label, bytes) and its bytes. What arrives goes straight to the memory of a receive that
 * was posted for its slot; if there is none yet, it is kept until one is. A send first writes what the socket takes, in
 * the caller's thread; the thread does the rest. */
#define _GNU_SOURCE /* pipe2 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/error.h"
#include "base/memory.h"
#include "dist/job/listener.h"
#include "dist/engine/engine.h"
#include "dist/engine/net.h"
#include "dist/job/secret.h"

enum { MOST_AT_ONCE = 512 << 10 }; /* bytes read from one peer before the next one is looked at */

typedef struct head {
    uint64_t slot, label;
    int64_t bytes;
} head;

typedef struct post { /* a send or a receive under way, and a message that nobody has asked for yet */
    struct post *next;
    int peer;  /* TPI_ANY_RANK: of a receive */
    head head; /* a receive: its slot, and how many bytes it has room for */
    char *data;
    bool done, failed, sends;
    tpi_message message;
} post;

typedef struct list {
    post *first, **end; /* end: where the next one goes; NULL: the list is empty and new */
} list;

typedef struct peer {
    int fd; /* -1: not there, or gone */
    list out;
    size_t written; /* of the first one's head and bytes */
    head in;        /* the message that is coming in */
    size_t read;    /* of its head and bytes */
    post *into;     /* where its bytes go: a receive, or a post of our own */
    bool expected;
} peer;

typedef struct engine {
    int rank, size;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool threaded, stopped, closing;
    int wake[2];
    list posted, arrived;
    tpi_engine_host host;
    struct pollfd *polls;
    peer peers[];
} engine;

/* ---- Lists ---- */
static void append(list *l, post *p) {
    if (!l->end) l->end = &l->first;
    p->next = NULL;
    *l->end = p;
    l->end = &p->next;
}

static post *remove_at(list *l, post **at) {
    post *p = *at;
    *at = p->next;
    if (!*at) l->end = at;
    return p;
}

static post **find(list *l, int peer_, uint64_t slot) { /* the first that fits; either side may not care for the peer */
    post **at = &l->first;
    while (*at &&
           ((*at)->head.slot != slot || ((*at)->peer != peer_ && (*at)->peer != TPI_ANY_RANK && peer_ != TPI_ANY_RANK)))
        at = &(*at)->next;
    return *at ? at : NULL;
}

static void remove_post(list *l, post *p) {
    for (post **at = &l->first; *at; at = &(*at)->next)
        if (*at == p) {
            remove_at(l, at);
            return;
        }
}

static void finish_post(engine *e, post *p, int from, const head *h) {
    p->message = (tpi_message){.from = from, .bytes = h->bytes, .label = h->label};
    p->done = true;
    pthread_cond_broadcast(&e->changed);
}

/* ---- What arrives (with the lock) ---- */
static void deliver(engine *e, post *message,
                    int from) { /* a whole message in memory of our own: to whom waits for it, or it is kept */
    post **at = find(&e->posted, from, message->head.slot);
    if (!at) {
        append(&e->arrived, message);
        return;
    }
    post *p = remove_at(&e->posted, at);
    int64_t n = message->head.bytes < p->head.bytes ? message->head.bytes : p->head.bytes;
    if (n) memcpy(p->data, message->data, (size_t)n);
    finish_post(e, p, from, &message->head);
    tpi_mfree(message);
}

static post *own_post(int from, const head *h) { /* its bytes behind it */
    post *p = tpi_malloc(sizeof *p + (size_t)h->bytes);
    if (p) *p = (post){.peer = from, .head = *h, .data = (char *)(p + 1)};
    return p;
}

static bool begin_message(engine *e, int from) { /* its head has come */
    peer *p = &e->peers[from];
    post **at = find(&e->posted, from, p->in.slot);
    p->expected =
        at && (*at)->head.bytes >= p->in.bytes; /* one that is too long is read whole, and cut when it is handed over */
    p->into = p->expected ? remove_at(&e->posted, at) : own_post(from, &p->in);
    return p->into;
}

static void end_message(engine *e, int from) {
    peer *p = &e->peers[from];
    post *into = p->into;
    p->into = NULL;
    p->read = 0;
    if (p->expected)
        finish_post(e, into, from, &p->in);
    else
        deliver(e, into, from);
}

static bool read_peer(engine *e, int from) { /* what the socket has, up to a turn's worth; false: the peer is gone */
    peer *p = &e->peers[from];
    for (size_t nread = 0; nread < MOST_AT_ONCE;) { /* while data pours in, sends must have their turn too */
        bool in_head = p->read < sizeof p->in;
        size_t whole = in_head ? sizeof p->in : sizeof p->in + (size_t)p->in.bytes;
        char *to = in_head ? (char *)&p->in + p->read : p->into->data + (p->read - sizeof p->in);
        ssize_t n = recv(p->fd, to, whole - p->read, 0);
        if (n == 0) return false;
        if (n < 0) return errno == EAGAIN || errno == EINTR;
        p->read += (size_t)n;
        nread += (size_t)n;
        if (in_head && p->read == whole && !begin_message(e, from)) {
            tp_error_clear();
            return false;
        }
        if (p->read >= sizeof p->in && p->read == sizeof p->in + (size_t)p->in.bytes) end_message(e, from);
    }
    return true;
}

/* ---- What leaves (with the lock) ---- */
static bool write_out(engine *e, int to) { /* what the socket takes; false: the peer is gone */
    peer *p = &e->peers[to];
    while (p->out.first) {
        post *s = p->out.first;
        size_t whole = sizeof s->head + (size_t)s->head.bytes;
        struct iovec parts[2];
        int n = 0;
        size_t at = p->written;
        if (at < sizeof s->head) {
            parts[n++] = (struct iovec){(char *)&s->head + at, sizeof s->head - at};
            at = sizeof s->head;
        }
        if (whole > at) parts[n++] = (struct iovec){s->data + (at - sizeof s->head), whole - at};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)n};
        ssize_t sent = sendmsg(p->fd, &message, MSG_NOSIGNAL);
        if (sent < 0) return errno == EAGAIN || errno == EINTR;
        p->written += (size_t)sent;
        if (p->written < whole) continue;
        p->written = 0;
        remove_at(&p->out, &p->out.first);
        finish_post(e, s, to, &s->head);
    }
    return true;
}

static void fail_posts(engine *e, list *l, int of) { /* those that only this peer could have served */
    for (post **at = &l->first; *at;) {
        if ((*at)->peer != of) {
            at = &(*at)->next;
            continue;
        }
        post *p = remove_at(l, at);
        p->failed = p->done = true;
    }
    pthread_cond_broadcast(&e->changed);
}

static void lose(engine *e, int i) { /* the connection to a peer */
    peer *p = &e->peers[i];
    tpi_net_close(p->fd);
    p->fd = -1;
    if (p->into && p->expected)
        p->into->failed = p->into->done = true;
    else
        tpi_mfree(p->into);
    p->into = NULL;
    fail_posts(e, &p->out, i);
    fail_posts(e, &e->posted, i);
}

/* ---- The thread ---- */
static void *io_main(void *context) {
    engine *e = context;
    pthread_mutex_lock(&e->lock);
    while (!e->closing) {
        for (int i = 0; i < e->size; i++)
            e->polls[i] = (struct pollfd){.fd = e->peers[i].fd,
                                          .events = (short)(POLLIN | (e->peers[i].out.first ? POLLOUT : 0))};
        e->polls[e->size] = (struct pollfd){.fd = e->wake[0], .events = POLLIN};
        pthread_mutex_unlock(&e->lock);
        poll(e->polls, (nfds_t)e->size + 1, -1);
        pthread_mutex_lock(&e->lock);
        char woken[64];
        if (e->polls[e->size].revents && read(e->wake[0], woken, sizeof woken) < 0) continue;
        for (int i = 0; i < e->size; i++) {
            short events = e->polls[i].revents;
            if (!events || e->peers[i].fd < 0 || e->peers[i].fd != e->polls[i].fd) continue;
            bool ok = !(events & POLLOUT) || write_out(e, i);
            if (events & (POLLIN | POLLHUP | POLLERR)) ok = read_peer(e, i) && ok;
            if (!ok) lose(e, i);
        }
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

static void wake(engine *e) {
    ssize_t ignored = write(e->wake[1], "", 1); /* a full pipe wakes it as well */
    (void)ignored;
}

/* ---- The engine's functions ---- */
static void *fail(engine *e, const char *format, int rank) {
    char text[160];
    snprintf(text, sizeof text, format, rank);
    e->host.fail(e->host.context, text);
    return NULL;
}

static void *tcp_send(void *self, void *members, int to, uint64_t slot, uint64_t label, const void *data,
                      int64_t bytes) {
    (void)members; /* the slot tells groups apart */
    engine *e = self;
    post *p = tpi_malloc(sizeof *p);
    if (!p) return NULL;
    *p = (post){.peer = to, .head = {slot, label, bytes}, .data = (char *)data, .sends = true};
    pthread_mutex_lock(&e->lock);
    bool ok = !e->stopped;
    if (ok && to == e->rank) {
        post *copy = own_post(to, &p->head);
        ok = copy;
        if (ok && bytes) memcpy(copy->data, data, (size_t)bytes);
        if (ok) {
            deliver(e, copy, to);
            finish_post(e, p, to, &p->head);
        }
    } else if (ok && e->peers[to].fd < 0) {
        ok = false;
    } else if (ok) {
        peer *there = &e->peers[to];
        bool first = !there->out.first;
        append(&there->out, p);
        if (first && !write_out(e, to))
            lose(e, to); /* p has failed with it */
        else if (there->out.first)
            wake(e);
    }
    pthread_mutex_unlock(&e->lock);
    if (ok) return p;
    tpi_mfree(p);
    return fail(e, "the connection to rank %d is closed", to);
}

static void *tcp_recv(void *self, void *members, int from, uint64_t slot, void *data, int64_t bytes) {
    (void)members; /* the slot tells groups apart */
    engine *e = self;
    post *p = tpi_malloc(sizeof *p);
    if (!p) return NULL;
    *p = (post){.peer = from, .head = {.slot = slot, .bytes = bytes}, .data = data};
    pthread_mutex_lock(&e->lock);
    post **at = find(&e->arrived, from, slot);
    bool ok = !e->stopped && (at || from == TPI_ANY_RANK || from == e->rank || e->peers[from].fd >= 0);
    if (ok && at) {
        post *message = remove_at(&e->arrived, at);
        append(&e->posted, p); /* and deliver finds it, unless another receive was first */
        deliver(e, message, message->peer);
    } else if (ok)
        append(&e->posted, p);
    pthread_mutex_unlock(&e->lock);
    if (ok) return p;
    tpi_mfree(p);
    return fail(e, "the connection to rank %d is closed", from);
}

static tpi_engine_result tcp_finish(void *self, void *request, double seconds, tpi_message *message) {
    engine *e = self;
    post *p = request;
    double deadline = tpi_now() + seconds;
    struct timespec until = tpi_until(deadline);
    pthread_mutex_lock(&e->lock);
    while (!p->done && !e->stopped && seconds > 0)
        if (pthread_cond_timedwait(&e->changed, &e->lock, &until) == ETIMEDOUT) break;
    bool done = p->done, failed = p->failed;
    bool in_use = !done && e->stopped; /* the thread may still be reading into it */
    for (int i = 0; in_use && i < e->size; i++) {
        if (e->peers[i].into == p || (p->sends && i == p->peer)) lose(e, i);
    }
    if (in_use) remove_post(&e->posted, p);
    pthread_mutex_unlock(&e->lock);
    if (!done && !in_use) return TPI_ENGINE_PASS;
    if (message) *message = p->message;
    int rank = p->peer;
    tpi_mfree(p);
    if (done && !failed) return TPI_ENGINE_DONE;
    fail(e, in_use ? "the job was stopped" : "the connection to rank %d is closed", rank);
    return TPI_ENGINE_FAILED;
}

static void tcp_stop(void *self) {
    engine *e = self;
    pthread_mutex_lock(&e->lock);
    e->stopped = true;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

static void tcp_close(void *self, bool in_order) {
    (void)in_order; /* what was sent is in the kernel's hands */
    engine *e = self;
    pthread_mutex_lock(&e->lock);
    e->closing = true;
    pthread_mutex_unlock(&e->lock);
    wake(e);
    if (e->threaded) pthread_join(e->thread, NULL);
    for (int i = 0; i < e->size; i++) lose(e, i);
    while (e->arrived.first) tpi_mfree(remove_at(&e->arrived, &e->arrived.first));
    for (int i = 0; i < 2; i++)
        if (e->wake[i] >= 0) close(e->wake[i]);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->changed);
    tpi_mfree(e->polls);
    tpi_mfree(e);
}

/* ---- Opening: each rank connects to those before it and is called by those after it. Whoever does not know the job's
 * secret stays outside (listener.h); the number that a rank gives out with its address tells its callers from ranks of
 * another job with the same secret. ---- */
typedef struct hello {
    uint64_t number;
    int64_t rank;
} hello;

static bool call_others(engine *e, double deadline) {
    for (int r = 0; r < e->rank; r++) {
        char key[32], text[TPI_ADDRESS_BYTES + 32], *address = NULL;
        snprintf(key, sizeof key, "tcp/%d", r);
        if (!e->host.get(e->host.context, key, text, sizeof text)) return fail(e, "rank %d has not come", r);
        hello h = {.number = strtoull(text, &address, 10), .rank = e->rank};
        int fd = tpi_connect_proven(address + 1, TPI_FOR_ENGINE, deadline);
        if (fd < 0) return false;
        if (!tpi_net_send(fd, &h, sizeof h, deadline)) {
            tpi_net_close(fd);
            return fail(e, "rank %d hung up", r);
        }
        e->peers[r].fd = fd;
    }
    return true;
}

/* Who has been let in says who it is. One that does not is no reason for the others to wait. */
enum { MOST_CALLERS = 64 };
typedef struct caller {
    int fd;
    double since;
    size_t have;
    hello said;
} caller;

/* Takes what a caller says. False: it has left the list, and is a peer or gone. */
static bool hear(engine *e, caller *c, uint64_t number, int *missing) {
    hello *h = &c->said;
    ssize_t n = recv(c->fd, (char *)h + c->have, sizeof *h - c->have, MSG_DONTWAIT);
    if (n > 0) c->have += (size_t)n;
    bool whole = c->have == sizeof *h, gone = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (!whole && !gone && tpi_now() - c->since < 5) return true;
    bool known = whole && h->number == number && h->rank > e->rank && h->rank < e->size && e->peers[h->rank].fd < 0;
    if (known) {
        e->peers[h->rank].fd = c->fd;
        --*missing;
    } else
        tpi_net_close(c->fd);
    return false;
}

typedef struct reception {
    engine *e;
    tpi_listener listener;
    uint64_t number;
    double deadline;
    atomic_bool over; /* nobody is waited for any more */
    bool ok;
} reception;

/* In a thread of its own: those that call are answered while this rank calls others, or each would wait for the one
 * before it. */
static void *be_called(void *context) {
    reception *all = context;
    engine *e = all->e;
    tpi_listener *listener = &all->listener;
    caller callers[MOST_CALLERS];
    struct pollfd polls[MOST_CALLERS + TPI_LISTENER_POLLS];
    int n = 0, missing = e->size - 1 - e->rank;
    while (missing && tpi_now() < all->deadline && !all->over && !e->host.failed(e->host.context)) {
        for (int i = 0; i < n; i++) polls[i] = (struct pollfd){.fd = callers[i].fd, .events = POLLIN};
        int polled = n;
        poll(polls, (nfds_t)(n + tpi_listener_polls(listener, polls + n)), tpi_listener_timeout(listener, 250));
        for (int i = n - 1; i >= 0; i--)
            if (!hear(e, &callers[i], all->number, &missing)) callers[i] = callers[--n];
        for (int fd; n < MOST_CALLERS && (fd = tpi_listener_accept(listener, polls + polled)) >= 0;)
            callers[n++] = (caller){.fd = fd, .since = tpi_now()};
    }
    while (n) tpi_net_close(callers[--n].fd);
    if (missing && !all->over) fail(e, "%d ranks did not connect in time", missing);
    all->ok = !missing;
    return NULL;
}

/* Tells the others where this rank is, and makes the connections. */
static bool find_others(engine *e, reception *all) {
    char address[TPI_ADDRESS_BYTES], text[TPI_ADDRESS_BYTES + 32], key[32];
    int port = 0;
    pthread_t thread;
    if (!tpi_listener_open(&all->listener, TPI_FOR_ENGINE, e->host.listen, 0, &port) ||
        !tpi_net_address(port, e->host.listen, address))
        return false;
    snprintf(key, sizeof key, "tcp/%d", e->rank);
    snprintf(text, sizeof text, "%llu %s", (unsigned long long)all->number, address);
    if (!e->host.set(e->host.context, key, text) || pthread_create(&thread, NULL, be_called, all) != 0) return false;
    all->over = !call_others(e, all->deadline);
    pthread_join(thread, NULL);
    return all->ok && !all->over;
}

static void *tcp_open(const tpi_engine_host *host) {
    engine *e = tpi_malloc(sizeof *e + sizeof(peer) * (size_t)host->size);
    struct pollfd *polls = e ? tpi_malloc(sizeof *polls * (size_t)(host->size + 1)) : NULL;
    if (!polls) {
        tpi_mfree(e);
        return NULL;
    }
    memset(e, 0, sizeof *e + sizeof(peer) * (size_t)host->size);
    *e = (engine){.rank = host->rank, .size = host->size, .host = *host, .polls = polls, .wake = {-1, -1}};
    for (int i = 0; i < e->size; i++) e->peers[i].fd = -1;
    pthread_mutex_init(&e->lock, NULL);
    tpi_condition_init(&e->changed);
    reception all = {.e = e, .number = tpi_random_number(), .deadline = tpi_now() + host->timeout};
    bool ok = pipe2(e->wake, O_CLOEXEC | O_NONBLOCK) == 0 && find_others(e, &all);
    tpi_listener_close(&all.listener);
    e->threaded = ok && pthread_create(&e->thread, NULL, io_main, e) == 0;
    if (e->threaded) return e;
    fail(e, "the connections between ranks could not be made", 0);
    tcp_close(e, false);
    return NULL;
}

const tpi_engine tpi_tcp_engine = {.version = TPI_ENGINE_VERSION,
                                   .name = "tcp",
                                   .open = tcp_open,
                                   .close = tcp_close,
                                   .stop = tcp_stop,
                                   .send = tcp_send,
                                   .recv = tcp_recv,
                                   .finish = tcp_finish};
