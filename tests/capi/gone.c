/* With TAPER_DEBUG=1 a tensor or a module that is gone is told from every other one, however many are made after it. */
#include <stdio.h>
#include <string.h>
#include <taper/taper.h>

int main(void) {
    tp_tensor *released = tp_ones(TP_INTS(2)), *left = NULL;
    tp_release(released);
    TP_SCOPE
        left = tp_ones(TP_INTS(2));
    TP_SCOPE
        for (int i = 0; i < 1000; i++) tp_zeros(TP_INTS(2));
    tp_tensor *live = tp_zeros(TP_INTS(2));
    tp_release(released);
    if (tp_ok() || !strstr(tp_error(), "released before")) {
        puts("a second release was not seen");
        return 1;
    }
    tp_error_clear();
    if (tp_relu(left) ||
        !strstr(
            tp_error(),
            "relu: argument 'self': expected a tensor, got one that was released before, or whose scope has ended")) {
        puts("the use after the scope was not seen");
        return 1;
    }
    tp_error_clear();
    tp_module *net = tp_nn_linear(2, 2);
    tp_module_release(net);
    for (int i = 0; i < 1000; i++) tp_module_release(tp_nn_linear(2, 2));
    tp_module *another = tp_nn_linear(2, 2);
    if (tp_forward(net, live) ||
        !strstr(tp_error(), "tp_forward: argument 'm': expected a module, got one that was released before")) {
        puts("the use of a module after its release was not seen");
        return 1;
    }
    tp_error_clear();
    tp_module_release(another);
    tp_release(live);
    if (tp_ok()) return 0;
    puts(tp_error());
    return 1;
}
