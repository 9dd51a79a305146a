"""Layers that take their input's size from the first input, and are the ordinary layer from then on."""

from taper.nn.modules import batchnorm, conv, instancenorm
from taper.nn.modules.lazy import LazyModuleMixin
from taper.nn.modules.linear import Linear
from taper.nn.parameter import UninitializedBuffer, UninitializedParameter


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear whose in_features is the first input's."""

    cls_to_become = Linear

    def __init__(self, out_features, bias=True, device=None, dtype=None):
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input):
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()
        if self.in_features == 0:  # the weight came from a state dict
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(
                    f"The in_features inferred from input: {input.shape[-1]} is not equal to in_features from "
                    f"self.weight: {self.weight.shape[-1]}"
                )
            self.in_features = input.shape[-1]


class _LazyConvXdMixin(LazyModuleMixin):
    """A convolution whose in_channels is the first input's."""

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input, *args, **kwargs):
        if not self.has_uninitialized_params():
            return
        dims = len(self.kernel_size)
        if input.dim() not in (dims + 1, dims + 2):
            raise RuntimeError(
                f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {type(self).__name__}, but got "
                f"input of size: {input.shape}"
            )
        self.in_channels = input.shape[-dims - 1]
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        first, second = (
            (self.in_channels, self.out_channels) if self.transposed else (self.out_channels, self.in_channels)
        )
        self.weight.materialize((first, second // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _wait(self, out_channels, bias, device, dtype):
        """Parameters without a shape, after the layer was made for no channels."""
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)


def _lazy_conv(base):
    class Lazy(_LazyConvXdMixin, base):
        cls_to_become = base

        def __init__(
            self,
            out_channels,
            kernel_size,
            stride=1,
            padding=0,
            dilation=1,
            groups=1,
            bias=True,
            padding_mode="zeros",
            device=None,
            dtype=None,
        ):
            super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
            self._wait(out_channels, bias, device, dtype)

    return _named(Lazy, base, "in_channels")


def _lazy_transpose(base):
    class Lazy(_LazyConvXdMixin, base):
        cls_to_become = base

        def __init__(
            self,
            out_channels,
            kernel_size,
            stride=1,
            padding=0,
            output_padding=0,
            groups=1,
            bias=True,
            dilation=1,
            padding_mode="zeros",
            device=None,
            dtype=None,
        ):
            super().__init__(
                0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype
            )
            self._wait(out_channels, bias, device, dtype)

    return _named(Lazy, base, "in_channels")


class _LazyNormBase(LazyModuleMixin):
    """A normalisation whose num_features is the first input's."""

    def __init__(
        self, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None, *, bias=True
    ):
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            from taper import _C

            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = _C._functions["zeros"]((), dtype=_C.int64, device=device)

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input):
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        tensors = [self.weight, self.bias] if self.affine else []
        for tensor in tensors + ([self.running_mean, self.running_var] if self.track_running_stats else []):
            if tensor is not None:
                tensor.materialize((self.num_features,))
        self.reset_parameters()


def _lazy_norm(base):
    class Lazy(_LazyNormBase, base):
        cls_to_become = base

    return _named(Lazy, base, "num_features")


def _named(made, base, what):
    made.__name__ = made.__qualname__ = "Lazy" + base.__name__
    made.__doc__ = f"A {base.__name__} whose {what} is the first input's."
    return made


LazyConv1d, LazyConv2d, LazyConv3d = map(_lazy_conv, (conv.Conv1d, conv.Conv2d, conv.Conv3d))
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = map(
    _lazy_transpose, (conv.ConvTranspose1d, conv.ConvTranspose2d, conv.ConvTranspose3d)
)
LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = map(
    _lazy_norm, (batchnorm.BatchNorm1d, batchnorm.BatchNorm2d, batchnorm.BatchNorm3d)
)
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = map(
    _lazy_norm, (instancenorm.InstanceNorm1d, instancenorm.InstanceNorm2d, instancenorm.InstanceNorm3d)
)
