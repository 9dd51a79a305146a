"""Deformable convolution: each tap of the kernel reads its place plus an offset, interpolated."""

import math

import taper as torch
from taper import nn


def _pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


def _places(offset, size, kernel, stride, padding, dilation, axis):
    """(N, groups, taps, rows, columns): where the taps read along one axis."""
    at = torch.arange(size[axis], dtype=offset.dtype, device=offset.device) * stride[axis] - padding[axis]
    tap = torch.arange(kernel[axis], dtype=offset.dtype, device=offset.device) * dilation[axis]
    if axis == 0:
        base = tap.repeat_interleave(kernel[1])[:, None, None] + at[:, None]
    else:
        base = tap.repeat(kernel[0])[:, None, None] + at
    return offset[:, :, :, axis] + base


def _sampled(features, y, x):
    """Features (B, C, H, W) at places (B, L), by their four neighbours; what lies outside counts as zero."""
    batch, channels, height, width = features.shape
    flat = features.reshape(batch, channels, height * width)
    top, left = y.floor(), x.floor()
    result = 0
    for row, by_row in ((top, top + 1 - y), (top + 1, y - top)):
        for column, by_column in ((left, left + 1 - x), (left + 1, x - left)):
            within = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            index = row.clamp(0, height - 1).to(torch.int64) * width + column.clamp(0, width - 1).to(torch.int64)
            weight = torch.where(within, by_row * by_column, torch.zeros_like(y))
            result = result + flat.gather(2, index[:, None].expand(-1, channels, -1)) * weight[:, None]
    return result


def deform_conv2d(input, offset, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), mask=None):
    """Deformable convolution v1, and v2 with a mask: offset (N, 2 * groups * kh * kw, rows, columns), rows' offsets
    before columns'."""
    stride, padding, dilation = _pair(stride), _pair(padding), _pair(dilation)
    kernel, (batch, channels, height, width) = tuple(weight.shape[-2:]), input.shape
    taps = kernel[0] * kernel[1]
    size = tuple(
        (n + 2 * padding[i] - (dilation[i] * (kernel[i] - 1) + 1)) // stride[i] + 1
        for i, n in enumerate((height, width))
    )
    groups = offset.shape[1] // (2 * taps)
    if groups == 0:
        raise RuntimeError(
            "the shape of the offset tensor at dimension 1 is not valid. It should be a multiple of 2 * "
            "weight.size[2] * weight.size[3].\n"
            f"Got offset.shape[1]={offset.shape[1]}, while 2 * weight.size[2] * weight.size[3]={2 * taps}"
        )
    if tuple(offset.shape) != (batch, 2 * groups * taps, *size) or channels % groups:
        raise RuntimeError(
            f"deform_conv2d: offset has shape {tuple(offset.shape)} where {(batch, 2 * groups * taps, *size)} is "
            f"expected for an input of shape {tuple(input.shape)}"
        )
    if mask is not None and tuple(mask.shape) != (batch, groups * taps, *size):
        raise RuntimeError(
            f"deform_conv2d: mask has shape {tuple(mask.shape)} where {(batch, groups * taps, *size)} is expected"
        )
    moves = offset.view(batch, groups, taps, 2, *size)
    y, x = (
        _places(moves, size, kernel, stride, padding, dilation, axis).reshape(batch * groups, -1) for axis in (0, 1)
    )
    read = _sampled(input.reshape(batch * groups, channels // groups, height, width), y, x)
    if mask is not None:
        read = read * mask.reshape(batch * groups, 1, -1)
    parts = channels // weight.shape[1]  # the convolution's own groups
    columns = read.reshape(batch, parts, weight.shape[1] * taps, size[0] * size[1])
    result = (weight.reshape(parts, weight.shape[0] // parts, -1) @ columns).reshape(batch, weight.shape[0], *size)
    return result if bias is None else result + bias.view(-1, 1, 1)


class DeformConv2d(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True):
        super().__init__()
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = _pair(kernel_size), _pair(stride)
        self.padding, self.dilation = _pair(padding), _pair(dilation)
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels // groups, *self.kernel_size))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.weight[0].numel())
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, input, offset, mask=None):
        return deform_conv2d(input, offset, self.weight, self.bias, self.stride, self.padding, self.dilation, mask)

    def __repr__(self):
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        for name, usual in (("padding", (0, 0)), ("dilation", (1, 1)), ("groups", 1)):
            if getattr(self, name) != usual:
                parts.append(f"{name}={getattr(self, name)}")
        if self.bias is None:
            parts.append("bias=False")
        return f"{type(self).__name__}({', '.join(parts)})"
