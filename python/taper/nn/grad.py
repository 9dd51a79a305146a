"""torch.nn.grad: the gradients of convolutions as functions, by the tape itself."""

import taper
from taper.nn import functional as F


def _gradient(convolve, input, weight, of_input, grad_output, settings):
    with taper.enable_grad():
        input, weight = input.detach().requires_grad_(of_input), weight.detach().requires_grad_(not of_input)
        made = convolve(input, weight, None, *settings)
        return taper.autograd.grad(made, input if of_input else weight, grad_output)[0]


def _pair(dims):
    convolve = getattr(F, f"conv{dims}d")

    def of_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
        return _gradient(
            convolve,
            grad_output.new_zeros(tuple(input_size)),
            weight,
            True,
            grad_output,
            (stride, padding, dilation, groups),
        )

    def of_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
        return _gradient(
            convolve,
            input,
            grad_output.new_zeros(tuple(weight_size)),
            False,
            grad_output,
            (stride, padding, dilation, groups),
        )

    of_input.__name__, of_weight.__name__ = f"conv{dims}d_input", f"conv{dims}d_weight"
    of_input.__doc__, of_weight.__doc__ = (
        f"The gradient of conv{dims}d by its input.",
        f"The gradient of conv{dims}d by its weight.",
    )
    return of_input, of_weight


conv1d_input, conv1d_weight = _pair(1)
conv2d_input, conv2d_weight = _pair(2)
conv3d_input, conv3d_weight = _pair(3)
