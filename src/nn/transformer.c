/* Transformers from their parts. Everything that a call makes on the way belongs to its scope. */
#include "nn/layer.h"
#include "autograd/glue.h"
#include "tpi_layers.h"
#include <stdio.h>
#include <taper/amp.h>
#include <taper/ops.h>

typedef struct sizes {
    int64_t d_model, nhead, dim_feedforward;
    double dropout, eps;
    const char *activation;
    bool batch_first, norm_first, bias;
    tp_device device;
    tp_dtype dtype;
} sizes;

static bool build_layer(tp_module *m, const sizes *s, bool decoder) {
    if (!tpi_same_text(s->activation, "relu") && !tpi_same_text(s->activation, "gelu"))
        return tpi_refuse(TP_ERR_RUNTIME, "activation should be relu/gelu, not %s",
                          s->activation ? s->activation : "NULL");
    if (!tpi_module_set(m, "activation", tp_value_string(s->activation)) ||
        !tpi_module_set(m, "norm_first", tp_value_bool(s->norm_first)))
        return false;
    for (int i = 0; i <= decoder; i++)
        if (!tp_module_add(m, i ? "multihead_attn" : "self_attn",
                           tp_nn_multihead_attention(s->d_model, s->nhead, .dropout = s->dropout, .bias = s->bias,
                                                     .batch_first = s->batch_first, .device = s->device,
                                                     .dtype = s->dtype)))
            return false;
    if (!tp_module_add(
            m, "linear1",
            tp_nn_linear(s->d_model, s->dim_feedforward, .bias = s->bias, .device = s->device, .dtype = s->dtype)))
        return false;
    if (!tp_module_add(m, "dropout", tp_nn_dropout(.p = s->dropout))) return false;
    if (!tp_module_add(
            m, "linear2",
            tp_nn_linear(s->dim_feedforward, s->d_model, .bias = s->bias, .device = s->device, .dtype = s->dtype)))
        return false;
    static const char *const norms[] = {"norm1", "norm2", "norm3"}, *const dropouts[] = {"dropout1", "dropout2",
                                                                                         "dropout3"};
    for (int i = 0; i < 2 + decoder; i++)
        if (!tp_module_add(m, norms[i],
                           tp_nn_layer_norm(TP_INTS(s->d_model), .eps = s->eps, .bias = s->bias, .device = s->device,
                                            .dtype = s->dtype)))
            return false;
    for (int i = 0; i < 2 + decoder; i++)
        if (!tp_module_add(m, dropouts[i], tp_nn_dropout(.p = s->dropout))) return false;
    return true;
}

bool tpi_build_encoder_layer(tp_module *m, int64_t d_model, int64_t nhead, int64_t dim_feedforward, double dropout,
                             const char *activation, double eps, bool batch_first, bool norm_first, bool bias,
                             tp_device device, tp_dtype dtype) {
    return build_layer(m,
                       &(sizes){d_model, nhead, dim_feedforward, dropout, eps, activation, batch_first, norm_first,
                                bias, device, dtype},
                       false);
}
bool tpi_build_decoder_layer(tp_module *m, int64_t d_model, int64_t nhead, int64_t dim_feedforward, double dropout,
                             const char *activation, double eps, bool batch_first, bool norm_first, bool bias,
                             tp_device device, tp_dtype dtype) {
    return build_layer(m,
                       &(sizes){d_model, nhead, dim_feedforward, dropout, eps, activation, batch_first, norm_first,
                                bias, device, dtype},
                       true);
}

/* ---- layers ---- */
static tp_tensor *part(tp_module *m, const char *name, tp_tensor *x) {
    return x ? tp_forward(tp_module_child(m, name), x) : NULL;
}

static tp_tensor *attention(tp_module *m, const char *which, const char *dropout, tp_tensor *x, tp_tensor *memory,
                            tp_value mask, tp_value padding) {
    if (!x) return NULL;
    tp_value args[] = {tp_value_tensor(x),
                       tp_value_tensor(memory ? memory : x),
                       tp_value_tensor(memory ? memory : x),
                       padding,
                       tp_value_bool(false),
                       mask};
    return part(m, dropout, tp_forward_one(tp_module_child(m, which), 6, args));
}

