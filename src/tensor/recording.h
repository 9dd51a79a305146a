/* Whether operators are recorded: the tape's own switch, which compositions may read where they have a form that is not
 * recorded. */
#ifndef TPI_RECORDING_H
#define TPI_RECORDING_H
#include "base/error.h"

extern TPI_THREAD_LOCAL bool
    tpi_grad_off; /* set inside no-grad and inference scopes, and in a backward without create_graph */
#endif
