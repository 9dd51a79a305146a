"""torch.save and torch.load: PyTorch's own files, both ways.

What is saved names PyTorch's modules, so that PyTorch reads it. With weights_only (the default) what is loaded is read
by the library, which executes nothing; otherwise Python's unpickler does what the file says.
"""

import os
import pickle
import threading
from contextlib import contextmanager

import taper
from taper import _C, _hook
from taper._file_names import Names
from taper.storage import TypedStorage, UntypedStorage, _named, _on_storage

DEFAULT_PROTOCOL = 2
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
MAP_LOCATION = FILE_LIKE = object  # for annotations


class SourceChangeWarning(Warning):
    """That a class was other when it was saved; PyTorch warned so of its oldest files."""


class LoadEndianness:
    """The byte order of files that do not say theirs."""

    NATIVE, LITTLE, BIG = "native", "little", "big"


_settings = {"endianness": None, "crc32": True, "mmap": 2}


def get_default_load_endianness():
    return _settings["endianness"]


def set_default_load_endianness(endianness):
    if endianness not in (None, LoadEndianness.NATIVE, LoadEndianness.LITTLE, LoadEndianness.BIG):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _settings["endianness"] = endianness


def get_crc32_options():
    return _settings["crc32"]


def set_crc32_options(compute_crc32):
    """Remembered; checksums are always written here, as they cost next to nothing."""
    _settings["crc32"] = compute_crc32


def get_default_mmap_options():
    """mmap.MAP_PRIVATE, or mmap.MAP_SHARED: what is written to mapped tensors reaches the file."""
    return _settings["mmap"]


class set_default_mmap_options:
    """Sets it from now on, or within a `with`."""

    def __init__(self, flags):
        if flags not in (1, 2):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or "
                f"mmap.MAP_SHARED, but got {flags}"
            )
        self.before, _settings["mmap"] = _settings["mmap"], flags

    def __enter__(self):
        pass

    def __exit__(self, *error):
        _settings["mmap"] = self.before


class _SerializationTls(threading.local):
    """What contexts of a thread ask of torch.save."""

    skip_data = materialize_fake_tensors = False


_serialization_tls = _SerializationTls()


class skip_data:
    """`with skip_data():` torch.save leaves room for the bytes of storages and does not write them: they are zeros in
    the file."""

    def __init__(self, materialize_fake_tensors=False):
        self.fake = materialize_fake_tensors

    def __enter__(self):
        self.before = _serialization_tls.skip_data, _serialization_tls.materialize_fake_tensors
        _serialization_tls.skip_data, _serialization_tls.materialize_fake_tensors = True, self.fake

    def __exit__(self, *error):
        _serialization_tls.skip_data, _serialization_tls.materialize_fake_tensors = self.before


def _blank(storage):
    """As many bytes, all zero, which take no memory before they are read."""
    return _C._functions["zeros"](storage.nbytes(), dtype=_C.uint8).untyped_storage()


# ---- What weights_only lets through ----
_safe_globals = []


def _full_name(entry):
    """(name in files, object) of an entry: a class or function, or a tuple of one with its name."""
    if isinstance(entry, tuple):
        return entry[1], entry[0]
    module = entry.__module__  # None for a method of a class that is written in C
    return f"{_torch_name(module) or module}.{entry.__qualname__}" if module else entry.__qualname__, entry


def add_safe_globals(safe_globals):
    """Lets classes and functions be used by files that are loaded with weights_only."""
    for entry in safe_globals:
        if entry not in _safe_globals:
            _safe_globals.append(entry)


def get_safe_globals():
    return list(_safe_globals)


def clear_safe_globals():
    _safe_globals.clear()


def safe_names():
    """The names that files which are loaded with weights_only may use."""
    return Names(call=dict(map(_full_name, _safe_globals)))


class safe_globals:
    """`with safe_globals([Class]):` lets them through inside of it."""

    def __init__(self, safe_globals):
        self.entries = safe_globals

    def __enter__(self):
        self.before = get_safe_globals()
        add_safe_globals(self.entries)

    def __exit__(self, *error):
        _safe_globals[:] = self.before


def get_unsafe_globals_in_checkpoint(f):
    """The names in a file that weights_only would refuse."""
    allowed = {_full_name(entry)[0] for entry in _safe_globals}
    with _source(f) as (path, memory):
        return [name for name in _C._File(path, memory, any_global=True).globals() if name not in allowed]


