/* Stores from inside: a kind answers single requests; what waits, and what is made of several requests, is written once (store.c). */
#ifndef TPI_DIST_STORE_H
#define TPI_DIST_STORE_H
#include <stdatomic.h>
#include <taper/dist.h>
#include "dist/table.h"

typedef struct tpi_store_kind {
    /* One request. `wait`: seconds, at most one, that it may take until a key which a GET or CHECK names is there. */
    enum tpi_store_answer (*ask)(tp_store *store, enum tpi_store_op op, const char *key, size_t key_bytes, const char *in, size_t n, double wait, tpi_bytes *out);
    void (*free)(tp_store *store);
} tpi_store_kind;

struct tp_store { /* the first member of each kind's own struct */
    atomic_int refs;
    const tpi_store_kind *kind;
    double timeout;    /* seconds */
    char address[64];  /* by which this machine reaches the server, for others to reach it; "" if not known */
    int port;          /* of TCP stores */
    const char *host;  /* of TCP stores, theirs */
};

tp_store *tpi_store_new(size_t bytes, const tpi_store_kind *kind, double timeout); /* cleared but for these */
tp_store *tpi_store_tcp_at(const char *address, double timeout); /* served at what tpi_net_address wrote */
/* Text values, for the room itself. get waits until the deadline; "" and an error when it is past. */
bool tpi_store_set_text(tp_store *store, const char *key, const char *text);
bool tpi_store_get_text(tp_store *store, const char *key, char *text, size_t room, double deadline);
bool tpi_store_wait_until(tp_store *store, const char *key, double deadline); /* false without an error when it is past */

/* True, with an error, if the program has asked to stop waiting (Ctrl-C in Python): for loops that wait. */
bool tpi_interrupted(void);
#endif
