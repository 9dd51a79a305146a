/* Calls of the library that run without the interpreter's lock, and changes of a tensor that must wait until no such
 * call reads it. Everything here is read and written with that lock held. */
#include "tpy.h"
#include <pthread.h>
#include <time.h>

enum { WAITS = 1000, NANOSECONDS = 100000 };

static int running, changing; /* calls without the lock; threads that change a tensor's header */
/* Of `running` and `changing`, those of this thread: a hook may change a tensor, and what a change frees may compute.
 */
static _Thread_local int inside, own_changes;

static void pause_unlocked(void) { TPY_UNLOCKED(nanosleep(&(struct timespec){0, NANOSECONDS}, NULL)); }

static PyThreadState *enter(void) {
    running++;
    inside++;
    return PyEval_SaveThread();
}

PyThreadState *tpy_unlock(void) { return changing ? NULL : enter(); }

void tpy_await_changes(void) {
    while (changing > own_changes && !inside) pause_unlocked(); /* inside a call, changes wait for that call */
}

PyThreadState *tpy_unlock_after_changes(void) {
    tpy_await_changes();
    return enter();
}

void tpy_lock(PyThreadState *saved) {
    PyEval_RestoreThread(saved);
    running--;
    inside--;
}

void tpy_change_begin(void) {
    changing++;
    own_changes++;
    for (int i = 0; running > inside && i < WAITS; i++) pause_unlocked();
}

void tpy_change_end(void) {
    changing--;
    own_changes--;
}

/* A forked child has this thread alone. */
static void after_fork(void) {
    running = inside;
    changing = own_changes;
}
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, after_fork); }
