/* Taper's main job in one page: trains a small convolutional network on handwritten digits, tests it, saves its weights, loads them
 * into a fresh network and shows twelve test digits with that network's answers.
 *     digits [DATA [WEIGHTS [EPOCHS [IMAGES]]]]     defaults: examples/data digits.npz 6 12000 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <taper/taper.h>
#include <unistd.h>
#include <zlib.h>

enum { BATCH = 50, PARAMS = 6, SHOWN = 12, BAR = 20 };
static const char *const names[PARAMS] = {"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "linear.weight", "linear.bias"};

static void stop(const char *what) {
    fprintf(stderr, "digits: %s: %s\n", what, tp_error() ? tp_error() : "cannot be read");
    exit(1);
}

/* An idx file (MNIST's format) as a uint8 tensor: four bytes with the number of dimensions last, their sizes, the data. */
static tp_tensor *read_idx(const char *folder, const char *set, const char *kind) {
    char path[4096];
    unsigned char head[4], size[4][4];
    int64_t shape[4];
    snprintf(path, sizeof path, "%s/%s-%s.idx.gz", folder, set, kind);
    gzFile in = gzopen(path, "rb");
    if (!in || gzread(in, head, 4) != 4 || head[3] > 4 || gzread(in, size, 4u * head[3]) != 4 * head[3]) stop(path);
    for (int d = 0; d < head[3]; d++) shape[d] = size[d][0] << 24 | size[d][1] << 16 | size[d][2] << 8 | size[d][3];
    tp_tensor *t = tp_new(tp_ints_view(shape, head[3]), TP_UINT8);
    if (!t || gzread(in, tp_data(t), (unsigned)tp_numel(t)) != tp_numel(t)) stop(path);
    gzclose(in);
    return t;
}

/* Images (N, 1, 28, 28) in [0, 1] and labels (N), at most `most` of them. */
static void load(const char *folder, const char *set, int64_t most, tp_tensor **images, tp_tensor **labels) {
    tp_tensor *pixels = read_idx(folder, set, "images"), *digits = read_idx(folder, set, "labels");
    int64_t n = tp_numel(digits) < most ? tp_numel(digits) : most;
    *images = tp_div(tp_unsqueeze(tp_narrow(pixels, 0, 0, n), 1), 255);
    *labels = tp_to(tp_narrow(digits, 0, 0, n), .dtype = TP_INT64);
}

static void make_parameters(tp_tensor **p) { /* weights by He's rule, zero biases */
    const tp_ints shapes[PARAMS] = {TP_INTS(8, 1, 3, 3), TP_INTS(8), TP_INTS(16, 8, 3, 3), TP_INTS(16), TP_INTS(10, 784), TP_INTS(10)};
    const double fan_in[PARAMS] = {9, 0, 72, 0, 784, 0};
    for (int i = 0; i < PARAMS; i++) {
        p[i] = fan_in[i] ? tp_mul(tp_randn(shapes[i]), sqrt(2 / fan_in[i])) : tp_zeros(shapes[i]);
        if (!tp_set_requires_grad(p[i], true)) stop("parameters");
    }
}

static tp_tensor *network(tp_tensor *const *p, tp_tensor *x) { /* (N, 1, 28, 28) -> (N, 10) */
    x = tp_max_pool2d(tp_relu(tp_conv2d(x, p[0], .bias = p[1], .padding = TP_INTS(1))), TP_INTS(2)); /* (N, 8, 14, 14) */
    x = tp_max_pool2d(tp_relu(tp_conv2d(x, p[2], .bias = p[3], .padding = TP_INTS(1))), TP_INTS(2)); /* (N, 16, 7, 7) */
    return tp_linear(tp_flatten(x, .start_dim = 1), p[4], .bias = p[5]);
}

