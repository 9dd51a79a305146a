/* The gradient of an LSTM layer. Where nothing is recorded it is one operator (lstm_layer.c). Where it is
 * (create_graph), the layer runs again step by step, and the gradient is a formula of its inputs, so that it can be
 * differentiated. */
#include "ops/temporaries.h"
#include "ops/recurrent/lstm_rows.h"
#include "ops/native.h"
#include "tensor/sizes.h"
#include "dispatch/grad_mode.h"
#include "tpi_ops.h"

typedef struct moment { /* owned: the gates' activations, the cells, their tanh, and the output of one step */
    tp_tensor *i, *f, *g, *o, *c, *t, *h;
} moment;

typedef struct layer {
    tp_tensor *gates, *h0, *c0, *w_hh, *grad;
    int64_t steps;
    bool reverse;
    moment *at; /* in the order of time */
} layer;

/* What is carried from a step to the one before; owned. */
typedef struct carried {
    tp_tensor *dh, *dc, *dw; /* NULL: nothing yet */
} carried;

static tp_tensor *add(tp_tensor *a, tp_tensor *b) {
    return tpo_add(tp_operand_tensor(a), tp_operand_tensor(b), tp_int(1));
}
static tp_tensor *mul(tp_tensor *a, tp_tensor *b) { return tpo_mul(tp_operand_tensor(a), tp_operand_tensor(b)); }
/* 1 - a a, and a (1 - a): derivatives of tanh and of the sigmoid, of their values. */
static tp_tensor *one_less(tpi_temporaries *temps, tp_tensor *a) {
    tp_tensor *square = tpi_put(temps, mul(a, a));
    return square ? tpi_put(temps, tpo_rsub(square, tp_operand_double(1), tp_int(1))) : NULL;
}
static tp_tensor *apart(tpi_temporaries *temps, tp_tensor *a) {
    tp_tensor *rest = tpi_put(temps, tpo_rsub(a, tp_operand_double(1), tp_int(1)));
    return rest ? tpi_put(temps, mul(a, rest)) : NULL;
}
static tp_tensor *product(tp_tensor *a, tp_tensor *b) { return a && b ? mul(a, b) : NULL; }
static tp_tensor *part(tpi_temporaries *temps, tp_tensor *all, int64_t k) {
    int64_t width = all ? all->shape[1] / 4 : 0;
    return all ? tpi_put(temps, tpo_narrow(all, 1, k * width, width)) : NULL;
}
static tp_tensor *rows_at(const layer *l, tp_tensor *t, int64_t s) {
    int64_t rows = l->h0->shape[0], at = l->reverse ? l->steps - 1 - s : s;
    return tpo_narrow(t, 0, at * rows, rows);
}
/* a, or b, or their sum: of those that are there. */
static tp_tensor *joined(tp_tensor *a, tp_tensor *b) { return a && b ? add(a, b) : tpi_retain(a ? a : b); }

static bool step_again(layer *l, int64_t s) {
    tpi_temporaries temps = {0};
    moment *m = l->at + s;
    tp_tensor *h = s ? m[-1].h : l->h0, *c = s ? m[-1].c : l->c0, *share = tpi_put(&temps, rows_at(l, l->gates, s));
    tp_tensor *own = tpi_put(&temps, tpo_rnn_linear(h, l->w_hh, NULL)),
              *all = share && own ? tpi_put(&temps, add(share, own)) : NULL;
    tp_tensor *i = part(&temps, all, 0), *f = part(&temps, all, 1), *g = part(&temps, all, 2),
              *o = part(&temps, all, 3);
    if (i && f && g && o) {
        m->i = tpo_sigmoid(i);
        m->f = tpo_sigmoid(f);
        m->g = tpo_tanh(g);
        m->o = tpo_sigmoid(o);
    }
    tp_tensor *kept = m->f ? tpi_put(&temps, mul(m->f, c)) : NULL,
              *new = m->i && m->g ? tpi_put(&temps, mul(m->i, m->g)) : NULL;
    m->c = kept && new ? add(kept, new) : NULL;
    m->t = m->c ? tpo_tanh(m->c) : NULL;
    m->h = m->t && m->o ? mul(m->o, m->t) : NULL;
    tpi_release_temporaries(&temps, NULL);
    return m->h;
}

