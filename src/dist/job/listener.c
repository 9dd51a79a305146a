/* Listening: at which addresses, and who is let in. */
#include "dist/job/listener.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/error.h"
#include "base/memory.h"
#include "dist/engine/net.h"
#include "dist/job/rank_environment.h"
#include "dist/watch/watch.h"

/* ---- Where ---- */
static bool is_loopback(const char *address) { return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0; }

static bool names_loopback(const char *host) {
    return is_loopback(host) || strcmp(host, "localhost") == 0 || strcmp(host, "ip6-localhost") == 0 ||
           strcmp(host, "localhost.localdomain") == 0;
}

static bool is_here(const char *address) { /* what can be bound is ours */
    int port, fd = tpi_net_listen(address, 0, &port);
    tpi_net_close(fd);
    return fd >= 0;
}

static bool add_address(char where[TPI_LISTEN_BYTES], const char *address) {
    size_t at = strlen(where);
    return at + strlen(address) + 2 <= TPI_LISTEN_BYTES &&
           snprintf(where + at, TPI_LISTEN_BYTES - at, "%s%s", at ? " " : "", address) > 0;
}

static void listen_at_loopback(char where[TPI_LISTEN_BYTES]) {
    snprintf(where, TPI_LISTEN_BYTES, "%s", TPI_LOOPBACK);
    if (is_here("::1")) add_address(where, "::1"); /* "localhost" may be either */
}

bool tpi_listen_by_setting(bool with_interface, char where[TPI_LISTEN_BYTES]) {
    const char *addresses = getenv("TAPER_LISTEN"), *names = getenv("TAPER_SOCKET_IFNAME");
    char copy[256], found[TPI_LISTEN_BYTES], *rest = NULL;
    where[0] = 0;
    if (addresses && *addresses) {
        snprintf(where, TPI_LISTEN_BYTES, "%s", addresses);
        for (char *at = where; (at = strchr(at, ','));) *at = ' ';
        return true;
    }
    if (!names) names = getenv("GLOO_SOCKET_IFNAME");
    snprintf(copy, sizeof copy, "%s", with_interface && names ? names : "");
    for (char *name = strtok_r(copy, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
        if (tpi_net_interface(name, found, sizeof found)) add_address(where, found);
    return *where;
}

void tpi_listen_as(const char *host, char where[TPI_LISTEN_BYTES]) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    int together = tpi_one_machine();
    bool loopback = false;
    if (tpi_listen_by_setting(false, where)) return;
    if (names_loopback(host) && together != 0) {
        listen_at_loopback(where);
        if (is_loopback(host) && strcmp(host, TPI_LOOPBACK) != 0 && strcmp(host, "::1") != 0)
            add_address(where, host); /* 127.0.0.2 */
        return;
    }
    if (getaddrinfo(host, NULL, &hints, &list) != 0) list = NULL;
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        char address[128];
        if (getnameinfo(a->ai_addr, a->ai_addrlen, address, sizeof address, NULL, 0, NI_NUMERICHOST) != 0 ||
            strchr(address, '%'))
            continue;
        if (is_loopback(address))
            loopback = true;
        else if (is_here(address))
            add_address(where, address);
    }
    if (list) freeaddrinfo(list);
    if (*where) return;
    if (loopback && together == 1)
        listen_at_loopback(where);
    else
        snprintf(where, TPI_LISTEN_BYTES, "*"); /* a name that means loopback here and something else elsewhere, or an
                                                   address that others translate */
}

void tpi_listen_near(const char *host, const char *own, char where[TPI_LISTEN_BYTES]) {
    int together = tpi_one_machine();
    if (tpi_listen_by_setting(true, where)) return;
    if (*own && !is_loopback(own))
        snprintf(where, TPI_LISTEN_BYTES, "%s", own);
    else if (together == 1 || (*own && names_loopback(host) && together != 0))
        listen_at_loopback(where);
    else
        snprintf(where, TPI_LISTEN_BYTES, "*");
}