static tp_tensor *feed_forward(tp_module *m, const char *dropout, tp_tensor *x) {
    tp_tensor *inner = part(m, "linear1", x);
    inner = !strcmp(tpi_get_string(m, "activation"), "gelu") ? tp_gelu(inner) : tp_relu(inner);
    return part(m, dropout, part(m, "linear2", part(m, "dropout", inner)));
}

/* Inputs by position; what is left out is none. The first `tensors` must be tensors. */
static bool spread(int64_t nargs, const tp_value *args, int64_t nresults, int tensors, int n, tp_value *all) {
    if (nargs < tensors || nargs > n || nresults != 1)
        return tpi_refuse(TP_ERR_TYPE, "forward takes %d to %d inputs and gives one result", tensors, n);
    for (int i = 0; i < n; i++) all[i] = i < nargs ? args[i] : tp_value_none();
    for (int i = 0; i < tensors; i++)
        if (all[i].kind != TP_K_TENSOR || !all[i].as.tensor)
            return tpi_refuse(TP_ERR_TYPE, "input %d: expected a tensor", i);
    return true;
}
static bool set_result(tp_tensor *out, tp_value *results) {
    if (!out || !tp_ok()) return false;
    results[0] = tp_value_tensor(tp_retain(out));
    return true;
}

bool tpi_forward_encoder_layer(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    tp_value in[3]; /* src, src_mask, src_key_padding_mask */
    if (!spread(nargs, args, nresults, 1, 3, in)) return false;
    bool fine = false;
    TP_SCOPE {
        tp_tensor *x = in[0].as.tensor;
        if (tpi_get_bool(m, "norm_first")) {
            x = tp_add(x, attention(m, "self_attn", "dropout1", part(m, "norm1", x), NULL, in[1], in[2]));
            x = tp_add(x, feed_forward(m, "dropout2", part(m, "norm2", x)));
        } else {
            x = part(m, "norm1", tp_add(x, attention(m, "self_attn", "dropout1", x, NULL, in[1], in[2])));
            x = part(m, "norm2", tp_add(x, feed_forward(m, "dropout2", x)));
        }
        fine = set_result(x, results);
    }
    return fine;
}

bool tpi_forward_decoder_layer(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    tp_value in[6]; /* tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask */
    if (!spread(nargs, args, nresults, 2, 6, in)) return false;
    bool fine = false;
    TP_SCOPE {
        tp_tensor *x = in[0].as.tensor, *memory = in[1].as.tensor;
        if (tpi_get_bool(m, "norm_first")) {
            x = tp_add(x, attention(m, "self_attn", "dropout1", part(m, "norm1", x), NULL, in[2], in[4]));
            x = tp_add(x, attention(m, "multihead_attn", "dropout2", part(m, "norm2", x), memory, in[3], in[5]));
            x = tp_add(x, feed_forward(m, "dropout3", part(m, "norm3", x)));
        } else {
            x = part(m, "norm1", tp_add(x, attention(m, "self_attn", "dropout1", x, NULL, in[2], in[4])));
            x = part(m, "norm2", tp_add(x, attention(m, "multihead_attn", "dropout2", x, memory, in[3], in[5])));
            x = part(m, "norm3", tp_add(x, feed_forward(m, "dropout3", x)));
        }
        fine = set_result(x, results);
    }
    return fine;
}

/* ---- rows of layers ---- */

static bool trains(tp_module *m) {
    tp_state all = tp_module_parameters(m);
    bool any = false;
    for (int64_t i = 0; i < all.n; i++) any |= tp_requires_grad(all.tensors[i]);
    tp_state_free(all);
    return any;
}

/* PyTorch runs an encoder on nested tensors where nothing is trained, and then padding comes out as zeros. Does this
 * call? The answer is the places of padding, or NULL. */
