/* Sockets of a job that listen, and the proof that they ask for: a connection is handed to the caller once the other
 * side has shown that it knows the job's secret. Until then it is a stranger, and waits here, for a limited time.
 *
 * Where to listen is a text: addresses of this machine with spaces between, or "*" for all of them. A job on one
 * machine listens at loopback alone; one over several at the address by which MASTER_ADDR is reached, or at the one it
 * names. TAPER_SOCKET_IFNAME (GLOO_SOCKET_IFNAME) names an interface instead, TAPER_LISTEN the addresses themselves. */
#ifndef TPI_LISTENER_H
#define TPI_LISTENER_H
#include <poll.h>
#include "dist/job/secret.h"

enum {
    TPI_LISTEN_BYTES = 256,
    TPI_LISTENER_SOCKETS = 8,
    TPI_MOST_STRANGERS = 256,
    TPI_LISTENER_POLLS = TPI_LISTENER_SOCKETS + TPI_MOST_STRANGERS
};
#define TPI_LOOPBACK "127.0.0.1"

/* Of the store that others reach by that name. */
void tpi_listen_as(const char *host, char where[TPI_LISTEN_BYTES]);
/* Of a process that reaches the store by that name ("": by an address that it was told), from that address of its own
 * ("": not known). */
void tpi_listen_near(const char *host, const char *own, char where[TPI_LISTEN_BYTES]);

/* TAPER_LISTEN's or, with_interface, the interface's; false: neither is set. */
bool tpi_listen_by_setting(bool with_interface, char where[TPI_LISTEN_BYTES]);

struct tpi_stranger;
typedef struct tpi_listener {
    int sockets[TPI_LISTENER_SOCKETS], n;
    tpi_key key;
    tpi_purpose purpose;
    struct tpi_stranger *strangers;
    int nstrangers, polled;
    double rests;  /* until then nobody is let in: the process has no descriptors left */
    bool reported; /* that somebody was refused */
    bool in_use;   /* why tpi_listener_open failed: the port is taken */
} tpi_listener;

bool tpi_listener_open(tpi_listener *listener, tpi_purpose purpose, const char *where, int port,
                       int *bound); /* false with an error; close it in any case */
void tpi_listener_close(tpi_listener *listener);
/* What to wait for, up to TPI_LISTENER_POLLS; how many. */
int tpi_listener_polls(tpi_listener *listener, struct pollfd *polls);
/* After poll: a connection that has proven itself, which is the caller's then; -1: no more now. */
int tpi_listener_accept(tpi_listener *listener, struct pollfd *polls);
int tpi_listener_timeout(const tpi_listener *listener,
                         int most_ms); /* how long poll may wait: strangers are shown out in time */

/* The other side. */
int tpi_connect_proven(const char *address, tpi_purpose purpose,
                       double deadline); /* of what tpi_net_address wrote; -1 with an error */
#endif
