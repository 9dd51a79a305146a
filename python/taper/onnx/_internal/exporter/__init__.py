"""torch.onnx._internal.exporter: ONNXProgram under the name that annotations use."""

from taper.onnx import ONNXProgram  # noqa: F401
