/* The demo's own network and data, compiled in from examples/digits.c: a few training steps on 1, 2, 3, 7 and 16
 * threads give the same losses and weights to the last bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
/* Only main may end without a return. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wreturn-type"
#define main digits_main
#include "../examples/digits.c"
#undef main
#pragma GCC diagnostic pop
#include "thread_counts.h"

enum { STEPS = 6, WEIGHTS = 10 * 784 };

typedef struct run {
    double losses[STEPS];
    float weights[WEIGHTS]; /* of the last layer */
} run;

static double train_step(tp_module *net, tp_optimiser *optimiser, tp_tensor *images, tp_tensor *labels) {
    tp_optimiser_zero_grad(optimiser);
    tp_tensor *loss = tp_cross_entropy(tp_forward(net, images), labels);
    assert_true(tp_backward(loss));
    assert_true(tp_step(optimiser));
    return tp_item(loss);
}

static void train_on(int threads, run *out) {
    const char *source = getenv("TAPER_SOURCE_DIR");
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/examples/data", source ? source : "..");
    tp_set_num_threads(threads);
    tp_manual_seed(0);
    tp_dataset *data = digits(folder, "train", STEPS * BATCH);
    tp_module *net = network();
    tp_state parameters = tp_module_parameters(net);
    tp_optimiser *adam = tp_adam(tp_list(parameters.n, parameters.tensors), .lr = 5e-3);
    tp_loader *loader = tp_loader_new(data, .batch = BATCH, .shuffle = true, .threads = threads);
    for (int step = 0; step < STEPS; step++)
        TP_SCOPE {
            assert_true(tp_loader_next(loader));
            out->losses[step] = train_step(net, adam, tp_loader_field(loader, 0), tp_loader_field(loader, 1));
        }
    assert_true(tp_copy_out(tp_module_tensor(net, "9.weight"), out->weights, sizeof out->weights));
    tp_loader_free(loader);
    tp_optimiser_free(adam);
    tp_state_free(parameters);
    tp_module_release(net);
    tp_dataset_release(data);
    assert_true(tp_ok());
    tp_set_num_threads(0);
}

static void training_gives_the_same_bits_on_any_number_of_threads(void **state) {
    (void)state;
    static run alone, together;
    train_on(1, &alone);
    assert_true(alone.losses[STEPS - 1] < alone.losses[0]);
    for (int i = 0; i < THREAD_COUNTS; i++) {
        if (!worth_comparing(thread_counts[i])) continue;
        train_on(thread_counts[i], &together);
        if (memcmp(&alone, &together, sizeof alone))
            fail_msg("%d threads: the last loss is %.17g, alone %.17g", thread_counts[i], together.losses[STEPS - 1],
                     alone.losses[STEPS - 1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(training_gives_the_same_bits_on_any_number_of_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
