"""intel_extension_for_pytorch: Intel's additions to PyTorch, as far as scripts call them. What it made faster is
Taper's ordinary way."""

import os
from enum import IntEnum

import taper
from taper import _C, backends
from taper.intel_extension_for_pytorch import xpu  # noqa: F401
from taper.intel_extension_for_pytorch.xpu import amp as _amp

__version__ = "2.8.0+taper"
taper.xpu.amp = _amp  # the extension adds it there
__all__ = [
    "optimize",
    "xpu",
    "FP32MathMode",
    "set_fp32_math_mode",
    "get_fp32_math_mode",
    "enable_onednn_fusion",
    "enable_auto_channels_last",
    "disable_auto_channels_last",
    "verbose",
    "has_xpu",
    "has_cpu",
]


class FP32MathMode(IntEnum):
    """How exact float32 products are."""

    FP32, TF32, BF32 = 0, 1, 2


def set_fp32_math_mode(mode=FP32MathMode.FP32, device="cpu"):
    """Chooses how exact float32 products are; the CPU's are always exact. IPEX_FP32_MATH_MODE in the environment does
    the same."""
    names = {"FP32": FP32MathMode.FP32, "TF32": FP32MathMode.TF32, "BF32": FP32MathMode.BF32}
    mode = names.get(str(mode).rpartition(".")[2].upper(), mode)
    if mode not in list(FP32MathMode):
        raise RuntimeError(f"Unsupported fp32 math mode: {mode}")
    _modes[device] = FP32MathMode(mode)
    if device == "xpu":
        taper.set_float32_matmul_precision("highest" if mode == FP32MathMode.FP32 else "high")
        _C._gpu_turn("conv_tf32", mode != FP32MathMode.FP32)


def get_fp32_math_mode(device="cpu"):
    return _modes.get(device, FP32MathMode.FP32)


_modes = {}
if os.environ.get("IPEX_FP32_MATH_MODE"):
    set_fp32_math_mode(os.environ["IPEX_FP32_MATH_MODE"], "xpu")


def optimize(model, dtype=None, optimizer=None, level="O1", inplace=False, **options):
    """The model (and the optimiser, if one is given) ready to run. For inference the parameters are cast to dtype; in
    training they stay as they are, and autocast casts where it is needed, which keeps the optimiser's steps exact."""
    if dtype not in (None, _C.float32, _C.bfloat16, _C.float16):
        raise ValueError(f"ipex.optimize: dtype must be torch.float32, torch.bfloat16 or torch.half, got {dtype}")
    if level not in ("O0", "O1"):
        raise RuntimeError(f"Unexpected optimization level {level}. Options are 'O0', 'O1'.")
    if model.training and optimizer is None:
        import warnings

        warnings.warn(
            "For training, the optimizer should be passed in as well, or call model.eval() for inference first.",
            stacklevel=2,
        )
    if not model.training and dtype in (_C.bfloat16, _C.float16):
        if not inplace:
            from copy import deepcopy

            model = deepcopy(model)
        model = model.to(dtype)
    return model if optimizer is None else (model, optimizer)


def enable_onednn_fusion(enabled):
    """Kept as it is: operators choose for themselves."""


enable_auto_channels_last = disable_auto_channels_last = lambda: None


class verbose(backends.verbose):
    VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2


def has_xpu():
    return xpu.is_available()


def has_cpu():
    return True