/* ---- Listening ---- */
#define SECONDS_TO_PROVE   10.0
#define SECONDS_IN_A_CROWD 1.0 /* when as many wait as can be dealt with */

struct tpi_stranger {
    int fd;
    double since;
    tpi_proof proof;
};

/* All of the addresses, at one port; how many, -1 and errno if one that is this machine's fails. */
static int listen_at_all(tpi_listener *d, const char *where, int port, int *bound) {
    char text[TPI_LISTEN_BYTES], *rest = NULL;
    snprintf(text, sizeof text, "%s", where);
    d->n = 0;
    for (char *one = strtok_r(text, " ", &rest); one && d->n < TPI_LISTENER_SOCKETS; one = strtok_r(NULL, " ", &rest)) {
        int fd = tpi_net_listen(one, d->n ? *bound : port, bound);
        if (fd < 0 && strcmp(one, "*") == 0 && errno != EADDRINUSE)
            fd = tpi_net_listen("0.0.0.0", port, bound); /* no IPv6 here */
        if (fd >= 0)
            d->sockets[d->n++] = fd;
        else if (errno == EADDRINUSE || !rest || !*rest)
            break;
    }
    return d->n;
}

static void close_sockets(tpi_listener *d) {
    int error = errno;
    while (d->n) tpi_net_close(d->sockets[--d->n]);
    errno = error;
}

bool tpi_listener_open(tpi_listener *d, tpi_purpose purpose, const char *where, int port, int *bound) {
    *d = (tpi_listener){.purpose = purpose};
    if (!tpi_job_key(&d->key) || !(d->strangers = tpi_malloc(sizeof *d->strangers * TPI_MOST_STRANGERS))) return false;
    tpi_net_more_descriptors();
    for (int again = 0; again < 20; again++) { /* a port that is free at one address may be taken at the next */
        errno = 0;
        if (listen_at_all(d, where, port, bound) > 0 && errno != EADDRINUSE) return true;
        close_sockets(d);
        if (port || errno != EADDRINUSE) break;
    }
    d->in_use = errno == EADDRINUSE;
    const char *advice =
        d->in_use
            ? " (by another program, or by rank 0 of another job); MASTER_PORT, the same on all ranks, names another"
            : "";
    return tpi_refuse(TP_ERR_IO,
                      "The server socket has failed to listen on any local network address. port: %d: cannot listen on "
                      "port %d of host %s: %s%s (at %s)",
                      port, port, tpi_net_host(), strerror(errno), advice,
                      strcmp(where, "*") == 0 ? "all its addresses" : where);
}

static void show_out(tpi_listener *d, int i) {
    tpi_net_close(d->strangers[i].fd);
    d->strangers[i] = d->strangers[--d->nstrangers];
}

void tpi_listener_close(tpi_listener *d) {
    while (d->nstrangers) show_out(d, d->nstrangers - 1);
    close_sockets(d);
    tpi_mfree(d->strangers);
    d->strangers = NULL;
}

static double limit_of(const tpi_listener *d) {
    return d->nstrangers == TPI_MOST_STRANGERS ? SECONDS_IN_A_CROWD : SECONDS_TO_PROVE;
}

int tpi_listener_polls(tpi_listener *d, struct pollfd *polls) {
    bool listens = d->nstrangers < TPI_MOST_STRANGERS && tpi_now() >= d->rests;
    for (int i = 0; i < d->n; i++) polls[i] = (struct pollfd){.fd = listens ? d->sockets[i] : -1, .events = POLLIN};
    for (int i = 0; i < d->nstrangers; i++)
        polls[d->n + i] = (struct pollfd){.fd = d->strangers[i].fd, .events = POLLIN};
    d->polled = d->nstrangers;
    return d->n + d->nstrangers;
}

static int oldest(const tpi_listener *d) {
    int found = -1;
    for (int i = 0; i < d->nstrangers; i++)
        if (found < 0 || d->strangers[i].since < d->strangers[found].since) found = i;
    return found;
}

