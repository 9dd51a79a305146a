"""torch.onnx: nothing is exported to ONNX. Code that asks whether an export runs is told no; `export` raises what
PyTorch raises where the packages that it needs are not installed."""

from enum import IntEnum

__all__ = [
    "ONNXProgram",
    "OnnxExporterError",
    "OperatorExportTypes",
    "TrainingMode",
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]

producer_name = "pytorch"


def __getattr__(name):
    from importlib import import_module

    if name in ("errors", "_internal"):
        return import_module(f"taper.onnx.{name}")
    if name == "producer_version":
        from taper.version import __version__

        return __version__
    raise AttributeError(f"module 'torch.onnx' has no attribute '{name}'")


class OnnxExporterError(RuntimeError):
    """An export that failed."""


class OperatorExportTypes(IntEnum):
    """What an export does with operators that ONNX has not."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TrainingMode(IntEnum):
    """The mode that an export puts the model in."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


def is_in_onnx_export():
    """Does an export run in this moment?"""
    return False


class ONNXProgram:
    """What an export returns; nothing here makes one."""

    def __init__(self, *args, **kwargs):
        raise OnnxExporterError("Taper does not export to ONNX")


def export(model, args=(), f=None, *, dynamo=True, **options):
    """Raises: without onnxscript (or, for dynamo=False, onnx) as PyTorch does, else that Taper has no such exporter."""
    from importlib.util import find_spec

    if dynamo and find_spec("onnxscript") is None:
        raise ModuleNotFoundError("No module named 'onnxscript'", name="onnxscript")
    if not dynamo and find_spec("onnx") is None:
        raise OnnxExporterError("Module onnx is not installed!")
    raise OnnxExporterError(
        "Taper does not export to ONNX. Save the model with torch.save or safetensors, and export it under PyTorch"
    )


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """Taken, and not called: no export runs."""


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    """Nothing was registered."""
