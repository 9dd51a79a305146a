/* Reading the archive of programs compiled ahead. A file that is missing, cut short or of another kind is as if it were
 * not there: programs are then compiled when they are first used. TAPER_KERNELS names another folder than the
 * library's. */
#define _GNU_SOURCE /* dladdr */
#include "device/gpu/archive.h"
#include "base/zlib.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    const char *file; /* NULL: there is none; mapped for good */
    size_t bytes;
    tpi_archive_head head;
} archive;
static char wanted[16]; /* the dialect that was looked for: a process has one */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- Finding and mapping ---- */
static bool path_of(char *path, size_t capacity) {
    const char *own = getenv("TAPER_KERNELS");
    Dl_info info;
    int n;
    if (own && *own)
        n = snprintf(path, capacity, "%s/taper-kernels-%s.bin", own, wanted);
    else if (dladdr((void *)&archive, &info) && info.dli_fname && strrchr(info.dli_fname, '/'))
        n = snprintf(path, capacity, "%.*s/taper-kernels-%s.bin", (int)(strrchr(info.dli_fname, '/') - info.dli_fname),
                     info.dli_fname, wanted);
    else
        return false;
    return n > 0 && (size_t)n < capacity;
}

static const tpi_archive_arch *arch_at(uint32_t i) {
    return (const tpi_archive_arch *)(archive.file + sizeof archive.head) + i;
}
static const char *index_start(void) { return (const char *)arch_at(archive.head.archs); }
static bool within(uint64_t offset, uint64_t bytes) {
    return offset <= archive.bytes && bytes <= archive.bytes - offset;
}

static bool is_whole(void) {
    memcpy(&archive.head, archive.file, sizeof archive.head);
    const tpi_archive_head *h = &archive.head;
    if (memcmp(h->magic, TPI_ARCHIVE_MAGIC, 8) || strncmp(h->dialect, wanted, sizeof h->dialect) || h->archs == 0 ||
        h->archs > 64 || h->programs > 1 << 24)
        return false;
    if (!within(sizeof *h, h->archs * sizeof(tpi_archive_arch) + h->programs * tpi_archive_entry_bytes(h->archs)))
        return false;
    for (uint32_t i = 0; i < h->archs; i++)
        if (!within(arch_at(i)->dictionary, arch_at(i)->dictionary_bytes)) return false;
    return true;
}

static void open_archive(void) {
    char path[4096];
    struct stat s;
    int file = path_of(path, sizeof path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    if (fstat(file, &s) == 0 && (size_t)s.st_size > sizeof archive.head) {
        void *map = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (map != MAP_FAILED) {
            archive.file = map;
            archive.bytes = (size_t)s.st_size;
            if (!is_whole()) {
                munmap(map, archive.bytes);
                archive.file = NULL;
            }
        }
    }
    close(file);
}

/* ---- Looking up ---- */
int tpi_gpu_archive_fits(const char *device, const char *code) {
    if (strcmp(device, code) == 0) return 1 << 20;
    int have, of;
    if (sscanf(device, "sm_%d", &have) != 1) return 0;
    if (sscanf(code, "sm_%d", &of) == 1)
        return have / 10 == of / 10 && of <= have ? 1000 + of : 0; /* within a family, from the older to the newer */
    return sscanf(code, "compute_%d", &of) == 1 && of <= have ? of : 0; /* text: for all that came later */
}

static const char *entry_of(tpi_gpu_hash h) {
    size_t step = tpi_archive_entry_bytes(archive.head.archs), low = 0, high = archive.head.programs;
    while (low < high) {
        size_t mid = (low + high) / 2;
        tpi_gpu_hash at;
        memcpy(&at, index_start() + mid * step, sizeof at);
        if (at.a == h.a && at.b == h.b) return index_start() + mid * step;
        if (at.a < h.a || (at.a == h.a && at.b < h.b))
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

static void *unpacked(const tpi_archive_code *code, const tpi_archive_arch *arch) {
    char *out = tpi_malloc(code->bytes + 1);
    z_stream z = {.next_in = (unsigned char *)archive.file + code->offset,
                  .avail_in = code->packed,
                  .next_out = (unsigned char *)out,
                  .avail_out = code->bytes};
    if (!out || inflateInit2(&z, -15) != Z_OK) {
        tpi_mfree(out);
        return NULL;
    }
    inflateSetDictionary(&z, (const unsigned char *)archive.file + arch->dictionary, (unsigned)arch->dictionary_bytes);
    int end = inflate(&z, Z_FINISH);
    bool ok = end == Z_STREAM_END && z.total_out == code->bytes;
    inflateEnd(&z);
    out[code->bytes] = 0;
    if (ok) return out;
    tpi_mfree(out);
    return NULL;
}

void *tpi_gpu_archive_read(const char *dialect, const char *arch, tpi_gpu_hash source, size_t *bytes) {
    if (!wanted[0]) snprintf(wanted, sizeof wanted, "%s", dialect); /* program.c calls under its lock */
    pthread_once(&once, open_archive);
    if (!archive.file || strcmp(wanted, dialect)) return NULL;
    const char *entry = entry_of(source);
    if (!entry) return NULL;
    tpi_archive_code best = {0, 0, 0};
    int fit = 0, which = 0;
    for (uint32_t i = 0; i < archive.head.archs; i++) {
        tpi_archive_code code;
        memcpy(&code, entry + sizeof(tpi_gpu_hash) + i * sizeof code, sizeof code);
        int f = tpi_gpu_archive_fits(arch, arch_at(i)->name);
        if (code.bytes && within(code.offset, code.packed) && f > fit) {
            best = code;
            fit = f;
            which = (int)i;
        }
    }
    *bytes = best.bytes;
    return fit ? unpacked(&best, arch_at((uint32_t)which)) : NULL;
}
