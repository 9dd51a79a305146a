"""What pickled tensors and parameters are rebuilt by, and what the reader of checkpoints (python/ext/files.c) makes
objects with."""

from taper import _C
from taper.storage import _on_storage


def _rebuild_tensor(storage, storage_offset, size, stride):
    dtype = getattr(storage, "dtype", _C.uint8)
    return _on_storage(dtype, storage, storage_offset, tuple(size), tuple(stride))


def _resolve(tensor, metadata):
    """The elements themselves where the storage holds their conjugates or negatives: a view, a copy of negatives."""
    if metadata.get("conj"):
        tensor = _C._functions["conj"](tensor)
    return _C._functions["neg"](tensor) if metadata.get("neg") else tensor


def _resolved(tensor, storage, metadata):
    """The same of a tensor that is being loaded; what is in the storage may come later, and whoever fills it does this
    again."""
    if not metadata:
        return tensor
    made = _resolve(tensor, metadata)
    if made is not tensor and hasattr(storage, "_waiting"):
        storage._waiting.append((made.detach(), tensor, metadata))
    return made


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    tensor = _resolved(_rebuild_tensor(storage, storage_offset, size, stride), storage, metadata)
    tensor.requires_grad = requires_grad
    return tensor


def _rebuild_wrapper_subclass(cls, dtype, size, stride, storage_offset, layout, device, requires_grad):
    return _C.Tensor._make_wrapper_subclass(
        cls,
        size,
        strides=stride,
        dtype=dtype,
        storage_offset=storage_offset,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    return _C._functions["empty_strided"](size, stride, dtype=dtype, device="meta").requires_grad_(requires_grad)


def _rebuild_from_type_v2(func, type, args, state):
    """An instance of a subclass, or (type None) a tensor with attributes."""
    tensor = func(*args)
    if type not in (None, _C.Tensor) and not isinstance(tensor, type):
        tensor = _C.Tensor._make_subclass(type, tensor, tensor.requires_grad)
    if getattr(tensor.__class__, "__setstate__", None) is not getattr(_C.Tensor, "__setstate__", None):
        tensor.__setstate__(state)
        return tensor
    return _set_state(tensor, state)


def _set_state(obj, state):
    if isinstance(state, tuple):
        state, slots = state
        for name, value in (slots or {}).items():
            if name.startswith("__"):
                raise TypeError(f"state for {type(obj).__name__} sets {name}, which is no slot")
            setattr(obj, name, value)
    if state:
        obj.__dict__.update(state)
    return obj


def _set_obj_state(obj, state):
    """Gives an object what _get_obj_state gave of another."""
    for part in state if isinstance(state, tuple) else (state,):
        for name, value in (part or {}).items():
            setattr(obj, name, value)
    return obj


def _get_obj_state(obj):
    """An object's attributes: its __dict__, or (__dict__, slots) where its class has slots."""
    getstate = getattr(type(obj), "__getstate__", None)
    if getstate is not None and getstate is not getattr(object, "__getstate__", None):
        return obj.__getstate__()
    slots = {name: getattr(obj, name) for cls in type(obj).__mro__ for name in _slots_of(cls) if hasattr(obj, name)}
    return (obj.__dict__, slots) if slots else obj.__dict__


def _slots_of(cls):
    slots = cls.__dict__.get("__slots__", ())
    return [slots] if isinstance(slots, str) else slots


def _rebuild_parameter(data, requires_grad, backward_hooks):
    from taper.nn.parameter import Parameter

    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    return _set_state(_rebuild_parameter(data, requires_grad, backward_hooks), state)


def _rebuild_sparse_tensor(layout, data):
    from taper.sparse import _make

    if layout == _C.sparse_coo:
        indices, values, size, *coalesced = data
        return _make.sparse_coo_tensor(indices, values, size, is_coalesced=coalesced[0] if coalesced else None)
    return _make.sparse_compressed_tensor(*data, layout=layout)


def _rebuild_nested_tensor(buffer, sizes, strides, storage_offsets):
    from taper.nested._strided import wrap

    views = [
        (tuple(size), tuple(steps), offset)
        for size, steps, offset in zip(sizes.tolist(), strides.tolist(), storage_offsets.tolist())
    ]
    for size, steps, offset in views:
        last = offset + sum((n - 1) * step for n, step in zip(size, steps))
        if len(size) != len(steps) or min((*size, *steps, offset, 0)) < 0 or 0 not in size and last >= buffer.numel():
            raise RuntimeError(
                f"a nested tensor's part of size {size} with strides {steps} from {offset} on does not fit into a "
                f"buffer of {buffer.numel()} elements"
            )
    made = wrap(buffer.detach(), views)
    return made.requires_grad_() if buffer.requires_grad else made


def _rebuild_tensor_v3(storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None):
    tensor = _resolved(
        _on_storage(dtype, storage.untyped(), storage_offset, tuple(size), tuple(stride)), storage, metadata
    )
    tensor.requires_grad = requires_grad
    return tensor


# ---- For the reader of checkpoints ----
def _finish_tensor(tensor, cls, requires_grad, state):
    """The tensor as an instance of cls (None: as it is), with attributes."""
    if cls is None:
        tensor.requires_grad = requires_grad
    elif hasattr(cls, "cls_to_become") or not issubclass(cls, _C.Tensor):
        raise TypeError(f"cannot make a {cls.__name__} of a tensor")
    else:
        tensor = _C.Tensor._make_subclass(cls, tensor, requires_grad)
    return tensor if state is None else _set_state(tensor, state)


def _typed_storage(storage, dtype):
    from taper.storage import TypedStorage

    return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def _dtype_named(name):
    dtype = getattr(_C, name, None)
    if not isinstance(dtype, _C.dtype):
        raise NotImplementedError(f"torch.{name}, which the checkpoint names, is not in Taper")
    return dtype


def _long(data):
    return int.from_bytes(data, "little", signed=True)


def _extend(obj, items):
    obj.extend(items)


def _put_pairs(obj, pairs):
    for key, value in pairs.items():
        obj[key] = value


def _build(obj, state):
    """obj.__setstate__(state), or what pickle does where there is none."""
    setstate = getattr(obj, "__setstate__", None)
    if setstate is not None:
        setstate(state)
    else:
        _set_state(obj, state)


class _Message(str):
    """A message that KeyError shows as it is, with its lines."""

    def __repr__(self):
        return str(self)


class ExceptionWrapper:
    """An exception on its way to another process or thread: its type and its traceback as text."""

    def __init__(self, exc_info=None, where="in background"):
        import sys
        from traceback import format_exception

        exc_info = exc_info or sys.exc_info()
        self.exc_type, self.exc_msg, self.where = exc_info[0], "".join(format_exception(*exc_info)), where
        self.name = self.exc_type.__name__

    def reraise(self):
        """Raises an exception of the same type with the text of the first one."""
        message = f"Caught {self.name} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            message = _Message(message)
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=message)
        try:
            error = self.exc_type(message)
        except Exception:  # its constructor wants something else
            raise RuntimeError(message) from None
        raise error


