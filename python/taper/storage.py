"""torch.storage: the memory under tensors, as bytes (UntypedStorage) or as elements of a dtype (TypedStorage and its named relatives)."""
from taper import _C
from taper._C import UntypedStorage


StorageBase = UntypedStorage  # PyTorch's base of it in C++, for isinstance


def _on_storage(dtype, storage, *place):
    """A tensor over a storage, on its device: all of it, or what an offset, sizes and strides tell."""
    return _C._functions["empty"]((0,), dtype=dtype, device=storage.device).set_(storage, *place)


def _bytes_as_tensor(storage):
    return _on_storage(_C.uint8, storage)


def _load(data, device="cpu"):
    """A storage from its bytes, for pickle."""
    storage = UntypedStorage(len(data), device=device)
    if data:
        _bytes_as_tensor(storage).copy_(_C.frombuffer(data, dtype=_C.uint8))
    return storage


_share = UntypedStorage._share  # how memory is shared; torch.multiprocessing.set_sharing_strategy puts another way here


def _load_from_bytes(data):
    """A storage as PyTorch's own pickles hold it: a file in the format before zip archives."""
    import io

    from taper.serialization import load
    return load(io.BytesIO(data), weights_only=False)


def _untyped(function):
    setattr(UntypedStorage, function.__name__, function)


@_untyped
def __repr__(self):
    lines = "\n ".join(str(v) for v in self.tolist())
    return f" {lines}\n[torch.storage.UntypedStorage(device={self.device}) of size {len(self)}]"


@_untyped
def __reduce__(self):
    return _load, (bytes(memoryview(_bytes_as_tensor(self.cpu()))), *(() if self.device.type == "cpu" else (self.device,)))


@_untyped
def __copy__(self):
    return self.clone()


@_untyped
def __deepcopy__(self, memo):
    seen = memo.setdefault("torch", {})
    if self._cdata not in seen:
        seen[self._cdata] = self.clone()
    return seen[self._cdata]


@_untyped
def __iter__(self):
    return iter(self.tolist())


def _at(storage, device, non_blocking=False):
    """The storage's bytes on a device: itself if it is there."""
    device = _C.device(device)
    if device == storage.device:
        return storage
    return _bytes_as_tensor(storage).to(device, non_blocking=non_blocking).untyped_storage()


@_untyped
def cpu(self):
    return _at(self, "cpu")


@_untyped
def cuda(self, device=None, non_blocking=False):
    """The storage on a GPU."""
    return _at(self, _accelerator("cuda", device), non_blocking)


@_untyped
def xpu(self, device=None, non_blocking=False):
    """The storage on an Intel GPU."""
    return _at(self, _accelerator("xpu", device), non_blocking)


@_untyped
def to(self, *, device, non_blocking=False):
    return _at(self, device, non_blocking)


def _accelerator(kind, device):
    from taper._gpu.devices import index_of
    return _C.device(kind, index_of(kind, device))


@_untyped
def untyped(self):
    return self


@_untyped
def share_memory_(self):
    """Itself if processes can share it, else a copy that they can; tensors move to it by Tensor.share_memory_."""
    return self if self.is_shared() else _share(self)


@_untyped
def is_pinned(self, device="cuda"):
    return self.device.type == "cpu" and _bytes_as_tensor(self).is_pinned()


@_untyped
def pin_memory(self, device="cuda"):
    """A copy in pinned memory; itself if it is there."""
    return self if self.is_pinned() else _bytes_as_tensor(self).pin_memory().untyped_storage()


def _from_buffer(buffer, byte_order=None, count=-1, offset=0, *, dtype=None):
    """A copy of a buffer's bytes, in this machine's order."""
    import sys
    if not isinstance(dtype, _C.dtype):
        raise TypeError("function missing required argument 'dtype' (pos 5)" if dtype is None else f"argument 'dtype' must be torch.dtype, not {type(dtype)}")
    if dtype.itemsize > 1 and byte_order not in ("native", "big", "little"):
        raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big' or 'little')")
    numbers = _C.frombuffer(bytearray(buffer), dtype=dtype, count=count, offset=offset)
    if dtype.itemsize > 1 and byte_order not in ("native", sys.byteorder):
        numbers = numbers.view(_C.uint8).reshape(-1, dtype.itemsize).flip(1)
    return numbers.clone().untyped_storage()


UntypedStorage.from_buffer = staticmethod(_from_buffer)


