/* The thread's grad mode: whether operators are recorded on the tape, and whether their results belong to an inference
 * scope. Compositions may ask where they have a form that is not recorded. */
#ifndef TPI_GRAD_MODE_H
#define TPI_GRAD_MODE_H
#include "base/error.h"

/* Set inside no-grad and inference scopes, and in a backward without create_graph. */
extern TPI_THREAD_LOCAL bool tpi_grad_off;
extern TPI_THREAD_LOCAL bool tpi_inference; /* set inside inference scopes */
/* Tensors of inference scopes may be saved: the tape ends before the scope does. */
extern TPI_THREAD_LOCAL bool tpi_keeps_inference;
extern TPI_THREAD_LOCAL uint64_t tpi_nodes_made; /* by this thread; the next node's number is one more */
#endif
