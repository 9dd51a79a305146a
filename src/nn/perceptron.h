/* Several Linear and ReLU layers of a Sequential as one call. */
#ifndef TPI_PERCEPTRON_H
#define TPI_PERCEPTRON_H
#include "tensor/tensor.h"

enum { TPI_PERCEPTRON_LAYERS = 8 };

typedef struct tpi_perceptron {
    int n;       /* layers, */
    bool head;   /* of which the last has no ReLU */
    tp_tensor *weight[TPI_PERCEPTRON_LAYERS], *bias[TPI_PERCEPTRON_LAYERS]; /* borrowed; a bias may be NULL */
} tpi_perceptron;

/* One more layer, of those that can be shared behind the ones there are: false, and nothing is changed, if this one cannot. */
bool tpi_perceptron_add(tpi_perceptron *p, const tp_tensor *input, tp_tensor *weight, tp_tensor *bias, bool relu);
tp_tensor *tpi_perceptron_forward(const tpi_perceptron *p, tp_tensor *input); /* owned */
#endif
