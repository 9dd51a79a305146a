/* Attention on GPUs: by the driver's library where it serves, which holds no matrix of queries by keys. Otherwise a few
 * heads at a time go through products and a softmax, so that such a matrix exists for those alone. */
#include "ops/temporaries.h"
#include "ops/native_gpu.h"
#include "tpi_ops.h"
#include <math.h>
#include <taper/autograd.h>

#define SCORES_BYTES ((int64_t)256 << 20) /* of the matrices that exist at a time */

/* ---- By the library ---- */

/* (batch, heads, rows, columns) with unit stride along the columns: sizes and strides of t with up to two dims before
 * the last two. */
static bool read_strides(const tp_tensor *t, int64_t *stride) {
    int n = t->ndim;
    if (n < 2 || n > 4 || (t->strides[n - 1] != 1 && t->shape[n - 1] > 1)) return false;
    stride[2] = t->strides[n - 2];
    stride[1] = n > 2 ? t->strides[n - 3] : 0;
    stride[0] = n > 3 ? t->strides[n - 4] : 0;
    return true;
}

static bool describe(tpi_gpu_attention *a, const tp_tensor *q, const tp_tensor *k, const tp_tensor *v, bool causal,
                     double scale) {
    int n = q->ndim;
    *a = (tpi_gpu_attention){.causal = causal,
                             .dtype = (tp_dtype)q->dtype,
                             .scale = scale,
                             .deterministic = tp_deterministic() != TP_DETERMINISTIC_OFF};
    a->batch = n > 3 ? q->shape[0] : 1, a->heads = n > 2 ? q->shape[n - 3] : 1, a->kv_heads = a->heads;
    a->queries = q->shape[n - 2], a->keys = k->shape[n - 2], a->depth = q->shape[n - 1], a->depth_v = v->shape[n - 1];
    a->q = q->data, a->k = k->data, a->v = v->data;
    return read_strides(q, a->q_stride) && read_strides(k, a->k_stride) && read_strides(v, a->v_stride);
}

/* A fresh tensor of like's batch dims, with unit stride along the columns: what was made of (length, heads) turned
 * round goes back the same way, as on the CPU. */
static bool turned_round(const tp_tensor *t) { return t->ndim == 4 && t->strides[1] < t->strides[2]; }
static tp_tensor *room(const tp_tensor *like, int64_t rows, int64_t columns) {
    int n = like->ndim;
    int64_t shape[TP_MAX_DIMS], strides[TP_MAX_DIMS];
    memcpy(shape, like->shape, sizeof(int64_t) * n);
    shape[n - 2] = rows, shape[n - 1] = columns;
    tpi_contiguous_strides(tp_ints_view(shape, n), strides);
    if (turned_round(like)) strides[1] = columns, strides[2] = shape[1] * columns;
    return tpi_empty_strided(tp_ints_view(shape, n), tp_ints_view(strides, n), (tp_dtype)like->dtype, tpi_device(like));
}

static tpi_served ask(tp_device device, const tpi_gpu_attention *a) {
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device.type);
    return driver && driver->attention ? driver->attention(device.index, tpi_gpu_stream_of(device), a) : TPI_DECLINED;
}

static bool forward_by_library(tp_tensor *q, tp_tensor *k, tp_tensor *v, bool causal, double scale, bool sums,
                               tp_tensor **out) {
    tpi_gpu_attention a;
    if (!describe(&a, q, k, v, causal, scale)) return false;
    tp_tensor *o = room(q, a.queries, a.depth_v),
              *lse = o ? tpi_empty(tp_ints_view(q->shape, q->ndim - 1), TP_FLOAT32, tpi_device(q)) : NULL;
    bool ok = lse && read_strides(o, a.o_stride);
    a.o = o ? o->data : NULL, a.lse = lse && sums ? (float *)(void *)lse->data : NULL;
    if (ok && ask(tpi_device(q), &a) == TPI_SERVED) return out[0] = o, out[1] = lse, true;
    return tpi_release(o), tpi_release(lse), false;
}

