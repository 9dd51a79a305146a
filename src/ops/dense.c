/* See dense.h. Forward, a phase is a layer; between phases each thread needs what the other one made of it. */
#include "ops/dense.h"
#include <string.h>
#include "base/memory.h"
#include "base/threads.h"
#include "ops/gemm.h"
#include "ops/linear_relu.h"

enum { HEAD = 64, LINE = 16 }; /* the most outputs that a head has; floats to which places are rounded up */

bool tpi_dense_serves(int64_t rows, int64_t in, int64_t out) {
    return in > TPI_GEMM_WIDTH && out > TPI_GEMM_WIDTH && tpi_gemm_halves(rows, out, in);
}

bool tpi_dense_serves_head(int64_t rows, int64_t in, int64_t out) {
    return rows > 1 && out > 0 && out <= HEAD && in > TPI_GEMM_WIDTH && !tpi_dense_serves(rows, in, out);
}

static int hidden(const tpi_dense *d) { return d->layers - d->head; }

/* ---- Places ---- */
typedef struct matrix { /* of so many rows as there are, `step` floats apart */
    float *data;
    int64_t step;
} matrix;

static int64_t lines(int64_t floats) { return tpi_ceil_div(floats, LINE) * LINE; }

/* A matrix of `columns` columns in two halves, one behind the other. */
static int64_t halves_take(const tpi_dense *d, int64_t columns) {
    int64_t second, n = tpi_gemm_half(columns, 0, &second);
    return lines(d->rows * n) + lines(d->rows * (columns - n));
}
static matrix half_of(const tpi_dense *d, float *halves, int64_t columns, int64_t half) {
    int64_t first, n = tpi_gemm_half(columns, 0, &first);
    return half ? (matrix){halves + lines(d->rows * n), columns - n} : (matrix){halves, n};
}

/* Behind a layer's ReLU stand its halves and then, if another layer with a ReLU follows, the whole of it twice, once for each thread. */
static int64_t takes_behind(const tpi_dense *d, int l) {
    return halves_take(d, d->layer[l].out) + (l + 1 < hidden(d) ? 2 * lines(d->rows * d->layer[l].out) : 0);
}
static float *behind(const tpi_dense *d, int l) {
    float *at = d->between;
    for (int i = 0; i < l; i++) at += takes_behind(d, i);
    return at;
}
static float *whole(const tpi_dense *d, int l, int64_t half) { return behind(d, l) + halves_take(d, d->layer[l].out) + half * lines(d->rows * d->layer[l].out); }

size_t tpi_dense_between(const tpi_dense *d) {
    int64_t floats = 0;
    for (int l = 0; l + 1 < d->layers; l++) floats += takes_behind(d, l);
    return (size_t)(floats + lines(d->rows * d->layer[d->layers - 1].out)) * sizeof(float); /* in the end, half of what becomes the head's results */
}

/* The thread's half of what is behind a layer's ReLU. */
static matrix own(const tpi_dense *d, int l, int64_t half) {
    int64_t first;
    tpi_gemm_half(d->layer[l].out, half, &first);
    return l + 1 < d->layers ? half_of(d, behind(d, l), d->layer[l].out, half) : (matrix){d->result + first, d->layer[l].out};
}

/* What goes into a layer, as the thread sees it. */
static const float *input_of(const tpi_dense *d, int l, int64_t half) { return l ? whole(d, l - 1, half) : d->input; }

/* A backward's room: what each thread has masked, in a slot of its own, since the other one may be at another layer; what the head passes on, in halves; and gradients on
 * their way from one layer to the next, made by each thread for each thread. */
static int64_t largest_layer(const tpi_dense *d) {
    int64_t most = 0;
    for (int l = 0; l < d->layers; l++) {
        if (halves_take(d, d->layer[l].in) > most) most = halves_take(d, d->layer[l].in);
        if (halves_take(d, d->layer[l].out) > most) most = halves_take(d, d->layer[l].out);
    }
    return most;
}
typedef struct backward_work {
    const tpi_dense *dense;
    int64_t slot; /* floats */
    float *room;  /* SLOTS of them */
} backward_work;
enum { SLOTS = 7 };
static float *on_the_way(const backward_work *w, int layer, int64_t by) { return w->room + w->slot * (3 + layer % 2 * 2 + by); }

/* ---- Forward ---- */
/* The whole of what is behind a layer's ReLU, from both halves. */
static void collect(const tpi_dense *d, int l, float *to) {
    for (int64_t half = 0; half < 2; half++) {
        int64_t first, n = tpi_gemm_half(d->layer[l].out, half, &first);
        matrix from = own(d, l, half);
        for (int64_t i = 0; i < d->rows; i++) memcpy(to + i * d->layer[l].out + first, from.data + i * from.step, (size_t)n * sizeof(float));
    }
}

/* The head's products with half of its inputs; the bias is in the first half's. */
static void head_forward(const tpi_dense *d, int64_t half, float *to) {
    const tpi_dense_layer *head = &d->layer[d->layers - 1];
    matrix x = own(d, d->layers - 2, half);
    int64_t first, n = tpi_gemm_half(head->in, half, &first);
    tpi_gemm_here(&(tpi_gemm){.m = d->rows, .n = head->out, .k = n, .a = x.data, .a_row = x.step, .a_col = 1, .b = head->weight + first, .b_row = 1, .b_col = head->in, .c = to,
                              .c_row = head->out, .alpha = 1, .every_row = half ? NULL : head->bias});
}

static float *head_rest(const tpi_dense *d) { return behind(d, d->layers - 1); }

