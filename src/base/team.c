/* A team of threads that work on the chunks of one loop at a time.
 *
 * Each member begins with a run of chunks of its own, the same in every loop over as many chunks, so what it touched
 * last is still in its caches; when that is done it helps the others. Nobody waits for a thread that has not come: the
 * caller closes the loop when no chunk is left, and waits for those who are in the middle of one. So on a machine whose
 * processors others use, or with more threads than processors, a loop takes as long as its work does, which a barrier
 * cannot promise. That is why these are not OpenMP's threads (bench/log/2026-11-cpu.md has the comparison).
 *
 * A member without work looks out for the next loop for a while, since operators follow each other closely and waking a
 * thread takes from 20 us to a millisecond, then sleeps. After the first part of that time it offers its processor to
 * others between looks. A brief loop, of a few microseconds, is shared with those who look out; it wakes the others
 * only when several came one after the other, as in the training of a small network. */
#define _GNU_SOURCE /* processor sets */
#include "base/team.h"
#include <linux/futex.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_MEMBERS = 1024,
    LOOKS = 64,            /* between two looks at the clock */
    ALERT = 40 * 1000,     /* nanoseconds */
    LOOK_OUT = 200 * 1000, /* nanoseconds */
    CLOSELY = 100 * 1000,  /* brief loops that follow each other within so many nanoseconds belong together, */
    SEVERAL = 4            /* and this many of them say that more will come */
};
static const unsigned OPEN = 1u << 31;

typedef struct run { /* of chunks */
    _Alignas(64) atomic_llong next;
    int64_t end;
} run;

static struct {
    pthread_mutex_t loop_lock; /* of the thread whose loop it is */
    run runs[MOST_MEMBERS];
    tpi_chunk_fn fn;
    void *context;
    atomic_int members;              /* of this loop */
    int workers;                     /* threads there are besides callers */
    int brief;                       /* loops in a row, while somebody slept */
    int64_t last_brief;              /* when it was */
    atomic_int processors;           /* as many as there were when the last of them came */
    _Alignas(64) atomic_uint loops;  /* counts them; members sleep on it */
    _Alignas(64) atomic_uint inside; /* members at work, and whether more may join; the caller sleeps on it */
    _Alignas(64) atomic_int asleep;
} team = {.loop_lock = PTHREAD_MUTEX_INITIALIZER};

TPI_THREAD_LOCAL bool tpi_at_work;

static void sleep_on(atomic_uint *word, unsigned while_it_is) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_it_is, NULL, NULL, 0);
}
static void wake(atomic_uint *word, int sleepers) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, sleepers, NULL, NULL, 0);
}

static int64_t nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Looks out until the word is another one; false: time is up. Where threads take each other's processors it is not
 * worth looking. */
static bool look_out(atomic_uint *word, unsigned while_it_is, int64_t longest) {
    if (team.members > team.processors) return false;
    for (int64_t start = 0, passed = 0; passed < longest;) {
        for (int i = 0; i < LOOKS; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != while_it_is) return true;
            tpi_pause();
        }
        int64_t now = nanoseconds();
        if (!start) start = now;
        passed = now - start;
        if (passed > ALERT) sched_yield();
    }
    return false;
}

static void work(int member) {
    tpi_at_work = true;
    for (int k = 0; k < team.members; k++) {
        run *r = &team.runs[(member + k) % team.members];
        for (long long chunk; (chunk = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed)) < r->end;)
            team.fn(chunk, team.context);
    }
    tpi_at_work = false;
}

/* Joins the loop that is open, if there is one and it is not full. */
static bool join_loop(void) {
    unsigned inside = atomic_load_explicit(&team.inside, memory_order_acquire);
    do {
        if (!(inside & OPEN) || (int)(inside & ~OPEN) >= team.members - 1) return false;
    } while (!atomic_compare_exchange_weak_explicit(&team.inside, &inside, inside + 1, memory_order_acq_rel,
                                                    memory_order_acquire));
    return true;
}

