/* A store behind a socket: one process serves it from a thread, the others (and that one) ask over a connection each. A request is a head, a key
 * and a value; an answer is a head and a value. A GET or CHECK may wait at the server for the key, up to the time in its head. */
#define _GNU_SOURCE /* pipe2 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/error.h"
#include "base/memory.h"
#include "dist/net.h"
#include "dist/store.h"

enum { MAGIC = 0x54505354, MOST_BYTES = 1 << 30 };

typedef struct request {
    uint32_t magic, op, wait_ms, key_bytes;
    uint64_t bytes;
} request;
typedef struct answer {
    int64_t status; /* tpi_store_answer */
    uint64_t bytes;
} answer;

/* ---- The server ---------------------------------------------------------------------------------------------------------------- */
typedef struct client {
    int fd;
    char *in;        /* a request as far as it has come */
    size_t have, room;
    double until;    /* its request waits for its key until then; 0: it does not wait */
} client;

typedef struct server {
    int listener, wake[2];
    pthread_t thread;
    tpi_table table;
    client *clients;
    struct pollfd *polls;
    int n, room;
} server;

static void drop(server *s, int i) {
    tpi_net_close(s->clients[i].fd);
    tpi_mfree(s->clients[i].in);
    s->clients[i] = s->clients[--s->n];
}

static bool make_room(server *s) {
    if (s->n < s->room) return true;
    int room = s->room ? s->room * 2 : 64;
    client *clients = tpi_realloc(s->clients, sizeof *clients * (size_t)room);
    if (clients) s->clients = clients;
    struct pollfd *polls = clients ? tpi_realloc(s->polls, sizeof *polls * (size_t)(room + 2)) : NULL;
    if (!polls) return tp_error_clear(), false;
    s->polls = polls, s->room = room;
    return true;
}

static bool reply(const client *c, enum tpi_store_answer status, const tpi_bytes *value) {
    answer head = {.status = status, .bytes = value ? value->n : 0};
    double deadline = tpi_now() + 10;
    return tpi_net_send(c->fd, &head, sizeof head, deadline) && (!value || tpi_net_send(c->fd, value->data, value->n, deadline));
}

static size_t request_bytes(const client *c) { /* of the request that is coming in; 0: its head is not there yet */
    request r;
    if (c->have < sizeof r) return 0;
    memcpy(&r, c->in, sizeof r);
    return sizeof r + r.key_bytes + (size_t)r.bytes;
}

/* Answers the request that has come in, unless it waits. False if the client is to be dropped. */
static bool serve(server *s, client *c, bool *changed) {
    request r;
    memcpy(&r, c->in, sizeof r);
    const char *key = c->in + sizeof r;
    tpi_bytes out = {0};
    enum tpi_store_answer a = tpi_table_ask(&s->table, (enum tpi_store_op)r.op, key, r.key_bytes, key + r.key_bytes, (size_t)r.bytes, &out);
    tp_error_clear(); /* a failure is in the answer */
    if (a == TPI_STORE_ABSENT && r.wait_ms && r.op != TPI_STORE_DELETE) {
        if (c->until == 0) c->until = tpi_now() + r.wait_ms * 1e-3;
        if (tpi_now() < c->until) return true;
    }
    if (a == TPI_STORE_DONE && (r.op == TPI_STORE_SET || r.op == TPI_STORE_ADD || r.op == TPI_STORE_CAS || r.op == TPI_STORE_APPEND)) *changed = true;
    bool ok = reply(c, a, out.data ? &out : NULL);
    tpi_mfree(out.data);
    c->have = 0, c->until = 0; /* a client sends its next request when it has the answer */
    return ok;
}

