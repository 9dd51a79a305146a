"""torch.quantization: torch.ao.quantization's older name."""

from taper.ao.quantization import quantize_dynamic  # noqa: F401
