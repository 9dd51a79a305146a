/* Attention on GPUs: by the driver's library where it serves, which holds no matrix of queries by keys; a few queries
 * that it does not serve (masks, float32) by kernels of our own. Otherwise a few heads at a time go through products
 * and a softmax, so that such a matrix exists for those alone. */
#include "device/gpu/trace.h"
#include "ops/attention/few_queries_gpu.h"
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
    a->batch = n > 3 ? q->shape[0] : 1;
    a->heads = n > 2 ? q->shape[n - 3] : 1;
    a->kv_heads = a->heads;
    a->queries = q->shape[n - 2];
    a->keys = k->shape[n - 2];
    a->depth = q->shape[n - 1];
    a->depth_v = v->shape[n - 1];
    a->q = q->data;
    a->k = k->data;
    a->v = v->data;
    return read_strides(q, a->q_stride) && read_strides(k, a->k_stride) && read_strides(v, a->v_stride);
}

/* A fresh tensor of like's batch dims, with unit stride along the columns: what was made of (length, heads) turned
 * round goes back the same way, as on the CPU. */
static bool has_heads_last(const tp_tensor *t) { return t->ndim == 4 && t->strides[1] < t->strides[2]; }
static tp_tensor *empty_rows(const tp_tensor *like, int64_t rows, int64_t columns) {
    int n = like->ndim;
    int64_t shape[TP_MAX_DIMS], strides[TP_MAX_DIMS];
    memcpy(shape, like->shape, sizeof(int64_t) * n);
    shape[n - 2] = rows;
    shape[n - 1] = columns;
    tpi_contiguous_strides(tp_ints_view(shape, n), strides);
    if (has_heads_last(like)) {
        strides[1] = columns;
        strides[2] = shape[1] * columns;
    }
    return tpi_empty_strided(tp_ints_view(shape, n), tp_ints_view(strides, n), (tp_dtype)like->dtype, tpi_device(like));
}

static tpi_served ask(tp_device device, const tpi_gpu_attention *a) {
    const tpi_gpu_driver *driver = tpi_gpu_driver_of((tp_device_type)device.type);
    if (!driver || !driver->attention) return TPI_DECLINED;
    tpi_gpu_span span = tpi_gpu_span_begin(device, TP_ACTIVITY_LIBRARY, "attention", 0);
    tpi_served served = driver->attention(device.index, tpi_gpu_stream_of(device), a);
    tpi_gpu_span_end(&span, served == TPI_SERVED);
    return served;
}

/* The mask with q's batches and heads, its queries and k's keys; owned. */
static tp_tensor *whole_mask(tp_tensor *mask, const tp_tensor *q, int64_t keys) {
    int64_t shape[TP_MAX_DIMS];
    memcpy(shape, q->shape, sizeof(int64_t) * q->ndim);
    shape[q->ndim - 1] = keys;
    return tpi_expanded(mask, tp_ints_view(shape, q->ndim));
}

/* By the library, which knows no masks, or a few queries by our kernels. False without an error: neither serves. */
static bool forward_at_once(tp_tensor *q, tp_tensor *k, tp_tensor *v, tp_tensor *mask, bool causal, double scale,
                            bool sums, tp_tensor **out) {
    tpi_gpu_attention a;
    tp_device device = tpi_device(q);
    if (!describe(&a, q, k, v, causal, scale)) return false;
    bool few = tpi_gpu_few_queries_suits(device, &a, mask);
    if (mask && !few) return false;
    tp_tensor *wide = mask ? whole_mask(mask, q, a.keys) : NULL, *o = empty_rows(q, a.queries, a.depth_v),
              *lse = o ? tpi_empty(tp_ints_view(q->shape, q->ndim - 1), TP_FLOAT32, device) : NULL;
    bool ready = lse && (wide || !mask) && read_strides(o, a.o_stride);
    a.o = o ? o->data : NULL;
    a.lse = lse && sums ? (float *)(void *)lse->data : NULL;
    bool ok = ready && !mask && ask(device, &a) == TPI_SERVED;
    if (ready && !ok && few && tp_ok()) {
        a.lse = (float *)(void *)lse->data;
        ok = tpi_gpu_few_queries(device, &a, wide);
    }
    tpi_release(wide);
    return tpi_put_pair(ok, o, lse, out);
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
    tp_tensor *g = with_rows(grad), *gq = empty_rows(q, a.queries, a.depth), *gk = empty_rows(k, a.keys, a.depth),
              *gv = empty_rows(v, a.keys, a.depth_v);
    bool ok = g && gq && gk && gv && read_strides(o, a.o_stride) && read_strides(g, a.grad_stride) &&
              read_strides(gq, a.gq_stride) && read_strides(gk, a.gk_stride) && read_strides(gv, a.gv_stride);
    a.backward = true;
    if (ok) {
        a.o = o->data;
        a.lse = (float *)(void *)lse->data;
        a.grad = g->data;
        a.gq = gq->data;
        a.gk = gk->data;
        a.gv = gv->data;
    }
    ok = ok && ask(tpi_device(q), &a) == TPI_SERVED;
    tpi_release(g);
    if (ok) {
        out[0] = gq;
        out[1] = gk;
        out[2] = gv;
        return true;
    }
    tpi_release(gq);
    tpi_release(gk);
    tpi_release(gv);
    return false;
}

