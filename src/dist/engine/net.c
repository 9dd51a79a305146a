/* Sockets with deadlines. All are non-blocking, close on exec, and send without delay; connections are kept alive by
 * the kernel, which notices within seven seconds that a machine is gone. */
#define _GNU_SOURCE /* accept4 */
#include "dist/engine/net.h"
#include "dist/watch/watch.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/error.h"

double tpi_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct timespec tpi_until(double deadline) {
    return (struct timespec){.tv_sec = (time_t)deadline,
                             .tv_nsec = (long)((deadline - (double)(time_t)deadline) * 1e9)};
}

void tpi_condition_init(pthread_cond_t *changed) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* ---- A forked child closes what it inherited. A bit per descriptor; those beyond are rare and only outlive their
 * rank. ---- */
enum { MOST_FDS = 65536 };
static _Atomic uint64_t ours[MOST_FDS / 64];

static void in_child(void) {
    for (int word = 0; word < MOST_FDS / 64; word++)
        for (uint64_t bits = ours[word]; bits; bits &= bits - 1) close(word * 64 + __builtin_ctzll(bits));
    memset((void *)ours, 0, sizeof ours);
}

static void at_fork(void) { pthread_atfork(NULL, NULL, in_child); }

static int remember(int fd) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, at_fork);
    if (fd >= 0 && fd < MOST_FDS) ours[fd / 64] |= 1ULL << (fd % 64);
    return fd;
}

void tpi_net_close(int fd) {
    if (fd < 0) return;
    if (fd < MOST_FDS) ours[fd / 64] &= ~(1ULL << (fd % 64));
    close(fd);
}

/* ---- Making sockets ---- */
static void set(int fd, int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof value); }

static int prepared(int fd) {
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 3);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
    return remember(fd);
}

/* An address as it is written ("10.0.0.1", "::1"; "*" or "::": any), with a port. The length; 0: it is none. */
static socklen_t socket_address(const char *text, int port, struct sockaddr_storage *to) {
    struct sockaddr_in *four = (struct sockaddr_in *)to;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)to;
    memset(to, 0, sizeof *to);
    if (strcmp(text, "*") != 0 && inet_pton(AF_INET, text, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)port);
        return sizeof *four;
    }
    memset(to, 0, sizeof *to);
    if (strcmp(text, "*") != 0 && inet_pton(AF_INET6, text, &six->sin6_addr) != 1) {
        errno = EINVAL;
        return 0;
    }
    six->sin6_family = AF_INET6;
    six->sin6_port = htons((uint16_t)port);
    return sizeof *six;
}

int tpi_net_listen(const char *address, int port, int *bound) {
    struct sockaddr_storage at;
    socklen_t length = socket_address(address, port, &at);
    int fd = length ? socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
    if (fd < 0) return -1;
    set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (at.ss_family == AF_INET6) set(fd, IPPROTO_IPV6, IPV6_V6ONLY, strcmp(address, "*") != 0);
    if (bind(fd, (struct sockaddr *)&at, length) < 0 || listen(fd, 4096) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &length) < 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    *bound = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                            : ((struct sockaddr_in *)&at)->sin_port);
    return remember(fd);
}

int tpi_net_accept(int listener) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    return fd < 0 ? -1 : prepared(fd);
}

bool tpi_net_wait(int fd, short events, double deadline) {
    for (;;) {
        double left = deadline - tpi_now();
        if (left <= 0) return false;
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, left > 60 ? 60000 : (int)(left * 1000) + 1);
        if (n > 0) return true;
        if (n < 0 && errno != EINTR) return false;
    }
}

static int connect_once(const struct addrinfo *a, double deadline) {
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    double most = tpi_now() + 5;
    int error = connect(fd, a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
        socklen_t length = sizeof error;
        if (!tpi_net_wait(fd, POLLOUT, deadline < most ? deadline : most))
            error = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
            error = errno;
    }
    /* A port that nobody listens on may be picked as the near end too: then the socket is connected to itself. */
    struct sockaddr_storage near = {0}, far = {0};
    socklen_t n = sizeof near, f = sizeof far;
    if (!error && getsockname(fd, (struct sockaddr *)&near, &n) == 0 &&
        getpeername(fd, (struct sockaddr *)&far, &f) == 0 && n == f && memcmp(&near, &far, n) == 0)
        error = ECONNREFUSED;
    if (!error) return prepared(fd);
    close(fd);
    errno = error;
    return -1;
}

