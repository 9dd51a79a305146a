/* Storage that processes share (include/taper/share.h).
 *
 * A segment is a file without a name where that can be had: the data, rounded up to whole cache lines, and one more
 * line with the count. Its pages are reserved when it is made, so that a full file system is an error then and not a
 * signal at the first write. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <taper/share.h>
#include <unistd.h>
#include "tensor/storage.h"

typedef struct segment {
    char *data;
    size_t length;                /* of the mapping: the data's cache lines and the count's */
    int fd;                       /* -1: closed */
    char *path;                   /* NULL: it has no name */
    pid_t owner;                  /* the process that removes the name; 0: another one's */
    struct segment *next, **link; /* among those that are borrowed; NULL link: it is not */
} segment;

/* Borrowed segments stand in a list, so that a process which is forked counts as a borrower of its own: its copy of the
 * mapping looks at the same memory. */
static segment *borrowed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int64_t add_to_count(segment *g, int64_t n) {
    return atomic_fetch_add((_Atomic int64_t *)(g->data + g->length - TPI_ALIGN), n) + n;
}

static void before_fork(void) {
    pthread_mutex_lock(&lock);
    for (segment *g = borrowed; g; g = g->next) add_to_count(g, 1);
}
static void after_fork(void) { pthread_mutex_unlock(&lock); }
static void watch_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }

static void borrow(segment *g) {
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    g->next = borrowed;
    g->link = &borrowed;
    if (borrowed) borrowed->link = &g->next;
    borrowed = g;
    pthread_mutex_unlock(&lock);
}

static void release_segment(segment *g) {
    pthread_mutex_lock(&lock);
    *g->link = g->next;
    if (g->next) g->next->link = g->link;
    add_to_count(g, -1);
    pthread_mutex_unlock(&lock);
}

static size_t lines(int64_t bytes) { return ((size_t)bytes + TPI_ALIGN - 1) / TPI_ALIGN * TPI_ALIGN; }

static void segment_free(segment *g) {
    if (g->link) release_segment(g);
    if (g->data) munmap(g->data, g->length);
    if (g->fd >= 0) close(g->fd);
    if (g->path && g->owner == getpid()) unlink(g->path);
    tpi_mfree(g->path);
    tpi_mfree(g);
}

static void drop(void *context) { segment_free(context); } /* the storage's last reference is gone */

static segment *segment_of(const tp_storage *s) { return s && s->release == drop ? s->context : NULL; }

static tpi_storage *segment_map(segment *g, int64_t bytes) {
    void *data = mmap(NULL, g->length, PROT_READ | PROT_WRITE, MAP_SHARED, g->fd, 0);
    if (data == MAP_FAILED)
        return tpi_fail(TP_ERR_MEMORY, "cannot map %zu bytes of shared memory: %s", g->length, strerror(errno));
    g->data = data;
    return tpi_storage_over(data, (size_t)bytes, (tp_device){TP_CPU, 0}, drop, g);
}

static segment *segment_new(int fd, size_t length) { /* takes fd over when it succeeds */
    struct stat about;
    if (fstat(fd, &about) < 0) return tpi_fail(TP_ERR_VALUE, "argument 'fd': %s", strerror(errno));
    if (about.st_size < (off_t)length)
        return tpi_fail(TP_ERR_VALUE, "argument 'bytes': the shared memory has %lld bytes, %zu are needed",
                        (long long)about.st_size, length);
    segment *g = tpi_malloc(sizeof *g);
    if (g) *g = (segment){.length = length, .fd = fd};
    return g;
}

/* Finishes a segment: named and with its descriptor kept, as told. Frees g on failure, without closing its descriptor.
 */
static tp_storage *finish(segment *g, int64_t bytes, bool keep, const char *path, bool own) {
    if (path) g->path = tpi_strdup(path);
    tpi_storage *s = !path || g->path ? segment_map(g, bytes) : NULL;
    if (!s) {
        g->fd = -1;
        segment_free(g);
        return NULL;
    }
    if (own) g->owner = getpid();
    if (!keep) {
        close(g->fd);
        g->fd = -1;
    }
    return s;
}

/* ---- Making the file ---- */
static bool reserve(int fd, size_t length) {
    int error = posix_fallocate(fd, 0, (off_t)length);
    if (error) errno = error;
    return !error;
}

static int file_in(const char *folder,
                   size_t length) { /* without a name, and with room for length bytes; -1 if that cannot be had */
    char path[4096];
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && snprintf(path, sizeof path, "%s/taper-XXXXXX", folder) < (int)sizeof path &&
        (fd = mkostemp(path, O_CLOEXEC)) >= 0)
        unlink(path);
    if (fd < 0 || reserve(fd, length)) return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static int file_new(size_t length) {
    const char *folder = getenv("TAPER_SHARED"), *temporary = getenv("TMPDIR");
    if (folder && *folder) return file_in(folder, length);
    int fd = memfd_create("taper", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)length) == 0) return fd;
    if (fd >= 0) close(fd);
    fd = file_in("/dev/shm", length);
    return fd >= 0 ? fd : file_in(temporary && *temporary ? temporary : "/tmp", length);
}

