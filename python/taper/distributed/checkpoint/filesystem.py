"""torch.distributed.checkpoint.filesystem: checkpoints as folders. Rank N's part is __N_0.distcp, one archive of
torch.save after the other; .metadata is the index, a pickle of the classes in metadata.py and of nothing else."""

import io
import os
import pickle
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import taper
from taper import serialization
from taper._file_names import Names, read_pickle
from taper.distributed.checkpoint.metadata import Metadata, StorageMeta
from taper.distributed.checkpoint.storage import StorageReader, StorageWriter

__all__ = ["FileSystemReader", "FileSystemWriter"]

_INDEX = ".metadata"
_PART = re.compile(r"__\d+_(\d+)\.distcp")


@dataclass
class _StorageInfo:
    """Where a value is: a file, and the bytes in it."""

    relative_path: Any
    offset: int
    length: int
    transform_descriptors: Any = None


class _Counter:
    """A file that knows how much was written."""

    def __init__(self, file):
        self.file, self.at = file, 0

    def write(self, data):
        self.at += memoryview(data).nbytes
        return self.file.write(data)


class FileSystemWriter(StorageWriter):
    """Writes to a folder, which is made where it is not there."""

    def __init__(
        self,
        path,
        single_file_per_rank=True,
        sync_files=True,
        thread_count=1,
        per_thread_copy_ahead=10_000_000,
        cache_staged_state_dict=False,
        overwrite=True,
        **options,
    ):
        self.path, self.sync_files, self.overwrite = Path(path), sync_files, overwrite

    @property
    def checkpoint_id(self):
        return self.path

    def prepare(self):
        """The number of this save among those to the folder: its parts get other names than those of a checkpoint that
        is there already, which stays whole until the new index takes the place of its own."""
        if (self.path / _INDEX).exists() and not self.overwrite:
            raise RuntimeError(f"Checkpoint already exists at {self.path} and overwrite is False")
        taken = [
            int(found[1])
            for found in map(_PART.fullmatch, os.listdir(self.path) if self.path.is_dir() else ())
            if found
        ]
        return max(taken, default=-1) + 1

    def write_items(self, rank, items, number=0):
        self.path.mkdir(parents=True, exist_ok=True)
        name = f"__{rank}_{number}.distcp"
        if not items:
            return {}
        places, temporary = {}, self.path / f".{name}.part"
        with open(temporary, "wb") as file:
            out = _Counter(file)
            for index, value in items:
                start = out.at
                taper.save(value, out)
                places[index] = _StorageInfo(name, start, out.at - start)
            self._sync(file)
        os.replace(temporary, self.path / name)
        return places

    def write_metadata(self, metadata):
        self.path.mkdir(parents=True, exist_ok=True)
        metadata.storage_meta = StorageMeta(checkpoint_id=self.path)
        data = serialization._dumps(metadata, serialization._Storages(False), pickle, 4)
        temporary = self.path / f".{_INDEX}.part"
        with open(temporary, "wb") as file:
            file.write(data)
            self._sync(file)
        self._sync_folder()
        os.replace(temporary, self.path / _INDEX)
        self._sync_folder()
        self._remove_others({info.relative_path for info in metadata.storage_data.values()})

    def _remove_others(self, ours):
        """Parts of the checkpoint that was here before, and of ones that were never finished."""
        for name in os.listdir(self.path):
            if name not in ours and _PART.fullmatch(name.removeprefix(".").removesuffix(".part")):
                (self.path / name).unlink(missing_ok=True)

    def _sync(self, file):
        file.flush()
        if self.sync_files:
            os.fsync(file.fileno())

    def _sync_folder(self):
        if self.sync_files:
            folder = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _index_names():
    """What an index of a checkpoint is made of. Paths become texts: what they lead to is joined to the checkpoint's
    folder."""
    from taper.distributed.checkpoint import metadata

    made = (
        "Metadata TensorStorageMetadata TensorProperties ChunkStorageMetadata BytesStorageMetadata MetadataIndex "
        "StorageMeta _MEM_FORMAT_ENCODING"
    )
    names = {f"torch.distributed.checkpoint.metadata.{name}": getattr(metadata, name) for name in made.split()}
    names["torch.distributed.checkpoint.filesystem._StorageInfo"] = _StorageInfo
    for home, kinds in (
        ("pathlib", "Path PosixPath PurePosixPath WindowsPath PureWindowsPath"),
        ("pathlib._local", "PosixPath PurePosixPath"),
    ):
        names.update({f"{home}.{kind}": lambda *parts: "/".join(parts) for kind in kinds.split()})
    return Names(call=names)


class _Part(io.BytesIO):
    """An item's bytes, with a name for errors about them."""

    def __init__(self, data, info):
        super().__init__(data)
        self.name = f"{info.relative_path}, bytes {info.offset} to {info.offset + info.length}"


class FileSystemReader(StorageReader):
    """Reads a folder."""

    def __init__(self, path, **options):
        self.path = Path(path)

    @property
    def checkpoint_id(self):
        return self.path

    def read_metadata(self):
        try:
            data = (self.path / _INDEX).read_bytes()
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.path} holds no complete checkpoint: there is no {_INDEX} in it") from None
        index = read_pickle(data, _index_names(), self.path / _INDEX)
        if not isinstance(index, Metadata):
            raise RuntimeError(f"{self.path / _INDEX} is no index of a checkpoint: it holds a {type(index).__name__}")
        return index

    def read_item(self, info, weights_only=True):
        where = Path(info.relative_path)
        if where.is_absolute() or ".." in where.parts or min(info.offset, info.length) < 0:
            raise RuntimeError(f"the index of {self.path} names a part outside of it: {info}")
        with open(self.path / where, "rb") as file:
            file.seek(info.offset)
            data = file.read(info.length)
        if len(data) != info.length:
            raise RuntimeError(
                f"{info.relative_path} ends after {info.offset + len(data)} bytes: the index says that it has "
                f"{info.offset + info.length}"
            )
        return taper.load(_Part(data, info), map_location="cpu", weights_only=weights_only)
