// Errors by choice: without exceptions a failed call gives an undefined tensor, and the error stays.
#include <taper/cpp/tensor.hpp>
int main() {
    taper::Tensor x = taper::ones({2, 3});
    taper::Tensor y = x.view({5});
    if (y.defined() || taper::error().empty()) return 1;
    tp_error_clear();
    return x.sum().item<double>() == 6 && taper::error().empty() ? 0 : 2;
}