/* grad with unit stride along the columns, as the library wants it; owned. */
static tp_tensor *with_rows(tp_tensor *t) {
    int64_t unused[3];
    return read_strides(t, unused) ? tpi_retain(t) : tpi_contiguous_data(t);
}

static bool backward_by_library(tp_tensor *grad, tp_tensor *q, tp_tensor *k, tp_tensor *v, tp_tensor *o, tp_tensor *lse,
                                bool causal, double scale, tp_tensor **out) {
    tpi_gpu_attention a;
    if (lse->dtype != TP_FLOAT32 || !tp_is_contiguous(lse) || grad->dtype != q->dtype ||
        !describe(&a, q, k, v, causal, scale))
        return false;
    tp_tensor *g = with_rows(grad), *gq = room(q, a.queries, a.depth), *gk = room(k, a.keys, a.depth),
              *gv = room(v, a.keys, a.depth_v);
    bool ok = g && gq && gk && gv && read_strides(o, a.o_stride) && read_strides(g, a.grad_stride) &&
              read_strides(gq, a.gq_stride) && read_strides(gk, a.gk_stride) && read_strides(gv, a.gv_stride);
    a.backward = true;
    if (ok)
        a.o = o->data, a.lse = (float *)(void *)lse->data, a.grad = g->data, a.gq = gq->data, a.gk = gk->data,
        a.gv = gv->data;
    ok = ok && ask(tpi_device(q), &a) == TPI_SERVED;
    tpi_release(g);
    if (ok) return out[0] = gq, out[1] = gk, out[2] = gv, true;
    return tpi_release(gq), tpi_release(gk), tpi_release(gv), false;
}

/* ---- By products, a few heads at a time ---- */
typedef struct heads { /* all batch dims as one */
    int64_t n, queries, keys, at_once;
    tp_tensor *mask; /* (n, queries, keys), or NULL; owned */
    bool causal;
    double scale;
} heads;

static tp_tensor *op2(tp_tensor *(*f)(tp_operand, tp_operand), tp_tensor *a, tp_tensor *b) {
    return a && b ? f(tp_operand_tensor(a), tp_operand_tensor(b)) : NULL;
}
static tp_tensor *mul(tp_tensor *a, tp_tensor *b) { return op2(tpo_mul, a, b); }
static tp_tensor *sub(tp_tensor *a, tp_tensor *b) {
    return a && b ? tpo_sub(tp_operand_tensor(a), tp_operand_tensor(b), tp_int(1)) : NULL;
}
static tp_tensor *turned(tp_tensor *t) { return t ? tpo_transpose(t, -2, -1) : NULL; }
static tp_tensor *product(tpi_temporaries *bag, tp_tensor *a, tp_tensor *b) {
    return a && b ? tpi_put(bag, tpo_bmm(a, b)) : NULL;
}

static tp_tensor *flat(tpi_temporaries *bag, tp_tensor *t) {
    tp_tensor *alone = tpi_put(bag, tpi_detached(t));
    return alone ? tpi_put(bag, tpo_reshape(alone, TP_INTS(-1, t->shape[t->ndim - 2], t->shape[t->ndim - 1]))) : NULL;
}

static tp_tensor *part(tpi_temporaries *bag, tp_tensor *t, int64_t first, int64_t n) {
    return t ? tpi_put(bag, tpo_narrow(t, 0, first, n)) : NULL;
}

