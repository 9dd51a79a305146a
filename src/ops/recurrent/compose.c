/* Recurrent layers and cells (tanh, relu, LSTM, GRU) as calls of other operators, which differentiate themselves.
 *
 * A layer sees its steps one behind the other in rows: step t has sizes[t] of them, as in a packed sequence; a plain
 * batch has the same number in each. The input's share of the gates is one product for all steps; what depends on the
 * step before is one small product each. An LSTM over a plain batch is one operator after that (lstm_layer.c,
 * lstm_gpu.c). */
#include "ops/temporaries.h"
#include "dispatch/fallback.h"
#include "ops/native.h"
#include "tensor/sizes.h"
#include "tpi_ops.h"

typedef enum { CELL_TANH, CELL_RELU, CELL_LSTM, CELL_GRU } cell;

typedef struct weights {
    tp_tensor *w_ih, *w_hh, *b_ih, *b_hh, *w_hr; /* w_hr: an LSTM's projection; NULL where there is none */
    bool layer;                                  /* of a layer, not of a cell */
} weights;

typedef struct state { /* owned references */
    tp_tensor *h, *c;  /* (rows, H); c only in an LSTM */
} state;

static void drop_state(state *s) {
    tpi_release(s->h);
    tpi_release(s->c);
    *s = (state){NULL, NULL};
}

static tp_tensor *add(tpi_temporaries *temps, tp_tensor *a, tp_tensor *b) {
    return a && b ? tpi_put(temps, tpo_add(tp_operand_tensor(a), tp_operand_tensor(b), tp_int(1))) : NULL;
}
static tp_tensor *mul(tpi_temporaries *temps, tp_tensor *a, tp_tensor *b) {
    return a && b ? tpi_put(temps, tpo_mul(tp_operand_tensor(a), tp_operand_tensor(b))) : NULL;
}
static tp_tensor *sigmoid(tpi_temporaries *temps, tp_tensor *a) { return a ? tpi_put(temps, tpo_sigmoid(a)) : NULL; }
static tp_tensor *tanh_of(tpi_temporaries *temps, tp_tensor *a) { return a ? tpi_put(temps, tpo_tanh(a)) : NULL; }
/* The k-th of n equal parts of the last dim. */
static tp_tensor *part(tpi_temporaries *temps, tp_tensor *a, int64_t k, int64_t n) {
    int64_t size = a ? a->shape[a->ndim - 1] / n : 0;
    return a ? tpi_put(temps, tpo_narrow(a, -1, k * size, size)) : NULL;
}

/* A layer's products on a GPU are in the precision that PyTorch's flags give cuDNN; a cell's are as others. */
static tp_tensor *product(const weights *w, tp_tensor *x, tp_tensor *weight, tp_tensor *bias) {
    return (w->layer && x && !tpi_on_cpu(x) ? tpo_rnn_linear : tpo_linear)(x, weight, bias);
}

/* ---- One step: from the input's share of the gates and the state before ---- */
static bool step_lstm(tpi_temporaries *temps, tp_tensor *gates, const state *before, const weights *w, state *out) {
    tp_tensor *all = add(temps, gates, tpi_put(temps, product(w, before->h, w->w_hh, w->b_hh)));
    tp_tensor *i = sigmoid(temps, part(temps, all, 0, 4)), *f = sigmoid(temps, part(temps, all, 1, 4));
    tp_tensor *g = tanh_of(temps, part(temps, all, 2, 4)), *o = sigmoid(temps, part(temps, all, 3, 4));
    tp_tensor *c = add(temps, mul(temps, f, before->c), mul(temps, i, g)), *h = mul(temps, o, tanh_of(temps, c));
    if (h && w->w_hr) h = tpi_put(temps, product(w, h, w->w_hr, NULL));
    if (h) *out = (state){tpi_retain(h), tpi_retain(c)};
    return h;
}