static tp_tensor *left_out(tp_module *first, tp_tensor *src, const tp_value *mask, const tp_value *padding) {
    if (strcmp(tp_module_name(first), "TransformerEncoderLayer") || tp_module_is_training(first)) return NULL;
    tp_module *attention = tp_module_child(first, "self_attn");
    if (mask->kind == TP_K_TENSOR || padding->kind != TP_K_TENSOR || tp_ndim(src) != 3) return NULL;
    if (tpi_get_bool(first, "norm_first") || !tpi_get_bool(attention, "batch_first")) return NULL;
    if (!tpi_get_tensor(attention, "in_proj_bias") || tpi_get_int(attention, "num_heads") % 2) return NULL;
    if (tp_autocast_enabled(tp_device_of(src).type)) return NULL;
    if (tp_grad_enabled() && (tp_requires_grad(src) || trains(first))) return NULL;
    tp_tensor *padded = tp_ne(padding->as.tensor, 0);
    int64_t others = tp_ndim(padded) == 2 ? tp_size(padded, 1) - 1 : 0;
    if (others < 1) return padded;
    tp_tensor *kept_behind = tp_any(tp_gt(tp_narrow(padded, 1, 0, others), tp_narrow(padded, 1, 1, others)));
    return kept_behind && tp_item(kept_behind) == 0 ? padded : NULL;
}

static bool forward_row(tp_module *m, const tp_value *all, int n, bool encoder, tp_value *results) {
    tp_module *layers = tp_module_child(m, "layers");
    bool fine = false;
    TP_SCOPE {
        tp_value in[6];
        memcpy(in, all, sizeof *in * (size_t)n);
        tp_tensor *x = in[0].as.tensor, *zeros = NULL;
        if (encoder && layers->nchildren) zeros = left_out(layers->children[0].module, x, &in[1], &in[2]);
        for (int64_t i = 0; x && i < layers->nchildren; i++) {
            in[0] = tp_value_tensor(x);
            x = tp_forward_one(layers->children[i].module, n, in);
        }
        if (x && zeros) x = tp_masked_fill(x, tp_unsqueeze(zeros, -1), 0);
        if (m->nchildren > 1) x = part(m, "norm", x);
        fine = set_result(x, results);
    }
    return fine;
}
static bool forward_encoder(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    tp_value in[3];
    return spread(nargs, args, nresults, 1, 3, in) && forward_row(m, in, 3, true, results);
}
static bool forward_decoder(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    tp_value in[6];
    return spread(nargs, args, nresults, 2, 6, in) && forward_row(m, in, 6, false, results);
}
static const tpi_layer encoder_kind = {.name = "TransformerEncoder", .call = forward_encoder},
                       decoder_kind = {.name = "TransformerDecoder", .call = forward_decoder};

static tp_module *row(const tpi_layer *kind, tp_module *layer, int64_t count, tp_module *norm) {
    enum { MOST = 1 << 20 }; /* more are a mistake, which would fill the memory before it failed */
    bool counted = count >= 0 && count <= MOST;
    if (!counted) tpi_fail(TP_ERR_VALUE, "argument 'count': expected 0 to %d layers, got %lld", MOST, (long long)count);
    tp_module *m = layer && counted ? tpi_module_of(kind) : NULL, *list = m ? tpi_module_list() : NULL;
    bool fine = list != NULL;
    for (int64_t i = 0; fine && i < count; i++) {
        char name[24];
        snprintf(name, sizeof name, "%lld", (long long)i);
        fine = tp_module_add(list, name, tp_module_clone(layer));
    }
    if (fine)
        fine = tp_module_add(m, "layers", list);
    else
        tp_module_release(list);
    if (fine && norm)
        fine = tp_module_add(m, "norm", norm);
    else
        tp_module_release(norm);
    tp_module_release(layer);
    if (!fine) {
        tp_module_release(m);
        m = NULL;
    }
    return m;
}
tp_module *tp_nn_transformer_encoder(tp_module *layer, int64_t count, tp_module *norm) {
    return row(&encoder_kind, layer, count, norm);
}
tp_module *tp_nn_transformer_decoder(tp_module *layer, int64_t count, tp_module *norm) {
    return row(&decoder_kind, layer, count, norm);
}