/* Takes what has arrived. False if the client is gone, or is none. */
static bool take(client *c) {
    for (;;) {
        size_t whole = request_bytes(c), want = whole ? whole : sizeof(request);
        if (whole && c->have == whole) return true;
        if (want > c->room) {
            char *in = tpi_realloc(c->in, want);
            if (!in) return tp_error_clear(), false;
            c->in = in, c->room = want;
        }
        ssize_t n = recv(c->fd, c->in + c->have, want - c->have, 0);
        if (n == 0) return false;
        if (n < 0) return errno == EAGAIN || errno == EINTR;
        c->have += (size_t)n;
        request r;
        if (c->have < sizeof r) continue;
        memcpy(&r, c->in, sizeof r);
        if (r.magic != MAGIC || r.key_bytes > MOST_BYTES || r.bytes > MOST_BYTES) return false;
    }
}

static void look_again(server *s) { /* at requests that wait */
    bool changed = true;
    while (changed) {
        changed = false;
        for (int i = s->n - 1; i >= 0; i--)
            if (s->clients[i].until > 0 && !serve(s, &s->clients[i], &changed)) drop(s, i);
    }
}

static int next_look(const server *s) { /* milliseconds */
    double next = tpi_now() + 60;
    for (int i = 0; i < s->n; i++)
        if (s->clients[i].until > 0 && s->clients[i].until < next) next = s->clients[i].until;
    double left = next - tpi_now();
    return left > 0 ? (int)(left * 1000) + 1 : 0;
}

static void *server_main(void *context) {
    server *s = context;
    for (;;) {
        int n = s->n;
        s->polls[0] = (struct pollfd){.fd = s->wake[0], .events = POLLIN};
        s->polls[1] = (struct pollfd){.fd = s->listener, .events = POLLIN};
        for (int i = 0; i < n; i++) s->polls[i + 2] = (struct pollfd){.fd = s->clients[i].fd, .events = POLLIN};
        poll(s->polls, (nfds_t)n + 2, next_look(s));
        if (s->polls[0].revents) return NULL;
        bool changed = false;
        for (int i = n - 1; i >= 0; i--) { /* from the end, as dropping one moves the last into its place */
            client *c = &s->clients[i];
            if (!s->polls[i + 2].revents) continue;
            bool ok = take(c);
            if (ok && c->until == 0 && request_bytes(c) && c->have == request_bytes(c)) ok = serve(s, c, &changed);
            if (!ok) drop(s, i);
        }
        look_again(s);
        if (!s->polls[1].revents || !make_room(s)) continue;
        int fd = tpi_net_accept(s->listener);
        if (fd >= 0) s->clients[s->n++] = (client){.fd = fd};
    }
}

static void server_free(server *s) { /* after its thread is over, or before it began */
    while (s->n) drop(s, s->n - 1);
    tpi_table_free(&s->table);
    tpi_net_close(s->listener);
    for (int i = 0; i < 2; i++)
        if (s->wake[i] >= 0) close(s->wake[i]);
    tpi_mfree(s->clients);
    tpi_mfree(s->polls);
    tpi_mfree(s);
}

static server *server_new(int port, int *bound) {
    server *s = tpi_malloc(sizeof *s);
    if (!s) return NULL;
    *s = (server){.listener = -1, .wake = {-1, -1}};
    bool ok = make_room(s) && (s->listener = tpi_net_listen(port, bound)) >= 0;
    if (ok && pipe2(s->wake, O_CLOEXEC) < 0) ok = tpi_refuse(TP_ERR_IO, "cannot make a pipe: %s", strerror(errno));
    int error = ok ? pthread_create(&s->thread, NULL, server_main, s) : 0;
    if (error) ok = tpi_refuse(TP_ERR_MEMORY, "cannot start the store's thread: %s", strerror(error));
    if (ok) return s;
    if (tp_ok()) tpi_fail(TP_ERR_MEMORY, "no memory for the store's server");
    server_free(s);
    return NULL;
}

/* ---- The client ------------------------------------------------------------------------------------------------------------------ */
typedef struct tcp_store {
    tp_store store;
    server *server; /* NULL: another process serves */
    int fd;
    pid_t pid;      /* of the process that made it: a forked child has no connection and no server */
    pthread_mutex_t lock;
    char host[];
} tcp_store;

