/* MultiheadAttention: the same steps as taper.nn.functional.multi_head_attention_forward, with the same bits. Inputs:
 * query, key, value, key_padding_mask, need_weights (true), attn_mask, average_attn_weights (true), is_causal; results:
 * the output and the weights. */
#include "nn/layer.h"
#include "autograd/glue.h"
#include "tpi_layers.h"
#include <math.h>
#include <taper/ops.h>

bool tpi_build_attention(tp_module *m, int64_t embed_dim, int64_t num_heads, double dropout, bool bias,
                         bool add_bias_kv, bool add_zero_attn, int64_t kdim, int64_t vdim, bool batch_first,
                         tp_device device, tp_dtype dtype) {
    if (embed_dim <= 0 || num_heads <= 0)
        return tpi_refuse(
            TP_ERR_VALUE,
            "embed_dim and num_heads must be greater than 0, got embed_dim=%lld and num_heads=%lld instead",
            (long long)embed_dim, (long long)num_heads);
    if (embed_dim % num_heads) return tpi_refuse(TP_ERR_VALUE, "embed_dim must be divisible by num_heads");
    if (kdim == TP_NONE) kdim = embed_dim;
    if (vdim == TP_NONE) vdim = embed_dim;
    bool same = kdim == embed_dim && vdim == embed_dim;
    const struct {
        const char *name;
        tp_value value;
    } attributes[] = {{"embed_dim", tp_value_int(embed_dim)},
                      {"num_heads", tp_value_int(num_heads)},
                      {"dropout", tp_value_double(dropout)},
                      {"kdim", tp_value_int(kdim)},
                      {"vdim", tp_value_int(vdim)},
                      {"batch_first", tp_value_bool(batch_first)},
                      {"add_zero_attn", tp_value_bool(add_zero_attn)}};
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (!tpi_module_set(m, attributes[i].name, attributes[i].value)) return false;
    const struct {
        const char *name;
        bool there;
        tp_ints shape;
    } parameters[] = {{"q_proj_weight", !same, TP_INTS(embed_dim, embed_dim)},
                      {"k_proj_weight", !same, TP_INTS(embed_dim, kdim)},
                      {"v_proj_weight", !same, TP_INTS(embed_dim, vdim)},
                      {"in_proj_weight", same, TP_INTS(tpi_size_times(3, embed_dim), embed_dim)},
                      {"in_proj_bias", bias, TP_INTS(tpi_size_times(3, embed_dim))},
                      {"bias_k", add_bias_kv, TP_INTS(1, 1, embed_dim)},
                      {"bias_v", add_bias_kv, TP_INTS(1, 1, embed_dim)}};
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
        if (!tpi_module_make(m, parameters[i].name, TPI_PARAMETER, parameters[i].there, parameters[i].shape, dtype,
                             device, 0))
            return false;
    if (!tp_module_add(m, "out_proj",
                       tp_nn_non_dynamically_quantizable_linear(embed_dim, embed_dim, .bias = bias, .device = device,
                                                                .dtype = dtype)))
        return false;
    return tpi_reset_attention(m);
}

bool tpi_reset_attention(tp_module *m) { /* after out_proj was drawn */
    for (int i = 0; i < 4; i++)          /* the projections' weights */
        if (m->slots[i].tensor && !tp_init_xavier_uniform(m->slots[i].tensor, 1)) return false;
    tp_tensor *bias = tpi_get_tensor(m, "in_proj_bias"), *bias_k = tpi_get_tensor(m, "bias_k");
    if (bias && !(tp_init_zeros(bias) && tp_init_zeros(tp_module_tensor(m, "out_proj.bias")))) return false;
    return !bias_k || (tp_init_xavier_normal(bias_k, 1) && tp_init_xavier_normal(tpi_get_tensor(m, "bias_v"), 1));
}

/* ---- one call: everything here belongs to the call's scope ---- */
typedef struct call {
    tp_tensor *query, *key, *value, *padding, *mask; /* masks are to be added */
    bool need_weights, average, batched;
    int64_t target, source, batch, embed, heads, head;
} call;

/* A mask where true means "not here" becomes one to add. */
static tp_tensor *additive(tp_tensor *mask, tp_dtype dtype) {
    if (!mask || tp_dtype_of(mask) != TP_BOOL) return mask;
    return tp_masked_fill(tp_zeros_like(mask, .dtype = dtype), mask, -INFINITY);
}

static bool truth(const tp_value *v, bool otherwise) {
    return v->kind == TP_K_NONE ? otherwise : tp_scalar_to_bool(v->as.scalar);
}

