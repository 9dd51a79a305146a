/* Times of everything that runs on NVIDIA's GPUs, by CUPTI, which is opened when a trace first asks for it. It sees the
 * kernels of all libraries; what a thread launches is told apart by the external correlation ids that trace_owner
 * pushes.
 *
 * CUPTI has no versions of its records that one could ask for: the members read here have been where they are since
 * CUDA 11, and every later release has only added members behind them. One trace at a time: a second one is timed by
 * events. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/memory.h"
#include "device/cuda/driver_api.h"
#include "device/gpu/trace.h"

enum { /* CUpti_ActivityKind */
       COPY = 1,
       FILL = 2,
       DRIVER_CALL = 4,
       RUNTIME_CALL = 5,
       KERNEL = 10,
       EXTERNAL = 39
};
enum { CUSTOM0 = 3 }; /* CUpti_ExternalCorrelationKind: ours */
enum { FLUSH_FORCED = 1, BUFFER = 4 << 20 };

typedef struct kernel_record {
    uint32_t kind;
    uint8_t caches[2];
    uint16_t registers;
    uint32_t partitions[2];
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t grid[3], block[3], shared[2];
    uint32_t local[2], correlation;
    int64_t grid_id;
    const char *name;
} kernel_record;

typedef struct copy_record { /* of fills too, which have a value in the place of `way` and what follows it */
    uint32_t kind;
    uint8_t way, from, to, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
} copy_record;

typedef struct external_record {
    uint32_t kind, external_kind;
    uint64_t id;
    uint32_t correlation, reserved;
} external_record;

typedef struct found { /* something that ran */
    tp_activity activity;
    uint32_t correlation;
} found;
typedef struct owner { /* whose a call is */
    uint32_t correlation;
    int64_t event;
} owner;

static struct {
    pthread_mutex_t lock; /* CUPTI gives buffers back on a thread of its own */
    bool looked, there, running;
    int (*register_callbacks)(void (*request)(uint8_t **buffer, size_t *bytes, size_t *most),
                              void (*complete)(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
                                               size_t valid));
    int (*enable)(int kind);
    int (*disable)(int kind);
    int (*flush)(uint32_t flag);
    int (*next)(uint8_t *buffer, size_t valid, void **record);
    int (*push)(int kind, uint64_t id);
    int (*pop)(int kind, uint64_t *id);
    int (*timestamp)(uint64_t *nanoseconds);
    int64_t offset; /* from CUPTI's clock to the monotonic one */
    bool pushed;
    found *found;
    int64_t nfound, found_capacity;
    owner *owners;
    int64_t nowners, owners_capacity;
    int64_t lost;
} cupti = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const int kinds[] = {EXTERNAL, DRIVER_CALL, RUNTIME_CALL, COPY, FILL, KERNEL};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- Records ---- */
static void *grow_by_one(void **list, int64_t n, int64_t *capacity, size_t each) {
    if (n == *capacity) {
        int64_t wanted = *capacity ? 2 * *capacity : 4096;
        bool fine = tp_ok();
        void *moved = tpi_realloc(*list, (size_t)wanted * each);
        if (!moved) {
            if (fine) tp_error_clear();
            cupti.lost++;
            return NULL;
        }
        *list = moved;
        *capacity = wanted;
    }
    return (char *)*list + (size_t)n * each;
}

static void put_found(uint32_t correlation, tp_activity activity) {
    found *at = grow_by_one((void **)&cupti.found, cupti.nfound, &cupti.found_capacity, sizeof *at);
    if (!at) return;
    *at = (found){activity, correlation};
    cupti.nfound++;
}

static int64_t host_time(uint64_t nanoseconds) { return (int64_t)nanoseconds + cupti.offset; }

static const char *copy_name(const copy_record *r) {
    if (r->kind == FILL) return "Memset (Device)";
    switch (r->way) {
    case 1: return "Memcpy HtoD";
    case 2: return "Memcpy DtoH";
    case 8: return "Memcpy DtoD";
    case 10: return "Memcpy PtoP";
    default: return "Memcpy";
    }
}

static void read_record(const void *record) {
    const uint32_t kind = *(const uint32_t *)record;
    if (kind == KERNEL) {
        const kernel_record *r = record;
        put_found(r->correlation, (tp_activity){.name = r->name ? r->name : "kernel",
                                                .kind = TP_ACTIVITY_KERNEL,
                                                .device = {TP_CUDA, (int)r->device},
                                                .stream = r->stream,
                                                .start = host_time(r->start),
                                                .end = host_time(r->end)});
    } else if (kind == COPY || kind == FILL) {
        const copy_record *r = record;
        put_found(r->correlation, (tp_activity){.name = copy_name(r),
                                                .kind = kind == COPY ? TP_ACTIVITY_COPY : TP_ACTIVITY_FILL,
                                                .device = {TP_CUDA, (int)r->device},
                                                .stream = r->stream,
                                                .start = host_time(r->start),
                                                .end = host_time(r->end),
                                                .bytes = (int64_t)r->bytes});
    } else if (kind == EXTERNAL) {
        const external_record *r = record;
        owner *at = r->external_kind == CUSTOM0
                        ? grow_by_one((void **)&cupti.owners, cupti.nowners, &cupti.owners_capacity, sizeof *at)
                        : NULL;
        if (!at) return;
        *at = (owner){r->correlation, (int64_t)r->id - 1};
        cupti.nowners++;
    }
}

static void request_buffer(uint8_t **buffer, size_t *bytes, size_t *most) {
    bool fine = tp_ok();
    *buffer = tpi_malloc(BUFFER);
    if (!*buffer && fine) tp_error_clear();
    *bytes = *buffer ? BUFFER : 0;
    *most = 0; /* as many records as fit */
}

