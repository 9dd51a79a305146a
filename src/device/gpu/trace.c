/* Traces of GPUs: activities, timed by the driver's own tool or by pairs of events (trace.h). */
#include "device/gpu/trace.h"
#include <pthread.h>
#include <string.h>
#include <taper/gpu.h>
#include <time.h>
#include "base/memory.h"
#include "tensor/same_device.h"

enum {
    BATCH = 2048 /* spans by events are read in batches of so many: the events are then used again */
};

typedef struct pending { /* a span whose events have not been read */
    int64_t activity;
    tpi_gpu_event *start, *end;
} pending;

typedef struct clock_of { /* a device's: the moment `event`, which the host waited for, was the host's `time` */
    struct clock_of *next;
    tp_device device;
    tpi_gpu_event *event;
    int64_t time;
    tpi_gpu_event *spare[2 * BATCH];
    int nspare;
} clock_of;

typedef struct lane { /* a stream, numbered in the order of use; the default one is 0 */
    tp_device device;
    tpi_gpu_stream *stream;
} lane;

struct tpi_gpu_trace {
    tp_activity *activities;
    int64_t n, capacity, lost;
    int64_t event;                /* that owns what is launched now; -1: none does */
    const tpi_gpu_driver *driver; /* whose own tool traces its type of device; NULL: events do */
    pending *waiting;
    int64_t nwaiting, waiting_capacity;
    clock_of *clocks;
    lane *lanes;
    int64_t nlanes, lanes_capacity;
    char **names; /* copies, each once: open addressing by the text */
    int64_t nnames, names_capacity;
};

TPI_THREAD_LOCAL tpi_gpu_trace *tpi_gpu_tracing;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Room for one more of `each` bytes, by doubling; false, without an error, where there is no memory. */
static bool grow(void *list, int64_t n, int64_t *capacity, size_t each) {
    if (n < *capacity) return true;
    int64_t wanted = *capacity ? 2 * *capacity : 256;
    bool fine = tp_ok();
    void *moved = tpi_realloc(*(void **)list, (size_t)wanted * each);
    if (moved) {
        *(void **)list = moved;
        *capacity = wanted;
    } else if (fine) {
        tp_error_clear();
    }
    return moved != NULL;
}