/* One step of gradient descent with momentum; returns the loss. */
static double train_step(tp_tensor *const *p, tp_tensor *const *momentum, tp_tensor *x, tp_tensor *labels, double rate) {
    tp_tensor *loss = tp_cross_entropy(network(p, x), labels);
    if (!tp_backward(loss)) stop("training");
    TP_NO_GRAD for (int i = 0; i < PARAMS; i++) {
        tp_add_(tp_mul_(momentum[i], 0.9), tp_grad(p[i]));
        tp_sub_(p[i], tp_mul(momentum[i], rate));
        tp_zero_grad(p[i]);
    }
    return tp_item(loss);
}

static void train(tp_tensor *const *p, tp_tensor *images, tp_tensor *labels, int epochs) {
    tp_tensor *momentum[PARAMS];
    TP_NO_GRAD for (int i = 0; i < PARAMS; i++) momentum[i] = tp_zeros_like(p[i]);
    int64_t batches = tp_size(images, 0) / BATCH;
    for (int epoch = 0; epoch < epochs; epoch++) TP_SCOPE {
        tp_tensor *order = tp_randperm(tp_size(images, 0));
        double mean = 0;
        for (int64_t b = 0; b < batches; b++) TP_SCOPE {
            tp_tensor *chosen = tp_narrow(order, 0, b * BATCH, BATCH);
            double rate = 0.05 * (1 - (epoch + (double)b / (double)batches) / epochs);
            tp_tensor *x = tp_index_select(images, 0, chosen), *y = tp_index_select(labels, 0, chosen);
            mean += (train_step(p, momentum, x, y, rate) - mean) / (double)(b + 1);
            int done = (int)(BAR * (b + 1) / batches);
            if (done < BAR && !isatty(1)) continue;
            printf("\repoch %d/%d [%-20.*s] loss %.4f%s", epoch + 1, epochs, done, "####################", mean, done == BAR ? "\n" : "");
            fflush(stdout);
        }
    }
}

static void show(tp_tensor *images, tp_tensor *said, tp_tensor *labels) { /* margins cut, three by two pixels to a letter */
    tp_tensor *small = tp_avg_pool2d(tp_narrow(tp_narrow(images, 2, 2, 24), 3, 4, 20), TP_INTS(3, 2)); /* (N, 1, 8, 10) */
    const float *shade = small ? tp_data(small) : (stop("showing"), NULL);
    const int64_t *answer = tp_data(said), *truth = tp_data(labels);
    for (int64_t first = 0; first < SHOWN; first += 6) {
        for (int row = 0; row < 8; row++, putchar('\n'))
            for (int64_t i = first; i < first + 6; i++, printf("  "))
                for (int c = 0; c < 10; c++) putchar(" .:-=+*#%@"[(int)(9.99f * shade[(i * 8 + row) * 10 + c])]);
        for (int64_t i = first; i < first + 6; i++) printf("    %d %-6s", (int)answer[i], answer[i] == truth[i] ? "" : "wrong");
        printf("\n\n");
    }
}

int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : "examples/data", *weights = argc > 2 ? argv[2] : "digits.npz";
    tp_tensor *images, *labels, *test_images, *test_labels, *trained[PARAMS], *loaded[PARAMS];
    tp_manual_seed(0);
    TP_SCOPE {
        load(folder, "train", argc > 4 ? atoi(argv[4]) : 12000, &images, &labels);
        load(folder, "test", 2000, &test_images, &test_labels);
        make_parameters(trained);
        train(trained, images, labels, argc > 3 ? atoi(argv[3]) : 6);
        make_parameters(loaded);
        if (!tp_save(weights, PARAMS, names, trained) || !tp_load(weights, PARAMS, names, loaded)) stop(weights);
        TP_NO_GRAD {
            tp_tensor *said = tp_argmax(network(loaded, test_images), .dim = 1), *right = tp_sum(tp_eq(said, test_labels));
            if (!tp_ok()) stop("testing");
            printf("test accuracy %.2f%%; weights in %s, loaded again:\n\n", 100 * tp_item(right) / (double)tp_numel(said), weights);
            show(test_images, said, test_labels);
        }
    }
}
