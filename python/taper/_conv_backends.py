"""torch._C._select_conv_backend: what PyTorch calls the implementation that it would take for a convolution on a CPU.
Here there is one operator, whose way depends on measurements; the name tells what kind of convolution it is."""

from enum import Enum

from taper.backends import mkldnn

_ConvBackend = Enum(
    "_ConvBackend",
    """CudaDepthwise2d CudaDepthwise3d Cudnn CudnnTranspose Empty Miopen MiopenDepthwise MiopenTranspose Mkldnn
    MkldnnTranspose
    MkldnnEmpty NnpackSpatial Overrideable Slow2d Slow3d SlowDilated2d SlowDilated3d SlowTranspose2d SlowTranspose3d
    Winograd3x3Depthwise Xnnpack2d Mps
    MpsTranspose""",
    module=__name__,
)


def _by_onednn(input, weight, stride, dilation, groups):
    """Is it worth while to ask oneDNN? Small single images without groups are not."""
    if input.is_mkldnn:
        return True
    moved = any(s != 1 for s in stride) or any(d != 1 for d in dilation)
    window = tuple(weight.shape[2:])
    from taper import get_num_threads

    worth = moved or input.shape[0] >= 16 or window[-1] != 1 or window[-2:-1] != (1,) or get_num_threads() > 1
    large = groups > 1 or all(size > 3 for size in window[-2:]) or input.shape[0] > 1 or input.numel() > 20480
    return mkldnn.enabled and input.device.type == "cpu" and str(input.dtype) == "torch.float32" and worth and large


def _select_conv_backend(
    input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, bias_sizes=None
):
    if 0 in input.shape or 0 in weight.shape:
        return _ConvBackend.MkldnnEmpty if input.is_mkldnn else _ConvBackend.Empty
    three = weight.dim() == 5
    if _by_onednn(input, weight, stride, dilation, groups):
        return _ConvBackend.MkldnnTranspose if transposed else _ConvBackend.Mkldnn
    if transposed:
        return _ConvBackend.SlowTranspose3d if three else _ConvBackend.SlowTranspose2d
    if any(d != 1 for d in dilation):
        return _ConvBackend.SlowDilated3d if three else _ConvBackend.SlowDilated2d
    return _ConvBackend.Slow3d if three else _ConvBackend.Slow2d
