/* Serving a store. One thread, and no client that another one waits for: requests are taken as their bytes come,
 * answers are left in a client's own queue until it reads them, and memory is what bytes that have come need, up to a
 * quota. */
#define _GNU_SOURCE /* pipe2, POLLRDHUP */
#include "dist/store/store_server.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/error.h"
#include "base/memory.h"
#include "dist/engine/net.h"
#include "dist/watch/watch.h"

enum { MOST_AT_ONCE = 1 << 20, LONGEST_WAIT_MS = 60000, FIRST_CAPACITY = 4096, SCRATCH = 65536 };

typedef struct client {
    int fd;
    tpi_store_request head;
    size_t have; /* of the request: head, key and value */
    char *in;    /* key and value, as far as they have come */
    size_t capacity;
    char *refused;  /* why the rest of the request is read and thrown away */
    double until;   /* its request waits for its key until then; 0: it does not wait */
    bool answering; /* an answer is on its way: nothing is read before it has left */
    tpi_store_reply reply;
    tpi_value *shared; /* its value: the table's, */
    char *own;         /* or ours */
    size_t sent;
} client;

struct tpi_store_server {
    tpi_listener listener;
    int wake[2];
    pthread_t thread;
    tpi_table table;
    client *clients;
    struct pollfd *polls;
    int n, capacity;
    size_t incoming; /* bytes of requests that are not whole, of all clients */
    int admitted;
    int port;
    char scratch[SCRATCH];
};

/* ---- Settings ---- */
static size_t setting(const char *name, size_t otherwise) {
    const char *text = getenv(name);
    char *end = NULL;
    double value = text ? strtod(text, &end) : 0;
    return text && end != text && !*end && value >= 1 && value < 0x1p63 ? (size_t)value : otherwise;
}

static char *too_much(const tpi_store_server *s,
                      size_t bytes) { /* the reason, from tpi_malloc; NULL: there is no memory even for that */
    char text[256];
    if (bytes > s->table.most_value)
        snprintf(text, sizeof text,
                 "a value of %zu bytes is more than the %zu that one may have (TAPER_STORE_VALUE_BYTES of the process "
                 "that serves the store)",
                 bytes, s->table.most_value);
    else
        snprintf(text, sizeof text,
                 "the store is full: %zu of its %zu bytes are taken (TAPER_STORE_BYTES of the process that serves it)",
                 s->table.bytes + s->incoming, s->table.most);
    char *copy = tpi_malloc(strlen(text) + 1);
    if (copy)
        strcpy(copy, text);
    else
        tp_error_clear();
    return copy;
}

/* ---- Clients ---- */
static void forget_request(tpi_store_server *s, client *c) {
    s->incoming -= c->capacity;
    tpi_mfree(c->in);
    tpi_mfree(c->refused);
    c->in = c->refused = NULL;
    c->capacity = c->have = 0;
    c->until = 0;
}

static void forget_answer(tpi_store_server *s, client *c) {
    tpi_table_drop(&s->table, c->shared);
    tpi_mfree(c->own);
    c->shared = NULL;
    c->own = NULL;
    c->answering = false;
    c->sent = 0;
}

static void drop(tpi_store_server *s, int i) {
    client *c = &s->clients[i];
    tpi_net_close(c->fd);
    forget_request(s, c);
    forget_answer(s, c);
    *c = s->clients[--s->n];
}

static bool reserve_client(tpi_store_server *s) {
    if (s->n < s->capacity) return true;
    int capacity = s->capacity ? s->capacity * 2 : 64;
    client *clients = tpi_realloc(s->clients, sizeof *clients * (size_t)capacity);
    if (clients) s->clients = clients;
    struct pollfd *polls =
        clients ? tpi_realloc(s->polls, sizeof *polls * (size_t)(capacity + 1 + TPI_LISTENER_POLLS)) : NULL;
    if (!polls) {
        tp_error_clear();
        return false;
    }
    s->polls = polls;
    s->capacity = capacity;
    return true;
}

/* ---- Answers ---- */
static bool send_some(client *c, const char *data, size_t n, size_t from) { /* false: the client is gone */
    while (c->sent < from + n) {
        ssize_t put = send(c->fd, data + (c->sent - from), from + n - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0) return errno == EAGAIN || errno == EINTR;
        c->sent += (size_t)put;
    }
    return true;
}

/* What the socket takes now; the rest waits for it. */
static bool send_answer(tpi_store_server *s, client *c) {
    size_t head = sizeof c->reply, whole = head + (size_t)c->reply.bytes;
    if (c->sent < head && !send_some(c, (const char *)&c->reply, head, 0)) return false;
    if (c->sent >= head && c->sent < whole &&
        !send_some(c, c->shared ? c->shared->data : c->own, (size_t)c->reply.bytes, head))
        return false;
    if (c->sent == whole) forget_answer(s, c);
    return true;
}

static bool answer(tpi_store_server *s, client *c, enum tpi_store_answer status, tpi_value *shared, char *own,
                   size_t n) {
    forget_request(s, c); /* a client sends its next request when it has the answer */
    c->shared = shared;
    c->own = own;
    c->answering = true;
    c->sent = 0;
    c->reply = (tpi_store_reply){.status = status == TPI_STORE_FULL ? TPI_STORE_FAILED : status, .bytes = n};
    return send_answer(s, c);
}

