/* The kinds of recurrent layers, as the attribute `mode` names them. */
#ifndef TPI_RECURRENT_H
#define TPI_RECURRENT_H
#include "nn/layer.h"

typedef struct tpi_recurrent_call {
    tp_tensor *x;           /* (steps, batch, features); rows of a packed sequence where batch_sizes is given */
    tp_tensor *batch_sizes; /* NULL: not packed */
    tp_tensor *states[2];   /* h and, for an LSTM, c */
    tp_tensors weights;
    bool bias, training, bidirectional, batch_first;
    int64_t layers;
    double dropout;
} tpi_recurrent_call;

/* With the module's attributes; states and batch sizes are not filled in. */
tpi_recurrent_call tpi_recurrent_call_of(const tp_module *m, tp_tensor *x, tp_tensors weights);

typedef struct tpi_recurrent_mode {
    const char *name;
    int gates, states;
    bool (*run)(const tpi_recurrent_call *c, tp_tensor **out); /* the output and the last states, owned */
} tpi_recurrent_mode;

const tpi_recurrent_mode *tpi_find_recurrent_mode(const char *name); /* NULL and an error: there is no such mode */
#endif
