"""Regions of feature maps of several scales."""

import math

import taper as torch
from taper import nn
from taper.torchvision.ops.boxes import box_area
from taper.torchvision.ops.regions import roi_align


class MultiScaleRoIAlign(nn.Module):
    """RoIAlign of each box from the feature map whose scale fits the box's size."""

    def __init__(self, featmap_names, output_size, sampling_ratio, *, canonical_scale=224, canonical_level=4):
        super().__init__()
        self.featmap_names, self.sampling_ratio = featmap_names, sampling_ratio
        self.output_size = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
        self.canonical_scale, self.canonical_level = canonical_scale, canonical_level
        self.scales = None

    def _scales(self, maps, image_shapes):
        """What an image's length times gives a map's, as powers of two."""
        if not image_shapes:
            raise ValueError("images list should not be empty")
        height = max(shape[0] for shape in image_shapes)
        return [2.0 ** float(torch.tensor(features.shape[-2] / height).log2().round()) for features in maps]

    def _levels(self, boxes):
        """Which map serves each box."""
        lowest, highest = -math.log2(self.scales[0]), -math.log2(self.scales[-1])
        side = torch.cat([box_area(b) for b in boxes]).sqrt()
        level = torch.floor(self.canonical_level + torch.log2(side / self.canonical_scale) + 1e-6)
        return (level.clamp(lowest, highest) - lowest).to(torch.int64)

    def forward(self, x, boxes, image_shapes):
        maps = [features for name, features in x.items() if name in self.featmap_names]
        if self.scales is None:
            self.scales = self._scales(maps, image_shapes)
        rois = torch.cat([torch.cat([torch.full_like(b[:, :1], i), b], dim=1) for i, b in enumerate(boxes)])
        if len(maps) == 1:
            return roi_align(maps[0], rois, self.output_size, self.scales[0], self.sampling_ratio)
        levels = self._levels(boxes)
        result = maps[0].new_zeros((len(rois), maps[0].shape[1], *self.output_size))
        for level, (features, scale) in enumerate(zip(maps, self.scales)):
            chosen = torch.where(levels == level)[0]
            pooled = roi_align(features, rois[chosen], self.output_size, scale, self.sampling_ratio)
            result = result.index_put((chosen,), pooled.to(result.dtype))
        return result

    def __repr__(self):
        return (
            f"{type(self).__name__}(featmap_names={self.featmap_names}, output_size={self.output_size}, "
            f"sampling_ratio={self.sampling_ratio})"
        )