/* The scores of heads first .. first + n - 1, masked, in float32 or wider. */
static tp_tensor *scores(tpi_temporaries *bag, const heads *h, tp_tensor *q, tp_tensor *k, int64_t first, int64_t n) {
    tp_tensor *s = product(bag, part(bag, q, first, n), tpi_put(bag, turned(part(bag, k, first, n))));
    if (s && (s->dtype == TP_FLOAT16 || s->dtype == TP_BFLOAT16)) s = tpi_put(bag, tpo_to_dtype(s, TP_FLOAT32));
    if (s) s = tpi_put(bag, tpo_mul(tp_operand_tensor(s), tp_operand_double(h->scale)));
    tp_tensor *mask = h->mask ? part(bag, h->mask, first, n) : NULL;
    if (s && h->causal) {
        tp_tensor *i = tpi_put(bag, tpo_arange(tp_int(h->queries), TP_INT64, tpi_device(s))),
                  *j = tpi_put(bag, tpo_arange(tp_int(h->keys), TP_INT64, tpi_device(s)));
        tp_tensor *column = i ? tpi_put(bag, tpo_unsqueeze(i, 1)) : NULL;
        mask = column && j ? tpi_put(bag, tpo_ge(column, tp_operand_tensor(j))) : NULL;
        if (!mask) return NULL;
    }
    if (!s || !mask) return s;
    if (mask->dtype == TP_BOOL)
        return tpi_put(bag, tpo_where(mask, tp_operand_tensor(s), tp_operand_double(-INFINITY)));
    return tpi_put(bag, tpo_add(tp_operand_tensor(s), tp_operand_tensor(mask), tp_int(1)));
}

static bool begin(heads *h, tpi_temporaries *bag, tp_tensor *q, tp_tensor *k, tp_tensor *mask, bool causal,
                  double scale) {
    *h = (heads){
        .queries = q->shape[q->ndim - 2], .keys = k->shape[k->ndim - 2], .n = 1, .causal = causal, .scale = scale};
    for (int i = 0; i < q->ndim - 2; i++) h->n *= q->shape[i];
    int64_t each = h->queries * h->keys * 8;
    h->at_once = each ? SCORES_BYTES / each : h->n;
    if (h->at_once < 1) h->at_once = 1;
    if (!mask) return true;
    int64_t shape[TP_MAX_DIMS];
    memcpy(shape, q->shape, sizeof(int64_t) * q->ndim);
    shape[q->ndim - 1] = h->keys;
    tp_tensor *wide = tpi_put(bag, tpi_expanded(mask, tp_ints_view(shape, q->ndim)));
    h->mask = wide ? flat(bag, wide) : NULL;
    return h->mask;
}

static bool forward_part(const heads *h, tp_tensor *q, tp_tensor *k, tp_tensor *v, int64_t first, int64_t n,
                         tp_tensor *o, tp_tensor *lse) {
    tpi_temporaries bag = {0};
    tp_tensor *s = scores(&bag, h, q, k, first, n), *l = s ? tpi_put(&bag, tpo_logsumexp(s, TP_INTS(-1), true)) : NULL;
    tp_tensor *off = tpi_put(&bag, sub(s, l)), *p = off ? tpi_put(&bag, tpo_exp(off)) : NULL;
    if (p) p = tpi_put(&bag, tpo_nan_to_num(p, 0, NAN, NAN)); /* a query that sees nothing: nothing */
    tp_tensor *narrow = p ? tpi_put(&bag, tpo_to_dtype(p, (tp_dtype)v->dtype)) : NULL,
              *made = product(&bag, narrow, part(&bag, v, first, n));
    tp_tensor *place = part(&bag, o, first, n), *place_l = part(&bag, lse, first, n),
              *row = l ? tpi_put(&bag, tpo_squeeze_dim(l, -1)) : NULL;
    bool ok = made && place && place_l && row && tpi_copy_data(place, made) && tpi_copy_data(place_l, row);
    tpi_release_temporaries(&bag, NULL);
    return ok;
}

