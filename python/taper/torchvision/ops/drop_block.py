"""DropBlock: dropout of blocks of neighbouring features."""

import taper as torch
from taper import nn
from taper.nn import functional as F


def _dropped(input, p, block_size, inplace, eps, training, pool):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}.")
    dims = 4 if pool is F.max_pool2d else 5
    if input.ndim != dims:
        raise ValueError(f"input should be {dims} dimensional. Got {input.ndim} dimensions.")
    if not training or p == 0.0:
        return input
    sizes = input.shape[2:]
    block = min(block_size, *sizes)
    starts = [size - block + 1 for size in sizes]  # places at which a block may begin
    rate = p / block ** len(sizes)
    for size, start in zip(sizes, starts):
        rate *= size / start
    noise = torch.empty(*input.shape[:2], *starts, dtype=input.dtype, device=input.device).bernoulli_(rate)
    noise = F.pad(noise, [block // 2] * (2 * len(sizes)), value=0)
    noise = 1 - pool(noise, stride=1, kernel_size=block, padding=block // 2)
    scale = noise.numel() / (eps + noise.sum())
    return input.mul_(noise).mul_(scale) if inplace else input * noise * scale


def drop_block2d(input, p, block_size, inplace=False, eps=1e-06, training=True):
    """Zeroes square blocks of (N, C, H, W) at random, and scales what is left."""
    return _dropped(input, p, block_size, inplace, eps, training, F.max_pool2d)


def drop_block3d(input, p, block_size, inplace=False, eps=1e-06, training=True):
    """Zeroes cubes of (N, C, D, H, W) at random, and scales what is left."""
    return _dropped(input, p, block_size, inplace, eps, training, F.max_pool3d)


class DropBlock2d(nn.Module):
    _drop = staticmethod(drop_block2d)

    def __init__(self, p, block_size, inplace=False, eps=1e-06):
        super().__init__()
        self.p, self.block_size, self.inplace, self.eps = p, block_size, inplace, eps

    def forward(self, input):
        return self._drop(input, self.p, self.block_size, self.inplace, self.eps, self.training)

    def __repr__(self):
        return f"{type(self).__name__}(p={self.p}, block_size={self.block_size}, inplace={self.inplace})"


class DropBlock3d(DropBlock2d):
    _drop = staticmethod(drop_block3d)
