/* Parallel loops, and how many threads they have (team.c is those threads).
 *
 * The number of threads is the user's (tp_set_num_threads), else OMP_NUM_THREADS, else as many cores as the scheduler
 * lets this process use: those of its affinity mask, counted once where a core runs two threads, and no more than its
 * control group's quota pays for. */
#define _GNU_SOURCE /* processor sets */
#include "base/threads.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <omp.h>
#include <sched.h>
#include "base/error.h"
#include "base/team.h"

enum { MOST_THREADS = 1024, FILE_TEXT = 4096, PATH_TEXT = 4352 };

static atomic_int wanted;  /* what the user asked for; 0: nothing */
static int allowed;        /* what the machine and the environment allow */
static atomic_bool forked; /* threads do not survive a fork: the child works alone */
static pthread_once_t find_once = PTHREAD_ONCE_INIT;

/* ---- What the control group pays for ---- */
static bool read_text(const char *path, char *text, size_t capacity) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    ssize_t n = read(file, text, capacity - 1);
    close(file);
    if (n < 0) return false;
    text[n] = 0;
    return true;
}

static double quota_v2(const char *folder) { /* "200000 100000", or "max 100000"; 0: no limit here */
    char path[PATH_TEXT], text[64];
    long long quota, period;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (!read_text(path, text, sizeof text) || sscanf(text, "%lld %lld", &quota, &period) != 2 || quota <= 0 ||
        period <= 0)
        return 0;
    return (double)quota / (double)period;
}

static double quota_v1(const char *folder) {
    char path[PATH_TEXT], quota[64], period[64];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_text(path, quota, sizeof quota)) return 0;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!read_text(path, period, sizeof period) || atoll(quota) <= 0 || atoll(period) <= 0) return 0;
    return (double)atoll(quota) / (double)atoll(period);
}

/* The tightest quota on the way from the group up to the root. Inside a container the group's own folder may not be
 * visible; its limit then stands at the root. */
static double tightest(const char *root, const char *group, double (*quota)(const char *folder)) {
    char folder[FILE_TEXT];
    double least = 0;
    int n = snprintf(folder, sizeof folder, "%s%s", root, group);
    if (n < 0 || n >= (int)sizeof folder) return 0;
    for (size_t top = strlen(root);;) {
        double here = quota(folder);
        if (here > 0 && (least == 0 || here < least)) least = here;
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < top) return least;
        *slash = 0;
    }
}

static double group_quota(void) {
    char text[FILE_TEXT];
    double least = 0;
    if (!read_text("/proc/self/cgroup", text, sizeof text)) return 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) { /* "0::/group" or "4:cpu,cpuacct:/group" */
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        names++;
        double here = 0;
        if (*names == 0)
            here = tightest("/sys/fs/cgroup", group, quota_v2);
        else if (strcmp(names, "cpu") == 0 || strncmp(names, "cpu,", 4) == 0 || strstr(names, ",cpu,") ||
                 (strlen(names) > 4 && strcmp(names + strlen(names) - 4, ",cpu") == 0))
            here = tightest("/sys/fs/cgroup/cpu", group, quota_v1);
        if (here > 0 && (least == 0 || here < least)) least = here;
    }
    return least;
}

/* ---- How many threads ---- */
static int within(int n) { return n < 1 ? 1 : n > MOST_THREADS ? MOST_THREADS : n; }

/* Does the processor share a core with one of a lower number in the set? Siblings are listed as "0,64" or "0-1". */
static bool has_elder(int processor, const cpu_set_t *set) {
    char path[PATH_TEXT], text[256];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", processor);
    if (!read_text(path, text, sizeof text)) return false;
    for (char *at = text; *at && *at != '\n';) {
        int first = (int)strtol(at, &at, 10), last = first;
        if (*at == '-') last = (int)strtol(at + 1, &at, 10);
        for (int n = first; n <= last && n < processor; n++)
            if (n >= 0 && n < CPU_SETSIZE && CPU_ISSET(n, set)) return true;
        if (*at != ',') break;
        at++;
    }
    return false;
}

