// A differentiable function of one's own, in C++: a clipped exponential with the gradient written by hand.
#include <taper/taper.hpp>

using namespace taper;

struct ClippedExp : autograd::Function<ClippedExp> {
    static Tensor forward(autograd::AutogradContext *ctx, const Tensor &x, double most) {
        Tensor y = exp(x).clamp_max(most);
        ctx->save_for_backward({y});
        ctx->saved_data["most"] = most;
        return y;
    }
    static autograd::tensor_list backward(autograd::AutogradContext *ctx, const autograd::tensor_list &grads) {
        const Tensor y = ctx->get_saved_variables()[0];
        return {grads[0] * y * (y < ctx->saved_data["most"].toDouble()), Tensor()}; // none for the number
    }
};

int main() {
    Tensor x = tensor({0.0, 1.0, 2.0}, dtype(kDouble).requires_grad(true));
    ClippedExp::apply(x, 5.0).sum().backward();
    std::cout << x.grad() << std::endl;

    /* Gradients of gradients: d2/dx2 of x^3 at 2 is 12. */
    Tensor z = tensor(2.0, dtype(kDouble).requires_grad(true));
    Tensor first = autograd::grad({z * z * z}, {z}, {}, true, true)[0];
    first.backward();
    std::cout << z.grad().item<double>() << std::endl;
    return 0;
}