static bool step_gru(tpi_temporaries *temps, tp_tensor *gates, const state *before, const weights *w, state *out) {
    tp_tensor *own = tpi_put(temps, product(w, before->h, w->w_hh, w->b_hh));
    tp_tensor *r = sigmoid(temps, add(temps, part(temps, gates, 0, 3), part(temps, own, 0, 3))),
              *z = sigmoid(temps, add(temps, part(temps, gates, 1, 3), part(temps, own, 1, 3)));
    tp_tensor *n = tanh_of(temps, add(temps, part(temps, gates, 2, 3), mul(temps, r, part(temps, own, 2, 3))));
    tp_tensor *apart =
                  n ? tpi_put(temps, tpo_sub(tp_operand_tensor(before->h), tp_operand_tensor(n), tp_int(1))) : NULL,
              *h = add(temps, n, mul(temps, z, apart));
    if (h) out->h = tpi_retain(h);
    return h;
}

static bool step(cell kind, tp_tensor *gates, const state *before, const weights *w, state *out) {
    tpi_temporaries temps = {0};
    *out = (state){NULL, NULL};
    bool fine;
    if (kind == CELL_LSTM)
        fine = step_lstm(&temps, gates, before, w, out);
    else if (kind == CELL_GRU)
        fine = step_gru(&temps, gates, before, w, out);
    else {
        tp_tensor *all = add(&temps, gates, tpi_put(&temps, product(w, before->h, w->w_hh, w->b_hh)));
        fine = all && (out->h = kind == CELL_TANH ? tpo_tanh(all) : tpo_relu(all));
    }
    tpi_release_temporaries(&temps, NULL);
    return fine;
}

/* ---- One layer in one direction ---- */
static tp_tensor *rows_of(tp_tensor *t, int64_t from, int64_t n) {
    return t->shape[0] == n && !from ? tpi_retain(t) : tpo_narrow(t, 0, from, n);
}

/* The state's first n rows; what is cut off below is finished and goes to `done` (NULL: is let go). */
static bool shrink(state *s, int64_t n, tp_tensors *done, tp_tensors *done_c) {
    tp_tensor **each[2] = {&s->h, &s->c};
    tp_tensors *rest[2] = {done, done_c};
    for (int k = 0; k < 2 && *each[k]; k++) {
        int64_t rows = (*each[k])->shape[0];
        if (rows == n) continue;
        if (!(rest[k]->v[rest[k]->n] = tpo_narrow(*each[k], 0, n, rows - n))) return false;
        rest[k]->n++;
        if (!(*each[k] = tpi_release_then(*each[k], tpo_narrow(*each[k], 0, 0, n)))) return false;
    }
    return true;
}

/* The state with rows up to n taken from the start's. */
static bool grow(state *s, const state *start, int64_t n) {
    tp_tensor **each[2] = {&s->h, &s->c};
    tp_tensor *from[2] = {start->h, start->c};
    for (int k = 0; k < 2 && *each[k]; k++) {
        int64_t rows = (*each[k])->shape[0];
        if (rows == n) continue;
        tp_tensor *more = tpo_narrow(from[k], 0, rows, n - rows);
        *each[k] = tpi_release_then(*each[k], more ? tpo_cat(TP_LIST(*each[k], more), 0) : NULL);
        tpi_release(more);
        if (!*each[k]) return false;
    }
    return true;
}

/* The last states of a packed batch: those of sequences that ended early come below those of longer ones. */
static tp_tensor *with_finished(tp_tensor *last, tp_tensors done) {
    if (!last || !done.n) return last;
    tp_tensors all = {tpi_malloc(sizeof *all.v * (size_t)(done.n + 1)), done.n + 1};
    if (!all.v) return tpi_release_then(last, NULL);
    all.v[0] = last;
    for (int64_t i = 0; i < done.n; i++) all.v[1 + i] = done.v[done.n - 1 - i];
    tp_tensor *out = tpo_cat(all, 0);
    tpi_mfree(all.v);
    return tpi_release_then(last, out);
}

typedef struct sequence {
    int64_t steps;
    const int64_t *sizes; /* rows of each step */
} sequence;

/* Does one operator take all the steps? A single row of many columns is better split over its columns, product by
 * product. */
