/* Writing record files. Records are put together in memory and reach the file whole, in one write where the system
 * allows; a write that fails half way is taken back, so the file always ends with a whole record unless the machine
 * dies within a write. What could not be written is kept and tried again. After a fork the child drops what waits (the
 * parent will write it) and can go on appending. */
#include "io/events/records.h"
#include "base/handle.h"
#include "tensor/check_arguments.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/events/crc32c.h"
#include "io/events/wire.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_KEPT ((size_t)64 << 20) /* bytes that may wait for a disk that takes no more */

struct tp_records {
    int fd;
    char *path;
    tpi_wire waiting;
    int64_t count, max_queue; /* records that wait */
    double flush_secs, due;   /* due: when the first of them must be written */
    int error;                /* errno of the last write, 0 if it went well */
    tp_records *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed; /* a file has something to wait for, or the thread shall end */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static tp_records *files; /* those open */
static pthread_t thread;
static bool thread_runs;
static uintptr_t generation; /* the thread of an earlier one ends */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- The file ---- */

uint32_t tpi_record_crc(const void *data, size_t bytes) {
    uint32_t crc = tpi_crc32c(0, data, bytes);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void little(unsigned char *out, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) out[i] = (unsigned char)(v >> 8 * i);
}

/* Everything that waits goes to the file, or nothing does. The lock is held. */
static bool write_out(tp_records *r) {
    const unsigned char *p = r->waiting.data;
    size_t left = r->waiting.n;
    off_t start = left ? lseek(r->fd, 0, SEEK_END) : 0;
    while (left) {
        ssize_t n = write(r->fd, p, left < ((size_t)1 << 30) ? left : (size_t)1 << 30);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            r->error = errno;
            if (left < r->waiting.n && start >= 0 && ftruncate(r->fd, start) != 0) r->error = errno;
            r->due = now() + r->flush_secs;
            return false;
        }
        p += n;
        left -= (size_t)n;
    }
    r->error = 0;
    r->count = 0;
    if (r->waiting.capacity > ((size_t)1 << 20))
        tpi_wire_free(&r->waiting); /* one large picture does not hold its memory for good */
    r->waiting.n = 0;
    return true;
}

static bool report(const tp_records *r) {
    return tpi_refuse(TP_ERR_IO, "could not write '%s': %s; %lld records wait", r->path, strerror(r->error),
                      (long long)r->count);
}

/* ---- The thread that writes in time, forks and the end ---- */

