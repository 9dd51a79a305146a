"""torch.onnx.errors: what an export raises."""

from taper.onnx import OnnxExporterError

__all__ = ["OnnxExporterError", "OnnxExporterWarning", "SymbolicValueError", "UnsupportedOperatorError"]


class OnnxExporterWarning(UserWarning):
    """Warnings of an export."""


class UnsupportedOperatorError(OnnxExporterError):
    """An operator that ONNX lacks."""


class SymbolicValueError(OnnxExporterError):
    """A value that an export cannot follow."""
