/* The numbers of threads whose bits are compared with those of one thread. The large one shows little, and takes long,
 * on a machine with fewer processors: it is left out there. */
#ifndef TEST_THREAD_COUNTS_H
#define TEST_THREAD_COUNTS_H
#include <taper/taper.h>

static const int thread_counts[] = {2, 3, 7, 16};
enum { THREAD_COUNTS = sizeof thread_counts / sizeof *thread_counts };

static inline bool worth_comparing(int threads) { return threads <= 8 || tp_num_threads() >= threads; }
#endif
