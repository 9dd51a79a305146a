/* scaled_dot_product_attention: checks, then the blocked operator where it fits, or the textbook formula (dropout, a
 * mask that needs a gradient, batch dims that broadcast). Also the blocked operator's second derivative, as a formula.
 */
#include <math.h>
#include "ops/temporaries.h"
#include "ops/native.h"
#include "tensor/recorder.h"
#include "dispatch/grad_mode.h"
#include "tpi_ops.h"

static tp_tensor *mul(tp_tensor *a, tp_tensor *b) { return tpo_mul(tp_operand_tensor(a), tp_operand_tensor(b)); }
static tp_tensor *times(tp_tensor *a, double b) { return tpo_mul(tp_operand_tensor(a), tp_operand_double(b)); }
static tp_tensor *sub(tp_tensor *a, tp_tensor *b) {
    return tpo_sub(tp_operand_tensor(a), tp_operand_tensor(b), tp_int(1));
}
static tp_tensor *add(tp_tensor *a, tp_tensor *b) {
    return tpo_add(tp_operand_tensor(a), tp_operand_tensor(b), tp_int(1));
}
static tp_tensor *transposed(tp_tensor *t) { return t ? tpo_transpose(t, -2, -1) : NULL; }
static tp_tensor *row_sum(tp_tensor *t) { return t ? tpo_sum(t, TP_INTS(-1), true, TP_NO_DTYPE) : NULL; }

/* Scores with the mask in them. */
static tp_tensor *masked_scores(tpi_temporaries *temps, tp_tensor *query, tp_tensor *key, tp_tensor *mask,
                                bool is_causal, double scale) {
    double root = sqrt(fabs(scale));
    tp_tensor *q = tpi_put(temps, times(query, scale < 0 ? -root : root)), *k = tpi_put(temps, times(key, root));
    tp_tensor *s = tpi_put(temps, q ? tpo_matmul(q, tpi_put(temps, transposed(k))) : NULL);
    if (is_causal && s) {
        tp_tensor *ones =
            tpi_put(temps, tpo_ones(TP_INTS(s->shape[s->ndim - 2], s->shape[s->ndim - 1]), TP_BOOL, tpi_device(s)));
        mask = tpi_put(temps, ones ? tpo_tril(ones, 0) : NULL);
        if (!mask) return NULL;
    }
    if (!mask || !s) return s;
    if (mask->dtype == TP_BOOL)
        return tpi_put(temps, tpo_where(mask, tp_operand_tensor(s), tp_operand_double(-INFINITY)));
    return tpi_put(temps, add(s, mask));
}

static tp_tensor *by_formula(tp_tensor *query, tp_tensor *key, tp_tensor *value, tp_tensor *mask, double dropout_p,
                             bool is_causal, double scale) {
    tpi_temporaries temps = {0};
    tp_tensor *s = masked_scores(&temps, query, key, mask, is_causal, scale);
    tp_tensor *p = tpi_put(&temps, s ? tpo__safe_softmax(s, -1, TP_NO_DTYPE) : NULL);
    if (p && dropout_p > 0) {
        tp_tensor *noise = tpi_put(&temps, tpo_dropout_noise(p, dropout_p, -1, NULL));
        p = tpi_put(&temps, mul(p, noise));
    }
    return tpi_release_temporaries(&temps, p ? tpo_matmul(p, value) : NULL);
}

static bool same_batch(const tp_tensor *a, const tp_tensor *b) {
    if (a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim - 2; i++)
        if (a->shape[i] != b->shape[i]) return false;
    return true;
}

static bool check(const tp_tensor *q, const tp_tensor *k, const tp_tensor *v, const tp_tensor *mask, bool is_causal) {
    if (q->ndim < 2 || k->ndim < 2 || v->ndim < 2)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "argument 'query': Expected query, key, and value to all be at least 2 dimensional, got %d, %d and %d dims",
            q->ndim, k->ndim, v->ndim);
    if (q->dtype != k->dtype || q->dtype != v->dtype)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "argument 'key': Expected query, key, and value to have the same dtype, but got %s, %s and %s",
            tp_dtype_name((tp_dtype)q->dtype), tp_dtype_name((tp_dtype)k->dtype), tp_dtype_name((tp_dtype)v->dtype));
    if (q->shape[q->ndim - 1] != k->shape[k->ndim - 1] || k->shape[k->ndim - 2] != v->shape[v->ndim - 2])
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'key': shapes do not fit: query %s, key %s, value %s",
                          tpi_shape_text(tpi_shape(q)), tpi_shape_text(tpi_shape(k)), tpi_shape_text(tpi_shape(v)));
    if (mask && is_causal)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'attn_mask': Explicit attn_mask should not be set when is_causal=True");
    if (mask && mask->dtype != TP_BOOL && mask->dtype != q->dtype && mask->dtype != TP_FLOAT32)
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "argument 'attn_mask': Expected attn_mask dtype to be bool or float or to match query dtype, but got %s",
            tp_dtype_name((tp_dtype)mask->dtype));
    return true;
}

