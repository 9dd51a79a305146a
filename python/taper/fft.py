"""torch.fft: discrete Fourier transforms."""

from taper import _C

globals().update(_C._namespace("fft"))
__all__ = sorted(_C._namespace("fft"))
