/* The tape. An operator whose inputs require gradients records a node: which backward function, edges to the nodes of its
 * inputs, and what backward needs (saved tensors with their versions, scalar attributes). The engine walks nodes from
 * the newest to the oldest; nothing in it recurses, neither the walk nor the freeing of a graph. */
#ifndef TPI_NODE_H
#define TPI_NODE_H
#include "tensor/tensor.h"

typedef struct tpi_node tpi_node;

typedef struct tpi_node_class {
    const char *name; /* "MulBackward0" */
    const char *op;   /* "mul" */
    /* grads: one per output of the forward call, NULL where none came (never all NULL). grad_inputs: one slot per edge,
     * NULL on entry; fill the slots for which tpi_node_needs() is true with owned references; NULL means no gradient.
     * false: an error is pending. */
    bool (*backward)(tpi_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs);
    void (*release)(tpi_node *node); /* frees what attrs point at, or NULL */
} tpi_node_class;

typedef struct tpi_edge {
    tpi_node *node; /* NULL: that input needs no gradient */
    uint32_t output;/* which output of that node the input was */
} tpi_edge;

/* Per tensor, once the tape or the user needs it. */
typedef struct tpi_autograd {
    tpi_node *grad_fn;      /* owned; NULL for leaves */
    uint32_t output;        /* which output of grad_fn */
    tpi_node *accumulator;  /* a leaf's accumulation node, borrowed (the node owns the leaf, not the other way round) */
    tp_tensor *grad;        /* owned */
    struct tpi_hook *hooks; /* tensor hooks, in order */
    bool retains_grad;
    uint32_t view_version;  /* views: the storage's version when grad_fn was made */
} tpi_autograd;

/* ---- For generated code -------------------------------------------------------------------------------------------- */
extern _Thread_local bool tpi_grad_off; /* set inside no-grad scopes */

static inline bool tpi_tracks(const tp_tensor *t) { return t && t->requires_grad; }

/* nedges inputs, nsaved saved tensors, attr_bytes of attributes (zeroed), noutputs outputs. */
tpi_node *tpi_node_new(const tpi_node_class *cls, int nedges, int nsaved, size_t attr_bytes, int noutputs);
void tpi_node_edge(tpi_node *node, int i, tp_tensor *input); /* input may be NULL or not require a gradient */
bool tpi_node_save(tpi_node *node, int i, tp_tensor *t);     /* an input (t may be NULL: saved as "not given") */
bool tpi_node_save_output(tpi_node *node, int i, tp_tensor *t, int output);
/* Makes `t`, a fresh result, output number `output` of the node. The node is reference counted: each attach takes one;
 * the maker's own reference is dropped by tpi_node_done. Non-floating outputs are left alone. */
void tpi_node_attach(tpi_node *node, int output, tp_tensor *t);
/* The same after `t` was written in place: its history now goes through the node. For a view, the base's history is
 * rewritten (grad of the base = the old gradient with the view's part replaced), and the view's with it. */
bool tpi_node_attach_inplace(tpi_node *node, int output, tp_tensor *t);
void tpi_node_done(tpi_node *node);

void *tpi_node_attrs(tpi_node *node);
bool tpi_node_needs(const tpi_node *node, int i);      /* edge i leads somewhere */
/* The saved tensor, owned; NULL if it was saved as NULL (no error), or with an error if it was changed in place since, or the
 * graph was freed by an earlier backward. */
tp_tensor *tpi_node_saved(tpi_node *node, int i);

/* Before an in-place write to t: refuses a leaf that requires grad (in grad mode), tensors that overlap themselves
 * (expanded), and inference tensors outside of inference mode. */
bool tpi_check_inplace(tp_tensor *t);
/* out= forms do not differentiate: refuses if any of the tensors requires grad in grad mode. */
bool tpi_check_out(int n, tp_tensor *const *inputs, tp_tensor *out);

tpi_autograd *tpi_autograd_make(tp_tensor *t); /* the tensor's autograd part, made if missing; NULL and an error without memory */
#endif
