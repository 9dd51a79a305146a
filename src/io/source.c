/* Reading from a file or from memory, and mapping files, also as storages. */
#include "io/source.h"
#include <taper/io.h>
#include "base/error.h"
#include "base/memory.h"
#include "tensor/storage.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool tpi_source_open(tpi_source *s, const char *path) {
    struct stat info;
    *s = (tpi_source){.fd = -1};
    if (!path || !path[0]) return tpi_refuse(TP_ERR_VALUE, "argument 'path': expected a file's name, got none");
    s->path = tpi_strdup(path);
    if (!s->path) return false;
    s->fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = s->fd >= 0 && fstat(s->fd, &info) == 0;
    if (!ok) tpi_fail(TP_ERR_IO, "could not open '%s': %s", path, strerror(errno));
    if (ok && !S_ISREG(info.st_mode)) ok = tpi_refuse(TP_ERR_IO, "could not open '%s': it is not a plain file", path);
    if (ok) s->bytes = (uint64_t)info.st_size;
    if (!ok) tpi_source_close(s);
    return ok;
}

bool tpi_source_over(tpi_source *s, const void *memory, size_t bytes, const char *name) {
    *s = (tpi_source){.fd = -1, .memory = memory, .bytes = bytes, .path = tpi_strdup(name)};
    return s->path != NULL;
}

void tpi_source_close(tpi_source *s) {
    if (s->path && s->fd >= 0) close(s->fd);
    tpi_mfree(s->path);
    *s = (tpi_source){.fd = -1};
}

/* Says why it failed: errno, 0 where the file became shorter. */
static bool read_whole(const tpi_source *s, uint64_t at, char *p, size_t bytes) {
    if (s->fd < 0) {
        memcpy(p, s->memory + at, bytes);
        return true;
    }
    while (bytes) {
        ssize_t n = pread(s->fd, p, bytes < ((size_t)1 << 30) ? bytes : (size_t)1 << 30, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = 0;
        if (n <= 0) return false;
        p += n;
        at += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return true;
}

bool tpi_source_try(const tpi_source *s, uint64_t at, void *out, size_t bytes) {
    return at <= s->bytes && bytes <= s->bytes - at && read_whole(s, at, out, bytes);
}

bool tpi_source_read(const tpi_source *s, uint64_t at, void *out, size_t bytes) {
    if (at > s->bytes || bytes > s->bytes - at) return tpi_refuse(TP_ERR_IO, "'%s' ends too early", s->path);
    if (read_whole(s, at, out, bytes)) return true;
    return errno ? tpi_refuse(TP_ERR_IO, "could not read '%s': %s", s->path, strerror(errno))
                 : tpi_refuse(TP_ERR_IO, "'%s' became shorter while it was read", s->path);
}

/* ---- Mapping ---- */

struct tpi_mapping {
    atomic_int refs;
    void *data;
    size_t bytes;
};

static tpi_mapping *map_file(int fd, const char *path, uint64_t bytes, bool shared) {
    tpi_mapping *m = tpi_new(sizeof *m);
    if (!m) return NULL;
    atomic_init(&m->refs, 1);
    m->bytes = bytes ? (size_t)bytes : 1;
    m->data = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, shared ? MAP_SHARED : MAP_PRIVATE, fd, 0);
    if (m->data != MAP_FAILED) return m;
    tpi_fail(TP_ERR_IO, "could not map '%s' into memory: %s", path, strerror(errno));
    tpi_delete(m, sizeof *m);
    return NULL;
}

tpi_mapping *tpi_source_map(const tpi_source *s, bool shared) {
    if (s->fd < 0) return tpi_fail(TP_ERR_VALUE, "'%s' is not a file and cannot be mapped into memory", s->path);
    if (!shared) return map_file(s->fd, s->path, s->bytes, false);
    int fd = open(s->path, O_RDWR | O_CLOEXEC); /* the source is open for reading alone */
    if (fd < 0) return tpi_fail(TP_ERR_IO, "could not open '%s' for writing: %s", s->path, strerror(errno));
    tpi_mapping *m = map_file(fd, s->path, s->bytes, true);
    close(fd);
    return m;
}

unsigned char *tpi_mapping_data(const tpi_mapping *m) { return m->data; }

tpi_mapping *tpi_mapping_retain(tpi_mapping *m) {
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    return m;
}

void tpi_mapping_release(void *mapping) {
    tpi_mapping *m = mapping;
    if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1) return;
    munmap(m->data, m->bytes);
    tpi_delete(m, sizeof *m);
}

/* Opened as it is to be used, and grown where it may be; *bytes: its size if that is not given. */
static int open_for_mapping(const char *path, bool shared, int64_t *bytes) {
    struct stat info;
    int fd = open(path, (shared ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC, 0666);
    bool ok = fd >= 0 && fstat(fd, &info) == 0;
    if (!ok) tpi_fail(TP_ERR_IO, "could not open '%s': %s", path, strerror(errno));
    if (ok && *bytes == 0) *bytes = (int64_t)info.st_size;
    if (ok && info.st_size < *bytes && !shared)
        ok = tpi_refuse(TP_ERR_IO, "file '%s' has %lld bytes, %lld are wanted", path, (long long)info.st_size,
                        (long long)*bytes);
    if (ok && info.st_size < *bytes && shared && ftruncate(fd, (off_t)*bytes) != 0)
        ok = tpi_refuse(TP_ERR_IO, "could not make '%s' larger: %s", path, strerror(errno));
    if (!ok && fd >= 0) close(fd);
    return ok ? fd : -1;
}

tp_storage *tp_storage_from_file(const char *path, bool shared, int64_t bytes) {
    if (!path || !path[0]) return tpi_fail(TP_ERR_VALUE, "argument 'path': expected a file's name, got none");
    if (bytes < 0) return tpi_fail(TP_ERR_VALUE, "argument 'bytes': expected 0 or more, got %lld", (long long)bytes);
    int fd = open_for_mapping(path, shared, &bytes);
    if (fd < 0) return NULL;
    tpi_mapping *m = map_file(fd, path, (uint64_t)bytes, shared);
    close(fd);
    tp_storage *s = m ? tpi_storage_over(m->data, (size_t)bytes, (tp_device){TP_CPU, 0}, tpi_mapping_release, m) : NULL;
    if (!s) tpi_mapping_release(m);
    return s;
}
