/* A training step from C: the tiny network of rows.py (64-128-128-10, batch 32, Adam). Prints the row's name and the seconds a step takes, the
 * median of many; bench/compare.py puts it beside the same step from Python. */
#include <stdio.h>
#include <stdlib.h>
#include <taper/taper.h>
#include <time.h>

enum { STEPS = 200, ROUNDS = 41 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void) {
    tp_manual_seed(0);
    tp_module *net = tp_nn_sequential(tp_nn_linear(64, 128), tp_nn_relu(), tp_nn_linear(128, 128), tp_nn_relu(), tp_nn_linear(128, 10));
    tp_state all = tp_module_parameters(net);
    tp_optimiser *adam = tp_adam(tp_list(all.n, all.tensors), .lr = 1e-3);
    double seconds[ROUNDS];
    TP_SCOPE {
        tp_tensor *x = tp_randn(TP_INTS(32, 64)), *y = tp_randint(10, TP_INTS(32));
        for (int round = 0; round < ROUNDS; round++) {
            double start = now();
            for (int step = 0; step < STEPS; step++) TP_SCOPE {
                tp_optimiser_zero_grad(adam);
                tp_backward(tp_cross_entropy(tp_forward(net, x), y));
                tp_step(adam);
            }
            seconds[round] = (now() - start) / STEPS;
        }
    }
    if (!tp_ok()) return fprintf(stderr, "step: %s\n", tp_error()), 1;
    qsort(seconds, ROUNDS, sizeof *seconds, by_size);
    printf("mlp_tiny_train_step_from_c %.9f\n", seconds[ROUNDS / 2]);
    tp_optimiser_free(adam), tp_state_free(all), tp_module_release(net);
    return 0;
}
