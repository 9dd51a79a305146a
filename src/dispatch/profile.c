/* The thread's profile: a list of events that grows while operators run. It never makes a call fail: an event for which
 * there is no memory is counted as lost. Inputs of all events stand in one list of numbers: per input the dtype, the
 * number of entries if it is a list (else -1), the number of dims and the sizes; list entries follow their list. */
#include "base/handle.h"
#include "dispatch/profile.h"
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "device/gpu/trace.h"
#include "tensor/check_arguments.h"
#include "tensor/storage.h"

enum { RANGE_BITS = 31 }; /* of a range's handle: the event's number; above them the profile's */

typedef struct record {
    tp_event event;
    int64_t inputs; /* where they begin among the numbers */
    int64_t bytes_before, device_bytes_before;
} record;

struct tp_profile {
    record *records;
    int64_t n, capacity;
    int64_t *numbers;
    int64_t nnumbers, numbers_capacity;
    int64_t open; /* the innermost event that runs, -1: none */
    int64_t lost, thread;
    int64_t serial; /* tells the ranges of this profile from those of earlier ones */
    bool shapes, running;
    char **names; /* of ranges: copies */
    int64_t nnames, names_capacity;
    void *(*note)(void *context);
    void (*drop_note)(void *note);
    void *context;
    tpi_gpu_trace *trace; /* what GPUs do; NULL: nobody asked */
};

TPI_THREAD_LOCAL uint8_t tpi_detours;
static TPI_THREAD_LOCAL tp_profile *watching;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Watching fails in silence: a call that went well must not leave an error. */
static void forget_error(bool was_fine) {
    if (was_fine) tp_error_clear();
}

/* Room for one more of `each` bytes, by doubling. */
static bool grow(void *list, int64_t n, int64_t *capacity, size_t each) {
    if (n < *capacity) return true;
    int64_t wanted = *capacity ? 2 * *capacity : 256;
    bool fine = tp_ok();
    void *moved = tpi_realloc(*(void **)list, (size_t)wanted * each);
    if (!moved) {
        forget_error(fine);
        return false;
    }
    *(void **)list = moved;
    *capacity = wanted;
    return true;
}

/* The innermost event that runs now. */
static void set_open(tp_profile *p, int64_t event) {
    p->open = event;
    if (p->trace) tpi_gpu_trace_event(p->trace, event);
}

int64_t tpi_watch_begin(const char *name, tp_event_kind kind, int64_t sequence) {
    tp_profile *p = watching;
    if (!p) return -1;
    if (!grow(&p->records, p->n, &p->capacity, sizeof *p->records)) {
        p->lost++;
        return -1;
    }
    record *r = &p->records[p->n];
    *r = (record){.event = {.name = name, .kind = kind, .parent = p->open, .sequence = sequence},
                  .inputs = p->nnumbers,
                  .bytes_before = tpi_storage_balance,
                  .device_bytes_before = tpi_device_balance};
    if (p->note && (p->open < 0 || p->records[p->open].event.kind == TP_EVENT_RANGE))
        r->event.note = p->note(p->context);
    set_open(p, p->n);
    r->event.start = now();
    return p->n++;
}

void tpi_watch_end(int64_t event) {
    tp_profile *p = watching;
    if (!p || event < 0 || event >= p->n) return;
    int64_t end = now();
    int64_t open = p->open;
    while (open >= event) {
        record *r = &p->records[open];
        r->event.end = end;
        r->event.bytes = tpi_storage_balance - r->bytes_before;
        r->event.device_bytes = tpi_device_balance - r->device_bytes_before;
        open = r->event.parent;
    }
    if (open != p->open) set_open(p, open);
}

static void put_input(tp_profile *p, record *r, int64_t dtype, int64_t count, int64_t n, const int64_t *numbers) {
    while (p->nnumbers + 3 + n > p->numbers_capacity)
        if (!grow(&p->numbers, p->numbers_capacity, &p->numbers_capacity, sizeof *p->numbers)) return;
    int64_t *to = p->numbers + p->nnumbers;
    to[0] = dtype;
    to[1] = count;
    to[2] = n;
    if (n) memcpy(to + 3, numbers, (size_t)n * sizeof *to);
    p->nnumbers += 3 + n;
    r->event.ninputs++;
}

static record *wants_inputs(int64_t event) {
    return watching && watching->shapes && event >= 0 ? &watching->records[event] : NULL;
}

bool tpi_watch_wants_shapes(int64_t event) { return wants_inputs(event); }

void tpi_watch_multiply_adds(int64_t event, double count) {
    record *r = wants_inputs(event);
    if (r) r->event.multiply_adds = (int64_t)count;
}

static void put_tensor(record *r, const tp_tensor *t, int64_t count) {
    put_input(watching, r, t ? t->dtype : TP_NO_DTYPE, count, t ? t->ndim : 0, t ? t->shape : NULL);
}

void tpi_watch_input(int64_t event, const tp_tensor *t, const tp_tensors *list) {
    record *r = wants_inputs(event);
    if (!r) return;
    put_tensor(r, t, list ? list->n : -1);
    for (int64_t i = 0; list && i < list->n; i++) put_tensor(r, list->v[i], -1);
}

void tpi_watch_numbers(int64_t event, tp_ints numbers) {
    record *r = wants_inputs(event);
    if (r) put_input(watching, r, TP_NO_DTYPE, -2, numbers.v ? numbers.n : 0, numbers.v);
}

/* ---- What the user calls ---- */

