"""Those methods of Tensor that read best in Python. They join the C type when this file is imported."""
from taper import _C
from taper._C import Tensor

Tensor.__module__ = "torch"
Tensor.__array_priority__ = 1000  # NumPy leaves operators between an array and a tensor to the tensor


def _method(function):
    function.__qualname__ = f"Tensor.{function.__name__}"
    setattr(Tensor, function.__name__, function)
    return function


@_method
def __format__(self, spec):
    """A tensor without dimensions formats as the number it holds."""
    if self.dim() == 0 and type(self) is Tensor:
        return self.item().__format__(spec)
    return object.__format__(self, spec)


@_method
def __contains__(self, element):
    if isinstance(element, (Tensor, bool, int, float, complex)):
        return bool((element == self).any())
    raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")


@_method
def __reversed__(self):
    """The tensor with its first dimension reversed."""
    return self if self.dim() == 0 else self.flip(0)


@_method
def __dir__(self):
    names = set(dir(type(self)))
    names.update(self.__dict__)
    return sorted(names)


@_method
def __array_wrap__(self, array, context=None, return_scalar=False):
    """What NumPy's functions make of tensors becomes a tensor again."""
    if array.dtype == bool:
        array = array.astype("uint8")
    return _C.from_numpy(array if array.ndim else array.reshape(1)).reshape(array.shape)


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None):
    """obj as a tensor: sharing memory with tensors, arrays, DLPack capsules and buffers unless copy is True."""
    if isinstance(obj, Tensor):
        tensor = obj
    elif (shared := _shared(obj, dtype, copy)) is not None:
        tensor = shared
    elif copy is False:
        raise ValueError("can't alias arbitrary sequence into a tensor.")
    else:
        return _C.tensor(obj, dtype=dtype, device=device, requires_grad=bool(requires_grad))
    wanted_dtype, wanted_device = dtype or tensor.dtype, tensor.device if device is None else _C.device(device)
    if copy is False and wanted_dtype != tensor.dtype:
        raise ValueError(f"can't alias tensor with dtype '{tensor.dtype}' into dtype '{wanted_dtype}'.")
    if copy is False and wanted_device != tensor.device:
        raise ValueError(f"can't alias tensor with device '{tensor.device}' into device '{wanted_device}'.")
    if requires_grad is None:
        requires_grad = tensor.requires_grad
    if copy or wanted_dtype != tensor.dtype or wanted_device != tensor.device:
        tensor = tensor.to(dtype=wanted_dtype, device=wanted_device, copy=True)
    if tensor.requires_grad and not requires_grad:
        return tensor.detach()
    if requires_grad and not tensor.requires_grad:
        return (tensor.detach() if tensor is obj else tensor).requires_grad_()
    return tensor


def _shared(obj, dtype, copy):
    """A tensor over obj's memory, or None if obj has none to share."""
    kind = type(obj)
    if kind.__module__ == "numpy" and hasattr(obj, "dtype"):
        if hasattr(obj, "__array_interface__") and kind.__name__ == "ndarray":
            return _C.from_numpy(obj)
        if copy is False:
            raise ValueError("can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray.")
        return _C.tensor(obj)
    if hasattr(obj, "__dlpack__"):
        return _C.from_dlpack(obj)
    try:
        memoryview(obj)
    except (TypeError, BufferError):
        return None
    return _C.frombuffer(obj, dtype=dtype or _C.uint8)
