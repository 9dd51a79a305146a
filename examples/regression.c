/* Linear regression: a line through noisy points by gradient descent, beside the exact answer of least squares.
 *     regression */
#include <stdio.h>
#include <taper/taper.h>

int main(void) {
    tp_manual_seed(0);
    tp_tensor *x = tp_randn(TP_INTS(200, 1)), *y = NULL;
    TP_SCOPE
        y = tp_keep(tp_add(tp_add(tp_mul(x, 3), 0.5), tp_mul(tp_randn(TP_INTS(200, 1)), 0.1))); /* y = 3 x + 0.5 */

    tp_module *line = tp_nn_linear(1, 1);
    tp_state parameters = tp_module_parameters(line);
    tp_optimiser *sgd = tp_sgd(tp_list(parameters.n, parameters.tensors), .lr = 0.1);
    double loss = 0;
    for (int step = 0; step < 100; step++)
        TP_SCOPE { /* what is made in here is released at its end */
            tp_tensor *error = tp_mse_loss(tp_forward(line, x), y);
            tp_optimiser_zero_grad(sgd);
            tp_backward(error);
            tp_step(sgd);
            loss = tp_item(error);
        }
    printf("loss %.4f\n", loss);
    printf("by descent: y = %.3f x + %.3f\n", tp_item(tp_module_tensor(line, "weight")),
           tp_item(tp_module_tensor(line, "bias")));
    TP_SCOPE {
        tp_tensor *columns = tp_cat(TP_LIST(x, tp_ones_like(x)), .dim = 1);
        tp_tensor *exact = tp_linalg_lstsq(columns, y).solution;
        printf("exactly:    y = %.3f x + %.3f\n", tp_item(tp_select(exact, 0, 0)), tp_item(tp_select(exact, 0, 1)));
    }
    tp_optimiser_free(sgd);
    tp_state_free(parameters);
    tp_module_release(line);
    tp_release(x);
    tp_release(y);
    if (tp_ok()) return 0;
    fprintf(stderr, "regression: %s\n", tp_error()); /* one check at the end: the first error stays */
    return 1;
}