static bool forward_by_products(tp_tensor *query, tp_tensor *key, tp_tensor *value, tp_tensor *mask, bool causal,
                                double scale, tp_tensor **out) {
    tpi_temporaries bag = {0};
    heads h;
    tp_dtype kept = query->dtype == TP_FLOAT64 ? TP_FLOAT64 : TP_FLOAT32;
    bool ok = begin(&h, &bag, query, key, mask, causal, scale);
    tp_tensor *q = ok ? flat(&bag, query) : NULL, *k = q ? flat(&bag, key) : NULL, *v = k ? flat(&bag, value) : NULL;
    tp_tensor *o =
        v ? tpi_empty(TP_INTS(h.n, h.queries, v->shape[2]), (tp_dtype)query->dtype, tpi_device(query)) : NULL;
    tp_tensor *lse = o ? tpi_empty(TP_INTS(h.n, h.queries), kept, tpi_device(query)) : NULL;
    ok = lse;
    for (int64_t at = 0; at < h.n && ok; at += h.at_once)
        ok = forward_part(&h, q, k, v, at, h.n - at < h.at_once ? h.n - at : h.at_once, o, lse);
    if (ok) {
        int64_t shape[TP_MAX_DIMS];
        memcpy(shape, query->shape, sizeof(int64_t) * query->ndim);
        shape[query->ndim - 1] = value->shape[value->ndim - 1];
        out[0] = tpo_reshape(o, tp_ints_view(shape, query->ndim)),
        out[1] = tpo_reshape(lse, tp_ints_view(shape, query->ndim - 1));
        ok = out[0] && out[1];
        if (ok && turned_round(query)) {
            tp_tensor *turned = room(query, h.queries, shape[query->ndim - 1]);
            ok = turned && tpi_copy_data(turned, out[0]);
            out[0] = tpi_after(out[0], turned);
        }
        if (!ok) tpi_release(out[0]), tpi_release(out[1]);
    }
    tpi_release(o), tpi_release(lse);
    tpi_release_temporaries(&bag, NULL);
    return ok;
}

typedef struct backward_call {
    tp_tensor *grad, *q, *k, *v, *o, *lse, *gq, *gk, *gv;
} backward_call;

static bool backward_part(const heads *h, const backward_call *c, int64_t first, int64_t n) {
    tpi_temporaries bag = {0};
    tp_tensor *s = scores(&bag, h, c->q, c->k, first, n), *l = part(&bag, c->lse, first, n),
              *column = l ? tpi_put(&bag, tpo_unsqueeze(l, -1)) : NULL;
    tp_tensor *off = tpi_put(&bag, sub(s, column)), *p = off ? tpi_put(&bag, tpo_exp(off)) : NULL;
    if (p) p = tpi_put(&bag, tpo_nan_to_num(p, 0, NAN, NAN));
    tp_tensor *g = part(&bag, c->grad, first, n), *o = part(&bag, c->o, first, n), *q = part(&bag, c->q, first, n),
              *k = part(&bag, c->k, first, n), *v = part(&bag, c->v, first, n);
    tp_dtype narrow = (tp_dtype)c->q->dtype;
    tp_tensor *pn = p ? tpi_put(&bag, tpo_to_dtype(p, narrow)) : NULL;
    tp_tensor *gv = product(&bag, tpi_put(&bag, turned(pn)), g), *gp = product(&bag, g, tpi_put(&bag, turned(v)));
    tp_tensor *both = tpi_put(&bag, mul(g, o)),
              *d = both ? tpi_put(&bag, tpo_sum(both, TP_INTS(-1), true, p ? (tp_dtype)p->dtype : TP_NO_DTYPE)) : NULL;
    tp_tensor *wide = gp && p ? tpi_put(&bag, tpo_to_dtype(gp, (tp_dtype)p->dtype)) : NULL,
              *gs = tpi_put(&bag, mul(tpi_put(&bag, sub(wide, d)), p));
    if (gs) gs = tpi_put(&bag, tpo_mul(tp_operand_tensor(gs), tp_operand_double(h->scale)));
    tp_tensor *gn = gs ? tpi_put(&bag, tpo_to_dtype(gs, narrow)) : NULL, *gq = product(&bag, gn, k),
              *gk = product(&bag, tpi_put(&bag, turned(gn)), q);
    bool ok = gv && gq && gk;
    tp_tensor *const made[3] = {gq, gk, gv}, *const whole[3] = {c->gq, c->gk, c->gv};
    for (int i = 0; i < 3 && ok; i++) {
        tp_tensor *place = part(&bag, (tp_tensor *)whole[i], first, n);
        ok = place && tpi_copy_data(place, made[i]);
    }
    tpi_release_temporaries(&bag, NULL);
    return ok;
}

