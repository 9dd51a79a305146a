"""horovod.torch.elastic: state that survives a restart. commit() keeps it in memory and, where a launcher restarts
ranks, in a file; a restarted job begins at the last commit."""

import os

import taper
from taper import distributed as dist
from taper.horovod.torch.functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters
from taper.nn.modules.module import Module
from taper.optim import Optimizer
from taper.utils.data.sampler import Sampler

__all__ = ["ElasticSampler", "TorchState", "run"]


def run(func):
    """func(state, ...) begins with the state of the last commit, the same on all ranks."""

    def wrapped(state, *args, **kwargs):
        state.restore_from_file()
        state.sync()
        return func(state, *args, **kwargs)

    return wrapped


class TorchState:
    """A model, an optimiser and anything else by name: state.epoch, state.batch."""

    def __init__(self, model=None, optimizer=None, **kwargs):
        named = {name: value for name, value in (("model", model), ("optimizer", optimizer)) if value is not None}
        object.__setattr__(self, "_values", {**named, **kwargs})
        object.__setattr__(self, "_callbacks", [])
        self.save()

    def __getattr__(self, name):
        values = object.__getattribute__(self, "_values")
        if name in values:
            return values[name]
        raise AttributeError(name)

    def __setattr__(self, name, value):
        self._values[name] = value

    def register_reset_callbacks(self, callbacks):
        self._callbacks.extend(callbacks)

    def on_reset(self):
        for callback in self._callbacks:
            callback()

    def _snapshot(self):
        from copy import deepcopy

        return {
            name: deepcopy(value.state_dict() if hasattr(value, "state_dict") else value)
            for name, value in self._values.items()
        }

    def save(self):
        """Keeps the state as it is now."""
        object.__setattr__(self, "_saved", self._snapshot())

    def restore(self):
        """Goes back to what was kept."""
        for name, kept in self._saved.items():
            value = self._values.get(name)
            if hasattr(value, "load_state_dict"):
                value.load_state_dict(kept)
            else:
                self._values[name] = kept

    @staticmethod
    def _file():
        run_id = os.environ.get("TORCHELASTIC_RUN_ID")
        folder = os.environ.get("TAPER_ELASTIC_DIR") or os.path.dirname(
            os.path.dirname(os.path.dirname(os.environ.get("TORCHELASTIC_ERROR_FILE", "")))
        )
        return os.path.join(folder, f"commit-{run_id}.pt") if run_id and folder else None

    def commit(self):
        """Keeps the state, also for ranks that will be started in the place of these."""
        self.save()
        path = self._file()
        if path and dist.get_rank() == 0:
            taper.save(self._saved, path)

    def restore_from_file(self):
        path = self._file()
        if path and os.path.exists(path) and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0":
            object.__setattr__(self, "_saved", taper.load(path, weights_only=True))
            self.restore()

    def check_host_updates(self):
        """Hosts do not come and go while a job runs."""

    def sync(self):
        """All ranks get rank 0's state."""
        for name, value in list(self._values.items()):
            if isinstance(value, Module):
                broadcast_parameters(value.state_dict(), 0)
            elif isinstance(value, Optimizer):
                broadcast_optimizer_state(value, 0)
            elif hasattr(value, "load_state_dict"):
                value.load_state_dict(broadcast_object(value.state_dict(), 0))
            else:
                self._values[name] = broadcast_object(value, 0)
        self.save()


class ElasticSampler(Sampler):
    """Indices of a dataset over all ranks, less those that were processed before the last commit."""

    def __init__(self, dataset, shuffle=True, seed=0):
        self.dataset, self.shuffle, self.seed, self.epoch, self.processed_indices = dataset, shuffle, seed, 0, set()
        self.reset()

    def set_epoch(self, epoch):
        self.epoch, self.processed_indices = epoch, set()
        self.reset()

    def record_batch(self, batch_idx, batch_size):
        self.record_indices(self.get_indices(batch_idx, batch_size))

    def record_indices(self, indices):
        self.processed_indices.update(indices)

    def get_indices(self, batch_idx, batch_size):
        return self.indices[batch_idx * batch_size : min((batch_idx + 1) * batch_size, len(self.indices))]

    def reset(self):
        rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        generator = taper.Generator()
        generator.manual_seed(self.seed + self.epoch)
        order = (
            taper.randperm(len(self.dataset), generator=generator).tolist()
            if self.shuffle
            else list(range(len(self.dataset)))
        )
        left = [i for i in order if i not in self.processed_indices]
        total = -(-len(left) // world) * world
        left += left[: total - len(left)] if left else []
        self.indices = left[rank:total:world]

    def state_dict(self):
        return {"epoch": self.epoch, "processed_indices": sorted(self.processed_indices)}

    def load_state_dict(self, state_dict):
        self.epoch, self.processed_indices = state_dict["epoch"], set(state_dict["processed_indices"])
        self.reset()

    def __iter__(self):
        return iter(self.indices)

    def __len__(self):
        return len(self.indices)