static enum tpi_store_answer lost(tcp_store *t) {
    tpi_net_close(t->fd); /* what is half read or half written cannot be taken up again */
    t->fd = -1;
    tpi_fail(TP_ERR_IO, "store: the connection to %s, port %d is closed", t->host, t->store.port);
    return TPI_STORE_FAILED;
}

static enum tpi_store_answer exchange(tcp_store *t, const request *r, const char *key, const char *in, tpi_bytes *out) {
    double deadline = tpi_now() + t->store.timeout;
    answer a;
    if (t->fd < 0 || !tpi_net_send(t->fd, r, sizeof *r, deadline) || !tpi_net_send(t->fd, key, r->key_bytes, deadline)
        || !tpi_net_send(t->fd, in, (size_t)r->bytes, deadline) || !tpi_net_recv(t->fd, &a, sizeof a, deadline))
        return lost(t);
    char *value = a.bytes ? tpi_malloc((size_t)a.bytes + 1) : NULL;
    if (a.bytes && (!value || !tpi_net_recv(t->fd, value, (size_t)a.bytes, deadline))) {
        tpi_mfree(value);
        return lost(t);
    }
    if (value) value[a.bytes] = 0;
    if (a.status == TPI_STORE_FAILED) tpi_fail(TP_ERR_RUNTIME, "store: the server refused the request");
    if (out && a.status == TPI_STORE_DONE) {
        if (!value && !(value = tpi_malloc(1))) return TPI_STORE_FAILED;
        value[a.bytes] = 0;
        *out = (tpi_bytes){value, (size_t)a.bytes};
    } else
        tpi_mfree(value);
    return (enum tpi_store_answer)a.status;
}

static enum tpi_store_answer tcp_ask(tp_store *s, enum tpi_store_op op, const char *key, size_t key_bytes, const char *in, size_t n, double wait, tpi_bytes *out) {
    tcp_store *t = (tcp_store *)s;
    if (t->pid != getpid()) {
        tpi_fail(TP_ERR_RUNTIME, "store: this process was forked from the one that connected to the store; make a store of its own");
        return TPI_STORE_FAILED;
    }
    if (key_bytes > MOST_BYTES || n > MOST_BYTES) {
        tpi_fail(TP_ERR_VALUE, "store: a value of %zu bytes, at most %d are possible", n, MOST_BYTES);
        return TPI_STORE_FAILED;
    }
    request r = {.magic = MAGIC, .op = op, .wait_ms = (uint32_t)(wait * 1e3), .key_bytes = (uint32_t)key_bytes, .bytes = n};
    pthread_mutex_lock(&t->lock);
    enum tpi_store_answer a = exchange(t, &r, key, in, out);
    pthread_mutex_unlock(&t->lock);
    return a;
}

static void tcp_free(tp_store *s) {
    tcp_store *t = (tcp_store *)s;
    if (t->pid != getpid()) return; /* what a forked child has is closed already, and the thread is not there */
    tpi_net_close(t->fd);
    pthread_mutex_destroy(&t->lock);
    if (!t->server) return;
    ssize_t woken = write(t->server->wake[1], "", 1);
    if (woken == 1) pthread_join(t->server->thread, NULL), server_free(t->server);
}

static tcp_store *client_new(const char *host, int port, double timeout) {
    static const tpi_store_kind kind = {tcp_ask, tcp_free};
    size_t n = strlen(host) + 1;
    tcp_store *t = (tcp_store *)tpi_store_new(sizeof *t + n, &kind, timeout);
    if (!t) return NULL;
    memcpy(t->host, host, n);
    t->store.host = t->host, t->store.port = port, t->fd = -1, t->pid = getpid();
    pthread_mutex_init(&t->lock, NULL);
    return t;
}

static tp_store *connected(tcp_store *t) {
    if (t->fd < 0) return tp_store_release(&t->store), NULL;
    if (!*t->store.address && !tpi_net_own_address(t->fd, t->store.address, sizeof t->store.address)) t->store.address[0] = 0;
    return &t->store;
}