/* ---- By products, a few heads at a time ---- */
typedef struct heads { /* all batch dims as one */
    int64_t n, queries, keys, at_once;
    tp_tensor *mask; /* (n, queries, keys), or NULL; owned */
    bool causal;
    double scale;
} heads;

static tp_tensor *transposed(tp_tensor *t) { return t ? tpo_transpose(t, -2, -1) : NULL; }
static tp_tensor *product(tpi_temporaries *temps, tp_tensor *a, tp_tensor *b) {
    return a && b ? tpi_put(temps, tpo_bmm(a, b)) : NULL;
}

static tp_tensor *flat(tpi_temporaries *temps, tp_tensor *t) {
    tp_tensor *alone = tpi_put(temps, tpi_detached(t));
    return alone ? tpi_put(temps, tpo_reshape(alone, TP_INTS(-1, t->shape[t->ndim - 2], t->shape[t->ndim - 1]))) : NULL;
}

static tp_tensor *part(tpi_temporaries *temps, tp_tensor *t, int64_t first, int64_t n) {
    return t ? tpi_put(temps, tpo_narrow(t, 0, first, n)) : NULL;
}

static tp_tensor *scores(tpi_temporaries *temps, tp_tensor *q, tp_tensor *k, int64_t first, int64_t n) {
    return product(temps, part(temps, q, first, n), tpi_put(temps, transposed(part(temps, k, first, n))));
}

/* ---- Rows of scores: attention_rows_gpu_kernel.h ---- */
typedef struct attention_t { /* as the kernels have it */
    union {
        double wide;
        float narrow;
    } scale; /* the kernels' A. First, so that what follows stands at the same place behind either */
    int64_t rows, queries, mask[3];
    int keys;
} attention_t;

/* The kernel for rows of h's keys, and how threads take them; mask: of the heads in question, or NULL. addresses: of
 * all rows, joined by |. heavy: how many rows a thread holds. */
static tpi_gpu_function *rows_kernel(const heads *h, const tpi_gpu_site *site, const tp_tensor *s, tp_dtype p,
                                     const tp_tensor *mask, uintptr_t addresses, int heavy, tpi_gpu_rows *r) {
    tp_dtype scores_dtype = (tp_dtype)s->dtype;
    size_t size = tpi_itemsize(s) > tpi_dtype_bytes[p] ? tpi_itemsize(s) : tpi_dtype_bytes[p];
    *r = tpi_gpu_rows_for(tpi_device(s), h->keys, (int)size, addresses, heavy);
    const tpi_gpu_define defines[] = {TPI_DEFINE("LONG", r->is_long),
                                      TPI_DEFINE("GROUP", r->group),
                                      TPI_DEFINE("GROUPS", r->groups),
                                      TPI_DEFINE("PER", r->per),
                                      TPI_DEFINE("VEC", r->vector),
                                      TPI_DEFINE("CAUSAL", h->causal),
                                      TPI_DEFINE("MASK", !mask                    ? 0
                                                         : mask->dtype == TP_BOOL ? 1
                                                                                  : 2),
                                      TPI_DEFINE_DTYPE("S", scores_dtype),
                                      TPI_DEFINE_DTYPE("P", p),
                                      TPI_DEFINE_DTYPE("M", mask ? mask->dtype : scores_dtype)};
    return tpi_gpu_site_kernel(tpi_device(s), site, scores_dtype == TP_FLOAT64, sizeof defines / sizeof *defines,
                               defines);
}