static bool read_inputs(tp_module *m, int64_t nargs, const tp_value *args, call *c) {
    tp_value all[8];
    for (int i = 0; i < 8; i++) all[i] = i < nargs ? args[i] : tp_value_none();
    for (int i = 0; i < 3; i++)
        if (nargs > 8 || all[i].kind != TP_K_TENSOR || !all[i].as.tensor)
            return tpi_refuse(TP_ERR_TYPE, "forward takes query, key and value, and up to five more");
    c->query = all[0].as.tensor;
    c->key = all[1].as.tensor;
    c->value = all[2].as.tensor;
    c->padding = all[3].kind == TP_K_TENSOR ? all[3].as.tensor : NULL;
    c->mask = all[5].kind == TP_K_TENSOR ? all[5].as.tensor : NULL;
    c->need_weights = truth(&all[4], true);
    c->average = truth(&all[6], true);
    if (truth(&all[7], false) && !c->mask)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
                          "`generate_square_subsequent_mask` to create this mask.");
    c->batched = c->query->ndim == 3;
    if (!c->batched && c->query->ndim != 2)
        return tpi_refuse(TP_ERR_VALUE, "expected queries of 2 or 3 dims, got %d", c->query->ndim);
    bool same_kv = c->key == c->value, same_qk = c->query == c->key;
    if (c->batched ? tpi_get_bool(m, "batch_first") : true) { /* to (length, batch, embedding) */
        c->query = c->batched ? tp_transpose(c->query, 0, 1) : tp_unsqueeze(c->query, 1);
        c->key = same_qk ? c->query : c->batched ? tp_transpose(c->key, 0, 1) : tp_unsqueeze(c->key, 1);
        c->value = same_kv ? c->key : c->batched ? tp_transpose(c->value, 0, 1) : tp_unsqueeze(c->value, 1);
        if (!c->batched && c->padding) c->padding = tp_unsqueeze(c->padding, 0);
    }
    if (!c->query || !c->key || !c->value) return false;
    c->heads = tpi_get_int(m, "num_heads");
    c->target = tp_size(c->query, 0);
    c->batch = tp_size(c->query, 1);
    c->embed = tp_size(c->query, 2);
    c->head = c->embed / c->heads;
    if (c->embed != tpi_get_int(m, "embed_dim"))
        return tpi_refuse(TP_ERR_RUNTIME, "was expecting embedding dimension of %lld, but got %lld",
                          (long long)tpi_get_int(m, "embed_dim"), (long long)c->embed);
    return true;
}