/* Is it a store that listens at the other end, and has it the job's word? Whoever else does not answer like this. An empty word: any store will do. */
static bool is_store(int fd, const void *word) {
    request r = {.magic = MAGIC, .op = TPI_STORE_CHECK, .key_bytes = (uint32_t)strlen(word)};
    answer a;
    double deadline = tpi_now() + (r.key_bytes ? 3 : 10);
    if (!tpi_net_send(fd, &r, sizeof r, deadline) || !tpi_net_send(fd, word, r.key_bytes, deadline) || !tpi_net_recv(fd, &a, sizeof a, deadline)) return false;
    return a.bytes == 0 && (a.status == TPI_STORE_DONE || (a.status == TPI_STORE_ABSENT && !r.key_bytes));
}

tp_store *tp_store_tcp(const char *host, int port, bool serve_it, double timeout) {
    if (!host || port < 0 || port > 65535 || (!port && !serve_it))
        return tpi_fail(TP_ERR_VALUE, "argument '%s': expected %s, got %d", host ? "port" : "host", host ? "1 to 65535" : "a name", port);
    tcp_store *t = client_new(host, port, timeout);
    if (!t) return NULL;
    bool ok = !serve_it || (t->server = server_new(port, &t->store.port));
    double deadline = tpi_now() + t->store.timeout;
    int which;
    if (ok) t->fd = serve_it ? tpi_net_connect("localhost", t->store.port, deadline) : tpi_net_connect_known(host, &port, 1, &which, deadline, is_store, "");
    if (serve_it && strcmp(host, "localhost") != 0) snprintf(t->store.address, sizeof t->store.address, "%.63s", host); /* others reach it by that */
    return connected(t);
}

/* ---- Meeting ---- */
enum { PORT_SECONDS = 5 }; /* that a port which was given may take to become free: of a job that is just ending */

static server *first_free(const tpi_meeting *m, int *bound) {
    double until = tpi_now() + (*m->word ? 0 : PORT_SECONDS);
    for (;;) {
        for (int i = 0; i < m->n; i++) {
            if (i) tp_error_clear();
            server *s = server_new(m->ports[i], bound);
            if (s || !tpi_net_in_use()) return s;
        }
        if (tpi_now() >= until) break;
        tp_error_clear();
        usleep(200000);
    }
    if (m->n == 1) return NULL;
    tp_error_clear();
    return tpi_fail(TP_ERR_IO, "all of the %d ports at which rank 0 of job %s could be met on host %s, %d to %d among them, are taken by other programs; MASTER_PORT, the same on all "
                    "ranks, names another", m->n, m->word, tpi_net_host(), m->ports[0], m->ports[m->n - 1]);
}

tp_store *tpi_store_tcp_meet(const tpi_meeting *m, bool serve_it, double timeout) {
    tcp_store *t = client_new(m->host, m->ports[0], timeout);
    if (!t) return NULL;
    int which = 0;
    bool ok = !serve_it || (t->server = first_free(m, &t->store.port));
    double deadline = tpi_now() + t->store.timeout;
    if (ok && serve_it) t->fd = tpi_net_connect("localhost", t->store.port, deadline);
    else if (ok && (t->fd = tpi_net_connect_known(m->host, m->ports, m->n, &which, deadline, is_store, m->word)) >= 0) t->store.port = m->ports[which];
    if (serve_it) snprintf(t->store.address, sizeof t->store.address, "%.63s", m->host);
    tp_store *s = connected(t);
    if (!s || !serve_it || !*m->word || tp_store_set(s, m->word, "", 0)) return s;
    tp_store_release(s);
    return NULL;
}

tp_store *tpi_store_tcp_at(const char *address, double timeout) {
    tcp_store *t = client_new("rank 0", 0, timeout);
    if (!t) return NULL;
    t->fd = tpi_net_connect_to(address, tpi_now() + t->store.timeout);
    return connected(t);
}
