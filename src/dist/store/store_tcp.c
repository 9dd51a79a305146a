/* A store behind a socket: one process serves it from a thread (store_server.c), the others (and that one) ask over a
 * connection each. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/error.h"
#include "base/memory.h"
#include "dist/engine/net.h"
#include "dist/store/store.h"
#include "dist/store/store_server.h"

typedef tpi_store_request request;
typedef tpi_store_reply reply;

typedef struct tcp_store {
    tp_store store;
    tpi_store_server *server; /* NULL: another process serves */
    int fd;
    pid_t pid; /* of the process that made it: a forked child has no connection and no server */
    pthread_mutex_t lock;
    char host[];
} tcp_store;

static enum tpi_store_answer lost(tcp_store *t) {
    tpi_net_close(t->fd); /* what is half read or half written cannot be taken up again */
    t->fd = -1;
    tpi_fail(TP_ERR_IO, "store: the connection to %s, port %d is closed", t->host, t->store.port);
    return TPI_STORE_FAILED;
}

/* A value of that many bytes, with a zero behind; memory grows as they come. NULL: the connection is lost, or there is
 * no memory. */
static char *receive(tcp_store *t, size_t bytes, double deadline) {
    size_t capacity = 65536 < bytes ? 65536 : bytes;
    char *value = tpi_malloc(capacity + 1);
    for (size_t have = 0; value && have < bytes;
         have = capacity, capacity = 2 * capacity < bytes ? 2 * capacity : bytes) {
        char *more = tpi_realloc(value, capacity + 1);
        if (more) value = more;
        if (!more || !tpi_net_recv(t->fd, value + have, capacity - have, deadline)) {
            tpi_mfree(value);
            return NULL;
        }
    }
    if (value) value[bytes] = 0;
    return value;
}

static enum tpi_store_answer exchange(tcp_store *t, const request *r, const char *key, const char *in, tpi_bytes *out) {
    double deadline = tpi_now() + t->store.timeout;
    reply a;
    if (t->fd < 0 || !tpi_net_send(t->fd, r, sizeof *r, deadline) ||
        !tpi_net_send(t->fd, key, r->key_bytes, deadline) || !tpi_net_send(t->fd, in, (size_t)r->bytes, deadline) ||
        !tpi_net_recv(t->fd, &a, sizeof a, deadline))
        return lost(t);
    char *value = a.bytes <= TPI_STORE_MOST_BYTES ? receive(t, (size_t)a.bytes, deadline) : NULL;
    if (!value) return lost(t);
    if (a.status == TPI_STORE_FAILED)
        tpi_fail(TP_ERR_RUNTIME, "store: the server refused the request%s%s", a.bytes ? ": " : "", value);
    if (out && a.status == TPI_STORE_DONE)
        *out = (tpi_bytes){value, (size_t)a.bytes};
    else
        tpi_mfree(value);
    return (enum tpi_store_answer)a.status;
}

static enum tpi_store_answer tcp_ask(tp_store *s, enum tpi_store_op op, const char *key, size_t key_bytes,
                                     const char *in, size_t n, double wait, tpi_bytes *out) {
    tcp_store *t = (tcp_store *)s;
    if (t->pid != getpid()) {
        tpi_fail(TP_ERR_RUNTIME,
                 "store: this process was forked from the one that connected to the store; make a store of its own");
        return TPI_STORE_FAILED;
    }
    if (key_bytes > TPI_STORE_MOST_KEY || n > TPI_STORE_MOST_BYTES) {
        tpi_fail(TP_ERR_VALUE, "store: a key of %zu and a value of %zu bytes, at most %d and %d are possible",
                 key_bytes, n, TPI_STORE_MOST_KEY, TPI_STORE_MOST_BYTES);
        return TPI_STORE_FAILED;
    }
    request r = {.magic = TPI_STORE_MAGIC,
                 .op = op,
                 .wait_ms = (uint32_t)(wait * 1e3),
                 .key_bytes = (uint32_t)key_bytes,
                 .bytes = n};
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
    if (t->server) tpi_store_server_free(t->server);
}

static tcp_store *client_new(const char *host, int port, double timeout) {
    static const tpi_store_kind kind = {tcp_ask, tcp_free};
    size_t n = strlen(host) + 1;
    tcp_store *t = (tcp_store *)tpi_store_new(sizeof *t + n, &kind, timeout);
    if (!t) return NULL;
    memcpy(t->host, host, n);
    t->store.host = t->host;
    t->store.port = port;
    t->fd = -1;
    t->pid = getpid();
    pthread_mutex_init(&t->lock, NULL);
    return t;
}

/* Where this process listens for others of the same store: one that serves it where the store does, or at the interface
 * that is named for what ranks exchange. */
static tp_store *connected(tcp_store *t) {
    if (t->fd < 0) {
        tp_store_release(&t->store);
        return NULL;
    }
    char own[64] = "";
    if (!tpi_net_own_address(t->fd, own, sizeof own)) own[0] = 0;
    char named[TPI_LISTEN_BYTES];
    if (!t->server)
        tpi_listen_near(t->host, own, t->store.listen);
    else if (tpi_listen_by_setting(true, named))
        memcpy(t->store.listen, named, sizeof named);
    return &t->store;
}

/* Is it a store that listens at the other end, which knows this job's secret, and has it the job's word? An empty word:
 * any such store will do. */
typedef struct wanted {
    tpi_key key;
    const char *word;
} wanted;

