/* The tape's insides, shared by the files of this folder: what a node holds, weak references, and runs of the engine.
 */
#ifndef TPI_TAPE_H
#define TPI_TAPE_H
#include <taper/autograd.h>
#include "autograd/node.h"

/* How a tensor is kept for backward. */
enum {
    TPI_SAVED_NONE,  /* not given */
    TPI_SAVED_LEAF,  /* a leaf that requires grad: itself */
    TPI_SAVED_ALIAS, /* another input: an alias without history, and the history it had, so that a later in-place write
                      * to the tensor, which may make it a result of this very node, makes no cycle */
    TPI_SAVED_OUTPUT /* a result: an alias without history; the node itself is its history */
};
typedef struct tpi_saved {
    union {
        tp_tensor *t;              /* owned; NULL once the graph was freed */
        struct tpi_packed *packed; /* the same in the user's hands */
    };
    tpi_node *fn;     /* TPI_SAVED_ALIAS: owned, NULL if it had no history */
    uint32_t output;  /* of fn, or of the node */
    uint32_t version; /* the tensor's, when it was saved */
    uint8_t kind;
    bool is_packed;
} tpi_saved;

/* What a gradient that flows into an output must look like, and who watches it. */
#define TPI_META_DIMS 4
typedef struct tpi_meta {
    int64_t *shape; /* ndim sizes: `inside`, or a block; NULL until something was attached */
    int64_t inside[TPI_META_DIMS];
    tp_device device;
    uint8_t dtype, ndim;
    struct tpi_hook *hooks;
    tpi_autograd *retainer;        /* owned: retain_grad puts the gradient there */
    struct tpi_gpu_stream *stream; /* on a GPU: where it was computed; NULL: the default one */
} tpi_meta;

/* One block: this header, the edges, the saved tensors, the outputs' metas, the attributes. */
struct tp_node {
    atomic_int refs;
    uint32_t nedges, nsaved, noutputs;
    const tpi_node_class *cls;
    const char *name;  /* PyTorch's name for it: the class's, or that of the composition it ended */
    uint64_t sequence; /* the thread's count of nodes: of what is ready, the newest runs first */
    size_t bytes;
    tpi_edge *edges;
    tpi_saved *saved;
    tpi_meta *metas;
    void *attrs;
    bool live;               /* some edge leads somewhere */
    bool failed;             /* an edge could not be made: an error was set */
    bool spent;              /* a backward that does not retain the graph went through it */
    bool last;               /* the backward that is at it does not: it may let go of what it saved as it goes */
    tpi_node *next;          /* in the list of nodes that wait to be freed */
    tpi_node *inner;         /* of a CopySlices node: the node of the call that wrote the view, owned */
    tpi_node *outer;         /* the way back: borrowed */
    struct tpi_extra *extra; /* NULL until something of it is needed */
};

/* What few nodes have. */
typedef struct tpi_extra {
    struct tpi_hook *before, *after; /* the user's hooks around the node's turn */
    void *binding;                   /* a language binding's object for the node, borrowed */
    void (*binding_gone)(void *binding);
    char *note;  /* anomaly mode: the forward call, from tpi_malloc */
    void *trace; /* and what the user's hooks recorded of it */
    const tp_trace_hooks *traced_by;
} tpi_extra;

static inline tpi_node *tpi_node_retain(tpi_node *node) {
    if (node) atomic_fetch_add_explicit(&node->refs, 1, memory_order_relaxed);
    return node;
}
static inline bool tpi_differentiable(const tp_tensor *t) {
    return tpi_dtype_category[t->dtype] & (TPI_CAT_FLOAT | TPI_CAT_COMPLEX);
}

/* ---- node.c ---- */
tpi_extra *tpi_node_extra(tpi_node *node); /* made if missing; NULL and an error without memory */
bool tpi_meta_set(tpi_meta *meta, const tp_tensor *t);
/* The call that a node records, as error messages name it: "Add" for AddBackward0, "Sum1" for SumBackward1. Written
 * into the buffer, which is returned. */
const char *tpi_node_forward_name(const tpi_node *node, char buffer[static 96]);
/* The history of t as an edge, owned; node NULL if it has none. False: an error is pending. */
bool tpi_history(tp_tensor *t, tpi_edge *edge);
/* Gives t the history (node, output); takes over the reference to node. */
void tpi_set_history(tp_tensor *t, tpi_autograd *ag, tpi_node *node, uint32_t output);
tpi_autograd *tpi_autograd_of(const tp_tensor *t); /* NULL if it has none yet */
void tpi_autograd_release(tpi_autograd *ag);

/* ---- streams.c: of importance once a program uses more than one stream of a GPU ---- */
enum { TPI_MET_MOST = 8 };
typedef struct tpi_met { /* streams that a run has waited for */
    struct {
        tp_device device;
        struct tpi_gpu_stream *stream;
    } with[TPI_MET_MOST];
    int n;
} tpi_met;
bool tpi_meet(tpi_met *met, const tpi_node *node); /* before its turn */
bool tpi_part(const tpi_met *met);                 /* at the end */

/* ---- saved_hooks.c ---- */
extern TPI_THREAD_LOCAL struct tpi_packers *tpi_packers_now; /* the hooks of the user's that save tensors; NULL: none */
static inline bool tpi_packs(const tp_tensor *t) { return tpi_packers_now && !(t->flags & TPI_WRAPPED); }
struct tpi_packed *tpi_pack(tp_tensor *t);
tp_tensor *tpi_unpack_packed(const struct tpi_packed *packed);
void tpi_packed_drop(struct tpi_packed *packed);

