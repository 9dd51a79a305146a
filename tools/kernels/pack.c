/* Compiles programs and packs them. A program that was compiled before with the same compiler is taken from the cache
 * folder, so that a change of one kernel's text costs the compilation of that kernel. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include "kernels.h"

enum { DICTIONARY = 32 << 10 };

static void cache_name(char *name, size_t capacity, const recorded *program, const char *arch,
                       const tpi_gpu_driver *driver) {
    char which[256];
    snprintf(which, sizeof which, "%s %s", arch, driver->compiler());
    tpi_gpu_hash h = tpi_gpu_hash_of(which, strlen(which));
    snprintf(name, capacity, "%016" PRIx64 "%016" PRIx64 "-%016" PRIx64, program->hash.a, program->hash.b, h.a ^ h.b);
}

static void say_failure(void) { /* the compiler's first complaint: the others mostly follow from it */
    const char *text = tp_error() ? tp_error() : "unknown", *end = text;
    for (int lines = 0; *end && lines < 3; end++) lines += *end == '\n';
    fprintf(stderr, "kernels: %.*s", (int)(end - text), text);
}

/* ---- Progress: a line for every tenth that is done, on a terminal one that counts ---- */
typedef struct progress {
    atomic_int done; /* of all processes: it lies in memory that they share */
    int of;
    bool terminal;
} progress;

static progress *new_progress(int of) {
    progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL; /* then nothing is said */
    p->of = of;
    p->terminal = isatty(STDERR_FILENO);
    return p;
}

static void one_more(progress *p) {
    if (!p) return;
    int done = 1 + atomic_fetch_add(&p->done, 1), tenth = (int)(10LL * done / p->of);
    bool passed = tenth != (int)(10LL * (done - 1) / p->of);
    if (p->terminal)
        fprintf(stderr, "\rkernels: %d of %d programs%s", done, p->of, done == p->of ? "\n" : "");
    else if (passed)
        fprintf(stderr, "kernels: %d of %d programs\n", done, p->of);
}

/* ---- Compiling: process `job` of `jobs` takes every jobs-th of every step-th program ---- */
static int compile_share(const recording *all, const tpi_gpu_driver *driver, const char *const *archs, int narchs,
                         int job, int jobs, int step, progress *p) {
    int failed = 0;
    for (int i = job * step; i < all->n; i += jobs * step, one_more(p))
        for (int a = 0; a < narchs; a++) {
            char name[128];
            size_t bytes;
            cache_name(name, sizeof name, &all->programs[i], archs[a], driver);
            void *code = tpi_gpu_cache_read(name, &bytes);
            if (!code && (code = driver->compile(all->programs[i].source, "kernel", archs[a], &bytes)))
                tpi_gpu_cache_write(name, code, bytes);
            if (!code && failed++ < 3) say_failure();
            tp_error_clear();
            tpi_mfree(code);
        }
    return failed;
}

bool check(const recording *all, const tpi_gpu_driver *driver, const char *const *archs, int narchs, int jobs,
           int step) {
    bool ok = true;
    progress *p = new_progress((all->n + step - 1) / step);
    for (int job = 0; job < jobs; job++) {
        pid_t child = fork();
        if (child == 0) _exit(compile_share(all, driver, archs, narchs, job, jobs, step, p) ? 1 : 0);
        ok = ok && child > 0;
    }
    for (int status; wait(&status) > 0;) ok = ok && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (p) munmap(p, sizeof *p);
    return ok;
}

/* ---- Packing ---- */
typedef struct output {
    FILE *file;
    uint64_t at;
    bool failed;
} output;

static void put(output *o, const void *bytes, size_t n) {
    if (n && fwrite(bytes, 1, n, o->file) != n) o->failed = true;
    o->at += n;
}

static void *deflated(const void *code, size_t bytes, const tpi_archive_arch *arch, const void *dictionary,
                      uint32_t *packed) {
    z_stream z = {.next_in = (unsigned char *)code, .avail_in = (unsigned)bytes};
    if (deflateInit2(&z, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY) != Z_OK) return NULL;
    deflateSetDictionary(&z, dictionary, (unsigned)arch->dictionary_bytes);
    size_t bound = deflateBound(&z, (unsigned long)bytes);
    unsigned char *out = malloc(bound);
    z.next_out = out;
    z.avail_out = (unsigned)bound;
    bool ok = out && deflate(&z, Z_FINISH) == Z_STREAM_END;
    *packed = (uint32_t)z.total_out;
    deflateEnd(&z);
    if (ok) return out;
    free(out);
    return NULL;
}

