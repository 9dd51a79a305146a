/* linear of recurrent layers, and its gradients: linear in another precision (tpi_gpu_recurrent). */
#include "ops/native_gpu.h"
#include "ops/matmul/matmul_gpu.h"
#include "tpi_ops.h"

tp_tensor *tpi_native_linear(tp_tensor *input, tp_tensor *weight, tp_tensor *bias); /* matmul.c */

tpi_served tpi_gpu_rnn_linear(tp_tensor *input, tp_tensor *weight, tp_tensor *bias, tp_tensor **result) {
    bool before = tpi_gpu_recurrent(true);
    tp_tensor *out = tpi_native_linear(input, weight, bias);
    tpi_gpu_recurrent(before);
    return tpi_serve(out, result);
}

tp_tensor *tpi_compose_rnn_linear_input_grad(tp_tensor *grad, tp_tensor *weight) {
    bool before = tpi_gpu_recurrent(true);
    tp_tensor *out = tpo_linear_input_grad(grad, weight);
    tpi_gpu_recurrent(before);
    return out;
}

tp_tensor *tpi_compose_rnn_linear_weight_grad(tp_tensor *grad, tp_tensor *input) {
    bool before = tpi_gpu_recurrent(true);
    tp_tensor *out = tpo_linear_weight_grad(grad, input, 2);
    tpi_gpu_recurrent(before);
    return out;
}
