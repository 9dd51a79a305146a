"""torch.storage: the memory under tensors, as bytes (UntypedStorage) or as elements of a dtype (TypedStorage and its
named relatives)."""

from taper import _C
from taper._C import StorageBase, UntypedStorage  # noqa: F401


def _on_storage(dtype, storage, *place):
    """A tensor over a storage, on its device: all of it, or what an offset, sizes and strides tell."""
    return _C._functions["empty"]((0,), dtype=dtype, device=storage.device).set_(storage, *place)


def _bytes_as_tensor(storage):
    return _on_storage(_C.uint8, storage)


def _load(data, device="cpu"):
    """A storage from its bytes, for pickle."""
    storage = UntypedStorage(len(data), device=device)
    if data:
        _bytes_as_tensor(storage).copy_(_C.frombuffer(bytearray(data), dtype=_C.uint8))
    return storage


_share = UntypedStorage._share  # how memory is shared; torch.multiprocessing.set_sharing_strategy puts another way here


def _load_from_bytes(data):
    """A storage as PyTorch's own pickles hold it: a file in the format before zip archives."""
    import io

    from taper.serialization import load

    return load(io.BytesIO(data), weights_only=False)


def _untyped(function):
    setattr(UntypedStorage, function.__name__, function)


def _lines(storage, kind, size):
    text = "..." if storage.device.type == "meta" else " " + "\n ".join(str(v) for v in storage.tolist())
    return f"{text}\n[torch.storage.{kind}device={storage.device}) of size {size}]"


@_untyped
def __repr__(self):
    return _lines(self, "UntypedStorage(", len(self))


@_untyped
def __reduce__(self):
    return _load, (
        bytes(memoryview(_bytes_as_tensor(self.cpu()))),
        *(() if self.device.type == "cpu" else (self.device,)),
    )


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


@_untyped
def __sizeof__(self):
    return object.__sizeof__(self) + self.nbytes()


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
def new(self):
    return type(self)(device=self.device)


@_untyped
def get_device(self):
    return self.device.index if self.device.index is not None else -1


def _type(self, dtype=None, non_blocking=False):
    """The name of its type, or the bytes as numbers of another type's."""
    if dtype is None:
        return (
            "torch.storage.UntypedStorage" if self.device.type == "cpu" else f"torch.{self.device.type}.UntypedStorage"
        )
    return TypedStorage(wrap_storage=self, dtype=_C.uint8, _internal=True).type(dtype)


@_untyped
def byteswap(self, dtype):
    """Reverses the bytes of each number of that dtype, in place; the two parts of a complex one by themselves."""
    size = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    if size > 1:
        numbers = _bytes_as_tensor(self).reshape(-1, size)
        numbers.copy_(numbers.flip(1))


@_untyped
def share_memory_(self):
    """Itself if processes can share it, else a copy that they can; tensors move to it by Tensor.share_memory_."""
    return self if self.is_shared() else _share(_on_cpu(self, "_share_fd_"))


def _on_cpu(storage, method):
    if storage.device.type != "cpu":
        raise RuntimeError(f"{method}: only available on CPU")
    return storage


@_untyped
def _share_fd_cpu_(self):
    """Moves into memory that others can map: its descriptor and size."""
    shared = _on_cpu(self, "_share_fd_")._share()
    return shared._shared_fd(), shared.nbytes()


@_untyped
def _share_filename_cpu_(self):
    """The same by a file: a manager's name (there is none), the file and the size."""
    from taper.multiprocessing.reductions import _share_file

    shared = _share_file(_on_cpu(self, "_share_filename_"))
    return b"", shared._shared_path().encode(), shared.nbytes()


