/* The last-level caches that this process's processors share, as the system reports them: what decides whether a result
 * is written past the caches (nontemporal.h). */
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "device/cpu/nontemporal.h"

enum { MOST_CACHES = 64, TEXT = 256 };

/* The first line of a file of one cache of a processor, without its end. False: there is no such cache. */
static bool read_line(int processor, int index, const char *file, char *text) {
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", processor, index, file);
    FILE *f = fopen(path, "r");
    if (!f) return false;
    bool ok = fgets(text, TEXT, f);
    fclose(f);
    if (ok) text[strcspn(text, "\n")] = '\0';
    return ok;
}

static int64_t size_of(const char *text) { /* "32768K" */
    long long n = 0;
    char unit = 'K';
    if (sscanf(text, "%lld%c", &n, &unit) < 1 || n <= 0 || n > (1 << 30)) return 0;
    return n * (unit == 'M' ? 1 << 20 : 1 << 10);
}

/* A processor's outermost cache: its size, and the list of processors that share it, which tells it from others. */
static int64_t outermost(int processor, char *shared) {
    int64_t size = 0;
    int level = 0;
    char text[TEXT];
    for (int index = 0; read_line(processor, index, "level", text); index++) {
        int here = 0;
        if (sscanf(text, "%d", &here) != 1 || here <= level) continue;
        if (!read_line(processor, index, "size", text) || !size_of(text)) continue;
        if (!read_line(processor, index, "shared_cpu_list", shared)) continue;
        level = here;
        size = size_of(text);
    }
    return size;
}

/* The sum over the caches that this process's processors have, each counted once. 0: the system does not say. */
static int64_t last_level_bytes(void) {
    static char seen[MOST_CACHES][TEXT];
    int caches = 0;
    int64_t total = 0;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return 0;
    for (int processor = 0; processor < CPU_SETSIZE && caches < MOST_CACHES; processor++) {
        if (!CPU_ISSET(processor, &set)) continue;
        int64_t size = outermost(processor, seen[caches]);
        int before = 0;
        while (before < caches && strcmp(seen[before], seen[caches])) before++;
        if (!size || before < caches) continue;
        total += size;
        caches++;
    }
    return total;
}

int64_t tpi_nontemporal_bytes(void) {
    static _Atomic(int64_t) known;
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    int64_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
    if (__builtin_expect(bytes > 0, 1)) return bytes;
    if (atomic_flag_test_and_set(&busy)) return TPI_NONTEMPORAL_UNKNOWN; /* another thread asks right now */
    bytes = last_level_bytes();
    if (!bytes) bytes = TPI_NONTEMPORAL_UNKNOWN;
    if (bytes < TPI_NONTEMPORAL_LEAST) bytes = TPI_NONTEMPORAL_LEAST;
    atomic_store(&known, bytes);
    return bytes;
}
