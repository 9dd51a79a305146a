"""torch.distributed.checkpoint.state_dict_saver: save and async_save.

All ranks tell what they have; what several have is written by one of them, picked so that each writes about as many
bytes (every rank works out the same plan); each writes its part, and rank 0, when all have, the index."""

from enum import Enum

from taper import distributed as dist
from taper._C import Tensor
from taper.autograd.grad_mode import no_grad
from taper.distributed.checkpoint import _shards
from taper.distributed.checkpoint._nested import flatten
from taper.distributed.checkpoint._ranks import Ranks
from taper.distributed.checkpoint.default_planner import DefaultSavePlanner
from taper.distributed.checkpoint.filesystem import FileSystemWriter
from taper.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata, MetadataIndex, TensorStorageMetadata

__all__ = ["AsyncCheckpointerType", "async_save", "save", "save_state_dict"]


class AsyncCheckpointerType(Enum):
    THREAD = "thread"
    PROCESS = "process"


def _taken(state_dict):
    """Objects that can tell their state are replaced by it."""
    return {
        key: value.state_dict()
        if not isinstance(value, dict) and hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
        else value
        for key, value in state_dict.items()
    }


class _Item:
    """Something a rank could write: a box of a tensor, or a value."""

    def __init__(self, index, value, nbytes, shared):
        self.index, self.value, self.nbytes, self.shared = index, value, nbytes, shared


def _items(values, planner):
    found, about = [], {}
    for name, value in values.items():
        value = planner.transform_object(name, value)
        if not isinstance(value, Tensor):
            found.append(_Item(MetadataIndex(name), value, 100, True))
            about[name] = BytesStorageMetadata()
            continue
        size, parts = _shards.boxes(value)
        about[name] = TensorStorageMetadata(
            _shards.properties(value), size, [_shards.chunk(offsets, local) for offsets, local in parts]
        )
        for offsets, local in parts:
            if local.numel() or not any(size):
                found.append(
                    _Item(
                        MetadataIndex(name, offsets),
                        local,
                        local.numel() * local.element_size(),
                        _shards.is_replicated(value),
                    )
                )
    return found, about


def _writers(every, lowest):
    """Which rank writes each box. every: per rank a list of (index, bytes)."""
    owners, sizes = {}, {}
    for rank, items in enumerate(every):
        for index, nbytes in items:
            owners.setdefault(index, []).append(rank)
            sizes[index] = nbytes
    load, chosen = [0] * len(every), {}
    for index in sorted(
        owners, key=lambda index: (len(owners[index]) > 1, -sizes[index], index.fqn, tuple(index.offset or ()))
    ):
        rank = owners[index][0] if lowest else min(owners[index], key=lambda rank: (load[rank], rank))
        chosen[index] = rank
        load[rank] += sizes[index]
    return chosen


def _merged(every):
    """The index's entries: a tensor's boxes from all ranks, each once."""
    merged = {}
    for about in every:
        for name, entry in about.items():
            known = merged.setdefault(name, entry)
            if known is entry or isinstance(entry, BytesStorageMetadata):
                continue
            if isinstance(known, BytesStorageMetadata) or tuple(known.size) != tuple(entry.size):
                raise ValueError(f"ranks disagree on what '{name}' is: {known} and {entry}")
            there = {tuple(chunk.offsets) for chunk in known.chunks}
            known.chunks.extend(chunk for chunk in entry.chunks if tuple(chunk.offsets) not in there)
    for entry in merged.values():
        if isinstance(entry, TensorStorageMetadata):
            entry.chunks = sorted(
                (chunk for chunk in entry.chunks if all(chunk.sizes) or not all(entry.size)),
                key=lambda chunk: tuple(chunk.offsets),
            )
    return merged


class _Plan:
    """What this rank will write, and all that is known of the checkpoint before it does."""

    def __init__(self, state_dict, writer, planner, ranks):
        self.writer, self.ranks = writer, ranks
        planner = planner or DefaultSavePlanner()
        local = {}

        def tell():
            number = writer.prepare() if ranks.rank == 0 else None
            values, local["paths"] = flatten(_taken(state_dict))
            local["items"], about = _items(values, planner)
            return [(item.index, item.nbytes) for item in local["items"]], about, local["paths"], number

        every = ranks.all("planning a checkpoint", tell)
        chosen = _writers([told[0] for told in every], getattr(planner, "dedup_save_to_lowest_rank", False))
        self.mine = [item for item in local["items"] if chosen[item.index] == ranks.rank]
        self.about = _merged([told[1] for told in every])
        self.paths = {name: path for told in every for name, path in told[2].items()}
        self.number = every[0][3]

    def stage(self):
        """Copies, so that training may go on while they are written."""
        with no_grad():
            for item in self.mine:
                if isinstance(item.value, Tensor):
                    item.value = _shards.saved_form(item.value.detach().clone())
                else:
                    from copy import deepcopy

                    item.value = deepcopy(item.value)

    def write(self):
        ranks = self.ranks

        def part():
            items = (
                (item.index, _shards.saved_form(item.value) if isinstance(item.value, Tensor) else item.value)
                for item in self.mine
            )
            return self.writer.write_items(ranks.rank, list(items), self.number)

        places = ranks.all("writing a checkpoint", part)
        metadata = Metadata(
            self.about, self.paths, {index: info for one in places for index, info in one.items()}, version="1.0.0"
        )
        ranks.all(
            "writing a checkpoint's index", lambda: self.writer.write_metadata(metadata) if ranks.rank == 0 else None
        )
        return metadata


def _writer(checkpoint_id, storage_writer):
    if storage_writer is None and checkpoint_id is None:
        raise RuntimeError("`checkpoint_id` must be specified if storage_writer is None.")
    return storage_writer or FileSystemWriter(checkpoint_id)


def save(
    state_dict,
    *,
    checkpoint_id=None,
    storage_writer=None,
    planner=None,
    process_group=None,
    no_dist=False,
    use_collectives=True,
):
    """Saves a state dict: all ranks call it, each with what it has."""
    return _Plan(state_dict, _writer(checkpoint_id, storage_writer), planner, Ranks(process_group, no_dist)).write()


def save_state_dict(state_dict, storage_writer, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    """save, under its older name."""
    return save(
        state_dict, storage_writer=storage_writer, process_group=process_group, no_dist=no_dist, planner=planner
    )


_background = {}


def _own_group(group):
    """A group of the same ranks that only background writes use: their messages never mix with the training's."""
    if group not in _background:
        _background[group] = dist.new_group(
            dist.get_process_group_ranks(group or dist.group.WORLD), backend="gloo", use_local_synchronization=True
        )
    return _background[group]


def async_save(
    state_dict,
    *,
    checkpoint_id=None,
    storage_writer=None,
    planner=None,
    process_group=None,
    async_checkpointer_type=AsyncCheckpointerType.THREAD,
    async_stager=None,
    no_dist=False,
    use_collectives=True,
):
    """Copies the state dict and writes the copy in a thread: a future, whose result() waits until the checkpoint is
    complete."""
    from concurrent.futures import ThreadPoolExecutor

    ranks = Ranks(process_group, no_dist)
    if ranks.together and ranks.size > 1:
        ranks = Ranks(_own_group(process_group))
    plan = _Plan(state_dict, _writer(checkpoint_id, storage_writer), planner, ranks)
    plan.stage()
    pool = ThreadPoolExecutor(1, thread_name_prefix="taper-checkpoint")
    future = pool.submit(plan.write)
    pool.shutdown(wait=False)
    return future
