/* A small perceptron is one node of the tape and two calls of ops/dense.h: between layers nothing is made, recorded or handed over but the numbers themselves,
 * which for a network of microseconds is half of a step. What is between layers is one block that only this node knows. A backward that is recorded
 * itself makes them again from the inputs, by operators. */
#include "nn/perceptron.h"
#include "autograd/glue.h"
#include "autograd/profile.h"
#include "autograd/tape.h"
#include "ops/dense.h"
#include "ops/linear_relu.h"
#include "tpi_ops.h"

bool tpi_perceptron_add(tpi_perceptron *p, const tp_tensor *input, tp_tensor *weight, tp_tensor *bias, bool relu) {
    if (tpi_packers_now) return false; /* what is between layers is no tensor that the user's hooks could make sense of */
    if (p->n == TPI_PERCEPTRON_LAYERS || p->head || tpi_detours || !tpi_dense_is_plain(input, 2) || !tpi_dense_is_plain(weight, 2) || (bias && !tpi_dense_is_plain(bias, 1))) return false;
    int64_t rows = input->shape[0], in = p->n ? p->weight[p->n - 1]->shape[0] : input->shape[1], out = weight->shape[0];
    if (weight->shape[1] != in || (bias && bias->shape[0] != out) || rows * out > TPI_DENSE_SMALL) return false;
    if (relu ? !tpi_dense_serves(rows, in, out) : !p->n || !tpi_dense_serves_head(rows, in, out)) return false;
    p->weight[p->n] = weight, p->bias[p->n] = bias, p->head = !relu, p->n++;
    return true;
}

/* ---- The work ---- */
typedef struct work {
    tpi_dense dense;
    tpi_dense_layer layer[TPI_PERCEPTRON_LAYERS];
} work;

static void set_up(work *w, int n, bool head, const tp_tensor *input, tp_tensor *const *weight) {
    w->dense = (tpi_dense){.rows = input->shape[0], .layers = n, .head = head, .input = tpi_dense_floats(input), .layer = w->layer};
    for (int l = 0; l < n; l++) w->layer[l] = (tpi_dense_layer){.in = weight[l]->shape[1], .out = weight[l]->shape[0], .weight = tpi_dense_floats(weight[l])};
}

/* ---- Backward, by operators: all that it takes is recorded ---- */
static bool recorded_backward(tpi_node *node, tp_tensor *grad, const tpi_perceptron *p, tp_tensor *input, tp_tensor **grad_inputs) {
    tpi_bag bag = {0};
    tp_tensor *at[TPI_PERCEPTRON_LAYERS + 1] = {input}; /* what goes into each layer */
    bool fine = true;
    for (int l = 0; fine && l < p->n - p->head; l++) fine = (at[l + 1] = tpi_put(&bag, tpo_linear_relu(at[l], p->weight[l], p->bias[l]))) != NULL;
    for (int l = p->n - 1; fine && l >= 0; l--) {
        if (l < p->n - p->head) fine = (grad = tpi_behind_relu(&bag, grad, at[l + 1])) != NULL;
        if (fine && tpi_node_needs(node, 1 + 2 * l)) fine = (grad_inputs[1 + 2 * l] = tpo_linear_weight_grad(grad, at[l], 2)) != NULL;
        if (fine && tpi_node_needs(node, 2 + 2 * l)) grad_inputs[2 + 2 * l] = tpi_retain(grad); /* summed down by the engine */
        if (fine && l) fine = (grad = tpi_put(&bag, tpo_linear_input_grad(grad, p->weight[l]))) != NULL;
    }
    if (fine && tpi_node_needs(node, 0)) fine = (grad_inputs[0] = tpo_linear_input_grad(grad, p->weight[0])) != NULL;
    tpi_empty_bag(&bag, NULL);
    return fine;
}

/* ---- Backward, in one go ---- */
/* Does all that was saved have the layout it had? The user may have given a parameter other data since. */
static bool is_as_it_was(const tpi_perceptron *p, const tp_tensor *input, const tp_tensor *between, const tp_tensor *result) {
    bool fine = tpi_dense_is_plain(input, 2);
    int64_t in = fine ? input->shape[1] : 0;
    for (int l = 0; fine && l < p->n; l++) {
        fine = tpi_dense_is_plain(p->weight[l], 2) && p->weight[l]->shape[1] == in;
        in = fine ? p->weight[l]->shape[0] : 0;
    }
    if (!fine || (result && !(tpi_dense_is_plain(result, 2) && result->shape[1] == in))) return false;
    work w;
    set_up(&w, p->n, p->head, input, p->weight);
    return tpi_dense_between(&w.dense) == (size_t)between->numel * sizeof(float);
}

/* A gradient's tensor in its slot; NULL: no memory. */
static float *made_like(tp_tensor **slot, tp_ints shape) { return (*slot = tpi_empty(shape, TP_FLOAT32, (tp_device){TP_CPU, 0})) ? tpi_dense_floats(*slot) : NULL; }

