/* The threads behind tpi_parallel_for. Only threads.c calls this. */
#ifndef TPI_TEAM_H
#define TPI_TEAM_H
#include "base/error.h"
#include "base/threads.h"

/* Runs the chunks on up to `threads` threads, the calling one included. A brief loop seldom wakes anybody. False,
 * and nothing is run, if the team is busy with another thread's loop. */
bool tpi_team_run(int threads, int64_t chunks, bool brief, tpi_chunk_fn fn, void *context);
/* Is this thread at work on a loop's chunks? */
extern TPI_THREAD_LOCAL bool tpi_at_work;
#endif
