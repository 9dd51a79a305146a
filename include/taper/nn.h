/* Modules: networks and their layers, with parameters, buffers and children under PyTorch's names.
 *
 *     tp_module *net = tp_nn_sequential(tp_nn_linear(784, 128), tp_nn_relu(), tp_nn_linear(128, 10));
 *     TP_SCOPE {
 *         tp_tensor *loss = tp_cross_entropy(tp_forward(net, images), labels);
 *         tp_backward(loss);
 *     }
 *     tp_module_release(net);
 *
 * The layers themselves are in layers.h, which this header includes: opgen writes it from tables/layers. A function
 * that makes a module hands the caller one reference; scopes own tensors only. A module that is given to another one
 * (as a child) belongs to it from then on, so that nested constructors need no names; on failure what was given is
 * released. */
#ifndef TAPER_NN_H
#define TAPER_NN_H
#include <taper/autograd.h>
#include <taper/call.h>

TP_BEGIN

typedef struct tp_module tp_module;
/* One more reference to the module, which it returns. */
TP_API tp_module *tp_module_retain(tp_module *m);
TP_API void tp_module_release(tp_module *m); /* NULL is fine */

/* ---- Calling ----
 * tp_forward(m, x) for one tensor as result; further inputs follow: tp_forward(loss, output, target), up to eight. What
 * may be left out is given as tp_value_none(). Results go to the innermost scope, as an operator's do. */
/* What tp_forward calls: the module with these arguments, for one result. */
TP_API tp_tensor *tp_forward_one(tp_module *m, int64_t nargs, const tp_value *args);
/* The same with several results: an LSTM gives its output, h_n and c_n. A result that is None has kind TP_K_NONE. */
TP_API bool tp_forward_values(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results);
#ifndef __cplusplus
#define tp_forward(m, ...) TP_CALL_BOXED_(tp_forward_one, m, __VA_ARGS__)
#endif

/* ---- One's own modules ----
 *     static tp_tensor *forward(tp_module *self, tp_tensor *x) {
 *         return tp_add(x, tp_forward(tp_module_child(self, "inner"), x));
 *     }
 *     tp_module *block = tp_module_new("Block", forward);
 *     tp_module_add(block, "inner", tp_nn_linear(8, 8));
 * forward runs in a scope of its own: nothing to release. */
TP_API tp_module *tp_module_new(const char *name, tp_tensor *(*forward)(tp_module *self, tp_tensor *input));
typedef bool (*tp_forward_function)(tp_module *self, int64_t nargs, const tp_value *args, int64_t nresults,
                                    tp_value *results);
TP_API tp_module *tp_module_new_values(const char *name, tp_forward_function forward); /* any inputs, any results */
/* Takes the child over, NULL included: then it fails with the error that left it NULL. A name that is taken is given
 * anew. */
TP_API bool tp_module_add(tp_module *m, const char *name, tp_module *child);
/* Hold a reference of their own. A parameter requires a gradient from then on. NULL keeps the name with nothing under
 * it. */
TP_API bool tp_module_add_parameter(tp_module *m, const char *name, tp_tensor *parameter);
TP_API bool tp_module_add_buffer(tp_module *m, const char *name, tp_tensor *buffer, bool persistent);
/* What the caller's forward needs besides; `release` (may be NULL) is called with it at the module's end. */
TP_API void tp_module_set_context(tp_module *m, void *context, void (*release)(void *context));
TP_API void *tp_module_context(const tp_module *m);

/* Modules called one after the other, under the names "0", "1", ... They are made from left to right, so that a seed
 * gives PyTorch's weights; arguments of other functions C and C++ evaluate in any order. */
TP_API tp_module *tp_nn_sequential_of(int64_t n, tp_module *const *modules); /* takes them over */
#ifndef __cplusplus
#define tp_nn_sequential(...)                                                                  \
    __extension__({                                                                            \
        tp_module *const tp_modules_[] = {__VA_ARGS__};                                        \
        tp_nn_sequential_of((int64_t)(sizeof tp_modules_ / sizeof *tp_modules_), tp_modules_); \
    })
#endif

