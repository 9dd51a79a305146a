/* Optimisers from the optimiser table: parameters in groups with options of their own, state per parameter, one call
 * per step.
 *
 *     tp_module *net = tp_nn_sequential(tp_nn_linear(2, 16), tp_nn_tanh(), tp_nn_linear(16, 1));
 *     tp_state all = tp_module_parameters(net);
 *     tp_optimiser *adam = tp_adam(tp_list(all.n, all.tensors), .lr = 1e-2);
 *     for (int step = 0; step < steps; step++) TP_SCOPE {
 *         tp_optimiser_zero_grad(adam);
 *         tp_backward(tp_mse_loss(tp_forward(net, x), y));
 *         tp_step(adam);
 *     }
 *     if (!tp_ok()) puts(tp_error());
 */
#ifndef TAPER_OPTIM_H
#define TAPER_OPTIM_H
#include <taper/autograd.h>
#include <taper/tensor.h>

TP_BEGIN

/* ---- What an optimiser is: one stanza of tables/optimisers ---- */
typedef enum tp_option_kind { TP_OPTION_FLOAT = 0, TP_OPTION_INT, TP_OPTION_BOOL, TP_OPTION_STRING } tp_option_kind;
typedef struct tp_option_info {
    const char *name;
    const char *default_value; /* as Python writes it: "(0.9, 0.999)" */
    int64_t kind;              /* tp_option_kind */
    int64_t at,
        count; /* its values' place among all values; count 0: accepted for PyTorch's sake, without a meaning here */
    bool is_list, keyword_only, fixed; /* fixed: not an argument of the constructor */
    const char *const *choices;        /* a string's value is 1 + the index in these (NULL at the end), 0 for none */
    const char *message;               /* for a string that is none of them */
} tp_option_info;

typedef struct tp_optimiser_kind {
    const char *name; /* "AdamW" */
    const char *doc;
    const char *like; /* the optimiser that this one is a variant of, or NULL */
    int64_t noptions, nvalues;
    const tp_option_info *options;
    const int64_t *group;      /* the options in the order in which PyTorch's parameter groups hold them */
    const double *defaults;    /* nvalues numbers; NaN: None */
    const char *const *values; /* the values' names: "beta1" */
    int64_t nstates;
    const char *const *states;   /* "exp_avg" */
    bool early;                  /* state is made with the optimiser, not by its first step */
    const char *const *messages; /* of the checks, with {names} of values */
    const struct tpi_update_ops *ops;
    const char
        *formula;     /* the update as Python source, for steps that autograd records; NULL where it is no expression */
    int64_t lr;       /* which value is the rate that schedules set */
    int64_t momentum; /* which value CyclicLR and OneCycleLR move against the rate; -1: none */
} tp_optimiser_kind;
TP_API const tp_optimiser_kind *tp_optimiser_kind_named(const char *name); /* NULL, no error, if there is none */
/* How many optimisers there are, and one of them by its number. */
TP_API int64_t tp_optimiser_kind_count(void);
TP_API const tp_optimiser_kind *tp_optimiser_kind_at(int64_t i);
/* The number of the first check that these values fail; -1: none. */
TP_API int64_t tp_optimiser_check(const tp_optimiser_kind *kind, const double *values);

/* One step, for who keeps parameters and state himself. Parameters without gradient (NULL) are left out. states:
 * nstates entries per parameter; one that is NULL is made where the optimiser needs it, and is the caller's. On failure
 * nothing is changed or made. */
typedef struct tp_update_group {
    const double *values; /* nvalues options */
    int64_t n;
    tp_tensor *const *params, *const *grads;
    tp_tensor **states;
} tp_update_group;
TP_API bool tp_optimiser_update(const tp_optimiser_kind *kind, int64_t ngroups, const tp_update_group *groups);
/* Makes the state alone, whatever the gradients (grads may be NULL). */
TP_API bool tp_optimiser_start(const tp_optimiser_kind *kind, int64_t ngroups, const tp_update_group *groups);

/* ---- Optimisers ----
 * tp_adam(params, ...) and its kin (taper/optimisers.h) make one; so does tp_optimiser_new by kind. It holds its
 * parameters and their state. */