static bool backward_by_products(tp_tensor *grad, tp_tensor *query, tp_tensor *key, tp_tensor *value, tp_tensor *output,
                                 tp_tensor *lse, tp_tensor *mask, bool causal, double scale, tp_tensor **out) {
    tpi_temporaries bag = {0};
    heads h;
    bool ok = begin(&h, &bag, query, key, mask, causal, scale);
    backward_call c = {0};
    tp_tensor *const from[5] = {grad, query, key, value, output};
    tp_tensor **const to[5] = {&c.grad, &c.q, &c.k, &c.v, &c.o};
    for (int i = 0; i < 5 && ok; i++) ok = (*to[i] = flat(&bag, from[i])) != NULL;
    tp_tensor *alone = ok ? tpi_put(&bag, tpi_detached(lse)) : NULL;
    c.lse = alone ? tpi_put(&bag, tpo_reshape(alone, TP_INTS(h.n, h.queries))) : NULL;
    ok = ok && c.lse;
    out[0] = ok ? tpi_empty(tpi_shape(query), (tp_dtype)query->dtype, tpi_device(query)) : NULL;
    out[1] = ok ? tpi_empty(tpi_shape(key), (tp_dtype)key->dtype, tpi_device(key)) : NULL;
    out[2] = ok ? tpi_empty(tpi_shape(value), (tp_dtype)value->dtype, tpi_device(value)) : NULL;
    ok = ok && out[0] && out[1] && out[2] && (c.gq = flat(&bag, out[0])) && (c.gk = flat(&bag, out[1])) &&
         (c.gv = flat(&bag, out[2]));
    for (int64_t at = 0; at < h.n && ok; at += h.at_once)
        ok = backward_part(&h, &c, at, h.n - at < h.at_once ? h.n - at : h.at_once);
    tpi_release_temporaries(&bag, NULL);
    for (int i = 0; i < 3 && !ok; i++) tpi_release(out[i]), out[i] = NULL;
    return ok;
}

/* ---- The natives: nothing in here is recorded ---- */
tpi_served tpi_gpu_attention_forward(tp_tensor *query, tp_tensor *key, tp_tensor *value, tp_tensor *mask,
                                     bool is_causal, double scale, bool sums, tp_tensor **out) {
    if (!tpi_gpu_floats(query) || !query->numel || !key->numel || !value->numel) return TPI_DECLINED;
    if (!mask && forward_by_library(query, key, value, is_causal, scale, sums, out)) return TPI_SERVED;
    if (!tp_ok()) return tpi_not_served();
    bool before = tp_grad_enabled();
    tp_set_grad_enabled(false);
    bool ok = forward_by_products(query, key, value, mask, is_causal, scale, out);
    tp_set_grad_enabled(before);
    return tpi_serve_if(ok);
}

tpi_served tpi_gpu_attention_backward(tp_tensor *grad, tp_tensor *query, tp_tensor *key, tp_tensor *value,
                                      tp_tensor *output, tp_tensor *lse, tp_tensor *mask, bool is_causal, double scale,
                                      tp_tensor **out) {
    if (!tpi_gpu_floats(query) || !query->numel || !key->numel || !value->numel) return TPI_DECLINED;
    if (!mask && backward_by_library(grad, query, key, value, output, lse, is_causal, scale, out)) return TPI_SERVED;
    if (!tp_ok()) return tpi_not_served();
    bool before = tp_grad_enabled();
    tp_set_grad_enabled(false);
    bool ok = backward_by_products(grad, query, key, value, output, lse, mask, is_causal, scale, out);
    tp_set_grad_enabled(before);
    return tpi_serve_if(ok);
}
