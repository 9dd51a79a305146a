/* Reverse-mode differentiation: leaves, backward, hooks, scopes without a tape, nodes, custom functions, checkpointing.
 */
#ifndef TAPER_AUTOGRAD_H
#define TAPER_AUTOGRAD_H
#include <taper/tensor.h>

TP_BEGIN

/* Has it a history, or is it a leaf that takes a gradient? A view that was made without a tape answers as its base,
 * though operators on it are not recorded. */
TP_API bool tp_requires_grad(const tp_tensor *t);
/* Makes a leaf require gradients (or not); only floating and complex leaves can. Returns t, NULL on failure. */
TP_API tp_tensor *tp_set_requires_grad(tp_tensor *t, bool on);
/* True where no operator on the tape made it. */
TP_API bool tp_is_leaf(const tp_tensor *t);
TP_API const char *tp_grad_fn_name(const tp_tensor *t); /* "MulBackward0", NULL for leaves */
TP_API tp_tensor *tp_grad(const tp_tensor *t);          /* borrowed, NULL if there is none yet */
TP_API bool tp_set_grad(tp_tensor *t, tp_tensor *grad); /* NULL clears it; grad must have t's shape, dtype and device */
TP_API bool tp_zero_grad(tp_tensor *t);                 /* forgets the gradient */
TP_API bool tp_retain_grad(tp_tensor *t);               /* keep the gradient of a tensor that is not a leaf */
TP_API bool tp_retains_grad(const tp_tensor *t);        /* was tp_retain_grad called? Leaves answer false */
TP_API int64_t tp_output_nr(const tp_tensor *t);        /* which result of the call that made it; 0 for leaves */
TP_API bool tp_is_inference(const tp_tensor *t);        /* made in an inference scope */
TP_API bool tp_mark_written(tp_tensor *t); /* counts a write made through tp_data, so that the tape knows of it */
TP_API tp_tensor *tp_detach(tp_tensor *t); /* the same data without history */
TP_API bool tp_detach_(tp_tensor *t);

typedef struct tp_backward_options {
    TP_STRUCT_SIZE(tp_backward_options); /* sizeof(tp_backward_options) */
    tp_tensor *gradient TP_MEMBER(NULL); /* NULL: ones, for a one-element tensor */
    bool retain_graph TP_MEMBER(false);  /* keep what backward needs, for another backward */
    bool create_graph
        TP_MEMBER(false); /* record the backward itself, for gradients of gradients (retains the graph too) */
    tp_tensors inputs TP_MEMBER({NULL, 0}); /* accumulate into these alone; none: into all leaves */
    TP_OPTIONS_GUARD_
} tp_backward_options;
/* Adds the gradients of root to .grad of the leaves that it was made from. tp_backward(loss) is enough for a loss of
 * one element. */
TP_API bool tp_backward_with(tp_tensor *root, const tp_backward_options *options);
/* The backward of several results at once. gradients: NULL or one per root (entries may be NULL: ones, for one-element
 * tensors); options may be NULL, their `gradient` does not count. */
TP_API bool tp_backward_many(tp_tensors roots, tp_tensor *const *gradients, const tp_backward_options *options);
#ifdef __cplusplus
static inline bool tp_backward(tp_tensor *root, const tp_backward_options &options = tp_backward_options()) {
    return tp_backward_with(root, &options);
}
#else
#define tp_backward(...)      TP_BACKWARD_(__VA_ARGS__, )
#define TP_BACKWARD_DEFAULTS_ .size = (int64_t)sizeof(tp_backward_options), .inputs = {.n = 0}
#define TP_BACKWARD_(root, ...) \
    TP_WITH_(tp_backward_options, tp_backward_with(root, &tp_o_), TP_BACKWARD_DEFAULTS_, __VA_ARGS__)
#endif

/* Gradients of the outputs with respect to the inputs, without touching anybody's .grad. grad_outputs: NULL or one per
 * output (entries may be NULL). Fills grads with one tensor per input; an input that was not used gets NULL if
 * allow_unused, else it is an error. */
typedef struct tp_grad_options {
    int64_t size; /* sizeof(tp_grad_options), as TP_DEFAULTS(GRAD) has it */
    bool retain_graph, create_graph, allow_unused;
    bool materialize_grads; /* an input that was not used gets zeros instead (allow_unused does not matter then) */
    bool stop_at_inputs; /* what an input was computed from counts for nothing: a gradient that has reached one goes no
                            further */
} tp_grad_options;
TP_API bool tp_gradients(tp_tensors outputs, tp_tensors inputs, tp_tensor *const *grad_outputs, tp_tensor **grads,
                         const tp_grad_options *options);

