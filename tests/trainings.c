/* See trainings.h. */
#include "trainings.h"
#include <stddef.h>

/* ---- What most of them share ---- */
static tp_tensor *cross_entropy(tp_tensor *out, tp_tensor *y) { return tp_cross_entropy(out, y); }
static tp_optimiser *adam(tp_tensors parameters) { return tp_adam(parameters, .lr = 1e-2); }
static tp_optimiser *sgd(tp_tensors parameters) {
    return tp_sgd(parameters, .lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3);
}

static void images(tp_ints shape, tp_tensor **x, tp_tensor **y) {
    *x = tp_randn(shape);
    *y = tp_randint(10, TP_INTS(shape.v[0]));
}

static tp_module *child(tp_module *m, const char *name) { return tp_module_child(m, name); }

/* ---- Layers one after the other ---- */
static tp_module *mlp_network(void) {
    return tp_nn_sequential(tp_nn_linear(200, 256), tp_nn_relu(), tp_nn_linear(256, 130), tp_nn_relu(),
                            tp_nn_linear(130, 10));
}
static void mlp_data(tp_tensor **x, tp_tensor **y) { images(TP_INTS(300, 200), x, y); }

static tp_module *tiny_mlp_network(void) {
    return tp_nn_sequential(tp_nn_linear(64, 128), tp_nn_relu(), tp_nn_linear(128, 128), tp_nn_relu(),
                            tp_nn_linear(128, 10));
}
static void tiny_mlp_data(tp_tensor **x, tp_tensor **y) { images(TP_INTS(32, 64), x, y); }

static tp_module *cnn_network(void) {
    return tp_nn_sequential(tp_nn_conv2d(3, 6, TP_INTS(5)), tp_nn_relu(), tp_nn_max_pool2d(TP_INTS(2)),
                            tp_nn_conv2d(6, 32, TP_INTS(3), .padding = TP_INTS(1)), tp_nn_tanh(),
                            tp_nn_conv2d(32, 32, TP_INTS(3), .padding = TP_INTS(1)), tp_nn_relu(),
                            tp_nn_avg_pool2d(TP_INTS(2)), tp_nn_flatten(), tp_nn_dropout(.p = 0.1),
                            tp_nn_linear(32 * 49, 10));
}
static void cnn_data(tp_tensor **x, tp_tensor **y) { images(TP_INTS(8, 3, 32, 32), x, y); }

static tp_module *attention_network(void) {
    return tp_nn_sequential(
        tp_nn_transformer_encoder_layer(64, 4, .dim_feedforward = 128, .dropout = 0.1, .batch_first = true),
        tp_nn_flatten(), tp_nn_linear(64 * 20, 10));
}
static void attention_data(tp_tensor **x, tp_tensor **y) { images(TP_INTS(16, 20, 64), x, y); }

static tp_module *embedding_bag_network(void) {
    return tp_nn_sequential(tp_nn_embedding_bag(500, 96, .mode = "mean"), tp_nn_elu(), tp_nn_linear(96, 10));
}
static void embedding_bag_data(tp_tensor **x, tp_tensor **y) {
    *x = tp_randint(500, TP_INTS(128, 9));
    *y = tp_randint(10, TP_INTS(128));
}
static tp_optimiser *adagrad(tp_tensors parameters) { return tp_adagrad(parameters, .lr = 0.05); }

static tp_module *autoencoder_network(void) {
    return tp_nn_sequential(tp_nn_conv2d(1, 16, TP_INTS(3), .stride = TP_INTS(2), .padding = TP_INTS(1)),
                            tp_nn_leaky_relu(.negative_slope = 0.1),
                            tp_nn_conv2d(16, 32, TP_INTS(3), .stride = TP_INTS(2), .padding = TP_INTS(1)), tp_nn_silu(),
                            tp_nn_conv_transpose2d(32, 16, TP_INTS(3), .stride = TP_INTS(2), .padding = TP_INTS(1),
                                                   .output_padding = TP_INTS(1)),
                            tp_nn_relu(),
                            tp_nn_conv_transpose2d(16, 1, TP_INTS(4), .stride = TP_INTS(2), .padding = TP_INTS(1)),
                            tp_nn_sigmoid());
}
static void autoencoder_data(tp_tensor **x, tp_tensor **y) { *x = *y = tp_rand(TP_INTS(8, 1, 28, 28)); }
static tp_tensor *mse_loss(tp_tensor *out, tp_tensor *y) { return tp_mse_loss(out, y); }
static tp_optimiser *rmsprop(tp_tensors parameters) { return tp_rmsprop(parameters, .lr = 1e-3); }

