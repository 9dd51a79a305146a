/* Event files, which TensorBoard and `taper watch` read: scalars, histograms, pictures, sound, text, hyperparameters
 * and more, by tag and step.
 *
 *     tp_events *log = tp_events_open("runs/first");
 *     for (int64_t step = 0; step < 100; step++) tp_log_scalar(log, "loss", loss, step);
 *     if (!tp_events_close(log)) fprintf(stderr, "%s\n", tp_error());
 *
 * A tp_summary is what is shown at one step, made by one of the functions below and handed to tp_events_log. NULL goes
 * through: a summary that could not be made is not written, and the error stays. All of it may be called from any
 * thread. */
#ifndef TAPER_EVENTS_H
#define TAPER_EVENTS_H
#include <taper/tensor.h>

TP_BEGIN

/* ---- The file ----
 * Records wait in memory and are written whole, so that a crash leaves a readable file: when max_queue of them wait,
 * when the first of them has waited for flush_secs, at tp_events_flush and tp_events_close, and at the end of the
 * process. */
typedef struct tp_events tp_events;
typedef struct tp_events_options {
    int64_t size;       /* sizeof(tp_events_options), set by the caller: fields are only ever added */
    int64_t max_queue;  /* 0: 10 */
    double flush_secs;  /* 0: 120 */
    const char *suffix; /* of the file's name; NULL: none */
} tp_events_options;
TP_API tp_events *tp_events_open_with(const char *folder,
                                      const tp_events_options *options); /* makes the folder; options may be NULL */
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
static inline bool tp_events_log(tp_events *w, tp_summary *summary, int64_t step) {
    return tp_events_log_at(w, summary, step, 0);
}
TP_API void tp_summary_free(tp_summary *summary); /* of one that is not logged; NULL is fine */
TP_API const void *tp_summary_bytes(const tp_summary *summary,
                                    size_t *bytes); /* as a protocol buffer (tensorflow.Summary) */
/* Bytes that are there already: a Summary, a GraphDef, or whole events. */
typedef enum tp_event_part { TP_EVENT_WHOLE = 0, TP_EVENT_GRAPH = 4, TP_EVENT_SUMMARY = 5 } tp_event_part;
TP_API bool tp_events_log_bytes(tp_events *w, tp_event_part part, const void *data, size_t bytes, int64_t step,
                                double wall_time);

/* ---- Record files: length, checksum, bytes, checksum, again and again (TensorFlow's TFRecord) ---- */
typedef struct tp_records tp_records;
/* Begins a file; one that is there is replaced. */
TP_API tp_records *tp_records_create(const char *path);
/* Appends one record. */
TP_API bool tp_records_write(tp_records *r, const void *data, size_t bytes);
/* Has what was written so far reach the file. */
TP_API bool tp_records_flush(tp_records *r);
TP_API bool tp_records_close(tp_records *r); /* frees r in any case; NULL is fine */

/* ---- What is shown ---- */
typedef struct tp_summary_scalar_options {
    int64_t size;
    bool as_tensor; /* in the newer way, as a tensor of the plugin "scalars" */
    bool as_double; /* the same in double precision */
    const char *display_name, *description;
} tp_summary_scalar_options;
/* A number under a tag. options may be NULL. */
TP_API tp_summary *tp_summary_scalar(const char *tag, double value, const tp_summary_scalar_options *options);

TP_API tp_summary *tp_summary_text(const char *tag, const char *text); /* Markdown */
/* A tensor as it is, under a tag. */
TP_API tp_summary *tp_summary_tensor(const char *tag, const tp_tensor *t);

typedef struct tp_summary_histogram_options {
    int64_t size;
    const char
        *rule; /* how bins are chosen: "tensorflow" (or NULL), or one of NumPy's: "auto", "fd", "doane", "scott", ... */
    int64_t bin_count; /* not 0: so many equal ones instead */
    tp_tensor *edges;  /* not NULL: these instead */
    int64_t max_bins;  /* not 0: neighbours are joined until about so many are left */
} tp_summary_histogram_options;
/* How often values come, in buckets. options may be NULL. */
TP_API tp_summary *tp_summary_histogram(const char *tag, const tp_tensor *values,
                                        const tp_summary_histogram_options *options);
/* One that was counted elsewhere: limits[i] is the upper edge of counts[i]. */
TP_API tp_summary *tp_summary_histogram_raw(const char *tag, double min, double max, double num, double sum,
                                            double sum_squares, tp_floats limits, tp_floats counts);

/* How precision and recall of predictions (from 0 to 1) of labels (0 or 1) go with the threshold. thresholds: 0 is 127,
 * which is the most; weights may be NULL. */
TP_API tp_summary *tp_summary_pr_curve(const char *tag, const tp_tensor *labels, const tp_tensor *predictions,
                                       int64_t thresholds, const tp_tensor *weights);
/* One that was counted elsewhere, (6, thresholds): true positives, false positives, true negatives, false negatives,
 * precision, recall. */
TP_API tp_summary *tp_summary_pr_curve_raw(const char *tag, const tp_tensor *rows);

/* Points in space (batch, n, 3), with colours (batch, n, 3) from 0 to 255 and faces (batch, m, 3) of three points each,
 * or NULL. config: JSON for the three.js scene, or NULL. */
TP_API tp_summary *tp_summary_mesh(const char *tag, const tp_tensor *vertices, const tp_tensor *colors,
                                   const tp_tensor *faces, const char *config);

/* Images: uint8 from 0 to 255, anything else from 0 to 1. The format's letters name the dims: CHW, HWC, HW, or with N
 * for several, which are laid out in rows of eight. One channel is shown as gray; three are RGB, four RGB and alpha. */
