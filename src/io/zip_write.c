/* Writing zip archives. Nothing is lost: the archive grows in a temporary file beside the target, is synced, renamed over it, and the folder
 * is synced. Members are stored as they are, so that their bytes can be mapped or read by anything. */
#include "io/zip.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/zip_format.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

uint64_t tpi_zip64_from = 0xffffffffu;

typedef struct record {
    uint64_t bytes, at;
    uint32_t crc;
    char *name;
    char *comment; /* NULL: none */
} record;

struct tpi_zip_writer {
    int fd;
    char *path, *temporary;
    uint64_t at; /* bytes written */
    int64_t n, room;
    record *records;
};

/* ---- Files ------------------------------------------------------------------------------------------------------------- */

static bool io_error(const tpi_zip_writer *w, const char *did) {
    return tpi_refuse(TP_ERR_IO, "could not %s '%s': %s", did, w->path, strerror(errno));
}

static bool write_all(tpi_zip_writer *w, const void *data, size_t bytes) {
    const char *p = data;
    while (bytes) {
        size_t part = bytes < ((size_t)1 << 30) ? bytes : (size_t)1 << 30; /* the system takes at most 2 GiB at a time */
        ssize_t n = write(w->fd, p, part);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return io_error(w, "write");
        p += n;
        bytes -= (size_t)n;
        w->at += (uint64_t)n;
    }
    return true;
}

/* The name holds the process and a running number: neither other processes nor other threads write the same file. */
static bool open_temporary(tpi_zip_writer *w) {
    static atomic_uint count;
    size_t room = strlen(w->path) + 48;
    w->temporary = tpi_malloc(room);
    if (!w->temporary) return false;
    for (int tries = 0; tries < 100; tries++) {
        snprintf(w->temporary, room, "%s.tmp.%ld.%u", w->path, (long)getpid(), atomic_fetch_add(&count, 1));
        w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd >= 0) return true;
        if (errno != EEXIST) break; /* EEXIST: left by a process of our number that died */
    }
    io_error(w, "create a file beside");
    tpi_mfree(w->temporary);
    w->temporary = NULL;
    return false;
}

static bool sync_folder(const tpi_zip_writer *w) {
    const char *slash = strrchr(w->path, '/');
    size_t n = slash == w->path ? 1 : slash ? (size_t)(slash - w->path) : 1;
    char *folder = tpi_malloc(n + 1);
    if (!folder) return false;
    memcpy(folder, slash ? w->path : ".", n);
    folder[n] = 0;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tpi_mfree(folder);
    if (fd < 0) return io_error(w, "open the folder of");
    /* Some file systems cannot sync a folder and say EINVAL; the rename is as durable there as it can be. */
    bool ok = fsync(fd) == 0 || errno == EINVAL || io_error(w, "sync the folder of");
    close(fd);
    return ok;
}

static void writer_free(tpi_zip_writer *w) {
    for (int64_t i = 0; i < w->n; i++) {
        tpi_mfree(w->records[i].name);
        tpi_mfree(w->records[i].comment);
    }
    tpi_mfree(w->records);
    tpi_mfree(w->path);
    tpi_mfree(w->temporary);
    tpi_delete(w, sizeof *w);
}

tpi_zip_writer *tpi_zip_create(const char *path) {
    tpi_zip_writer *w = tpi_new0(sizeof *w);
    if (!w) return NULL;
    w->fd = -1;
    w->path = tpi_strdup(path);
    if (w->path && open_temporary(w)) return w;
    writer_free(w);
    return NULL;
}

void tpi_zip_abandon(tpi_zip_writer *w) {
    if (!w) return;
    if (w->fd >= 0) close(w->fd);
    if (w->temporary) unlink(w->temporary);
    writer_free(w);
}

/* ---- Records ------------------------------------------------------------------------------------------------------------ */

static record *new_record(tpi_zip_writer *w, const char *name, const char *comment) {
    if (w->n == w->room) {
        int64_t room = w->room ? 2 * w->room : 16;
        record *larger = tpi_realloc(w->records, (size_t)room * sizeof *larger);
        if (!larger) return NULL;
        w->records = larger;
        w->room = room;
    }
    record r = {.name = tpi_strdup(name), .comment = comment ? tpi_strdup(comment) : NULL};
    if (!r.name || (comment && !r.comment)) {
        tpi_mfree(r.name);
        tpi_mfree(r.comment);
        return NULL;
    }
    w->records[w->n] = r;
    return &w->records[w->n++];
}

static bool is_large(uint64_t v) { return v >= tpi_zip64_from; }
static uint32_t small_or_mark(uint64_t v) { return is_large(v) ? 0xffffffffu : (uint32_t)v; }

