/* Parallel loops over fixed chunks. The number of chunks never depends on the number of threads; what a chunk computes
 * depends on its number alone; so results are the same bits on any number of threads. */
#ifndef TPI_THREADS_H
#define TPI_THREADS_H
#include <taper/base.h>

typedef void (*tpi_chunk_fn)(int64_t chunk, void *context);
/* Runs fn for each chunk in [0, chunks), on the thread team when `worth_it` and not already inside a parallel loop
 * or a forked child. A thread begins with a contiguous run of chunks of its own and then takes what others have not
 * begun. fn must not fail: allocate before. */
void tpi_parallel_for(int64_t chunks, bool worth_it, tpi_chunk_fn fn, void *context);
/* The same for a loop of 2 to 20 microseconds: threads that are awake share it; those asleep are left so, unless many
 * such loops come at once. */
void tpi_parallel_for_brief(int64_t chunks, bool worth_it, tpi_chunk_fn fn, void *context);
/* Calls fn once for each of so many threads, which share work by themselves; where others have the team, one after the
 * other: the first call must then leave nothing to do. */
void tpi_parallel_among(int threads, bool brief, tpi_chunk_fn fn, void *context);
int tpi_step_threads(
    void); /* for steps side by side: tp_num_interop_threads(), 1 inside a parallel loop or a forked child */
bool tpi_in_parallel(void);
/* Between two looks at what another thread will write. */
static inline void tpi_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
static inline int64_t tpi_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
#endif
