/* Event files: record files whose records are events (tensorflow.Event), named and started as TensorBoard expects. */
#include "autograd/glue.h"
#include "base/error.h"
#include "base/handle.h"
#include "tensor/check_arguments.h"
#include "base/memory.h"
#include "io/events/records.h"
#include "io/events/summary.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct tp_events {
    tp_records *file;
};

enum { WALL_TIME = 1, STEP = 2, FILE_VERSION = 3, SESSION_LOG = 7, SOURCE = 10 }; /* fields of an event */
static const char version[] = "brain.Event:2";

static double wall_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void begin(tpi_wire *w, double wall_time, int64_t step) {
    tpi_wire_double(w, WALL_TIME, wall_time ? wall_time : wall_clock());
    if (step != TP_NONE) tpi_wire_int(w, STEP, step);
}

static bool finish(tp_events *events, tpi_wire *w) { /* writes and frees the event */
    bool ok = !w->failed && tp_records_write(events->file, w->data, w->n);
    tpi_wire_free(w);
    return ok;
}

/* ---- Opening and closing ---- */

static bool make_folders(char *path) { /* with those above; path is as before when it returns */
    for (char *p = path + (*path == '/');; p++) {
        if (*p && *p != '/') continue;
        char end = *p;
        *p = 0;
        bool ok = mkdir(path, 0777) == 0 || errno == EEXIST;
        int error = errno;
        *p = end;
        if (!ok) return tpi_refuse(TP_ERR_IO, "could not make the folder '%s': %s", path, strerror(error));
        if (!end) return true;
        while (p[1] == '/') p++;
        if (!p[1]) return true;
    }
}

/* events.out.tfevents.TIME.HOST.PROCESS.NUMBER: no two writers of a cluster share a name. */
static tp_records *open_file(const char *folder, const tp_events_options *o) {
    static atomic_llong number;
    char host[256] = "localhost";
    if (gethostname(host, sizeof host) != 0) snprintf(host, sizeof host, "localhost");
    host[sizeof host - 1] = 0;
    const char *suffix = o->suffix ? o->suffix : "";
    size_t size = strlen(folder) + strlen(host) + strlen(suffix) + 128;
    char *path = tpi_malloc(size);
    tp_records *file = NULL;
    for (int tries = 0; path && !file && tries < 1000; tries++) {
        snprintf(path, size, "%s/events.out.tfevents.%010lld.%s.%ld.%lld%s", folder, (long long)time(NULL), host,
                 (long)getpid(), atomic_fetch_add(&number, 1), suffix);
        file = tpi_records_open(path, true, o->max_queue, o->flush_secs);
        if (!file && errno != EEXIST) break;
    }
    if (!file && tp_ok()) tpi_fail(TP_ERR_IO, "could not find a new name for an event file in '%s'", folder);
    tpi_mfree(path);
    return file;
}

static bool write_first(tp_events *w) {
    tpi_wire e = {0};
    begin(&e, 0, TP_NONE);
    tpi_wire_text(&e, FILE_VERSION, version);
    size_t source = tpi_wire_open(&e, SOURCE);
    tpi_wire_text(&e, 1, "taper");
    tpi_wire_close(&e, source);
    return finish(w, &e) && tp_records_flush(w->file); /* a reader sees the run from its start */
}

tp_events *tp_events_open_with(const char *folder, const tp_events_options *options) {
    if (!folder) return tpi_fail(TP_ERR_VALUE, "argument 'folder': expected a path, got none");
    tp_events_options o = {0};
    if (options) tpi_copy_options(&o, sizeof o, options, options->size);
    if (options && o.size <= 0) return NULL;
    char *path = tpi_strdup(*folder ? folder : ".");
    tp_events *w = path && make_folders(path) ? tpi_new0(sizeof *w) : NULL;
    if (w && (!(w->file = open_file(path, &o)) || !write_first(w))) {
        if (w->file) tp_records_close(w->file);
        tpi_delete(w, sizeof *w);
        w = NULL;
    }
    tpi_mfree(path);
    tpi_handle_made(w, "event file");
    return w;
}

const char *tp_events_path(const tp_events *w) {
    if (TPI_ENDED(w, "an event log")) return NULL;
    return w ? tpi_records_path(w->file) : NULL;
}
bool tp_events_flush(tp_events *w) { return TPI_GIVEN(w, "an event file") && tp_records_flush(w->file); }
bool tp_events_close(tp_events *w) {
    if (!w) return true;
    if (!TPI_ENDS(w, "w", "an event file")) return false;
    bool ok = tp_records_close(w->file);
    tpi_handle_delete(w, sizeof *w);
    return ok;
}

/* ---- Events ---- */

bool tp_events_purge(tp_events *w, int64_t step) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_GIVEN(w, "an event file")) return false;
    tpi_wire e = {0};
    begin(&e, 0, step);
    tpi_wire_text(&e, FILE_VERSION, version);
    if (!finish(w, &e)) return false;
    begin(&e, 0, step);
    size_t log = tpi_wire_open(&e, SESSION_LOG);
    tpi_wire_int(&e, 1, 1); /* START */
    tpi_wire_close(&e, log);
    return finish(w, &e);
}

bool tp_events_log_bytes(tp_events *w, tp_event_part part, const void *data, size_t bytes, int64_t step,
                         double wall_time) {
    TPI_STOP_ON_ERROR(false);
    if (!TPI_GIVEN(w, "an event file") || !TPI_LIST_GIVEN(data, (int64_t)bytes)) return false;
    tpi_wire e = {0};
    if (part == TP_EVENT_WHOLE)
        tpi_wire_raw(&e, data, bytes);
    else {
        begin(&e, wall_time, step);
        tpi_wire_bytes(&e, part, data, bytes);
    }
    return finish(w, &e);
}

bool tp_events_log_at(tp_events *w, tp_summary *summary, int64_t step, double wall_time) {
    if (!TPI_GIVEN(summary, "a summary")) return false;
    bool ok = tp_events_log_bytes(w, TP_EVENT_SUMMARY, summary->wire.data, summary->wire.n, step, wall_time);
    tp_summary_free(summary);
    return ok;
}
