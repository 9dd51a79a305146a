/* Optimisers from the optimiser table: parameters in groups with options of their own, state per parameter, one call per step.
 *
 *     tp_optimiser *adam = tp_adam(TP_LIST(weight, bias), .lr = 1e-3);
 *     for (int step = 0; step < steps; step++) TP_SCOPE {
 *         tp_optimiser_zero_grad(adam);
 *         tp_backward(tp_mse_loss(tp_linear(x, weight, .bias = bias), y));
 *         tp_step(adam);
 *     }
 *     if (!tp_ok()) puts(tp_error());
 *     tp_optimiser_free(adam);
 */
#ifndef TAPER_OPTIM_H
#define TAPER_OPTIM_H
#include <taper/autograd.h>
#include <taper/tensor.h>

TP_BEGIN

/* ---- What an optimiser is: one stanza of tables/optimisers ------------------------------------------------------------- */
typedef enum tp_option_kind { TP_OPTION_FLOAT = 0, TP_OPTION_INT, TP_OPTION_BOOL, TP_OPTION_STRING } tp_option_kind;
typedef struct tp_option_info {
    const char *name;
    const char *default_value;   /* as Python writes it: "(0.9, 0.999)" */
    int64_t kind;                /* tp_option_kind */
    int64_t at, count;           /* its values' place among all values; count 0: accepted for PyTorch's sake, without a meaning here */
    bool is_list, keyword_only, fixed; /* fixed: not an argument of the constructor */
    const char *const *choices;  /* a string's value is 1 + the index in these (NULL at the end), 0 for none */
    const char *message;         /* for a string that is none of them */
} tp_option_info;

typedef struct tp_optimiser_kind {
    const char *name;            /* "AdamW" */
    const char *doc;
    const char *like;            /* the optimiser that this one is a variant of, or NULL */
    int64_t noptions, nvalues;
    const tp_option_info *options;
    const int64_t *group;        /* the options in the order in which PyTorch's parameter groups hold them */
    const double *defaults;      /* nvalues numbers; NaN: None */
    const char *const *values;   /* the values' names: "beta1" */
    int64_t nstates;
    const char *const *states;   /* "exp_avg" */
    bool early;                  /* state is made with the optimiser, not by its first step */
    const char *const *messages; /* of the checks, with {names} of values */
    const struct tpi_update_ops *ops;
} tp_optimiser_kind;
TP_API const tp_optimiser_kind *tp_optimiser_kind_named(const char *name); /* NULL, no error, if there is none */
TP_API int64_t tp_optimiser_kind_count(void);
TP_API const tp_optimiser_kind *tp_optimiser_kind_at(int64_t i);
/* The number of the first check that these values fail; -1: none. */
TP_API int64_t tp_optimiser_check(const tp_optimiser_kind *kind, const double *values);

/* One step for one group, for who keeps state himself: parameters without gradient (NULL) are left out. states: nstates entries per
 * parameter; one that is NULL is made where the optimiser needs it, and is the caller's. On failure nothing is changed or made. */
TP_API bool tp_optimiser_update(const tp_optimiser_kind *kind, const double *values, int64_t n, tp_tensor *const *params, tp_tensor *const *grads, tp_tensor **states);
/* Makes the state alone. */
TP_API bool tp_optimiser_start(const tp_optimiser_kind *kind, const double *values, int64_t n, tp_tensor *const *params, tp_tensor **states);

TP_END
#include <taper/optimisers.h> /* generated: tp_adam and its kin */
#endif