static bool in_one_go(cell kind, const tp_tensor *input, sequence q, const state *start, const weights *w) {
    if (kind != CELL_LSTM || w->w_hr || (input->dtype != TP_FLOAT32 && input->dtype != TP_FLOAT64)) return false;
    int64_t rows = q.sizes[0], width = start->h->shape[1];
    return rows == q.sizes[q.steps - 1] && start->h->shape[0] == rows && (rows >= 8 || width <= 256);
}

static tp_tensor *run_in_one_go(tp_tensor *input, sequence q, const state *start, const weights *w, bool reverse,
                                state *last) {
    tpi_temporaries temps = {0};
    tp_tensor *bias = w->b_ih ? add(&temps, w->b_ih, w->b_hh) : NULL,
              *gates = bias || !w->b_ih ? tpi_put(&temps, product(w, input, w->w_ih, bias)) : NULL;
    tp_tensor *out[5] = {NULL};
    bool fine = gates && tpo_lstm_layer(gates, start->h, start->c, w->w_hh, q.steps, reverse, out);
    tpi_release_temporaries(&temps, NULL);
    if (!fine) return NULL;
    tpi_release(out[3]);
    tpi_release(out[4]);
    *last = (state){out[1], out[2]};
    return out[0];
}

/* Runs over all steps; gives the outputs in rows and the last state (owned). */
static tp_tensor *run(cell kind, tp_tensor *input, sequence q, const state *start, const weights *w, bool reverse,
                      state *last) {
    if (in_one_go(kind, input, q, start, w)) return run_in_one_go(input, q, start, w, reverse, last);
    tp_tensor *gates = product(w, input, w->w_ih, w->b_ih), *out = NULL;
    size_t bytes = sizeof(tp_tensor *) * (size_t)(q.steps + 1);
    tp_tensors outs = {tpi_new0(bytes), 0}, done = {tpi_new0(bytes), 0}, done_c = {tpi_new0(bytes), 0};
    int64_t at = 0;
    for (int64_t t = 0; reverse && t < q.steps; t++) at += q.sizes[t];
    int64_t first = q.sizes[reverse ? q.steps - 1 : 0];
    state s = {rows_of(start->h, 0, first), start->c ? rows_of(start->c, 0, first) : NULL};
    bool fine = gates && outs.v && done.v && done_c.v && s.h && (s.c || !start->c);
    for (int64_t k = 0; fine && k < q.steps; k++) {
        int64_t t = reverse ? q.steps - 1 - k : k, n = q.sizes[t];
        if (reverse) at -= n;
        fine = reverse ? grow(&s, start, n) : shrink(&s, n, &done, &done_c);
        tp_tensor *now = fine ? tpo_narrow(gates, 0, at, n) : NULL;
        state next = {NULL, NULL};
        fine = now && step(kind, now, &s, w, &next);
        tpi_release(now);
        drop_state(&s);
        s = next;
        if (fine) outs.v[t] = tpi_retain(s.h);
        if (!reverse) at += n;
    }
    outs.n = q.steps;
    if (fine) out = tpo_cat(outs, 0);
    if (out) {
        last->h = with_finished(tpi_retain(s.h), done);
        last->c = s.c ? with_finished(tpi_retain(s.c), done_c) : NULL;
        if (!last->h || (s.c && !last->c)) {
            drop_state(last);
            out = tpi_release_then(out, NULL);
        }
    }
    drop_state(&s);
    tpi_release(gates);
    for (int64_t i = 0; i < q.steps; i++) {
        if (outs.v) tpi_release(outs.v[i]);
        if (done.v) tpi_release(done.v[i]);
        if (done_c.v) tpi_release(done_c.v[i]);
    }
    if (outs.v) tpi_delete(outs.v, bytes);
    if (done.v) tpi_delete(done.v, bytes);
    if (done_c.v) tpi_delete(done_c.v, bytes);
    return out;
}

/* ---- All layers ---- */
typedef struct network {
    cell kind;
    tp_tensor *h0, *c0; /* (layers * directions, B, H) */
    tp_tensors params;
    bool biases, train, bidirectional;
    int64_t layers;
    double dropout;
} network;

