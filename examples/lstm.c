/* An LSTM over sequences of different lengths: it learns to say whether a sequence's numbers add up to more than 0.
 *     lstm [STEPS] */
#include <stdio.h>
#include <stdlib.h>
#include <taper/taper.h>

enum { BATCH = 64, LONGEST = 12, HIDDEN = 16 };

/* A batch of random sequences (length, 1), and for each whether its sum is positive. */
static tp_packed draw(tp_tensor **labels) {
    tp_tensor *sequences[BATCH], *answers[BATCH];
    for (int i = 0; i < BATCH; i++) {
        const int64_t length = 2 + tp_item_int(tp_randint(LONGEST - 1, TP_INTS(1)));
        sequences[i] = tp_randn(TP_INTS(length, 1));
        answers[i] = tp_gt(tp_sum(sequences[i]), 0);
    }
    *labels = tp_to(tp_stack(tp_list(BATCH, answers)), .dtype = TP_FLOAT32);
    return tp_pack_sequence(tp_list(BATCH, sequences), false);
}

/* One number for each sequence: above 0 is yes. */
static tp_tensor *answer(tp_module *net, tp_packed sequences) {
    tp_tensor *h = NULL;
    tp_forward_packed(tp_module_child(net, "lstm"), sequences, NULL, NULL, &h, NULL);
    return tp_squeeze_dim(tp_forward(tp_module_child(net, "head"), tp_select(h, 0, 0)), 1);
}

int main(int argc, char **argv) {
    const int steps = argc > 1 ? atoi(argv[1]) : 200;
    tp_manual_seed(0);
    tp_module *net = tp_module_new("Classifier", NULL);
    tp_module_add(net, "lstm", tp_nn_lstm(1, HIDDEN));
    tp_module_add(net, "head", tp_nn_linear(HIDDEN, 1));
    tp_module_print(net);
    tp_state parameters = tp_module_parameters(net);
    tp_optimiser *adam = tp_adam(tp_list(parameters.n, parameters.tensors), .lr = 0.01);
    for (int step = 0; step <= steps; step++)
        TP_SCOPE {
            tp_tensor *labels;
            tp_packed sequences = draw(&labels);
            tp_tensor *loss = tp_binary_cross_entropy_with_logits(answer(net, sequences), labels);
            tp_optimiser_zero_grad(adam);
            tp_backward(loss);
            tp_clip_grad_norm(parameters.n, parameters.tensors, 1.0);
            tp_step(adam);
            if (step % 50 == 0) printf("step %3d: loss %.3f\n", step, tp_item(loss));
        }
    TP_SCOPE
        TP_NO_GRAD {
            tp_tensor *labels;
            tp_packed sequences = draw(&labels);
            tp_tensor *said = tp_to(tp_gt(answer(net, sequences), 0), .dtype = TP_FLOAT32);
            printf("right: %.0f of %d\n", tp_item(tp_sum(tp_eq(said, labels))), BATCH);
        }
    tp_optimiser_free(adam);
    tp_state_free(parameters);
    tp_module_release(net);
    if (tp_ok()) return 0;
    fprintf(stderr, "lstm: %s\n", tp_error());
    return 1;
}
