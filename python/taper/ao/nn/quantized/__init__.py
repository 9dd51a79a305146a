"""torch.ao.nn.quantized: layers whose weights are whole numbers."""

from taper.ao.nn.quantized import dynamic  # noqa: F401
