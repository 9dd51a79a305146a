/* relu(linear(...)) as one operator, which Sequential calls where the two layers follow each other: one node of the tape, no result between them, and a
 * backward that makes the masked gradient, the bias's sums on the way, and two products. In a small network half of a step is what operators cost
 * besides their work. Large results, other dtypes and devices, and a backward that is itself recorded go through the operators it is made of. */
#include "ops/linear_relu.h"
#include "ops/bag.h"
#include "ops/blas.h"
#include "ops/native.h"
#include "tensor/recorder.h"
#include "tensor/recording.h"
#include "tpi_ops.h"

enum { SMALL = 1 << 16 }; /* elements that one thread passes over */
tp_tensor *tpi_native_linear(tp_tensor *input, tp_tensor *weight, tp_tensor *bias); /* matmul.c */

static bool is_plain(const tp_tensor *t) { return t->ndim == 2 && t->dtype == TP_FLOAT32 && tpi_device(t).type == TP_CPU && tp_is_contiguous(t); }

tp_tensor *tpi_native_linear_relu(tp_tensor *input, tp_tensor *weight, tp_tensor *bias) {
    tp_tensor *out = tpi_native_linear(input, weight, bias);
    if (!out) return NULL;
    if (!is_plain(out) || out->numel > SMALL) return tpo_relu_(out) ? out : tpi_after(out, NULL);
    TPI_ISA_PICK(tpi_relu_floats)(out->numel, (float *)(void *)out->data);
    return out;
}

/* c (m, n) of two contiguous matrices; a may be stored transposed. */
static tp_tensor *product_of(int64_t m, int64_t n, int64_t k, const tp_tensor *a, bool transposed, const tp_tensor *b) {
    tp_tensor *c = tpi_empty(TP_INTS(m, n), TP_FLOAT32, tpi_device(a));
    if (!c) return NULL;
    tpi_operand_matrix left = {a->data, 0, transposed ? 1 : k, transposed ? m : 1}, right = {b->data, 0, n, 1};
    tpi_multiply(&(tpi_product){.dtype = TP_FLOAT32, .batches = 1, .m = m, .n = n, .k = k, .a = left, .b = right, .c = c->data, .c_row = n > 1 ? n : 1,
                                .alpha = tp_int(1), .beta = tp_int(0)});
    return c;
}

/* grad and result (rows, out), input (rows, in), weight (out, in). */
static bool small_backward(tp_tensor *grad, tp_tensor *result, tp_tensor *input, tp_tensor *weight, bool need_input, bool need_weight, tp_tensor **given) {
    int64_t rows = grad->shape[0], out = grad->shape[1], in = input->shape[1];
    tp_tensor *masked = tpi_empty(tpi_shape(grad), TP_FLOAT32, tpi_device(grad)), *sums = tpi_empty(TP_INTS(out), TP_FLOAT32, tpi_device(grad));
    bool ok = masked && sums;
    if (ok) {
        TPI_ISA_PICK(tpi_relu_back_floats)(rows, out, (const float *)(const void *)grad->data, (const float *)(const void *)result->data, (float *)(void *)masked->data, (float *)(void *)sums->data);
        if (need_input) ok = (given[0] = product_of(rows, in, out, masked, false, weight)) != NULL;
        if (ok && need_weight) ok = (given[1] = product_of(out, in, rows, masked, true, input)) != NULL;
        given[2] = tpi_retain(sums);
    }
    tpi_release(masked);
    tpi_release(sums);
    return ok;
}

static bool composed_backward(tp_tensor *grad, tp_tensor *result, tp_tensor *input, tp_tensor *weight, bool need_input, bool need_weight, tp_tensor **given) {
    tpi_bag bag = {0};
    tp_tensor *masked = tpi_put(&bag, tpo_where(tpi_put(&bag, tpo_gt(result, TP_OPERAND(0))), TP_OPERAND(grad), TP_OPERAND(0)));
    if (masked && need_input) given[0] = tpo_linear_input_grad(masked, weight);
    if (masked && need_weight) given[1] = tpo_linear_weight_grad(masked, input, weight->ndim);
    given[2] = masked ? tpi_retain(masked) : NULL; /* summed down by the engine */
    tpi_empty_bag(&bag, NULL);
    return given[2] && (!need_input || given[0]) && (!need_weight || given[1]);
}

bool tpi_compose_linear_relu_backward(tp_tensor *grad, tp_tensor *result, tp_tensor *input, tp_tensor *weight, bool need_input, bool need_weight, tp_tensor **out) {
    bool alone = tpi_grad_off && !tpi_recording && is_plain(grad) && is_plain(result) && is_plain(input) && is_plain(weight) && grad->numel <= SMALL;
    out[0] = out[1] = out[2] = NULL;
    if ((alone ? small_backward : composed_backward)(grad, result, input, weight, need_input, need_weight, out)) return true;
    for (int i = 0; i < 3; i++) tpi_release(out[i]);
    return false;
}
