/* Where a process of a job listens, and its door: sockets that listen, and those who have knocked and not yet proven
 * that they know the job's secret.
 *
 * Where is a text: addresses of this machine with spaces between, or "*" for all of them. A job on one machine listens
 * at loopback alone; one over several at the address by which MASTER_ADDR is reached, or at that which it names.
 * TAPER_SOCKET_IFNAME (GLOO_SOCKET_IFNAME) names an interface instead, TAPER_LISTEN the addresses themselves. */
#ifndef TPI_DIST_DOOR_H
#define TPI_DIST_DOOR_H
#include <poll.h>
#include "dist/job/secret.h"

enum {
    TPI_LISTEN_BYTES = 256,
    TPI_DOOR_SOCKETS = 8,
    TPI_MOST_STRANGERS = 256,
    TPI_DOOR_POLLS = TPI_DOOR_SOCKETS + TPI_MOST_STRANGERS
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
typedef struct tpi_door {
    int sockets[TPI_DOOR_SOCKETS], n;
    tpi_key key;
    tpi_purpose purpose;
    struct tpi_stranger *strangers;
    int nstrangers, polled;
    double rests;  /* until then nobody is let in: the process has no descriptors left */
    bool reported; /* that somebody was refused */
} tpi_door;

bool tpi_door_open(tpi_door *door, tpi_purpose purpose, const char *where, int port,
                   int *bound); /* false with an error; close it in any case */
bool tpi_door_in_use(void);     /* did the last tpi_door_open of this thread fail because the port is taken? */
void tpi_door_close(tpi_door *door);
/* What to wait for, up to TPI_DOOR_POLLS; how many. */
int tpi_door_polls(tpi_door *door, struct pollfd *polls);
/* After poll: a connection that has proven itself, which is the caller's then; -1: no more now. */
int tpi_door_admit(tpi_door *door, struct pollfd *polls);
int tpi_door_patience(const tpi_door *door, int most_ms); /* how long poll may wait: strangers are shown out in time */

/* The other side. */
int tpi_door_knock(const char *address, tpi_purpose purpose,
                   double deadline); /* of what tpi_net_address wrote; -1 with an error */
#endif