typedef struct tp_summary_image_options {
    int64_t size;
    const char *format;     /* NULL: "CHW" for three dims, "NCHW" for four, "HW" for two */
    const tp_tensor *boxes; /* not NULL: (n, 4) of left, top, right, bottom in pixels, drawn in red */
    double rescale;         /* not 0: the picture's size is multiplied */
} tp_summary_image_options;
TP_API tp_summary *tp_summary_image(const char *tag, const tp_tensor *image, const tp_summary_image_options *options);
/* Moving pictures (batch, frames, channels, height, width), shown side by side as an animated GIF. fps: frames per
 * second. */
TP_API tp_summary *tp_summary_video(const char *tag, const tp_tensor *video, double fps);
/* Sound (frames), or (channels, frames), from -1 to 1; beyond that it is cut. */
TP_API tp_summary *tp_summary_audio(const char *tag, const tp_tensor *sound, int64_t sample_rate);

/* ---- Hyperparameters ----
 * TensorBoard's page of a run's settings, with the metrics (tags of scalars) that they are judged by. */
typedef enum tp_setting_kind { TP_SETTING_TEXT = 1, TP_SETTING_BOOL = 2, TP_SETTING_NUMBER = 3 } tp_setting_kind;
typedef struct tp_setting {
    tp_setting_kind kind;
    double number; /* of numbers and truths */
    const char *text;
} tp_setting;
typedef struct tp_hparam {
    const char *name;
    tp_setting value;
    int64_t nchoices; /* the values it may have; 0: any */
    const tp_setting *choices;
} tp_hparam;
typedef enum tp_hparams_part { TP_HPARAMS_EXPERIMENT = 0, TP_HPARAMS_START, TP_HPARAMS_END } tp_hparams_part;
TP_API tp_summary *tp_summary_hparams(tp_hparams_part part, int64_t n, const tp_hparam *hparams, int64_t nmetrics,
                                      const char *const *metrics);
TP_API bool tp_log_hparams(tp_events *w, int64_t n, const tp_hparam *hparams, int64_t nmetrics,
                           const char *const *metrics); /* all three parts */

/* ---- Custom scalars: which scalars share a chart, in which category. A margin chart has three tags: value, lower,
 * upper. */
typedef struct tp_chart {
    const char *category, *title;
    bool margin;
    int64_t ntags;
    const char *const *tags;
} tp_chart;
TP_API tp_summary *tp_summary_custom_scalars(int64_t n,
                                             const tp_chart *charts); /* charts of a category follow each other */

/* ---- Graphs: nodes named by path ("net/conv1/weight"), each with the names of the nodes it reads ---- */
typedef struct tp_graph_node {
    const char *name, *op, *device, *detail; /* all but the name may be NULL */
    int64_t ninputs;
    const char *const *inputs;
    int64_t nshapes; /* of its results */
    const tp_ints *shapes;
} tp_graph_node;
/* An empty graph, and one more node for it. */
TP_API tp_summary *tp_graph_new(void);
TP_API bool tp_graph_add(tp_summary *graph, const tp_graph_node *node);
TP_API bool tp_log_graph(tp_events *w, tp_summary *graph); /* frees the graph */

#define tp_log_scalar(w, tag, value, step)     tp_events_log((w), tp_summary_scalar((tag), (value), NULL), (step))
#define tp_log_text(w, tag, text, step)        tp_events_log((w), tp_summary_text((tag), (text)), (step))
#define tp_log_tensor(w, tag, t, step)         tp_events_log((w), tp_summary_tensor((tag), (t)), (step))
#define tp_log_histogram(w, tag, values, step) tp_events_log((w), tp_summary_histogram((tag), (values), NULL), (step))
#define tp_log_pr_curve(w, tag, labels, predictions, step) \
    tp_events_log((w), tp_summary_pr_curve((tag), (labels), (predictions), 0, NULL), (step))
#define tp_log_image(w, tag, image, step)      tp_events_log((w), tp_summary_image((tag), (image), NULL), (step))
#define tp_log_video(w, tag, video, fps, step) tp_events_log((w), tp_summary_video((tag), (video), (fps)), (step))
#define tp_log_audio(w, tag, sound, sample_rate, step) \
    tp_events_log((w), tp_summary_audio((tag), (sound), (sample_rate)), (step))

/* ---- Reading scalars back, also from a file that is being written ---- */
typedef struct tp_event_file tp_event_file;
typedef struct tp_point {
    const char *tag; /* tag_bytes long, for the time of the call; NULL: the run goes on from `step`, what is there or
                        later is void */
    size_t tag_bytes;
    int64_t step;
    double wall_time, value;
} tp_point;
typedef void (*tp_point_fn)(const tp_point *point, void *context);
/* Opens a file of events for reading; it may still grow. */
TP_API tp_event_file *tp_event_file_open(const char *path);
/* Calls fn for each scalar since the last call. Bytes that are no whole record yet wait for the next one. */
TP_API bool tp_event_file_points(tp_event_file *f, tp_point_fn fn, void *context);
TP_API int64_t tp_event_file_damaged(const tp_event_file *f); /* records with wrong checksums so far */
TP_API void tp_event_file_close(tp_event_file *f);            /* NULL is fine */

TP_END

/* What TP_DEFAULTS gives. */
#define TP_EVENTS_DEFAULTS_            .size = (int64_t)sizeof(tp_events_options)
#define TP_SUMMARY_SCALAR_DEFAULTS_    .size = (int64_t)sizeof(tp_summary_scalar_options)
#define TP_SUMMARY_HISTOGRAM_DEFAULTS_ .size = (int64_t)sizeof(tp_summary_histogram_options)
#define TP_SUMMARY_IMAGE_DEFAULTS_     .size = (int64_t)sizeof(tp_summary_image_options)
#endif
