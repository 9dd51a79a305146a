"""torch.distributed.checkpoint.state_dict_saver: save and async_save.

All ranks tell what they have; what several have is written by one of them, picked so that each writes about as many
bytes (every rank works out the same plan); each writes its part, and rank 0, when all have, the index."""

from enum import Enum

from taper import _C
from taper import distributed as dist
from taper._C import Size, Tensor
from taper.autograd.grad_mode import no_grad
from taper.distributed.checkpoint import _shards
from taper.distributed.checkpoint._nested import flatten
from taper.distributed.checkpoint._ranks import Ranks
from taper.distributed.checkpoint.default_planner import DefaultSavePlanner
from taper.distributed.checkpoint.filesystem import FileSystemWriter
from taper.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorStorageMetadata,
)

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


_BYTES_OF_A_VALUE = 100  # about what something that is no tensor takes


def _items(values, planner):
    """What this rank could write, boxes of tensors and other values, and what the index says of each name."""
    found, about = [], {}
    for name, value in values.items():
        value = planner.transform_object(name, value)
        if not isinstance(value, Tensor):
            found.append((MetadataIndex(name), value))
            about[name] = BytesStorageMetadata()
            continue
        size, parts = _shards.boxes(value)
        about[name] = TensorStorageMetadata(_shards.properties(value), size, [])
        some = [(offsets, local) for offsets, local in parts if local.numel() or 0 in size]
        found.extend((MetadataIndex(name, offsets), local) for offsets, local in some)
    return found, about


def _told(items, about):
    """The items as the library plans with them: (name, bytes, None or (dtype, whole, offset, size))."""
    return [
        (index.fqn, _BYTES_OF_A_VALUE, None)
        if index.offset is None
        else (index.fqn, 0, (value.dtype, tuple(about[index.fqn].size), tuple(index.offset), tuple(value.shape)))
        for index, value in items
    ]


def _merged(every, boxes, chosen):
    """The index's entries: all names of all ranks, and of tensors the boxes that are written."""
    merged = {}
    for about in every:
        for name, entry in about.items():
            merged.setdefault(name, entry)
    for number in chosen:
        _, name, _, box = boxes[number]
        if box is not None:
            merged[name].chunks.append(ChunkStorageMetadata(Size(box[2]), Size(box[3])))
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
            return _told(local["items"], about), about, local["paths"], number

        every = ranks.all("planning a checkpoint", tell)
        boxes = [(rank, *box) for rank, told in enumerate(every) for box in told[0]]
        lowest = getattr(planner, "dedup_save_to_lowest_rank", False)
        chosen = _C._checkpoint_plan(boxes, len(every), lowest)
        before = sum(len(told[0]) for told in every[: ranks.rank])  # where this rank's boxes begin
        mine = sorted(number - before for number in chosen if boxes[number][0] == ranks.rank)
        self.mine = [local["items"][i] for i in mine]
        self.about = _merged([told[1] for told in every], boxes, chosen)
        self.paths = {name: path for told in every for name, path in told[2].items()}
        self.number = every[0][3]

    def stage(self):
        """Copies, so that training may go on while they are written."""
        from copy import deepcopy

        def copied(value):
            if isinstance(value, Tensor):
                return _shards.saved_form(value.detach().clone())
            return deepcopy(value)

        with no_grad():
            self.mine = [(index, copied(value)) for index, value in self.mine]

    def write(self):
        ranks = self.ranks

        def part():
            items = (
                (index, _shards.saved_form(value) if isinstance(value, Tensor) else value) for index, value in self.mine
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