static bool check_network(const network *n, int64_t *each) {
    int64_t runs = tpi_size_times(n->layers, n->bidirectional ? 2 : 1), plain = n->biases ? 4 : 2;
    *each = runs > 0 ? n->params.n / runs : 0;
    if (n->layers < 1 || n->params.n != tpi_size_times(*each, runs) ||
        (*each != plain && !(n->kind == CELL_LSTM && *each == plain + 1)))
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'params': expected %lld weights for each of %lld layers and directions, got %lld",
                          (long long)plain, (long long)runs, (long long)n->params.n);
    if (n->h0->ndim != 3 || n->h0->shape[0] != runs || (n->c0 && (n->c0->ndim != 3 || n->c0->shape[0] != runs)))
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'hx': expected shape (%lld, batch, hidden), got %s",
                          (long long)runs, tpi_shape_text(tpi_shape(n->h0)));
    return true;
}

static weights weights_at(const network *n, int64_t index, int64_t each) {
    tp_tensor **p = n->params.v + index * each;
    int64_t plain = n->biases ? 4 : 2;
    return (weights){.w_ih = p[0],
                     .w_hh = p[1],
                     .b_ih = n->biases ? p[2] : NULL,
                     .b_hh = n->biases ? p[3] : NULL,
                     .w_hr = each > plain ? p[plain] : NULL,
                     .layer = true};
}

/* One layer's directions side by side; takes x over. The last states go to finals[index] and finals_c[index]. */
static tp_tensor *run_layer(const network *n, tp_tensor *x, sequence q, int64_t layer, int64_t each, tp_tensor **finals,
                            tp_tensor **finals_c) {
    tp_tensor *sides[2] = {NULL, NULL};
    int64_t directions = n->bidirectional ? 2 : 1;
    bool fine = true;
    for (int64_t d = 0; fine && d < directions; d++) {
        int64_t index = layer * directions + d;
        weights w = weights_at(n, index, each);
        state start = {tpo_select(n->h0, 0, index), n->c0 ? tpo_select(n->c0, 0, index) : NULL}, last = {NULL, NULL};
        if (start.h && (start.c || !n->c0)) sides[d] = run(n->kind, x, q, &start, &w, d == 1, &last);
        drop_state(&start);
        finals[index] = last.h;
        finals_c[index] = last.c;
        fine = sides[d];
    }
    tpi_release(x);
    tp_tensor *out = !fine ? NULL : directions == 1 ? tpi_retain(sides[0]) : tpo_cat((tp_tensors){sides, 2}, -1);
    tpi_release(sides[0]);
    tpi_release(sides[1]);
    if (out && n->train && n->dropout > 0 && layer + 1 < n->layers)
        out = tpi_release_then(out, tpo_dropout(out, n->dropout, true));
    return out;
}

/* rows: the input in rows. out: the last layer's rows, the last h and, of an LSTM, the last c. */
static bool run_network(const network *n, tp_tensor *rows, sequence q, tp_tensor **out) {
    int64_t each, runs = tpi_size_times(n->layers, n->bidirectional ? 2 : 1);
    if (!check_network(n, &each)) return false;
    size_t bytes = sizeof(tp_tensor *) * (size_t)runs;
    tp_tensor **h = tpi_new0(bytes), **c = tpi_new0(bytes), *x = h && c ? tpi_retain(rows) : NULL;
    for (int64_t layer = 0; x && layer < n->layers; layer++) x = run_layer(n, x, q, layer, each, h, c);
    out[0] = x;
    out[1] = x ? tpo_stack((tp_tensors){h, runs}, 0) : NULL;
    bool fine = out[1];
    if (fine && n->kind == CELL_LSTM) fine = (out[2] = tpo_stack((tp_tensors){c, runs}, 0));
    for (int64_t i = 0; h && c && i < runs; i++) {
        tpi_release(h[i]);
        tpi_release(c[i]);
    }
    if (h) tpi_delete(h, bytes);
    if (c) tpi_delete(c, bytes);
    if (!fine) {
        tpi_release(out[0]);
        tpi_release(out[1]);
        out[0] = out[1] = NULL;
    }
    return fine;
}

