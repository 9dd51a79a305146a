"""DLPack: tensors from and to other libraries without a copy. torch.utils.dlpack is the public face."""

from taper import _C

_devices = {"cpu": 1, "cuda": 2, "xpu": 14}  # DLPack's numbers, torch.utils.dlpack.DLDeviceType by name


def to_dlpack(tensor):
    """A capsule that another library turns into an array over the same memory."""
    return _C._to_dlpack(tensor, False, False)


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor over the memory of an object with __dlpack__, or of a capsule."""
    if not hasattr(ext_tensor, "__dlpack__"):
        if device is not None or copy is not None:
            raise AssertionError("device and copy kwargs not supported when ext_tensor is already a DLPack capsule.")
        return _C._from_dlpack(ext_tensor)
    arguments = {"max_version": (1, 0)}
    if device is not None:
        place = _C.device(device)
        arguments["dl_device"] = (_devices[place.type], place.index or 0)
    if copy is not None:
        arguments["copy"] = copy
    kind, index = ext_tensor.__dlpack_device__() if hasattr(ext_tensor, "__dlpack_device__") else (1, 0)
    if kind == _devices["cuda"] and _C._gpu_count(
        "cuda"
    ):  # it shall be ready for our stream; 1 stands for the default one
        arguments["stream"] = _C._stream_current("cuda", index) or 1
    try:
        capsule = ext_tensor.__dlpack__(**arguments)
    except TypeError:  # from before the 2023 standard
        arguments.pop("max_version")
        capsule = ext_tensor.__dlpack__(**arguments)
    return _C._from_dlpack(capsule)


def _device_of(tensor):
    """What Tensor.__dlpack_device__ answers."""
    return _devices[tensor.device.type], tensor.device.index or 0


def _hand_over(device, stream):
    """The consumer's stream waits for ours."""
    kind, index = device.type, device.index
    ours = _C._stream_current(kind, index)
    if ours != stream:
        _C._stream_wait(kind, index, stream, index, ours)


def _export(tensor, stream, max_version, dl_device, copy):
    """What Tensor.__dlpack__ answers."""
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    if tensor.device.type == "cpu" and stream not in (None, -1):
        raise AssertionError("stream should be None on cpu.")
    if tensor.device.type != "cpu" and stream != -1:
        _hand_over(tensor.device, 0 if stream in (None, 0, 1, 2) else stream)
    if dl_device is not None and tuple(dl_device) != tuple(_device_of(tensor)):
        if copy is False:
            raise BufferError(
                f"cannot move the tensor from {_device_of(tensor)} to {tuple(dl_device)} without copying."
            )
        place = next((name for name, number in _devices.items() if number == dl_device[0]), None)
        if place is None:
            raise BufferError(f"Unsupported device_type: {int(dl_device[0])}")
        tensor, copy = tensor.to(f"{place}:{dl_device[1]}"), True
    elif copy:
        tensor = tensor.clone()
    try:
        return _C._to_dlpack(tensor, max_version is not None and max_version[0] >= 1, bool(copy))
    except ValueError as error:  # a dtype that it has no type for
        raise BufferError(str(error)) from None