static void complete_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid) {
    (void)context;
    (void)stream;
    (void)bytes;
    pthread_mutex_lock(&cupti.lock);
    void *record = NULL;
    while (cupti.running && valid && cupti.next(buffer, valid, &record) == 0) read_record(record);
    pthread_mutex_unlock(&cupti.lock);
    tpi_mfree(buffer);
}

/* ---- The library ---- */
static bool open_library(void) {
    static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so", NULL};
    void *library = tpi_cuda_library(names);
    const tpi_symbol symbols[] = {{"cuptiActivityRegisterCallbacks", &cupti.register_callbacks},
                                  {"cuptiActivityEnable", &cupti.enable},
                                  {"cuptiActivityDisable", &cupti.disable},
                                  {"cuptiActivityFlushAll", &cupti.flush},
                                  {"cuptiActivityGetNextRecord", &cupti.next},
                                  {"cuptiActivityPushExternalCorrelationId", &cupti.push},
                                  {"cuptiActivityPopExternalCorrelationId", &cupti.pop},
                                  {"cuptiGetTimestamp", &cupti.timestamp}};
    return library && tpi_cuda_symbols(library, symbols, sizeof symbols / sizeof *symbols) &&
           cupti.register_callbacks(request_buffer, complete_buffer) == 0;
}

/* The offset between the clocks, from the closest of a few readings. */
static bool compare_clocks(void) {
    int64_t closest = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        struct timespec t[2];
        uint64_t there;
        clock_gettime(CLOCK_MONOTONIC, &t[0]);
        if (cupti.timestamp(&there)) return false;
        clock_gettime(CLOCK_MONOTONIC, &t[1]);
        int64_t from = (int64_t)t[0].tv_sec * 1000000000 + t[0].tv_nsec;
        int64_t to = (int64_t)t[1].tv_sec * 1000000000 + t[1].tv_nsec;
        if (to - from >= closest) continue;
        closest = to - from;
        cupti.offset = from + (to - from) / 2 - (int64_t)there;
    }
    return true;
}

static void disable_kinds(int n) {
    for (int i = 0; i < n; i++) cupti.disable(kinds[i]);
}

bool tpi_cupti_start(void) {
    pthread_mutex_lock(&cupti.lock);
    if (!cupti.looked) cupti.there = open_library();
    cupti.looked = true;
    bool start = cupti.there && !cupti.running && compare_clocks();
    cupti.running = cupti.running || start;
    pthread_mutex_unlock(&cupti.lock);
    if (!start) return false;
    int enabled = 0;
    while (enabled < KINDS && cupti.enable(kinds[enabled]) == 0) enabled++;
    if (enabled == KINDS) return true;
    disable_kinds(enabled); /* another profiler is at work, or the driver is older */
    pthread_mutex_lock(&cupti.lock);
    cupti.running = false;
    pthread_mutex_unlock(&cupti.lock);
    return false;
}

void tpi_cupti_owner(int64_t event) {
    uint64_t last;
    if (cupti.pushed) cupti.pop(CUSTOM0, &last);
    cupti.pushed = event >= 0 && cupti.push(CUSTOM0, (uint64_t)event + 1) == 0;
}

/* ---- The end: who ran what ---- */
static int by_correlation(const void *a, const void *b) {
    const owner *x = a, *y = b;
    return (x->correlation > y->correlation) - (x->correlation < y->correlation);
}

static int64_t event_of(uint32_t correlation) {
    const owner key = {.correlation = correlation};
    const owner *at =
        cupti.nowners ? bsearch(&key, cupti.owners, (size_t)cupti.nowners, sizeof *cupti.owners, by_correlation) : NULL;
    return at ? at->event : -1;
}

/* C++ names as their source has them, where the C++ runtime is found; CUDA's libraries bring it along. NULL: as it is.
 * For free(). */
static char *demangled(const char *name) {
    static char *(*demangle)(const char *name, char *out, size_t *capacity, int *status);
    static bool looked;
    if (!looked) {
        looked = true;
        void *runtime = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
        if (runtime) tpi_cuda_symbols(runtime, &(tpi_symbol){"__cxa_demangle", &demangle}, 1);
    }
    int status = 0;
    return demangle && !strncmp(name, "_Z", 2) ? demangle(name, NULL, NULL, &status) : NULL;
}

static void hand_over(tpi_gpu_trace *trace) {
    if (cupti.nowners) qsort(cupti.owners, (size_t)cupti.nowners, sizeof *cupti.owners, by_correlation);
    const char *last = NULL;
    char *plain = NULL;
    for (int64_t i = 0; i < cupti.nfound; i++) {
        found *f = &cupti.found[i];
        f->activity.event = event_of(f->correlation);
        if (f->activity.name != last) {
            last = f->activity.name;
            free(plain);
            plain = demangled(last);
        }
        if (plain) f->activity.name = plain;
        tpi_gpu_trace_put(trace, &f->activity);
    }
    free(plain);
    tpi_gpu_trace_lose(trace, cupti.lost);
}

void tpi_cupti_stop(tpi_gpu_trace *trace) {
    tpi_cupti_owner(-1);
    for (int i = 0; i < tpi_cuda.count; i++)
        if (tpi_cuda.context[i] && tpi_cuda_use(i)) tpi_cuda.synchronize();
    cupti.flush(FLUSH_FORCED);
    disable_kinds(KINDS);
    pthread_mutex_lock(&cupti.lock);
    hand_over(trace);
    tpi_mfree(cupti.found);
    tpi_mfree(cupti.owners);
    cupti.found = NULL;
    cupti.owners = NULL;
    cupti.nfound = cupti.found_capacity = cupti.nowners = cupti.owners_capacity = cupti.lost = 0;
    cupti.running = false;
    pthread_mutex_unlock(&cupti.lock);
}
