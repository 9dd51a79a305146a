/* Sockets for the room: listening, connecting, sending and receiving whole messages, each with a deadline. Sockets close on exec and are
 * known to a forked child, which closes them (tpi_net_forked), so that a rank's death is seen while a child of its lives on. */
#ifndef TPI_DIST_NET_H
#define TPI_DIST_NET_H
#include <pthread.h>
#include <taper/base.h>
#include <time.h>

enum { TPI_ADDRESS_BYTES = 512 };

double tpi_now(void); /* seconds of the monotonic clock */
struct timespec tpi_until(double deadline);       /* the same moment, for conditions that tpi_condition_init made */
void tpi_condition_init(pthread_cond_t *changed); /* one that waits by that clock */
uint64_t tpi_secret(void);                        /* a number that strangers do not guess by accident */

/* A socket that listens on every interface; port 0: any free one. *port is what it became. -1 and an error on failure. */
int tpi_net_listen(int port, int *bound);
/* Tries again, also while nobody listens yet, until the deadline (of tpi_now). -1 and an error on failure. */
int tpi_net_connect(const char *host, int port, double deadline);
/* The same with several ports, in turn, until `known` says of a connection that it is the right one. *which: the place of its port. */
int tpi_net_connect_known(const char *host, const int *ports, int n, int *which, double deadline, bool (*known)(int fd, const void *context), const void *context);
bool tpi_net_in_use(void); /* did the last tpi_net_listen of this thread fail because the port is taken? */
int tpi_net_accept(int listener); /* -1 without an error if nobody waits */
void tpi_net_close(int fd);       /* -1 is fine */

/* Whole messages; false without an error when the other side is gone or the deadline is past. */
bool tpi_net_send(int fd, const void *data, size_t bytes, double deadline);
bool tpi_net_recv(int fd, void *data, size_t bytes, double deadline);

/* Where a socket listens, as text for others: a word that is the same for processes which reach each other through loopback, the port, and
 * the machine's addresses. `first`, if not NULL, is the address to try before the others. */
bool tpi_net_address(int port, const char *first, char text[TPI_ADDRESS_BYTES]);
int tpi_net_connect_to(const char *address, double deadline); /* to what tpi_net_address wrote */
bool tpi_net_own_address(int fd, char *text, size_t room);    /* the local end of a connection: "10.0.0.1" */
const char *tpi_net_host(void);                               /* the machine's name */
#endif