@_untyped
def _write_file(self, f, is_real_file, save_size, element_size):
    """Writes the number of elements, if asked, and the bytes."""
    data = bytes(memoryview(_bytes_as_tensor(self.cpu())))
    f.write((len(data) // element_size).to_bytes(8, "little") + data if save_size else data)


@_untyped
def is_pinned(self, device="cuda"):
    return self.device.type == "cpu" and _bytes_as_tensor(self).is_pinned()


@_untyped
def pin_memory(self, device="cuda"):
    """A copy in pinned memory; itself if it is there."""
    if self.device.type != "cpu":
        raise TypeError(f"cannot pin '{self.type()}' only CPU memory can be pinned")
    return self if self.is_pinned() else _bytes_as_tensor(self).pin_memory().untyped_storage()


def _from_buffer(cls, *args, dtype=None, **kwargs):
    """from_buffer(buffer, byte_order="native", count=-1, offset=0, *, dtype): a storage with a copy of a buffer's
    bytes."""
    names = "buffer", "byte_order", "count", "offset"
    given = dict(zip(names, args)) | kwargs
    if "buffer" not in given:
        raise TypeError("function missing required argument 'buffer' (pos 1)")
    if dtype not in (_C.uint8, _C.int8, _C.bool) and "byte_order" not in given:
        raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
    order, count, offset = given.get("byte_order", "native"), given.get("count", -1), given.get("offset", 0)
    if order not in ("big", "little", "native"):
        raise ValueError(f"invalid byte_order '{order}' (expected 'big', 'little', or 'native')")
    data, size = memoryview(given["buffer"]).cast("B"), dtype.itemsize
    if not 0 <= offset < len(data):
        raise ValueError(
            f"offset must be non-negative and no greater than buffer length ({offset}), but got {len(data)}"
        )
    if count < 0:
        if (len(data) - offset) % size:
            raise ValueError(f"buffer size ({len(data)}) must be a multiple of element size ({size})")
        count = (len(data) - offset) // size
    elif offset + count * size > len(data):
        raise ValueError(
            f"buffer has only {len(data) - offset} elements after offset {offset}, but specified a size of {count}"
        )
    storage = _load(data[offset : offset + count * size])
    if order == "big":
        storage.byteswap(dtype)
    if dtype == _C.bool:  # any byte but 0 is true
        _bytes_as_tensor(storage).copy_(_bytes_as_tensor(storage) != 0)
    return storage


UntypedStorage.type = _type
UntypedStorage.from_buffer = classmethod(_from_buffer)
UntypedStorage.is_sparse = UntypedStorage.is_sparse_csr = UntypedStorage.is_hpu = False
UntypedStorage.filename = property(lambda self: self.__dict__.get("_filename", self._shared_path()))
UntypedStorage._fake_device = UntypedStorage._checkpoint_offset = None

# ---- TypedStorage ----
_REMOVAL = (
    "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage class. "
    "This should only matter to you if you are using storages directly.  To access UntypedStorage directly, use "
    "tensor.untyped_storage() instead of tensor.storage()"
)
_warned = {"always": False, "told": False}


def _warn_typed_storage_removal(stacklevel=2):
    if _warned["always"] or not _warned["told"]:
        import warnings

        _warned["told"] = True
        warnings.warn(_REMOVAL, category=UserWarning, stacklevel=stacklevel + 1)


def _reset_warn_typed_storage_removal():
    _warned["told"] = False


def _get_always_warn_typed_storage_removal():
    return _warned["always"]


def _set_always_warn_typed_storage_removal(always_warn):
    _warned["always"] = always_warn


def _warns(function):
    """A public method of a TypedStorage: the old interface, which says that it will go."""

    def method(self, *args, **kwargs):
        _warn_typed_storage_removal()
        return function(self, *args, **kwargs)

    method.__name__, method.__doc__ = function.__name__, function.__doc__
    return method


class TypedStorage:
    """A storage whose items are numbers of one dtype."""

    is_sparse = False
    _fake_device = None

    def __new__(cls, *args, wrap_storage=None, dtype=None, device=None, _internal=False):
        if not _internal:
            _warn_typed_storage_removal()
        if cls is _LegacyStorage:
            raise RuntimeError("Only child classes of _LegacyStorage can be instantiated")
        if cls is TypedStorage:
            return object.__new__(cls)
        return _legacy_storage(cls, args, wrap_storage, dtype, device)

    def __init__(self, *args, wrap_storage=None, dtype=None, device=None, _internal=False):
        if wrap_storage is not None:
            _check_wrapped(args, wrap_storage, dtype, device)
            self.dtype, self._untyped_storage = dtype, wrap_storage
            return
        self.dtype = dtype or _C.get_default_dtype()
        self._untyped_storage = _memory(args, self.dtype, "cpu" if device is None else device)

    def _new_wrapped_storage(self, memory):
        return TypedStorage(wrap_storage=memory, dtype=self.dtype, _internal=True)

    def _tensor(self):
        return _on_storage(_STORED.get(self.dtype, self.dtype), self._untyped_storage)

    def _size(self):
        return len(self._untyped_storage) // self.dtype.itemsize

    def _nbytes(self):
        return self._untyped_storage.nbytes()

    def _element_size(self):
        return self.dtype.itemsize

    def _data_ptr(self):
        return self._untyped_storage.data_ptr()

    def _is_shared(self):
        return self._untyped_storage.is_shared()

    def _index(self, index):
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        if not -self._size() <= index < self._size():
            raise IndexError(f"index {index} out of range for storage of size {self._size()}")
        return index

    def _getitem(self, index):
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self._tensor()[self._index(index)].item()

    def _setitem(self, index, value):
        if isinstance(value, (TypedStorage, UntypedStorage)):
            raise RuntimeError(f"cannot set item with value type {type(value)}")
        if isinstance(value, (list, tuple)):
            value = _C.tensor(value, dtype=_STORED.get(self.dtype, self.dtype))
        self._tensor()[index if isinstance(index, slice) else self._index(index)] = value

    def _resize_(self, size):
        if not isinstance(size, int):
            raise RuntimeError(f"resize_ expects an int, but got {type(size).__name__}")
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def _share_memory_(self):
        self._untyped_storage = self._untyped_storage.share_memory_()
        return self

    def _share_fd_cpu_(self):
        return self._untyped_storage._share_fd_cpu_()

    def _share_filename_cpu_(self):
        return self._untyped_storage._share_filename_cpu_()

    def _write_file(self, f, is_real_file, save_size, element_size):
        return self._untyped_storage._write_file(f, is_real_file, save_size, element_size)

    def _deepcopy(self, memo):
        return self._new_wrapped_storage(self._untyped_storage.__deepcopy__(memo))

    def _moved(self, memory):
        return self if memory is self._untyped_storage else self._new_wrapped_storage(memory)

    def _to(self, dtype):
        memory = self._tensor().to(dtype, copy=True).untyped_storage()
        return TypedStorage(wrap_storage=memory, dtype=dtype, _internal=True)

    def _pickle_storage_type(self):
        return f"{_words[self.dtype]}Storage"

    def __reduce__(self):
        return _rebuild_typed, (self._untyped_storage, self.dtype)

    def __eq__(self, other):
        return isinstance(other, TypedStorage) and self._cdata == other._cdata and self.dtype == other.dtype

    __hash__ = object.__hash__

    @property
    def device(self):
        return self._untyped_storage.device

    @property
    def _cdata(self):
        return self._untyped_storage._cdata

    @property
    def filename(self):
        return self._untyped_storage.filename

    @property
    def is_cuda(self):
        _warn_typed_storage_removal()
        return self._untyped_storage.is_cuda

    @property
    def is_hpu(self):
        _warn_typed_storage_removal()
        return False

    @_warns
    def __len__(self):
        return self._size()

    @_warns
    def __getitem__(self, index):
        return self._getitem(index)

    @_warns
    def __setitem__(self, index, value):
        self._setitem(index, value)

    @_warns
    def __iter__(self):
        return iter(self._tensor().tolist())

    @_warns
    def __repr__(self):
        return _lines(self, f"TypedStorage(dtype={self.dtype}, ", self._size())

    @_warns
    def __sizeof__(self):
        return object.__sizeof__(self) + self._nbytes()

    @_warns
    def __copy__(self):
        return self._new_wrapped_storage(self._untyped_storage.clone())

    @_warns
    def __deepcopy__(self, memo):
        return self._deepcopy(memo)

    @_warns
    def untyped(self):
        return self._untyped_storage

    @_warns
    def size(self):
        return self._size()

    @_warns
    def nbytes(self):
        return self._nbytes()

    @_warns
    def data_ptr(self):
        return self._data_ptr()

    @_warns
    def element_size(self):
        return self._element_size()

    @_warns
    def get_device(self):
        return self._untyped_storage.get_device()

    @_warns
    def tolist(self):
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        return self._tensor().tolist()

    @_warns
    def clone(self):
        return self._new_wrapped_storage(self._untyped_storage.clone())

    @_warns
    def cpu(self):
        return self._moved(self._untyped_storage.cpu())

    @_warns
    def cuda(self, device=None, non_blocking=False):
        return self._moved(self._untyped_storage.cuda(device, non_blocking))

    @_warns
    def xpu(self, device=None, non_blocking=False):
        return self._moved(self._untyped_storage.xpu(device, non_blocking))

    @_warns
    def to(self, *, device, non_blocking=False):
        return self._moved(self._untyped_storage.to(device=device, non_blocking=non_blocking))

    @_warns
    def copy_(self, source, non_blocking=None):
        self._tensor().copy_(source._tensor() if isinstance(source, TypedStorage) else _bytes_as_tensor(source))
        return self

    @_warns
    def fill_(self, value):
        self._setitem(slice(0, self._size()), value)
        return self

    @_warns
    def resize_(self, size):
        return self._resize_(size)

    @_warns
    def resizable(self):
        return self._untyped_storage.resizable()

    @_warns
    def type(self, dtype=None, non_blocking=False):
        if dtype is None:
            name = self._pickle_storage_type()
            return f"torch.{name}" if self.device.type == "cpu" else f"torch.{self.device.type}.{name}"
        wanted = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", "")
        wanted = next(d for d, word in _words.items() if wanted.split(".")[-1] == f"{word}Storage")
        return self if wanted == self.dtype else self._to(wanted)

    @_warns
    def is_shared(self):
        return self._is_shared()

    @_warns
    def is_pinned(self, device="cuda"):
        return self._untyped_storage.is_pinned()

    @_warns
    def pin_memory(self, device="cuda"):
        return self._moved(self._untyped_storage.pin_memory())

    @_warns
    def share_memory_(self):
        return self._share_memory_()

    @_warns
    def pickle_storage_type(self):
        return self._pickle_storage_type()

    @classmethod
    def from_file(cls, filename, shared=False, size=0):
        """size elements of a file, mapped; shared: what is written reaches the file."""
        _warn_typed_storage_removal()
        if cls is TypedStorage:
            raise RuntimeError("from_file can only be called on derived classes")
        memory = UntypedStorage.from_file(filename, shared, size * cls._dtype.itemsize)
        return TypedStorage(wrap_storage=memory, dtype=cls._dtype, _internal=True)

    @classmethod
    def from_buffer(cls, *args, **kwargs):
        """from_buffer(buffer, byte_order="native", count=-1, offset=0): numbers with a copy of a buffer's bytes."""
        _warn_typed_storage_removal()
        return cls._from_buffer(*args, **kwargs)

    @classmethod
    def _from_buffer(cls, *args, **kwargs):
        if cls is TypedStorage:
            dtype = kwargs.pop("dtype", None) or _C.get_default_dtype()
        elif "dtype" in kwargs or len(args) == 5:
            raise RuntimeError(
                "from_buffer: 'dtype' can only be specified in UntypedStorage.from_buffer and TypedStorage.from_buffer"
            )
        else:
            cls._refuse_elsewhere()
            dtype = cls._dtype
        return TypedStorage(
            wrap_storage=UntypedStorage.from_buffer(*args, dtype=dtype, **kwargs), dtype=dtype, _internal=True
        )


def _check_wrapped(args, memory, dtype, device):
    start = "\nTypedStorage(*, wrap_storage, dtype): "
    if args:
        raise RuntimeError(start + "No positional arguments should be given when using 'wrap_storage'")
    if dtype is None:
        raise RuntimeError(start + "Argument 'dtype' must be specified")
    if not isinstance(dtype, _C.dtype):
        raise TypeError(start + f"Argument 'dtype' must be torch.dtype, not {type(dtype)}")
    if device is not None:
        raise RuntimeError(start + "Argument 'device' should not be specified when 'wrap_storage' is given")
    if not isinstance(memory, UntypedStorage):
        raise TypeError(start + f"Argument 'wrap_storage' must be UntypedStorage, but got {type(memory)}")


def _memory(args, dtype, device):
    """The bytes that a TypedStorage is made with: of a size, of a sequence's numbers, or none."""
    start = f"\nTypedStorage({', '.join(type(a).__name__ for a in args)}): "
    device = _C.device(device)
    if device.type not in ("cpu", "cuda", "xpu", "meta"):
        raise RuntimeError(start + f"Storage device not recognized: {device.type}")
    if len(args) > 1:
        raise RuntimeError(start + "Too many positional arguments")
    given = args[0] if args else 0
    if isinstance(given, (_C.Tensor, TypedStorage, UntypedStorage)):
        raise TypeError(start + f"Argument type not recognized: {type(given)}")
    if hasattr(given, "__index__"):
        return UntypedStorage(given.__index__() * dtype.itemsize, device=device)
    if not hasattr(given, "__len__"):
        raise TypeError(start + f"Argument type not recognized: {type(given)}")
    if isinstance(given, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(given).__name__}'")
    return _C.tensor(given, dtype=_STORED.get(dtype, dtype), device=device).untyped_storage()


def _rebuild_typed(untyped, dtype):
    return TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)


def _cast(dtype):
    def typed(self):
        _warn_typed_storage_removal()
        return self._to(dtype)

    def untyped(self):
        return TypedStorage(wrap_storage=self, dtype=_C.uint8, _internal=True)._to(dtype)

    return typed, untyped


def _legacy_storage(cls, args, wrap_storage, dtype, device):
    """torch.FloatStorage(...): a TypedStorage of the class's dtype, where the class is at home."""
    start = f"{cls.__name__}.__init__(): "
    if device is not None:
        raise RuntimeError(start + "keyword argument 'device' cannot be specified")
    if dtype is not None:
        raise RuntimeError(start + "keyword argument 'dtype' cannot be specified")
    if wrap_storage is None:
        if len(args) > 1:
            raise RuntimeError(start + f"Too many positional arguments: {len(args)} given, 1 is the most")
        return TypedStorage(*args, dtype=cls._dtype, device=cls._place, _internal=True)
    if args:
        raise RuntimeError(start + "No positional arguments should be given when using 'wrap_storage'")
    if not isinstance(wrap_storage, UntypedStorage):
        raise TypeError(start + f"Argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}")
    if wrap_storage.device.type != cls._place:
        raise RuntimeError(start + f"Device of 'wrap_storage' must be {cls._place}, but got {wrap_storage.device.type}")
    return TypedStorage(wrap_storage=wrap_storage, dtype=cls._dtype, _internal=True)


class _StorageType(type):
    """torch.FloatStorage and its like: a TypedStorage of the dtype is an instance."""

    @property
    def dtype(cls):
        _warn_typed_storage_removal()
        return cls._dtype

    def __instancecheck__(cls, instance):
        return (
            isinstance(instance, TypedStorage) and instance.dtype == cls._dtype and instance.device.type == cls._place
        )


_words = {
    _C.bool: "Bool",
    _C.uint8: "Byte",
    _C.int8: "Char",
    _C.int16: "Short",
    _C.int32: "Int",
    _C.int64: "Long",
    _C.float16: "Half",
    _C.bfloat16: "BFloat16",
    _C.float32: "Float",
    _C.float64: "Double",
    _C.complex64: "ComplexFloat",
    _C.complex128: "ComplexDouble",
    _C.quint8: "QUInt8",
    _C.qint8: "QInt8",
    _C.qint32: "QInt32",
    _C.quint4x2: "QUInt4x2",
    _C.quint2x4: "QUInt2x4",
}
_STORED = {
    _C.quint8: _C.uint8,
    _C.qint8: _C.int8,
    _C.qint32: _C.int32,
    _C.quint4x2: _C.uint8,
    _C.quint2x4: _C.uint8,
}  # what quantized numbers are in memory


class _LegacyStorage(TypedStorage, metaclass=_StorageType):
    _place = "cpu"
    _dtype = None

    @classmethod
    def _refuse_elsewhere(cls):
        if cls._place != "cpu":
            raise RuntimeError(f"Not available for {cls._place.upper()} storage")

    @classmethod
    def _new_shared(cls, size):
        return TypedStorage(
            wrap_storage=UntypedStorage._new_shared(size * cls._dtype.itemsize), dtype=cls._dtype, _internal=True
        )

    @classmethod
    def _new_with_weak_ptr(cls, *args, **kwargs):
        cls._refuse_elsewhere()
        raise NotImplementedError("storages have no weak pointers here")

    @classmethod
    def _new_shared_filename(cls, manager, handle, size):
        cls._refuse_elsewhere()
        memory = UntypedStorage.from_file(handle, True, size * cls._dtype.itemsize)
        return TypedStorage(wrap_storage=memory, dtype=cls._dtype, _internal=True)


def _dtype_to_storage_type_map():
    """{dtype: the name of its class of storages}."""
    return {dtype: f"{word}Storage" for dtype, word in _words.items()}


def _storage_type_to_dtype_map():
    return {f"{word}Storage": dtype for dtype, word in _words.items()}


def _storages_on(kind):
    """{name: type} of a kind of device: torch.FloatStorage, torch.cuda.FloatStorage and their like."""
    module = "torch" if kind == "cpu" else f"torch.{kind}"
    return {
        f"{word}Storage": _StorageType(
            f"{word}Storage", (_LegacyStorage,), {"_dtype": dtype, "_place": kind, "__module__": module}
        )
        for dtype, word in _words.items()
        if kind == "cpu" or word[0] != "Q"
    }


for _name, _dtype in {
    "bool": _C.bool,
    "byte": _C.uint8,
    "char": _C.int8,
    "short": _C.int16,
    "int": _C.int32,
    "long": _C.int64,
    "half": _C.float16,
    "bfloat16": _C.bfloat16,
    "float": _C.float32,
    "double": _C.float64,
    "complex_float": _C.complex64,
    "complex_double": _C.complex128,
}.items():
    _typed, _on_bytes = _cast(_dtype)
    setattr(TypedStorage, _name, _typed)
    setattr(UntypedStorage, _name, _on_bytes)
_named = _storages_on("cpu")
UntypedStorage.__module__ = TypedStorage.__module__ = "torch.storage"