/* ---- saved.c ---- */
bool tpi_saved_input(tpi_saved *slot, tp_tensor *t);
bool tpi_saved_output(tpi_saved *slot, tp_tensor *t, uint32_t output);
tp_tensor *tpi_saved_get(tpi_node *node, const tpi_saved *slot);
void tpi_saved_drop(tpi_saved *slot);
void tpi_node_forget(tpi_node *node); /* drops what is saved, after a backward that does not retain the graph */

/* ---- inplace.c ---- */
bool tpi_view_is_stale(const tp_tensor *t); /* of a view: its base was written since its history was made */
bool tpi_view_refresh(tp_tensor *view);
/* A saved result of a call that wrote a view, with its history. elsewhere: it has the view's elements, but not its
 * place in the base. */
tp_tensor *tpi_unpack_slice(tpi_node *inner, tp_tensor *saved, bool elsewhere);
bool tpi_attach_inplace(tpi_node *node, int output, tp_tensor *t, int self_edge);
bool tpi_check_recorded_write(tp_tensor *t);
bool tpi_record_copy(tp_tensor *dst, tp_tensor *src); /* dst.copy_(src): recorded when the grad mode is on */

/* ---- leaf.c ---- */
bool tpi_is_tracked_leaf(const tp_tensor *t);
bool tpi_has_history(const tp_tensor *t); /* it goes on from t, leaves that require grad included */
bool tpi_accumulator(tp_tensor *leaf, tpi_edge *edge);
bool tpi_accumulate(tp_tensor *leaf, tp_tensor *g);    /* leaf.grad += g; g becomes leaf.grad if nobody else has it */
tp_tensor *tpi_accumulator_leaf(const tpi_node *node); /* NULL if the node is another kind */
bool tpi_keep_grad(tpi_autograd *ag, tp_tensor *grad); /* retain_grad's part of a backward */
void tpi_weak_lock(const void *key);                   /* short: spins; guards weak references and hook lists */
void tpi_weak_unlock(const void *key);

/* ---- hooks.c ---- */
typedef struct tpi_hook tpi_hook;
void tpi_hooks_free(tpi_hook *list);
/* Runs the hooks over *grad, which they may replace. False: an error is pending. */
bool tpi_hooks_run(tpi_hook **list, const tpi_meta *meta, tp_tensor **grad);
/* A leaf's, after its gradient was added to. */
bool tpi_leaf_hooks_run(tpi_hook **list, tp_tensor *leaf);
/* A node's, over n gradients, which they may replace: grad_outputs before it runs (then there are no grad_inputs),
 * grad_inputs after it. */
bool tpi_node_hooks_run(tpi_hook **list, tp_tensors grad_inputs, tp_tensors grad_outputs, int64_t n, tp_tensor **grads);
/* The release of a custom function's node; NULL for other nodes. custom.c */
void (*tpi_function_release(const tpi_node *node))(void *context);
/* A user's callback runs between two of these, in scopes of its own: whatever it makes and does not hand over is
 * released. */
typedef struct tpi_callback {
    tp_scope outer, inner;
    const char *op;
} tpi_callback;
tpi_callback tpi_callback_begin(void);
void tpi_callback_end(tpi_callback *callback, int64_t n,
                      tp_tensor **handed); /* what was handed over is the caller's afterwards */

/* ---- anomaly.c ---- */
extern atomic_bool tpi_anomaly;
bool tpi_note_begin(tpi_node *node);
void tpi_note_input(tpi_node *node, const tp_tensor *input);
void tpi_note_drop(tpi_extra *extra);
bool tpi_anomaly_check(const tpi_node *node, const tp_tensor *const *grad_inputs);
void tpi_anomaly_tell(const tpi_node *node); /* adds what is known of the forward call to the pending error */

/* ---- engine.c ---- */
typedef struct tpi_run_request {
    int64_t nroots;
    tp_tensor *const *roots;
    tp_tensor *const *root_grads; /* NULL or one per root, entries may be NULL: ones */
    int64_t ninputs;
    tp_tensor *const *inputs; /* whose gradients are wanted */
    tp_tensor **grads;        /* ninputs slots: owned references, NULL where nothing came */
    bool only_inputs;         /* walk what leads to the inputs alone; otherwise all, stopping at the inputs */
    bool accumulate;     /* with only_inputs: leaves among the inputs take their gradients themselves; grads is NULL */
    bool stop_at_inputs; /* with only_inputs: gradients that reach one go no further */
    bool retain_graph, create_graph;
    /* With stop_at_inputs, NULL or the function that takes an input's gradient part by part, in the order in which the
     * parts are added up, where several nodes lead to the input: `grads` has none then. It borrows the part. */
    bool (*record_part)(void *context, int64_t input, tp_tensor *part);
    void *context;
} tpi_run_request;
bool tpi_run(const tpi_run_request *request);
bool tpi_only_inputs_now(void); /* inside a run that leaves everybody's .grad alone */
/* Makes a gradient fit an output: summed down, cast, real part. Takes g over; NULL and an error if it cannot fit. */
tp_tensor *tpi_fit_grad(const tpi_meta *meta, tp_tensor *g, const tpi_node *from, int index);
/* Runs one node's backward function and makes what it gave fit. */
bool tpi_node_apply(tpi_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs);
/* From inside the backward of a node: adds a part to the gradient that edge leads to, now, instead of handing on the
 * sum of the parts at the end. False from tpi_run_accepts_parts: somebody looks at what the node makes, and wants sums.
 */
bool tpi_run_accepts_parts(const tpi_node *node);
bool tpi_run_add_part(tpi_node *node, int edge, tp_tensor *part); /* takes the part over */
bool tpi_run_needs(const tpi_node *node,
                   int edge); /* does the run in progress, if it is at this node, want that edge? */
#endif
