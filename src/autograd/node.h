/* The tape. An operator whose inputs require gradients records a node: which backward function, edges to the nodes of
 * its inputs, and what backward needs (saved tensors with their versions, scalar attributes). The engine walks nodes
 * from the newest to the oldest; nothing in it recurses, neither the walk nor the freeing of a graph. */
#ifndef TPI_NODE_H
#define TPI_NODE_H
#include "dispatch/grad_mode.h"
#include "tensor/tensor.h"

typedef struct tp_node tpi_node; /* the public tp_node */

typedef struct tpi_node_class {
    const char *name; /* "MulBackward0" */
    const char *op;   /* "mul" */
    /* grads: one per output of the forward call, NULL where none came (never all NULL). grad_inputs: one slot per edge,
     * NULL on entry; fill the slots for which tpi_node_needs() is true with owned references; NULL means no gradient.
     * false: an error is pending. */
    bool (*backward)(tpi_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs);
    void (*release)(tpi_node *node); /* frees what attrs point at, or NULL */
    /* Of a view that sees each element once at most: adds the gradient of what it sees to that part of `sum`, the
     * gradient that its input has so far. So what looks at a tensor part by part does not make a whole one for each.
     * NULL for others. */
    bool (*into)(tpi_node *node, tp_tensor *grad, tp_tensor *sum);
    const char *saved; /* what its saved tensors are called, slot by slot, a space between: "self other"; NULL: nobody
                          named them */
} tpi_node_class;

typedef struct tpi_edge {
    tpi_node *node;  /* NULL: that input needs no gradient */
    uint32_t output; /* which output of that node the input was */
} tpi_edge;

/* Per tensor, once the tape or the user needs it. The tensor holds one reference; with retain_grad, its node's output
 * another. */
typedef struct tpi_autograd {
    atomic_int refs;
    tpi_node *grad_fn;      /* owned; NULL for leaves */
    uint32_t output;        /* which output of grad_fn */
    tpi_node *accumulator;  /* a leaf's accumulation node, borrowed (the node owns the leaf, not the other way round) */
    tp_tensor *grad;        /* owned */
    struct tpi_hook *hooks; /* a leaf's hooks, in order; those of other tensors hang on their node's output */
    struct tpi_hook *after; /* a leaf's hooks that run when its gradient was added to */
    bool retains_grad;
    uint32_t view_version; /* views: the storage's version when grad_fn was made */
} tpi_autograd;

/* ---- For generated code ---- */
/* Tensor flags beside those of tensor.h: a view made without a tape, which has no history and may not get one by an
 * in-place write; a view that a custom function returned, whose history is that function's and may not be rewritten;
 * and one of several views that one call made (unbind, split), which may not be written in place where gradients flow.
 */
enum {
    TPI_OPAQUE = 8, /* a binding computes with it (tp_set_opaque) */
    TPI_MULTI_VIEW = 32,
    TPI_NO_GRAD_VIEW = 64,
    TPI_CUSTOM_VIEW = 128
};

/* Might a gradient flow to t? A view whose base got a history later, by an in-place write, counts: its own is made when
 * asked for. A yes may turn out to be wrong; then no edge of the node leads anywhere, and attaching leaves the results
 * alone. */
static inline bool tpi_tracks(const tp_tensor *t) {
    return t && (t->requires_grad || (t->base && t->base->requires_grad && !(t->flags & TPI_NO_GRAD_VIEW)));
}

/* Inference scopes: generated code calls tpi_mark_inference(result) on every result it allocates (views take the mark
 * from what they view). Such a tensor has no version and may not be saved for backward nor written outside of inference
 * scopes. */
static inline bool tpi_inference_on(void) { return tpi_inference; }
static inline void tpi_mark_inference(tp_tensor *t) {
    if (tpi_inference && t) t->flags |= TPI_INFERENCE | TPI_UNTRACKED;
}

/* A call is recorded like this: tpi_node_new; an edge for each tensor input and the inputs that backward needs (both
 * before anything is written in place); the forward computation, with tpi_touch after an in-place write; attach the
 * results; save results; release. A failure of tpi_node_edge (no memory) is kept in the node and reported by attach.
 *
 * nedges inputs, nsaved saved tensors, attr_bytes of attributes (zeroed), noutputs outputs. */
tpi_node *tpi_node_new(const tpi_node_class *cls, int nedges, int nsaved, size_t attr_bytes, int noutputs);
void tpi_node_edge(tpi_node *node, int i, tp_tensor *input); /* input may be NULL or not require a gradient */
bool tpi_node_save(tpi_node *node, int i, tp_tensor *t);     /* an input (t may be NULL: saved as "not given") */
bool tpi_node_save_output(tpi_node *node, int i, tp_tensor *t, int output);
/* Makes `t`, a fresh result, output number `output` of the node. The node is reference counted: each attach takes one;
 * the maker's own reference is dropped by tpi_node_release. Non-floating outputs are left alone. False: an error is
 * pending, and t has no history. */