/* `count` copies of a layer in a row under "layers.0", ..., and a norm (may be NULL) at the end: PyTorch's
 * TransformerEncoder and TransformerDecoder. Both modules are taken over. Inputs: (src, mask, src_key_padding_mask),
 * and (tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask). */
TP_API tp_module *tp_nn_transformer_encoder(tp_module *layer, int64_t count, tp_module *norm);
TP_API tp_module *tp_nn_transformer_decoder(tp_module *layer, int64_t count, tp_module *norm);
/* A copy with parameters, buffers and children of its own. A context of the caller's is not copied. */
TP_API tp_module *tp_module_clone(const tp_module *m);

/* ---- Looking ----
 * Paths are dotted, as in state_dict: "features.0.weight". What comes back is borrowed; NULL and an error if it is not
 * there. */
TP_API const char *tp_module_name(const tp_module *m); /* "Linear" */
TP_API tp_module *tp_module_child(tp_module *m, const char *path);
TP_API int64_t tp_module_child_count(const tp_module *m);
TP_API tp_module *tp_module_child_at(const tp_module *m, int64_t i, const char **name); /* name may be NULL */
TP_API tp_tensor *tp_module_tensor(tp_module *m, const char *path);                     /* a parameter or buffer */
TP_API tp_value tp_module_attribute(tp_module *m, const char *name); /* a layer's option, as PyTorch names it */

/* Named tensors in PyTorch's order. The arrays belong to the caller (tp_state_free); names and tensors live as long as
 * they do. */
typedef struct tp_state {
    const char **names;
    tp_tensor **tensors;
    int64_t n; /* -1: failed */
} tp_state;
TP_API tp_state tp_module_parameters(tp_module *m); /* each tensor once, under its first name */
TP_API tp_state tp_module_buffers(tp_module *m);
/* state_dict: parameters and persistent buffers, shared ones under every name */
TP_API tp_state tp_module_state(tp_module *m);
TP_API void tp_state_free(tp_state named);

/* Copies tensors into the parameters and buffers of the same names. Names that are missing or not known, and shapes
 * that differ, are an error that lists them all, and nothing is changed; with strict false, names may be missing or
 * unknown. */
TP_API bool tp_module_load(tp_module *m, int64_t n, const char *const *names, tp_tensor *const *tensors, bool strict);

/* The text that PyTorch prints, like snprintf: the length it needs; -1 and an error on failure. */
TP_API int64_t tp_module_format(tp_module *m, char *out, size_t room);
TP_API bool tp_module_print(tp_module *m); /* to stdout, with a newline */

/* ---- The whole tree ---- */
TP_API void tp_module_train(tp_module *m, bool on); /* false: evaluation */
/* Is the module in training, not in evaluation? */
TP_API bool tp_module_is_training(const tp_module *m);
/* Takes the gradients of all parameters away. */
TP_API bool tp_module_zero_grad(tp_module *m);
/* Has all parameters require gradients, or none. */
TP_API bool tp_module_requires_grad(tp_module *m, bool on);
TP_API bool tp_module_to(tp_module *m, tp_dtype dtype); /* floating parameters and buffers, in place */
/* All parameters and buffers with their gradients, in place: an optimiser that was made before holds them still. On
 * failure every tensor is whole, and where it was or there. */
TP_API bool tp_module_to_device(tp_module *m, tp_device device);
TP_API bool tp_module_reset(tp_module *m); /* draws a layer's parameters anew, and those of its children */

/* ---- Hooks ----
 * Called with each forward of the module, those inside of other modules included, in the order in which they were
 * added. A hook runs in a scope of its own and returns false to stop the forward, with an error if it has one. Adding
 * one returns a handle > 0; 0 on failure. release(context), if given, is called when the hook is removed or the module
 * ends; not on failure. Clones of a module have no hooks. */
/* Before: may put other values into args. */
typedef bool (*tp_prehook_fn)(tp_module *m, int64_t nargs, tp_value *args, void *context);
/* After: may put other tensors into results. */
typedef bool (*tp_forward_hook_fn)(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults,
                                   tp_value *results, void *context);
