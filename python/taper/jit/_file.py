"""Files of traced modules: the graph with its weights, as torch.export writes it, and beside it in the zip the module
without its weights. Where the module's class is at hand, it comes back as it was; elsewhere, and in C, the graph runs.
"""

import io
import os
import pickle
import zipfile
from copy import deepcopy

from taper.jit import _module
from taper.nn.modules.module import Module

_MEMBER = "module.jit"


class _Called(Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.__dict__["_function"] = function

    def forward(self, *args, **kwargs):
        return self._function(*args, **kwargs)


class GraphModule(_module.RecursiveScriptModule):
    """A traced module whose class is not here: calls run its graph. Parameters and buffers are the graph's own."""

    def __init__(self, program, training):
        Module.__init__(self)
        from taper.export import _grow

        self.__dict__["_program"], self.__dict__["_moved"] = program, False
        _grow(self, program)
        Module.train(self, training)

    def forward(self, *args, **kwargs):
        if self._moved:
            raise RuntimeError(
                "a traced module without its class runs in the dtypes and on the device that it was saved with"
            )
        return self._program._run(args, kwargs)

    def _apply(self, fn, recurse=True):
        def about():
            return [(t.dtype, t.device) for t in [*self.parameters(), *self.buffers()]]

        before = about()
        super()._apply(fn, recurse)
        self.__dict__["_moved"] = self._moved or about() != before
        return self

    train, state_dict = Module.train, Module.state_dict
    __setattr__, __getattr__ = Module.__setattr__, Module.__getattr__

    @property
    def original_name(self):
        return "Module"

    @property
    def graph(self):
        return self._program.graph

    @property
    def code(self):
        """The graph as a function."""
        return self._program.graph_module.code

    def __reduce__(self):
        raise pickle.PicklingError("a module that torch.jit.load gave is saved with torch.jit.save")

    def __deepcopy__(self, memo):
        held = io.BytesIO()
        save(self, held, None)
        held.seek(0)
        return load(held, None, None)

    def __repr__(self):
        return "RecursiveScriptModule(original_name=Module)"


def _program(m):
    """The traced call as an exported program: for any batch size if it follows it, else for the example's; or None and
    why it cannot be captured ("": it was not traced)."""
    import taper
    from taper._dynamo import exc
    from taper.export import Dim, export

    if isinstance(m, GraphModule):
        return m._program, None
    if "_examples" not in m.__dict__:
        return None, ""
    (args, kwargs), original = m._examples, _module._original(m)
    module = deepcopy(original) if isinstance(original, Module) else _Called(original)
    tensors = [x for x in [*args, *kwargs.values()] if isinstance(x, taper.Tensor) and x.dim()]
    batch = {x.shape[0] for x in tensors}
    shapes = (
        [{0: Dim.AUTO} if isinstance(x, taper.Tensor) and x.dim() else None for x in [*args, *kwargs.values()]]
        if len(batch) == 1
        else None
    )
    state = taper.get_rng_state()
    try:
        for dynamic in (shapes, None):
            try:
                return export(module, args, kwargs, dynamic_shapes=dynamic), None
            except (exc.Unsupported, RuntimeError, ValueError, IndexError, TypeError) as error:
                why = str(error).splitlines()[0] if str(error) else type(error).__name__
    finally:
        taper.set_rng_state(state)
    return None, why


def _hollow(module):
    """The module without its weights."""
    made = deepcopy(module)
    for t in [*made.parameters(), *made.buffers()]:
        t.data = t.data.new_empty(0)
    return made


def save(m, f, extra_files):
    """Writes a traced module or function; gives the reason, or "", where no graph comes of it."""
    program, why = _program(m)
    if program is None:
        return why
    from taper import export

    held, rest = io.BytesIO(), io.BytesIO()
    program._about["training"] = bool(getattr(m, "training", False))
    export.save(program, held, extra_files=extra_files)
    original = _module._original(m)
    if not isinstance(m, GraphModule):
        try:
            _module._save_module(m, _hollow(original) if isinstance(original, Module) else original, rest, None)
        except (pickle.PicklingError, AttributeError, TypeError):  # of a class or function without a name of its own
            rest = io.BytesIO()
    with zipfile.ZipFile(held, "a") as archive:
        archive.writestr(_MEMBER, rest.getvalue())
    if hasattr(f, "write"):
        f.write(held.getbuffer())
    else:
        with open(os.fspath(f), "wb") as file:
            file.write(held.getbuffer())
    return None


def _member(f):
    """The module in the zip, b"" if there is only the graph, None if it is another kind of file."""
    try:
        with zipfile.ZipFile(f) as archive:
            if _MEMBER not in archive.namelist():
                return None
            if (
                archive.getinfo(_MEMBER).compress_type != zipfile.ZIP_STORED
            ):  # save packs nothing; what is packed may be any size once it is not
                raise RuntimeError(
                    f"torch.jit.load: '{_MEMBER}' in the file is packed, and was not written by torch.jit.save"
                )
            return archive.read(_MEMBER)
    except (zipfile.BadZipFile, OSError):
        return None
    finally:
        if hasattr(f, "seek"):
            f.seek(0)


def load(f, map_location, extra_files):
    """What save wrote; None where the file is another kind."""
    member = _member(f)
    if member is None:
        return None
    from taper import export

    names = dict.fromkeys(extra_files or ())
    program = export._load(f, map_location, names)
    for name, text in names.items():
        if text is not None:
            extra_files[name] = text.encode() if isinstance(text, str) else text
    try:
        module = _module._load_module(io.BytesIO(member), map_location, None) if member else None
    except (pickle.UnpicklingError, AttributeError):
        module = None
    if module is None:
        return GraphModule(program, program._about.get("training", False))
    original = _module._original(module)
    if isinstance(original, Module):
        tensors = [*original.named_parameters(remove_duplicate=False), *original.named_buffers(remove_duplicate=False)]
        if any(name not in program._tensors for name, _ in tensors):
            raise RuntimeError("torch.jit.load: the file's module has tensors that its graph lacks")
        for name, t in tensors:
            t.data = program._tensors[name].data
    return module