class TypedStorage:
    """A storage whose items are numbers of one dtype."""

    dtype = None  # the named relatives fix it
    is_sparse = False

    def __init__(self, *args, wrap_storage=None, dtype=None, device=None, _internal=False):
        if dtype is not None:
            self.dtype = dtype
        elif self.dtype is None:
            self.dtype = _C.get_default_dtype()
        if wrap_storage is None:
            if len(args) > 1:
                raise TypeError(f"{type(self).__name__}() takes at most one positional argument, got {len(args)}")
            given = args[0] if args else 0
            if isinstance(given, int):
                wrap_storage = UntypedStorage(given * self.dtype.itemsize, device=device or "cpu")
            elif isinstance(given, (TypedStorage, UntypedStorage)):
                wrap_storage = given.untyped()
            else:
                wrap_storage = _C.tensor(given, dtype=self.dtype, device=device or "cpu").untyped_storage()
        self._untyped_storage = wrap_storage

    @classmethod
    def _from_buffer(cls, buffer, byte_order=None, count=-1, offset=0, *, dtype=None, device=None):
        """A copy of a buffer's numbers."""
        if cls is TypedStorage and dtype is None:
            raise RuntimeError("TypedStorage._from_buffer: dtype must be specified")
        storage = UntypedStorage.from_buffer(buffer, byte_order, count, offset, dtype=dtype or cls.dtype)
        return cls(wrap_storage=storage, **({"dtype": dtype} if cls is TypedStorage else {}))

    def _tensor(self):
        return _on_storage(self.dtype, self._untyped_storage)

    def __len__(self):
        return len(self._untyped_storage) // self.dtype.itemsize

    size = _size = __len__

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} out of range for storage of size {len(self)}")
        return self._tensor()[index].item()

    def __setitem__(self, index, value):
        self._tensor()[index] = _C.tensor(value, dtype=self.dtype) if isinstance(value, (list, tuple)) else value

    def __iter__(self):
        return iter(self.tolist())

    def __repr__(self):
        lines = "\n ".join(str(v) for v in self.tolist())
        return f" {lines}\n[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"

    def __eq__(self, other):
        return isinstance(other, TypedStorage) and self._cdata == other._cdata and self.dtype == other.dtype

    __hash__ = object.__hash__

    def __reduce__(self):
        return _rebuild_typed, (self._untyped_storage, self.dtype)

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        return TypedStorage(wrap_storage=self._untyped_storage.__deepcopy__(memo), dtype=self.dtype)

    @property
    def device(self):
        return self._untyped_storage.device

    @property
    def _cdata(self):
        return self._untyped_storage._cdata

    @property
    def is_cuda(self):
        return self._untyped_storage.is_cuda

    def untyped(self):
        return self._untyped_storage

    def nbytes(self):
        return self._untyped_storage.nbytes()

    def data_ptr(self):
        return self._untyped_storage.data_ptr()

    def element_size(self):
        return self.dtype.itemsize

    def tolist(self):
        return self._tensor().tolist()

    def clone(self):
        return TypedStorage(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype)

    def cpu(self):
        return self._moved(self._untyped_storage.cpu())

    def cuda(self, device=None, non_blocking=False):
        return self._moved(self._untyped_storage.cuda(device, non_blocking))

    def xpu(self, device=None, non_blocking=False):
        return self._moved(self._untyped_storage.xpu(device, non_blocking))

    def to(self, *, device, non_blocking=False):
        return self._moved(self._untyped_storage.to(device=device, non_blocking=non_blocking))

    def _moved(self, memory):
        return self if memory is self._untyped_storage else TypedStorage(wrap_storage=memory, dtype=self.dtype)

    def copy_(self, source, non_blocking=None):
        self._tensor().copy_(source._tensor())
        return self

    def fill_(self, value):
        self._tensor().fill_(value)
        return self

    def resize_(self, size):
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def type(self, dtype=None):
        name = f"{_words[self.dtype]}Storage"
        if dtype is None:
            return f"torch.{name}" if self.device.type == "cpu" else f"torch.{self.device.type}.{name}"
        wanted = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", "")
        return self._to(next(d for d, word in _words.items() if wanted.split(".")[-1] == f"{word}Storage"))

    def _to(self, dtype):
        return self if dtype == self.dtype else TypedStorage(wrap_storage=self._tensor().to(dtype).untyped_storage(), dtype=dtype)

    def is_shared(self):
        return self._untyped_storage.is_shared()

    def is_pinned(self, device="cuda"):
        return self._untyped_storage.is_pinned()

    def pin_memory(self, device="cuda"):
        return self._moved(self._untyped_storage.pin_memory())

    def share_memory_(self):
        self._untyped_storage = self._untyped_storage.share_memory_()
        return self

    def pickle_storage_type(self):
        return f"{_words[self.dtype]}Storage"


def _rebuild_typed(untyped, dtype):
    return TypedStorage(wrap_storage=untyped, dtype=dtype)


class _StorageType(type):
    """torch.FloatStorage and its like: a TypedStorage of the dtype is an instance."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, TypedStorage) and (cls.dtype is None or instance.dtype == cls.dtype) and instance.device.type == cls._place


_words = {_C.bool: "Bool", _C.uint8: "Byte", _C.int8: "Char", _C.int16: "Short", _C.int32: "Int", _C.int64: "Long", _C.float16: "Half",
          _C.bfloat16: "BFloat16", _C.float32: "Float", _C.float64: "Double", _C.complex64: "ComplexFloat", _C.complex128: "ComplexDouble",
          _C.quint8: "QUInt8", _C.qint8: "QInt8", _C.qint32: "QInt32", _C.quint4x2: "QUInt4x2", _C.quint2x4: "QUInt2x4"}


class _LegacyStorage(TypedStorage, metaclass=_StorageType):
    _place = "cpu"

    def __init__(self, *args, wrap_storage=None, dtype=None, device=None, _internal=False):
        super().__init__(*args, wrap_storage=wrap_storage, dtype=dtype, device=device or self._place)


def _dtype_to_storage_type_map():
    """{dtype: the name of its class of storages}."""
    return {dtype: f"{word}Storage" for dtype, word in _words.items()}


def _storage_type_to_dtype_map():
    return {f"{word}Storage": dtype for dtype, word in _words.items()}


def _storages_on(kind):
    """{name: type} of a kind of device: torch.FloatStorage, torch.cuda.FloatStorage and their like."""
    module = "torch" if kind == "cpu" else f"torch.{kind}"
    return {f"{word}Storage": _StorageType(f"{word}Storage", (_LegacyStorage,), {"dtype": dtype, "_place": kind, "__module__": module}) for dtype, word in _words.items()}


_named = _storages_on("cpu")
UntypedStorage.__module__ = TypedStorage.__module__ = "torch.storage"