def _flatten_dense_tensors(tensors):
    """The tensors' elements in one row."""
    return _C._functions["cat"]([t.contiguous().view(-1) for t in tensors])


def _unflatten_dense_tensors(flat, tensors):
    """Pieces of a row with the tensors' shapes."""
    pieces = flat.split([t.numel() for t in tensors])
    return tuple(piece.view_as(t) for piece, t in zip(pieces, tensors))


# ---- Devices, for packages that serve all of them ----
def _get_available_device_type():
    """The type of the accelerator that is here, or None."""
    from taper.accelerator import current_accelerator

    device = current_accelerator()
    return None if device is None else device.type


def _get_device_module(device_type):
    """torch.cuda for "cuda"."""
    from importlib import import_module

    try:
        return import_module(f"taper.{device_type}")
    except ModuleNotFoundError:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'."
        ) from None


def _get_device_attr(get_member):
    """get_member(torch.cuda), or of the accelerator that is here; None without one."""
    kind = _get_available_device_type()
    return None if kind is None else get_member(_get_device_module(kind))


def _get_current_device_index():
    return _get_device_attr(lambda module: module.current_device())


def _get_all_device_indices():
    return _get_device_attr(lambda module: list(range(module.device_count())))


def _get_device_index(device, optional=False, allow_cpu=False):
    """The number of a device given as a number, a text or a device; the current one's for None where that is
    optional."""
    if isinstance(device, str):
        device = _C.device(device)
    if isinstance(device, _C.device):
        if not allow_cpu and device.type == "cpu":
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        if device.index is not None:
            return device.index
        if device.type == "cpu":
            return -1
    elif isinstance(device, int):
        return device
    if not optional and not isinstance(device, _C.device):
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return _get_current_device_index()


def _element_size(dtype):
    """Bytes per element."""
    if not isinstance(dtype, _C.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize
