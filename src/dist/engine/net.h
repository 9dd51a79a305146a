/* Sockets for process groups: listening, connecting, sending and receiving whole messages, each with a deadline.
 * Sockets close on exec and are known to a forked child, which closes them, so that a rank's death is
 * seen while a child of its lives on. */
#ifndef TPI_DIST_NET_H
#define TPI_DIST_NET_H
#include <pthread.h>
#include <taper/base.h>
#include <time.h>

enum { TPI_ADDRESS_BYTES = 512 };

double tpi_now(void);                             /* seconds of the monotonic clock */
struct timespec tpi_until(double deadline);       /* the same moment, for conditions that tpi_condition_init made */
void tpi_condition_init(pthread_cond_t *changed); /* one that waits by that clock */

/* A socket that listens at an address of this machine ("*": at all); port 0: any free one. *bound is what it became.
 * -1, with errno and without an error, on failure. */
int tpi_net_listen(const char *address, int port, int *bound);
/* Connects to a host's first port of several at which `known` finds who is looked for; tries again, also while nobody
 * listens yet, until the deadline (of tpi_now), or until a single port has been a stranger's for five seconds. *which:
 * the place of the port. -1 and an error on failure. */
typedef enum tpi_recognised { TPI_IS_KNOWN, TPI_NOT_YET_KNOWN, TPI_IS_STRANGER } tpi_recognised;
typedef struct tpi_recogniser {
    tpi_recognised (*known)(int fd, const struct tpi_recogniser *self, const char **why);
    const void *context;
} tpi_recogniser;
int tpi_net_connect(const char *host, const int *ports, int n, int *which, double deadline,
                    const tpi_recogniser *recogniser);
bool tpi_net_wait(int fd, short events, double deadline); /* false: the deadline is past */
int tpi_net_accept(int listener);                         /* -1 without an error if nobody waits */
void tpi_net_close(int fd);                               /* -1 is fine */

/* Whole messages; false without an error when the other side is gone or the deadline is past. */
bool tpi_net_send(int fd, const void *data, size_t bytes, double deadline);
bool tpi_net_recv(int fd, void *data, size_t bytes, double deadline);

/* Where a socket listens, as text for others: a word that is the same for processes which reach each other through
 * loopback, the port, and the addresses: those that `listen` names (listener.h), or of a "*" all that the machine has.
 * False with an error. */
bool tpi_net_address(int port, const char *listen, char text[TPI_ADDRESS_BYTES]);
int tpi_net_connect_to(const char *address, double deadline,
                       const tpi_recogniser *recogniser); /* to what tpi_net_address wrote */
bool tpi_net_interface(const char *name, char *text,
                       size_t capacity); /* an interface's addresses, with spaces between; false: it has none */
void tpi_net_more_descriptors(void);     /* a connection per rank may be more than the usual limit */
bool tpi_net_own_address(int fd, char *text, size_t capacity); /* the local end of a connection: "10.0.0.1" */
const char *tpi_net_host(void);                                /* the machine's name */
void tpi_net_loopback_word(char *word,
                           size_t capacity); /* a word that is the same for processes which share a loopback */
#endif