static tp_module *bfloat16_network(void) {
    tp_module *m = tp_nn_sequential(tp_nn_linear(200, 256), tp_nn_softplus(), tp_nn_linear(256, 10));
    if (tp_module_to(m, TP_BFLOAT16)) return m;
    tp_module_release(m);
    return NULL;
}
static void bfloat16_data(tp_tensor **x, tp_tensor **y) {
    images(TP_INTS(128, 200), x, y);
    *x = tp_to(*x, .dtype = TP_BFLOAT16);
}

static tp_module *group_norm_network(void) {
    return tp_nn_sequential(tp_nn_conv2d(4, 24, TP_INTS(1)), tp_nn_group_norm(4, 24), tp_nn_mish(),
                            tp_nn_conv2d(24, 24, TP_INTS(3), .padding = TP_INTS(1), .groups = 24),
                            tp_nn_instance_norm2d(24, .affine = true), tp_nn_hardswish(),
                            tp_nn_upsample(.scale_factor = TP_FLOATS(2)), tp_nn_adaptive_max_pool2d(TP_INTS(4)),
                            tp_nn_flatten(), tp_nn_linear(24 * 16, 10));
}
static void group_norm_data(tp_tensor **x, tp_tensor **y) { images(TP_INTS(8, 4, 20, 20), x, y); }
static tp_optimiser *nadam(tp_tensors parameters) { return tp_nadam(parameters, .lr = 5e-3); }

static tp_module *volumes_network(void) {
    return tp_nn_sequential(
        tp_nn_conv3d(1, 8, TP_INTS(3)), tp_nn_batch_norm3d(8), tp_nn_relu(), tp_nn_flatten(.start_dim = 2),
        tp_nn_conv1d(8, 12, TP_INTS(5), .stride = TP_INTS(3), .dilation = TP_INTS(2)), tp_nn_batch_norm1d(12),
        tp_nn_prelu(), tp_nn_adaptive_avg_pool1d(TP_INTS(5)), tp_nn_flatten(), tp_nn_linear(60, 10));
}
static void volumes_data(tp_tensor **x, tp_tensor **y) { images(TP_INTS(6, 1, 10, 11, 12), x, y); }
static tp_tensor *margin_loss(tp_tensor *out, tp_tensor *y) { return tp_multi_margin_loss(out, y); }

/* ---- Modules of one's own ---- */
static tp_tensor *residual_forward(tp_module *m, tp_tensor *x) {
    tp_tensor *first = tp_relu(tp_forward(child(m, "norm1"), tp_forward(child(m, "first"), x)));
    tp_tensor *second = tp_forward(child(m, "norm2"), tp_forward(child(m, "second"), first));
    return tp_relu(tp_add(second, tp_forward(child(m, "down"), x)));
}
static tp_module *residual(int64_t inside, int64_t outside, int64_t stride) {
    tp_module *m = tp_module_new("Residual", residual_forward);
    tp_module_add(
        m, "first",
        tp_nn_conv2d(inside, outside, TP_INTS(3), .stride = TP_INTS(stride), .padding = TP_INTS(1), .bias = false));
    tp_module_add(m, "norm1", tp_nn_batch_norm2d(outside));
    tp_module_add(m, "second", tp_nn_conv2d(outside, outside, TP_INTS(3), .padding = TP_INTS(1), .bias = false));
    tp_module_add(m, "norm2", tp_nn_batch_norm2d(outside));
    tp_module_add(m, "down",
                  tp_nn_sequential(tp_nn_conv2d(inside, outside, TP_INTS(1), .stride = TP_INTS(stride), .bias = false),
                                   tp_nn_batch_norm2d(outside)));
    return m;
}
static tp_module *resnet_network(void) {
    return tp_nn_sequential(residual(3, 32, 1), residual(32, 48, 2), tp_nn_adaptive_avg_pool2d(TP_INTS(1)),
                            tp_nn_flatten(), tp_nn_linear(48, 10));
}
static void resnet_data(tp_tensor **x, tp_tensor **y) { images(TP_INTS(4, 3, 24, 24), x, y); }