/* The gradient of the gates of step s (owned); what is carried moves on to the step before. */
static tp_tensor *step_back(const layer *l, int64_t s, carried *k) {
    tpi_temporaries temps = {0};
    const moment *m = l->at + s;
    tp_tensor *h = s ? m[-1].h : l->h0, *c = s ? m[-1].c : l->c0;
#define PUT(x)    tpi_put(&temps, (x))
#define MUL(a, b) PUT(product(a, b))
    tp_tensor *above = l->grad ? PUT(rows_at(l, l->grad, s)) : NULL, *dh = PUT(joined(above, k->dh));
    tp_tensor *dt = MUL(MUL(dh, m->o), one_less(&temps, m->t)), *dc = dt ? PUT(joined(dt, k->dc)) : NULL;
    tp_tensor *di = MUL(MUL(dc, m->g), apart(&temps, m->i)), *df = MUL(MUL(dc, c), apart(&temps, m->f));
    tp_tensor *dg = MUL(MUL(dc, m->i), one_less(&temps, m->g)), *ddo = MUL(MUL(dh, m->t), apart(&temps, m->o));
    tp_tensor *all = di && df && dg && ddo ? tpo_cat(TP_LIST(di, df, dg, ddo), 1) : NULL;
    tp_tensor *transposed = all ? PUT(tpo_transpose(all, 0, 1)) : NULL,
              *dw = transposed ? PUT(tpo_mm(transposed, h)) : NULL;
    carried next = {dw ? tpo_mm(all, l->w_hh) : NULL, dw ? MUL(dc, m->f) : NULL, dw ? joined(dw, k->dw) : NULL};
    tpi_retain(next.dc);
#undef MUL
#undef PUT
    tpi_release_temporaries(&temps, NULL);
    tpi_release(k->dh);
    tpi_release(k->dc);
    tpi_release(k->dw);
    *k = next;
    return next.dh && next.dc && next.dw ? all : tpi_release_then(all, NULL);
}

static void drop_moment(moment *m) {
    tpi_release(m->i);
    tpi_release(m->f);
    tpi_release(m->g);
    tpi_release(m->o);
    tpi_release(m->c);
    tpi_release(m->t);
    tpi_release(m->h);
}

static bool by_formula(layer *l, carried *k, tp_tensor **out) {
    size_t bytes = tpi_size_bytes(l->steps, sizeof *l->at), list = tpi_size_bytes(l->steps, sizeof(tp_tensor *));
    l->at = tpi_new0(bytes);
    tp_tensors each = {tpi_new0(list), l->steps};
    bool fine = l->at && each.v;
    for (int64_t s = 0; fine && s < l->steps; s++) fine = step_again(l, s);
    for (int64_t s = l->steps - 1; fine && s >= 0; s--) {
        tp_tensor *back = step_back(l, s, k);
        each.v[l->reverse ? l->steps - 1 - s : s] = back;
        fine = back;
    }
    out[0] = fine ? tpo_cat(each, 0) : NULL;
    for (int64_t s = 0; l->at && each.v && s < l->steps; s++) {
        drop_moment(l->at + s);
        tpi_release(each.v[s]);
    }
    if (l->at) tpi_delete(l->at, bytes);
    if (each.v) tpi_delete(each.v, list);
    if (!out[0]) {
        tpi_release(k->dh);
        tpi_release(k->dc);
        tpi_release(k->dw);
        return false;
    }
    out[1] = k->dh;
    out[2] = k->dc;
    out[3] = k->dw;
    return true;
}

bool tpi_compose_lstm_layer_backward(tp_tensor *grad_output, tp_tensor *grad_h, tp_tensor *grad_c, tp_tensor *gates,
                                     tp_tensor *h0, tp_tensor *c0, tp_tensor *w_hh, tp_tensor *output, tp_tensor *acts,
                                     tp_tensor *cells, int64_t steps, bool reverse, tp_tensor **out) {
    if (!tpi_lstm_layer_fits(gates, h0, c0, w_hh, steps)) return false;
    if (tpi_grad_off)
        return tpo_lstm_layer_back(grad_output, grad_h, grad_c, h0, c0, w_hh, output, acts, cells, steps, reverse, out);
    tp_tensor *none = !grad_output && !grad_h ? tpo_zeros_like(h0, TP_NO_DTYPE, (tp_device){0}, TP_PRESERVE)
                                              : NULL; /* c alone has a gradient */
    if (!grad_output && !grad_h && !none) return false;
    layer l = {gates, h0, c0, w_hh, grad_output, steps, reverse, NULL};
    carried k = {none ? none : grad_h ? tpi_retain(grad_h) : NULL, grad_c ? tpi_retain(grad_c) : NULL, NULL};
    return by_formula(&l, &k, out);
}
