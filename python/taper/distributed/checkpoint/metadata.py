"""torch.distributed.checkpoint.metadata: what the index of a checkpoint says. These are PyTorch's classes and fields,
for they are in its files."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import taper
from taper import _C

__all__ = [
    "ChunkStorageMetadata",
    "TensorStorageMetadata",
    "BytesStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "TensorProperties",
    "StorageMeta",
]


@dataclass
class ChunkStorageMetadata:
    """A box of a tensor: where it begins and how large it is."""

    offsets: Any
    sizes: Any


class _MEM_FORMAT_ENCODING(Enum):
    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_FORMATS = {
    _MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT: "contiguous_format",
    _MEM_FORMAT_ENCODING.TORCH_CHANNELS_LAST: "channels_last",
    _MEM_FORMAT_ENCODING.TORCH_PRESERVE_FORMAT: "preserve_format",
}


@dataclass
class TensorProperties:
    """How a tensor is laid out."""

    dtype: Any = field(default_factory=_C.get_default_dtype)
    layout: Any = field(default_factory=lambda: taper.strided)
    requires_grad: bool = False
    memory_format: Any = field(default_factory=lambda: taper.contiguous_format)
    pin_memory: bool = False
    strides: Any = None

    def __getstate__(self):
        code = next(code for code, name in _FORMATS.items() if getattr(taper, name) == self.memory_format)
        return self.dtype, self.layout, self.requires_grad, code, self.pin_memory, self.strides

    def __setstate__(self, state):
        self.dtype, self.layout, self.requires_grad, code, self.pin_memory, *rest = state
        self.memory_format = getattr(taper, _FORMATS[code])
        self.strides = rest[0] if rest else None

    @staticmethod
    def create_from_tensor(tensor):
        return TensorProperties(
            tensor.dtype, tensor.layout, tensor.requires_grad, taper.contiguous_format, False, tuple(tensor.stride())
        )


@dataclass
class TensorStorageMetadata:
    """A tensor: its size as a whole, and the boxes it was saved in."""

    properties: Any
    size: Any
    chunks: Any


@dataclass
class BytesStorageMetadata:
    """Something that is no tensor."""


@dataclass
class StorageMeta:
    checkpoint_id: Any = None
    save_id: Any = None
    load_id: Any = None
    modules: Any = field(default_factory=list)


@dataclass
class Metadata:
    """The index: what there is by name, the names' places in the nested dict, and in which file each box is."""

    state_dict_metadata: Any
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: Any = None
    version: Any = None


@dataclass(frozen=True)
class MetadataIndex:
    """A name, and for a tensor the place at which one of its boxes begins. The number is only a hint."""

    fqn: str
    offset: Any = None
    index: Any = field(hash=False, compare=False, default=None)
