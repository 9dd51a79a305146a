/* Engines: what carries bytes between ranks. An engine is a table of functions; the library has one of its own over TCP
 * (tcp.c), others are opened at run time from files of their own (plugin.c): libtaper-gloo.so, libtaper-mpi-openmpi.so,
 * libtaper-mpi-mpich.so. Such a file exports `const tpi_engine *tpi_engine_here(void)` and calls nothing of the
 * library's.
 *
 * Every engine sends and receives. What else it can do by itself and faster it says by filling in a function; where one
 * is NULL, or answers TPI_ENGINE_PASS, the library's own algorithm (collective.c) does it by sending and receiving. An
 * engine is opened once per process; groups share it, each with slots of its own. Functions may be called from several
 * threads at once. */
#ifndef TPI_DIST_ENGINE_H
#define TPI_DIST_ENGINE_H
#include <taper/base.h>

#define TPI_ENGINE_VERSION 2
#define TPI_ANY_RANK       (-1)

typedef enum tpi_engine_result { TPI_ENGINE_FAILED = -1, TPI_ENGINE_PASS = 0, TPI_ENGINE_DONE = 1 } tpi_engine_result;

/* What an engine is given to open itself with. The texts go through the job's store: get waits for the key. */
typedef struct tpi_engine_host {
    int32_t version, rank, size;
    double timeout;      /* seconds, for opening */
    const char *address; /* by which others reach this machine */
    const char *listen;  /* where to listen for them: addresses with spaces between, or "*" (listener.h) */
    void *context;
    bool (*set)(void *context, const char *key, const char *text);
    bool (*get)(void *context, const char *key, char *text, int64_t capacity);
    bool (*failed)(void *context);                 /* the job has failed in the meantime: give up */
    void (*fail)(void *context, const char *text); /* says why something failed, before the function returns so */
} tpi_engine_host;

typedef struct tpi_message { /* one that was sent or received, when it is done */
    int32_t from;
    int64_t bytes;
    uint64_t label; /* the sender's, which goes with the message */
} tpi_message;

typedef struct tpi_engine {
    int32_t version;
    const char *name;
    void *(*open)(const tpi_engine_host *host);
    void (*get_rank)(void *self, int *rank,
                     int *size); /* optional: an engine that knows them by itself, and opens without the store */
    void (*close)(void *self, bool in_order); /* not in order: a rank is dead, nobody may be waited for */
    void (*stop)(void *self);                 /* from any thread: whatever waits fails, now and later */

    /* `members` is what `group` returned for a group (NULL: all ranks); ranks are those of the job. A slot has the
     * group's id in its upper 32 bits, and less than 2^22 in the lower. Messages of one slot arrive in the order in
     * which they were sent. The memory stays in use until `finish` says that it is done. NULL: failed. */
    void *(*send)(void *self, void *members, int to, uint64_t slot, uint64_t label, const void *data, int64_t bytes);
    void *(*recv)(void *self, void *members, int from, uint64_t slot, void *data,
                  int64_t bytes); /* a message that is longer is cut; `bytes` of tpi_message tells */
    /* Waits up to `seconds`: DONE or FAILED, and the request is gone; or PASS: not yet. message may be NULL. */
    tpi_engine_result (*finish)(void *self, void *request, double seconds, tpi_message *message);

    /* Optional. Roots are ranks within the group. dtypes and operations are tp_dtype and tp_reduce_op. */
    void *(*group)(void *self, int n, const int *ranks, int id);
    void (*group_free)(void *self, void *members);
    tpi_engine_result (*all_reduce)(void *self, void *members, void *data, int64_t count, int dtype, int op);
    tpi_engine_result (*reduce)(void *self, void *members, void *data, int64_t count, int dtype, int op, int root);
    tpi_engine_result (*broadcast)(void *self, void *members, void *data, int64_t bytes, int root);
    tpi_engine_result (*all_gather)(void *self, void *members, const void *in, void *out,
                                    int64_t bytes); /* bytes of each rank */
} tpi_engine;

typedef const tpi_engine *(*tpi_engine_entry)(void);
extern const tpi_engine tpi_tcp_engine;
#endif
