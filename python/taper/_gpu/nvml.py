"""NVIDIA's management library by ctypes, where the driver has brought it along. GPUs are found by their UUID, so
CUDA_VISIBLE_DEVICES does not matter."""

import ctypes

from taper import _C

_library = None


def _opened():
    global _library
    if _library is None:
        try:
            _library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise ModuleNotFoundError(f"NVIDIA's management library was not found: {error}") from None
        _check(_library.nvmlInit_v2())
    return _library


def _check(status):
    if status:
        raise RuntimeError(f"NVIDIA's management library reports error {status}")


def _handle(index):
    library, handle = _opened(), ctypes.c_void_p()
    from uuid import UUID

    name = f"GPU-{UUID(bytes=_C._gpu_describe('cuda', index)['uuid'])}"
    _check(library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle)))
    return handle


def number(index, function, *selectors):
    """What a function of the library answers as an unsigned int; selectors are its arguments before that."""
    value = ctypes.c_uint()
    _check(getattr(_opened(), function)(_handle(index), *(ctypes.c_uint(s) for s in selectors), ctypes.byref(value)))
    return value.value


def utilization(index):
    """(percent of the GPU, percent of its memory's time)"""
    both = (ctypes.c_uint * 2)()
    _check(_opened().nvmlDeviceGetUtilizationRates(_handle(index), both))
    return both[0], both[1]


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("instance", ctypes.c_uint),
        ("compute", ctypes.c_uint),
    ]


def processes(index):
    """[(process id, bytes)] of those that compute on the GPU."""
    capacity = 512
    found, count = (_Process * capacity)(), ctypes.c_uint(capacity)
    _check(_opened().nvmlDeviceGetComputeRunningProcesses_v3(_handle(index), ctypes.byref(count), found))
    return [(p.pid, 0 if p.used == 2**64 - 1 else p.used) for p in found[: count.value]]
