/* Stores from inside: a kind answers single requests; what waits, and what is made of several requests, is written once
 * (store.c). */
#ifndef TPI_DIST_STORE_H
#define TPI_DIST_STORE_H
#include <stdatomic.h>
#include <taper/dist.h>
#include "dist/job/listener.h"
#include "dist/store/table.h"

typedef struct tpi_store_kind {
    /* One request. `wait`: seconds, at most one, that it may take until a key which a GET or CHECK names is there. */
    enum tpi_store_answer (*ask)(tp_store *store, enum tpi_store_op op, const char *key, size_t key_bytes,
                                 const char *in, size_t n, double wait, tpi_bytes *out);
    void (*free)(tp_store *store);
} tpi_store_kind;

struct tp_store { /* the first member of each kind's own struct */
    atomic_int refs;
    const tpi_store_kind *kind;
    double timeout;                /* seconds */
    char listen[TPI_LISTEN_BYTES]; /* where this process listens for the others of the store (listener.h); "": the store
                                      does not tell */
    int port;                      /* of TCP stores */
    const char *host;              /* of TCP stores, theirs */
    const char *path;              /* of a store in a file */
};

tp_store *tpi_store_new(size_t bytes, const tpi_store_kind *kind, double timeout); /* cleared but for these */
bool tpi_store_file_secret(
    const char *path, char *text,
    size_t capacity); /* the file beside a store's file in which its users keep their secret; false with an error */
tp_store *tpi_store_tcp_here(
    double timeout); /* served by this process, at a free port; others are told where by tpi_net_address */
tp_store *tpi_store_tcp_at(const char *address, double timeout); /* served at what tpi_net_address wrote */
/* Where the ranks of a job meet: at the first of some ports that rank 0 finds free. The word is the job's; by it the
 * others know that it is their store which listens there. A port that was given has no word, and rank 0 waits for a
 * moment if it is taken. */
enum { TPI_MEETING_PORTS = 8 };
typedef struct tpi_meeting {
    char host[256], word[200];
    int ports[TPI_MEETING_PORTS], n;
} tpi_meeting;
tp_store *tpi_store_tcp_meet(const tpi_meeting *meeting, bool serve, double timeout);
/* Text values, for the library's own use. get waits until the deadline; "" and an error when it is past. */
bool tpi_store_set_text(tp_store *store, const char *key, const char *text);
bool tpi_store_get_text(tp_store *store, const char *key, char *text, size_t capacity, double deadline);
bool tpi_store_wait_until(tp_store *store, const char *key,
                          double deadline); /* false without an error when it is past */

/* True, with an error, if the program has asked to stop waiting (Ctrl-C in Python): for loops that wait. */
bool tpi_interrupted(void);
#endif