# ---- Names: Taper's modules are PyTorch's in files ----
def _torch_name(module):
    """What PyTorch calls a module of Taper's; None for others."""
    if module != "taper" and not module.startswith("taper."):
        return None
    rest = module[len("taper.") :]
    return rest if rest.partition(".")[0] in _hook.PACKAGES else ("torch." + rest).rstrip(".")


def _resolve(module, name):
    """A class or function by the name that it has in files; None where the module is not one of PyTorch's."""
    ours = module if module == "taper" or module.startswith("taper.") else _hook.taper_name(module)
    if ours is None:
        return None
    from importlib import import_module

    found = None
    try:
        found = import_module(ours)
        for part in name.split("."):
            found = getattr(found, part)
        return found
    except (ModuleNotFoundError, AttributeError):
        if ours.startswith("taper.nn.modules.") and hasattr(taper.nn, name):
            return getattr(taper.nn, name)
        raise AttributeError(f"Can't get attribute '{name}' on module '{module}': it is not in Taper") from None


def _get_layout(name):
    """Layouts are pickled by their names."""
    return getattr(taper, name.rpartition(".")[2])


# ---- Devices ----
_packages = []


def register_package(priority, tagger, deserializer):
    """Another kind of place: tagger(storage) names it, deserializer(storage, location) goes there."""
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def location_tag(storage):
    """Where a storage is: "cpu", "cuda:0"."""
    for _, tagger, _ in _packages:
        if (tag := tagger(storage)) is not None:
            return tag
    return "cpu" if storage.device.type == "cpu" else str(storage.device)


def default_restore_location(storage, location):
    """The storage at that place."""
    for _, _, deserializer in _packages:
        if (moved := deserializer(storage, location)) is not None:
            return moved
    if location == "cpu":
        return storage
    kind = location.partition(":")[0]
    if kind == "meta":
        return UntypedStorage(storage.nbytes(), device="meta")
    if kind in ("cuda", "xpu"):
        return storage.untyped().to(device=_C.device(kind, _validate_device(location, kind)))
    raise RuntimeError(f"don't know how to restore data location of {type(storage).__name__} (tagged with {location})")


def _validate_device(location, kind):
    """The index of a location on an accelerator, which must be there."""
    word, count = kind.upper(), _C._gpu_count(kind)
    if not count:
        raise RuntimeError(
            f"Attempting to deserialize object on a {word} device but torch.{kind}.is_available() is False. If you "
            "are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map "
            "your storages to the CPU."
        )
    index = _C.device(location).index
    index = _C._gpu_current(kind) if index is None else index
    if index >= count:
        raise RuntimeError(
            f"Attempting to deserialize object on {word} device {index} but torch.{kind}.device_count() is {count}. "
            "Please use torch.load with map_location to map your storages to an existing device."
        )
    return index


def validate_cuda_device(location):
    return _validate_device(location, "cuda")


