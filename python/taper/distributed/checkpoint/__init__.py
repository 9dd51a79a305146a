"""torch.distributed.checkpoint: a folder to which each rank writes its part, with one index over all of them
(.metadata), in PyTorch's own format.

A folder that was saved by N ranks can be loaded by M. Every part is an archive with checksums, which are compared when
it is read; parts and, last of all, the index are written beside, synced and renamed, so a folder with an index is
complete."""

from taper.distributed.checkpoint.api import CheckpointException  # noqa: F401
from taper.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner  # noqa: F401
from taper.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter  # noqa: F401
from taper.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,  # noqa: F401
    TensorStorageMetadata,
)
from taper.distributed.checkpoint.planner import LoadPlanner, SavePlanner  # noqa: F401
from taper.distributed.checkpoint.state_dict_loader import load, load_state_dict  # noqa: F401
from taper.distributed.checkpoint.state_dict_saver import async_save, save, save_state_dict  # noqa: F401
from taper.distributed.checkpoint.storage import StorageReader, StorageWriter  # noqa: F401


def __getattr__(name):
    if name in ("format_utils", "state_dict", "stateful"):
        from importlib import import_module

        return import_module("taper.distributed.checkpoint." + name)
    raise AttributeError(f"module 'torch.distributed.checkpoint' has no attribute '{name}'")
