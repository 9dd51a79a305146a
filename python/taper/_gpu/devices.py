"""Devices of one type: how many there are, the current one, what they can do."""

import os

from taper import _C
from taper._gpu import DeviceFunctions

_forked = set()  # types that were in use when this process was forked off


def _in_child():
    _forked.update(kind for kind in ("cuda", "xpu") if _C._gpu_used(kind))


os.register_at_fork(after_in_child=_in_child)


def need(kind, word):
    """PyTorch's errors where no device of the type can be used."""
    if kind in _forked:
        raise RuntimeError(
            f"Cannot re-initialize {word} in forked subprocess. To use {word} with multiprocessing, you must use the "
            "'spawn' start method"
        )
    if not _C._gpu_count(kind) and kind == "cuda":
        raise RuntimeError(
            "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver "
            f"from http://www.nvidia.com/Download/index.aspx: {_C._gpu_missing(kind)}"
        )
    if not _C._gpu_count(kind):
        raise AssertionError(f"Torch not compiled with {word} enabled: {_C._gpu_missing(kind)}")


def index_of(kind, device, current=True):
    """The index that a device argument means: an int, a text, a torch.device; without an index the current one, or
    -1."""
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    if device is not None:
        place = _C.device(device) if isinstance(device, str) else device
        if not isinstance(place, _C.device):
            raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
        if place.type != kind:
            raise ValueError(f"Expected a {kind} device, but got: {device}")
        if place.index is not None:
            return place.index
    return _C._gpu_current(kind) if current else -1


class Properties:
    """What get_device_properties answers: PyTorch's names for what the driver tells."""

    def __init__(self, about, **more):
        from uuid import UUID

        self.name, self.total_memory, self.uuid = about["name"], about["memory"], UUID(bytes=about["uuid"])
        self.__dict__.update(more)

    def _text(self, names):
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)


class Devices(DeviceFunctions):
    """The functions of torch.cuda and torch.xpu about devices."""

    _Properties = Properties
    _asked = False  # was init() called?

    def _need(self):
        need(self._kind, self._word)

    def _index(self, device):
        self._need()
        return index_of(self._kind, device)

    def is_available(self):
        """Can tensors live on such a device here?"""
        return self._kind not in _forked and _C._gpu_count(self._kind) > 0

    def device_count(self):
        """How many devices of the type there are."""
        return _C._gpu_count(self._kind)

    def init(self):
        """Nothing to do beyond saying whether a device is there: it is opened by its first use."""
        self._need()
        self._asked = True

    def is_initialized(self):
        """Has this process used a device of the type, or called init()?"""
        return self._kind not in _forked and (self._asked or _C._gpu_used(self._kind))

    def current_device(self):
        """The index of the thread's current device."""
        self._need()
        return _C._gpu_current(self._kind)

    def set_device(self, device):
        """Makes a device the thread's current one; an index below zero does nothing."""
        index = index_of(self._kind, device, current=False)
        if index >= 0:
            self._need()
            _C._gpu_set_current(self._kind, index)

    def synchronize(self, device=None):
        """Waits for all work on a device."""
        _C._gpu_synchronize(self._kind, self._index(device))

    def get_device_properties(self, device=None):
        """What a device is and can do."""
        index = self._index(device)
        if not 0 <= index < _C._gpu_count(self._kind):
            raise AssertionError("Invalid device id")
        return self._Properties(_C._gpu_describe(self._kind, index))

    def get_device_name(self, device=None):
        return self.get_device_properties(device).name

    def is_bf16_supported(self, including_emulation=True):
        """Can the device compute with bfloat16? All can: those without such hardware convert."""
        return self.is_available() and (including_emulation or self._bf16())

    def get_arch_list(self):
        """What the devices here are: kernels are compiled for those."""
        return sorted({_C._gpu_describe(self._kind, i)["arch"] for i in range(_C._gpu_count(self._kind))})


def guard(kind, word):
    """The classes torch.KIND.device and device_of."""

    class device:
        """Makes a device the current one within a `with`; None and an index below zero do nothing."""

        def __init__(self, device):
            self.idx, self.prev_idx = -1 if device is None else index_of(kind, device), -1

        def __enter__(self):
            if self.idx >= 0:
                need(kind, word)
                self.prev_idx = _C._gpu_current(kind)
                _C._gpu_set_current(kind, self.idx)

        def __exit__(self, *error):
            if self.idx >= 0:
                _C._gpu_set_current(kind, self.prev_idx)
            return False

    class device_of(device):
        """Makes the device of a tensor the current one; a tensor elsewhere does nothing."""

        def __init__(self, obj):
            super().__init__(obj.get_device() if obj.device.type == kind else -1)

    for made in device, device_of:
        made.__module__, made.__qualname__ = f"torch.{kind}", made.__name__
    return device, device_of
