/* relu(linear(...)) as one operator, which Sequential calls where the two layers follow each other: one node of the tape, no result between them, and a
 * backward that makes the masked gradient, the bias's sums on the way, and two products. In a small network half of a step is what operators cost
 * besides their work. Large results, other dtypes and devices, and a backward that is itself recorded go through the operators it is made of. */
#include "ops/linear_relu.h"
#include "base/memory.h"
#include "base/threads.h"
#include "ops/bag.h"
#include "ops/gemm.h"
#include "ops/native.h"
#include "tensor/recorder.h"
#include "tensor/recording.h"
#include "tpi_ops.h"

enum { SMALL = 1 << 16 }; /* elements that one thread passes over */
tp_tensor *tpi_native_linear(tp_tensor *input, tp_tensor *weight, tp_tensor *bias); /* matmul.c */

static bool is_plain(const tp_tensor *t) { return t->ndim == 2 && t->dtype == TP_FLOAT32 && tpi_device(t).type == TP_CPU && tp_is_contiguous(t); }

static float *floats(const tp_tensor *t) { return (float *)(void *)t->data; }

/* A layer that two threads share: each has half of the outputs, and so of the weight's rows, of what is masked and of the bias's sums; of the input's gradient each
 * makes what comes by way of its outputs, and the two are added. So a thread's half of a weight, of its gradient and of the optimiser's state stays in its
 * cache from step to step: a line that the other one has read costs 16 ns to write again, which was more than all that sharing the work saved. */
typedef struct layer {
    int64_t rows, in, out;
    const float *grad, *result;
    float *masked, *sums, *rest; /* rest: the input's gradient by way of the second half of the outputs */
    tpi_gemm forward, input_grad, weight_grad; /* c is NULL: not wanted */
} layer;

static void forward_half(int64_t half, void *context) {
    const layer *l = context;
    int64_t first, n = tpi_gemm_half(l->out, half, &first);
    tpi_gemm g = tpi_gemm_columns(&l->forward, first, n);
    tpi_gemm_here(&g);
    TPI_ISA_PICK(tpi_relu_floats)(l->rows, n, l->out, g.c);
}

/* What is masked, the weight's gradient for these outputs, and their part of the input's. */
static void backward_half(int64_t half, void *context) {
    const layer *l = context;
    int64_t first, n = tpi_gemm_half(l->out, half, &first);
    TPI_ISA_PICK(tpi_relu_back_floats)(l->rows, n, l->out, l->grad + first, l->result + first, l->masked + first, l->sums + first);
    if (l->input_grad.c) {
        tpi_gemm g = l->input_grad;
        g.k = n, g.a += first, g.b += first * l->in;
        if (half) g.c = l->rest;
        tpi_gemm_here(&g);
    }
    if (l->weight_grad.c) {
        tpi_gemm g = tpi_gemm_rows(&l->weight_grad, first, n);
        tpi_gemm_here(&g);
    }
}

/* By whatever way suits its shape. */
static void multiply(const tpi_gemm *g) {
    tpi_multiply(&(tpi_product){.dtype = TP_FLOAT32, .batches = 1, .m = g->m, .n = g->n, .k = g->k, .a = {(const char *)g->a, 0, g->a_row, g->a_col},
                                .b = {(const char *)g->b, 0, g->b_row, g->b_col}, .c = (char *)g->c, .c_row = g->c_row, .alpha = tp_int(1), .beta = tp_int(0)});
}

static bool in_halves(int64_t rows, int64_t in, int64_t out) {
    return in > TPI_GEMM_WIDTH && out > TPI_GEMM_WIDTH && tpi_gemm_halves(rows, out, in);
}

