/* A graph: the steps that a captured piece of a program ran, over numbered values. Shapes, dtypes and strides are
 * fixed; memory is not.
 *
 *   capture.c   records steps and values while the program runs
 *   gradients.c a backward among them, and the backward of what the program gave
 *   graph.c     a graph's memory; the plan of which value ends with which step
 *   passes/     what is done to a graph before it runs:
 *     slice_gradients.c     writes gradients of slices into one tensor
 *     casts.c     leaves out casts that a native's kernel does by itself
 *     fuse.c      joins chains of maps into block programs
 *     epilogues.c offers such programs to the GPU kernels that make what they read
 *     reuse.c     finds results that may be written over what they are made of
 *     branches.c  finds steps that do not depend on each other (step_work.c: how much each has to do)
 *   parallel_steps.c    runs such steps side by side
 *   gpu_segments.c      starts the steps on a GPU as one graph of its driver
 *   sizes.c     finds the graph for inputs of other sizes, where a file says how a graph follows them
 *   profile_steps.c     tells a profile of the steps that run
 *   run_steps.c    runs the steps; the tape's node of a run, whose backward runs the rest of the steps
 *
 * Values are tensors by what they look at. A tensor that shares memory with an earlier one is a view of that one,
 * whatever made it: views are no steps, and writes through one are seen through the others, as when the program ran. */
#ifndef TPI_GRAPH_H
#define TPI_GRAPH_H
#include <pthread.h>
#include <taper/call.h>
#include <taper/graph.h>
#include "base/served.h"
#include "device/block_program.h"
#include "tensor/recorder.h"
#include "tensor/same_device.h"

typedef enum tpi_value_kind {
    TPI_VALUE_INPUT,    /* a tensor that each run is given */
    TPI_VALUE_GRAD,     /* the gradient of a result: what the backward is given */
    TPI_VALUE_OUTSIDE,  /* a tensor of the program's that was there before: parameters, buffers */
    TPI_VALUE_CONSTANT, /* one that the program made from plain numbers; never written */
    TPI_VALUE_MADE,     /* by a step */
    TPI_VALUE_VIEW,     /* looks at the memory of another, which is no view */
    TPI_VALUE_LEAF_GRAD /* the gradient of an input or an outside tensor, whatever that is when a step reads it */
} tpi_value_kind;

typedef struct tpi_graph_value {
    uint8_t kind, dtype, ndim;
    bool wrapped;   /* a number in a tensor's clothes */
    int32_t of;     /* INPUT: its number. GRAD: of which result. VIEW: the value it looks at. LEAF_GRAD: the leaf */
    int64_t offset; /* VIEW: bytes from that one's first element */
    int64_t *dims;  /* sizes, then strides in elements */
    tp_device device;
    tp_tensor *tensor; /* OUTSIDE, CONSTANT: owned. The others': owned, while it is captured */
} tpi_graph_value;

typedef enum tpi_step_kind {
    TPI_STEP_MAP,
    TPI_STEP_FOLD,
    TPI_STEP_SCAN,
    TPI_STEP_COPY,
    TPI_STEP_FILL,
    TPI_STEP_CALL,
    TPI_STEP_PROGRAM,
    TPI_STEP_CUSTOM,     /* a function's, over tensors */
    TPI_STEP_ACCUMULATE, /* in: a leaf, a gradient. out: the leaf's gradient */
    TPI_STEP_FORGET,     /* in: a leaf. out: the gradient that it had, -1: nobody saw it */
    TPI_STEP_HAND_ON     /* in: a part of the gradient of a tracked tensor, added to what came to it before */
} tpi_step_kind;