def _restore_by(map_location):
    """restore(storage, location) for a map_location of any kind."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(storage, str(map_location.get(location, location)))
    if isinstance(map_location, bytes):
        map_location = map_location.decode("ascii")
    if isinstance(map_location, (str, int, _C.device)):
        place = str(_C.device(map_location))
        return lambda storage, location: default_restore_location(storage, place)

    def restore(storage, location):
        moved = map_location(storage, location)
        return default_restore_location(storage, location) if moved is None else moved

    return restore


def normalize_storage_type(storage_type):
    return getattr(taper, storage_type.__name__)


def storage_to_tensor_type(storage):
    return getattr(taper, type(storage).__name__.replace("Storage", "Tensor"))


class StorageType:
    """The type of a storage that a file names: its dtype."""

    def __init__(self, name):
        self.name = name

    @property
    def dtype(self):
        return _named[self.name]._dtype if self.name in _named else _C.uint8


# ---- Saving ----
_pickling = threading.Lock()


@contextmanager
def _importable():
    """While pickling, `torch` is Taper: the types that are called torch.Size and so on can be found."""
    import sys

    names = {"torch": taper, "torch.storage": taper.storage}
    with _pickling:
        before = {name: sys.modules.get(name) for name in names}
        sys.modules.update(names)
        try:
            yield
        finally:
            for name, module in before.items():
                if module is None:
                    del sys.modules[name]
                else:
                    sys.modules[name] = module


def _name_after_torch(value):
    return str(value).rpartition(".")[2]


def _reduce_tensor(tensor):
    """As pickle does it, but that the class of a tensor with attributes is named, as PyTorch does."""
    rebuild, arguments = tensor.__reduce_ex__(DEFAULT_PROTOCOL)
    if arguments[1] is None:
        arguments = (arguments[0], _C.Tensor, *arguments[2:])
    return rebuild, arguments


_reductions = {
    _C.Tensor: _reduce_tensor,
    _C.dtype: _name_after_torch,
    _C.memory_format: _name_after_torch,
    _C.layout: lambda layout: (_get_layout, (str(layout),)),
    _C.Size: lambda size: (_C.Size, (tuple(size),)),
    _C.device: lambda device: (_C.device, (device.type,) if device.index is None else (device.type, device.index)),
}


class _Storages:
    """The storages that a pickle names, in the order of their first mention."""

    def __init__(self, legacy):
        self.keys, self.found, self.dtypes, self.legacy = {}, [], {}, legacy

    def identify(self, obj):
        """The persistent id of a storage; None for anything else."""
        if isinstance(obj, TypedStorage):
            storage, dtype, kind, numel = (
                obj._untyped_storage,
                obj.dtype,
                _named[obj._pickle_storage_type()],
                obj._size(),
            )
        elif isinstance(obj, UntypedStorage):
            storage, dtype, kind, numel = (
                obj,
                _C.uint8,
                _named["ByteStorage"] if self.legacy else UntypedStorage,
                obj.nbytes(),
            )
        else:
            return None
        if storage.nbytes() and self.dtypes.setdefault(storage.data_ptr(), dtype) != dtype:
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        key = self.keys.get(storage._cdata)
        if key is None:
            key = self.keys[storage._cdata] = str(len(self.keys))
            self.found.append((storage, dtype))
        identity = "storage", kind, key, location_tag(storage), numel
        return (*identity, None) if self.legacy else identity


def _dumps(obj, storages, pickle_module, protocol):
    """The pickle of obj, with PyTorch's names in it."""
    import copyreg
    import io

    class Pickler(
        pickle_module.Pickler
    ):  # a class is a cycle of references: what is saved is not to wait for the collector with it
        def persistent_id(self, obj):
            return self.storages.identify(obj)

    buffer = io.BytesIO()
    pickler = Pickler(buffer, protocol=protocol)
    pickler.storages = storages
    pickler.dispatch_table = {**copyreg.dispatch_table, **getattr(pickler, "dispatch_table", {}), **_reductions}
    with _importable():
        pickler.dump(obj)
    return _C._rename_pickle(buffer.getbuffer(), _torch_name)


def save(
    obj,
    f,
    pickle_module=pickle,
    pickle_protocol=DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization=True,
    _disable_byteorder_record=False,
):
    """Saves an object to a path or a file object. A file at the path stays as it was until the new one is complete on
    the disk."""
    path = os.fspath(f) if isinstance(f, (str, os.PathLike)) else None
    if path is None and not hasattr(f, "write"):
        raise AttributeError(
            f"expected 'f' to be string, path, or a file-like object with a 'write' attribute, got {type(f).__name__}"
        )
    if path is not None and not os.path.isdir(folder := os.path.dirname(path) or "."):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    storages = _Storages(not _use_new_zipfile_serialization)
    data = _dumps(obj, storages, pickle_module or pickle, pickle_protocol)
    if _use_new_zipfile_serialization:
        name = os.path.splitext(os.path.basename(path))[0] if path is not None else "archive"
        memory = [_blank(storage) if _serialization_tls.skip_data else storage for storage, _ in storages.found]
        _C._write_pt(path or "", None if path is not None else f.write, name or "archive", data, memory)
        if path is None and hasattr(f, "flush"):  # so that it can be read by its name at once
            f.flush()
        return
    pieces = list(_legacy_pieces(data, storages, pickle_protocol))
    if path is not None:
        _C._write_pieces(path, pieces)
    else:
        for piece in pieces:
            f.write(piece)


