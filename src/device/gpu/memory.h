/* The caching allocator's insides, for memory.c (which hands blocks out) and memory_report.c (which tells what became
 * of them). */
#ifndef TPI_GPU_MEMORY_H
#define TPI_GPU_MEMORY_H
#include <pthread.h>
#include <taper/gpu.h>
#include "device/gpu/driver.h"

typedef enum tpi_block_state { TPI_BLOCK_FREE, TPI_BLOCK_LIVE, TPI_BLOCK_AWAITING } tpi_block_state;

typedef struct tpi_gpu_pool tpi_gpu_pool;
typedef struct tpi_gpu_piece { /* of a segment; pieces of one are linked in the order of addresses and cover it */
    char *address;
    size_t bytes, requested;
    struct tpi_gpu_piece *before, *after; /* neighbours in the segment */
    struct tpi_gpu_piece *lesser,
        *greater; /* neighbours in a free list, or in the list of those that await something */
    tpi_gpu_pool *pool;
    const char *owner;     /* the operator that asked; NULL if none did */
    tpi_gpu_stream **uses; /* other streams that use it, from tpi_malloc; NULL if none do */
    int nuses, pending;    /* pending: events of other streams that have not come yet */
    tpi_block_state state;
    bool large;
} tpi_gpu_piece;

/* Free pieces of one stream, in bins by size: 16 to a power of two, each list in the order of sizes, so that the first
 * that fits is the best. */
enum { TPI_GPU_BINS = 512 };
struct tpi_gpu_pool {
    tpi_gpu_pool *next;
    tpi_gpu_stream *stream;
    uint64_t id;                         /* 0, or a private pool of graphs */
    int users;                           /* of a private pool: graphs that hold it */
    tpi_gpu_piece *bin[2][TPI_GPU_BINS]; /* small, large */
    uint64_t full[2][TPI_GPU_BINS / 64]; /* bins that are not empty */
};

typedef struct tpi_gpu_memory { /* one device */
    pthread_mutex_t lock;
    bool started;
    tp_device device;
    const tpi_gpu_driver *driver;
    tpi_gpu_pool *pools;
    tpi_gpu_piece **map; /* live and awaiting pieces by address: open addressing, map_capacity is a power of two */
    size_t map_capacity, map_used;
    tpi_gpu_piece *spare; /* records of pieces that are gone */
    struct tpi_gpu_waiting *first,
        *last;               /* events of freed pieces that other streams use, in the order they were recorded */
    tpi_gpu_piece *deferred; /* freed while a stream is being captured, when no event may be recorded; by `greater` */
    uint64_t capture;        /* the private pool of the capture under way, 0 if there is none */
    double fraction;
    tp_gpu_memory count;
} tpi_gpu_memory;

tpi_gpu_memory *tpi_gpu_memory_of(tp_device device); /* started; NULL and an error */
bool tpi_gpu_memory_started(tp_device device);
#endif
