"""torch.ao.nn: quantized layers."""

from taper.ao.nn import quantized  # noqa: F401