static void *write_in_time(void *of_generation) {
    pthread_mutex_lock(&lock);
    while (generation == (uintptr_t)of_generation) {
        double due = 0, at = now();
        for (tp_records *r = files; r; r = r->next) {
            if (r->count && r->due <= at) write_out(r); /* a failure is reported to the next one who writes */
            if (r->count && (!due || r->due < due)) due = r->due;
        }
        struct timespec until = {.tv_sec = (time_t)due, .tv_nsec = (long)((due - (double)(time_t)due) * 1e9)};
        if (due)
            pthread_cond_timedwait(&changed, &lock, &until);
        else
            pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* The lock is held. Without a thread (the system may refuse one) records are written by those who add them. */
static void start_thread(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
    thread_runs = pthread_create(&thread, NULL, write_in_time, (void *)generation) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void make_condition(void) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void in_parent(void) { pthread_mutex_unlock(&lock); }
static void in_child(void) {
    thread_runs = false; /* threads stay behind */
    make_condition();
    for (tp_records *r = files; r; r = r->next) {
        r->waiting.n = 0;
        r->count = 0;
    }
    pthread_mutex_unlock(&lock);
}

static void prepare(void) {
    make_condition();
    pthread_atfork(before_fork, in_parent, in_child);
}

__attribute__((destructor)) static void at_the_end(void) {
    pthread_mutex_lock(&lock);
    for (tp_records *r = files; r; r = r->next)
        if (r->count) write_out(r);
    pthread_mutex_unlock(&lock);
}

/* ---- Opening, writing, closing ---- */

const char *tpi_records_path(const tp_records *r) { return r->path; }

static tp_records *fail_open(tp_records *r) {
    tpi_mfree(r->path);
    tpi_delete(r, sizeof *r);
    return NULL;
}

tp_records *tpi_records_open(const char *path, bool exclusive, int64_t max_queue, double flush_secs) {
    pthread_once(&once, prepare);
    tp_records *r = tpi_new0(sizeof *r);
    if (!r) return NULL;
    r->max_queue = max_queue > 0 ? max_queue : TPI_MAX_QUEUE;
    r->flush_secs = flush_secs > 0 ? flush_secs : TPI_FLUSH_SECS;
    r->path = tpi_strdup(path);
    if (!r->path) return fail_open(r);
    r->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (exclusive ? O_EXCL : O_TRUNC), 0666);
    if (r->fd < 0) {
        int error = errno;
        if (!exclusive || error != EEXIST) tpi_fail(TP_ERR_IO, "could not create '%s': %s", path, strerror(error));
        fail_open(r);
        errno = error;
        return NULL;
    }
    pthread_mutex_lock(&lock);
    r->next = files;
    files = r;
    pthread_mutex_unlock(&lock);
    return r;
}

tp_records *tp_records_create(const char *path) {
    if (!path) return tpi_fail(TP_ERR_VALUE, "argument 'path': expected a text, got none");
    return tpi_records_open(path, false, 0, 0);
}

/* The record joins those that wait, whole or not at all. */
static bool append(tp_records *r, const void *data, size_t bytes) {
    size_t before = r->waiting.n;
    unsigned char head[TPI_RECORD_HEAD], tail[TPI_RECORD_TAIL];
    little(head, bytes, 8);
    little(head + 8, tpi_record_crc(head, 8), 4);
    little(tail, tpi_record_crc(data, bytes), 4);
    tpi_wire_raw(&r->waiting, head, sizeof head);
    tpi_wire_raw(&r->waiting, data, bytes);
    tpi_wire_raw(&r->waiting, tail, sizeof tail);
    bool ok = !r->waiting.failed;
    if (!ok) {
        r->waiting.n = before;
        r->waiting.failed = false;
    }
    return ok;
}

bool tp_records_write(tp_records *r, const void *data, size_t bytes) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_GIVEN(r, "a record file") || !TPI_LIST_GIVEN(data, (int64_t)bytes)) return false;
    pthread_mutex_lock(&lock);
    bool ok = !r->error || write_out(r) || r->waiting.n < MAX_KEPT || report(r);
    ok = ok && append(r, data, bytes);
    if (ok) {
        if (r->count++ == 0) r->due = now() + r->flush_secs;
        if (!thread_runs)
            start_thread();
        else if (r->count == 1)
            pthread_cond_signal(&changed);
        bool full = r->count >= r->max_queue || !thread_runs;
        if (r->error || (full && !write_out(r))) ok = report(r);
    }
    pthread_mutex_unlock(&lock);
    return ok;
}

bool tp_records_flush(tp_records *r) {
    if (TPI_ENDED(r, "a file of records")) return false;
    if (!r) return false;
    pthread_mutex_lock(&lock);
    bool ok = write_out(r) || report(r);
    pthread_mutex_unlock(&lock);
    return ok;
}

static void forget(const tp_records *r) {
    for (tp_records **p = &files; *p; p = &(*p)->next)
        if (*p == r) {
            *p = r->next;
            return;
        }
}

bool tp_records_close(tp_records *r) {
    if (TPI_ENDED(r, "a file of records")) return false;
    if (!r) return true;
    pthread_mutex_lock(&lock);
    bool ok = write_out(r) || report(r);
    forget(r);
    bool last = !files && thread_runs;
    pthread_t ending = thread;
    if (last) {
        generation++;
        thread_runs = false;
        pthread_cond_signal(&changed);
    }
    pthread_mutex_unlock(&lock);
    if (last) pthread_join(ending, NULL);
    if (close(r->fd) != 0 && ok && errno != EINTR)
        ok = tpi_refuse(TP_ERR_IO, "could not write '%s': %s", r->path, strerror(errno));
    tpi_wire_free(&r->waiting);
    tpi_mfree(r->path);
    tpi_handle_delete(r, sizeof *r);
    return ok;
}