static unsigned next_loop(unsigned seen) {
    bool soon = look_out(&team.loops, seen, LOOK_OUT);
    for (unsigned now;; soon = false) {
        if (!soon) {
            atomic_fetch_add(&team.asleep, 1);
            sleep_on(&team.loops, seen);
            atomic_fetch_sub(&team.asleep, 1);
        }
        if ((now = atomic_load(&team.loops)) != seen) return now;
    }
}

static void *member(void *number) {
    int me = (int)(intptr_t)number;
    for (unsigned seen = 0;;) {
        seen = next_loop(seen);
        if (!join_loop()) continue;
        work(me % team.members);
        if (atomic_fetch_sub_explicit(&team.inside, 1, memory_order_acq_rel) == 1)
            wake(&team.inside, 1); /* the last one, and it is closed */
    }
    return NULL;
}

/* Where OpenMP was asked to bind threads to places, member number n goes to the n-th. */
static void bind_to_processors(pthread_attr_t *attributes, int n) {
    int places = omp_get_num_places(), ids[CPU_SETSIZE];
    if (omp_get_proc_bind() == omp_proc_bind_false || places < 1 || omp_get_place_num_procs(n % places) > CPU_SETSIZE)
        return;
    cpu_set_t set;
    CPU_ZERO(&set);
    omp_get_place_proc_ids(n % places, ids);
    for (int i = 0; i < omp_get_place_num_procs(n % places); i++) CPU_SET(ids[i], &set);
    pthread_attr_setaffinity_np(attributes, sizeof set, &set);
}

/* Signals are the program's own threads' business. Fewer threads than wanted are no error. */
static void grow_to(int workers) {
    sigset_t all, before;
    team.processors = omp_get_num_procs();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (bool fine = true; fine && team.workers < workers;) {
        pthread_attr_t attributes;
        pthread_t thread;
        if (pthread_attr_init(&attributes)) break;
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        bind_to_processors(&attributes, team.workers + 1);
        fine = pthread_create(&thread, &attributes, member, (void *)(intptr_t)(team.workers + 1)) == 0;
        team.workers += fine;
        pthread_attr_destroy(&attributes);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void deal_out(int64_t chunks) {
    int64_t each = chunks / team.members, first = 0;
    int64_t extra = chunks % team.members; /* that many members, the first, have one more */
    for (int m = 0; m < team.members; m++) {
        int64_t n = each + (m < extra);
        atomic_store_explicit(&team.runs[m].next, first, memory_order_relaxed);
        team.runs[m].end = first += n;
    }
}

static void wait_for_others(void) {
    unsigned left = atomic_fetch_and_explicit(&team.inside, ~OPEN, memory_order_acq_rel) & ~OPEN;
    for (; left; left = atomic_load_explicit(&team.inside, memory_order_acquire))
        if (!look_out(&team.inside, left, ALERT)) sleep_on(&team.inside, left);
}

/* Is it worth waking those who sleep? */
static bool more_will_come(bool brief) {
    if (!brief) return true;
    int64_t now = nanoseconds();
    team.brief = now - team.last_brief < CLOSELY ? team.brief + 1 : 1;
    team.last_brief = now;
    return team.brief >= SEVERAL;
}

bool tpi_team_run(int threads, int64_t chunks, bool brief, tpi_chunk_fn fn, void *context) {
    if (pthread_mutex_trylock(&team.loop_lock)) return false;
    if (threads > MOST_MEMBERS) threads = MOST_MEMBERS;
    team.fn = fn;
    team.context = context;
    team.members = threads;
    if (team.workers < threads - 1) grow_to(threads - 1);
    deal_out(chunks);
    atomic_store_explicit(&team.inside, OPEN, memory_order_release);
    atomic_fetch_add(&team.loops, 1);
    if (atomic_load(&team.asleep) > 0 && more_will_come(brief)) wake(&team.loops, threads - 1);
    work(0);
    wait_for_others();
    pthread_mutex_unlock(&team.loop_lock);
    return true;
}