static attention_t described(const heads *h, const tp_tensor *mask, int64_t n, bool wide) {
    attention_t c = {.rows = n * h->queries, .queries = h->queries, .keys = (int)h->keys};
    if (wide)
        c.scale.wide = h->scale;
    else
        c.scale.narrow = (float)h->scale;
    for (int i = 0; mask && i < 3; i++) c.mask[i] = mask->strides[i];
    return c;
}

static uintptr_t address(const tp_tensor *t) { return t ? (uintptr_t)t->data : 0; }

/* p = probabilities of the scores s of heads first .. first + n - 1; sums: their logarithms. p may be s. */
static bool forward_rows(const heads *h, tp_tensor *s, int64_t first, int64_t n, tp_tensor *p, tp_tensor *sums) {
    static const tpi_gpu_site site = {"attention_rows_gpu_kernel.h", "forward"};
    tpi_temporaries temps = {0};
    tp_tensor *mask = part(&temps, h->mask, first, n);
    tpi_gpu_rows r;
    tpi_gpu_function *kernel =
        !h->mask || mask ? rows_kernel(h, &site, s, (tp_dtype)p->dtype, mask, address(s) | address(p), 1, &r) : NULL;
    const attention_t c = described(h, mask, n, s->dtype == TP_FLOAT64);
    const tpi_gpu_arg args[] = {TPI_GPU_PTR(p->data), TPI_GPU_PTR(sums->data), TPI_GPU_PTR(s->data),
                                TPI_GPU_PTR(tpi_gpu_data(mask)), TPI_GPU_VAL(c)};
    bool ok =
        kernel && tpi_gpu_launch(tpi_device(s), kernel, tpi_ceil_div(c.rows, r.groups), r.group * r.groups, 0, 5, args);
    tpi_release_temporaries(&temps, NULL);
    return ok;
}

/* What a row of the backward is told: the logarithm of its sum, and its output times its gradient. */
typedef struct row_facts {
    tp_tensor *sums, *means;
} row_facts;

/* The probabilities of the scores s, in the place of s, and the scores' gradients in that of the probabilities'
 * gradients, dots. */
static bool backward_rows(const heads *h, tp_tensor *s, tp_tensor *dots, int64_t first, int64_t n, row_facts f) {
    static const tpi_gpu_site site = {"attention_rows_gpu_kernel.h", "backward"};
    tpi_temporaries temps = {0};
    tp_tensor *mask = part(&temps, h->mask, first, n);
    tpi_gpu_rows r;
    tpi_gpu_function *kernel =
        !h->mask || mask ? rows_kernel(h, &site, s, (tp_dtype)s->dtype, mask, address(s) | address(dots), 2, &r) : NULL;
    const attention_t c = described(h, mask, n, s->dtype == TP_FLOAT64);
    const tpi_gpu_arg args[] = {
        TPI_GPU_PTR(s->data), TPI_GPU_PTR(dots->data), TPI_GPU_PTR(f.sums->data),       TPI_GPU_PTR(f.means->data),
        TPI_GPU_PTR(s->data), TPI_GPU_PTR(dots->data), TPI_GPU_PTR(tpi_gpu_data(mask)), TPI_GPU_VAL(c)};
    bool ok =
        kernel && tpi_gpu_launch(tpi_device(s), kernel, tpi_ceil_div(c.rows, r.groups), r.group * r.groups, 0, 8, args);
    tpi_release_temporaries(&temps, NULL);
    return ok;
}