static bool refuse(tpi_store_server *s, client *c, char *why) { /* takes `why` over */
    return answer(s, c, TPI_STORE_FAILED, NULL, why, why ? strlen(why) : 0);
}

/* Answers the request that has come in, unless it waits. False if the client is to be dropped. */
static bool serve(tpi_store_server *s, client *c, bool *changed) {
    const tpi_store_request r = c->head;
    if (c->refused) {
        char *why = c->refused;
        c->refused = NULL;
        return refuse(s, c, why);
    }
    enum tpi_store_op op = (enum tpi_store_op)r.op;
    const char *key = c->in ? c->in : "";
    tpi_bytes out = {0};
    tpi_value *shared = op == TPI_STORE_GET ? tpi_table_find(&s->table, key, r.key_bytes) : NULL;
    enum tpi_store_answer a =
        shared ? TPI_STORE_DONE
               : tpi_table_ask(&s->table, op, key, r.key_bytes, key + r.key_bytes, (size_t)r.bytes, &out);
    tp_error_clear(); /* a failure is in the answer */
    if (a == TPI_STORE_ABSENT && r.wait_ms && op != TPI_STORE_DELETE) {
        if (c->until == 0) c->until = tpi_now() + (r.wait_ms < LONGEST_WAIT_MS ? r.wait_ms : LONGEST_WAIT_MS) * 1e-3;
        if (tpi_now() < c->until) return true;
    }
    if (a == TPI_STORE_FULL) return refuse(s, c, too_much(s, (size_t)r.bytes));
    if (a == TPI_STORE_DONE && tpi_store_changes(op)) *changed = true;
    return answer(s, c, a, shared, out.data, shared ? shared->n : out.data ? out.n : 0);
}

/* ---- Requests ---- */
static size_t request_bytes(const client *c) { return sizeof c->head + c->head.key_bytes + (size_t)c->head.bytes; }
static bool is_whole(const client *c) { return c->have >= sizeof c->head && c->have == request_bytes(c); }

static bool check_head(tpi_store_server *s, client *c) { /* false: it is no request of ours */
    const tpi_store_request *r = &c->head;
    if (r->magic != TPI_STORE_MAGIC || r->key_bytes > TPI_STORE_MOST_KEY || r->bytes > TPI_STORE_MOST_BYTES)
        return false;
    if (r->bytes > s->table.most_value && (c->refused = too_much(s, (size_t)r->bytes)) == NULL) return false;
    return true;
}

/* Room for more of the request: twice what has come, and not more than the whole. */
static bool reserve_body(tpi_store_server *s, client *c, size_t body) {
    if (body < c->capacity) return true;
    size_t whole = request_bytes(c) - sizeof c->head, capacity = c->capacity ? 2 * c->capacity : FIRST_CAPACITY;
    if (capacity > whole) capacity = whole;
    if (s->incoming - c->capacity + capacity > s->table.most) {
        c->refused = too_much(s, 0);
        return c->refused;
    }
    char *in = tpi_realloc(c->in, capacity);
    if (!in) {
        tp_error_clear();
        return false;
    }
    s->incoming += capacity - c->capacity;
    c->in = in;
    c->capacity = capacity;
    return true;
}

static bool read_body(tpi_store_server *s, client *c, ssize_t *n) { /* false: there is no memory */
    size_t body = c->have - sizeof c->head, left = request_bytes(c) - c->have;
    if (!c->refused && !reserve_body(s, c, body)) return false;
    if (c->refused)
        *n = recv(c->fd, s->scratch, left < SCRATCH ? left : SCRATCH, MSG_DONTWAIT);
    else
        *n = recv(c->fd, c->in + body, c->capacity - body, MSG_DONTWAIT);
    return true;
}

/* Reads what has arrived, up to a turn's worth. False if the client is gone, or does not speak the protocol. */
static bool read_request(tpi_store_server *s, client *c) {
    for (size_t nread = 0; !is_whole(c) && nread < MOST_AT_ONCE;) {
        ssize_t n;
        bool in_head = c->have < sizeof c->head;
        if (in_head)
            n = recv(c->fd, (char *)&c->head + c->have, sizeof c->head - c->have, MSG_DONTWAIT);
        else if (!read_body(s, c, &n))
            return false;
        if (n == 0) return false;
        if (n < 0) return errno == EAGAIN || errno == EINTR;
        c->have += (size_t)n;
        nread += (size_t)n;
        if (in_head && c->have == sizeof c->head && !check_head(s, c)) return false;
    }
    return true;
}

/* ---- The thread ---- */
static void look_again(tpi_store_server *s, bool changed) { /* at requests that wait */
    do {
        double now = tpi_now();
        bool before = changed;
        changed = false;
        for (int i = s->n - 1; i >= 0; i--) {
            client *c = &s->clients[i];
            if (c->until > 0 && (before || now >= c->until) && !serve(s, c, &changed)) drop(s, i);
        }
    } while (changed);
}

