"""torch.onnx._internal: where packages look for the class of an exported program."""

from taper.onnx._internal import exporter  # noqa: F401
