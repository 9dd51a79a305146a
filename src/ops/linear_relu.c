/* relu(linear(...)) as one operator, which Sequential calls where the two layers follow each other: one node of the tape, no result between them, and a
 * backward that makes the masked gradient, the bias's sums on the way, and two products. In a small network half of a step is what operators cost
 * besides their work. Large results, other dtypes and devices, and a backward that is itself recorded go through the operators it is made of. */
#include "ops/linear_relu.h"
#include "base/memory.h"
#include "ops/dense.h"
#include "ops/gemm.h"
#include "ops/native.h"
#include "tensor/recorder.h"
#include "tensor/recording.h"
#include "tpi_ops.h"

tp_tensor *tpi_native_linear(tp_tensor *input, tp_tensor *weight, tp_tensor *bias); /* matmul.c */

/* By whatever way suits its shape. */
static void multiply(const tpi_gemm *g) {
    tpi_multiply(&(tpi_product){.dtype = TP_FLOAT32, .batches = 1, .m = g->m, .n = g->n, .k = g->k, .a = {(const char *)g->a, 0, g->a_row, g->a_col},
                                .b = {(const char *)g->b, 0, g->b_row, g->b_col}, .c = (char *)g->c, .c_row = g->c_row, .alpha = tp_int(1), .beta = tp_int(0)});
}

static tp_tensor *forward_shared(tp_tensor *input, tp_tensor *weight, tp_tensor *bias) {
    int64_t rows = input->shape[0], in = input->shape[1], out = weight->shape[0];
    tp_tensor *result = tpi_empty(TP_INTS(rows, out), TP_FLOAT32, tpi_device(input));
    if (!result) return NULL;
    tpi_dense_layer only = {.in = in, .out = out, .weight = tpi_dense_floats(weight), .bias = bias ? tpi_dense_floats(bias) : NULL};
    tpi_dense_forward(&(tpi_dense){.rows = rows, .layers = 1, .layer = &only, .input = tpi_dense_floats(input), .result = tpi_dense_floats(result)});
    return result;
}

tp_tensor *tpi_native_linear_relu(tp_tensor *input, tp_tensor *weight, tp_tensor *bias) {
    if (tpi_dense_is_plain(input, 2) && tpi_dense_is_plain(weight, 2) && weight->shape[1] == input->shape[1] && tpi_dense_serves(input->shape[0], input->shape[1], weight->shape[0]) &&
        (!bias || (tpi_dense_is_plain(bias, 1) && bias->shape[0] == weight->shape[0])))
        return forward_shared(input, weight, bias);
    tp_tensor *out = tpi_native_linear(input, weight, bias);
    if (!out) return NULL;
    if (!tpi_dense_is_plain(out, 2) || out->numel > TPI_DENSE_SMALL) return tpo_relu_(out) ? out : tpi_after(out, NULL);
    TPI_ISA_PICK(tpi_relu_floats)(1, out->numel, out->numel, tpi_dense_floats(out));
    return out;
}

static bool backward_alone(const tpi_dense *d) {
    const tpi_dense_layer *l = d->layer;
    size_t room = (size_t)(d->rows * l->out) * sizeof(float);
    float *masked = tpi_alloc(room);
    if (!masked) return false;
    TPI_ISA_PICK(tpi_relu_back_floats)(d->rows, l->out, d->grad, NULL, l->out, d->result, l->out, masked, l->out, l->bias_grad);
    if (d->input_grad)
        multiply(&(tpi_gemm){.m = d->rows, .n = l->in, .k = l->out, .a = masked, .a_row = l->out, .a_col = 1, .b = l->weight, .b_row = l->in, .b_col = 1, .c = d->input_grad, .c_row = l->in});
    if (l->weight_grad)
        multiply(&(tpi_gemm){.m = l->out, .n = l->in, .k = d->rows, .a = masked, .a_row = 1, .a_col = l->out, .b = d->input, .b_row = l->in, .b_col = 1, .c = l->weight_grad, .c_row = l->in});
    tpi_free(masked, room);
    return true;
}

/* grad and result (rows, out), input (rows, in), weight (out, in). */
static bool small_backward(tp_tensor *grad, tp_tensor *result, tp_tensor *input, tp_tensor *weight, bool need_input, bool need_weight, tp_tensor **given) {
    int64_t rows = grad->shape[0], out = grad->shape[1], in = input->shape[1];
    bool ok = (given[2] = tpi_empty(TP_INTS(out), TP_FLOAT32, tpi_device(grad))) != NULL;
    if (ok && need_input) ok = (given[0] = tpi_empty(TP_INTS(rows, in), TP_FLOAT32, tpi_device(grad))) != NULL;
    if (ok && need_weight) ok = (given[1] = tpi_empty(TP_INTS(out, in), TP_FLOAT32, tpi_device(grad))) != NULL;
    if (!ok) return false;
    tpi_dense_layer only = {.in = in, .out = out, .weight = tpi_dense_floats(weight), .weight_grad = need_weight ? tpi_dense_floats(given[1]) : NULL, .bias_grad = tpi_dense_floats(given[2])};
    tpi_dense d = {.rows = rows, .layers = 1, .layer = &only, .input = tpi_dense_floats(input), .result = tpi_dense_floats(result), .grad = tpi_dense_floats(grad), .input_grad = need_input ? tpi_dense_floats(given[0]) : NULL};
    return (tpi_dense_serves(rows, in, out) ? tpi_dense_backward : backward_alone)(&d);
}

tp_tensor *tpi_behind_relu(tpi_bag *bag, tp_tensor *grad, tp_tensor *result) {
    tp_tensor *stops = tpi_put(bag, tpo_le(result, TP_OPERAND(0)));
    return stops ? tpi_put(bag, tpo_where(stops, TP_OPERAND(0), TP_OPERAND(grad))) : NULL;
}

static bool composed_backward(tp_tensor *grad, tp_tensor *result, tp_tensor *input, tp_tensor *weight, bool need_input, bool need_weight, tp_tensor **given) {
    tpi_bag bag = {0};
    tp_tensor *masked = tpi_behind_relu(&bag, grad, result);
    if (masked && need_input) given[0] = tpo_linear_input_grad(masked, weight);
    if (masked && need_weight) given[1] = tpo_linear_weight_grad(masked, input, weight->ndim);
    given[2] = masked ? tpi_retain(masked) : NULL; /* summed down by the engine */
    tpi_empty_bag(&bag, NULL);
    return given[2] && (!need_input || given[0]) && (!need_weight || given[1]);
}

bool tpi_compose_linear_relu_backward(tp_tensor *grad, tp_tensor *result, tp_tensor *input, tp_tensor *weight, bool need_input, bool need_weight, tp_tensor **out) {
    bool alone = tpi_grad_off && !tpi_recording && tpi_dense_is_plain(grad, 2) && tpi_dense_is_plain(result, 2) && tpi_dense_is_plain(input, 2) && tpi_dense_is_plain(weight, 2) && grad->numel <= TPI_DENSE_SMALL;
    out[0] = out[1] = out[2] = NULL;
    if ((alone ? small_backward : composed_backward)(grad, result, input, weight, need_input, need_weight, out)) return true;
    for (int i = 0; i < 3; i++) tpi_release(out[i]);
    return false;
}