/* ---- both ---- */
bool tpi_reset_transformer(tp_module *m) {
    tp_state all = tp_module_parameters(m);
    bool fine = all.n >= 0;
    for (int64_t i = 0; fine && i < all.n; i++)
        fine = tp_ndim(all.tensors[i]) < 2 || tp_init_xavier_uniform(all.tensors[i], 1);
    tp_state_free(all);
    return fine;
}

bool tpi_build_transformer(tp_module *m, int64_t d_model, int64_t nhead, int64_t num_encoder_layers,
                           int64_t num_decoder_layers, int64_t dim_feedforward, double dropout, const char *activation,
                           double eps, bool batch_first, bool norm_first, bool bias, tp_device device, tp_dtype dtype) {
    if (!tpi_module_set(m, "d_model", tp_value_int(d_model)) || !tpi_module_set(m, "nhead", tp_value_int(nhead)) ||
        !tpi_module_set(m, "batch_first", tp_value_bool(batch_first)))
        return false;
    tp_module *layer =
        tp_nn_transformer_encoder_layer(d_model, nhead, .dim_feedforward = dim_feedforward, .dropout = dropout,
                                        .activation = activation, .layer_norm_eps = eps, .batch_first = batch_first,
                                        .norm_first = norm_first, .bias = bias, .device = device, .dtype = dtype);
    tp_module *norm =
        layer ? tp_nn_layer_norm(TP_INTS(d_model), .eps = eps, .bias = bias, .device = device, .dtype = dtype) : NULL;
    if (!tp_module_add(m, "encoder", tp_nn_transformer_encoder(layer, num_encoder_layers, norm))) return false;
    layer = tp_nn_transformer_decoder_layer(d_model, nhead, .dim_feedforward = dim_feedforward, .dropout = dropout,
                                            .activation = activation, .layer_norm_eps = eps, .batch_first = batch_first,
                                            .norm_first = norm_first, .bias = bias, .device = device, .dtype = dtype);
    norm =
        layer ? tp_nn_layer_norm(TP_INTS(d_model), .eps = eps, .bias = bias, .device = device, .dtype = dtype) : NULL;
    return tp_module_add(m, "decoder", tp_nn_transformer_decoder(layer, num_decoder_layers, norm)) &&
           tpi_reset_transformer(m);
}

bool tpi_forward_transformer(tp_module *m, int64_t nargs, const tp_value *args, int64_t nresults, tp_value *results) {
    tp_value in[8]; /* src, tgt, src_mask, tgt_mask, memory_mask, src_key_padding_mask, tgt_key_padding_mask,
                       memory_key_padding_mask */
    if (!spread(nargs, args, nresults, 2, 8, in)) return false;
    tp_tensor *src = in[0].as.tensor, *tgt = in[1].as.tensor;
    int64_t batch = tpi_get_bool(m, "batch_first") ? 0 : 1, d_model = tpi_get_int(m, "d_model");
    if (src->ndim == 3 && tgt->ndim == 3 && tp_size(src, batch) != tp_size(tgt, batch))
        return tpi_refuse(TP_ERR_RUNTIME, "the batch number of src and tgt must be equal");
    if (src->ndim < 2 || tgt->ndim < 2 || tp_size(src, -1) != d_model || tp_size(tgt, -1) != d_model)
        return tpi_refuse(TP_ERR_RUNTIME, "the feature number of src and tgt must be equal to d_model");
    bool fine = false;
    TP_SCOPE {
        tp_tensor *memory = tp_forward_one(tp_module_child(m, "encoder"), 3, (const tp_value[]){in[0], in[2], in[5]});
        if (memory)
            fine = set_result(
                tp_forward_one(tp_module_child(m, "decoder"), 6,
                               (const tp_value[]){in[1], tp_value_tensor(memory), in[3], in[4], in[6], in[7]}),
                results);
    }
    return fine;
}