static tp_tensor *vae_forward(tp_module *m, tp_tensor *x) {
    tp_tensor *both = tp_forward(child(m, "encoder"), x), *mean = tp_narrow(both, 1, 0, 20),
              *log_var = tp_narrow(both, 1, 20, 20);
    tp_tensor *z = tp_add(mean, tp_mul(tp_randn_like(mean), tp_exp(tp_mul(log_var, 0.5))));
    return tp_cat(TP_LIST(tp_forward(child(m, "decoder"), z), mean, log_var), .dim = 1);
}
static tp_module *vae_network(void) {
    tp_module *m = tp_module_new("Vae", vae_forward);
    tp_module_add(m, "encoder", tp_nn_sequential(tp_nn_linear(400, 200), tp_nn_relu(), tp_nn_linear(200, 40)));
    tp_module_add(m, "decoder", tp_nn_sequential(tp_nn_linear(20, 200), tp_nn_relu(), tp_nn_linear(200, 400)));
    return m;
}
static void vae_data(tp_tensor **x, tp_tensor **y) { *x = *y = tp_rand(TP_INTS(96, 400)); }
static tp_tensor *vae_loss(tp_tensor *out, tp_tensor *x) {
    tp_tensor *image = tp_narrow(out, 1, 0, 400), *mean = tp_narrow(out, 1, 400, 20),
              *log_var = tp_narrow(out, 1, 420, 20);
    tp_tensor *seen = tp_div(tp_binary_cross_entropy_with_logits(image, x, .reduction = "sum"), 400);
    tp_tensor *apart = tp_sum(tp_sub(tp_sub(tp_add(log_var, 1), tp_square(mean)), tp_exp(log_var)));
    return tp_sub(seen, tp_mul(apart, 0.5));
}

static tp_tensor *recurrent_forward(tp_module *m, tp_tensor *x) {
    tp_module *layer = child(m, "layer");
    const int64_t nresults = *tp_module_name(layer) == 'L' ? 3 : 2; /* an LSTM has a cell's state too */
    tp_value input = tp_value_tensor(x), results[3];
    if (!tp_forward_values(layer, 1, &input, nresults, results)) return NULL;
    return tp_forward(child(m, "head"), tp_select(results[0].as.tensor, 1, -1));
}
static tp_module *recurrent(tp_module *layer, int64_t width) {
    tp_module *m = tp_module_new("Recurrent", recurrent_forward);
    tp_module_add(m, "layer", layer);
    tp_module_add(m, "head", tp_nn_linear(width, 10));
    return m;
}
static tp_module *lstm_network(void) {
    return recurrent(tp_nn_lstm(24, 72, .batch_first = true, .num_layers = 2, .dropout = 0.1), 72);
}
static tp_module *gru_network(void) {
    return recurrent(tp_nn_gru(24, 72, .batch_first = true, .bidirectional = true), 144);
}
static tp_module *rnn_network(void) {
    return recurrent(tp_nn_rnn(24, 72, .batch_first = true, .nonlinearity = "relu"), 72);
}
static void recurrent_data(tp_tensor **x, tp_tensor **y) { images(TP_INTS(20, 12, 24), x, y); }

