/* Event files, which TensorBoard and `taper watch` read: scalars, histograms, pictures, sound, text, hyperparameters and more, by tag
 * and step.
 *
 *     tp_events *log = tp_events_open("runs/first");
 *     for (int64_t step = 0; step < 100; step++) tp_log_scalar(log, "loss", loss, step);
 *     if (!tp_events_close(log)) fprintf(stderr, "%s\n", tp_error());
 *
 * A tp_summary is what is shown at one step, made by one of the functions below and handed to tp_events_log. NULL goes through: a summary
 * that could not be made is not written, and the error stays. All of it may be called from any thread. */
#ifndef TAPER_EVENTS_H
#define TAPER_EVENTS_H
#include <taper/tensor.h>

TP_BEGIN

/* ---- The file ----------------------------------------------------------------------------------------------------------------
 * Records wait in memory and are written whole, so that a crash leaves a readable file: when max_queue of them wait, when the first of
 * them has waited for flush_secs, at tp_events_flush and tp_events_close, and at the end of the process. */
typedef struct tp_events tp_events;
typedef struct tp_events_options {
    int64_t size;       /* sizeof(tp_events_options), set by the caller: fields are only ever added */
    int64_t max_queue;  /* 0: 10 */
    double flush_secs;  /* 0: 120 */
    const char *suffix; /* of the file's name; NULL: none */
} tp_events_options;
TP_API tp_events *tp_events_open_with(const char *folder, const tp_events_options *options); /* makes the folder; options may be NULL */
static inline tp_events *tp_events_open(const char *folder) { return tp_events_open_with(folder, NULL); }
TP_API const char *tp_events_path(const tp_events *w); /* of the file */
/* A write that failed is reported here, and by the next call that would write. What waits stays and is tried again. */
TP_API bool tp_events_flush(tp_events *w);
TP_API bool tp_events_close(tp_events *w); /* frees w in any case; NULL is fine */
/* Says that a run goes on from `step`: readers drop what earlier files hold from there on. */
TP_API bool tp_events_purge(tp_events *w, int64_t step);

typedef struct tp_summary tp_summary;
/* Writes a summary and frees it. step may be TP_NONE. wall_time: seconds since 1970; 0: now. */
TP_API bool tp_events_log_at(tp_events *w, tp_summary *summary, int64_t step, double wall_time);
static inline bool tp_events_log(tp_events *w, tp_summary *summary, int64_t step) { return tp_events_log_at(w, summary, step, 0); }
TP_API void tp_summary_free(tp_summary *summary); /* of one that is not logged; NULL is fine */
TP_API const void *tp_summary_bytes(const tp_summary *summary, size_t *bytes); /* as a protocol buffer (tensorflow.Summary) */
/* Bytes that are there already: a Summary, a GraphDef, or whole events. */
typedef enum tp_event_part { TP_EVENT_WHOLE = 0, TP_EVENT_GRAPH = 4, TP_EVENT_SUMMARY = 5 } tp_event_part;
TP_API bool tp_events_log_bytes(tp_events *w, tp_event_part part, const void *data, size_t bytes, int64_t step, double wall_time);

/* ---- Record files: length, checksum, bytes, checksum, again and again (TensorFlow's TFRecord) ---------------------------------- */
typedef struct tp_records tp_records;
TP_API tp_records *tp_records_create(const char *path);
TP_API bool tp_records_write(tp_records *r, const void *data, size_t bytes);
TP_API bool tp_records_flush(tp_records *r);
TP_API bool tp_records_close(tp_records *r); /* frees r in any case; NULL is fine */

/* ---- What is shown ------------------------------------------------------------------------------------------------------------- */
typedef struct tp_scalar_options {
    int64_t size;
    bool as_tensor; /* in the newer way, as a tensor of the plugin "scalars" */
    bool as_double; /* the same in double precision */
    const char *display_name, *description;
} tp_scalar_options;
TP_API tp_summary *tp_summary_scalar(const char *tag, double value, const tp_scalar_options *options);

#define tp_log_scalar(w, tag, value, step) tp_events_log((w), tp_summary_scalar((tag), (value), NULL), (step))

TP_END
#endif
