/* Taper's main job in one page: trains a small convolutional network on handwritten digits, tests it, saves its
 * weights, loads them into a fresh network and shows twelve test digits with that network's answers.
 *     digits [DATA [WEIGHTS [EPOCHS [IMAGES]]]]     defaults: examples/data digits.pt 6, all of them */
#include <stdio.h>
#include <stdlib.h>
#include <taper/taper.h>
#include <unistd.h>

enum { BATCH = 50, SHOWN = 12, BAR = 20, MOST = INT32_MAX };

static void stop(const char *what) {
    fprintf(stderr, "digits: %s: %s\n", what, tp_error() ? tp_error() : "cannot be done");
    exit(1);
}

/* Images (1, 28, 28) in [0, 1] and labels, from files in MNIST's format; at most `most` of them. */
static tp_dataset *digits(const char *folder, const char *set, int64_t most) {
    char images[4096], labels[4096];
    snprintf(images, sizeof images, "%s/%s-images.idx.gz", folder, set);
    snprintf(labels, sizeof labels, "%s/%s-labels.idx.gz", folder, set);
    tp_dataset *all = tp_dataset_mnist(images, labels), *some = NULL;
    if (!all) stop(images);
    if (tp_dataset_count(all) <= most) return all;
    TP_SCOPE
        some = tp_dataset_subset(all, tp_ints_view(tp_data(tp_arange(most)), most));
    tp_dataset_release(all);
    if (!some) stop(images);
    return some;
}

static tp_module *network(void) { /* (N, 1, 28, 28) -> (N, 10) */
    return tp_nn_sequential(tp_nn_conv2d(1, 8, TP_INTS(3), .padding = TP_INTS(1)), tp_nn_batch_norm2d(8), tp_nn_relu(),
                            tp_nn_max_pool2d(TP_INTS(2)), tp_nn_conv2d(8, 16, TP_INTS(3), .padding = TP_INTS(1)),
                            tp_nn_batch_norm2d(16), tp_nn_relu(), tp_nn_max_pool2d(TP_INTS(2)), tp_nn_flatten(),
                            tp_nn_linear(784, 10));
}

static void train(tp_module *net, tp_dataset *data, int epochs) {
    tp_state parameters = tp_module_parameters(net);
    tp_loader *loader = tp_loader_new(data, .batch = BATCH, .shuffle = true, .threads = 1);
    tp_optimiser *adam = tp_adam(tp_list(parameters.n, parameters.tensors), .lr = 5e-3);
    int64_t batches = tp_loader_batches(loader);
    tp_schedule *schedule = tp_linear_lr(adam, .start_factor = 1, .end_factor = 0, .total_iters = batches * epochs);
    for (int epoch = 0; epoch < epochs; epoch++) {
        double mean = 0;
        for (int64_t batch = 1; tp_loader_next(loader); batch++)
            TP_SCOPE {
                tp_tensor *images = tp_loader_field(loader, 0), *labels = tp_loader_field(loader, 1);
                tp_optimiser_zero_grad(adam);
                tp_tensor *loss = tp_cross_entropy(tp_forward(net, images), labels);
                tp_backward(loss);
                tp_step(adam);
                tp_schedule_step(schedule);
                mean += (tp_item(loss) - mean) / (double)batch;
                int done = (int)(BAR * batch / batches);
                if (done < BAR && !isatty(1)) continue;
                printf("\repoch %d/%d [%-20.*s] loss %.4f%s", epoch + 1, epochs, done, "####################", mean,
                       done == BAR ? "\n" : "");
                fflush(stdout);
            }
    }
    tp_schedule_free(schedule);
    tp_optimiser_free(adam);
    tp_loader_free(loader);
    tp_state_free(parameters);
    if (!tp_ok()) stop("training"); /* an error stays, and ends the loop: one check is enough */
}

/* Saves the state as PyTorch's state_dict (torch.load reads the file) and gives a fresh network that state. */
static tp_module *save_and_load(tp_module *net, const char *path) {
    tp_module *fresh = network();
    tp_state from = tp_module_state(net), to = tp_module_state(fresh);
    if (!tp_save(path, from.n, from.names, from.tensors) || !tp_load(path, to.n, to.names, to.tensors)) stop(path);
    tp_state_free(from);
    tp_state_free(to);
    tp_module_train(fresh, false);
    return fresh;
}

/* Margins are cut, and three by two pixels make a letter: (N, 1, 8, 10). */
static void show(tp_tensor *images, tp_tensor *said, tp_tensor *labels) {
    tp_tensor *small = tp_avg_pool2d(tp_narrow(tp_narrow(images, 2, 2, 24), 3, 4, 20), TP_INTS(3, 2));
    if (!small) stop("showing");
    const float *shade = tp_data(small);
    const int64_t *answer = tp_data(said), *truth = tp_data(labels);
    for (int64_t first = 0; first < SHOWN; first += 6) {
        for (int row = 0; row < 8; row++, putchar('\n'))
            for (int64_t i = first; i < first + 6; i++, printf("  "))
                for (int c = 0; c < 10; c++) putchar(" .:-=+*#%@"[(int)(9.99f * shade[(i * 8 + row) * 10 + c])]);
        for (int64_t i = first; i < first + 6; i++)
            printf("    %d %-6s", (int)answer[i], answer[i] == truth[i] ? "" : "wrong");
        printf("\n\n");
    }
}

int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : "examples/data", *weights = argc > 2 ? argv[2] : "digits.pt";
    tp_manual_seed(0);
    tp_dataset *data = digits(folder, "train", argc > 4 ? atoi(argv[4]) : MOST), *held = digits(folder, "test", MOST);
    tp_module *trained = network();
    train(trained, data, argc > 3 ? atoi(argv[3]) : 6);
    tp_module *loaded = save_and_load(trained, weights);
    tp_loader *test = tp_loader_new(held, .batch = tp_dataset_count(held)); /* all at once */
    if (!tp_loader_next(test)) stop("testing");
    TP_SCOPE
        TP_NO_GRAD {
            tp_tensor *images = tp_loader_field(test, 0), *labels = tp_loader_field(test, 1);
            tp_tensor *said = tp_argmax(tp_forward(loaded, images), .dim = 1), *right = tp_sum(tp_eq(said, labels));
            if (!tp_ok()) stop("testing");
            printf("test accuracy %.2f%%; weights in %s, loaded again:\n\n",
                   100 * tp_item(right) / (double)tp_numel(said), weights);
            show(images, said, labels);
        }
    tp_loader_free(test);
    tp_module_release(loaded);
    tp_module_release(trained);
    tp_dataset_release(held);
    tp_dataset_release(data);
}