/* ---- Names ---- */
static uint64_t hash_of(const char *text) {
    uint64_t h = 1469598103934665603u;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

static void insert_name(char **names, int64_t capacity, char *name) {
    uint64_t i = hash_of(name);
    while (names[i & (uint64_t)(capacity - 1)]) i++;
    names[i & (uint64_t)(capacity - 1)] = name;
}

static bool more_names(tpi_gpu_trace *t) {
    if (2 * t->nnames < t->names_capacity) return true;
    int64_t capacity = t->names_capacity ? 2 * t->names_capacity : 256;
    char **names = tpi_malloc((size_t)capacity * sizeof *names);
    if (!names) return false;
    memset(names, 0, (size_t)capacity * sizeof *names);
    for (int64_t i = 0; i < t->names_capacity; i++)
        if (t->names[i]) insert_name(names, capacity, t->names[i]);
    tpi_mfree(t->names);
    t->names = names;
    t->names_capacity = capacity;
    return true;
}

/* The trace's own copy of a name; NULL: no memory, and an error. */
static const char *kept_name(tpi_gpu_trace *t, const char *name) {
    if (!more_names(t)) return NULL;
    for (uint64_t i = hash_of(name);; i++) {
        char *known = t->names[i & (uint64_t)(t->names_capacity - 1)];
        if (!known) break;
        if (!strcmp(known, name)) return known;
    }
    char *copy = tpi_strdup(name);
    if (!copy) return NULL;
    insert_name(t->names, t->names_capacity, copy);
    t->nnames++;
    return copy;
}

typedef struct named {
    const tpi_gpu_function *function;
    char *name;
} named;
static struct {
    pthread_mutex_t lock;
    named *table; /* open addressing by the function's address; kept for good */
    size_t capacity, used;
} functions = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t slot_of(const named *table, size_t capacity, const tpi_gpu_function *function) {
    size_t i = (size_t)(((uint64_t)(uintptr_t)function >> 4) * 0x9e3779b97f4a7c15u >> 20);
    while (table[i & (capacity - 1)].function && table[i & (capacity - 1)].function != function) i++;
    return i & (capacity - 1);
}

static bool more_functions(void) {
    if (2 * functions.used < functions.capacity) return true;
    size_t capacity = functions.capacity ? 2 * functions.capacity : 256;
    named *table = tpi_malloc(capacity * sizeof *table);
    if (!table) return false;
    memset(table, 0, capacity * sizeof *table);
    for (size_t i = 0; i < functions.capacity; i++)
        if (functions.table[i].function)
            table[slot_of(table, capacity, functions.table[i].function)] = functions.table[i];
    tpi_mfree(functions.table);
    functions.table = table;
    functions.capacity = capacity;
    return true;
}

void tpi_gpu_name_function(const tpi_gpu_function *function, const char *name) {
    bool fine = tp_ok();
    pthread_mutex_lock(&functions.lock);
    char *copy = more_functions() ? tpi_strdup(name) : NULL;
    if (copy) {
        named *at = &functions.table[slot_of(functions.table, functions.capacity, function)];
        functions.used += !at->function;
        tpi_mfree(at->name);
        *at = (named){function, copy};
    } else if (fine) {
        tp_error_clear();
    }
    pthread_mutex_unlock(&functions.lock);
}

const char *tpi_gpu_function_name(const tpi_gpu_function *function) {
    pthread_mutex_lock(&functions.lock);
    const char *name =
        functions.capacity ? functions.table[slot_of(functions.table, functions.capacity, function)].name : NULL;
    pthread_mutex_unlock(&functions.lock);
    return name ? name : "kernel";
}

/* ---- Activities ---- */
void tpi_gpu_trace_put(tpi_gpu_trace *t, const tp_activity *activity) {
    bool fine = tp_ok();
    const char *name = kept_name(t, activity->name);
    if (!name || !grow(&t->activities, t->n, &t->capacity, sizeof *t->activities)) {
        if (fine) tp_error_clear();
        t->lost++;
        return;
    }
    t->activities[t->n] = *activity;
    t->activities[t->n++].name = name;
}

void tpi_gpu_trace_lose(tpi_gpu_trace *t, int64_t n) { t->lost += n; }

static int64_t lane_of(tpi_gpu_trace *t, tp_device device, tpi_gpu_stream *stream) {
    if (!stream) return 0;
    int64_t number = 1;
    for (int64_t i = 0; i < t->nlanes; i++) {
        if (!tpi_same_device(t->lanes[i].device, device)) continue;
        if (t->lanes[i].stream == stream) return number;
        number++;
    }
    if (grow(&t->lanes, t->nlanes, &t->lanes_capacity, sizeof *t->lanes))
        t->lanes[t->nlanes++] = (lane){device, stream};
    return number;
}

/* ---- Events ---- */
static const tpi_gpu_driver *driver_at(tp_device device) { return tpi_gpu_driver_of((tp_device_type)device.type); }

static clock_of *clock_at(tpi_gpu_trace *t, tp_device device) {
    clock_of *c = t->clocks;
    while (c && !tpi_same_device(c->device, device)) c = c->next;
    if (c) return c;
    c = tpi_new0(sizeof *c);
    if (!c) return NULL;
    c->device = device;
    c->next = t->clocks;
    t->clocks = c;
    return c;
}

/* Sets the clock of a device: an event, and the host's time when it has come. */
static bool set_clock(clock_of *c) {
    if (c->time) return true;
    const tpi_gpu_driver *driver = driver_at(c->device);
    if (!c->event && !driver->event_new(c->device.index, true, &c->event)) return false;
    if (!driver->event_record(c->device.index, c->event, NULL) || !driver->event_sync(c->device.index, c->event))
        return false;
    c->time = now();
    return true;
}

static tpi_gpu_event *event_from(clock_of *c) {
    if (c->nspare) return c->spare[--c->nspare];
    tpi_gpu_event *event = NULL;
    return driver_at(c->device)->event_new(c->device.index, true, &event) ? event : NULL;
}

static void event_back(clock_of *c, tpi_gpu_event *event) {
    if (!event) return;
    if (c->nspare < 2 * BATCH)
        c->spare[c->nspare++] = event;
    else
        driver_at(c->device)->event_free(c->device.index, event);
}

static bool read_times(const clock_of *c, const pending *p, tp_activity *a) {
    const tpi_gpu_driver *driver = driver_at(c->device);
    double from, length;
    if (!driver->event_sync(c->device.index, p->end) ||
        !driver->event_elapsed(c->device.index, c->event, p->start, &from) ||
        !driver->event_elapsed(c->device.index, p->start, p->end, &length))
        return false;
    a->start = c->time + (int64_t)(from * 1e6);
    a->end = a->start + (int64_t)(length * 1e6);
    return true;
}

/* Reads the events of all spans so far. Clocks are set anew then: an elapsed time is a float of milliseconds, and loses
 * digits as it grows. */
static void settle(tpi_gpu_trace *t) {
    bool fine = tp_ok();
    for (int64_t i = 0; i < t->nwaiting; i++) {
        pending *p = &t->waiting[i];
        tp_activity *a = &t->activities[p->activity];
        clock_of *c = clock_at(t, a->device);
        t->lost += !read_times(c, p, a);
        event_back(c, p->start);
        event_back(c, p->end);
    }
    t->nwaiting = 0;
    for (clock_of *c = t->clocks; c; c = c->next) c->time = 0;
    if (fine) tp_error_clear();
}

/* ---- Spans ---- */
static bool can_be_timed(tp_device device, tpi_gpu_stream *stream) {
    const tpi_gpu_driver *driver = driver_at(device);
    return driver && driver->launch && driver->compile &&
           !(driver->capturing && driver->capturing(device.index, stream));
}

static void open_span(tpi_gpu_trace *t, tpi_gpu_span *span) {
    if (!can_be_timed(span->device, span->stream)) return;
    if (t->nwaiting >= BATCH) settle(t);
    clock_of *c = clock_at(t, span->device);
    if (!c || !set_clock(c) || !(span->start = event_from(c))) return;
    if (driver_at(span->device)->event_record(span->device.index, span->start, span->stream)) return;
    event_back(c, span->start);
    span->start = NULL;
}

tpi_gpu_span tpi_gpu_span_open(tp_device device, tp_activity_kind kind, const char *name, size_t bytes) {
    tpi_gpu_trace *t = tpi_gpu_tracing;
    tpi_gpu_span span = {.trace = t, .device = device, .name = name, .kind = kind, .bytes = (int64_t)bytes};
    if (t->driver && (tp_device_type)device.type == t->driver->type) {
        span.trace = NULL; /* the driver's tool sees it */
        return span;
    }
    bool fine = tp_ok();
    span.stream = tpi_gpu_stream_of(device);
    open_span(t, &span);
    if (!span.start) span.trace = NULL;
    if (fine) tp_error_clear();
    return span;
}

void tpi_gpu_span_close(tpi_gpu_span *span, bool ran) {
    tpi_gpu_trace *t = span->trace;
    clock_of *c = clock_at(t, span->device);
    bool fine = tp_ok();
    tpi_gpu_event *end = ran ? event_from(c) : NULL;
    int64_t before = t->n;
    if (end && driver_at(span->device)->event_record(span->device.index, end, span->stream) &&
        grow(&t->waiting, t->nwaiting, &t->waiting_capacity, sizeof *t->waiting))
        tpi_gpu_trace_put(t, &(tp_activity){.name = span->name,
                                            .kind = span->kind,
                                            .device = span->device,
                                            .stream = lane_of(t, span->device, span->stream),
                                            .event = t->event,
                                            .bytes = span->bytes});
    if (t->n > before) {
        t->waiting[t->nwaiting++] = (pending){before, span->start, end};
    } else {
        t->lost += ran;
        event_back(c, span->start);
        event_back(c, end);
    }
    if (fine) tp_error_clear();
}

/* ---- A trace's life ---- */
tpi_gpu_trace *tpi_gpu_trace_start(void) {
    tpi_gpu_trace *t = tpi_new0(sizeof *t);
    if (!t) return NULL;
    t->event = -1;
    const tpi_gpu_driver *driver = tp_gpu_count(TP_CUDA) > 0 ? tpi_gpu_driver_of(TP_CUDA) : NULL;
    if (driver && driver->trace_start && driver->trace_start()) t->driver = driver;
    tpi_gpu_tracing = t;
    return t;
}

void tpi_gpu_trace_event(tpi_gpu_trace *t, int64_t event) {
    t->event = event;
    if (t->driver) t->driver->trace_owner(event);
}

static bool earlier(const tp_activity *a, const tp_activity *b) { return a->start < b->start; }

/* In the order in which they began; spans of one stream nearly are. */
static void sort_activities(tp_activity *of, int64_t n, tp_activity *scratch) {
    if (n < 2) return;
    int64_t half = n / 2, i = 0, k = half, to = 0;
    sort_activities(of, half, scratch);
    sort_activities(of + half, n - half, scratch);
    if (!earlier(&of[half], &of[half - 1])) return;
    while (i < half && k < n) scratch[to++] = earlier(&of[k], &of[i]) ? of[k++] : of[i++];
    while (i < half) scratch[to++] = of[i++];
    while (k < n) scratch[to++] = of[k++];
    memcpy(of, scratch, (size_t)n * sizeof *of);
}

static void drop_untimed(tpi_gpu_trace *t) {
    int64_t kept = 0;
    for (int64_t i = 0; i < t->n; i++)
        if (t->activities[i].start) t->activities[kept++] = t->activities[i];
    t->n = kept;
}

void tpi_gpu_trace_stop(tpi_gpu_trace *t) {
    bool fine = tp_ok();
    settle(t);
    if (t->driver) t->driver->trace_stop(t);
    t->driver = NULL;
    if (tpi_gpu_tracing == t) tpi_gpu_tracing = NULL;
    drop_untimed(t);
    tp_activity *scratch = tpi_malloc((size_t)(t->n + 1) * sizeof *scratch);
    if (scratch) sort_activities(t->activities, t->n, scratch);
    tpi_mfree(scratch);
    if (fine) tp_error_clear();
}

void tpi_gpu_trace_free(tpi_gpu_trace *t) {
    if (!t) return;
    if (tpi_gpu_tracing == t) tpi_gpu_trace_stop(t);
    while (t->clocks) {
        clock_of *c = t->clocks;
        t->clocks = c->next;
        const tpi_gpu_driver *driver = driver_at(c->device);
        if (c->event) driver->event_free(c->device.index, c->event);
        for (int i = 0; i < c->nspare; i++) driver->event_free(c->device.index, c->spare[i]);
        tpi_delete(c, sizeof *c);
    }
    for (int64_t i = 0; i < t->names_capacity; i++) tpi_mfree(t->names[i]);
    tpi_mfree(t->names);
    tpi_mfree(t->activities);
    tpi_mfree(t->waiting);
    tpi_mfree(t->lanes);
    tpi_delete(t, sizeof *t);
}

int64_t tpi_gpu_trace_count(const tpi_gpu_trace *t) { return t ? t->n : 0; }
int64_t tpi_gpu_trace_lost(const tpi_gpu_trace *t) { return t ? t->lost : 0; }
const tp_activity *tpi_gpu_trace_activity(const tpi_gpu_trace *t, int64_t i) { return &t->activities[i]; }
