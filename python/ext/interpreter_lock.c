/* Calls of the library that run without the interpreter's lock, and changes of a tensor that must wait until no such
 * call reads it. Everything here is read and written with that lock held. */
#include "tpy.h"
#include <pthread.h>
#include <time.h>

enum { WAITS = 1000, NANOSECONDS = 100000 };

static int running, changing;    /* calls without the lock; threads that change a tensor's header */
static _Thread_local int inside; /* of `running`, those of this thread: a hook may change a tensor */

PyThreadState *tpy_unlock(void) {
    if (changing) return NULL;
    running++;
    inside++;
    return PyEval_SaveThread();
}

void tpy_lock(PyThreadState *saved) {
    PyEval_RestoreThread(saved);
    running--;
    inside--;
}

void tpy_change_begin(void) {
    changing++;
    for (int i = 0; running > inside && i < WAITS; i++)
        TPY_UNLOCKED(nanosleep(&(struct timespec){0, NANOSECONDS}, NULL));
}

void tpy_change_end(void) { changing--; }

/* A forked child has this thread alone. */
static void after_fork(void) {
    running = inside;
    changing = 0;
}
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, after_fork); }
