/* The thread's profile: a list of events that grows while operators run. It never makes a call fail: an event for which there is
 * no memory is counted as lost. Inputs of all events stand in one list of numbers: per input the dtype, the number of entries if it is a
 * list (else -1), the number of dims and the sizes; list entries follow their list. */
#include "autograd/profile.h"
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "tensor/storage.h"

typedef struct record {
    tp_event event;
    int64_t inputs; /* where they begin among the numbers */
    int64_t bytes_before;
} record;

struct tp_profile {
    record *records;
    int64_t n, room;
    int64_t *numbers;
    int64_t nnumbers, numbers_room;
    int64_t open; /* the innermost event that runs, -1: none */
    int64_t lost, thread;
    bool shapes, running;
    char **names; /* of ranges: copies */
    int64_t nnames, names_room;
    void *(*note)(void *context);
    void (*drop_note)(void *note);
    void *context;
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
static bool grow(void *list, int64_t n, int64_t *room, size_t each) {
    if (n < *room) return true;
    int64_t wanted = *room ? 2 * *room : 256;
    bool fine = tp_ok();
    void *moved = tpi_realloc(*(void **)list, (size_t)wanted * each);
    if (!moved) return forget_error(fine), false;
    *(void **)list = moved;
    *room = wanted;
    return true;
}

int64_t tpi_watch_begin(const char *name, tp_event_kind kind, int64_t sequence) {
    tp_profile *p = watching;
    if (!p) return -1;
    if (!grow(&p->records, p->n, &p->room, sizeof *p->records)) return p->lost++, -1;
    record *r = &p->records[p->n];
    *r = (record){.event = {.name = name, .kind = kind, .parent = p->open, .sequence = sequence}, .inputs = p->nnumbers, .bytes_before = tpi_storage_balance};
    if (p->note && p->open < 0) r->event.note = p->note(p->context);
    p->open = p->n;
    r->event.start = now();
    return p->n++;
}

void tpi_watch_end(int64_t event) {
    tp_profile *p = watching;
    if (!p || event < 0 || event >= p->n) return;
    int64_t end = now();
    while (p->open >= event) {
        record *r = &p->records[p->open];
        r->event.end = end;
        r->event.bytes = tpi_storage_balance - r->bytes_before;
        p->open = r->event.parent;
    }
}

static bool put_input(tp_profile *p, const tp_tensor *t, int64_t count) {
    int64_t needed = 3 + (t ? t->ndim : 0);
    while (p->nnumbers + needed > p->numbers_room)
        if (!grow(&p->numbers, p->numbers_room, &p->numbers_room, sizeof *p->numbers)) return false;
    int64_t *to = p->numbers + p->nnumbers;
    to[0] = t ? t->dtype : TP_NO_DTYPE, to[1] = count, to[2] = t ? t->ndim : 0;
    if (t) memcpy(to + 3, t->shape, t->ndim * sizeof *to);
    p->nnumbers += needed;
    return true;
}

void tpi_watch_input(int64_t event, const tp_tensor *t, const tp_tensors *list) {
    tp_profile *p = watching;
    if (!p || !p->shapes || event < 0) return;
    record *r = &p->records[event];
    if (put_input(p, t, list ? list->n : -1)) r->event.ninputs++;
    for (int64_t i = 0; list && i < list->n; i++)
        if (put_input(p, list->v[i], -1)) r->event.ninputs++;
}

/* ---- What the user calls ---------------------------------------------------------------------------------------------------------------- */

#define OPTION(o, field) ((o) && (o)->size >= (int64_t)(offsetof(tp_profile_options, field) + sizeof((o)->field)) ? (o)->field : 0)

tp_profile *tp_profile_start(const tp_profile_options *o) {
    if (watching) return tpi_fail(TP_ERR_RUNTIME, "Profiler is already enabled on this thread");
    tp_profile *p = tpi_new0(sizeof *p);
    if (!p) return NULL;
    p->open = -1;
    p->thread = (int64_t)syscall(SYS_gettid);
    p->shapes = OPTION(o, shapes);
    p->note = OPTION(o, note), p->drop_note = OPTION(o, drop_note), p->context = OPTION(o, context);
    p->running = true;
    watching = p;
    tpi_detours |= TPI_WATCHED;
    return p;
}

bool tp_profile_stop(tp_profile *p) {
    if (!p) return tpi_refuse(TP_ERR_TYPE, "argument 'profile': expected a profile, got NULL");
    if (p != watching) return tpi_refuse(TP_ERR_RUNTIME, "argument 'profile': it does not run on this thread");
    while (p->open >= 0) tpi_watch_end(p->open);
    p->running = false;
    watching = NULL;
    tpi_detours &= (uint8_t)~TPI_WATCHED;
    return true;
}

void tp_profile_free(tp_profile *p) {
    if (!p) return;
    if (p == watching) tp_profile_stop(p);
    for (int64_t i = 0; p->drop_note && i < p->n; i++)
        if (p->records[i].event.note) p->drop_note(p->records[i].event.note);
    for (int64_t i = 0; i < p->nnames; i++) tpi_mfree(p->names[i]);
    tpi_mfree(p->names);
    tpi_mfree(p->records);
    tpi_mfree(p->numbers);
    tpi_delete(p, sizeof *p);
}

int64_t tp_profile_count(const tp_profile *p) { return p ? p->n : 0; }
int64_t tp_profile_lost(const tp_profile *p) { return p ? p->lost : 0; }
int64_t tp_profile_thread(const tp_profile *p) { return p ? p->thread : 0; }

const tp_event *tp_profile_event(const tp_profile *p, int64_t i) {
    if (!p || i < 0 || i >= p->n) return tpi_fail(TP_ERR_INDEX, "argument 'i': there is no event %lld of %lld", (long long)i, (long long)tp_profile_count(p));
    return &p->records[i].event;
}

bool tp_profile_input(const tp_profile *p, int64_t event, int64_t i, tp_event_input *input) {
    const tp_event *e = tp_profile_event(p, event);
    if (!e) return false;
    if (i < 0 || i >= e->ninputs) return tpi_refuse(TP_ERR_INDEX, "argument 'i': there is no input %lld of %lld", (long long)i, (long long)e->ninputs);
    const int64_t *at = p->numbers + p->records[event].inputs;
    for (; i > 0; i--) at += 3 + at[2];
    *input = (tp_event_input){at[0], tp_ints_view(at + 3, at[2]), at[1]};
    return true;
}

int64_t tp_range_begin(const char *name) {
    tp_profile *p = watching;
    if (!p || !name) return -1;
    bool fine = tp_ok();
    char *copy = grow(&p->names, p->nnames, &p->names_room, sizeof *p->names) ? tpi_strdup(name) : NULL;
    if (!copy) return forget_error(fine), p->lost++, -1;
    p->names[p->nnames++] = copy;
    return tpi_watch_begin(copy, TP_EVENT_RANGE, -1);
}

void tp_range_end(int64_t range) { tpi_watch_end(range); }