static int cores(void) {
    int n = omp_get_num_procs(); /* of the affinity mask as it was before OpenMP bound anything */
    char active[8];
    cpu_set_t set;
    if (!read_text("/sys/devices/system/cpu/smt/active", active, sizeof active) || active[0] != '1') return n;
    if (sched_getaffinity(0, sizeof set, &set) || CPU_COUNT(&set) != n) return n;
    int alone = 0;
    for (int i = 0; i < CPU_SETSIZE; i++) alone += CPU_ISSET(i, &set) && !has_elder(i, &set);
    return alone ? alone : n;
}

/* Ranks of a job that share this machine's processors: a launcher says how many there are, and a mask that holds all of
 * the machine's processors that it gave none of them a part of its own. */
static int ranks_on_this_node(void) {
    static const char *const names[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                        "PALS_LOCAL_SIZE", NULL};
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) || CPU_COUNT(&set) < sysconf(_SC_NPROCESSORS_ONLN)) return 1;
    for (int i = 0; names[i]; i++) {
        const char *text = getenv(names[i]);
        if (text && atoi(text) > 0) return atoi(text);
    }
    return 1;
}

/* What OMP_NUM_THREADS asks for: "8", or "8,2" for nested levels. 0 where it is not set or not such a number. */
static int wished_threads(void) {
    const char *text = getenv("OMP_NUM_THREADS");
    char *end = NULL;
    long n = text ? strtol(text, &end, 10) : 0;
    while (end && *end == ' ') end++;
    if (n < 1 || (*end != 0 && *end != ',')) return 0;
    return n > MOST_THREADS ? MOST_THREADS : (int)n;
}

static void in_child(void) { forked = true; }

static void find_allowed(void) {
    pthread_atfork(NULL, NULL, in_child);
    int wish = wished_threads();
    if (wish) {
        allowed = wish;
        return;
    }
    int n = cores(), ranks = ranks_on_this_node();
    double quota = group_quota();
    if (quota > 0 && quota < n) n = (int)quota + (quota > (int)quota);
    allowed = within(n / ranks > 0 ? n / ranks : 1);
}

int tp_num_threads(void) {
    pthread_once(&find_once, find_allowed);
    if (forked) return 1;
    int n = atomic_load_explicit(&wanted, memory_order_relaxed);
    return n ? n : allowed;
}

void tp_set_num_threads(int n) { atomic_store_explicit(&wanted, n < 1 ? 0 : within(n), memory_order_relaxed); }

static atomic_int interop; /* what the user asked for; 0: nothing */

int tp_num_interop_threads(void) {
    int n = atomic_load_explicit(&interop, memory_order_relaxed);
    return n ? n : tp_num_threads();
}

void tp_set_num_interop_threads(int n) { atomic_store_explicit(&interop, n < 1 ? 0 : n, memory_order_relaxed); }

/* ---- The loop ---- */
bool tpi_in_parallel(void) { return tpi_at_work; }

static void run_loop(int64_t chunks, bool worth_it, bool brief, tpi_chunk_fn fn, void *context) {
    int threads = chunks > 1 && worth_it && !tpi_at_work ? tp_num_threads() : 1;
    if (threads > chunks) threads = (int)chunks;
    if (threads > 1 && tpi_team_run(threads, chunks, brief, fn, context)) return;
    for (int64_t chunk = 0; chunk < chunks; chunk++) fn(chunk, context);
}

void tpi_parallel_for(int64_t chunks, bool worth_it, tpi_chunk_fn fn, void *context) {
    run_loop(chunks, worth_it, false, fn, context);
}
void tpi_parallel_for_brief(int64_t chunks, bool worth_it, tpi_chunk_fn fn, void *context) {
    run_loop(chunks, worth_it, true, fn, context);
}

void tpi_parallel_among(int threads, bool brief, tpi_chunk_fn fn, void *context) {
    if (threads > 1 && !tpi_at_work && tpi_team_run(threads, threads, brief, fn, context)) return;
    for (int i = 0; i < threads; i++) fn(i, context);
}

int tpi_step_threads(void) {
    pthread_once(&find_once, find_allowed);
    return tpi_at_work || forked ? 1 : tp_num_interop_threads();
}
