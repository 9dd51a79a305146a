/* The trainings of train.cpp in C.
 *     train mlp|cnn|gpt|lstm THREADS SECONDS      prints the seconds of a step, the loss after ten steps, the peak in
 * kB
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <taper/taper.h>
#include <time.h>

enum { CHARACTERS = 65, LENGTH = 64, LAYERS = 4, HEADS = 4, WIDTH = 128 };

static tp_tensor *part(tp_module *m, const char *name, tp_tensor *x) { return tp_forward(tp_module_child(m, name), x); }

static tp_tensor *block_forward(tp_module *b, tp_tensor *x) {
    const int64_t batch = tp_size(x, 0), n = tp_size(x, 1);
    tp_tensors parts = tp_split(part(b, "qkv", part(b, "norm1", x)), WIDTH, .dim = 2);
    tp_tensor *heads[3] = {NULL};
    for (int i = 0; i < 3 && i < parts.n; i++)
        heads[i] = tp_transpose(tp_view(parts.v[i], TP_INTS(batch, n, HEADS, -1)), 1, 2);
    tp_tensor *a = tp_scaled_dot_product_attention(heads[0], heads[1], heads[2], .is_causal = true);
    x = tp_add(x, part(b, "out", tp_view(tp_contiguous(tp_transpose(a, 1, 2)), TP_INTS(batch, n, -1))));
    return tp_add(x, part(b, "down", tp_gelu(part(b, "up", part(b, "norm2", x)), .approximate = "tanh")));
}
static tp_module *block(void) {
    tp_module *b = tp_module_new("Block", block_forward);
    tp_module_add(b, "norm1", tp_nn_layer_norm(TP_INTS(WIDTH)));
    tp_module_add(b, "qkv", tp_nn_linear(WIDTH, 3 * WIDTH));
    tp_module_add(b, "out", tp_nn_linear(WIDTH, WIDTH));
    tp_module_add(b, "norm2", tp_nn_layer_norm(TP_INTS(WIDTH)));
    tp_module_add(b, "up", tp_nn_linear(WIDTH, 4 * WIDTH));
    tp_module_add(b, "down", tp_nn_linear(4 * WIDTH, WIDTH));
    return b;
}

static tp_tensor *gpt_forward(tp_module *g, tp_tensor *index) {
    tp_tensor *x = tp_add(part(g, "tokens", index), part(g, "places", tp_arange(tp_size(index, 1))));
    return part(g, "head", part(g, "norm", part(g, "blocks", x)));
}
static tp_module *gpt(void) {
    tp_module *g = tp_module_new("GPT", gpt_forward), *blocks[LAYERS];
    tp_module_add(g, "tokens", tp_nn_embedding(CHARACTERS, WIDTH));
    tp_module_add(g, "places", tp_nn_embedding(LENGTH, WIDTH));
    for (int i = 0; i < LAYERS; i++) blocks[i] = block();
    tp_module_add(g, "blocks", tp_nn_sequential_of(LAYERS, blocks));
    tp_module_add(g, "norm", tp_nn_layer_norm(TP_INTS(WIDTH)));
    tp_module_add(g, "head", tp_nn_linear(WIDTH, CHARACTERS, .bias = false));
    return g;
}

/* A network with its data; the loss of one forward. */
typedef struct training {
    tp_module *net;
    tp_tensor *x, *y;
    tp_tensor *(*loss)(const struct training *t);
    tp_optimiser *(*optimiser)(tp_tensors parameters);
} training;