static bool run_batch(network n, tp_tensor *input, bool batch_first, tp_tensor **out) {
    if (input->ndim != 3)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'input': expected 3 dimensions, got shape %s",
                          tpi_shape_text(tpi_shape(input)));
    tpi_temporaries temps = {0};
    tp_tensor *x = batch_first ? tpi_put(&temps, tpo_transpose(input, 0, 1)) : input;
    if (!x) return false;
    int64_t steps = x->shape[0], batch = x->shape[1];
    if (steps < 1) {
        tpi_release_temporaries(&temps, NULL);
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'input': Expected sequence length to be larger than 0 in RNN");
    }
    tp_tensor *rows = tpi_put(&temps, tpo_reshape(x, TP_INTS(steps * batch, x->shape[2])));
    int64_t *sizes = rows ? tpi_malloc(sizeof *sizes * (size_t)steps) : NULL;
    for (int64_t t = 0; sizes && t < steps; t++) sizes[t] = batch;
    bool fine = sizes && run_network(&n, rows, (sequence){steps, sizes}, out);
    if (sizes) tpi_mfree(sizes);
    if (fine) out[0] = tpi_release_then(out[0], tpo_reshape(out[0], TP_INTS(steps, batch, out[0]->shape[1])));
    if (fine && batch_first && out[0]) out[0] = tpi_release_then(out[0], tpo_transpose(out[0], 0, 1));
    tpi_release_temporaries(&temps, NULL);
    if (!fine || out[0]) return fine;
    for (int i = 1; i < (n.kind == CELL_LSTM ? 3 : 2); i++) {
        tpi_release(out[i]);
        out[i] = NULL;
    }
    return false;
}

static bool run_packed(network n, tp_tensor *data, tp_tensor *batch_sizes, tp_tensor **out) {
    if (batch_sizes->ndim != 1 || !batch_sizes->numel || !tpi_check_dtype(batch_sizes, "batch_sizes", TP_INT64))
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'batch_sizes': expected a vector of int64, got %s",
                          tpi_shape_text(tpi_shape(batch_sizes)));
    tp_tensor *sizes = tpi_on_host(batch_sizes);
    if (!sizes) return false;
    sequence q = {sizes->numel, (const int64_t *)(const void *)sizes->data};
    int64_t total = 0;
    bool fine = true;
    for (int64_t t = 0; t < q.steps; t++) {
        total = tpi_size_plus(total, q.sizes[t]);
        fine = fine && q.sizes[t] > 0 && (!t || q.sizes[t] <= q.sizes[t - 1]);
    }
    fine = (fine && data->ndim == 2 && total == data->shape[0]) ||
           tpi_refuse(TP_ERR_RUNTIME,
                      "argument 'batch_sizes': expected sizes that never grow and add up to the rows of data, got data "
                      "of shape %s",
                      tpi_shape_text(tpi_shape(data)));
    fine = fine && run_network(&n, data, q, out);
    tpi_release(sizes);
    return fine;
}

static bool lstm_states(tp_tensors hx) {
    return hx.n == 2 ||
           tpi_refuse(TP_ERR_RUNTIME, "argument 'hx': lstm expects two hidden states, got %lld", (long long)hx.n);
}

bool tpi_compose_lstm(tp_tensor *input, tp_tensors hx, tp_tensors params, bool biases, int64_t layers, double dropout,
                      bool train, bool bidirectional, bool batch_first, tp_tensor **out) {
    return lstm_states(hx) &&
           run_batch((network){CELL_LSTM, hx.v[0], hx.v[1], params, biases, train, bidirectional, layers, dropout},
                     input, batch_first, out);
}
bool tpi_compose_lstm_data(tp_tensor *data, tp_tensor *batch_sizes, tp_tensors hx, tp_tensors params, bool biases,
                           int64_t layers, double dropout, bool train, bool bidirectional, tp_tensor **out) {
    return lstm_states(hx) &&
           run_packed((network){CELL_LSTM, hx.v[0], hx.v[1], params, biases, train, bidirectional, layers, dropout},
                      data, batch_sizes, out);
}

