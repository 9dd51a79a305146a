"""Modules of TorchScript files, which PyTorch's torch.jit.save wrote: the library interprets their code
(src/io/script), and what is here makes modules of torch.nn of them."""

import io
import os
import tempfile
import zipfile

from taper import _C
from taper.jit import _module
from taper.nn.modules.module import Module

_PLAIN, _PARAMETER, _BUFFER = range(3)


class ScriptObject:
    """An object of a scripted class that is no module."""

    def __init__(self, script):
        object.__setattr__(self, "_script", script)

    def __getattr__(self, name):
        script = object.__getattribute__(self, "_script")
        if name in script.methods():
            return lambda *args, **kwargs: _outside(script.call(name, _inside(args), _inside(kwargs)))
        if any(name == attribute for attribute, _ in script.attributes()):
            return _outside(script.get(name))
        raise AttributeError(f"'{script.class_name}' object has no attribute '{name}'")

    def __setattr__(self, name, value):
        self._script.set(name, _inside(value))

    def __repr__(self):
        return f"<ScriptObject {self._script.class_name}>"


def _inside(value):
    """A value for a program: without the Python objects around its own."""
    if isinstance(value, (ScriptObject, ProgramModule)):
        return value._script
    if type(value) in (tuple, list):
        return type(value)(_inside(item) for item in value)
    if type(value) is dict:
        return {key: _inside(item) for key, item in value.items()}
    return value


def _outside(value):
    if isinstance(value, _C._ScriptObject):
        return ProgramModule(value) if value.is_module else ScriptObject(value)
    if type(value) in (tuple, list):
        return type(value)(_outside(item) for item in value)
    return value


class ProgramModule(_module.RecursiveScriptModule):
    """A module of a TorchScript file. Its parameters and buffers are the program's own tensors."""

    def __init__(self, script, known=None):
        Module.__init__(self)
        own = self.__dict__
        own["_script"], own["_methods"] = script, frozenset(script.methods())
        own["_changing"] = []
        known = [] if known is None else known
        known.append(self)
        for name, kind in script.attributes():
            own.setdefault("_names", []).append(name)
            value = script.get(name)
            if name == "training":
                own["training"] = value
            elif isinstance(value, _C._ScriptObject) and value.is_module:
                self._modules[name] = next(
                    (module for module in known if module._script.same(value)), None
                ) or ProgramModule(value, known)
            elif kind == _PARAMETER and (value is None or isinstance(value, _C.Tensor)):
                self._parameters[name] = value
            elif kind == _BUFFER and (value is None or isinstance(value, _C.Tensor)):
                self._buffers[name] = value
        for name in [*self._parameters, *self._buffers]:
            if any(f".{name} = " in script.code(method) for method in self._methods):
                self._changing.append(name)

    # ---- Calls ----
    def _call(self, method, args, kwargs):
        result = self._script.call(method, _inside(args), _inside(kwargs))
        for module in self.modules():
            module._look_again()
        return _outside(result)

    def _look_again(self):
        """Tensors that code has put in the place of others."""
        for name in self._changing:
            parts = self._parameters if name in self._parameters else self._buffers
            parts[name] = self._script.get(name)

    def forward(self, *args, **kwargs):
        if "forward" not in self._methods:
            raise NotImplementedError(f"'{self.original_name}' has no method 'forward'")
        return self._call("forward", args, kwargs)

    # ---- Attributes ----
    def __getattr__(self, name):
        own = self.__dict__
        for parts in ("_parameters", "_buffers", "_modules"):
            if name in own.get(parts, ()):
                return own[parts][name]
        if name in own.get("_methods", ()):
            return lambda *args, **kwargs: self._call(name, args, kwargs)
        if name in own.get("_names", ()):
            return _outside(own["_script"].get(name))
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name, value):
        if name not in self.__dict__.get("_names", ()):
            Module.__setattr__(self, name, value)
            return
        self._script.set(name, _inside(value))
        for parts in (self._parameters, self._buffers, self._modules):
            if name in parts:
                parts[name] = value
        if name == "training":
            self.__dict__[name] = value

    def _apply(self, fn, recurse=True):
        Module._apply(self, fn, recurse)
        for parts in (self._parameters, self._buffers):
            for name, value in parts.items():
                self._script.set(name, value)
        return self

    train, state_dict = Module.train, Module.state_dict

    # ---- What it is ----
    @property
    def original_name(self):
        return self._script.class_name.rpartition(".")[2]

    @property
    def code(self):
        return self._script.code("forward")

    @property
    def code_with_constants(self):
        return self.code, None

    @property
    def graph(self):
        return _module.Graph(self.code)

    inlined_graph = graph

    def __repr__(self):
        return _module._tree("RecursiveScriptModule", self)

    def get_debug_state(self):
        return None

    # ---- Files ----
    def save(self, f, _extra_files=None):
        """Writes the program with its attributes as they are now; PyTorch reads it too."""
        save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files=None):
        held = io.BytesIO()
        save(self, held, _extra_files)
        return held.getvalue()

    def __reduce__(self):
        import pickle

        raise pickle.PicklingError("a module that torch.jit.load gave is saved with torch.jit.save")

    def __deepcopy__(self, memo):
        return load(io.BytesIO(self.save_to_buffer()), None, None)

    def __copy__(self):
        return ProgramModule(self._script)


def save(m, f, extra_files):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.pt")
        m._script.save(path)
        if extra_files:
            with zipfile.ZipFile(path, "a") as archive:
                for name, text in extra_files.items():
                    archive.writestr(f"archive/extra/{name}", text)
        with open(path, "rb") as file:
            data = file.read()
    if hasattr(f, "write"):
        f.write(data)
        return
    with open(os.fspath(f), "wb") as file:
        file.write(data)


def load(f, map_location, extra_files):
    """The module of a TorchScript file, a path or a file object."""
    if hasattr(f, "read"):
        name, data = getattr(f, "name", "memory"), f.read()
        script = _C._script_load(str(name), data)
        archive = io.BytesIO(data)
    else:
        archive = os.fspath(f)
        script = _C._script_load(archive, None)
    if extra_files:
        with zipfile.ZipFile(archive) as opened:
            for member in opened.namelist():
                _, _, name = member.partition("/extra/")
                if name in extra_files:
                    extra_files[name] = opened.read(member)
    module = ProgramModule(script)
    if map_location is not None:
        module.to(map_location)
    return module
