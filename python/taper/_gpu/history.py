"""What became of device memory: who took each block and gave it back, with the Python stacks of both. Snapshots hold it
as PyTorch's memory viewer (pytorch.org/memory_viz) reads it."""

import sys
import threading
import time
from collections import deque

from taper import _C

_HOME = _C.__file__.rpartition("/")[0] + "/"
_MOST_FRAMES = 64
_recording = {}  # histories by the kind of their devices


def _told(kind, *about):
    """Called by the library for each block."""
    history = _recording.get(kind)
    if history is not None:
        history._told(*about)


class History:
    """The history of devices of one kind, while it is recorded."""

    def __init__(self, kind):
        self._kind, self._lock = kind, threading.RLock()
        self._enabled = self._context = None
        self._clear(None)

    def _clear(self, most):
        self._entries, self._blocks, self._stacks = deque(maxlen=most), {}, {}

    def record(self, enabled="all", context="all", stacks="all", max_entries=sys.maxsize, clear_history=False):
        """Begins to record, or with enabled=None ends it. enabled: "state" keeps what is there now, "all" also what
        happened. context: whose stacks are kept: of what is there ("state"), of allocations too ("alloc"), of all."""
        if enabled not in (None, "state", "all"):
            raise ValueError(f"enabled: expected None, 'state' or 'all', got {enabled!r}")
        if context not in (None, "state", "alloc", "all"):
            raise ValueError(f"context: expected None, 'state', 'alloc' or 'all', got {context!r}")
        if stacks not in ("python", "all"):
            raise ValueError(f"stacks: expected 'python' or 'all', got {stacks!r}")
        with self._lock:
            if clear_history or enabled is None or self._enabled is None:
                self._clear(None if max_entries >= sys.maxsize else max_entries)
            self._enabled, self._context = enabled, context
            if enabled is None:
                _recording.pop(self._kind, None)
            else:
                _recording[self._kind] = self
        _C._gpu_memory_watch(_told if _recording else None)

    def _frames(self):
        """The program's Python frames, innermost first. Equal stacks are one list."""
        frame, found = sys._getframe(3), []
        while frame is not None and len(found) < _MOST_FRAMES:
            code = frame.f_code
            if not code.co_filename.startswith(("<frozen", _HOME)):
                found.append((code.co_filename, frame.f_lineno, code.co_name))
            frame = frame.f_back
        key = tuple(found)
        if key not in self._stacks:
            self._stacks[key] = [{"filename": file, "line": line, "name": name} for file, line, name in found]
        return self._stacks[key]

    def _told(self, index, address, nbytes, stream, taken):
        with self._lock:
            wanted = self._context == "all" or (taken and self._context is not None)
            frames = self._frames() if wanted else []
            if taken:
                self._blocks[index, address] = frames
            elif self._blocks.pop((index, address), None) is None:
                return  # it was there before
            if self._enabled == "all":
                when = time.time_ns() // 1000
                for action in ("alloc",) if taken else ("free_requested", "free_completed"):
                    self._entries.append(
                        (
                            index,
                            {
                                "action": action,
                                "addr": address,
                                "size": nbytes,
                                "stream": stream,
                                "time_us": when,
                                "frames": frames if taken or self._context == "all" else [],
                            },
                        )
                    )

    def frames_of(self, index, address):
        """The stack that took a block; none if it was not recorded."""
        return self._blocks.get((index, address), [])

    def traces(self, count):
        """What happened, oldest first, one list for each device."""
        with self._lock:
            out = [[] for _ in range(count)]
            for index, entry in self._entries:
                out[index].append(entry)
            return out