static bool project(tp_module *m, call *c) {
    tp_tensor *weight = tpi_get_tensor(m, "in_proj_weight"), *bias = tpi_get_tensor(m, "in_proj_bias"),
              **x[3] = {&c->query, &c->key, &c->value};
    if (weight && c->query == c->key && c->key == c->value) {
        tp_tensors parts = tp_chunk(tp_linear(c->query, weight, .bias = bias), 3, .dim = -1);
        for (int i = 0; parts.v && i < 3; i++) *x[i] = parts.v[i];
        return parts.v != NULL;
    }
    static const char *const names[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    for (int64_t i = 0; i < 3; i++) {
        tp_tensor *w = weight ? tp_narrow(weight, 0, i * c->embed, c->embed) : tpi_get_tensor(m, names[i]);
        *x[i] = tp_linear(*x[i], w, .bias = bias ? tp_narrow(bias, 0, i * c->embed, c->embed) : NULL);
    }
    return c->query && c->key && c->value;
}

/* One more key and value, learnt or zero, that masks let through. */
static void widen_masks(call *c) {
    if (c->mask) c->mask = tp_pad(c->mask, TP_INTS(0, 1));
    if (c->padding) c->padding = tp_pad(c->padding, TP_INTS(0, 1));
}

static tp_tensor *split_heads(const call *c, tp_tensor *x) {
    return tp_transpose(tp_reshape(x, TP_INTS(tp_size(x, 0), c->batch * c->heads, c->head)), 0, 1);
}

static bool prepare(tp_module *m, call *c) {
    tp_dtype dtype = tp_dtype_of(c->query);
    c->mask = additive(c->mask, dtype);
    c->padding = additive(c->padding, dtype);
    if (c->mask && tp_ndim(c->mask) == 2) c->mask = tp_unsqueeze(c->mask, 0);
    tp_tensor *bias_k = tpi_get_tensor(m, "bias_k"), *bias_v = tpi_get_tensor(m, "bias_v");
    if (bias_k && bias_v) {
        c->key = tp_cat(TP_LIST(c->key, tp_repeat(bias_k, TP_INTS(1, c->batch, 1))));
        c->value = tp_cat(TP_LIST(c->value, tp_repeat(bias_v, TP_INTS(1, c->batch, 1))));
        widen_masks(c);
    }
    if (!c->key || !c->value) return false;
    c->query = split_heads(c, c->query);
    c->key = split_heads(c, c->key);
    c->value = split_heads(c, c->value);
    if (tpi_get_bool(m, "add_zero_attn")) {
        tp_tensor *zero = tp_zeros(TP_INTS(c->batch * c->heads, 1, c->head), .dtype = dtype);
        c->key = tp_cat(TP_LIST(c->key, zero), .dim = 1);
        c->value = tp_cat(TP_LIST(c->value, zero), .dim = 1);
        widen_masks(c);
    }
    if (!c->query || !c->key || !c->value) return false;
    c->source = tp_size(c->key, 1);
    if (c->padding &&
        (tp_ndim(c->padding) != 2 || tp_size(c->padding, 0) != c->batch || tp_size(c->padding, 1) != c->source))
        return tpi_refuse(TP_ERR_RUNTIME, "key_padding_mask: expected shape [%lld, %lld], got %s", (long long)c->batch,
                          (long long)c->source, tpi_shape_text(tpi_shape(c->padding)));
    if (c->padding) {
        tp_tensor *rows =
            tp_expand(tp_view(c->padding, TP_INTS(c->batch, 1, 1, c->source)), TP_INTS(-1, c->heads, -1, -1));
        c->padding = tp_reshape(rows, TP_INTS(c->batch * c->heads, 1, c->source));
        c->mask = c->mask ? tp_add(c->mask, c->padding) : c->padding;
    }
    return tp_ok();
}

/* (target, batch * heads, head) joined to (target * batch, embed); *weights where they are wanted. */
static tp_tensor *attend(const call *c, double dropout, tp_tensor **weights) {
    if (c->need_weights) {
        tp_tensor *scores = tp_bmm(tp_mul(c->query, pow((double)c->head, -0.5)), tp_transpose(c->key, -2, -1));
        *weights = tp_softmax(c->mask ? tp_add(scores, c->mask) : scores, -1);
        if (dropout > 0) *weights = tp_dropout(*weights, .p = dropout);
        return tp_reshape(tp_transpose(tp_bmm(*weights, c->value), 0, 1), TP_INTS(c->target * c->batch, c->embed));
    }
    tp_tensor *mask = !c->mask                   ? NULL
                      : tp_size(c->mask, 0) == 1 ? tp_unsqueeze(c->mask, 0)
                                                 : tp_view(c->mask, TP_INTS(c->batch, c->heads, -1, c->source));
    tp_tensor *q = tp_reshape(c->query, TP_INTS(c->batch, c->heads, c->target, c->head)),
              *k = tp_reshape(c->key, TP_INTS(c->batch, c->heads, -1, c->head)),
              *v = tp_reshape(c->value, TP_INTS(c->batch, c->heads, -1, c->head));
    tp_tensor *out = tp_scaled_dot_product_attention(q, k, v, .attn_mask = mask, .dropout_p = dropout);
    return tp_reshape(tp_permute(out, TP_INTS(2, 0, 1, 3)), TP_INTS(c->target * c->batch, c->embed));
}

bool tpi_forward_attention(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    if (nresults != 1 && nresults != 2)
        return tpi_refuse(TP_ERR_TYPE, "forward gives the output and the weights, or the output alone");
    bool fine = false;
    TP_SCOPE {
        call c = {0};
        tp_tensor *weights = NULL;
        if (!read_inputs(m, nargs, args, &c) || !project(m, &c) || !prepare(m, &c)) continue;
        tp_tensor *out = attend(&c, m->training ? tpi_get_float(m, "dropout") : 0, &weights);
        out = tp_view(tp_linear(out, tp_module_tensor(m, "out_proj.weight"),
                                .bias = tpi_get_tensor(m->children[0].module, "bias")),
                      TP_INTS(c.target, c.batch, c.embed));
        if (!c.batched)
            out = tp_squeeze_dim(out, 1);
        else if (tpi_get_bool(m, "batch_first"))
            out = tp_transpose(out, 0, 1);
        if (weights && nresults == 2) {
            weights = tp_view(weights, TP_INTS(c.batch, c.heads, c.target, c.source));
            if (c.average) weights = tp_mean(weights, .dim = TP_INTS(1));
            if (!c.batched) weights = tp_squeeze_dim(weights, 0);
        } else
            weights = NULL;
        fine = out && tp_ok();
        if (fine) results[0] = tp_value_tensor(tp_retain(out));
        if (fine && nresults == 2) results[1] = tpi_box_tensor(weights ? tp_retain(weights) : NULL);
    }
    return fine;
}
