"""What a file may name. A file that torch.load reads with weights_only=False is a program. Every other loader has its
file read by the library (src/io), which makes plain values and tensors itself, executes nothing, and asks here for any
other class or function by its full name. Nothing is looked up by what a file says: a name is on the loader's list, for
the use that the file makes of it, or the file is refused."""

import pickle

# What a file may do with a name: have it in a value, make an empty instance and set its state, call it with arguments.
VALUE, NEW, CALL = "value", "new", "call"
_MAY = {VALUE: (VALUE,), NEW: (VALUE, NEW), CALL: (VALUE, NEW, CALL)}
_DOES = {VALUE: "names", NEW: "makes an instance of", CALL: "calls"}

# The names of plain values and tensors, which the library knows (src/io/checkpoint/pickle_globals.c). It makes those
# values itself, but for what the two functions below make.
_PLAIN = {
    "builtins": "set bytearray complex",
    "collections": "OrderedDict Counter",
    "_codecs": "encode",
    "torch": "Size device Tensor UntypedStorage",
    "torch.storage": "UntypedStorage TypedStorage",
    "torch.nn.parameter": "Parameter",
    "torch._tensor": "_rebuild_from_type_v2",
    "torch.serialization": "_get_layout",
    "torch._utils": "_rebuild_tensor _rebuild_tensor_v2 _rebuild_tensor_v3 _rebuild_parameter "
    "_rebuild_parameter_with_state _rebuild_sparse_tensor _rebuild_nested_tensor _rebuild_meta_tensor_no_storage "
    "_rebuild_wrapper_subclass",
}
_PLAIN_CALLS = (
    "torch.serialization._get_layout",
    "torch._utils._rebuild_sparse_tensor",
    "torch._utils._rebuild_nested_tensor",
    "torch._tensor._rebuild_from_type_v2",  # of wrappers alone: the library makes other subclasses
)


def _plain(name):
    """The object behind a name of plain values; None for other names."""
    module, _, last = name.rpartition(".")
    from taper.storage import _named

    if module in ("torch", "torch.cuda") and last in _named:
        return _named[last]
    if last not in _PLAIN.get(module, "").split():
        return None
    from importlib import import_module

    ours = "taper" + module[len("torch") :] if module.startswith("torch") else module
    return getattr(import_module(ours), last)


class Names:
    """The names that a loader lets its files use, {full name: object} for each use."""

    def __init__(self, call=None, new=None, value=None):
        groups = (VALUE, value), (NEW, new), (CALL, call)
        self._listed = {name: (use, found) for use, group in groups for name, found in (group or {}).items()}

    def __iter__(self):
        return iter(self._listed)

    def find(self, name, use):
        """The one place where a name in a file becomes an object."""
        may, found = self._listed.get(name, (None, None))
        if may is None:
            may, found = CALL if name in _PLAIN_CALLS else VALUE, _plain(name)
        if found is None:
            raise pickle.UnpicklingError(f"Unsupported global: GLOBAL {name} was not an allowed global by default")
        if use not in _MAY[may]:
            only = "only name" if may == VALUE else "only make without arguments"
            raise pickle.UnpicklingError(f"the file {_DOES[use]} {name}, which a file may {only}")
        return found


def read_pickle(f, names, path=None):
    """The value of a file that is one pickle, or of its bytes, with no tensors in it."""
    from taper import _C

    data = f if isinstance(f, (bytes, bytearray, memoryview)) else None
    where = path or ("a pickle" if data is not None else f)
    return _C._File(where, data, allowed=list(names), pickle=True).value(names.find, None)