static tpi_recognised is_store(int fd, const tpi_recogniser *self, const char **why) {
    const wanted *w = self->context;
    request r = {.magic = TPI_STORE_MAGIC, .op = TPI_STORE_CHECK, .key_bytes = (uint32_t)strlen(w->word)};
    reply a;
    double deadline = tpi_now() + (r.key_bytes ? 3 : 10);
    tpi_proof_result p = tpi_prove(fd, TPI_FOR_STORE, &w->key, deadline);
    *why = p < TPI_NO_PEER ? tpi_proof_why(p) : "what listens there is not the store of this job";
    if (p < TPI_NO_PEER) return TPI_IS_STRANGER;
    if (p != TPI_PROVEN || !tpi_net_send(fd, &r, sizeof r, deadline) ||
        !tpi_net_send(fd, w->word, r.key_bytes, deadline) || !tpi_net_recv(fd, &a, sizeof a, deadline))
        return TPI_NOT_YET_KNOWN;
    bool there = a.bytes == 0 && (a.status == TPI_STORE_DONE || (a.status == TPI_STORE_ABSENT && !r.key_bytes));
    return there ? TPI_IS_KNOWN : TPI_NOT_YET_KNOWN;
}

static int connect_to(const char *host, const int *ports, int n, const char *word, int *which, double deadline) {
    wanted w = {.word = word};
    if (!tpi_job_key(&w.key)) return -1;
    return tpi_net_connect(host, ports, n, which, deadline, &(tpi_recogniser){.known = is_store, .context = &w});
}

/* To the server in this process, by the first address at which it listens. */
static int connect_to_own(tcp_store *t, double deadline) {
    char first[TPI_LISTEN_BYTES];
    int which;
    snprintf(first, sizeof first, "%s", strcmp(t->store.listen, "*") == 0 ? "localhost" : t->store.listen);
    first[strcspn(first, " ")] = 0;
    return connect_to(first, &t->store.port, 1, "", &which, deadline);
}

tp_store *tp_store_tcp(const char *host, int port, bool serve_it, double timeout) {
    if (!host || port < 0 || port > 65535 || (!port && !serve_it))
        return tpi_fail(TP_ERR_VALUE, "argument '%s': expected %s, got %d", host ? "port" : "host",
                        host ? "1 to 65535" : "a name", port);
    tcp_store *t = client_new(host, port, timeout);
    if (!t) return NULL;
    double deadline = tpi_now() + t->store.timeout;
    int which;
    if (serve_it) tpi_listen_as(host, t->store.listen);
    if (serve_it && (t->server = tpi_store_server_new(t->store.listen, port, &t->store.port, NULL)))
        t->fd = connect_to_own(t, deadline);
    else if (!serve_it)
        t->fd = connect_to(host, &port, 1, "", &which, deadline);
    return connected(t);
}

/* ---- Meeting ---- */
enum { PORT_SECONDS = 5 }; /* that a port which was given may take to become free: of a job that is just ending */

static tpi_store_server *first_free(const tpi_meeting *m, const char *where, int *bound) {
    double until = tpi_now() + (*m->word ? 0 : PORT_SECONDS);
    for (;;) {
        for (int i = 0; i < m->n; i++) {
            if (i) tp_error_clear();
            bool in_use = false;
            tpi_store_server *s = tpi_store_server_new(where, m->ports[i], bound, &in_use);
            if (s || !in_use) return s;
        }
        if (tpi_now() >= until) break;
        tp_error_clear();
        usleep(200000);
    }
    if (m->n == 1) return NULL;
    tp_error_clear();
    return tpi_fail(TP_ERR_IO,
                    "all of the %d ports at which rank 0 of job %s could be met on host %s, %d to %d among them, are "
                    "taken by other programs; MASTER_PORT, the same on all "
                    "ranks, names another",
                    m->n, m->word, tpi_net_host(), m->ports[0], m->ports[m->n - 1]);
}

tp_store *tpi_store_tcp_meet(const tpi_meeting *m, bool serve_it, double timeout) {
    tcp_store *t = client_new(m->host, m->ports[0], timeout);
    if (!t) return NULL;
    int which = 0;
    if (serve_it) tpi_listen_as(m->host, t->store.listen);
    if (serve_it) t->server = first_free(m, t->store.listen, &t->store.port);
    double deadline = tpi_now() + t->store.timeout;
    if (t->server)
        t->fd = connect_to_own(t, deadline);
    else if (!serve_it && (t->fd = connect_to(m->host, m->ports, m->n, m->word, &which, deadline)) >= 0)
        t->store.port = m->ports[which];
    tp_store *s = connected(t);
    if (!s || !serve_it || !*m->word || tp_store_set(s, m->word, "", 0)) return s;
    tp_store_release(s);
    return NULL;
}

tp_store *tpi_store_tcp_here(double timeout) {
    tcp_store *t = client_new("", 0, timeout);
    if (!t) return NULL;
    tpi_listen_near("", "", t->store.listen);
    t->server = tpi_store_server_new(t->store.listen, 0, &t->store.port, NULL);
    if (t->server) t->fd = connect_to_own(t, tpi_now() + t->store.timeout);
    return connected(t);
}

tp_store *tpi_store_tcp_at(const char *address, double timeout) {
    tcp_store *t = client_new("", 0, timeout);
    if (!t) return NULL;
    t->fd = tpi_connect_proven(address, TPI_FOR_STORE, tpi_now() + t->store.timeout);
    return connected(t);
}
