"""Features of regions: RoIAlign, and the layers of detectors that stand on it."""

import math
from collections import OrderedDict

import taper as torch
from taper import nn
from taper.nn import functional as F


def _axis(start, length, bins, samples, size, dtype):
    """(bins, size): how much each pixel of an axis counts in each bin, the mean over its samples. Interpolation in two dims is the product of
    two such, which is why a region is two matrix products."""
    at = start + (torch.arange(bins * samples, dtype=dtype) + 0.5) * (length / (bins * samples))
    within = (at >= -1.0) & (at <= size)
    at = at.clamp(min=0)
    low = at.to(torch.int64).clamp(max=size - 1)
    high = (low + 1).clamp(max=size - 1)
    share = torch.where(low >= size - 1, torch.zeros_like(at), at - low)
    weights = torch.zeros(bins * samples, size, dtype=dtype)
    weights.scatter_add_(1, low[:, None], ((1 - share) * within)[:, None])
    weights.scatter_add_(1, high[:, None], (share * within)[:, None])
    return weights.view(bins, samples, size).mean(1)


def _regions(boxes):
    """(K, 5), the image's number first."""
    if isinstance(boxes, torch.Tensor):
        if boxes.ndim != 2 or boxes.shape[1] != 5:
            raise AssertionError("The boxes tensor shape is not correct as Tensor[K, 5]")
        return boxes
    numbered = [torch.cat([torch.full_like(b[:, :1], i), b], dim=1) for i, b in enumerate(boxes)]
    return torch.cat(numbered, dim=0)


def roi_align(input, boxes, output_size, spatial_scale=1.0, sampling_ratio=-1, aligned=False):
    """The features (K, C, h, w) of regions, interpolated at evenly spaced points."""
    height, width = (output_size, output_size) if isinstance(output_size, int) else output_size
    rois = _regions(boxes)
    results = []
    for n, x1, y1, x2, y2 in rois.tolist():
        shift = 0.5 if aligned else 0.0
        x1, y1, x2, y2 = (v * spatial_scale - shift for v in (x1, y1, x2, y2))
        w, h = x2 - x1, y2 - y1
        if not aligned:
            w, h = max(w, 1.0), max(h, 1.0)
        rows = sampling_ratio if sampling_ratio > 0 else max(math.ceil(h / height), 1)
        columns = sampling_ratio if sampling_ratio > 0 else max(math.ceil(w / width), 1)
        down = _axis(y1, h, height, rows, input.shape[2], input.dtype)
        across = _axis(x1, w, width, columns, input.shape[3], input.dtype)
        results.append(down @ input[int(n)] @ across.T)
    return torch.stack(results) if results else input.new_zeros((0, input.shape[1], height, width))


class RoIAlign(nn.Module):
    def __init__(self, output_size, spatial_scale, sampling_ratio, aligned=False):
        super().__init__()
        self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned = (
            output_size,
            spatial_scale,
            sampling_ratio,
            aligned,
        )

    def forward(self, input, rois):
        return roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned)

    def __repr__(self):
        return (
            f"{type(self).__name__}(output_size={self.output_size}, spatial_scale={self.spatial_scale}, "
            f"sampling_ratio={self.sampling_ratio}, aligned={self.aligned})"
        )


def roi_pool(input, boxes, output_size, spatial_scale=1.0):
    """The largest feature in each part of a region."""
    height, width = (output_size, output_size) if isinstance(output_size, int) else output_size
    results = []
    for n, *corners in _regions(boxes).tolist():
        x1, y1, x2, y2 = (int(math.floor(v * spatial_scale + 0.5)) for v in corners)
        h, w = max(y2 - y1 + 1, 1), max(x2 - x1 + 1, 1)

        def part(i, start, length, parts, size):
            clip = lambda v: min(max(v, 0), size)  # noqa: E731
            return clip(start + math.floor(i * length / parts)), clip(start + math.ceil((i + 1) * length / parts))

        cells = []
        for i in range(height):
            top, bottom = part(i, y1, h, height, input.shape[2])
            for j in range(width):
                left, right = part(j, x1, w, width, input.shape[3])
                cell = input[int(n), :, top:bottom, left:right]
                cells.append(cell.amax((1, 2)) if cell.numel() else input.new_zeros(input.shape[1]))
        results.append(torch.stack(cells, dim=1).view(-1, height, width))
    return torch.stack(results) if results else input.new_zeros((0, input.shape[1], height, width))


class RoIPool(nn.Module):
    def __init__(self, output_size, spatial_scale):
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale

    def forward(self, input, rois):
        return roi_pool(input, rois, self.output_size, self.spatial_scale)

    def __repr__(self):
        return f"{type(self).__name__}(output_size={self.output_size}, spatial_scale={self.spatial_scale})"


class FeaturePyramidNetwork(nn.Module):
    """Features of several scales, each with what the coarser ones know."""

    def __init__(self, in_channels_list, out_channels, extra_blocks=None, norm_layer=None):
        super().__init__()
        from taper.torchvision.ops.misc import Conv2dNormActivation

        self.inner_blocks, self.layer_blocks = nn.ModuleList(), nn.ModuleList()
        for width in in_channels_list:
            if width == 0:
                raise ValueError("in_channels=0 is currently not supported")
            self.inner_blocks.append(
                Conv2dNormActivation(
                    width, out_channels, kernel_size=1, padding=0, norm_layer=norm_layer, activation_layer=None
                )
            )
            self.layer_blocks.append(
                Conv2dNormActivation(
                    out_channels, out_channels, kernel_size=3, norm_layer=norm_layer, activation_layer=None
                )
            )
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_uniform_(m.weight, a=1)
                if m.bias is not None:
                    nn.init.constant_(m.bias, 0)
        self.extra_blocks = extra_blocks

    def forward(self, x):
        names, features = list(x.keys()), list(x.values())
        above = self.inner_blocks[-1](features[-1])
        results = [self.layer_blocks[-1](above)]
        for i in range(len(features) - 2, -1, -1):
            lateral = self.inner_blocks[i](features[i])
            above = lateral + F.interpolate(above, size=lateral.shape[-2:], mode="nearest")
            results.insert(0, self.layer_blocks[i](above))
        if self.extra_blocks is not None:
            results, names = self.extra_blocks(results, features, names)
        return OrderedDict(zip(names, results))