static int connect_any(const char *host, int port, double deadline, const char **why) {
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    int error = getaddrinfo(host, service, &hints, &list), fd = -1;
    if (error) {
        *why = gai_strerror(error);
        return -1;
    }
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) fd = connect_once(a, deadline);
    if (fd < 0) *why = strerror(errno);
    freeaddrinfo(list);
    return fd;
}

static tpi_recognised connect_in_turn(const char *host, const int *ports, int n, int *which, int *fd, double deadline,
                                      const tpi_recogniser *r, const char **why) {
    tpi_recognised found = TPI_NOT_YET_KNOWN;
    const char *stranger = NULL;
    for (int i = 0; i < n; i++) {
        *fd = connect_any(host, ports[i], deadline, why);
        if (*fd >= 0) found = r->known(*fd, r, why);
        if (*fd >= 0 && found == TPI_IS_KNOWN) {
            *which = i;
            return found;
        }
        if (*fd >= 0) stranger = *why;
        tpi_net_close(*fd);
        if (n > 1 && tpi_now() >= deadline) break;
    }
    if (stranger) *why = stranger;
    return found;
}

enum { STRANGER_SECONDS = 5 }; /* the store of a job that is just ending may be there for a moment */

int tpi_net_connect(const char *host, const int *ports, int n, int *which, double deadline,
                    const tpi_recogniser *recogniser) {
    const char *why = "the time was up";
    char more[48] = "";
    double begun = tpi_now(), told = begun, stall = tpi_stall_time(), strange = 0;
    int fd = -1;
    if (n > 1) snprintf(more, sizeof more, " or one of %d others", n - 1);
    for (int pause = 2;; pause = pause < 200 ? pause * 2 : pause) {
        tpi_recognised found = connect_in_turn(host, ports, n, which, &fd, deadline, recogniser, &why);
        double now = tpi_now();
        if (found == TPI_IS_KNOWN) return fd;
        if (found == TPI_NOT_YET_KNOWN)
            strange = 0;
        else if (strange == 0)
            strange = now;
        if (now + pause * 1e-3 >= deadline || (n == 1 && strange > 0 && now - strange >= STRANGER_SECONDS)) break;
        if (now - told >= stall) {
            char text[512];
            snprintf(text, sizeof text,
                     "host %s, pid %d has tried for %.0f s to connect to %s, port %d%s, where ranks meet: %s",
                     tpi_net_host(), (int)getpid(), now - begun, host, ports[0], more, why);
            tpi_report(text);
            told = now;
        }
        usleep((useconds_t)pause * 1000);
    }
    tpi_fail(TP_ERR_IO, "cannot connect to %s, port %d%s: %s", host, ports[0], more, why);
    return -1;
}

/* ---- Whole messages ---- */
bool tpi_net_send(int fd, const void *data, size_t bytes, double deadline) {
    for (const char *at = data; bytes;) {
        ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        } else if (n < 0 && errno != EINTR && (errno != EAGAIN || !tpi_net_wait(fd, POLLOUT, deadline)))
            return false;
    }
    return true;
}

bool tpi_net_recv(int fd, void *data, size_t bytes, double deadline) {
    for (char *at = data; bytes;) {
        ssize_t n = recv(fd, at, bytes, MSG_DONTWAIT);
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        } else if (n == 0 || (errno != EINTR && (errno != EAGAIN || !tpi_net_wait(fd, POLLIN, deadline))))
            return false;
    }
    return true;
}

/* ---- Addresses as text: WORD PORT ADDRESS ADDRESS ... ---- */
const char *tpi_net_host(void) {
    static char name[128];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!name[0] && (gethostname(name, sizeof name - 1) < 0 || !name[0])) strcpy(name, "localhost");
    pthread_mutex_unlock(&lock);
    return name;
}

/* Two processes share a loopback if they share the kernel and its network namespace. */
void tpi_net_loopback_word(char *word, size_t capacity) {
    char boot[64] = "?", space[64] = "?";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && !fgets(boot, sizeof boot, file)) strcpy(boot, "?");
    if (file) fclose(file);
    boot[strcspn(boot, "\n")] = 0;
    ssize_t n = readlink("/proc/self/ns/net", space, sizeof space - 1);
    if (n > 0) space[n] = 0;
    snprintf(word, capacity, "%.40s/%.40s/%.60s", boot, space, tpi_net_host());
}