/* The code of a program in the middle of the list: as good as any. */
static void put_dictionaries(output *o, const recording *all, const tpi_gpu_driver *driver, const char *const *archs,
                             int narchs, tpi_archive_arch *table, char **dictionary) {
    for (int a = 0; a < narchs; a++) {
        char name[128];
        size_t bytes = 0;
        cache_name(name, sizeof name, &all->programs[all->n / 2], archs[a], driver);
        dictionary[a] = tpi_gpu_cache_read(name, &bytes);
        snprintf(table[a].name, sizeof table[a].name, "%s", archs[a]);
        table[a].dictionary = o->at;
        table[a].dictionary_bytes = bytes < DICTIONARY ? bytes : DICTIONARY;
        put(o, dictionary[a], (size_t)table[a].dictionary_bytes);
    }
}

static void put_program(output *o, const recorded *program, const tpi_gpu_driver *driver, int narchs,
                        const tpi_archive_arch *table, char *const *dictionary, char *entry) {
    memcpy(entry, &program->hash, sizeof program->hash);
    for (int a = 0; a < narchs; a++) {
        char name[128];
        size_t bytes = 0;
        cache_name(name, sizeof name, program, table[a].name, driver);
        void *code = tpi_gpu_cache_read(name, &bytes), *packed = NULL;
        tpi_archive_code where = {o->at, 0, (uint32_t)bytes};
        if (code) packed = deflated(code, bytes, &table[a], dictionary[a], &where.packed);
        if (packed)
            put(o, packed, where.packed);
        else
            o->failed = true;
        memcpy(entry + sizeof program->hash + (size_t)a * sizeof where, &where, sizeof where);
        free(packed);
        tpi_mfree(code);
    }
}

static bool write_archive(const recording *all, const tpi_gpu_driver *driver, const char *const *archs, int narchs,
                          FILE *file) {
    output o = {file, 0, false};
    tpi_archive_head head = {.archs = (uint32_t)narchs, .programs = (uint32_t)all->n};
    memcpy(head.magic, TPI_ARCHIVE_MAGIC, sizeof head.magic);
    snprintf(head.dialect, sizeof head.dialect, "%s", driver->dialect);
    tpi_archive_arch *table = calloc((size_t)narchs, sizeof *table);
    char **dictionary = calloc((size_t)narchs, sizeof *dictionary);
    size_t step = tpi_archive_entry_bytes((uint32_t)narchs),
           front = sizeof head + (size_t)narchs * sizeof *table + (size_t)all->n * step;
    char *index = calloc((size_t)all->n + 1, step);
    if (!table || !dictionary || !index) return false;
    o.at = front;
    o.failed = fseek(file, (long)front, SEEK_SET) != 0;
    put_dictionaries(&o, all, driver, archs, narchs, table, dictionary);
    for (int i = 0; i < all->n && !o.failed; i++)
        put_program(&o, &all->programs[i], driver, narchs, table, dictionary, index + (size_t)i * step);
    o.failed = o.failed || fseek(file, 0, SEEK_SET) != 0;
    put(&o, &head, sizeof head);
    put(&o, table, (size_t)narchs * sizeof *table);
    put(&o, index, (size_t)all->n * step);
    for (int a = 0; a < narchs; a++) tpi_mfree(dictionary[a]);
    free(table);
    free(dictionary);
    free(index);
    return !o.failed;
}

bool pack(const recording *all, const tpi_gpu_driver *driver, const char *const *archs, int narchs, int jobs,
          const char *path) {
    if (!check(all, driver, archs, narchs, jobs, 1)) {
        fprintf(stderr, "kernels: not all programs could be compiled\n");
        return false;
    }
    char own[4096];
    snprintf(own, sizeof own, "%s.new", path);
    FILE *file = fopen(own, "wb");
    bool ok = file && write_archive(all, driver, archs, narchs, file);
    if (file && fclose(file) != 0) ok = false;
    if (ok && rename(own, path) == 0) return true;
    fprintf(stderr, "kernels: %s could not be written\n", path);
    remove(own);
    return false;
}