static bool backward_here(tpi_node *node, const tp_tensor *grad, const tpi_perceptron *p, const tp_tensor *input, const tp_tensor *between, const tp_tensor *result, tp_tensor **grad_inputs) {
    work w;
    set_up(&w, p->n, p->head, input, p->weight);
    w.dense.between = tpi_dense_floats(between), w.dense.result = result ? tpi_dense_floats(result) : NULL, w.dense.grad = tpi_dense_floats(grad);
    bool fine = true;
    for (int l = 0; fine && l < p->n; l++) {
        tpi_dense_layer *y = &w.layer[l];
        fine = (y->bias_grad = made_like(&grad_inputs[2 + 2 * l], TP_INTS(y->out))) != NULL;
        if (fine && tpi_node_needs(node, 1 + 2 * l)) fine = (y->weight_grad = made_like(&grad_inputs[1 + 2 * l], TP_INTS(y->out, y->in))) != NULL;
    }
    if (fine && tpi_node_needs(node, 0)) fine = (w.dense.input_grad = made_like(&grad_inputs[0], tpi_shape(input))) != NULL;
    if (!fine || !tpi_dense_backward(&w.dense)) return false;
    for (int l = 0; l < p->n; l++)
        if (!tpi_node_needs(node, 2 + 2 * l)) tpi_drop(&grad_inputs[2 + 2 * l]);
    return true;
}

/* Saved: the input, each layer's weight and bias, what is between the layers, and the result where there is no head. */
typedef struct attributes {
    int n;
    bool head;
} attributes;

static bool backward(tpi_node *node, tp_tensor *const *grads, tp_tensor **grad_inputs) {
    const attributes *a = tpi_node_attrs(node);
    tp_tensor *held[2 * TPI_PERCEPTRON_LAYERS + 3] = {NULL}, *grad = NULL;
    int n = 2 * a->n + 2 + !a->head;
    bool fine = true;
    for (int i = 0; fine && i < n; i++) fine = tpi_unpack(node, i, &held[i]);
    if (fine) {
        tpi_perceptron p = {.n = a->n, .head = a->head};
        for (int l = 0; l < a->n; l++) p.weight[l] = held[1 + 2 * l], p.bias[l] = held[2 + 2 * l];
        tp_tensor *between = held[2 * a->n + 1], *result = a->head ? NULL : held[2 * a->n + 2];
        if (tpi_grad_off && !tpi_recording && is_as_it_was(&p, held[0], between, result)) {
            fine = (grad = tpi_contiguous_data(grads[0])) != NULL && backward_here(node, grad, &p, held[0], between, result, grad_inputs);
        } else {
            fine = recorded_backward(node, grads[0], &p, held[0], grad_inputs);
        }
    }
    tpi_release(grad);
    for (int i = 0; i < n; i++) tpi_release(held[i]);
    return fine;
}
static const tpi_node_class perceptron_class = {"PerceptronBackward0", "perceptron", backward, NULL, NULL};

/* ---- Forward ---- */
static bool record(const tpi_perceptron *p, tp_tensor *input, tp_tensor *between, tp_tensor *out) {
    tpi_node *node = tpi_node_new(&perceptron_class, 1 + 2 * p->n, 2 * p->n + 2 + !p->head, sizeof(attributes), 1);
    if (!node) return false;
    *(attributes *)tpi_node_attrs(node) = (attributes){p->n, p->head};
    tpi_node_edge(node, 0, input);
    bool fine = tpi_node_save(node, 0, input);
    for (int l = 0; l < p->n; l++) {
        tpi_node_edge(node, 1 + 2 * l, p->weight[l]), tpi_node_edge(node, 2 + 2 * l, p->bias[l]);
        fine = fine && tpi_node_save(node, 1 + 2 * l, p->weight[l]) && tpi_node_save(node, 2 + 2 * l, p->bias[l]);
    }
    fine = fine && tpi_node_save(node, 2 * p->n + 1, between) && tpi_node_attach(node, 0, out) && (p->head || tpi_node_save_output(node, 2 * p->n + 2, out, 0));
    tpi_node_done(node);
    return fine;
}

tp_tensor *tpi_perceptron_forward(const tpi_perceptron *p, tp_tensor *input) {
    work w;
    set_up(&w, p->n, p->head, input, p->weight);
    int64_t last = p->weight[p->n - 1]->shape[0];
    tp_tensor *between = tpi_empty(TP_INTS((int64_t)(tpi_dense_between(&w.dense) / sizeof(float))), TP_FLOAT32, tpi_device(input));
    tp_tensor *out = between ? tpi_empty(TP_INTS(w.dense.rows, last), TP_FLOAT32, tpi_device(input)) : NULL;
    bool fine = out != NULL, tracked = tpi_tracks(input);
    if (fine) {
        for (int l = 0; l < p->n; l++) {
            w.layer[l].bias = p->bias[l] ? tpi_dense_floats(p->bias[l]) : NULL;
            tracked |= tpi_tracks(p->weight[l]) || tpi_tracks(p->bias[l]);
        }
        w.dense.between = tpi_dense_floats(between), w.dense.result = tpi_dense_floats(out);
        tpi_dense_forward(&w.dense);
        if (tracked && !tpi_grad_off) fine = record(p, input, between, out);
        else tpi_mark_inference(out);
    }
    tpi_release(between);
    if (fine) return out;
    tpi_release(out);
    return NULL;
}
