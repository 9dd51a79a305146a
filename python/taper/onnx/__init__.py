"""torch.onnx: nothing is exported to ONNX, so that code which asks whether an export runs is told no."""
from enum import IntEnum

__all__ = ["OperatorExportTypes", "TrainingMode", "is_in_onnx_export"]


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
