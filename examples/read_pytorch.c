/* Reading PyTorch's files: prints what a .pt holds as a tree. Nothing in the file is executed.
 *     read_pytorch [FILE]     without one it writes a checkpoint, as PyTorch would, and reads that */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <taper/taper.h>
#include <unistd.h>

static void show(const tp_saved *v, int depth);

static void show_key(const tp_saved *key) {
    if (tp_saved_kind_of(key) == TP_SAVED_TEXT)
        printf("%s: ", tp_saved_text(key));
    else if (tp_saved_kind_of(key) == TP_SAVED_NUMBER)
        printf("%" PRId64 ": ", tp_scalar_to_int(tp_saved_number(key)));
}

static void show_items(const tp_saved *v, int depth) {
    const bool dict = tp_saved_kind_of(v) == TP_SAVED_DICT;
    printf("%s of %" PRId64 "\n", dict ? "dict" : "list", tp_saved_count(v));
    for (int64_t i = 0; i < tp_saved_count(v); i++) {
        printf("%*s", 2 * (depth + 1), "");
        if (dict) show_key(tp_saved_key_at(v, i));
        show(tp_saved_at(v, i), depth + 1);
    }
}

static void show_tensor(const tp_saved *v) {
    tp_saved_about about = {.size = sizeof about};
    if (!tp_saved_describe(v, &about)) return;
    printf("%s [", tp_dtype_name(about.dtype));
    for (int64_t d = 0; d < about.shape.n; d++) printf("%s%" PRId64, d ? ", " : "", about.shape.v[d]);
    TP_SCOPE {
        tp_tensor *t = tp_saved_tensor(v); /* read now, with its checksum */
        if (t && tp_numel(t) && tp_dtype_is_floating(about.dtype))
            printf("], mean %.4f", tp_item(tp_mean(tp_to(t, .dtype = TP_FLOAT64))));
        else
            printf("]");
    }
    printf("\n");
}

static void show(const tp_saved *v, int depth) {
    switch (tp_saved_kind_of(v)) {
    case TP_SAVED_DICT:
    case TP_SAVED_LIST:
    case TP_SAVED_TUPLE: show_items(v, depth); break;
    case TP_SAVED_TENSOR: show_tensor(v); break;
    case TP_SAVED_NUMBER: printf("%g\n", tp_scalar_to_double(tp_saved_number(v))); break;
    case TP_SAVED_TEXT: printf("\"%s\"\n", tp_saved_text(v)); break;
    case TP_SAVED_NONE: printf("None\n"); break;
    default: printf("(something else)\n"); break;
    }
}

/* A network and its optimiser after a step, in PyTorch's layout. */
static bool write_one(const char *path) {
    tp_manual_seed(0);
    tp_module *net = tp_nn_sequential(tp_nn_linear(4, 8), tp_nn_relu(), tp_nn_linear(8, 2));
    tp_state parameters = tp_module_parameters(net);
    tp_optimiser *adam = tp_adam(tp_list(parameters.n, parameters.tensors), .lr = 0.01);
    TP_SCOPE
        tp_backward(tp_sum(tp_forward(net, tp_ones(TP_INTS(1, 4)))));
    tp_step(adam);
    tp_training all = TP_TRAINING(.model = net, .optimiser = adam, .epoch = 3);
    bool saved = tp_training_save(path, &all); /* torch.load(path)["model"] is its state_dict */
    tp_optimiser_free(adam);
    tp_state_free(parameters);
    tp_module_release(net);
    return saved;
}

int main(int argc, char **argv) {
    char own[64];
    snprintf(own, sizeof own, "read_pytorch_%d.pt", (int)getpid());
    const char *path = argc > 1 ? argv[1] : own;
    tp_file *file = argc > 1 || write_one(path) ? tp_open_file(path, NULL) : NULL;
    if (file) show(tp_file_value(file), 0);
    tp_close_file(file);
    if (argc < 2) remove(own);
    if (tp_ok()) return 0;
    fprintf(stderr, "read_pytorch: %s\n", tp_error());
    return 1;
}