static bool begin(heads *h, tpi_temporaries *temps, tp_tensor *q, tp_tensor *k, tp_tensor *mask, bool causal,
                  double scale) {
    *h = (heads){
        .queries = q->shape[q->ndim - 2], .keys = k->shape[k->ndim - 2], .n = 1, .causal = causal, .scale = scale};
    for (int i = 0; i < q->ndim - 2; i++) h->n *= q->shape[i];
    int64_t each = h->queries * h->keys * 8;
    h->at_once = each ? SCORES_BYTES / each : h->n;
    if (h->at_once < 1) h->at_once = 1;
    if (!mask) return true;
    tp_tensor *wide = tpi_put(temps, whole_mask(mask, q, h->keys));
    h->mask = wide ? flat(temps, wide) : NULL;
    return h->mask;
}

/* What heads first .. first + n - 1 give, owned; their logarithms go where lse has them. */
static tp_tensor *forward_part(const heads *h, tp_tensor *q, tp_tensor *k, tp_tensor *v, int64_t first, int64_t n,
                               tp_tensor *lse) {
    tpi_temporaries temps = {0};
    tp_tensor *s = scores(&temps, q, k, first, n), *sums = part(&temps, lse, first, n);
    tp_tensor *p = s && sums && s->dtype != v->dtype
                       ? tpi_put(&temps, tpi_empty(tpi_shape(s), (tp_dtype)v->dtype, tpi_device(s)))
                       : s;
    bool ok = p && sums && forward_rows(h, s, first, n, p, sums);
    tp_tensor *made = ok ? product(&temps, p, part(&temps, v, first, n)) : NULL;
    return tpi_release_temporaries(&temps, made ? tpi_retain(made) : NULL);
}

/* Puts a part's result where it belongs; the only part's is the whole. Consumes `made`. */
static bool put_part(const heads *h, tp_tensor **whole, tp_tensor *made, int64_t first, int64_t n) {
    if (!made) return false;
    if (n == h->n) {
        *whole = made;
        return true;
    }
    tpi_temporaries temps = {0};
    tpi_put(&temps, made);
    if (!*whole)
        *whole = tpi_empty(TP_INTS(h->n, made->shape[1], made->shape[2]), (tp_dtype)made->dtype, tpi_device(made));
    tp_tensor *target = part(&temps, *whole, first, n);
    bool ok = target && tpi_copy_data(target, made);
    tpi_release_temporaries(&temps, NULL);
    return ok;
}

static bool forward_by_products(tp_tensor *query, tp_tensor *key, tp_tensor *value, tp_tensor *mask, bool causal,
                                double scale, tp_tensor **out) {
    tpi_temporaries temps = {0};
    heads h;
    tp_dtype kept = query->dtype == TP_FLOAT64 ? TP_FLOAT64 : TP_FLOAT32;
    bool ok = begin(&h, &temps, query, key, mask, causal, scale);
    tp_tensor *q = ok ? flat(&temps, query) : NULL, *k = q ? flat(&temps, key) : NULL,
              *v = k ? flat(&temps, value) : NULL;
    tp_tensor *lse = v ? tpi_empty(TP_INTS(h.n, h.queries), kept, tpi_device(query)) : NULL, *o = NULL;
    ok = lse;
    for (int64_t at = 0; at < h.n && ok; at += h.at_once) {
        int64_t n = h.n - at < h.at_once ? h.n - at : h.at_once;
        ok = put_part(&h, &o, forward_part(&h, q, k, v, at, n, lse), at, n);
    }
    if (ok) {
        int64_t shape[TP_MAX_DIMS];
        memcpy(shape, query->shape, sizeof(int64_t) * query->ndim);
        shape[query->ndim - 1] = value->shape[value->ndim - 1];
        out[0] = tpo_reshape(o, tp_ints_view(shape, query->ndim));
        out[1] = tpo_reshape(lse, tp_ints_view(shape, query->ndim - 1));
        ok = out[0] && out[1];
        if (ok && has_heads_last(query)) {
            tp_tensor *transposed = empty_rows(query, h.queries, shape[query->ndim - 1]);
            ok = transposed && tpi_copy_data(transposed, out[0]);
            out[0] = tpi_release_then(out[0], transposed);
        }
        if (!ok) {
            tpi_release(out[0]);
            tpi_release(out[1]);
        }
    }
    tpi_release(o);
    tpi_release(lse);
    tpi_release_temporaries(&temps, NULL);
    return ok;
}