int tpi_listener_timeout(const tpi_listener *d, int most_ms) {
    int first = oldest(d);
    double now = tpi_now(), until = first < 0 ? now + 3600 : d->strangers[first].since + limit_of(d);
    if (d->rests > now && d->rests < until) until = d->rests;
    if (until - now >= most_ms * 1e-3) return most_ms;
    return until > now ? (int)((until - now) * 1000) + 1 : 0;
}

static void report_refusal(tpi_listener *d, int fd, tpi_proof_result why) {
    static const char *const listeners[] = {"", "store", "rank", "watcher", "rpc worker"};
    struct sockaddr_storage from;
    socklen_t n = sizeof from;
    char text[400], address[128] = "somewhere";
    if (d->reported || why == TPI_NO_PEER) return; /* whatever looks for open ports says nothing, or something else */
    d->reported = true;
    if (getpeername(fd, (struct sockaddr *)&from, &n) == 0)
        getnameinfo((struct sockaddr *)&from, n, address, sizeof address, NULL, 0, NI_NUMERICHOST);
    snprintf(text, sizeof text, "the %s of pid %d on host %s refused a connection from %s, which %s",
             listeners[d->purpose], (int)getpid(), tpi_net_host(), address,
             why == TPI_OTHER_SECRET      ? "has another job secret"
             : why == TPI_NO_SECRET_THERE ? "has no job secret"
                                          : "asks for a job secret, and there is none here");
    tpi_report(text);
}

/* Accepts connections, as many as there is room for. A process that can have no more descriptors shows out whoever
 * waits longest. */
static void accept_strangers(tpi_listener *d, struct pollfd *polls) {
    for (int s = 0; s < d->n; s++) {
        if (!polls[s].revents) continue;
        polls[s].revents = 0;
        while (d->nstrangers < TPI_MOST_STRANGERS) {
            int fd = tpi_net_accept(d->sockets[s]);
            bool none_left = fd < 0 && (errno == EMFILE || errno == ENFILE);
            if (none_left && d->nstrangers) {
                show_out(d, oldest(d));
                continue;
            }
            if (none_left) d->rests = tpi_now() + 0.2;
            if (fd < 0) break;
            d->strangers[d->nstrangers++] =
                (struct tpi_stranger){.fd = fd, .since = tpi_now(), .proof = {.key = d->key, .purpose = d->purpose}};
        }
    }
}

int tpi_listener_accept(tpi_listener *d, struct pollfd *polls) {
    double now = tpi_now();
    for (int i = d->polled - 1; i >= 0; i--) { /* from the end, as showing one out moves the last into its place */
        struct tpi_stranger *one = &d->strangers[i];
        d->polled = i;
        tpi_proof_result r = polls[d->n + i].revents ? tpi_proof_step(&one->proof, one->fd) : TPI_UNFINISHED;
        if (r == TPI_UNFINISHED && now - one->since < limit_of(d)) continue;
        int fd = one->fd;
        if (r == TPI_PROVEN) {
            d->strangers[i] = d->strangers[--d->nstrangers];
            return fd;
        }
        if (r != TPI_UNFINISHED) report_refusal(d, fd, r);
        show_out(d, i);
    }
    accept_strangers(d, polls);
    return -1;
}

/* ---- The other side ---- */
typedef struct caller {
    tpi_purpose purpose;
    tpi_key key;
} caller;

static tpi_recognised prove_to(int fd, const tpi_recogniser *self, const char **why) {
    const caller *c = self->context;
    tpi_proof_result r = tpi_prove(fd, c->purpose, &c->key, tpi_now() + SECONDS_TO_PROVE);
    if (r != TPI_PROVEN) *why = tpi_proof_why(r);
    return r == TPI_PROVEN ? TPI_IS_KNOWN : r == TPI_NO_PEER ? TPI_NOT_YET_KNOWN : TPI_IS_STRANGER;
}

int tpi_connect_proven(const char *address, tpi_purpose purpose, double deadline) {
    caller c = {.purpose = purpose};
    if (!tpi_job_key(&c.key)) return -1;
    return tpi_net_connect_to(address, deadline, &(tpi_recogniser){.known = prove_to, .context = &c});
}