#define OPTION(o, field) \
    ((o) && (o)->size >= (int64_t)(offsetof(tp_profile_options, field) + sizeof((o)->field)) ? (o)->field : 0)

tp_profile *tp_profile_start(const tp_profile_options *o) {
    if (watching) return tpi_fail(TP_ERR_RUNTIME, "Profiler is already enabled on this thread");
    if (o && !tpi_sound_size(o->size, "options")) return NULL;
    tp_profile *p = tpi_new0(sizeof *p);
    if (!p) return NULL;
    static atomic_int profiles;
    p->serial = 1 + atomic_fetch_add(&profiles, 1);
    p->open = -1;
    p->thread = (int64_t)syscall(SYS_gettid);
    p->shapes = OPTION(o, shapes);
    p->note = OPTION(o, note);
    p->drop_note = OPTION(o, drop_note);
    p->context = OPTION(o, context);
    p->trace = OPTION(o, devices) ? tpi_gpu_trace_start() : NULL;
    if (OPTION(o, devices) && !p->trace) {
        tpi_delete(p, sizeof *p);
        return NULL;
    }
    p->running = true;
    tpi_handle_made(p, "profile");
    watching = p;
    tpi_detours |= TPI_WATCHED;
    return p;
}

bool tp_profile_stop(tp_profile *p) {
    if (!tpi_given(p, __func__, "profile", "a profile")) return false;
    if (p != watching) return tpi_refuse(TP_ERR_RUNTIME, "argument 'profile': it does not run on this thread");
    while (p->open >= 0) tpi_watch_end(p->open);
    p->running = false;
    if (p->trace) tpi_gpu_trace_stop(p->trace);
    watching = NULL;
    tpi_detours &= (uint8_t)~TPI_WATCHED;
    return true;
}

void tp_profile_free(tp_profile *p) {
    if (!TPI_ENDS(p, "profile", "a profile")) return;
    if (p == watching) tp_profile_stop(p);
    for (int64_t i = 0; p->drop_note && i < p->n; i++)
        if (p->records[i].event.note) p->drop_note(p->records[i].event.note);
    for (int64_t i = 0; i < p->nnames; i++) tpi_mfree(p->names[i]);
    tpi_gpu_trace_free(p->trace);
    tpi_mfree(p->names);
    tpi_mfree(p->records);
    tpi_mfree(p->numbers);
    tpi_handle_delete(p, sizeof *p);
}

int64_t tp_profile_count(const tp_profile *p) {
    if (TPI_ENDED(p, "a profile")) return -1;
    return p ? p->n : 0;
}
int64_t tp_profile_lost(const tp_profile *p) {
    if (TPI_ENDED(p, "a profile")) return -1;
    return p ? p->lost + tpi_gpu_trace_lost(p->trace) : 0;
}
int64_t tp_profile_thread(const tp_profile *p) {
    if (TPI_ENDED(p, "a profile")) return -1;
    return p ? p->thread : 0;
}

const tp_event *tp_profile_event(const tp_profile *p, int64_t i) {
    if (TPI_ENDED(p, "a profile")) return NULL;
    if (!p || i < 0 || i >= p->n)
        return tpi_fail(TP_ERR_INDEX, "argument 'i': there is no event %lld of %lld", (long long)i,
                        (long long)tp_profile_count(p));
    return &p->records[i].event;
}

int64_t tp_profile_activity_count(const tp_profile *p) {
    if (TPI_ENDED(p, "a profile")) return -1;
    return p && !p->running ? tpi_gpu_trace_count(p->trace) : 0;
}

const tp_activity *tp_profile_activity(const tp_profile *p, int64_t i) {
    if (TPI_ENDED(p, "a profile")) return NULL;
    if (i < 0 || i >= tp_profile_activity_count(p))
        return tpi_fail(TP_ERR_INDEX, "argument 'i': there is no activity %lld of %lld", (long long)i,
                        (long long)tp_profile_activity_count(p));
    return tpi_gpu_trace_activity(p->trace, i);
}

bool tp_profile_input(const tp_profile *p, int64_t event, int64_t i, tp_event_input *input) {
    if (TPI_ENDED(p, "a profile")) return false;
    const tp_event *e = tp_profile_event(p, event);
    if (!e) return false;
    if (i < 0 || i >= e->ninputs)
        return tpi_refuse(TP_ERR_INDEX, "argument 'i': there is no input %lld of %lld", (long long)i,
                          (long long)e->ninputs);
    const int64_t *at = p->numbers + p->records[event].inputs;
    for (; i > 0; i--) at += 3 + at[2];
    *input = (tp_event_input){at[0], tp_ints_view(at + 3, at[2]), at[1]};
    return true;
}

int64_t tp_range_begin(const char *name) {
    tp_profile *p = watching;
    if (!p || !name) return -1;
    bool fine = tp_ok();
    char *copy = grow(&p->names, p->nnames, &p->names_capacity, sizeof *p->names) ? tpi_strdup(name) : NULL;
    if (!copy) {
        forget_error(fine);
        p->lost++;
        return -1;
    }
    p->names[p->nnames++] = copy;
    int64_t event = tpi_watch_begin(copy, TP_EVENT_RANGE, -1);
    return event < 0 ? -1 : p->serial << RANGE_BITS | event;
}

void tp_range_end(int64_t range) {
    if (range >= 0 && watching && range >> RANGE_BITS == watching->serial)
        tpi_watch_end(range & ((1LL << RANGE_BITS) - 1));
}