#define LAYERS(name, kind)                                                                                        \
    bool tpi_compose_##name(tp_tensor *input, tp_tensor *hx, tp_tensors params, bool biases, int64_t layers,      \
                            double dropout, bool train, bool bidirectional, bool batch_first, tp_tensor **out) {  \
        return run_batch((network){kind, hx, NULL, params, biases, train, bidirectional, layers, dropout}, input, \
                         batch_first, out);                                                                       \
    }                                                                                                             \
    bool tpi_compose_##name##_data(tp_tensor *data, tp_tensor *batch_sizes, tp_tensor *hx, tp_tensors params,     \
                                   bool biases, int64_t layers, double dropout, bool train, bool bidirectional,   \
                                   tp_tensor **out) {                                                             \
        return run_packed((network){kind, hx, NULL, params, biases, train, bidirectional, layers, dropout}, data, \
                          batch_sizes, out);                                                                      \
    }
LAYERS(gru, CELL_GRU)
LAYERS(rnn_tanh, CELL_TANH)
LAYERS(rnn_relu, CELL_RELU)

/* ---- Cells ---- */
static bool check_cell(const tp_tensor *input, const tp_tensor *h, const tp_tensor *c, const weights *w) {
    int64_t size = input->ndim ? input->shape[input->ndim - 1] : 0, wanted = w->w_ih->shape[w->w_ih->ndim - 1],
            hidden = w->w_hh->shape[w->w_hh->ndim - 1];
    if (size != wanted)
        return tpi_refuse(TP_ERR_RUNTIME, "input has inconsistent input_size: got %lld expected %lld", (long long)size,
                          (long long)wanted);
    for (int i = 0; i < 1 + (c != NULL); i++) {
        const tp_tensor *t = i ? c : h;
        if (t->ndim == 2 && input->ndim == 2 && t->shape[0] != input->shape[0])
            return tpi_refuse(TP_ERR_RUNTIME, "Input batch size %lld doesn't match hidden%d batch size %lld",
                              (long long)input->shape[0], i, (long long)t->shape[0]);
        if (t->ndim && t->shape[t->ndim - 1] != hidden)
            return tpi_refuse(TP_ERR_RUNTIME, "hidden%d has inconsistent hidden_size: got %lld, expected %lld", i,
                              (long long)t->shape[t->ndim - 1], (long long)hidden);
    }
    return true;
}

static bool one_step(cell kind, tp_tensor *input, tp_tensor *h, tp_tensor *c, weights w, state *out) {
    if (w.w_ih->ndim != 2 || w.w_hh->ndim != 2 || !check_cell(input, h, c, &w))
        return tp_ok() ? tpi_refuse(TP_ERR_RUNTIME, "expected weights of 2 dimensions") : false;
    tp_tensor *gates = product(&w, input, w.w_ih, w.b_ih);
    bool fine = gates && step(kind, gates, &(state){h, c}, &w, out);
    tpi_release(gates);
    return fine;
}
bool tpi_compose_lstm_cell(tp_tensor *input, tp_tensors hx, tp_tensor *w_ih, tp_tensor *w_hh, tp_tensor *b_ih,
                           tp_tensor *b_hh, tp_tensor **out) {
    state s;
    if (!lstm_states(hx) || !one_step(CELL_LSTM, input, hx.v[0], hx.v[1],
                                      (weights){.w_ih = w_ih, .w_hh = w_hh, .b_ih = b_ih, .b_hh = b_hh}, &s))
        return false;
    out[0] = s.h;
    out[1] = s.c;
    return true;
}
#define CELL(name, kind)                                                                                              \
    tp_tensor *tpi_compose_##name##_cell(tp_tensor *input, tp_tensor *hx, tp_tensor *w_ih, tp_tensor *w_hh,           \
                                         tp_tensor *b_ih, tp_tensor *b_hh) {                                          \
        state s;                                                                                                      \
        return one_step(kind, input, hx, NULL, (weights){.w_ih = w_ih, .w_hh = w_hh, .b_ih = b_ih, .b_hh = b_hh}, &s) \
                   ? s.h                                                                                              \
                   : NULL;                                                                                            \
    }
CELL(gru, CELL_GRU)
CELL(rnn_tanh, CELL_TANH)
CELL(rnn_relu, CELL_RELU)
