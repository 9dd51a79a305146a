"""What convolutions share."""

import math

from taper._C import _functions as _op
from taper.nn import functional as F
from taper.nn import init
from taper.nn.modules.module import Module
from taper.nn.modules.utils import _reverse_repeat_tuple
from taper.nn.parameter import Parameter

_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """Channels, window, stride, padding: checked, and the parameters made."""

    __constants__ = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        bias,
        padding_mode,
        device=None,
        dtype=None,
    ):
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups != 0:
                raise ValueError(f"{name} must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}")
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _MODES:
            raise ValueError(
                f"padding_mode must be one of {{'zeros', 'reflect', 'replicate', 'circular'}}, but got padding_mode='{padding_mode}'"
            )
        self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding, self.dilation = (
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
        )
        self.transposed, self.output_padding, self.groups, self.padding_mode = (
            transposed,
            output_padding,
            groups,
            padding_mode,
        )
        self._reversed_padding_repeated_twice = self._borders()
        first, second = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        self.weight = Parameter(_op["empty"]((first, second // groups, *kernel_size), device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(_op["empty"](out_channels, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def _borders(self):
        """How far the last dim, the one before it, ... are padded on each side, as F.pad takes it."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        borders = []
        for dilation, kernel in zip(reversed(self.dilation), reversed(self.kernel_size)):
            total = dilation * (kernel - 1) if self.padding == "same" else 0
            borders += [total // 2, total - total // 2]
        return borders

    def reset_parameters(self):
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _conv_forward(self, input, weight, bias):
        convolve = (F.conv1d, F.conv2d, F.conv3d)[len(self.kernel_size) - 1]
        if self.padding_mode == "zeros":
            return convolve(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        return convolve(
            F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode),
            weight,
            bias,
            self.stride,
            0,
            self.dilation,
            self.groups,
        )

    def extra_repr(self):
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * len(self.padding):
            text += f", padding={self.padding}"
        if self.dilation != (1,) * len(self.dilation):
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * len(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text + (f", padding_mode={self.padding_mode}" if self.padding_mode != "zeros" else "")

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


class _ConvTransposeNd(_ConvNd):
    """Adjoints of convolutions, whose output size is one of several."""

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        bias,
        padding_mode,
        device=None,
        dtype=None,
    ):
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input, output_size, stride, padding, kernel_size, num_spatial_dims, dilation=None):
        if output_size is None:
            return self.output_padding
        dims = num_spatial_dims
        batched = input.dim() == dims + 2
        given = list(output_size)
        if len(given) == (dims + 2 if batched else dims + 1):
            given = given[-dims:]
        if len(given) != dims:
            raise ValueError(
                f"ConvTranspose{dims}D: for {input.dim()}D input, output_size must have {dims} or {dims + (2 if batched else 1)} elements (got {len(output_size)})"
            )
        sizes = input.shape[-dims:]
        least = [
            (sizes[d] - 1) * stride[d]
            - 2 * padding[d]
            + (dilation[d] if dilation is not None else 1) * (kernel_size[d] - 1)
            + 1
            for d in range(dims)
        ]
        most = [least[d] + stride[d] - 1 for d in range(dims)]
        if any(not low <= size <= high for size, low, high in zip(given, least, most)):
            raise ValueError(
                f"requested an output size of {given}, but valid sizes range from {least} to {most} (for an input of {input.size()[-dims:]})"
            )
        return [size - low for size, low in zip(given, least)]

    def _transpose_forward(self, input, output_size):
        if self.padding_mode != "zeros":
            raise ValueError(f"Only `zeros` padding mode is supported for {type(self).__name__}")
        dims = len(self.kernel_size)
        extra = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, dims, self.dilation
        )
        transpose = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]
        return transpose(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)
