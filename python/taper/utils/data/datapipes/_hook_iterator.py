"""Readings of pipes. A pipe has one reading at a time: beginning another resets the pipe and makes those before it
invalid. It counts the items it has given, so that a copy can be brought to the same place."""

import sys
from enum import Enum
from functools import wraps


class _SnapshotState(Enum):
    NotStarted, Restored, Iterating = range(3)


class Reading:
    """An iterator over a pipe's items."""

    def __init__(self, pipe, iterator, number):
        self.source_dp, self.iterator, self.iterator_id = pipe, iterator, number

    def __iter__(self):
        return self

    def __next__(self):
        check_valid(self.source_dp, self.iterator_id)
        profiler = sys.modules.get("taper.autograd.profiler")
        if profiler is not None and profiler._running:
            with profiler.record_function(f"enumerate(DataPipe)#{type(self.source_dp).__name__}"):
                item = next(self.iterator)
        else:
            item = next(self.iterator)
        self.source_dp._number_of_samples_yielded += 1
        return item

    def __getattr__(self, name):
        return getattr(self.iterator, name)


def check_valid(pipe, number):
    if not pipe._is_valid(number):
        raise RuntimeError(
            "This iterator has been invalidated because another iterator has been created from the same "
            f"IterDataPipe: {pipe!r}\n"
            "This may be caused multiple references to the same IterDataPipe. We recommend using `.fork()` if that "
            "is necessary."
        )


def hooked(method):
    """A pipe's __iter__ as above."""

    @wraps(method)
    def begin(self):
        restored = self._fast_forward_iterator
        if restored is not None:  # it was brought forward, and goes on from there
            self._fast_forward_iterator, self._snapshot_state = None, _SnapshotState.Iterating
            return restored
        fresh = self._snapshot_state is not _SnapshotState.Restored
        number = self._next_reading(fresh)
        if fresh:
            self._number_of_samples_yielded = 0
        self._snapshot_state = _SnapshotState.Iterating
        made = method(self)
        return Reading(self, made if hasattr(made, "__next__") else iter(made), number)

    begin._is_hooked = True
    return begin