/* When the gradients with respect to the module's tensor inputs are there: grad_inputs has one entry per tensor among
 * the inputs, grad_outputs one per tensor among the results (NULL: none). TP_HOOK_REPLACE: it has filled all of
 * `replaced`, which stand for grad_inputs from then on, handing over references. PyTorch's register_full_backward_hook.
 */
typedef tp_hook_result (*tp_module_backward_fn)(tp_module *m, tp_tensors grad_inputs, tp_tensors grad_outputs,
                                                tp_tensor **replaced, void *context);
TP_API int64_t tp_module_add_prehook(tp_module *m, tp_prehook_fn fn, void *context, void (*release)(void *context));
TP_API int64_t tp_module_add_forward_hook(tp_module *m, tp_forward_hook_fn fn, void *context,
                                          void (*release)(void *context));
TP_API int64_t tp_module_add_backward_hook(tp_module *m, tp_module_backward_fn fn, void *context,
                                           void (*release)(void *context));
TP_API bool tp_module_remove_hook(tp_module *m, int64_t handle); /* of any kind */

/* ---- How parameters begin: PyTorch's nn.init, from the default generator, without a tape ---- */
/* Fills a tensor in place, as the function of that name in torch.nn.init. */
TP_API bool tp_init_constant(tp_tensor *t, double value);
TP_API bool tp_init_zeros(tp_tensor *t);
TP_API bool tp_init_ones(tp_tensor *t);
TP_API bool tp_init_zero_row(tp_tensor *t, int64_t row); /* row TP_NONE: none */
TP_API bool tp_init_uniform(tp_tensor *t, double low, double high);
TP_API bool tp_init_normal(tp_tensor *t, double mean, double std);
TP_API bool tp_init_xavier_uniform(tp_tensor *t, double gain);
TP_API bool tp_init_xavier_normal(tp_tensor *t, double gain);
TP_API bool tp_init_kaiming_uniform(tp_tensor *t, double negative_slope); /* fan_in, leaky_relu's gain */
TP_API bool tp_init_kaiming_normal(tp_tensor *t, double negative_slope);
/* The same with a choice: mode "fan_in" or "fan_out", nonlinearity as tp_init_gain takes it; NULL: "fan_in" and
 * "leaky_relu". */
TP_API bool tp_init_kaiming_uniform_for(tp_tensor *t, double negative_slope, const char *mode,
                                        const char *nonlinearity);
TP_API bool tp_init_kaiming_normal_for(tp_tensor *t, double negative_slope, const char *mode, const char *nonlinearity);
/* The gain of "linear", "conv2d", "sigmoid", "tanh", "relu", "selu", ... and "leaky_relu" with its slope (NaN: 0.01).
 * NaN and an error for others. */
TP_API double tp_init_gain(const char *nonlinearity, double negative_slope);
/* Normal, with what falls outside [low, high] drawn again. */
TP_API bool tp_init_trunc_normal(tp_tensor *t, double mean, double std, double low, double high);
TP_API bool tp_init_orthogonal(tp_tensor *t, double gain); /* (semi-)orthogonal; dims after the first count as one */
TP_API bool tp_init_eye(tp_tensor *t);                     /* the identity, of a matrix */
/* Convolution kernels (out, in, window...) that hand their input through, in each of the groups. */
TP_API bool tp_init_dirac(tp_tensor *t, int64_t groups);
/* A matrix of normal columns, each with that share of its elements zero. */
TP_API bool tp_init_sparse(tp_tensor *t, double sparsity, double std);

TP_END

#ifdef __cplusplus
static inline tp_tensor *tp_forward_boxed_(tp_module *m, std::initializer_list<tp_boxed_> inputs) {
    return tp_forward_one(m, (int64_t)inputs.size(), inputs.begin());
}
#define tp_forward(m, ...) tp_forward_boxed_(m, {__VA_ARGS__})
static inline tp_module *tp_nn_sequential_list_(std::initializer_list<tp_module *> modules) {
    return tp_nn_sequential_of((int64_t)modules.size(), modules.begin());
}
#define tp_nn_sequential(...) tp_nn_sequential_list_({__VA_ARGS__})
#endif

#include <taper/layers.h> /* generated from tables/layers */
#endif
