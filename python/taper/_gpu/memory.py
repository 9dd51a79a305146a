"""The memory of devices of one type, as the allocator counts it. Without a device there is nothing to count, which is
no error."""

import sys

from taper import _C
from taper._gpu import DeviceFunctions
from taper._gpu.devices import index_of, need
from taper._gpu.history import History

_STATES = "inactive", "active_allocated", "active_pending_free"
_NO_COUNTS = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}


def _flat(prefix, value, into):
    if isinstance(value, dict):
        for key, inner in value.items():
            _flat(f"{prefix}.{key}" if prefix else key, inner, into)
    else:
        into[prefix] = value


class Memory(DeviceFunctions):
    """The functions of torch.cuda.memory and torch.xpu.memory."""

    def __init__(self, kind, word):
        super().__init__(kind, word)
        self._history = History(kind)

    def _record_memory_history(
        self,
        enabled="all",
        context="all",
        stacks="all",
        max_entries=sys.maxsize,
        device=None,
        clear_history=False,
        skip_actions=None,
    ):
        """Records who takes memory, with Python stacks, for _snapshot. enabled=None ends it."""
        self._history.record(enabled, context, stacks, max_entries, clear_history)

    def _snapshot(self, device=None, augment_with_fx_traces=False):
        """All segments and blocks, and what happened since _record_memory_history, as PyTorch's memory viewer reads
        them."""
        return {
            "segments": self.memory_snapshot(),
            "device_traces": self._history.traces(_C._gpu_count(self._kind)),
            "allocator_settings": {},
            "external_annotations": [],
        }

    def _dump_snapshot(self, filename="dump_snapshot.pickle", augment_with_fx_traces=False):
        """Writes _snapshot() to a file."""
        import pickle

        with open(filename, "wb") as file:
            pickle.dump(self._snapshot(), file)

    def _there(self):
        return _C._gpu_count(self._kind) > 0

    def _index(self, device):
        need(self._kind, self._word)
        return index_of(self._kind, device)

    def memory_stats_as_nested_dict(self, device=None):
        """The counters, by what they count, the pool, and how: current, peak, allocated, freed."""
        if not self._there():
            return {}
        stats = _C._gpu_memory(self._kind, self._index(device))
        return {
            **stats,
            "oversize_allocations": dict(_NO_COUNTS),
            "oversize_segments": dict(_NO_COUNTS),
            "max_split_size": -1,
        }

    def memory_stats(self, device=None):
        """The counters by names such as allocated_bytes.all.current."""
        from collections import OrderedDict

        flat = {}
        _flat("", self.memory_stats_as_nested_dict(device), flat)
        return OrderedDict(sorted(flat.items()))

    def _bytes(self, what, which, device):
        return _C._gpu_memory(self._kind, self._index(device))[what]["all"][which] if self._there() else 0

    def memory_allocated(self, device=None):
        """Bytes that tensors have."""
        return self._bytes("allocated_bytes", "current", device)

    def max_memory_allocated(self, device=None):
        """The most bytes that tensors had since the last reset_peak_memory_stats."""
        return self._bytes("allocated_bytes", "peak", device)

    def memory_reserved(self, device=None):
        """Bytes that the allocator has of the device, for tensors or kept for them."""
        return self._bytes("reserved_bytes", "current", device)

    def max_memory_reserved(self, device=None):
        return self._bytes("reserved_bytes", "peak", device)

    def reset_peak_memory_stats(self, device=None):
        """The peaks begin again where things are now."""
        if self._there():
            _C._gpu_reset_peak(self._kind, self._index(device))

    def reset_accumulated_memory_stats(self, device=None):
        """What was added and taken away is counted from zero again."""
        if self._there():
            _C._gpu_reset_accumulated(self._kind, self._index(device))

    def empty_cache(self):
        """Gives kept memory back to the devices."""
        if self._there() and _C._gpu_used(self._kind):
            _C._gpu_empty_cache(self._kind)

    def mem_get_info(self, device=None):
        """(free, total) bytes of the device as its driver sees it."""
        return _C._gpu_memory_info(self._kind, self._index(device))

    def set_per_process_memory_fraction(self, fraction, device=None):
        """How much of the device's memory this process may reserve."""
        if not isinstance(fraction, float):
            raise TypeError("Invalid type for fraction argument, must be `float`")
        if not 0 <= fraction <= 1:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
        if self._there():
            _C._gpu_set_fraction(self._kind, self._index(device), fraction)

    def get_per_process_memory_fraction(self, device=None):
        return _C._gpu_fraction(self._kind, self._index(device))

    def memory_snapshot(self, mempool_id=None, include_traces=True):
        """The segments of all devices with their blocks."""
        segments = []
        for device in range(_C._gpu_count(self._kind) if _C._gpu_used(self._kind) else 0):
            found = {}
            for start, total, stream, large, pool, address, size, requested, state in _C._gpu_snapshot(
                self._kind, device
            ):
                segment = found.setdefault(
                    start,
                    {
                        "device": device,
                        "address": start,
                        "total_size": total,
                        "allocated_size": 0,
                        "active_size": 0,
                        "requested_size": 0,
                        "stream": stream,
                        "segment_type": "large" if large else "small",
                        "segment_pool_id": (0, pool),
                        "is_expandable": False,
                        "frames": [],
                        "blocks": [],
                    },
                )
                segment["blocks"].append(
                    {
                        "address": address,
                        "size": size,
                        "requested_size": requested,
                        "state": _STATES[state],
                        "frames": self._history.frames_of(device, address),
                    }
                )
                segment["allocated_size"] += size * (state == 1)
                segment["active_size"] += size * (state != 0)
                segment["requested_size"] += requested * (state != 0)
            segments += [found[start] for start in sorted(found)]
        return segments if mempool_id is None else [s for s in segments if s["segment_pool_id"] == tuple(mempool_id)]

    def list_gpu_processes(self, device=None):
        """The processes on a device and their memory, as NVIDIA's management library tells."""
        index = self._index(device)
        if self._kind != "cuda":
            raise RuntimeError(f"torch.{self._kind}.list_gpu_processes needs a management library for these devices")
        from taper._gpu import nvml

        lines = [f"GPU:{index}"]
        processes = nvml.processes(index)
        lines += [
            f"process {pid:>10d} uses {used / (1024 * 1024):>12.3f} MB GPU memory" for pid, used in processes
        ] or ["no processes are running"]
        return "\n".join(lines)
