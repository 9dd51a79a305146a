/* Writing files so that nothing is lost: the new file grows beside the old one, is synced, renamed over it, and the
 * folder is synced. Where the system can, the growing file has no name at all, so that a writer that is killed leaves
 * nothing behind. */
#define _GNU_SOURCE /* O_TMPFILE, sync_file_range */
#include "io/file_writer.h"
#include "base/error.h"
#include "base/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { AHEAD_BYTES = 16 << 20 };

static bool io_error(const tpi_file_writer *o, const char *did) {
    return tpi_refuse(TP_ERR_IO, "could not %s '%s': %s", did, o->path, strerror(errno));
}

/* The folder of o->path in a block of its own, "." if it has none. */
static char *folder_of(const tpi_file_writer *o) {
    const char *slash = strrchr(o->path, '/');
    size_t n = slash == o->path ? 1 : slash ? (size_t)(slash - o->path) : 1;
    char *folder = tpi_malloc(n + 1);
    if (!folder) return NULL;
    memcpy(folder, slash ? o->path : ".", n);
    folder[n] = 0;
    return folder;
}

/* The name holds the process and a running number: neither other processes nor other threads take the same one. `claim`
 * tries to make a file of that name and says by errno EEXIST that there is one (left by a process of our number that
 * died). */
static bool claim_name(tpi_file_writer *o, bool (*claim)(tpi_file_writer *o)) {
    static atomic_uint count;
    const char *slash = strrchr(o->path, '/');
    int folder = slash ? (int)(slash - o->path + 1) : 0;
    size_t size = (size_t)folder + 64;
    o->temporary = tpi_malloc(size);
    if (!o->temporary) return false;
    for (int tries = 0; tries < 100; tries++) {
        snprintf(o->temporary, size, "%.*s.taper-%ld-%u.tmp", folder, o->path, (long)getpid(),
                 atomic_fetch_add(&count, 1));
        if (claim(o)) return true;
        if (errno != EEXIST) break;
    }
    io_error(o, "create a file beside");
    tpi_mfree(o->temporary);
    o->temporary = NULL;
    return false;
}

static bool open_named(tpi_file_writer *o) {
    o->fd = open(o->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return o->fd >= 0;
}

static bool link_nameless(tpi_file_writer *o) {
    char number[40];
    snprintf(number, sizeof number, "/proc/self/fd/%d", o->fd);
    return linkat(AT_FDCWD, number, AT_FDCWD, o->temporary, AT_SYMLINK_FOLLOW) == 0;
}

static bool open_temporary(tpi_file_writer *o) {
#ifdef O_TMPFILE
    char *folder = folder_of(o);
    if (!folder) return false;
    bool can_link = access("/proc/self/fd", X_OK) == 0;
    o->fd = can_link ? open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666) : -1;
    tpi_mfree(folder);
    if (o->fd >= 0) return true;
#endif
    return claim_name(o, open_named);
}

bool tpi_writer_open(tpi_file_writer *o, const char *path) {
    *o = (tpi_file_writer){.fd = -1};
    char real[PATH_MAX];
    struct stat old;
    bool there = stat(path, &old) == 0; /* of what a link points at */
    o->path = tpi_strdup(there && realpath(path, real) ? real : path);
    if (!o->path) return false;
    o->in_place = there && !S_ISREG(old.st_mode);
    if (o->in_place) {
        if (S_ISDIR(old.st_mode))
            errno = EISDIR;
        else
            o->fd = open(o->path, O_WRONLY | O_CLOEXEC);
        if (o->fd >= 0 || io_error(o, "open")) return true;
    } else if (open_temporary(o) &&
               (!there || fchmod(o->fd, old.st_mode & 07777) == 0 || io_error(o, "set the mode of"))) {
        return true;
    }
    tpi_writer_abandon(o);
    return false;
}

void tpi_writer_into(tpi_file_writer *o, tp_sink sink) { *o = (tpi_file_writer){.fd = -1, .sink = sink}; }

bool tpi_writer_write(tpi_file_writer *o, const void *data, size_t bytes) {
    if (o->sink.write) {
        o->at += bytes;
        if (!bytes || o->sink.write(o->sink.context, data, bytes)) return true;
        return tpi_refuse(TP_ERR_IO, "could not write: the function that takes the bytes failed");
    }
    for (const char *p = data; bytes;) {
        size_t part =
            bytes < ((size_t)1 << 30) ? bytes : (size_t)1 << 30; /* the system takes at most 2 GiB at a time */
        ssize_t n = write(o->fd, p, part);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return io_error(o, "write");
        p += n;
        bytes -= (size_t)n;
        o->at += (uint64_t)n;
    }
    if (o->at - o->begun >= AHEAD_BYTES) { /* the disk writes while more is made, so that little is left for the sync at
                                              the end; it may refuse */
        sync_file_range(o->fd, (off_t)o->begun, (off_t)(o->at - o->begun), SYNC_FILE_RANGE_WRITE);
        o->begun = o->at;
    }
    return true;
}

static bool sync_folder(const tpi_file_writer *o) {
    char *folder = folder_of(o);
    if (!folder) return false;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tpi_mfree(folder);
    if (fd < 0) return io_error(o, "open the folder of");
    /* Some file systems cannot sync a folder and say EINVAL; the rename is as durable there as it can be. */
    bool ok = fsync(fd) == 0 || errno == EINVAL || io_error(o, "sync the folder of");
    close(fd);
    return ok;
}

/* Gives up what o holds; a temporary file goes if it still has its name. */
void tpi_writer_abandon(tpi_file_writer *o) {
    if (o->fd >= 0) close(o->fd);
    if (o->temporary) unlink(o->temporary);
    tpi_mfree(o->temporary);
    tpi_mfree(o->path);
    *o = (tpi_file_writer){.fd = -1};
}

bool tpi_writer_commit(tpi_file_writer *o) {
    bool ok = true;
    if (!o->sink.write && !o->in_place) {
        ok = fsync(o->fd) == 0 || io_error(o, "sync");
        if (ok && !o->temporary) ok = claim_name(o, link_nameless);
        ok = ok && (rename(o->temporary, o->path) == 0 || io_error(o, "put a new file in place of"));
        if (ok) {
            tpi_mfree(o->temporary);
            o->temporary = NULL;
            ok = sync_folder(o);
        }
    }
    if (o->fd >= 0 && close(o->fd) != 0 && ok) ok = io_error(o, "close");
    o->fd = -1;
    tpi_writer_abandon(o);
    return ok;
}
