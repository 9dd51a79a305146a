/* Profiles as tables and as traces for chrome://tracing and Perfetto. */
#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <taper/io.h>
#include <taper/profile.h>
#include <unistd.h>

typedef struct row { /* the events of one name */
    const char *name;
    int64_t calls, self, total, bytes;
    int64_t device; /* what GPUs did for the events themselves */
} row;
typedef struct table {
    row *rows;
    int64_t n, watched; /* nanoseconds of all events that are in no other */
    int64_t device;     /* and of all that GPUs did */
} table;

/* ---- text that grows ---- */
typedef struct text {
    char *s;
    size_t n, capacity;
    bool failed;
} text;
static void add(text *t, const char *format, ...) TP_PRINTF(2, 3);
static void add(text *t, const char *format, ...) {
    for (int again = 0; again < 2 && !t->failed; again++) {
        va_list args;
        va_start(args, format);
        const int n = vsnprintf(t->s ? t->s + t->n : NULL, t->capacity - t->n, format, args);
        va_end(args);
        if (n >= 0 && t->n + (size_t)n < t->capacity) {
            t->n += (size_t)n;
            return;
        }
        const size_t capacity = 2 * (t->capacity + (size_t)(n > 0 ? n : 0)) + 256;
        char *more = n >= 0 ? tpi_realloc(t->s, capacity) : NULL;
        t->failed = !more;
        if (more) {
            t->s = more;
            t->capacity = capacity;
        }
    }
}

/* ---- tables ---- */
static int64_t duration(const tp_event *e) { return e->end > e->start ? e->end - e->start : 0; }

static row *row_named(table *t, const char *name) {
    for (int64_t i = 0; i < t->n; i++)
        if (!strcmp(t->rows[i].name, name)) return &t->rows[i];
    t->rows[t->n] = (row){.name = name};
    return &t->rows[t->n++];
}

static void collect_activities(const tp_profile *p, table *t) {
    for (int64_t i = 0; i < tp_profile_activity_count(p); i++) {
        const tp_activity *a = tp_profile_activity(p, i);
        t->device += a->end - a->start;
        if (a->event >= 0) row_named(t, tp_profile_event(p, a->event)->name)->device += a->end - a->start;
    }
}

static bool collect(const tp_profile *p, table *t) {
    const int64_t n = tp_profile_count(p);
    *t = (table){.rows = tpi_malloc(sizeof(row) * (size_t)(n + 1))};
    int64_t *self = t->rows ? tpi_malloc(sizeof *self * (size_t)(n + 1)) : NULL;
    if (!self) {
        tpi_mfree(t->rows);
        return false;
    }
    for (int64_t i = 0; i < n; i++) self[i] = duration(tp_profile_event(p, i));
    for (int64_t i = 0; i < n; i++) {
        const tp_event *e = tp_profile_event(p, i);
        if (e->parent >= 0)
            self[e->parent] -= duration(e);
        else
            t->watched += duration(e);
    }
    for (int64_t i = 0; i < n; i++) {
        const tp_event *e = tp_profile_event(p, i);
        row *r = row_named(t, e->name);
        r->calls++;
        r->self += self[i];
        r->total += duration(e);
        r->bytes += e->bytes > 0 ? e->bytes : 0;
    }
    collect_activities(p, t);
    tpi_mfree(self);
    return true;
}

static int64_t key_of(const row *r, tp_profile_order order) {
    switch (order) {
    case TP_PROFILE_BY_TOTAL: return r->total;
    case TP_PROFILE_BY_CALLS: return r->calls;
    case TP_PROFILE_BY_MEMORY: return r->bytes;
    default: return r->self;
    }
}
static void sort_rows(table *t, tp_profile_order order) { /* falling, and in the order of their first call */
    for (int64_t i = 1; i < t->n; i++) {
        const row moved = t->rows[i];
        int64_t k = i;
        for (; k > 0 && key_of(&t->rows[k - 1], order) < key_of(&moved, order); k--) t->rows[k] = t->rows[k - 1];
        t->rows[k] = moved;
    }
}

static void add_table(text *out, const table *t, int64_t rows) {
    int width = 4;
    for (int64_t i = 0; i < rows; i++)
        if ((int)strlen(t->rows[i].name) > width) width = (int)strlen(t->rows[i].name);
    add(out, "%-*s  %7s  %12s  %12s  %8s  %12s", width, "name", "self %", "self us", "total us", "calls", "bytes");
    add(out, t->device ? "  %12s\n" : "\n", "device us");
    for (int64_t i = 0; i < rows; i++) {
        const row *r = &t->rows[i];
        add(out, "%-*s  %6.2f%%  %12.1f  %12.1f  %8" PRId64 "  %12" PRId64, width, r->name,
            t->watched ? 100.0 * (double)r->self / (double)t->watched : 0.0, (double)r->self / 1e3,
            (double)r->total / 1e3, r->calls, r->bytes);
        add(out, t->device ? "  %12.1f\n" : "\n", (double)r->device / 1e3);
    }
    add(out, "total: %.1f us\n", (double)t->watched / 1e3);
    if (t->device) add(out, "total of devices: %.1f us\n", (double)t->device / 1e3);
}