static tp_storage *made(int fd, int64_t bytes, const char *path) {
    if (fd < 0)
        return tpi_fail(TP_ERR_MEMORY, "cannot make %lld bytes of shared memory%s%s: %s", (long long)bytes,
                        path ? " in " : "", path ? path : "", strerror(errno));
    segment *g = segment_new(fd, lines(bytes) + TPI_ALIGN);
    tp_storage *s = g ? finish(g, bytes, !path, path, true) : NULL;
    if (!s) close(fd);
    return s;
}

static bool is_size(int64_t bytes) {
    return (bytes >= 0 && bytes <= INT64_MAX / 2) ||
           tpi_refuse(TP_ERR_VALUE, "argument 'bytes': expected 0 or more, got %lld", (long long)bytes);
}

tp_storage *tp_storage_new_shared(int64_t bytes) {
    return is_size(bytes) ? made(file_new(lines(bytes) + TPI_ALIGN), bytes, NULL) : NULL;
}

tp_storage *tp_storage_new_shared_file(const char *path, int64_t bytes) {
    if (!path) return tpi_fail(TP_ERR_TYPE, "argument 'path': expected a file's name, got NULL");
    if (!is_size(bytes)) return NULL;
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    bool ours = fd >= 0;
    if (ours && !reserve(fd, lines(bytes) + TPI_ALIGN)) {
        int why = errno;
        close(fd);
        fd = -1;
        errno = why;
    }
    tp_storage *s = made(fd, bytes, path);
    if (!s && ours) unlink(path);
    return s;
}

tp_storage *tp_storage_borrow_shared(int fd, int64_t bytes) {
    tp_storage *s = tp_storage_from_shared(fd, bytes, false, NULL);
    if (s) borrow(segment_of(s));
    return s;
}

tp_storage *tp_storage_from_shared(int fd, int64_t bytes, bool keep, const char *path) {
    if (!is_size(bytes)) return NULL;
    segment *g = segment_new(fd, lines(bytes) + TPI_ALIGN);
    return g ? finish(g, bytes, keep, path, false) : NULL;
}

/* A shared copy is remembered by the storage it was made of, so that tensors which looked at one memory do so again
 * when they move one after the other; not if it has changed since, in either place. */
tp_storage *tp_storage_share(tp_storage *s, const char *path) {
    if (TPI_ENDED(s, "a storage")) return NULL;
    if (!s) return tpi_fail(TP_ERR_TYPE, "argument 'storage': expected a storage, got NULL");
    if (s->device.type != TP_CPU)
        return tpi_fail(TP_ERR_MISSING, "argument 'storage': only memory of the CPU can be shared");
    segment *g = segment_of(s);
    if (g && (g->fd >= 0 || g->path)) return tpi_storage_retain(s);
    tpi_storage *before = s->foreign ? NULL : s->context;
    if (before && before->bytes == s->bytes && memcmp(before->data, s->data, s->bytes) == 0)
        return tpi_storage_retain(before);
    tp_storage *copy =
        path ? tp_storage_new_shared_file(path, (int64_t)s->bytes) : tp_storage_new_shared((int64_t)s->bytes);
    if (!copy) return NULL;
    memcpy(copy->data, s->data, s->bytes);
    if (s->foreign) return copy;
    if (before) tpi_storage_release(before);
    s->context = tpi_storage_retain(copy);
    return copy;
}

/* ---- What a storage knows of it ---- */
bool tp_storage_is_shared(const tp_storage *s) {
    if (TPI_ENDED(s, "a storage")) return false;
    return segment_of(s) != NULL;
}

int tp_storage_shared_fd(const tp_storage *s) {
    if (TPI_ENDED(s, "a storage")) return -1;
    segment *g = segment_of(s);
    return g ? g->fd : -1;
}

const char *tp_storage_shared_path(const tp_storage *s) {
    if (TPI_ENDED(s, "a storage")) return NULL;
    segment *g = segment_of(s);
    return g ? g->path : NULL;
}

int64_t tp_storage_shared_count(tp_storage *s, int64_t add) {
    if (TPI_ENDED(s, "a storage")) return -1;
    segment *g = segment_of(s);
    if (!g) {
        tpi_fail(TP_ERR_TYPE, "argument 'storage': expected shared memory");
        return -1;
    }
    return add_to_count(g, add);
}