/* Blocks without a tape: TP_NO_GRAD { ... }, TP_INFERENCE { ... }; base.h says how blocks are left. TP_NO_GRAD_HERE;
 * and its like last until the end of the braces that they stand in. */
typedef struct tp_grad_mode {
    bool grad_off, inference;
} tp_grad_mode;
TP_API tp_grad_mode tp_grad_mode_enter(bool grad_on, bool inference); /* returns what was before */
TP_API void tp_grad_mode_leave(tp_grad_mode *before);
TP_API bool tp_grad_enabled(void);
/* of this thread, without a scope; inference scopes record nothing in any case */
TP_API void tp_set_grad_enabled(bool on);
TP_API bool tp_inference_enabled(void);
#define TP_GRAD_BLOCK_(name, enter) TP_BLOCK_(name, tp_grad_mode, tp_grad_mode_leave, enter)
#define TP_NO_GRAD                  TP_GRAD_BLOCK_("TP_NO_GRAD", tp_grad_mode_enter(false, false))
#define TP_ENABLE_GRAD              TP_GRAD_BLOCK_("TP_ENABLE_GRAD", tp_grad_mode_enter(true, false))
#define TP_INFERENCE                TP_GRAD_BLOCK_("TP_INFERENCE", tp_grad_mode_enter(false, true))
#define TP_NO_GRAD_HERE             TP_BLOCK_HERE_(tp_grad_mode, tp_grad_mode_leave, tp_grad_mode_enter(false, false))
#define TP_ENABLE_GRAD_HERE         TP_BLOCK_HERE_(tp_grad_mode, tp_grad_mode_leave, tp_grad_mode_enter(true, false))
#define TP_INFERENCE_HERE           TP_BLOCK_HERE_(tp_grad_mode, tp_grad_mode_leave, tp_grad_mode_enter(false, true))

/* Hooks run when the tensor's gradient is ready, in the order they were added. A hook may return a new gradient, or
 * NULL to leave it as it is; an error it leaves stops the backward. This and every other callback here runs in a scope
 * of its own: what it makes and does not hand over is released. What it hands over is a reference: a result of an
 * operator, or a tensor it called tp_retain on. */
typedef tp_tensor *(*tp_hook_fn)(tp_tensor *grad, void *context);
TP_API int64_t tp_add_hook(tp_tensor *t, tp_hook_fn fn, void *context,
                           void (*release)(void *context)); /* a handle > 0; 0 on failure */
TP_API bool tp_remove_hook(tp_tensor *t, int64_t handle);
/* Runs after a backward has added to the leaf's gradient. False stops the backward. tp_remove_hook removes these too.
 */
typedef bool (*tp_leaf_hook_fn)(tp_tensor *leaf, void *context);
TP_API bool tp_has_hooks(const tp_tensor *leaf); /* of either kind */
TP_API int64_t tp_add_accumulated_hook(tp_tensor *leaf, tp_leaf_hook_fn fn, void *context,
                                       void (*release)(void *context));

/* ---- The tape's nodes ----
 * A recorded call is a node; its edges lead to the nodes of its inputs, and to an "AccumulateGrad" node for a leaf. One
 * node has one address while anything holds it. Nodes are counted: functions that return one hand over a reference. */
typedef struct tp_node tp_node;
TP_API tp_node *tp_grad_fn(const tp_tensor *t); /* the node whose result t is; NULL for leaves */
/* the node through which gradients reach a leaf that requires them; NULL for a view made without a tape */
TP_API tp_node *tp_grad_accumulator(tp_tensor *leaf);
/* The node whose turn it is in the backward that runs on this thread, a reference for the caller; NULL without an error
 * where none runs. */
TP_API tp_node *tp_backward_node(void);
TP_API tp_node *tp_node_retain(tp_node *node);
TP_API void tp_node_release(tp_node *node);           /* NULL is fine */
TP_API const char *tp_node_name(const tp_node *node); /* "MulBackward0" */
/* grows with each call of the thread; UINT64_MAX for "AccumulateGrad" */
TP_API uint64_t tp_node_sequence(const tp_node *node);
TP_API int64_t tp_node_inputs(const tp_node *node); /* gradients that flow in: the results of the call */
TP_API int64_t tp_node_edges(const tp_node *node);  /* gradients that flow out: the tensors the call was given */
/* The node at the end of edge i, and which of its gradients goes in there; NULL: that input needs none (input_nr is 0
 * then). */
