/* Profiles: which operators a thread ran, when, for how long, on what shapes and with how much memory, which backward
 * nodes, and what GPUs did for them. */
#ifndef TAPER_PROFILE_H
#define TAPER_PROFILE_H
#include <taper/tensor.h>

TP_BEGIN

typedef enum tp_event_kind {
    TP_EVENT_OPERATOR, /* named as in the tables: "addmm", "add_", "max.dim" */
    TP_EVENT_BACKWARD, /* a node's turn in a backward: "AddmmBackward0" */
    TP_EVENT_RANGE     /* between tp_range_begin and tp_range_end */
} tp_event_kind;

typedef struct tp_event {
    const char *name;
    int64_t kind;       /* tp_event_kind */
    int64_t parent;     /* number of the event it ran in, -1 if in none */
    int64_t start, end; /* nanoseconds of the monotonic clock; end 0: it has not ended */
    int64_t sequence; /* a backward node's number; the number of the next node when an operator was called, -1 without a
                         tape */
    int64_t bytes;    /* of tensors' memory, taken less given back while it ran */
    int64_t ninputs;  /* one per argument, if shapes were asked for */
    void *note;       /* what the options' `note` gave */
    int64_t device_bytes;  /* of `bytes`: on other devices than the CPU */
    int64_t multiply_adds; /* of an operator's own products, if shapes were asked for; 0: none, or not known */
} tp_event;

typedef enum tp_activity_kind {
    TP_ACTIVITY_KERNEL,
    TP_ACTIVITY_LIBRARY, /* a call of a vendor's library whose kernels cannot be told apart */
    TP_ACTIVITY_COPY,
    TP_ACTIVITY_FILL,
    TP_ACTIVITY_GRAPH /* the replay of a captured graph, likewise */
} tp_activity_kind;

typedef struct tp_activity { /* what a GPU did */
    const char *name;        /* of a kernel: "taper_pointwise_add" */
    int64_t kind;            /* tp_activity_kind */
    tp_device device;
    int64_t stream;     /* a number for each stream of the device */
    int64_t start, end; /* nanoseconds of the monotonic clock */
    int64_t event;      /* number of the innermost event that launched it, -1: none of this profile did */
    int64_t bytes;      /* of copies and fills */
} tp_activity;

typedef struct tp_event_input {
    int64_t dtype; /* tp_dtype; TP_NO_DTYPE: not a tensor */
    tp_ints shape; /* of a tensor; the numbers themselves if the argument is whole numbers */
    int64_t
        count; /* of a list: how many of the inputs that follow are its entries; -1: not a list; -2: whole numbers */
} tp_event_input;

typedef struct tp_profile_options {
    int64_t size; /* sizeof(tp_profile_options) */
    bool shapes;  /* keep the inputs' shapes and dtypes */
    void *(*note)(
        void *context); /* NULL, or called when an event begins that is not inside an operator or a backward */
    void (*drop_note)(void *note);
    void *context;
    bool devices; /* time what GPUs do: stopping waits for what was launched */
} tp_profile_options;

/* A profile of this thread, from now until tp_profile_stop; a thread has one at a time. NULL on failure. */
typedef struct tp_profile tp_profile;
TP_API tp_profile *tp_profile_start(const tp_profile_options *options); /* NULL: the defaults */
TP_API bool tp_profile_stop(tp_profile *profile); /* on the thread that started it; what is still open ends now */
TP_API void tp_profile_free(tp_profile *profile); /* stops it first if it runs on this thread; NULL is fine */
TP_API int64_t tp_profile_count(const tp_profile *profile);                    /* events, in the order they began */
TP_API const tp_event *tp_profile_event(const tp_profile *profile, int64_t i); /* NULL and an error if there is none */
TP_API bool tp_profile_input(const tp_profile *profile, int64_t event, int64_t i,
                             tp_event_input *input); /* entries of lists count too */
/* What GPUs did, in the order in which it began; none before the profile is stopped. Through CUPTI, where it is found,
 * everything of the process is told, and else what this thread launched. */
TP_API int64_t tp_profile_activity_count(const tp_profile *profile);
TP_API const tp_activity *tp_profile_activity(const tp_profile *profile, int64_t i); /* NULL and an error: none */
TP_API int64_t tp_profile_lost(const tp_profile *profile);   /* events and activities for which there was no memory */
TP_API int64_t tp_profile_thread(const tp_profile *profile); /* the system's number of the thread */

/* ---- What a profile says ---- */
typedef enum tp_profile_order {
    TP_PROFILE_BY_SELF, /* the time in the event itself, without that of events inside of it */
    TP_PROFILE_BY_TOTAL,
    TP_PROFILE_BY_CALLS,
    TP_PROFILE_BY_MEMORY
} tp_profile_order;
/* A table of the events by name, the `rows` largest ones (0: all): share and time of their own, total, calls, memory.
 * Like snprintf: the length it needs; -1 and an error on failure. */
TP_API int64_t tp_profile_table(const tp_profile *profile, tp_profile_order order, int64_t rows, char *out,
                                size_t room);
TP_API bool tp_profile_print(const tp_profile *profile, tp_profile_order order, int64_t rows); /* to stdout */
/* The events as a trace that chrome://tracing and Perfetto open. The old file stays until the new one is complete. */
TP_API bool tp_profile_save_trace(const tp_profile *profile, const char *path);

/* A named range of the program; without a profile on this thread nothing happens. Returns what tp_range_end takes. */
TP_API int64_t tp_range_begin(const char *name);
TP_API void tp_range_end(int64_t range);

TP_END

/* What TP_DEFAULTS gives. */
#define TP_PROFILE_DEFAULTS_ .size = (int64_t)sizeof(tp_profile_options)
#endif
