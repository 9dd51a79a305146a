"""torch.cuda.nvtx: marks for NVIDIA's profilers, through their library where it is found; without it they mark
nothing."""

import ctypes
from contextlib import contextmanager

__all__ = ["range_push", "range_pop", "range_start", "range_end", "mark", "range"]


def _find():
    for name in "libnvToolsExt.so.1", "libnvtx3interop.so.1", "libnvtx3interop.so":
        try:
            library = ctypes.CDLL(name)
            library.nvtxRangePushA, library.nvtxRangePop  # noqa: B018  (is this it?)
            library.nvtxRangeStartA.restype = ctypes.c_uint64
            return library
        except (OSError, AttributeError):
            continue
    return None


_library = _find()
_depth = 0


def range_push(msg):
    """Opens a range within the one that is open; returns its depth, from 0."""
    global _depth
    if _library:
        return _library.nvtxRangePushA(str(msg).encode("ascii", "replace"))
    _depth += 1
    return _depth - 1


def range_pop():
    """Closes the innermost range; returns its depth."""
    global _depth
    if _library:
        return _library.nvtxRangePop()
    _depth = max(_depth - 1, 0)
    return _depth


def range_start(msg):
    """Opens a range that may end on another thread; returns its number."""
    return _library.nvtxRangeStartA(str(msg).encode("ascii", "replace")) if _library else 0


def range_end(range_id):
    """Closes such a range."""
    if _library:
        _library.nvtxRangeEnd(ctypes.c_uint64(range_id))


def mark(msg):
    """A point in time."""
    if _library:
        _library.nvtxMarkA(str(msg).encode("ascii", "replace"))


@contextmanager
def range(msg, *args, **kwargs):
    """A range for a with block or a decorated function."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
