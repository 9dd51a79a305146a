/* The archive of GPU programs compiled ahead: what is read is what was packed, for the architecture that fits best; a
 * file that is broken is as if it were not there. The archive is looked for once per process, so each case has a
 * process of its own. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include "device/gpu/archive.h"

enum { ARCHS = 3, PROGRAMS = 50 };
static const char *const archs[ARCHS] = {"sm_80", "sm_90", "compute_75"};

static size_t code_of(int program, int arch, char *code) { /* PROGRAMS differ a little, as kernels do */
    int n = 0;
    for (int i = 0; i < 100; i++)
        n += sprintf(code + n, "%s kernel %d: add %d, %d\n", archs[arch], program, i, i * program);
    return (size_t)n;
}
static tpi_gpu_hash hash_of(int program) {
    return (tpi_gpu_hash){(uint64_t)(program / 2) * 1000, (uint64_t)program};
} /* sorted */

static uint32_t deflated(const char *code, size_t bytes, const char *dictionary, size_t dictionary_bytes,
                         unsigned char *out, size_t capacity) {
    z_stream z = {.next_in = (unsigned char *)code,
                  .avail_in = (unsigned)bytes,
                  .next_out = out,
                  .avail_out = (unsigned)capacity};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY), Z_OK);
    deflateSetDictionary(&z, (const unsigned char *)dictionary, (unsigned)dictionary_bytes);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return (uint32_t)z.total_out;
}

/* The file, in a new folder that TAPER_KERNELS names; or so many bytes of it. */
static void write_archive(char *folder, size_t keep) {
    static char file[1 << 20], code[8192], dictionary[ARCHS][8192];
    tpi_archive_head head = {.dialect = "cuda", .archs = ARCHS, .programs = PROGRAMS};
    memcpy(head.magic, TPI_ARCHIVE_MAGIC, 8);
    size_t step = tpi_archive_entry_bytes(ARCHS), index = sizeof head + ARCHS * sizeof(tpi_archive_arch),
           at = index + PROGRAMS * step;
    memcpy(file, &head, sizeof head);
    for (int a = 0; a < ARCHS; a++) {
        tpi_archive_arch arch = {.dictionary = at, .dictionary_bytes = code_of(7, a, dictionary[a])};
        strcpy(arch.name, archs[a]);
        memcpy(file + at, dictionary[a], arch.dictionary_bytes);
        at += arch.dictionary_bytes;
        memcpy(file + sizeof head + (size_t)a * sizeof arch, &arch, sizeof arch);
    }
    for (int p = 0; p < PROGRAMS; p++) {
        tpi_gpu_hash hash = hash_of(p);
        memcpy(file + index + (size_t)p * step, &hash, sizeof hash);
        for (int a = 0; a < ARCHS; a++) {
            size_t bytes = code_of(p, a, code);
            tpi_archive_code where = {at, 0, (uint32_t)bytes};
            where.packed = deflated(code, bytes, dictionary[a], strlen(dictionary[a]), (unsigned char *)file + at,
                                    sizeof file - at);
            at += where.packed;
            memcpy(file + index + (size_t)p * step + sizeof hash + (size_t)a * sizeof where, &where, sizeof where);
        }
    }
    char path[256];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/taper-kernels-cuda.bin", folder);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    if (keep == 0 || keep > at) keep = at;
    assert_int_equal(fwrite(file, 1, keep, f), keep);
    fclose(f);
    setenv("TAPER_KERNELS", folder, 1);
}

static void remove_archive(const char *folder) {
    char path[256];
    snprintf(path, sizeof path, "%s/taper-kernels-cuda.bin", folder);
    unlink(path);
    rmdir(folder);
}

/* How many programs come back whole for a device, in a process of its own; `as` is the architecture that they should be
 * of. */
static int found_by(const char *device, int as, size_t keep) {
    char folder[] = "/tmp/taper-archive-XXXXXX", code[8192];
    write_archive(folder, keep);
    pid_t child = fork();
    if (child == 0) {
        int found = 0;
        for (int p = 0; p < PROGRAMS; p++) {
            size_t bytes = 0, expected = as < 0 ? 0 : code_of(p, as, code);
            char *got = tpi_gpu_archive_read("cuda", device, hash_of(p), &bytes);
            found += got && bytes == expected && memcmp(got, code, bytes) == 0;
            tpi_mfree(got);
        }
        size_t bytes;
        if (tpi_gpu_archive_read("cuda", device, (tpi_gpu_hash){1, 1}, &bytes)) found = 255; /* nobody's */
        _exit(found);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    remove_archive(folder);
    return WEXITSTATUS(status);
}

static void programs_come_back(void **s) {
    (void)s;
    assert_int_equal(found_by("sm_90", 1, 0), PROGRAMS);
    assert_int_equal(found_by("sm_80", 0, 0), PROGRAMS);
    assert_int_equal(found_by("sm_86", 0, 0), PROGRAMS);  /* the same family, newer */
    assert_int_equal(found_by("sm_120", 2, 0), PROGRAMS); /* text for all that came later */
    assert_int_equal(found_by("sm_70", -1, 0), 0);        /* older than all of it */
}

static void broken_files_are_not_there(void **s) {
    (void)s;
    int found = found_by("sm_90", 1, 20000); /* the last programs are cut off: nothing is read beyond the end */
    assert_true(found > 0);
    assert_true(found < PROGRAMS);
    assert_int_equal(found_by("sm_90", 1, 2000), 0); /* the index is */
    assert_int_equal(found_by("sm_90", 1, 10), 0);
}

static void families_run_their_elders_code(void **s) {
    (void)s;
    assert_true(tpi_gpu_archive_fits("sm_90", "sm_90") > tpi_gpu_archive_fits("sm_90", "compute_75"));
    assert_true(tpi_gpu_archive_fits("sm_89", "sm_86") > tpi_gpu_archive_fits("sm_89", "sm_80"));
    assert_int_equal(tpi_gpu_archive_fits("sm_80", "sm_86"), 0);
    assert_int_equal(tpi_gpu_archive_fits("sm_100", "sm_90"), 0);
    assert_int_equal(tpi_gpu_archive_fits("sm_121", "sm_120") > 0, 1);
    assert_int_equal(tpi_gpu_archive_fits("sm_75", "compute_80"), 0);
    assert_int_equal(tpi_gpu_archive_fits("gfx90a", "sm_90"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(programs_come_back),
                                       cmocka_unit_test(broken_files_are_not_there),
                                       cmocka_unit_test(families_run_their_elders_code)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
