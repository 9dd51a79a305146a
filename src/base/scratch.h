/* Scratch memory of a parallel loop: blocks that are made before the loop, where failing is possible, and are taken by
 * a chunk while it runs. Kernels stay small on the stack by it: a user's thread may have no more than 64 KiB left. */
#ifndef TPI_SCRATCH_H
#define TPI_SCRATCH_H
#include <taper/base.h>

enum { TPI_SCRATCH_STACK = 24 << 10 }; /* chunks that need no more than this have it on the stack instead */

typedef struct tpi_scratch {
    int64_t n;    /* blocks; 0: none was made, as the chunk's own memory is enough */
    size_t bytes; /* of one, with what stands before it */
    char *blocks;
} tpi_scratch;

/* Memory of `bytes` for each thread that may run one of so many chunks at a time; none if they fit into the stack.
 * False and an error without memory. */
bool tpi_scratch_make(tpi_scratch *s, size_t bytes, int64_t chunks, bool worth_it);
void tpi_scratch_free(tpi_scratch *s);

/* A block for the calling chunk, aligned to 64 bytes; `stack` has TPI_SCRATCH_STACK bytes, and is the answer where none
 * was made. Chunks give back what they took. */
void *tpi_scratch_acquire(const tpi_scratch *s, void *stack);
void tpi_scratch_release(const tpi_scratch *s, void *block);
#endif
