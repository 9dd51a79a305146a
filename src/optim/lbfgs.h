/* What L-BFGS and its line search share: the problem as a function along a direction. */
#ifndef TPI_LBFGS_H
#define TPI_LBFGS_H
#include "tensor/tensor.h"
#include <taper/optim.h>

typedef struct tpi_problem {
    tp_tensors params;
    tp_tensor **start; /* copies of the parameters: where the search begins */
    tp_loss_fn closure;
    void *context;
    double sign; /* -1 to maximise */
    int64_t evaluations;
} tpi_problem;

/* A point on the line through the start: its place, the loss there and its slope along the line, and the gradient
 * (owned). */
typedef struct tpi_point {
    double t, loss, slope;
    tp_tensor *grad;
} tpi_point;

/* Looks for a step length that meets the strong Wolfe conditions, beginning with `t`. from: the start. found: owned;
 * the parameters are at the start. */
bool tpi_strong_wolfe(tpi_problem *p, tp_tensor *direction, const tpi_point *from, double t, tpi_point *found);
/* The point at `t`; the parameters are at the start before and after. False: an error. */
bool tpi_evaluate_at(tpi_problem *p, tp_tensor *direction, double t, tpi_point *out);
double tpi_vector_max(tp_tensor *x); /* its largest magnitude */
double tpi_vector_dot(tp_tensor *a, tp_tensor *b);
#endif
