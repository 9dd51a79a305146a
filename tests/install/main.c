/* A project outside of the tree, which install_test.sh builds against an installation. */
#include <stdio.h>
#include <string.h>
#include <taper/taper.h>
int main(void) {
    TP_SCOPE {
        tp_tensor *x = tp_set_requires_grad(tp_from_data((const float[]){1, 2, 3}, TP_FLOAT32, TP_INTS(3)), true);
        tp_tensor *y = tp_sum(tp_mul(x, x));
        if (!tp_backward(y)) {
            fprintf(stderr, "%s\n", tp_error());
            return 1;
        }
        float grad[3];
        if (!tp_copy_out(tp_grad(x), grad, sizeof grad) || grad[0] != 2 || grad[1] != 4 || grad[2] != 6 ||
            tp_item(y) != 14)
            return 2;
        tp_tensor *s = tp_call("sum", x);
        if (tp_item(s) != 6) return 3;
    }
    return strcmp(tp_version(), VERSION) ? 4 : 0;
}