TP_API tp_node *tp_node_next(const tp_node *node, int64_t i, int64_t *input_nr);
/* of an "AccumulateGrad": the leaf, borrowed; NULL for others */
TP_API tp_tensor *tp_node_variable(const tp_node *node);
/* What the user says an input or a result is by its place on the tape: a tensor without elements of its own that stands
 * for that output of the node. */
TP_API tp_tensor *tp_node_output(tp_node *node, int64_t output);
/* What the node keeps for its backward: the slot of that name ("self", "result"), -1 if it has none; and the tensor of
 * a slot, NULL without an error if none was given. */
TP_API int64_t tp_node_find_saved(const tp_node *node, const char *name);
TP_API const char *tp_node_saved_names(const tp_node *node); /* of the slots in their order, a space between two */
TP_API tp_tensor *tp_node_saved(tp_node *node, int64_t slot);
/* Inside a backward of this thread: will it come to the node; does it keep the graph? */
TP_API bool tp_backward_runs(const tp_node *node);
TP_API bool tp_backward_keeps_graph(void);
/* Runs the node by itself: grads has tp_node_inputs entries (NULL: none), grad_inputs gets tp_node_edges. Hooks do not
 * run. */
TP_API bool tp_node_run(tp_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs);
TP_API void *tp_node_binding(const tp_node *node); /* as tp_binding of tensors; gone may not use the node */
TP_API bool tp_node_set_binding(tp_node *node, void *object, void (*gone)(void *object));

/* Hooks of a node. Before it runs: grad_inputs is empty, and the hook may replace grad_outputs. After it: the hook sees
 * both, and may replace grad_inputs. To replace, it fills all of `replaced` (NULL: no gradient), handing over
 * references. */
typedef enum tp_hook_result { TP_HOOK_FAILED = -1, TP_HOOK_KEEP = 0, TP_HOOK_REPLACE = 1 } tp_hook_result;
typedef tp_hook_result (*tp_node_hook_fn)(tp_tensors grad_inputs, tp_tensors grad_outputs, tp_tensor **replaced,
                                          void *context);
TP_API int64_t tp_node_add_hook(tp_node *node, tp_node_hook_fn fn, void *context,
                                void (*release)(void *context)); /* a handle > 0; 0 on failure */
TP_API int64_t tp_node_add_prehook(tp_node *node, tp_node_hook_fn fn, void *context, void (*release)(void *context));
TP_API bool tp_node_remove_hook(tp_node *node, int64_t handle); /* either kind */

/* ---- What is kept for backward, in other hands ----
 * While such hooks are pushed, each tensor that a call of this thread saves is packed into an object of the user's
 * instead, and unpacked when backward needs it. The innermost hooks count. They live until they are popped and no graph
 * needs them. An object that holds the very tensor it was given may keep the graph alive for ever, since that tensor
 * may be a result of the call: hold tp_detach(t). */
typedef struct tp_saved_hooks {
    int64_t size;                                      /* sizeof(tp_saved_hooks) */
    void *(*pack)(tp_tensor *t, void *context);        /* runs without a tape; NULL, or an error left: the call fails */
    tp_tensor *(*unpack)(void *packed, void *context); /* hands over a reference; the object stays */
    void (*drop)(void *packed, void *context);         /* the graph lets go of the object; may be NULL */
    void *context;
    void (*release)(void *context); /* once, at the end; may be NULL */
} tp_saved_hooks;
TP_API bool
tp_node_pack_saved(tp_node *node, int64_t slot,
                   const tp_saved_hooks *hooks); /* what the node has saved already goes through them from now on */
TP_API bool tp_push_saved_hooks(const tp_saved_hooks *hooks); /* on failure nothing is released */
/* Takes the hooks that were pushed last away again. */
TP_API bool tp_pop_saved_hooks(void);
/* Refuses tp_push_saved_hooks in this thread with that message, whose text is borrowed until then; NULL allows it
 * again. An error if hooks are pushed already. Returns what was set before. */
TP_API const char *tp_forbid_saved_hooks(const char *message);

/* A custom differentiable function. forward computes the outputs (it runs without a tape); backward gets one gradient
 * per output (NULL where none came) and fills one per input (NULL: none), handing over references. Both get the
 * caller's context. An output that forward leaves NULL is none. tp_function_save keeps tensors for backward, with the
 * check that nobody changed them. The context is the call's: release is called once, also when tp_apply fails after its
 * arguments were checked. */
