/* A physics-informed network: learns u with u'' = -sin(x) on [0, pi] and u = 0 at both ends, from the equation alone.
 * The answer is sin(x).
 *     pinn [STEPS] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <taper/taper.h>

/* dy/dx, element by element, with a history of its own. */
static tp_tensor *derivative(tp_tensor *y, tp_tensor *x) {
    const tp_grad_options options = {.size = sizeof options, .create_graph = true};
    tp_tensor *of = tp_sum(y), *slope = NULL;
    return tp_gradients(TP_LIST(of), TP_LIST(x), NULL, &slope, &options) ? slope : NULL;
}

/* The equation's error inside, and the values at the ends. */
static tp_tensor *loss_of(tp_module *net, tp_tensor *x, tp_tensor *ends) {
    tp_tensor *u = tp_forward(net, x);
    tp_tensor *curvature = derivative(derivative(u, x), x);
    tp_tensor *inside = tp_mean(tp_square(tp_add(curvature, tp_sin(x))));
    return tp_add(inside, tp_mean(tp_square(tp_forward(net, ends))));
}

int main(int argc, char **argv) {
    const int steps = argc > 1 ? atoi(argv[1]) : 500;
    tp_manual_seed(0);
    tp_module *net =
        tp_nn_sequential(tp_nn_linear(1, 32), tp_nn_tanh(), tp_nn_linear(32, 32), tp_nn_tanh(), tp_nn_linear(32, 1));
    tp_state parameters = tp_module_parameters(net);
    tp_optimiser *adam = tp_adam(tp_list(parameters.n, parameters.tensors), .lr = 5e-3);
    const float both[] = {0, (float)M_PI};
    tp_tensor *ends = tp_from_data(both, TP_FLOAT32, TP_INTS(2, 1));
    for (int step = 0; step <= steps; step++)
        TP_SCOPE {
            tp_tensor *x = tp_set_requires_grad(tp_mul(tp_rand(TP_INTS(64, 1)), M_PI), true);
            tp_tensor *loss = loss_of(net, x, ends);
            tp_optimiser_zero_grad(adam);
            tp_backward(loss);
            tp_step(adam);
            if (step % 100 == 0) printf("step %4d: loss %.5f\n", step, tp_item(loss));
        }
    TP_SCOPE
        TP_NO_GRAD {
            tp_tensor *x = tp_reshape(tp_linspace(0, M_PI, 101), TP_INTS(101, 1));
            tp_tensor *error = tp_max(tp_abs(tp_sub(tp_forward(net, x), tp_sin(x))));
            printf("largest error against sin(x): %.4f\n", tp_item(error));
        }
    tp_optimiser_free(adam);
    tp_state_free(parameters);
    tp_module_release(net);
    tp_release(ends);
    if (tp_ok()) return 0;
    fprintf(stderr, "pinn: %s\n", tp_error());
    return 1;
}
