"""torch.distributed.checkpoint.state_dict_loader: load. The state dict that is given says what is wanted; tensors in it
are filled where they are, each rank reading the boxes that overlap with what it has."""

import math

from taper import _C
from taper._C import Tensor
from taper.autograd.grad_mode import no_grad
from taper.distributed.checkpoint import _shards
from taper.distributed.checkpoint._nested import flatten, put, unflatten
from taper.distributed.checkpoint._ranks import Ranks
from taper.distributed.checkpoint.default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from taper.distributed.checkpoint.filesystem import FileSystemReader
from taper.distributed.checkpoint.metadata import BytesStorageMetadata, MetadataIndex
from taper.distributed.checkpoint.state_dict_saver import _taken

__all__ = ["load", "load_state_dict"]


def _wanted(values, metadata, partial):
    """The names to read; an error for those that are not there, or not as large."""
    known = metadata.state_dict_metadata
    for name, value in values.items():
        if name not in known:
            if not partial:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
            continue
        entry = known[name]
        if isinstance(value, Tensor) and not isinstance(entry, BytesStorageMetadata):
            size = tuple(_shards.boxes(value)[0])
            if size != tuple(entry.size):
                raise ValueError(f"Size mismatch between saved {tuple(entry.size)} and current: {size} for {name}")
        yield name, value, entry


def _read(name, index, metadata, reader):
    """What was saved; an error that names it and its file."""
    if index not in metadata.storage_data:
        raise RuntimeError(f"'{name}': the index does not say where a part of it is")
    info = metadata.storage_data[index]
    try:
        return reader.read_item(info)
    except (OSError, RuntimeError, ValueError, EOFError) as error:
        raise RuntimeError(f"'{name}' in {getattr(info, 'relative_path', info)}: {error}") from error


def _fill(name, value, entry, metadata, reader):
    """Copies what was saved of a tensor into what this rank has of it."""
    for offsets, local in _shards.boxes(value)[1]:
        for chunk in entry.chunks:
            shared = _C._box_overlap(offsets, local.shape, chunk.offsets, chunk.sizes)
            if shared is None:
                continue
            saved = _read(name, MetadataIndex(name, chunk.offsets), metadata, reader)
            with no_grad():
                local.detach()[shared[0]].copy_(saved[shared[1]])


def read_into(state_dict, reader, metadata, partial=False):
    """Fills a nested dict; values that are no tensors are replaced."""
    values, paths = flatten(state_dict)
    for name, value, entry in list(_wanted(values, metadata, partial)):
        if isinstance(value, Tensor) and not isinstance(entry, BytesStorageMetadata):
            _fill(name, value, entry, metadata, reader)
        elif isinstance(entry, BytesStorageMetadata):
            put(state_dict, paths[name], _read(name, MetadataIndex(name), metadata, reader))
        else:
            put(state_dict, paths[name], read_tensor(name, entry, metadata, reader))


def read_tensor(name, entry, metadata, reader):
    """A tensor as a whole, put together from its boxes, which must fill it: its size in the index is only a number."""
    from taper import empty

    boxes = [_read(name, MetadataIndex(name, chunk.offsets), metadata, reader) for chunk in entry.chunks]
    if sum(box.numel() for box in boxes) != math.prod(entry.size):
        raise RuntimeError(f"'{name}': its parts do not make up a tensor of shape {tuple(entry.size)}")
    whole = empty(tuple(entry.size), dtype=entry.properties.dtype)
    for chunk, box in zip(entry.chunks, boxes):
        whole[tuple(slice(at, at + n) for at, n in zip(chunk.offsets, chunk.sizes))].copy_(box)
    return whole


def read_all(reader, metadata, wants=None):
    """What a checkpoint holds, nested as it was saved; wants(name, path) picks parts of it."""
    values, paths = {}, {}
    for name, entry in metadata.state_dict_metadata.items():
        path = (metadata.planner_data or {}).get(name, (name,))
        if wants is not None and not wants(name, path):
            continue
        whole = isinstance(entry, BytesStorageMetadata)
        values[name] = (
            _read(name, MetadataIndex(name), metadata, reader) if whole else read_tensor(name, entry, metadata, reader)
        )
        paths[name] = path
    return unflatten(values, paths)


def load(state_dict, *, checkpoint_id=None, storage_reader=None, planner=None, process_group=None, no_dist=False):
    """Loads a checkpoint into a state dict, in place; objects in it that can take a state are given it."""
    if storage_reader is None and checkpoint_id is None:
        raise RuntimeError("`checkpoint_id` must be specified if storage_reader is None.")
    reader = storage_reader or FileSystemReader(checkpoint_id)
    planner = planner or DefaultLoadPlanner()

    def work():
        if isinstance(planner, _EmptyStateDictLoadPlanner):
            return read_all(reader, reader.read_metadata(), planner.wants)
        taken = _taken(state_dict)
        read_into(taken, reader, reader.read_metadata(), planner.allow_partial_load)
        return taken

    local = {}
    Ranks(process_group, no_dist).all("loading a checkpoint", lambda: local.update(taken=work()))
    for key, value in local["taken"].items():
        if (
            key in state_dict
            and state_dict[key] is not value
            and not isinstance(state_dict[key], (dict, Tensor))
            and hasattr(state_dict[key], "load_state_dict")
        ):
            state_dict[key].load_state_dict(value)
        else:
            state_dict[key] = value


def load_state_dict(state_dict, storage_reader, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    """load, under its older name."""
    load(state_dict, storage_reader=storage_reader, process_group=process_group, no_dist=no_dist, planner=planner)


_load_state_dict = load_state_dict