typedef struct tpi_graph_step tpi_graph_step;
struct tpi_graph_step {
    uint8_t kind;
    bool inplace; /* MAP, CALL: writes out[0], which was there before. COPY and FILL write out[0] in any case */
    int16_t nin, nout;
    int32_t *in; /* values; -1: a number, or none. CALL: the tensors of all arguments in order */
    int32_t *out;
    const void *op;     /* tpi_map_op, tpi_fold_op, tpi_scan_op, tp_operator */
    tp_scalar *numbers; /* MAP: per input. FILL: the value */
    tp_scalar *params;  /* MAP, FOLD, SCAN */
    tp_ints dims;       /* FOLD; SCAN: one */
    bool keepdim;
    tp_dtype dtype; /* FOLD, SCAN */
    tp_value *args; /* CALL: one per argument; tensors are put in from `in` */
    tpi_program *program;
    struct tpi_graph_step *fold; /* PROGRAM: the fold that takes one of its values, NULL: none. Its results follow the
                                    program's own in `out` */
    int16_t fed;                 /* that value's operand; it has no memory if it is not in `out` */
    int32_t fed_value;
    struct tpi_graph_step *epilogue; /* CALL: a program over one of the call's results, which the native's kernel may
                                        run (device/epilogue.h). What it reads besides and makes stands behind the
                                        call's own in `in` and `out` */
    int32_t epilogue_of;             /* that result */
    bool epilogue_keeps;             /* others read it as well */
    int32_t tracked;                 /* HAND_ON: which of the graph's tracked tensors */
    struct tpi_graph_step *prologue; /* CALL: the program that makes one of its arguments, in the same way. What it
                                        reads and makes stands before the epilogue's */
    int32_t prologue_of;
    bool prologue_keeps;
    bool *prologue_declined; /* the native did not take it once, and is not asked again */
    const struct tpi_graph_custom *custom;
    struct tpi_graph_step *parts; /* PROGRAM: the maps that it is made of */
    int32_t ndead;                /* values that nobody reads after this step */
    int32_t *dead;
    int32_t *over; /* MAP, PROGRAM: per result of its own, 1 + the operand whose memory it may take over, 0: none; NULL:
                      none has one */
    /* Among branches: how many steps must be done before, those that wait for this one, and which of the branches'
     * `ends` it uses. */
    int32_t nbefore, nafter, nuses;
    int32_t *after, *uses;
};

/* Steps [from, to) that may run side by side, each when those that it depends on are done. */
typedef struct tpi_branches {
    int32_t from, to;
    int32_t width; /* threads that find work */
    bool brief;
    int32_t nends; /* values that end among these steps, and how many of the steps use each */
    int32_t *ends, *users;
    struct tpi_branches *next;
} tpi_branches;

typedef struct tpi_graph_custom { /* a custom step's function, dropped with the graph */
    tpi_custom what;
    struct tpi_graph_custom *next;
} tpi_graph_custom;

typedef struct tpi_graph_grad { /* before a run: has the leaf a gradient? */
    int32_t leaf;
    bool there;
    struct tpi_graph_grad *next;
} tpi_graph_grad;

typedef struct tpi_graph_memory { /* memory that goes all at once, with the graph */
    struct tpi_graph_memory_block *blocks;
} tpi_graph_memory;
void *tpi_graph_memory_alloc(tpi_graph_memory *memory, size_t bytes); /* zeroed; NULL and an error without memory */
void tpi_graph_memory_empty(tpi_graph_memory *memory);

/* Sizes that may change, of a graph from a file (sizes.c). A dim of an input is factor * symbol + offset. */
enum { TPI_SIZE_SYMBOLS = 64 }; /* the most that a graph has */
typedef struct tpi_size_symbol {
    const char *name;
    int64_t size, least, most; /* when it was captured; what it may be */
} tpi_size_symbol;
typedef struct tpi_symbolic_size {
    int32_t symbol; /* -1: the dim is always the same */
    int64_t factor, offset;
} tpi_symbolic_size;
typedef struct tpi_graph_sizes {
    int32_t nsymbols;
    tpi_size_symbol *symbols;
    tpi_symbolic_size **dims; /* per input, per dim */
    tp_compiled *(*make)(void *source, const tp_compiled *g,
                         const int64_t *sizes); /* a graph for these sizes, with the tensors of g; NULL and an error */
    void (*drop)(void *source);
    void *source;
    struct tpi_graph_kept *kept; /* graphs for other sizes, the last used one first */
    pthread_mutex_t lock;        /* of these, and of `make` */
} tpi_graph_sizes;

