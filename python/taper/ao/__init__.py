"""torch.ao: quantization, as far as Taper has it."""

from taper.ao import nn, quantization  # noqa: F401
