/* kernels OUT [--cache FOLDER] [--jobs N] [--arch NAME]...: writes the archive of programs compiled ahead. Without
 * --arch: every family that this NVRTC compiles for among sm_70, 75, 80, 90, 100 and 120, and PTX for all that comes
 * later. Architectures of AMD's (gfx90a) are compiled for by hiprtc, into an archive of their own. --check N: compiles
 * every N-th program and writes nothing. --list: prints the sources instead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/stat.h>
#include "kernels.h"

enum { MOST_ARCHS = 16 };

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Those that the compiler still, or already, knows: it makes code, not text, for them. */
static int usual_archs(const tpi_gpu_driver *driver, const char **archs) {
    static const char *const families[] = {"sm_70", "sm_75", "sm_80", "sm_90", "sm_100", "sm_120"};
    int n = 0;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        size_t bytes = 0;
        char *code = driver->compile("extern \"C\" __global__ void kernel() {}", "probe", families[i], &bytes);
        if (code && bytes > 4 && !memcmp(code, "\177ELF", 4)) archs[n++] = families[i];
        tpi_mfree(code);
        tp_error_clear();
    }
    if (n) {
        archs[n] = n && !strcmp(archs[0], "sm_70") ? "compute_70" : "compute_75";
        n++;
    }
    return n;
}

/* Threads that run in step: AMD's gfx9 have 64, all others 32. */
static int warp_of(const char *arch) { return !strncmp(arch, "gfx9", 4) ? 64 : 32; }

static int usage(void) {
    fprintf(stderr, "usage: kernels OUT [--cache FOLDER] [--jobs N] [--arch NAME]... | kernels --check N [--jobs N] "
                    "--arch NAME... | kernels --list\n");
    return 2;
}

static int list(const recording *all) {
    for (int i = 0; i < all->n; i++) printf("/* ---- program %d ---- */\n%s\n", i, all->programs[i].source);
    return 0;
}

int main(int argc, char **argv) {
    const char *archs[MOST_ARCHS], *out = NULL, *cache = NULL;
    int narchs = 0, jobs = 1, step = 0;
    bool listed = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--list"))
            listed = true;
        else if (!strcmp(argv[i], "--check") && i + 1 < argc)
            step = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--cache") && i + 1 < argc)
            cache = argv[++i];
        else if (!strcmp(argv[i], "--jobs") && i + 1 < argc)
            jobs = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--arch") && i + 1 < argc && narchs < MOST_ARCHS)
            archs[narchs++] = argv[++i];
        else if (!out && argv[i][0] != '-')
            out = argv[i];
        else
            return usage();
    }
    bool amd = narchs > 0 && !strncmp(archs[0], "gfx", 3);
    if ((!out && !listed && step < 1) || jobs < 1 || step < 0) return usage();
    for (int i = 1; i < narchs; i++)
        if (!strncmp(archs[i], "gfx", 3) != amd || warp_of(archs[i]) != warp_of(archs[0])) {
            fprintf(stderr, "kernels: %s and %s do not go into one archive\n", archs[0], archs[i]);
            return 2;
        }
    const tpi_gpu_driver *driver = amd ? &tpi_hip_driver : &tpi_cuda_driver;
    if (!listed && !driver->compiler()) {
        fprintf(stderr, "kernels: %s was not found\n", amd ? "hiprtc" : "NVRTC");
        return 1;
    }
    setenv("TAPER_KERNELS", "/nowhere", 1);        /* programs that an older archive has count too */
    setenv("TAPER_CACHE", "/dev/null/nothing", 1); /* nor does what the recorder makes go into a cache */
    recording all = {NULL, 0, 0};
    double from = seconds();
    start_recording(&all, driver, narchs ? warp_of(archs[0]) : 32);
    run_cases();
    finish_recording(&all);
    if (all.n == 0) {
        fprintf(stderr, "kernels: there is nothing to compile: %s\n",
                tp_error() ? tp_error() : "no program was asked for");
        return 1;
    }
    if (listed) return list(&all);
    if (step) {
        printf("kernels: %d of %d programs for %d architectures\n", (all.n + step - 1) / step, all.n, narchs);
        fflush(stdout);
        return check(&all, driver, archs, narchs, jobs, step) ? 0 : 1;
    }
    if (!narchs) narchs = usual_archs(driver, archs);
    char beside[4096];
    snprintf(beside, sizeof beside, "%s.cache", out);
    setenv("TAPER_CACHE", cache ? cache : beside, 1);
    printf("kernels: %d programs for %d architectures\n", all.n, narchs);
    fflush(stdout);
    if (!pack(&all, driver, archs, narchs, jobs, out)) return 1;
    struct stat s;
    printf("kernels: %s, %.1f MB, %.0f s\n", out, stat(out, &s) == 0 ? (double)s.st_size / 1e6 : 0, seconds() - from);
    return 0;
}
