/* Compiled programs in a folder that many processes, on many machines with one home, read and write at once:
 * TAPER_CACHE, or taper in XDG_CACHE_HOME, or .cache/taper in the home. A file is written under another name and
 * renamed, so that it is there whole or not at all, and begins with its length and a checksum, so that what a full disk
 * or a crash left behind is not taken for a program. */
#include "device/gpu/program.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct header {
    char magic[8];
    uint64_t bytes;
    tpi_gpu_hash sum;
} header;
static const char magic[8] = "taperk1";

enum { PATH_BYTES = 4096 };

/* The folder's path, "" if there is none to use. */
static void folder(char *path) {
    const char *own = getenv("TAPER_CACHE"), *shared = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = 0;
    if (own && *own)
        n = snprintf(path, PATH_BYTES, "%s/kernels", own);
    else if (shared && *shared)
        n = snprintf(path, PATH_BYTES, "%s/taper/kernels", shared);
    else if (home && *home)
        n = snprintf(path, PATH_BYTES, "%s/.cache/taper/kernels", home);
    if (n <= 0 || n > PATH_BYTES - 128) *path = 0;
}

/* Makes the folder and those above it. */
static bool make_folder(char *path) {
    if (!mkdir(path, 0777) || errno == EEXIST) return true;
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        bool ok = !mkdir(path, 0777) || errno == EEXIST;
        *at = '/';
        if (!ok) return false;
    }
    return !mkdir(path, 0777) || errno == EEXIST;
}

static bool read_all(int file, void *to, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = read(file, (char *)to + done, bytes - done);
        if (n <= 0 && errno != EINTR) return false;
        if (n == 0) return false;
        if (n > 0) done += (size_t)n;
    }
    return true;
}

static bool write_all(int file, const void *from, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(file, (const char *)from + done, bytes - done);
        if (n < 0 && errno != EINTR) return false;
        if (n > 0) done += (size_t)n;
    }
    return true;
}

void *tpi_gpu_cache_read(const char *name, size_t *bytes) {
    char path[PATH_BYTES];
    folder(path);
    if (!*path) return NULL;
    strcat(strcat(path, "/"), name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return NULL;
    header h;
    struct stat s;
    void *binary = NULL;
    bool ok = !fstat(file, &s) && read_all(file, &h, sizeof h) && !memcmp(h.magic, magic, sizeof magic) &&
              (uint64_t)s.st_size == h.bytes + sizeof h;
    if (ok && (binary = tpi_malloc((size_t)h.bytes + 1))) ok = read_all(file, binary, (size_t)h.bytes);
    close(file);
    if (!ok || !binary) {
        tpi_mfree(binary);
        return NULL;
    }
    tpi_gpu_hash sum = tpi_gpu_hash_of(binary, (size_t)h.bytes);
    if (sum.a != h.sum.a || sum.b != h.sum.b) {
        tpi_mfree(binary);
        return NULL;
    }
    *bytes = (size_t)h.bytes;
    return binary;
}

void tpi_gpu_cache_write(const char *name, const void *binary, size_t bytes) {
    char path[PATH_BYTES], own[PATH_BYTES + 32];
    folder(path);
    if (!*path || !make_folder(path)) return;
    strcat(strcat(path, "/"), name);
    snprintf(own, sizeof own, "%s.XXXXXX", path);
    int file = mkstemp(own);
    if (file < 0) return;
    header h = {.bytes = bytes, .sum = tpi_gpu_hash_of(binary, bytes)};
    memcpy(h.magic, magic, sizeof magic);
    bool ok = write_all(file, &h, sizeof h) && write_all(file, binary, bytes) && !fchmod(file, 0644);
    if (close(file) || !ok || rename(own, path)) unlink(own);
}
