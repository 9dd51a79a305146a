/* Between scaled_dot_product_attention and the operator that computes it. */
#ifndef TPI_ATTENTION_H
#define TPI_ATTENTION_H
#include "base/error.h"

/* The thread is in an attention_forward whose caller drops the sums of exponentials unseen: they may be left unwritten.
 */
extern TPI_THREAD_LOCAL bool tpi_attention_alone;
#endif
