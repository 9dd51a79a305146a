"""Convolutions: methods that the stanzas of tables/layers/conv.layer cannot say. The classes themselves, with their
constructors and parameters, are written from the stanzas."""

from taper.nn import functional as F
from taper.nn.modules.utils import _reverse_repeat_tuple

_MODES = ("zeros", "reflect", "replicate", "circular")


class ConvMethods:
    """Borders, of PyTorch's padding modes and by name."""

    __slots__ = ()

    def _check_padding(self):
        if isinstance(self.padding, str):
            if self.padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {self.padding!r}, should be one of {{'same', 'valid'}}")
            if self.padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if self.padding_mode not in _MODES:
            raise ValueError(
                "padding_mode must be one of {'zeros', 'reflect', 'replicate', 'circular'}, "
                f"but got padding_mode='{self.padding_mode}'"
            )

    def _borders(self):
        """How far the last dim, the one before it, ... are padded on each side, as F.pad takes it."""
        self._check_padding()
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        borders = []
        for dilation, kernel in zip(reversed(self.dilation), reversed(self.kernel_size)):
            total = dilation * (kernel - 1) if self.padding == "same" else 0
            borders += [total // 2, total - total // 2]
        return borders

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

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


class ConvTransposeMethods:
    """Adjoints of convolutions, whose output size is one of several."""

    __slots__ = ()

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
                f"ConvTranspose{dims}D: for {input.dim()}D input, output_size must have {dims} or "
                f"{dims + (2 if batched else 1)} elements (got {len(output_size)})"
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
                f"requested an output size of {given}, but valid sizes range from {least} to {most} (for an input of "
                f"{input.size()[-dims:]})"
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
