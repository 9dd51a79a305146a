/* Small dense layers that two threads share: linear layers with a ReLU behind each, and possibly a last one of few outputs without, as one piece of work.
 *
 * Each thread has half of every layer's outputs, and so of the weight's rows, of what is masked and of the bias's sums; of the input's gradient each makes what
 * comes by way of its outputs, and the two are added where they are read. Of the last layer each has half of the inputs. So a thread's half of a weight, of its
 * gradient and of the optimiser's state stays in its cache from step to step: a line that the other one has read costs 16 ns to write again, which was more
 * than all that sharing the work saved. What one thread writes lies apart from what the other one does, not in the same rows: processors fetch the lines behind
 * those that are asked for, which would take them from the other one. The halves do not depend on the threads there are, nor do the bits. */
#ifndef TPI_DENSE_H
#define TPI_DENSE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tensor/tensor.h"

typedef struct tpi_dense_layer {
    int64_t in, out;
    const float *weight, *bias;     /* (out, in), (out); the bias may be NULL */
    float *weight_grad, *bias_grad; /* for a backward; the weight's may be NULL: not wanted */
} tpi_dense_layer;

typedef struct tpi_dense {
    int64_t rows;
    int layers;        /* with the head, which is the last layer if it has */
    bool head;         /* no ReLU behind it; its outputs are not cut */
    tpi_dense_layer *layer;
    const float *input; /* (rows, in of the first) */
    float *result;      /* (rows, out of the last); only read in a backward, and not where there is a head */
    float *between;     /* tpi_dense_between bytes: what layers give each other, from the forward to the backward; NULL for a single layer */
    const float *grad;  /* for a backward: of the result; */
    float *input_grad;  /* NULL: not wanted */
} tpi_dense;

enum { TPI_DENSE_SMALL = 1 << 16 }; /* elements of a result up to which a layer is small: one thread passes over them */

/* What such layers are made of: floats one behind the other, on the CPU. */
static inline bool tpi_dense_is_plain(const tp_tensor *t, int ndim) {
    return t->ndim == ndim && t->dtype == TP_FLOAT32 && tpi_device(t).type == TP_CPU && tp_is_contiguous(t);
}
static inline float *tpi_dense_floats(const tp_tensor *t) { return (float *)(void *)t->data; }

/* Is a layer with a ReLU worth sharing? May a layer be the head behind such ones? */
bool tpi_dense_serves(int64_t rows, int64_t in, int64_t out);
bool tpi_dense_serves_head(int64_t rows, int64_t in, int64_t out);
size_t tpi_dense_between(const tpi_dense *d);
void tpi_dense_forward(const tpi_dense *d);
bool tpi_dense_backward(const tpi_dense *d); /* false: no memory for what it needs on the way */
#endif