/* Keys or values of fewer heads, repeated so that there is one for each head of the queries. */
static tp_tensor *per_query_head(tpi_temporaries *temps, tp_tensor *t, const tp_tensor *query) {
    if (t->ndim < 3 || query->ndim < 3)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'enable_gqa': expected at least 3 dims, got %s",
                        tpi_shape_text(tpi_shape(t)));
    int64_t have = t->shape[t->ndim - 3], want = query->shape[query->ndim - 3];
    if (have == want) return t;
    if (have == 0 || want % have != 0)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'key': Number of heads in key and value must divide the number of heads in query, "
                        "got %lld and %lld",
                        (long long)have, (long long)want);
    return tpi_put(temps, tpo_repeat_interleave(t, want / have, -3, TP_NONE));
}

tp_tensor *tpi_compose_scaled_dot_product_attention(tp_tensor *query, tp_tensor *key, tp_tensor *value, tp_tensor *mask,
                                                    double dropout_p, bool is_causal, double scale, bool enable_gqa) {
    if (!check(query, key, value, mask, is_causal)) return NULL;
    if (scale != scale) scale = 1 / sqrt((double)query->shape[query->ndim - 1]);
    tpi_temporaries temps = {0};
    if (enable_gqa) {
        key = per_query_head(&temps, key, query);
        value = key ? per_query_head(&temps, value, query) : NULL;
        if (!value) return tpi_release_temporaries(&temps, NULL);
    }
    bool blocked = dropout_p == 0 && tp_dtype_is_floating((tp_dtype)query->dtype) && same_batch(query, key) &&
                   same_batch(query, value) && (!mask || (!mask->requires_grad && mask->ndim <= query->ndim)) &&
                   query->shape[query->ndim - 1] > 0 && key->shape[key->ndim - 2] > 0;
    if (!blocked)
        return tpi_release_temporaries(&temps, by_formula(query, key, value, mask, dropout_p, is_causal, scale));
    tp_tensor *out[2] = {NULL};
    /* Without them there is no backward that would read them, and no graph that would run this again. */
    bool sums = !tpi_grad_off || tpi_recording;
    if (!tpo_attention_forward(query, key, value, mask, is_causal, scale, sums, out))
        return tpi_release_temporaries(&temps, NULL);
    tpi_release(out[1]);
    return tpi_release_temporaries(&temps, out[0]);
}

/* With scores S, weights P, dP = dO V', D = rowsum(dP P), dS = P (dP - D), and a, b, c the gradients of dQ, dK, dV:
 *     U = scale (a K' + Q b'),   u = rowsum(P U),   W = P (U - u)                           (the gradient of dP)
 *     G = U (dP - D) - u dP + dO c',   X = P (G - rowsum(G P))                              (the gradients of P and
 *                                      of S)
 *     grad dO = W V + P c,   grad Q = scale (X K + dS b),   grad K = scale (X' Q + dS' a),   grad V = W' dO */
bool tpi_compose_attention_backward_backward(tp_tensor *a, tp_tensor *b, tp_tensor *c, tp_tensor *grad,
                                             tp_tensor *query, tp_tensor *key, tp_tensor *value, tp_tensor *mask,
                                             bool is_causal, double scale, tp_tensor **out) {
    tpi_temporaries temps = {0};
#define PUT(x) tpi_put(&temps, (x))
    tp_tensor *s = masked_scores(&temps, query, key, mask, is_causal, scale);
    tp_tensor *p = PUT(s ? tpo__safe_softmax(s, -1, TP_NO_DTYPE) : NULL), *kt = PUT(transposed(key)),
              *vt = PUT(transposed(value));
    tp_tensor *dp = p ? PUT(tpo_matmul(grad, vt)) : NULL;
    tp_tensor *less = PUT(sub(dp, PUT(row_sum(PUT(mul(dp, p)))))), *ds = PUT(mul(p, less));
    tp_tensor *ak = dp ? PUT(tpo_matmul(a, kt)) : NULL, *qb = dp ? PUT(tpo_matmul(query, PUT(transposed(b)))) : NULL;
    tp_tensor *u = PUT(times(PUT(add(ak, qb)), scale)), *us = PUT(row_sum(PUT(mul(p, u)))),
              *w = PUT(mul(p, PUT(sub(u, us))));
    tp_tensor *gc = dp ? PUT(tpo_matmul(grad, PUT(transposed(c)))) : NULL;
    tp_tensor *g = PUT(add(PUT(sub(PUT(mul(u, less)), PUT(mul(us, dp)))), gc));
    tp_tensor *x = PUT(mul(p, PUT(sub(g, PUT(row_sum(PUT(mul(g, p))))))));
    bool ok = x && w && ds;
    if (ok) {
        out[0] = add(PUT(tpo_matmul(w, value)), PUT(tpo_matmul(p, c)));
        out[1] = times(PUT(add(PUT(tpo_matmul(x, key)), PUT(tpo_matmul(ds, b)))), scale);
        out[2] =
            times(PUT(add(PUT(tpo_matmul(PUT(transposed(x)), query)), PUT(tpo_matmul(PUT(transposed(ds)), a)))), scale);
        out[3] = tpo_matmul(PUT(transposed(w)), grad);
        ok = out[0] && out[1] && out[2] && out[3];
        for (int i = 0; i < 4 && !ok; i++) tpi_release(out[i]);
    }
#undef PUT
    tpi_release_temporaries(&temps, NULL);
    return ok;
}