typedef struct tp_function_call tp_function_call;
typedef struct tp_function {
    int64_t size; /* sizeof(tp_function) */
    const char *name;
    bool (*forward)(tp_function_call *call, void *context, tp_tensors inputs, tp_tensor **outputs, int64_t noutputs);
    bool (*backward)(tp_function_call *call, void *context, tp_tensor *const *grads, int64_t noutputs,
                     tp_tensor **grad_inputs, int64_t ninputs);
    void (*release)(void *context); /* when the graph lets go of the call; may be NULL */
} tp_function;
TP_API bool tp_function_save(tp_function_call *call,
                             tp_tensors tensors); /* in forward: inputs, results or others; entries may be NULL */
TP_API int64_t tp_function_saved_count(const tp_function_call *call);
TP_API tp_tensor *tp_function_saved(tp_function_call *call, int64_t i);     /* in backward */
TP_API bool tp_function_needs(const tp_function_call *call, int64_t input); /* does this input need a gradient? */
TP_API void tp_function_mark_dirty(tp_function_call *call,
                                   int64_t input); /* in forward: this input was written in place */
TP_API void tp_function_mark_nondiff(tp_function_call *call, int64_t output);
/* In forward: backward gets zeros instead of NULL where no gradient came. */
TP_API void tp_function_materialize(tp_function_call *call, bool on);
TP_API void *tp_function_context(const tp_function_call *call);
/* its node, a reference; NULL if the call is not recorded */
TP_API tp_node *tp_function_node(const tp_function_call *call);
TP_API tp_function_call *tp_node_function(const tp_node *node); /* the way back, borrowed; NULL for other nodes */
TP_API bool tp_apply(const tp_function *function, void *context, tp_tensors inputs, tp_tensor **outputs,
                     int64_t noutputs);

/* Activation checkpointing: runs fn without a tape and again in backward, so that what lies between is not kept. The
 * state of the default random generator is put back for the second run. */
typedef tp_tensor *(*tp_segment_fn)(tp_tensors inputs, void *context);
TP_API tp_tensor *tp_checkpoint(tp_segment_fn fn, void *context, tp_tensors inputs);

/* Anomaly mode: backward stops at the first NaN and names the forward call that led to it. */
TP_API bool tp_anomaly_enabled(void);
TP_API void tp_set_anomaly(bool on);
/* Does it look for NaN? It does unless told otherwise; failing calls are named in any case. */
TP_API bool tp_anomaly_checks_nan(void);
TP_API void tp_set_anomaly_checks_nan(bool on);
/* While anomaly mode is on, `record` is called for each recorded call and may return an object that tells where the
 * program was. When a node's backward fails, `describe` is called with the object of its forward call, after the error
 * was set: what it returns is added to the message (text that lives until its next call; NULL: nothing). `drop` is
 * called when the node goes. */
typedef struct tp_trace_hooks {
    int64_t size; /* sizeof(tp_trace_hooks) */
    void *(*record)(void *context);
    const char *(*describe)(void *trace, const tp_node *node, void *context);
    void (*drop)(void *trace, void *context);
    void *context;
} tp_trace_hooks;
TP_API bool tp_set_trace_hooks(const tp_trace_hooks *hooks); /* of the process; NULL: none for calls from now on */

/* ---- For language bindings ---- */
/* An opaque tensor has a shape and a history, but the binding computes with it: its object holds the elements in a form
 * of its own. The tape asks the binding's handler for what it would compute itself. `what` is "add" (a + b), "detach"
 * (a without history), "ones_like" or "clone" (of a); the handler gives an owned tensor, or NULL with an error pending.
 */
typedef tp_tensor *(*tp_opaque_fn)(const char *what, tp_tensor *a, tp_tensor *b);
TP_API bool tp_set_opaque(tp_tensor *t, bool opaque);
TP_API void tp_set_opaque_handler(
    tp_opaque_fn handler); /* of the process; NULL: none, and the tape computes with the tensors as they are */
TP_API void tp_watch_tape(
    bool on); /* from now on the handler is asked about tensors that are not opaque too; each true needs its false */

TP_END

/* What TP_DEFAULTS gives. */
#define TP_GRAD_DEFAULTS_ .size = (int64_t)sizeof(tp_grad_options)
#endif