typedef struct backward_call {
    tp_tensor *grad, *q, *k, *v, *o, *lse;
    tp_tensor *made[3]; /* of q, k and v; owned */
} backward_call;

static bool backward_part(const heads *h, backward_call *c, int64_t first, int64_t n) {
    tpi_temporaries temps = {0};
    tp_tensor *g = part(&temps, c->grad, first, n), *q = part(&temps, c->q, first, n),
              *k = part(&temps, c->k, first, n), *v = part(&temps, c->v, first, n), *o = part(&temps, c->o, first, n),
              *sums = part(&temps, c->lse, first, n);
    tp_tensor *both = g && o ? tpi_put(&temps, tpo_mul(tp_operand_tensor(g), tp_operand_tensor(o))) : NULL;
    tp_tensor *means = both && sums ? tpi_put(&temps, tpo_sum(both, TP_INTS(-1), false, (tp_dtype)sums->dtype)) : NULL;
    tp_tensor *s = scores(&temps, c->q, c->k, first, n), *dots = product(&temps, g, tpi_put(&temps, transposed(v)));
    bool ok = s && dots && means && backward_rows(h, s, dots, first, n, (row_facts){sums, means});
    tp_tensor *gv = ok ? product(&temps, tpi_put(&temps, transposed(s)), g) : NULL,
              *gq = ok ? product(&temps, dots, k) : NULL,
              *gk = ok ? product(&temps, tpi_put(&temps, transposed(dots)), q) : NULL;
    tp_tensor *const made[3] = {gq, gk, gv};
    for (int i = 0; i < 3 && ok; i++) ok = put_part(h, &c->made[i], made[i] ? tpi_retain(made[i]) : NULL, first, n);
    tpi_release_temporaries(&temps, NULL);
    return ok;
}

static bool backward_by_products(tp_tensor *grad, tp_tensor *query, tp_tensor *key, tp_tensor *value, tp_tensor *output,
                                 tp_tensor *lse, tp_tensor *mask, bool causal, double scale, tp_tensor **out) {
    tpi_temporaries temps = {0};
    heads h;
    bool ok = begin(&h, &temps, query, key, mask, causal, scale);
    backward_call c = {0};
    tp_tensor *const from[5] = {grad, query, key, value, output};
    tp_tensor **const to[5] = {&c.grad, &c.q, &c.k, &c.v, &c.o};
    for (int i = 0; i < 5 && ok; i++) ok = (*to[i] = flat(&temps, from[i])) != NULL;
    tp_tensor *alone = ok ? tpi_put(&temps, tpi_detached(lse)) : NULL;
    tp_tensor *sums = alone ? tpi_put(&temps, tpo_reshape(alone, TP_INTS(h.n, h.queries))) : NULL;
    tp_dtype kept = query->dtype == TP_FLOAT64 ? TP_FLOAT64 : TP_FLOAT32;
    tp_tensor *same = sums ? tpi_put(&temps, tpi_as_dtype_data(sums, kept)) : NULL;
    c.lse = same ? tpi_put(&temps, tpi_contiguous_data(same)) : NULL;
    ok = ok && c.lse;
    for (int64_t at = 0; at < h.n && ok; at += h.at_once)
        ok = backward_part(&h, &c, at, h.n - at < h.at_once ? h.n - at : h.at_once);
    for (int i = 0; i < 3; i++) {
        out[i] = ok ? tpo_reshape(c.made[i], tpi_shape(from[i + 1])) : NULL;
        ok = ok && out[i];
        tpi_release(c.made[i]);
    }
    tpi_release_temporaries(&temps, NULL);
    for (int i = 0; i < 3 && !ok; i++) {
        tpi_release(out[i]);
        out[i] = NULL;
    }
    return ok;
}

/* ---- The natives: nothing in here is recorded ---- */
tpi_served tpi_gpu_attention_forward(tp_tensor *query, tp_tensor *key, tp_tensor *value, tp_tensor *mask,
                                     bool is_causal, double scale, bool sums, tp_tensor **out) {
    if (!tpi_gpu_floats(query) || !query->numel || !key->numel || !value->numel) return TPI_DECLINED;
    if (forward_at_once(query, key, value, mask, is_causal, scale, sums, out)) return TPI_SERVED;
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
