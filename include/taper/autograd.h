/* Reverse-mode differentiation: leaves, backward, hooks, scopes without a tape, custom functions, checkpointing. */
#ifndef TAPER_AUTOGRAD_H
#define TAPER_AUTOGRAD_H
#include <taper/tensor.h>

TP_BEGIN

TP_API bool tp_requires_grad(const tp_tensor *t);
/* Makes a leaf require gradients (or not); only floating and complex leaves can. Returns t, NULL on failure. */
TP_API tp_tensor *tp_set_requires_grad(tp_tensor *t, bool on);
TP_API bool tp_is_leaf(const tp_tensor *t);
TP_API const char *tp_grad_fn_name(const tp_tensor *t); /* "MulBackward0", NULL for leaves */
TP_API tp_tensor *tp_grad(const tp_tensor *t);          /* borrowed, NULL if there is none yet */
TP_API bool tp_set_grad(tp_tensor *t, tp_tensor *grad); /* NULL clears it; grad must have t's shape, dtype and device */
TP_API bool tp_zero_grad(tp_tensor *t);                 /* forgets the gradient */
TP_API bool tp_retain_grad(tp_tensor *t);               /* keep the gradient of a tensor that is not a leaf */
TP_API tp_tensor *tp_detach(tp_tensor *t);              /* the same data without history */
TP_API bool tp_detach_(tp_tensor *t);

typedef struct tp_backward_options {
    int64_t size;        /* sizeof(tp_backward_options) */
    tp_tensor *gradient; /* NULL: ones, for a one-element tensor */
    bool retain_graph;   /* keep what backward needs, for another backward */
    bool create_graph;   /* record the backward itself, for gradients of gradients (retains the graph too) */
} tp_backward_options;
TP_API bool tp_backward_with(tp_tensor *root, const tp_backward_options *options);
#ifdef __cplusplus
static inline bool tp_backward(tp_tensor *root, tp_backward_options o = tp_backward_options()) {
    o.size = (int64_t)sizeof o;
    return tp_backward_with(root, &o);
}
#else
#define tp_backward(...) TP_BACKWARD_(__VA_ARGS__, )
#define TP_BACKWARD_(root, ...) tp_backward_with(root, &(tp_backward_options){.size = (int64_t)sizeof(tp_backward_options), __VA_ARGS__})
#endif

/* Gradients of the outputs with respect to the inputs, without touching anybody's .grad. grad_outputs: NULL or one per output
 * (entries may be NULL). Fills grads with one tensor per input; an input that was not used gets NULL if allow_unused, else
 * it is an error. */
typedef struct tp_grad_options {
    int64_t size;
    bool retain_graph, create_graph, allow_unused;
} tp_grad_options;
TP_API bool tp_gradients(tp_tensors outputs, tp_tensors inputs, tp_tensor *const *grad_outputs, tp_tensor **grads, const tp_grad_options *options);

/* Scopes without a tape: TP_NO_GRAD { ... }, TP_INFERENCE { ... }; they may be left by break or return. */
typedef struct tp_grad_mode {
    bool grad_off, inference;
} tp_grad_mode;
TP_API tp_grad_mode tp_grad_mode_enter(bool grad_on, bool inference); /* returns what was before */
TP_API void tp_grad_mode_leave(tp_grad_mode *before);
TP_API bool tp_grad_enabled(void);
#define TP_GRAD_MODE_(on, inference) \
    for (tp_grad_mode tp_mode_here_ __attribute__((cleanup(tp_grad_mode_leave))) = tp_grad_mode_enter(on, inference), *tp_mode_once_ = &tp_mode_here_; \
         tp_mode_once_; tp_mode_once_ = NULL)
#define TP_NO_GRAD TP_GRAD_MODE_(false, false)
#define TP_ENABLE_GRAD TP_GRAD_MODE_(true, false)
#define TP_INFERENCE TP_GRAD_MODE_(false, true)

/* Hooks run when the tensor's gradient is ready, in the order they were added. A hook may return a new gradient, or NULL to leave it as
 * it is; an error it leaves stops the backward.
 * This and every other callback here runs in a scope of its own: what it makes and does not hand over is released. What it hands over is a
 * reference: a result of an operator, or a tensor it called tp_retain on. */
typedef tp_tensor *(*tp_hook_fn)(tp_tensor *grad, void *context);
TP_API int64_t tp_add_hook(tp_tensor *t, tp_hook_fn fn, void *context, void (*release)(void *context)); /* a handle > 0; 0 on failure */
TP_API bool tp_remove_hook(tp_tensor *t, int64_t handle);

/* A custom differentiable function. forward computes the outputs (it runs without a tape); backward gets one gradient per output
 * (NULL where none came) and fills one per input (NULL: none), handing over references. Both get the caller's context.
 * tp_function_save keeps tensors for backward, with the check that nobody changed them. The context
 * is the call's: release is called once, also when tp_apply fails after its arguments were checked. */
typedef struct tp_function_call tp_function_call;
typedef struct tp_function {
    int64_t size; /* sizeof(tp_function) */
    const char *name;
    bool (*forward)(tp_function_call *call, void *context, tp_tensors inputs, tp_tensor **outputs, int64_t noutputs);
    bool (*backward)(tp_function_call *call, void *context, tp_tensor *const *grads, int64_t noutputs, tp_tensor **grad_inputs, int64_t ninputs);
    void (*release)(void *context); /* when the graph lets go of the call; may be NULL */
} tp_function;
TP_API bool tp_function_save(tp_function_call *call, tp_tensors tensors);
TP_API tp_tensor *tp_function_saved(tp_function_call *call, int64_t i);      /* in backward */
TP_API bool tp_function_needs(const tp_function_call *call, int64_t input);  /* does this input need a gradient? */
TP_API void tp_function_mark_dirty(tp_function_call *call, int64_t input);   /* in forward: this input was written in place */
TP_API void tp_function_mark_nondiff(tp_function_call *call, int64_t output);
TP_API bool tp_apply(const tp_function *function, void *context, tp_tensors inputs, tp_tensor **outputs, int64_t noutputs);

/* Activation checkpointing: runs fn without a tape and again in backward, so that what lies between is not kept. The state of the
 * default random generator is put back for the second run. */
typedef tp_tensor *(*tp_segment_fn)(tp_tensors inputs, void *context);
TP_API tp_tensor *tp_checkpoint(tp_segment_fn fn, void *context, tp_tensors inputs);

/* Anomaly mode: backward stops at the first NaN and names the forward call that led to it. */
TP_API bool tp_anomaly_enabled(void);
TP_API void tp_set_anomaly(bool on);

TP_END
#endif