static void forward_half(int64_t chunk, void *context) {
    const tpi_dense *d = context;
    int l = (int)chunk / 2;
    const tpi_dense_layer *y = &d->layer[l];
    int64_t half = chunk % 2, first, n = tpi_gemm_half(y->out, half, &first);
    matrix to = own(d, l, half);
    if (l) collect(d, l - 1, whole(d, l - 1, half));
    tpi_gemm_here(&(tpi_gemm){.m = d->rows, .n = n, .k = y->in, .a = input_of(d, l, half), .a_row = y->in, .a_col = 1, .b = y->weight + first * y->in, .b_row = 1, .b_col = y->in,
                              .c = to.data, .c_row = to.step, .alpha = 1, .every_row = y->bias ? y->bias + first : NULL});
    TPI_ISA_PICK(tpi_relu_floats)(d->rows, n, to.step, to.data);
    if (d->head && l == d->layers - 2) head_forward(d, half, half ? head_rest(d) : d->result);
}

void tpi_dense_forward(const tpi_dense *d) {
    tpi_parallel_pairs(hidden(d), 1, forward_half, (void *)d);
    if (d->head) TPI_ISA_PICK(tpi_add_floats)(d->rows * d->layer[d->layers - 1].out, head_rest(d), d->result);
}

/* ---- Backward ---- */
/* The weight's gradient for half of the head's inputs, and the gradient of those. */
static void head_backward(const tpi_dense *d, int64_t half, matrix to) {
    const tpi_dense_layer *head = &d->layer[d->layers - 1];
    matrix x = own(d, d->layers - 2, half);
    int64_t first, n = tpi_gemm_half(head->in, half, &first);
    tpi_gemm_here(&(tpi_gemm){.m = d->rows, .n = n, .k = head->out, .a = d->grad, .a_row = head->out, .a_col = 1, .b = head->weight + first, .b_row = head->in, .b_col = 1,
                              .c = to.data, .c_row = to.step, .alpha = 1});
    if (head->weight_grad)
        tpi_gemm_here(&(tpi_gemm){.m = head->out, .n = n, .k = d->rows, .a = d->grad, .a_row = 1, .a_col = head->out, .b = x.data, .b_row = x.step, .b_col = 1,
                                  .c = head->weight_grad + first, .c_row = head->in, .alpha = 1});
    if (half) return;
    for (int64_t j = 0; j < head->out; j++) head->bias_grad[j] = 0;
    for (int64_t i = 0; i < d->rows; i++) TPI_ISA_PICK(tpi_add_floats)(head->out, d->grad + i * head->out, head->bias_grad);
}

/* The gradient of a layer's input by way of half of its outputs: for the layer before, each thread's half of it by itself. */
static void pass_on(const backward_work *w, int done, int64_t half, const tpi_gemm *all) {
    for (int64_t reader = 0; reader < 2; reader++) {
        int64_t first, n = tpi_gemm_half(all->n, reader, &first);
        matrix to = half_of(w->dense, on_the_way(w, done, half), all->n, reader);
        tpi_gemm part = *all;
        part.n = n, part.b += first, part.c = to.data, part.c_row = to.step;
        tpi_gemm_here(&part);
    }
}

/* A layer is two phases: what the layer before needs, and the weight's gradient, for which nobody waits. */
static void backward_half(int64_t chunk, void *context) {
    const backward_work *w = context;
    const tpi_dense *d = w->dense;
    const int phase = (int)chunk / 2, done = phase / 2, l = hidden(d) - 1 - done;
    const tpi_dense_layer *y = &d->layer[l];
    int64_t half = chunk % 2, first, n = tpi_gemm_half(y->out, half, &first);
    matrix masked = {w->room + w->slot * half, n};
    if (phase % 2) {
        if (y->weight_grad)
            tpi_gemm_here(&(tpi_gemm){.m = n, .n = y->in, .k = d->rows, .a = masked.data, .a_row = 1, .a_col = masked.step, .b = input_of(d, l, half), .b_row = y->in, .b_col = 1,
                                      .c = y->weight_grad + first * y->in, .c_row = y->in, .alpha = 1});
        return;
    }
    matrix result = own(d, l, half), grad = {(float *)d->grad + first, y->out}, rest = {NULL, 0};
    if (done) grad = half_of(d, on_the_way(w, done - 1, 0), y->out, half), rest = half_of(d, on_the_way(w, done - 1, 1), y->out, half);
    else if (d->head) grad = half_of(d, w->room + 2 * w->slot, y->out, half), head_backward(d, half, grad);
    TPI_ISA_PICK(tpi_relu_back_floats)(d->rows, n, grad.data, rest.data, grad.step, result.data, result.step, masked.data, masked.step, y->bias_grad + first);
    tpi_gemm back = {.m = d->rows, .n = y->in, .k = n, .a = masked.data, .a_row = masked.step, .a_col = 1, .b = y->weight + first * y->in, .b_row = y->in, .b_col = 1,
                     .c = half ? on_the_way(w, done, half) : d->input_grad, .c_row = y->in, .alpha = 1};
    if (l) pass_on(w, done, half, &back);
    else if (d->input_grad) tpi_gemm_here(&back);
}

bool tpi_dense_backward(const tpi_dense *d) {
    const int64_t slot = largest_layer(d);
    size_t bytes = (size_t)slot * SLOTS * sizeof(float);
    backward_work w = {d, slot, tpi_alloc(bytes)};
    if (!w.room) return false;
    tpi_parallel_pairs(2 * hidden(d), 2, backward_half, &w);
    if (d->input_grad) TPI_ISA_PICK(tpi_add_floats)(d->rows * d->layer[0].in, on_the_way(&w, hidden(d) - 1, 1), d->input_grad);
    tpi_free(w.room, bytes);
    return true;
}