static int next_look(const tpi_store_server *s) { /* milliseconds */
    double now = tpi_now(), next = now + 60;
    for (int i = 0; i < s->n; i++)
        if (s->clients[i].until > 0 && s->clients[i].until < next) next = s->clients[i].until;
    return tpi_listener_timeout(&s->listener, next > now ? (int)((next - now) * 1000) + 1 : 0);
}

static void warn_of_no_secret(const tpi_store_server *s) {
    static atomic_bool told;
    char text[512];
    if (atomic_exchange(&told, true)) return;
    snprintf(text, sizeof text,
             "the processes of this job share no secret: whoever reaches port %d of host %s can take part, and run "
             "code in it, as with PyTorch. `taper launch` on one machine, "
             "and MPI, make one; else set the same one for all: export TAPER_JOB_SECRET=$(head -c 32 /dev/urandom | od "
             "-An -vtx1 | tr -d ' \\n')",
             s->port, tpi_net_host());
    tpi_report(text);
}

static void admit(tpi_store_server *s, struct pollfd *polls) {
    for (int fd; (fd = tpi_listener_accept(&s->listener, polls)) >= 0;) {
        if (!reserve_client(s)) {
            tpi_net_close(fd);
            continue;
        }
        s->clients[s->n++] = (client){.fd = fd};
        if (++s->admitted == 2 && !s->listener.key.known) warn_of_no_secret(s); /* the first is this process itself */
    }
}

/* What a client is waited for: its next bytes, that it takes its answer, or, while its request waits for a key, that it
 * goes. */
static short events_of(const client *c) { return c->answering ? POLLOUT : c->until > 0 ? POLLRDHUP : POLLIN; }

static bool attend(tpi_store_server *s, client *c, short events, bool *changed) { /* false: drop it */
    if (c->answering) return send_answer(s, c);
    if (c->until > 0) return !(events & (POLLRDHUP | POLLHUP | POLLERR));
    return read_request(s, c) && (!is_whole(c) || serve(s, c, changed));
}

static void *server_main(void *context) {
    tpi_store_server *s = context;
    for (;;) {
        int n = s->n;
        s->polls[0] = (struct pollfd){.fd = s->wake[0], .events = POLLIN};
        for (int i = 0; i < n; i++)
            s->polls[i + 1] = (struct pollfd){.fd = s->clients[i].fd, .events = events_of(&s->clients[i])};
        int all = n + 1 + tpi_listener_polls(&s->listener, s->polls + n + 1);
        if (poll(s->polls, (nfds_t)all, next_look(s)) < 0)
            for (int i = 0; i < all; i++) s->polls[i].revents = 0;
        if (s->polls[0].revents) return NULL;
        bool changed = false;
        for (int i = n - 1; i >= 0; i--) /* from the end, as dropping one moves the last into its place */
            if (s->polls[i + 1].revents && !attend(s, &s->clients[i], s->polls[i + 1].revents, &changed)) drop(s, i);
        look_again(s, changed);
        struct pollfd polls[TPI_LISTENER_POLLS]; /* making room for a client may move the others */
        memcpy(polls, s->polls + n + 1, sizeof *polls * (size_t)(all - n - 1));
        admit(s, polls);
    }
}

static void server_free(tpi_store_server *s) { /* after its thread is over, or before it began */
    while (s->n) drop(s, s->n - 1);
    tpi_table_free(&s->table);
    tpi_listener_close(&s->listener);
    for (int i = 0; i < 2; i++)
        if (s->wake[i] >= 0) close(s->wake[i]);
    tpi_mfree(s->clients);
    tpi_mfree(s->polls);
    tpi_mfree(s);
}

void tpi_store_server_free(tpi_store_server *s) {
    if (write(s->wake[1], "", 1) != 1) return;
    pthread_join(s->thread, NULL);
    server_free(s);
}

tpi_store_server *tpi_store_server_new(const char *where, int port, int *bound, bool *in_use) {
    tpi_store_server *s = tpi_malloc(sizeof *s);
    if (!s) return NULL;
    *s = (tpi_store_server){.wake = {-1, -1}};
    s->table.most = setting("TAPER_STORE_BYTES", (size_t)1 << 30);
    s->table.most_value = setting("TAPER_STORE_VALUE_BYTES", (size_t)256 << 20);
    bool ok = reserve_client(s) && tpi_listener_open(&s->listener, TPI_FOR_STORE, where, port, bound);
    if (in_use) *in_use = s->listener.in_use;
    if (ok) s->port = *bound;
    if (ok && pipe2(s->wake, O_CLOEXEC) < 0) ok = tpi_refuse(TP_ERR_IO, "cannot make a pipe: %s", strerror(errno));
    int error = ok ? pthread_create(&s->thread, NULL, server_main, s) : 0;
    if (error) ok = tpi_refuse(TP_ERR_MEMORY, "cannot start the store's thread: %s", strerror(error));
    if (ok) return s;
    if (tp_ok()) tpi_fail(TP_ERR_MEMORY, "no memory for the store's server");
    server_free(s);
    return NULL;
}