enum { WIDTH = 64, HEADS = 4 };
static tp_tensor *head_of(tp_tensor *qkv, int64_t part) {
    return tp_transpose(tp_unflatten(tp_narrow(qkv, -1, part * WIDTH, WIDTH), -1, TP_INTS(HEADS, -1)), 1, 2);
}
static tp_tensor *block_forward(tp_module *m, tp_tensor *x) {
    tp_tensor *qkv = tp_forward(child(m, "qkv"), tp_forward(child(m, "norm1"), x));
    tp_tensor *seen =
        tp_scaled_dot_product_attention(head_of(qkv, 0), head_of(qkv, 1), head_of(qkv, 2), .is_causal = true);
    x = tp_add(x, tp_forward(child(m, "out"), tp_flatten(tp_transpose(seen, 1, 2), .start_dim = 2)));
    return tp_add(x, tp_forward(child(m, "feed"), tp_forward(child(m, "norm2"), x)));
}
static tp_module *block(void) {
    tp_module *m = tp_module_new("Block", block_forward);
    tp_module_add(m, "norm1", tp_nn_layer_norm(TP_INTS(WIDTH)));
    tp_module_add(m, "norm2", tp_nn_layer_norm(TP_INTS(WIDTH)));
    tp_module_add(m, "qkv", tp_nn_linear(WIDTH, 3 * WIDTH));
    tp_module_add(m, "out", tp_nn_linear(WIDTH, WIDTH));
    tp_module_add(m, "feed",
                  tp_nn_sequential(tp_nn_linear(WIDTH, 4 * WIDTH), tp_nn_gelu(), tp_nn_linear(4 * WIDTH, WIDTH),
                                   tp_nn_dropout(.p = 0.1)));
    return m;
}
static tp_tensor *gpt_forward(tp_module *m, tp_tensor *tokens) {
    tp_tensor *positions = tp_narrow(tp_module_tensor(m, "place.weight"), 0, 0, tp_size(tokens, 1));
    tp_tensor *x = tp_forward(child(m, "blocks"), tp_add(tp_forward(child(m, "token"), tokens), positions));
    return tp_linear(tp_forward(child(m, "norm"), x), tp_module_tensor(m, "token.weight"));
}
static tp_module *gpt_network(void) {
    tp_module *m = tp_module_new("Gpt", gpt_forward);
    tp_module_add(m, "token", tp_nn_embedding(50, WIDTH));
    tp_module_add(m, "place", tp_nn_embedding(40, WIDTH));
    tp_module_add(m, "blocks", tp_nn_sequential(block(), block()));
    tp_module_add(m, "norm", tp_nn_layer_norm(TP_INTS(WIDTH)));
    return m;
}
static void gpt_data(tp_tensor **x, tp_tensor **y) {
    tp_tensor *tokens = tp_randint(50, TP_INTS(6, 41));
    *x = tp_narrow(tokens, 1, 0, 40);
    *y = tp_narrow(tokens, 1, 1, 40);
}
static tp_tensor *next_token(tp_tensor *out, tp_tensor *y) {
    return tp_cross_entropy(tp_flatten(out, .end_dim = 1), tp_flatten(y));
}
static tp_optimiser *adamw(tp_tensors parameters) { return tp_adamw(parameters, .lr = 3e-3); }

static tp_tensor *mixed_forward(tp_module *m, tp_tensor *x) {
    tp_tensor *out = NULL;
    TP_AUTOCAST(TP_BFLOAT16) {
        tp_tensor *seen = tp_relu(tp_forward(child(m, "norm"), tp_forward(child(m, "conv"), x)));
        out = tp_to(tp_forward(child(m, "head"), tp_flatten(tp_max_pool2d(seen, TP_INTS(2)), .start_dim = 1)),
                    .dtype = TP_FLOAT32);
    }
    return out;
}
static tp_module *mixed_network(void) {
    tp_module *m = tp_module_new("Mixed", mixed_forward);
    tp_module_add(m, "conv", tp_nn_conv2d(3, 16, TP_INTS(3), .padding = TP_INTS(1)));
    tp_module_add(m, "norm", tp_nn_batch_norm2d(16));
    tp_module_add(m, "head", tp_nn_linear(16 * 64, 10));
    return m;
}
static void mixed_data(tp_tensor **x, tp_tensor **y) { images(TP_INTS(16, 3, 16, 16), x, y); }

const training trainings[] = {
    {"mlp", mlp_network, mlp_data, cross_entropy, adam},
    {"tiny_mlp", tiny_mlp_network, tiny_mlp_data, cross_entropy, adam},
    {"cnn", cnn_network, cnn_data, cross_entropy, sgd},
    {"resnet", resnet_network, resnet_data, cross_entropy, sgd},
    {"vae", vae_network, vae_data, vae_loss, adam},
    {"lstm", lstm_network, recurrent_data, cross_entropy, adam},
    {"gru", gru_network, recurrent_data, cross_entropy, adam},
    {"rnn", rnn_network, recurrent_data, cross_entropy, adam},
    {"gpt", gpt_network, gpt_data, next_token, adamw},
    {"attention", attention_network, attention_data, cross_entropy, adam},
    {"embedding_bag", embedding_bag_network, embedding_bag_data, cross_entropy, adagrad},
    {"autoencoder", autoencoder_network, autoencoder_data, mse_loss, rmsprop},
    {"mixed_precision", mixed_network, mixed_data, cross_entropy, adam},
    {"bfloat16", bfloat16_network, bfloat16_data, cross_entropy, sgd},
    {"group_norm", group_norm_network, group_norm_data, cross_entropy, nadam},
    {"volumes", volumes_network, volumes_data, margin_loss, adam},
};
const int training_count = sizeof trainings / sizeof *trainings;
