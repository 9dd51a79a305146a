/* The answer of whoever may decline a piece of work: a GPU's native, a vendor's library, one of several ways to compute
 * the same. After TPI_DECLINED nothing was done and no error stands: the next way is taken. After TPI_FAILED an error
 * stands, and the call is over. */
#ifndef TPI_SERVED_H
#define TPI_SERVED_H
#include <taper/tensor.h>

typedef enum tpi_served { TPI_FAILED = -1, TPI_DECLINED = 0, TPI_SERVED = 1 } tpi_served;

/* Nothing came of it: was it declined, or did it fail? */
static inline tpi_served tpi_not_served(void) { return tp_ok() ? TPI_DECLINED : TPI_FAILED; }

static inline tpi_served tpi_serve_if(bool done) { return done ? TPI_SERVED : tpi_not_served(); }

/* Hands over what was made; NULL: nothing was. */
static inline tpi_served tpi_serve(tp_tensor *made, tp_tensor **result) {
    *result = made;
    return tpi_serve_if(made != NULL);
}

static inline tpi_served tpi_serve_list(tp_tensors made, tp_tensors *result) {
    *result = made;
    return tpi_serve_if(made.v != NULL);
}
#endif
