/* What must not compile, one form for each CASE: each meant something else than it says when the compiler let it
 * through. */
#include <complex.h>
#include <taper/taper.h>

struct other {
    int a;
};
void refused(tp_tensor *x, void *pointer, struct other other, __int128 large, tp_module *module);
void refused(tp_tensor *x, void *pointer, struct other other, __int128 large, tp_module *module) {
    (void)pointer;
    (void)other;
    (void)large;
    (void)module;
#if CASE == 0 /* this one is right: the others fail for what they say */
    tp_sum(x, .dim = TP_INTS(0));
#elif CASE == 1
    tp_sum(x, .dim = 0); /* a number where a list is wanted: an empty list, all dims */
#elif CASE == 2
    tp_sum(x, .dim = 1);
#elif CASE == 3
    tp_sum(x, TP_INTS(0)); /* an option without its name: it went nowhere */
#elif CASE == 4
    tp_sum(x, 0);
#elif CASE == 5
    tp_add(x, x, .alpha = 2); /* a number where a scalar is wanted: its kind */
#elif CASE == 6
    tp_add(x, x, 2);
#elif CASE == 7
    tp_nn_linear(2, 3, false);
#elif CASE == 8
    tp_sgd(TP_LIST(x), 0.1);
#elif CASE == 9
    tp_backward(x, x);
#elif CASE == 10
    tp_backward(x, .inputs = x); /* a tensor where a list is wanted */
#elif CASE == 11
    tp_loader_new(NULL, 32);
#elif CASE == 12
    tp_dist_init("tcp");
#elif CASE == 13
    tp_step_lr(NULL, 30);
#elif CASE == 14
    tp_nn_conv2d(1, 2, TP_INTS(3), .stride = 2);
#elif CASE == 15
    tp_mul(x, other); /* what is neither a tensor nor a number */
#elif CASE == 16
    tp_mul(x, pointer);
#elif CASE == 17
    tp_mul(x, NULL);
#elif CASE == 18
    tp_mul(x, large);
#elif CASE == 19
    tp_mul(x, "two");
#elif CASE == 20
    tp_mul(x, module);
#elif CASE == 21
    tp_full(TP_INTS(2), other);
#elif CASE == 22
    tp_call("softmax", x, pointer);
#else
#error done
#endif
}
