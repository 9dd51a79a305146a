"""torch.types: names for annotations."""

import os
from builtins import bool as _bool, bytes as _bytes, complex as _complex, float as _float, int as _int, str as _str  # noqa: F401
from collections.abc import Sequence
from typing import Union

from taper._C import Size, Tensor, device as _device, dtype as _dtype, layout as _layout  # noqa: F401

__all__ = ["Number", "Device", "FileLike", "Storage"]

Number = Union[int, float, bool]
Device = Union[_device, str, int, None]
FileLike = Union[str, os.PathLike, "IO[bytes]"]  # noqa: F821
_size = Union[Size, list[int], tuple[int, ...]]
_symsize = Union[Size, Sequence[int]]
_dispatchkey = str
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]
_TensorOrTensorsOrGradEdge = Union[Tensor, Sequence[Tensor], object, Sequence[object]]
_TensorOrOptionalTensors = Union[Tensor, Sequence[Union[Tensor, None]]]
IntLikeType = int
FloatLikeType = float
BoolLikeType = bool
py_sym_types = (int, float, bool)
PySymType = int


def __getattr__(name):
    if name == "Storage":
        from taper.storage import TypedStorage

        return TypedStorage
    if name in ("SymInt", "SymFloat", "SymBool"):
        from taper import _native_names

        return getattr(_native_names, name)
    raise AttributeError(f"module 'torch.types' has no attribute '{name}'")