/* Steps [from, to) on one GPU that may be started as one graph of its driver (gpu_segments.c). */
typedef struct tpi_gpu_segment {
    struct tpi_gpu_segment *next;
    int32_t from, to;
    tp_device device;
    double bytes;                   /* of what its steps make */
    struct tpi_segment_read *reads; /* what is there before and used in it */
    int32_t nreads;
    struct tpi_segment_recording *recordings;
    int32_t nrecordings, nattempts; /* kept, and made or tried in all */
    int32_t nruns;                  /* step by step */
    bool never;                     /* something in it cannot be recorded */
    bool copies_results;            /* the program keeps small results: it gets copies */
    atomic_bool busy;               /* another thread is at it */
} tpi_gpu_segment;

struct tp_compiled {
    atomic_int refs;
    tpi_graph_memory memory;
    tpi_graph_value *values;
    int32_t nvalues, values_capacity;
    tpi_graph_step *steps;
    int32_t nsteps, steps_capacity;
    int32_t nforward; /* steps before the backward's */
    int32_t ninputs, noutputs;
    int32_t *inputs; /* values; -1: an input that no step saw */
    int32_t *outputs;
    bool *follows;    /* per output: does a gradient flow to it through the graph's node? */
    bool *spent;      /* per output: it has a history that a backward inside has used up */
    bool *tracks;     /* per output: it is an input or an outside tensor, or a view of one behind a backward,
                         and has its history */
    int32_t ntracked; /* tensors that gradients flow to: inputs and what was outside */
    int32_t *tracked, *gradients; /* values, and their gradients' (-1: none comes, or it comes by HAND_ON steps) */
    int32_t nsaved;
    int32_t *saved; /* what the backward reads of the forward */
    bool differentiable;
    bool writes;            /* some step writes a tensor that it did not make */
    tpi_branches *branches; /* in order */
    int32_t nwritten;       /* outside tensors that steps among the forward's branches write */
    int32_t *written;
    /* What must be as it was when captured. */
    bool grad_off, inference;
    tp_dtype default_dtype;
    bool *input_tracked;
    tpi_graph_grad *expected;
    tpi_graph_custom *customs;
    char *note;                /* what somebody saved with it */
    tpi_graph_sizes *sizes;    /* NULL: all are fixed */
    tpi_gpu_segment *segments; /* in order */
    tp_replay replay;
};

static inline tp_ints tpi_value_shape(const tpi_graph_value *v) { return (tp_ints){v->dims, v->ndim}; }
static inline tp_ints tpi_value_strides(const tpi_graph_value *v) { return (tp_ints){v->dims + v->ndim, v->ndim}; }
static inline bool tpi_value_is_like(const tpi_graph_value *v, const tp_tensor *t) { /* but for sizes and strides */
    return t->dtype == v->dtype && t->ndim == v->ndim && v->wrapped == !!(t->flags & TPI_WRAPPED) &&
           tpi_same_device(tpi_device(t), v->device);
}
/* A tensor that answers what a value looks like, and has no data. */
static inline tp_tensor tpi_value_as_tensor(const tpi_graph_value *v) {
    return (tp_tensor){.alive = TPI_ALIVE,
                       .dtype = v->dtype,
                       .ndim = v->ndim,
                       .flags = v->wrapped ? TPI_WRAPPED : 0,
                       .numel = tpi_numel_of(tpi_value_shape(v)),
                       .shape = v->dims,
                       .strides = v->dims + v->ndim};
}
static inline bool tpi_value_is_contiguous(const tpi_graph_value *v) {
    const tp_tensor t = tpi_value_as_tensor(v);
    return tp_is_contiguous(&t);
}
static inline int32_t tpi_value_root(const tp_compiled *g, int32_t v) {
    return g->values[v].kind == TPI_VALUE_VIEW ? g->values[v].of : v;
}