bool tpi_zip_add(tpi_zip_writer *w, const char *name, const char *comment, int npieces, const tpi_zip_piece *pieces) {
    size_t length = strlen(name);
    if (length > 0xffff) return tpi_refuse(TP_ERR_VALUE, "argument 'names': expected names of at most 65531 bytes, got one of %zu", length - 4);
    record *r = new_record(w, name, comment);
    if (!r) return false;
    r->at = w->at;
    r->crc = (uint32_t)crc32(0, NULL, 0);
    for (int i = 0; i < npieces; i++) {
        if (!pieces[i].bytes) continue; /* zlib takes NULL for a new start */
        r->bytes += pieces[i].bytes;
        r->crc = (uint32_t)crc32_z(r->crc, pieces[i].data, pieces[i].bytes);
    }
    unsigned char head[ZIP_LOCAL_BYTES + 20], *p = head;
    bool large = is_large(r->bytes);
    p = put32(p, ZIP_LOCAL), p = put16(p, large ? 45 : 20), p = put16(p, ZIP_UTF8), p = put16(p, 0);
    p = put32(p, ZIP_EPOCH), p = put32(p, r->crc), p = put32(p, small_or_mark(r->bytes)), p = put32(p, small_or_mark(r->bytes));
    p = put16(p, (uint16_t)length), p = put16(p, large ? 20 : 0);
    if (!write_all(w, head, ZIP_LOCAL_BYTES) || !write_all(w, name, length)) return false;
    if (large) {
        p = put16(p, ZIP_EXTRA64), p = put16(p, 16), p = put64(p, r->bytes), p = put64(p, r->bytes);
        if (!write_all(w, head + ZIP_LOCAL_BYTES, 20)) return false;
    }
    for (int i = 0; i < npieces; i++)
        if (!write_all(w, pieces[i].data, pieces[i].bytes)) return false;
    return true;
}

static bool write_directory_entry(tpi_zip_writer *w, const record *r) {
    unsigned char head[ZIP_ENTRY_BYTES], extra[28], *p = head, *e = extra + 4;
    if (is_large(r->bytes)) e = put64(e, r->bytes), e = put64(e, r->bytes);
    if (is_large(r->at)) e = put64(e, r->at);
    uint16_t extra_bytes = (uint16_t)(e == extra + 4 ? 0 : e - extra);
    put16(put16(extra, ZIP_EXTRA64), (uint16_t)(e - extra - 4));
    size_t length = strlen(r->name), comment = r->comment ? strlen(r->comment) : 0;
    p = put32(p, ZIP_ENTRY), p = put16(p, 45), p = put16(p, extra_bytes ? 45 : 20), p = put16(p, ZIP_UTF8), p = put16(p, 0);
    p = put32(p, ZIP_EPOCH), p = put32(p, r->crc), p = put32(p, small_or_mark(r->bytes)), p = put32(p, small_or_mark(r->bytes));
    p = put16(p, (uint16_t)length), p = put16(p, extra_bytes), p = put16(p, (uint16_t)comment);
    p = put16(p, 0), p = put16(p, 0), p = put32(p, 0), p = put32(p, small_or_mark(r->at));
    return write_all(w, head, sizeof head) && write_all(w, r->name, length) && write_all(w, extra, extra_bytes) &&
           (!comment || write_all(w, r->comment, comment));
}

static bool write_end(tpi_zip_writer *w) {
    uint64_t start = w->at, n = (uint64_t)w->n;
    for (int64_t i = 0; i < w->n; i++)
        if (!write_directory_entry(w, &w->records[i])) return false;
    uint64_t bytes = w->at - start, end64 = w->at;
    bool many = n >= 0xffff || n >= tpi_zip64_from;
    unsigned char tail[ZIP_END64_BYTES + ZIP_LOCATOR_BYTES + ZIP_END_BYTES], *p = tail;
    if (many || is_large(start) || is_large(bytes)) {
        p = put32(p, ZIP_END64), p = put64(p, ZIP_END64_BYTES - 12), p = put16(p, 45), p = put16(p, 45), p = put32(p, 0), p = put32(p, 0);
        p = put64(p, n), p = put64(p, n), p = put64(p, bytes), p = put64(p, start);
        p = put32(p, ZIP_LOCATOR), p = put32(p, 0), p = put64(p, end64), p = put32(p, 1);
    }
    p = put32(p, ZIP_END), p = put16(p, 0), p = put16(p, 0), p = put16(p, many ? 0xffff : (uint16_t)n), p = put16(p, many ? 0xffff : (uint16_t)n);
    p = put32(p, small_or_mark(bytes)), p = put32(p, small_or_mark(start)), p = put16(p, 0);
    return write_all(w, tail, (size_t)(p - tail));
}

bool tpi_zip_commit(tpi_zip_writer *w) {
    bool ok = write_end(w) && (fsync(w->fd) == 0 || io_error(w, "sync"));
    if (close(w->fd) != 0 && ok) ok = io_error(w, "close");
    w->fd = -1;
    ok = ok && (rename(w->temporary, w->path) == 0 || io_error(w, "put a new file in place of"));
    if (!ok) {
        tpi_zip_abandon(w);
        return false;
    }
    ok = sync_folder(w);
    writer_free(w);
    return ok;
}
