/* The gradients of rnn_linear, which are products of the same precision: rnn_linear themselves. */
#include "ops/native.h"
#include "ops/temporaries.h"
#include "tpi_ops.h"

tp_tensor *tpi_compose_rnn_linear_input_grad(tp_tensor *grad, tp_tensor *weight) {
    tp_tensor *columns = tpo_transpose(weight, 0, 1);
    return columns ? tpi_release_then(columns, tpo_rnn_linear(grad, columns, NULL)) : NULL;
}

/* grad (..., out) and input (..., in): the sum over all leading positions of grad x input. */
tp_tensor *tpi_compose_rnn_linear_weight_grad(tp_tensor *grad, tp_tensor *input) {
    int64_t out = grad->shape[grad->ndim - 1], in = input->shape[input->ndim - 1], rows = 1;
    for (int d = 0; d + 1 < input->ndim; d++) rows *= input->shape[d];
    tpi_temporaries temps = {0};
    bool matrices = grad->ndim == 2 && input->ndim == 2;
    tp_tensor *g = matrices ? grad : tpi_put(&temps, tpo_reshape(grad, TP_INTS(rows, out)));
    tp_tensor *x = matrices ? input : tpi_put(&temps, tpo_reshape(input, TP_INTS(rows, in)));
    tp_tensor *gates = g ? tpi_put(&temps, tpo_transpose(g, 0, 1)) : NULL;
    tp_tensor *columns = x ? tpi_put(&temps, tpo_transpose(x, 0, 1)) : NULL;
    return tpi_release_temporaries(&temps, gates && columns ? tpo_rnn_linear(gates, columns, NULL) : NULL);
}