int64_t tp_profile_table(const tp_profile *profile, tp_profile_order order, int64_t rows, char *out, size_t room) {
    if (!TPI_GIVEN(profile, "a profile")) return -1;
    if (order < TP_PROFILE_BY_SELF || order > TP_PROFILE_BY_MEMORY || rows < 0) {
        tpi_fail(TP_ERR_VALUE, "argument '%s': got %lld", rows < 0 ? "rows" : "order",
                 (long long)(rows < 0 ? rows : (int64_t)order));
        return -1;
    }
    if (!out && room) {
        tpi_fail(TP_ERR_TYPE, "argument 'out': expected %zu bytes, got NULL", room);
        return -1;
    }
    table t;
    if (!collect(profile, &t)) return -1;
    sort_rows(&t, order);
    text s = {0};
    add_table(&s, &t, rows && rows < t.n ? rows : t.n);
    if (!s.failed && room) snprintf(out, room, "%s", s.s);
    const int64_t n = s.failed ? -1 : (int64_t)s.n;
    tpi_mfree(s.s);
    tpi_mfree(t.rows);
    return n;
}

bool tp_profile_print(const tp_profile *profile, tp_profile_order order, int64_t rows) {
    const int64_t n = tp_profile_table(profile, order, rows, NULL, 0);
    char *s = n >= 0 ? tpi_malloc((size_t)n + 1) : NULL;
    bool fine = s && tp_profile_table(profile, order, rows, s, (size_t)n + 1) >= 0;
    if (fine && fputs(s, stdout) < 0) fine = tpi_refuse(TP_ERR_IO, "the table could not be printed");
    tpi_mfree(s);
    return fine;
}

/* ---- traces ---- */
static void add_quoted(text *t, const char *s) {
    add(t, "\"");
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            add(t, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            add(t, "\\u%04x", *s);
        else
            add(t, "%c", *s);
    add(t, "\"");
}

static void add_event(text *t, const tp_profile *p, int64_t i) {
    static const char *const kinds[] = {"cpu_op", "backward", "user_annotation"};
    const tp_event *e = tp_profile_event(p, i);
    add(t, "%s{\"ph\": \"X\", \"cat\": \"%s\", \"name\": ", i ? ",\n" : "",
        kinds[e->kind <= TP_EVENT_RANGE ? e->kind : 0]);
    add_quoted(t, e->name);
    add(t, ", \"pid\": %d, \"tid\": %" PRId64 ", \"ts\": %.3f, \"dur\": %.3f, \"args\": {\"bytes\": %" PRId64,
        (int)getpid(), tp_profile_thread(p), (double)e->start / 1e3, (double)duration(e) / 1e3, e->bytes);
    if (e->sequence >= 0) add(t, ", \"Sequence number\": %" PRId64, e->sequence);
    if (e->ninputs) add(t, ", \"Input Dims\": [");
    for (int64_t k = 0; k < e->ninputs; k++) {
        tp_event_input in;
        if (!tp_profile_input(p, i, k, &in)) break;
        add(t, "%s[", k ? ", " : "");
        for (int64_t d = 0; in.dtype != TP_NO_DTYPE && d < in.shape.n; d++)
            add(t, "%s%" PRId64, d ? ", " : "", in.shape.v[d]);
        add(t, "]");
    }
    add(t, e->ninputs ? "]}}" : "}}");
}

/* What a GPU did: in a row of its stream, under a process that stands for the device. */
static void add_activity(text *t, const tp_profile *p, int64_t i) {
    static const char *const kinds[] = {"kernel", "kernel", "gpu_memcpy", "gpu_memset", "kernel"};
    const tp_activity *a = tp_profile_activity(p, i);
    add(t, ",\n{\"ph\": \"X\", \"cat\": \"%s\", \"name\": ", kinds[a->kind <= TP_ACTIVITY_GRAPH ? a->kind : 0]);
    add_quoted(t, a->name);
    add(t, ", \"pid\": %d, \"tid\": %" PRId64 ", \"ts\": %.3f, \"dur\": %.3f, ", a->device.index, a->stream,
        (double)a->start / 1e3, (double)(a->end - a->start) / 1e3);
    add(t, "\"args\": {\"device\": %d, \"stream\": %" PRId64 ", \"bytes\": %" PRId64 ", \"External id\": %" PRId64 "}}",
        a->device.index, a->stream, a->bytes, a->event + 1);
}

bool tp_profile_save_trace(const tp_profile *profile, const char *path) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_GIVEN(profile, "a profile") || !TPI_GIVEN(path, "a file's name")) return false;
    text t = {0};
    add(&t, "{\"schemaVersion\": 1, \"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
    for (int64_t i = 0; i < tp_profile_count(profile); i++) add_event(&t, profile, i);
    for (int64_t i = 0; i < tp_profile_activity_count(profile); i++) add_activity(&t, profile, i);
    add(&t, "\n]}\n");
    const void *piece = t.s;
    const int64_t bytes = (int64_t)t.n;
    bool fine = !t.failed && tp_write_pieces(path, 1, &piece, &bytes);
    tpi_mfree(t.s);
    return fine;
}