static tp_tensor *classes_loss(const training *t) { return tp_cross_entropy(tp_forward(t->net, t->x), t->y); }
static tp_tensor *gpt_loss(const training *t) {
    return tp_cross_entropy(tp_view(tp_forward(t->net, t->x), TP_INTS(-1, CHARACTERS)), tp_view(t->y, TP_INTS(-1)));
}
static tp_tensor *lstm_loss(const training *t) { return tp_mean(tp_square(tp_forward(t->net, t->x))); }
static tp_optimiser *adam(tp_tensors p) { return tp_adam(p, .lr = 1e-3); }
static tp_optimiser *adamw(tp_tensors p) { return tp_adamw(p, .lr = 3e-4); }
static tp_optimiser *momentum(tp_tensors p) { return tp_sgd(p, .lr = 0.001, .momentum = 0.9); }
static tp_optimiser *sgd(tp_tensors p) { return tp_sgd(p, .lr = 1e-3); }

/* Data are drawn after the weights, as in train.cpp. */
static training make(const char *which) {
    training t = {.loss = classes_loss};
    if (!strcmp(which, "mlp")) {
        t.net = tp_nn_sequential(tp_nn_linear(64, 128), tp_nn_relu(), tp_nn_linear(128, 128), tp_nn_relu(),
                                 tp_nn_linear(128, 10));
        t.x = tp_randn(TP_INTS(32, 64));
        t.y = tp_randint(10, TP_INTS(32));
        t.optimiser = adam;
    } else if (!strcmp(which, "cnn")) {
        t.net = tp_nn_sequential(tp_nn_conv2d(3, 6, TP_INTS(5)), tp_nn_relu(), tp_nn_max_pool2d(TP_INTS(2)),
                                 tp_nn_conv2d(6, 16, TP_INTS(5)), tp_nn_relu(), tp_nn_max_pool2d(TP_INTS(2)),
                                 tp_nn_flatten(), tp_nn_linear(400, 120), tp_nn_relu(), tp_nn_linear(120, 84),
                                 tp_nn_relu(), tp_nn_linear(84, 10));
        t.x = tp_randn(TP_INTS(32, 3, 32, 32));
        t.y = tp_randint(10, TP_INTS(32));
        t.optimiser = momentum;
    } else if (!strcmp(which, "gpt")) {
        t.net = gpt();
        t.x = tp_randint(CHARACTERS, TP_INTS(12, LENGTH));
        t.y = tp_randint(CHARACTERS, TP_INTS(12, LENGTH));
        t.loss = gpt_loss;
        t.optimiser = adamw;
    } else {
        t.net = tp_nn_lstm(128, 128, .num_layers = 2);
        t.x = tp_randn(TP_INTS(32, 16, 128));
        t.loss = lstm_loss;
        t.optimiser = sgd;
    }
    return t;
}

static double step(const training *t, tp_optimiser *optimiser) {
    double value = 0;
    TP_SCOPE {
        tp_optimiser_zero_grad(optimiser);
        tp_tensor *loss = t->loss(t);
        tp_backward(loss);
        tp_step(optimiser);
        value = loss ? tp_item(loss) : 0;
    }
    return value;
}

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    const int threads = argc > 2 ? atoi(argv[2]) : 1;
    const clockid_t clock = threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    tp_set_num_threads(threads);
    tp_manual_seed(0);
    training t = make(argc > 1 ? argv[1] : "mlp");
    tp_state p = tp_module_parameters(t.net);
    tp_optimiser *optimiser = t.optimiser(tp_list(p.n, p.tensors));
    double loss = 0, begin = now(clock), best = 1e9;
    for (int i = 0; i < 10; i++) loss = step(&t, optimiser);
    const int burst = (int)(0.5 / (now(clock) - begin)) + 1;
    for (double end = now(clock) + (argc > 3 ? atof(argv[3]) : 1); now(clock) < end && tp_ok();) {
        begin = now(clock);
        for (int i = 0; i < burst; i++) step(&t, optimiser);
        const double took = (now(clock) - begin) / burst;
        if (took < best) best = took;
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("%.9g %.6g %ld\n", best, loss, used.ru_maxrss);
    if (!tp_ok()) fprintf(stderr, "train: %s\n", tp_error());
    return tp_ok() ? 0 : 1;
}
