/* The side of a TCP store that serves: a thread that answers every client on its own. And what travels between it and
 * its clients (store_tcp.c): a request is a head, a key and a value; an answer is a head and a value, which is the
 * reason of one that failed. */
#ifndef TPI_DIST_STORE_SERVER_H
#define TPI_DIST_STORE_SERVER_H
#include "dist/job/listener.h"
#include "dist/store/table.h"

enum { TPI_STORE_MAGIC = 0x54505354, TPI_STORE_MOST_KEY = 1 << 20, TPI_STORE_MOST_BYTES = 1 << 30 };

typedef struct tpi_store_request {
    uint32_t magic, op, wait_ms, key_bytes; /* a GET or CHECK may wait at the server for the key, up to that time */
    uint64_t bytes;
} tpi_store_request;
typedef struct tpi_store_reply {
    int64_t status; /* tpi_store_answer */
    uint64_t bytes;
} tpi_store_reply;

typedef struct tpi_store_server tpi_store_server;
/* NULL with an error. in_use: was it that the port is taken? May be NULL. */
tpi_store_server *tpi_store_server_new(const char *where, int port, int *bound, bool *in_use);
void tpi_store_server_free(tpi_store_server *server);
#endif