bool tpi_node_attach(tpi_node *node, int output, tp_tensor *t);
/* The same after `t`, the input of edge 0, was written in place: its history now goes through the node. For a view, the
 * base's history is rewritten (grad of the base = the old gradient with the view's part replaced), and the view's with
 * it. */
bool tpi_node_attach_inplace(tpi_node *node, int output, tp_tensor *t);
/* A composition's result goes by `name`, which lives as long as the library; not when it is the composition's input,
 * handed through. */
void tpi_node_rename(tp_tensor *result, tp_tensor *input, const char *name);

void *tpi_node_attrs(tpi_node *node);
bool tpi_node_needs(const tpi_node *node, int i); /* edge i leads somewhere */
/* The saved tensor, owned; NULL if it was saved as NULL (no error), or with an error if it was changed in place since,
 * or the graph was freed by an earlier backward. */
tp_tensor *tpi_node_saved(tpi_node *node, int i);

/* For generated backward and in-place functions: zeros like output number `output`, where no gradient came but one is
 * needed; and a copy of t's data with t's history, for a backward that needs what an in-place write is about to
 * replace. Owned references. */
tp_tensor *tpi_node_zeros(tpi_node *node, int output);
tp_tensor *tpi_copy_for_backward(tp_tensor *t);

/* Before an in-place write to t: refuses, in grad mode, a leaf that requires grad, a view of one, and a view made
 * without a tape of something that requires grad; always, tensors that overlap themselves (expanded), and inference
 * tensors outside of inference scopes. */
bool tpi_check_inplace(tp_tensor *t);
bool tpi_check_inplace_expanded(
    tp_tensor *t); /* the same where several of its elements may share memory: fills, and views in place */
void tpi_mark_pieces(tp_tensors views, tp_tensor *of,
                     const char *node); /* views of one tensor that one call made; PyTorch's name of their node */
bool tpi_check_tracked_write(const tp_tensor *t); /* before a write that will be recorded, whatever made it so */
/* out= forms do not differentiate: refuses if any of the tensors requires grad in grad mode. */
bool tpi_check_out(int n, tp_tensor *const *inputs, tp_tensor *out);

/* The one way to a tensor's node: an owned reference, with the number of the output that t is. A leaf that requires
 * grad gives its accumulation node; a view whose base was written since gets its history anew. NULL: no gradient flows
 * to t, or an error is pending. */
tpi_node *tpi_grad_fn(tp_tensor *t, uint32_t *output);
void tpi_node_release(tpi_node *node); /* NULL is fine */

/* the tensor's autograd part, made if missing; NULL and an error without memory */
tpi_autograd *tpi_autograd_make(tp_tensor *t);

/* ---- What the tape needs of the operator layer. All return owned references, NULL with an error set; recorded like
 * any operator when the grad mode is on (a backward with create_graph).
 * ------------------------------------------------------ */
tp_tensor *tpi_sum_to(tp_tensor *t,
                      tp_ints shape); /* sums over the dims that broadcasting `shape` to t's added or stretched */
tp_tensor *tpi_to_dtype(tp_tensor *t, tp_dtype dtype);
/* What tensors ask of the tape (tensor/upcalls.h). node.c */
void tpi_history_free(tp_tensor *t);
void tpi_history_of_view(tp_tensor *view, tp_tensor *of);
tp_tensor *tpi_real_part(tp_tensor *t); /* of a complex tensor */
/* What the binding's handler makes of opaque tensors (tp_set_opaque), one of which the caller has seen. */
static inline bool tpi_opaque(const tp_tensor *t) { return (t->flags & TPI_OPAQUE) != 0; }
/* Does the binding's handler compute for the tape? With opaque tensors, and with all of them while it watches. */
extern _Atomic int tpi_watchers;
static inline bool tpi_asks(const tp_tensor *t) {
    return tpi_opaque(t) || atomic_load_explicit(&tpi_watchers, memory_order_relaxed) > 0;
}
tp_tensor *tpi_ask_opaque(const char *what, tp_tensor *a, tp_tensor *b);
tp_tensor *tpi_add_grads(tp_tensor *a, tp_tensor *b); /* a + b, same shape and dtype */
bool tpi_add_to_part(tp_tensor *sum, const struct tpi_geometry *part, tp_tensor *grad); /* the same for a view of sum */
bool tpi_clear_minus_zeros(tp_tensor *sum);                                             /* sum += 0 */
bool tpi_add_grads_into(tp_tensor *a,
                        tp_tensor *b); /* a += b on the data alone: no tape, a's version is the caller's affair */
tp_tensor *tpi_as_strided(tp_tensor *t, tp_ints shape, tp_ints strides,
                          int64_t offset); /* offset from the start of the storage */
/* The same as a view of g's dtype: t's, or its complex numbers as pairs of real ones, or its pairs as complex ones. */
tp_tensor *tpi_as_strided_as(tp_tensor *t, const struct tpi_geometry *g);
tp_tensor *
tpi_marked_view(tp_tensor *t); /* t's memory with the mark turned (tensor/tensor.h): its conjugate or negative */
#endif