typedef struct tp_optimiser tp_optimiser;
TP_API tp_optimiser *tp_optimiser_new(const tp_optimiser_kind *kind, tp_tensors params,
                                      const double *values); /* values NULL: the defaults */
TP_API void tp_optimiser_free(tp_optimiser *o);              /* NULL is fine */
TP_API const tp_optimiser_kind *tp_optimiser_kind_of(const tp_optimiser *o);

/* Updates the parameters that have a gradient. On failure nothing is changed. */
TP_API bool tp_step(tp_optimiser *o); /* in a graph (graph.h) each run steps again, with the options of the day; the
                                         optimiser must outlive it */
/* The same for optimisers that compute the loss several times in a step (LBFGS): closure clears the gradients, computes
 * the loss, calls backward and gives the loss; NULL or an error left stops the step. loss gets the first one; it may be
 * NULL. */
typedef tp_tensor *(*tp_closure_fn)(void *context);
TP_API bool tp_step_with(tp_optimiser *o, tp_closure_fn closure, void *context, double *loss);
TP_API bool tp_optimiser_zero_grad(tp_optimiser *o); /* forgets the gradients */

/* Groups: parameters with options of their own. The first is number 0; a new one begins with the options that the
 * optimiser was made with. */
TP_API int64_t tp_optimiser_add_group(tp_optimiser *o, tp_tensors params); /* its number; -1 on failure */
TP_API int64_t tp_optimiser_groups(const tp_optimiser *o);
TP_API tp_tensors tp_optimiser_params(const tp_optimiser *o, int64_t group); /* borrowed */
/* Options by their values' names ("lr", "beta1"); group -1 sets all groups. */
TP_API double tp_optimiser_option(const tp_optimiser *o, int64_t group,
                                  const char *name); /* NaN and an error if there is none */
TP_API bool tp_optimiser_set_option(tp_optimiser *o, int64_t group, const char *name, double value);

/* State by name, for checkpoints. param counts through all groups. Setting copies: the value must have the state's
 * shape. */
TP_API tp_tensor *tp_optimiser_state(const tp_optimiser *o, int64_t param,
                                     const char *name); /* borrowed; NULL, no error, while there is none */
TP_API bool tp_optimiser_set_state(tp_optimiser *o, int64_t param, const char *name, tp_tensor *value);

/* ---- L-BFGS for who keeps its memory himself ----
 * Vectors hold all parameters end to end, complex numbers as two reals. */
typedef struct tp_lbfgs_memory tp_lbfgs_memory;
typedef struct tp_lbfgs_state {
    int64_t size;                  /* sizeof(tp_lbfgs_state) */
    int64_t func_evals, n_iter;    /* closures called and directions taken so far */
    double t, h_diag, prev_loss;   /* the last step's length, the scale of the first direction, the last loss */
    tp_tensor *d, *prev_flat_grad; /* the last direction and gradient; NULL at the start */
    int64_t n;                     /* remembered steps, the oldest first: */
    tp_tensor *const *old_dirs, *const *old_stps; /* changes of the gradient and of the parameters */
    const double *ro;                             /* 1 over their products */
} tp_lbfgs_state;
TP_API tp_lbfgs_memory *tp_lbfgs_memory_new(void);
TP_API void tp_lbfgs_memory_free(tp_lbfgs_memory *memory);                      /* NULL is fine */
TP_API void tp_lbfgs_get(const tp_lbfgs_memory *memory, tp_lbfgs_state *state); /* everything in it is borrowed */
TP_API bool tp_lbfgs_set(tp_lbfgs_memory *memory, const tp_lbfgs_state *state); /* takes references of its own */
/* closure computes loss and gradients anew; false stops the step, which then leaves parameters and memory as they were.
 */
typedef bool (*tp_loss_fn)(void *context, double *loss);
TP_API bool tp_lbfgs_step(tp_lbfgs_memory *memory, const double *values, tp_tensors params, tp_loss_fn closure,
                          void *context, double *loss);

TP_END
#include <taper/optimisers.h> /* generated: tp_adam and its kin */
#endif