def _legacy_pieces(data, storages, protocol):
    """The parts of a file of the format before zip archives."""
    about = {
        "protocol_version": PROTOCOL_VERSION,
        "little_endian": True,
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for part in MAGIC_NUMBER, PROTOCOL_VERSION, about:
        yield pickle.dumps(part, protocol)
    yield data
    yield pickle.dumps([str(i) for i in range(len(storages.found))], protocol)
    for storage, dtype in storages.found:
        yield (storage.nbytes() // dtype.itemsize).to_bytes(8, "little")
        yield memoryview(_on_storage(_C.uint8, storage.cpu()))


# ---- Loading ----
@contextmanager
def _source(f):
    """(path, None) of a file on disk, or (name, bytes) of a file object from where it stands."""
    if isinstance(f, (str, os.PathLike)):
        os.stat(f)  # raises what Python raises where there is no file
        yield os.fspath(f), None
        return
    if not hasattr(f, "read"):
        raise AttributeError(f"expected 'f' to be a path or a file object, which has read(), got {type(f).__name__}")
    for needed in "seek", "tell":
        if not hasattr(f, needed):
            raise AttributeError(
                f"'{type(f).__name__}' object has no attribute '{needed}'. You can only torch.load from a file that "
                "is seekable. Please pre-load the data into a buffer like io.BytesIO and try to load from it instead."
            )
    name, view = str(getattr(f, "name", type(f).__name__)), _view_of(f)
    if not len(view):
        raise EOFError("Ran out of input")
    yield name, view


def _view_of(f):
    import io

    if isinstance(f, io.BytesIO):
        at, view = f.tell(), f.getbuffer()
        f.seek(0, 2)
        return view[at:]
    return f.read()


def _leave_at(f, end, memory):
    """Leaves a file object behind what was read of it: others may follow."""
    if memory is not None and getattr(f, "seekable", lambda: False)():
        f.seek(end - len(memory), 2)


def _weights_only_wanted(weights_only, pickle_module):
    def forced(name):
        return os.getenv(name, "0").lower() in ("1", "y", "yes", "true")

    if forced("TORCH_FORCE_WEIGHTS_ONLY_LOAD"):
        return True
    if weights_only is None:
        return pickle_module is None and not forced("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    return weights_only


_ADVICE = """Weights only load failed: {error}

torch.load reads tensors and plain values unless weights_only=False is given, as in PyTorch since 2.6. Use \
weights_only=False only for files whose
source you trust, since they can then run any program; or let the classes that a file names through with \
torch.serialization.add_safe_globals
or the `torch.serialization.safe_globals` context manager."""


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """Loads what torch.save has written, Taper's or PyTorch's, from a path or a file object."""
    weights_only = _weights_only_wanted(weights_only, pickle_module)
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a string or os.PathLike object in order to use mmap argument")
    restore = _restore_by(map_location)
    with _source(f) as (path, memory):
        if not weights_only:
            return _load_anything(
                _open(path, memory, mmap, ()), f, memory, restore, pickle_module or pickle, pickle_load_args
            )
        try:
            return _load_listed(f, path, memory, mmap, restore, safe_names())
        except pickle.UnpicklingError as error:
            raise pickle.UnpicklingError(_ADVICE.format(error=error)) from None


def _open(path, memory, mmap, names):
    try:
        file = _C._File(
            path,
            memory,
            map=bool(mmap),
            map_shared=_settings["mmap"] == 1,
            allowed=list(names),
            big_endian=_settings["endianness"] == LoadEndianness.BIG,
        )
    except RuntimeError as error:
        if "judging by how it starts" in str(error):  # PyTorch takes it for a pickle, which it is not
            if not (os.path.getsize(path) if memory is None else len(memory)):
                raise EOFError("Ran out of input") from None
            raise pickle.UnpicklingError(str(error)) from None
        raise
    if file.format not in ("pt", "old pt"):
        raise RuntimeError(f"'{path}' is not a file of PyTorch's but {file.format}: taper.io.load reads it")
    return file


def _load_listed(f, path, memory, mmap, restore, names):
    """By the library's reader, which executes nothing: names are those that the file may use."""
    file = _open(path, memory, mmap, names)
    value = file.value(names.find, restore)
    if file.end:
        _leave_at(f, file.end, memory)
    return value


def load_listed(f, map_location, names_for):
    """What torch.save has written, for loaders with lists of their own: names_for(names in the file) gives the
    Names."""
    with _source(f) as (path, memory):
        names = names_for(_C._File(path, memory, any_global=True).globals())
        return _load_listed(f, path, memory, False, _restore_by(map_location), names)


def _unpickler(pickle_module, persistent_load):
    class Unpickler(pickle_module.Unpickler):
        def find_class(self, module, name):
            if name.endswith("Storage") and name in _named and module in ("torch", "torch.cuda"):
                return StorageType(name)
            found = _resolve(module, name)
            return super().find_class(module, name) if found is None else found

    Unpickler.persistent_load = staticmethod(persistent_load)
    return Unpickler


def _texts(values):
    """Texts that were read with encoding="bytes"."""
    return [value.decode("ascii") if isinstance(value, bytes) else value for value in values]


def _load_anything(file, f, memory, restore, pickle_module, arguments):
    """By Python's unpickler."""
    import io

    if file.format == "old pt":
        with open(f, "rb") if memory is None else io.BytesIO(memory) as stream:
            value = _load_legacy(stream, restore, pickle_module, arguments)
            _leave_at(f, stream.tell(), memory)
            return value
    storages = {}

    def persistent_load(saved):
        what, kind, key, location, numel = _texts(saved[:5])
        if what != "storage":
            raise RuntimeError(f"Unknown typename for persistent_load, expected 'storage' but got '{what}'")
        dtype = _C.uint8 if kind is UntypedStorage else kind.dtype
        if key not in storages:
            read = file.storage(key, numel * dtype.itemsize, None if kind is UntypedStorage else dtype)
            storages[key] = TypedStorage(wrap_storage=restore(read, location), dtype=dtype, _internal=True)
        return storages[key]

    arguments.setdefault("encoding", "utf-8")
    return _unpickler(pickle_module, persistent_load)(io.BytesIO(file.pickle()), **arguments).load()


def _load_legacy(f, restore, pickle_module, arguments):
    """A file of the format before zip archives, by Python's unpickler: storages are filled behind the object that holds
    them."""
    storages, waiting = {}, []

    def typed_storage(untyped, dtype):
        typed = TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)
        typed._waiting = waiting
        return typed

    def persistent_load(saved):
        saved = _texts(saved)
        if saved[0] == "module":  # (class, its file, its source) of the oldest files
            return saved[1]
        what, kind, key, location, numel, part = saved
        if what != "storage":
            raise RuntimeError(f"Unknown saved id type: {what}")
        if key not in storages:
            dtype = _C.uint8 if kind is UntypedStorage else kind.dtype
            read = UntypedStorage(numel * dtype.itemsize)
            storages[key] = typed_storage(restore(read, location), dtype), read, numel
        whole = storages[key][0]
        if part is None:
            return whole
        _, first, count = part
        size = whole.dtype.itemsize
        return typed_storage(whole._untyped_storage[first * size : (first + count) * size], whole.dtype)

    arguments.setdefault("encoding", "utf-8")
    if pickle_module.load(f, **arguments) != MAGIC_NUMBER:
        raise RuntimeError("Invalid magic number; corrupt file?")
    if pickle_module.load(f, **arguments) != PROTOCOL_VERSION:
        raise RuntimeError("Invalid protocol version")
    pickle_module.load(f, **arguments)
    result = _unpickler(pickle_module, persistent_load)(f, **arguments).load()
    for key in _texts(pickle_module.load(f, **arguments)):
        typed, read, numel = storages[key]
        if int.from_bytes(f.read(8), "little") != numel:
            raise RuntimeError(f"storage '{key}' has another size than its pickle says")
        data = f.read(read.nbytes())
        if len(data) != read.nbytes():
            raise RuntimeError(f"storage '{key}' ends too early")
        if data:
            into = _on_storage(_C.uint8, read)
            into.copy_(_C.frombuffer(bytearray(data), dtype=_C.uint8))
            if typed._untyped_storage is not read:
                typed._untyped_storage.copy_(read)
    from taper._utils import _resolve as resolve

    for made, tensor, metadata in waiting:
        made.copy_(resolve(tensor, metadata))
    return result


def mkdtemp():
    """A temporary folder for the time of a `with`."""
    from tempfile import TemporaryDirectory

    return TemporaryDirectory()
