/* A small GPT over characters: trains on a verse, then writes on with a key-value cache, so that each new character
 * costs one position and not all of them. The cache's answers are those without it. It takes -lm. gpt [STEPS] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <taper/taper.h>

enum { WIDTH = 32, HEADS = 4, LAYERS = 2, CONTEXT = 64, CHARACTERS = 128, BATCH = 16 };
static const char verse[] = "the tape records what the program does, and backward it walks the tape to see "
                            "where every gradient comes from; the tape records what the program does, and so on. ";

typedef struct cache { /* keys and values of the positions so far, per layer: (1, HEADS, positions, WIDTH / HEADS) */
    tp_tensor *k[LAYERS], *v[LAYERS];
} cache;

static tp_module *make_gpt(void) {
    tp_module *gpt = tp_module_new("GPT", NULL);
    tp_module_add(gpt, "token", tp_nn_embedding(CHARACTERS, WIDTH));
    tp_module_add(gpt, "place", tp_nn_embedding(CONTEXT, WIDTH));
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "block%d", i);
        tp_module *block = tp_module_new("Block", NULL);
        tp_module_add(block, "norm1", tp_nn_layer_norm(TP_INTS(WIDTH)));
        tp_module_add(block, "qkv", tp_nn_linear(WIDTH, 3 * WIDTH));
        tp_module_add(block, "out", tp_nn_linear(WIDTH, WIDTH));
        tp_module_add(block, "mlp",
                      tp_nn_sequential(tp_nn_layer_norm(TP_INTS(WIDTH)), tp_nn_linear(WIDTH, 4 * WIDTH), tp_nn_gelu(),
                                       tp_nn_linear(4 * WIDTH, WIDTH)));
        tp_module_add(gpt, name, block);
    }
    tp_module_add(gpt, "norm", tp_nn_layer_norm(TP_INTS(WIDTH)));
    tp_module_add(gpt, "head", tp_nn_linear(WIDTH, CHARACTERS));
    return gpt;
}

static tp_tensor *part(tp_module *m, const char *name, tp_tensor *x) { return tp_forward(tp_module_child(m, name), x); }

/* x: (B, T, WIDTH). With a cache, T new positions look at those before them too. */
static tp_tensor *attend(tp_module *block, tp_tensor *x, tp_tensor **past_k, tp_tensor **past_v) {
    const int64_t b = tp_size(x, 0), t = tp_size(x, 1);
    tp_tensor *all = tp_reshape(part(block, "qkv", part(block, "norm1", x)), TP_INTS(b, t, 3, HEADS, WIDTH / HEADS));
    tp_tensor *split = tp_permute(all, TP_INTS(2, 0, 3, 1, 4)); /* (3, B, HEADS, T, WIDTH / HEADS) */
    tp_tensor *q = tp_select(split, 0, 0), *k = tp_select(split, 0, 1), *v = tp_select(split, 0, 2);
    if (past_k) {
        *past_k = k = *past_k ? tp_cat(TP_LIST(*past_k, k), .dim = 2) : k;
        *past_v = v = *past_v ? tp_cat(TP_LIST(*past_v, v), .dim = 2) : v;
    }
    tp_tensor *y = tp_scaled_dot_product_attention(q, k, v, .is_causal = t > 1);
    return part(block, "out", tp_reshape(tp_transpose(y, 1, 2), TP_INTS(b, t, WIDTH)));
}

/* ids: (B, T), the first of them at position `first`. Gives (B, T, CHARACTERS). */
static tp_tensor *forward(tp_module *gpt, tp_tensor *ids, int64_t first, cache *c) {
    tp_tensor *places = tp_arange_start(first, first + tp_size(ids, 1));
    tp_tensor *x = tp_add(part(gpt, "token", ids), part(gpt, "place", places));
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "block%d", i);
        tp_module *block = tp_module_child(gpt, name);
        x = tp_add(x, attend(block, x, c ? &c->k[i] : NULL, c ? &c->v[i] : NULL));
        x = tp_add(x, part(block, "mlp", x));
    }
    return part(gpt, "head", part(gpt, "norm", x));
}

static double train_step(tp_module *gpt, tp_optimiser *adam, tp_tensor *text) {
    tp_tensor *in[BATCH], *out[BATCH];
    for (int i = 0; i < BATCH; i++) {
        const int64_t at = tp_item_int(tp_randint(tp_numel(text) - CONTEXT, TP_INTS(1)));
        in[i] = tp_narrow(text, 0, at, CONTEXT);
        out[i] = tp_narrow(text, 0, at + 1, CONTEXT);
    }
    tp_tensor *said = forward(gpt, tp_stack(tp_list(BATCH, in)), 0, NULL);
    tp_tensor *loss = tp_cross_entropy(tp_flatten(said, .end_dim = 1), tp_flatten(tp_stack(tp_list(BATCH, out))));
    tp_optimiser_zero_grad(adam);
    tp_backward(loss);
    tp_step(adam);
    return loss ? tp_item(loss) : 0;
}

int main(int argc, char **argv) {
    const int steps = argc > 1 ? atoi(argv[1]) : 150, length = sizeof verse - 1;
    int64_t ids[sizeof verse], written[CONTEXT] = {'t', 'h', 'e'};
    for (int i = 0; i < length; i++) ids[i] = verse[i];
    tp_manual_seed(0);
    tp_tensor *text = tp_from_data(ids, TP_INT64, TP_INTS(length));
    tp_module *gpt = make_gpt();
    tp_state all = tp_module_parameters(gpt);
    tp_optimiser *adam = tp_adamw(tp_list(all.n, all.tensors), .lr = 3e-3);
    for (int step = 0; step <= steps; step++)
        TP_SCOPE {
            const double loss = train_step(gpt, adam, text);
            if (step % 50 == 0) printf("step %3d: loss %.3f\n", step, loss);
        }
    TP_SCOPE
        TP_INFERENCE {
            cache c = {{NULL}, {NULL}};
            double differs = 0;
            for (int64_t n = 3, seen = 0; n < CONTEXT; seen = n++) { /* only what is new goes through the network */
                tp_tensor *fresh = tp_from_data(written + seen, TP_INT64, TP_INTS(1, n - seen));
                tp_tensor *next = tp_select(forward(gpt, fresh, seen, &c), 1, n - seen - 1);
                tp_tensor *whole = forward(gpt, tp_from_data(written, TP_INT64, TP_INTS(1, n)), 0, NULL);
                differs = fmax(differs, tp_item(tp_max(tp_abs(tp_sub(next, tp_select(whole, 1, n - 1))))));
                written[n] = tp_item_int(tp_argmax(next));
            }
            for (int64_t i = 0; i < CONTEXT; i++) putchar((int)written[i]);
            printf("\nwith and without the cache: %s\n", differs < 1e-4 ? "the same" : "different");
        }
    tp_optimiser_free(adam);
    tp_state_free(all);
    tp_module_release(gpt);
    tp_release(text);
    if (!tp_ok()) fprintf(stderr, "gpt: %s\n", tp_error());
    return tp_ok() ? 0 : 1;
}
