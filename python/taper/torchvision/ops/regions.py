"""Features of regions: interpolated or pooled, with channels for all bins or for each."""

import math

import taper as torch
from taper import nn


def _axis(start, length, bins, samples, size, dtype):
    """(bins, size): how much each pixel of an axis counts in each bin, the mean over its samples. Interpolation in two
    dims is the product of two such, which is why a region is two matrix products."""
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


def _bins(input, output_size):
    """Height and width of the bins, and the input with its channels laid out by bin: (N, C / bins, rows, columns, H,
    W)."""
    height, width = (output_size, output_size) if isinstance(output_size, int) else output_size
    if input.shape[1] % (height * width):
        raise RuntimeError(
            f"input channels must be a multiple of pooling height * pooling width; got {input.shape[1]} channels for "
            f"{height} by {width}"
        )
    return height, width, input.unflatten(1, (-1, height, width))


def ps_roi_align(input, boxes, output_size, spatial_scale=1.0, sampling_ratio=-1):
    """RoIAlign in which each bin has channels of its own."""
    height, width, by_bin = _bins(input, output_size)
    results = []
    for n, *corners in _regions(boxes).tolist():
        x1, y1, x2, y2 = (v * spatial_scale - 0.5 for v in corners)
        rows = sampling_ratio if sampling_ratio > 0 else max(math.ceil((y2 - y1) / height), 1)
        columns = sampling_ratio if sampling_ratio > 0 else max(math.ceil((x2 - x1) / width), 1)
        down = _axis(y1, y2 - y1, height, rows, input.shape[2], input.dtype)
        across = _axis(x1, x2 - x1, width, columns, input.shape[3], input.dtype)
        results.append(torch.einsum("cijyx,iy,jx->cij", by_bin[int(n)], down, across))
    return torch.stack(results) if results else input.new_zeros((0, by_bin.shape[1], height, width))


class PSRoIAlign(nn.Module):
    def __init__(self, output_size, spatial_scale, sampling_ratio):
        super().__init__()
        self.output_size, self.spatial_scale, self.sampling_ratio = output_size, spatial_scale, sampling_ratio

    def forward(self, input, rois):
        return ps_roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio)

    def __repr__(self):
        return (
            f"{type(self).__name__}(output_size={self.output_size}, spatial_scale={self.spatial_scale}, "
            f"sampling_ratio={self.sampling_ratio})"
        )


def ps_roi_pool(input, boxes, output_size, spatial_scale=1.0):
    """The mean of each part of a region, where each part has channels of its own."""
    height, width, by_bin = _bins(input, output_size)
    results = []

    def part(i, start, length, parts, size):
        clip = lambda v: min(max(v + start, 0), size - 1)  # noqa: E731
        return clip(math.floor(i * length / parts)), clip(math.ceil((i + 1) * length / parts))

    for n, *corners in _regions(boxes).tolist():
        x1, y1, x2, y2 = (math.floor(abs(v * spatial_scale) + 0.5) * (1 if v >= 0 else -1) for v in corners)
        h, w = max(y2 - y1, 1), max(x2 - x1, 1)
        cells = []
        for i in range(height):
            top, bottom = part(i, y1, h, height, input.shape[2])
            for j in range(width):
                left, right = part(j, x1, w, width, input.shape[3])
                cell = by_bin[int(n), :, i, j, top:bottom, left:right]
                cells.append(cell.mean((1, 2)) if cell.numel() else input.new_zeros(cell.shape[0]))
        results.append(torch.stack(cells, dim=1).view(-1, height, width))
    return torch.stack(results) if results else input.new_zeros((0, by_bin.shape[1], height, width))


class PSRoIPool(nn.Module):
    def __init__(self, output_size, spatial_scale):
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale

    def forward(self, input, rois):
        return ps_roi_pool(input, rois, self.output_size, self.spatial_scale)

    def __repr__(self):
        return f"{type(self).__name__}(output_size={self.output_size}, spatial_scale={self.spatial_scale})"
