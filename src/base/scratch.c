/* Scratch memory of parallel loops: see scratch.h. Before each block stands a flag: is it taken? */
#include "base/scratch.h"
#include <sched.h>
#include <stdatomic.h>
#include "base/memory.h"
#include "base/threads.h"

static atomic_bool *flag_of(const tpi_scratch *s, int64_t i) {
    return (atomic_bool *)(void *)(s->blocks + (size_t)i * s->bytes);
}

bool tpi_scratch_make(tpi_scratch *s, size_t bytes, int64_t chunks, bool worth_it) {
    *s = (tpi_scratch){0};
    if (bytes <= TPI_SCRATCH_STACK) return true;
    int64_t threads = worth_it && !tpi_in_parallel() ? tp_num_threads() : 1;
    int64_t n = chunks < threads ? chunks : threads;
    if (n < 1) n = 1;
    s->bytes = (bytes + 2 * TPI_ALIGN - 1) / TPI_ALIGN * TPI_ALIGN;
    s->blocks = tpi_alloc((size_t)n * s->bytes);
    if (!s->blocks) return false;
    s->n = n;
    for (int64_t i = 0; i < n; i++) atomic_init(flag_of(s, i), false);
    return true;
}

void tpi_scratch_free(tpi_scratch *s) {
    if (s->blocks) tpi_free(s->blocks, (size_t)s->n * s->bytes);
    *s = (tpi_scratch){0};
}

/* More threads than blocks come only where the number of threads was raised after the blocks were made: they wait for a
 * chunk to end. */
void *tpi_scratch_acquire(const tpi_scratch *s, void *stack) {
    if (!s->blocks) return stack;
    for (;;) {
        for (int64_t i = 0; i < s->n; i++)
            if (!atomic_exchange_explicit(flag_of(s, i), true, memory_order_acquire))
                return (char *)flag_of(s, i) + TPI_ALIGN;
        sched_yield();
    }
}

void tpi_scratch_release(const tpi_scratch *s, void *block) {
    if (s->blocks)
        atomic_store_explicit((atomic_bool *)(void *)((char *)block - TPI_ALIGN), false, memory_order_release);
}
