/* A thread per element: EACH(i, n) { ... } goes through n elements in steps of the whole grid. Before this text: LARGE,
 * whether n is beyond 2^30; index_t holds numbers of elements. */
#ifndef EACH_H
#define EACH_H
#if LARGE
typedef int64_t index_t;
#else
typedef uint32_t index_t;
#endif
#define EACH(i, n) for (index_t i = (index_t)BLOCK * THREADS + THREAD; i < n; i += (index_t)BLOCKS * THREADS)
#endif