/* ---- graph.c ---- */
tp_compiled *tpi_graph_new(void);
int32_t tpi_graph_add_value(tp_compiled *g, const tpi_graph_value *value, tp_ints shape,
                            tp_ints strides);                                              /* -1 and an error */
tpi_graph_step *tpi_graph_add_step(tp_compiled *g, tpi_step_kind kind, int nin, int nout); /* NULL and an error */
/* The root that the step writes besides what it makes, -1: none; `which` counts them from 0. */
int32_t tpi_step_writes(const tp_compiled *g, const tpi_graph_step *s, int which);
/* Works out what the backward reads, and which values end with which step. */
bool tpi_graph_plan(tp_compiled *g);
/* ---- passes/reuse.c ---- */
bool tpi_graph_plan_reuse(tp_compiled *g);
/* ---- passes/step_work.c ---- */
/* About how long the step takes on one thread, in nanoseconds. */
double tpi_step_work(const tp_compiled *g, const tpi_graph_step *s);
/* ---- passes/branches.c ---- */
bool tpi_graph_find_branches(tp_compiled *g);
extern double tpi_branches_gain; /* nanoseconds that a run of steps must save to be taken for branches; tests set it */
/* ---- parallel_steps.c ---- */
typedef struct tpi_parallel_steps {
    const tp_compiled *g;
    bool (*step)(void *context, int32_t step); /* false: an error is set */
    void (*end)(void *context, int32_t value); /* nobody needs it any more */
    void *context;
} tpi_parallel_steps;
bool tpi_run_parallel_steps(const tpi_parallel_steps *how, const tpi_branches *b, int threads);
/* ---- gpu_segments.c ---- */
typedef struct tpi_segment_run {
    const tp_compiled *g;
    tp_tensor **slots;                         /* per value */
    bool (*step)(void *context, int32_t step); /* false: an error is set */
    void (*end)(void *context, int32_t value); /* nobody needs it any more */
    void *context;
} tpi_segment_run;
bool tpi_graph_find_segments(tp_compiled *g);
void tpi_graph_drop_segments(tp_compiled *g);
/* The steps as one; declined: they are to be run one by one. */
tpi_served tpi_run_segment(const tpi_segment_run *run, tpi_gpu_segment *segment);
/* ---- sizes.c ---- */
bool tpi_graph_set_sizes(
    tp_compiled *g,
    const tpi_graph_sizes *sizes); /* a copy, which owns the source; what it points to must live as long as g */
void tpi_graph_drop_sizes(tpi_graph_sizes *s);
tp_compiled *
tpi_graph_for(tp_compiled *g,
              tp_tensors inputs); /* of a graph that has sizes: the one to run, the caller's; NULL and an error */
bool tpi_sizes_fit(const tp_compiled *g, tp_tensors inputs);
void tpi_size_bounds(const tp_compiled *g, int64_t input, int dim, int64_t *least, int64_t *most);
/* ---- profile_steps.c ---- */
int64_t
tpi_watch_step(const tp_compiled *g,
               const tpi_graph_step *s); /* the event that the thread's profile has of it, to be ended; -1: none */
/* ---- passes/slice_gradients.c ---- */
bool tpi_graph_join_slice_gradients(tp_compiled *g);
/* ---- passes/casts.c ---- */
void tpi_graph_drop_casts(tp_compiled *g);
/* ---- passes/fuse.c ---- */
bool tpi_graph_fuse(tp_compiled *g);
/* ---- passes/epilogues.c ---- */
bool tpi_graph_find_epilogues(tp_compiled *g);
int32_t tpi_graph_prologue_value(const tp_compiled *g, const tpi_graph_step *s); /* which may have one; -1: none */
/* Inputs and results of a step without its epilogue's. */
int tpi_step_own_in(const tpi_graph_step *s);
int tpi_step_own_out(const tpi_graph_step *s);
/* What dtype an element-wise step computes in; false and an error where its operands do not fit the operator. */
bool tpi_map_step_settles(const tp_compiled *g, const tpi_graph_step *s, tp_dtype *dtype, tpi_ctype *compute);
#endif
