// The same in C++, by the C headers.
#include <cstdio>
#include <taper/taper.h>
int main() {
    const float values[] = {1, 2, 3};
    tp_scope scope = tp_scope_open();
    tp_tensor *x = tp_set_requires_grad(tp_from_data(values, TP_FLOAT32, TP_INTS(3)), true);
    tp_tensor *y = tp_sum(tp_mul(x, 2));
    if (!tp_backward(y)) {
        std::fprintf(stderr, "%s\n", tp_error());
        return 1;
    }
    float grad[3];
    bool right = tp_copy_out(tp_grad(x), grad, sizeof grad) && grad[0] == 2 && tp_item(y) == 12;
    tp_scope_close(&scope);
    return right ? 0 : 2;
}