static bool address_text(const struct sockaddr *a, char *text, size_t capacity) {
    if (!a || (a->sa_family != AF_INET && a->sa_family != AF_INET6)) return false;
    const void *bytes = a->sa_family == AF_INET ? (const void *)&((const struct sockaddr_in *)a)->sin_addr
                                                : (const void *)&((const struct sockaddr_in6 *)a)->sin6_addr;
    if (!inet_ntop(a->sa_family, bytes, text, (socklen_t)capacity)) return false;
    if (strncmp(text, "::ffff:", 7) == 0 && strchr(text, '.')) memmove(text, text + 7, strlen(text + 7) + 1);
    return strncmp(text, "fe80:", 5) != 0;
}

bool tpi_net_own_address(int fd, char *text, size_t capacity) {
    struct sockaddr_storage near;
    socklen_t length = sizeof near;
    return getsockname(fd, (struct sockaddr *)&near, &length) == 0 &&
           address_text((struct sockaddr *)&near, text, capacity);
}

/* The addresses of an interface, or (name NULL) of all but loopback. How long the text has become. */
static size_t interface_addresses(const char *name, char *text, size_t capacity) {
    struct ifaddrs *all = NULL;
    size_t at = 0;
    text[0] = 0;
    if (getifaddrs(&all) < 0) return 0;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        char one[INET6_ADDRSTRLEN];
        if (!(i->ifa_flags & IFF_UP) || (name ? strcmp(name, i->ifa_name) != 0 : (i->ifa_flags & IFF_LOOPBACK) != 0))
            continue;
        if (!address_text(i->ifa_addr, one, sizeof one) || at + strlen(one) + 2 > capacity) continue;
        at += (size_t)snprintf(text + at, capacity - at, "%s%s", at ? " " : "", one);
    }
    freeifaddrs(all);
    return at;
}

bool tpi_net_interface(const char *name, char *text, size_t capacity) {
    return interface_addresses(name, text, capacity) > 0;
}

bool tpi_net_address(int port, const char *listen, char text[TPI_ADDRESS_BYTES]) {
    char word[192];
    tpi_net_loopback_word(word, sizeof word);
    int at = snprintf(text, TPI_ADDRESS_BYTES, "%s %d %s", word, port, listen);
    if (at >= TPI_ADDRESS_BYTES - 1)
        return tpi_refuse(TP_ERR_VALUE, "more addresses to listen at than can be told: '%s'", listen);
    if (strcmp(listen, "*") != 0) return true;
    text[at] = ' ';
    interface_addresses(NULL, text + at + 1, (size_t)(TPI_ADDRESS_BYTES - at - 1));
    return true;
}

int tpi_net_connect_to(const char *address, double deadline, const tpi_recogniser *recogniser) {
    char text[TPI_ADDRESS_BYTES], word[192], *rest = NULL;
    tpi_net_loopback_word(word, sizeof word);
    snprintf(text, sizeof text, "%s", address);
    char *there = strtok_r(text, " ", &rest), *port = strtok_r(NULL, " ", &rest);
    if (!there || !port) {
        tpi_fail(TP_ERR_VALUE, "'%s' is not an address that a rank wrote", address);
        return -1;
    }
    const char *why = "it gave no address", *strange = NULL;
    const char *addresses[16];
    int n = 0;
    for (char *one; n < 16 && (one = strtok_r(NULL, " ", &rest));)
        if (strcmp(one, "*") != 0)
            addresses[n++] = one;
        else if (strcmp(there, word) == 0)
            addresses[n++] = "127.0.0.1"; /* it listens there as well */
    do {
        for (int i = 0; i < n; i++) {
            int fd = connect_any(addresses[i], atoi(port), deadline, &why);
            tpi_recognised found = fd >= 0 ? recogniser->known(fd, recogniser, &why) : TPI_NOT_YET_KNOWN;
            if (fd >= 0 && found == TPI_IS_KNOWN) return fd;
            if (found == TPI_IS_STRANGER) strange = why;
            tpi_net_close(fd);
        }
        if (!strange) usleep(20000);
    } while (!strange && tpi_now() < deadline);
    tpi_fail(TP_ERR_IO, "cannot connect to '%s': %s", address, strange ? strange : why);
    return -1;
}

void tpi_net_more_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
    rlim_t wanted = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
    if (wanted <= limit.rlim_cur) return;
    limit.rlim_cur = wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
}
