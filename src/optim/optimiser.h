/* The optimiser object of the C API: groups, each with its values, parameters and state. */
#ifndef TPI_OPTIMISER_H
#define TPI_OPTIMISER_H
#include "base/handle.h"
#include "optim/update.h"

typedef struct tpi_group {
    double *values;
    double initial_lr; /* where schedules began; NaN before the first */
    int64_t n;
    tp_tensor **params, **grads, **states; /* params and states are owned; grads is room for a step */
} tpi_group;

struct tp_optimiser {
    const tp_optimiser_kind *kind;
    double *defaults;
    uint32_t alive; /* base/handle.h */
    int64_t ngroups;
    tpi_group *groups;
    tp_update_group *update; /* room for a step */
    tp_lbfgs_memory *lbfgs;  /* its memory, for that kind alone */
};

/* What tp_adam and its kin call: values in the table's order. */
tp_optimiser *tpi_optimiser_new(const char *kind, tp_tensors params, const double *values);
/* The number of a string among an option's choices, 0 for NULL; an error if it is none of them. */
double tpi_option_choice(const char *kind, const char *option, const char *given);
#endif