static tp_tensor *forward_in_halves(tp_tensor *input, tp_tensor *weight, tp_tensor *bias) {
    int64_t rows = input->shape[0], in = input->shape[1], out = weight->shape[0];
    tp_tensor *result = tpi_empty(TP_INTS(rows, out), TP_FLOAT32, tpi_device(input));
    if (!result) return NULL;
    layer l = {.rows = rows, .in = in, .out = out,
               .forward = {.m = rows, .n = out, .k = in, .a = floats(input), .a_row = in, .a_col = 1, .b = floats(weight), .b_row = 1, .b_col = in,
                           .c = floats(result), .c_row = out, .alpha = 1, .every_row = bias ? floats(bias) : NULL}};
    tpi_parallel_for_brief(2, true, forward_half, &l);
    return result;
}

static bool is_plain_vector(const tp_tensor *t, int64_t n) {
    return t->ndim == 1 && t->shape[0] == n && t->dtype == TP_FLOAT32 && tpi_device(t).type == TP_CPU && tp_is_contiguous(t);
}

tp_tensor *tpi_native_linear_relu(tp_tensor *input, tp_tensor *weight, tp_tensor *bias) {
    if (is_plain(input) && is_plain(weight) && weight->shape[1] == input->shape[1] && in_halves(input->shape[0], input->shape[1], weight->shape[0]) &&
        (!bias || is_plain_vector(bias, weight->shape[0])))
        return forward_in_halves(input, weight, bias);
    tp_tensor *out = tpi_native_linear(input, weight, bias);
    if (!out) return NULL;
    if (!is_plain(out) || out->numel > SMALL) return tpo_relu_(out) ? out : tpi_after(out, NULL);
    TPI_ISA_PICK(tpi_relu_floats)(1, out->numel, out->numel, floats(out));
    return out;
}

static void backward(layer *l) {
    if (in_halves(l->rows, l->in, l->out)) {
        tpi_parallel_for_brief(2, true, backward_half, l);
        if (l->input_grad.c) TPI_ISA_PICK(tpi_add_floats)(l->rows * l->in, l->rest, l->input_grad.c);
        return;
    }
    TPI_ISA_PICK(tpi_relu_back_floats)(l->rows, l->out, l->out, l->grad, l->result, l->masked, l->sums);
    if (l->input_grad.c) multiply(&l->input_grad);
    if (l->weight_grad.c) multiply(&l->weight_grad);
}

/* grad and result (rows, out), input (rows, in), weight (out, in). What is only needed here comes as one block of a size that no tensor of the layer has, so that
 * layers and steps that follow get the same one, whose halves are in the right caches. */
static bool small_backward(tp_tensor *grad, tp_tensor *result, tp_tensor *input, tp_tensor *weight, bool need_input, bool need_weight, tp_tensor **given) {
    int64_t rows = grad->shape[0], out = grad->shape[1], in = input->shape[1];
    size_t room = (size_t)(rows * (out > in ? out : in) * 5 / 2) * sizeof(float);
    float *masked = tpi_alloc(room);
    bool ok = masked && (given[2] = tpi_empty(TP_INTS(out), TP_FLOAT32, tpi_device(grad)));
    if (ok && need_input) ok = (given[0] = tpi_empty(TP_INTS(rows, in), TP_FLOAT32, tpi_device(grad))) != NULL;
    if (ok && need_weight) ok = (given[1] = tpi_empty(TP_INTS(out, in), TP_FLOAT32, tpi_device(grad))) != NULL;
    if (ok) {
        layer l = {.rows = rows, .in = in, .out = out, .grad = floats(grad), .result = floats(result), .masked = masked, .rest = masked + rows * out, .sums = floats(given[2]),
                   .input_grad = {.m = rows, .n = in, .k = out, .a = masked, .a_row = out, .a_col = 1, .b = floats(weight), .b_row = in, .b_col = 1,
                                  .c = need_input ? floats(given[0]) : NULL, .c_row = in, .alpha = 1},
                   .weight_grad = {.m = out, .n = in, .k = rows, .a = masked, .a_row = 1, .a_col = out, .b = floats(input), .b_row = in, .b_col = 1,
                                   .c = need_weight ? floats(given[1]) : NULL, .c_row = in, .alpha = 1}};
        backward(&l);
    }
    tpi_free(masked, room);
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
