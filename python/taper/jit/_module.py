"""Scripted and traced modules and functions: the Python behind them, under the classes and names that PyTorch's
have."""

import functools
import inspect
import sys
import warnings
import weakref

from taper import _C
from taper._C import Tensor
from taper.jit import _text
from taper.nn.modules.module import Module
from taper.nn.parameter import is_lazy

_FORMAT = "taper.jit 1"
_tracing = False
scripted = weakref.WeakSet()  # functions that this program has passed to torch.jit.script or trace: files may name them


class Error(RuntimeError):
    """An error in a script."""


class TracerWarning(Warning):
    """What a trace does not see."""


class TracingCheckError(Exception):
    """A traced function that does not give the same each time."""


def _captured(function):
    """The function's graphs, as torch.compile's; what no graph can repeat runs as it is."""
    from taper._dynamo.eval_frame import captured

    return captured(function, quiet=True)


def _differentiated(args, kwargs):
    """Do arguments of a call require gradients? Then it runs as Python: a graph's backward cannot be differentiated
    again, as those of scripts and traces can in PyTorch (forces in a loss, penalties on gradients)."""
    if not _C.is_grad_enabled():
        return False
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            if value.requires_grad:
                return True
        elif isinstance(value, (list, tuple, dict)):
            parts = value.values() if isinstance(value, dict) else value
            if _differentiated(tuple(parts), {}):
                return True
    return False


class _Value:
    """What a graph gives: of any type, since nothing here infers types."""

    def type(self):
        from taper import AnyType

        return AnyType.get()


class Graph:
    """Stands for the graph of PyTorch's script compiler, which is not here; its text is the Python source."""

    def outputs(self):
        return iter([_Value()])

    def __init__(self, source):
        self._source = source

    def __str__(self):
        return self._source

    __repr__ = __str__

    def copy(self):
        return Graph(self._source)


class _GraphTexts:
    """What scripts and traces say of their graphs."""

    @property
    def graph(self):
        try:
            return Graph(self.code)
        except (OSError, TypeError):  # a function of C, or one whose file is not there
            return Graph("")

    inlined_graph = graph

    def graph_for(self, *args, **kwargs):
        return self.graph


class ScriptFunction(_GraphTexts):
    """A scripted function: calls run its graphs."""

    def __init__(self, function):
        functools.update_wrapper(self, function)
        self._function, self._graphs = function, _captured(function)
        if inspect.isfunction(function):
            scripted.add(function)

    def __call__(self, *args, **kwargs):
        return (self._function if _differentiated(args, kwargs) else self._graphs)(*args, **kwargs)

    @property
    def name(self):
        return self._function.__name__

    qualified_name = name

    @property
    def code(self):
        """The function's Python source."""
        return inspect.getsource(self._function)

    def save(self, f, _extra_files=None):
        save(self, f, _extra_files)

    def _has_name(self):
        """Does the function's name lead here, as where script was its decorator?"""
        found = sys.modules.get(self._function.__module__)
        for part in self._function.__qualname__.split("."):
            found = getattr(found, part, None)
        return found is self

    def __reduce__(self):
        return self._function.__qualname__ if self._has_name() else (ScriptFunction, (self._function,))


class ScriptModule(_GraphTexts, Module):
    """The base of scripted modules; a class may derive from it and mark methods with script_method, or define some by
    their text."""

    def define(self, src):
        """Adds methods from their text, in which names are those of the caller."""
        names = _text.names_of_caller(2)
        _text.compiled(src, names)
        self.__dict__.setdefault("_defined", []).append(src)

    def _method(self, name):
        """A method that was defined by its text; None if there is none."""
        for src in reversed(self.__dict__.get("_defined", ())):
            function = _text.compiled(src).get(name)
            if function is not None:
                return function.__get__(self)
        return None

    def forward(self, *args, **kwargs):
        method = self._method("forward")
        if method is None:
            raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')
        return method(*args, **kwargs)

    def __getattr__(self, name):
        method = None if name.startswith("__") else self._method(name)
        return super().__getattr__(name) if method is None else method

    def save(self, f, _extra_files=None):
        save(self, f, _extra_files)

    @property
    def original_name(self):
        return type(self).__name__

    @property
    def code(self):
        """The forward's Python source."""
        if self.__dict__.get("_defined"):
            return "\n".join(self._defined)
        return inspect.getsource(type(_original(self)).forward)


class RecursiveScriptModule(ScriptModule):
    """A module that was scripted: it shares parameters, buffers and children with the module, and calls it."""

    def __init__(self, module):
        super().__init__()
        own = self.__dict__
        own["_original"], own["_graphs"] = module, _captured(module)
        for name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            own[name] = module.__dict__[name]
        own["training"] = module.training

    def forward(self, *args, **kwargs):
        return (self._original if _differentiated(args, kwargs) else self._graphs)(*args, **kwargs)

    def __getattr__(self, name):
        original = self.__dict__.get("_original")
        if original is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return getattr(original, name)

    def __setattr__(self, name, value):
        original = self.__dict__.get("_original")
        if original is None or name.startswith("_"):
            super().__setattr__(name, value)
        else:
            setattr(original, name, value)
            if name == "training":
                self.__dict__[name] = value

    def train(self, mode=True):
        self._original.train(mode)
        self.__dict__["training"] = mode
        return self

    def state_dict(self, *args, **kwargs):
        return self._original.state_dict(*args, **kwargs)

    @property
    def original_name(self):
        return type(self._original).__name__

    def __reduce__(self):
        return type(self), (self._original,)

    def __deepcopy__(self, memo):
        from copy import deepcopy

        return type(self)(deepcopy(self._original, memo))

    def __repr__(self):
        return _tree(type(self).__name__, self._original)


class TracedModule(RecursiveScriptModule):
    """A module that was traced."""


class TopLevelTracedModule(TracedModule):
    """The outermost of traced modules."""


def _tree(kind, module):
    """The modules with the names of their classes, as PyTorch prints scripted ones."""
    name = f"original_name={type(_original(module)).__name__}"
    children = [(key, child) for key, child in module.named_children()]
    if not children:
        return f"{kind}({name})"
    lines = [f"({key}): " + _tree(kind, child).replace("\n", "\n  ") for key, child in children]
    return f"{kind}(\n  {name}\n  " + "\n  ".join(lines) + "\n)"


def _original(obj):
    """What was scripted."""
    return obj.__dict__.get("_original", obj) if isinstance(obj, Module) else getattr(obj, "_function", obj)


def _refuse_lazy(module):
    waiting = [name for name, value in [*module._parameters.items(), *module._buffers.items()] if is_lazy(value)]
    if waiting:
        raise RuntimeError(
            f"'{type(module).__name__}' has uninitialized parameters {waiting}. Did you forget to run a forward pass?"
        )


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """A module or function for use where PyTorch would have compiled it: it runs as Python. Classes come back as they
    are."""
    if isinstance(obj, (ScriptModule, ScriptFunction)) or inspect.isclass(obj):
        return obj
    if isinstance(obj, Module):
        _refuse_lazy(obj)
        return RecursiveScriptModule(obj)
    if callable(obj):
        return ScriptFunction(obj)
    return obj  # lists and dictionaries


def script_method(fn):
    """Marks a method of a ScriptModule."""
    return fn


def is_tracing():
    """Does torch.jit.trace run this call?"""
    return _tracing


def _run(function, args, kwargs):
    """One call with the example inputs, as tracing makes it."""
    global _tracing
    _tracing = True
    try:
        function(*args, **kwargs)
    finally:
        _tracing = False


def trace(
    func,
    example_inputs=None,
    optimize=None,
    check_trace=True,
    check_inputs=None,
    check_tolerance=1e-5,
    strict=True,
    _force_outplace=False,
    _module_class=None,
    _compilation_unit=None,
    example_kwarg_inputs=None,
    _store_inputs=True,
):
    """Calls the module or function once with the example inputs and gives it back to be called like a traced one."""
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError("one of example_inputs or example_kwarg_inputs must be specified")
    if isinstance(func, (ScriptModule, ScriptFunction)):
        warnings.warn(
            "The input to trace is already a ScriptModule, tracing it is a no-op. Returning the object as is.",
            stacklevel=2,
        )
        return func
    if example_inputs is None:
        args = ()
    else:
        args = tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    _run(func, args, example_kwarg_inputs or {})
    owner = getattr(func, "__self__", None)
    if isinstance(func, Module):
        traced = TopLevelTracedModule(func)
    elif isinstance(owner, Module) and func.__name__ == "forward":
        traced = TopLevelTracedModule(owner)
    else:
        traced = ScriptFunction(func)
    traced.__dict__["_examples"] = (args, example_kwarg_inputs or {})
    return traced


def trace_module(
    mod,
    inputs,
    optimize=None,
    check_trace=True,
    check_inputs=None,
    check_tolerance=1e-5,
    strict=True,
    _force_outplace=False,
    _module_class=None,
    _compilation_unit=None,
    example_inputs_is_kwarg=False,
    _store_inputs=True,
):
    """The same for several methods: {name: example inputs}."""
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    for name, value in inputs.items():
        args, kwargs = (
            ((), value)
            if example_inputs_is_kwarg
            else (tuple(value) if isinstance(value, (tuple, list)) else (value,), {})
        )
        _run(mod if name == "forward" else getattr(mod, name), args, kwargs)
    return TopLevelTracedModule(mod)


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """A copy of a scripted module in eval mode that takes no gradients."""
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to script your "
            "'nn.Module'."
        )
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module "
            "before freezing."
        )
    from copy import deepcopy

    return deepcopy(mod).requires_grad_(False)


def run_frozen_optimizations(mod, optimize_numerics=True, preserved_methods=None):
    """Accepted: the module stays as it is."""


def optimize_for_inference(mod, other_methods=None):
    """A frozen module, or the scripted module frozen."""
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "optimize_for_inference expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace "
            "to script your 'nn.Module'."
        )
    return freeze(mod.eval()) if mod.training else mod


def save(m, f, _extra_files=None):
    """Writes a traced module or function as a graph with its weights, which needs no class and which C programs run; a
    scripted one as a zip with its weights and the module, whose class is needed."""
    if not isinstance(m, (ScriptModule, ScriptFunction)):
        raise AttributeError(f"'{type(m).__name__}' object has no attribute 'save'")
    from taper.jit import _file, _program

    if isinstance(m, _program.ProgramModule):
        _program.save(m, f, _extra_files)
        return
    why = _file.save(m, f, _extra_files)
    if why is None:
        return
    if why:
        warnings.warn(
            f"torch.jit.save: the traced call is no graph, {why}; the file holds the module, which runs only where "
            "its class is, and not in C",
            TracerWarning,
            stacklevel=3,
        )
    _save_module(m, _original(m) if isinstance(m, (RecursiveScriptModule, ScriptFunction)) else m, f, _extra_files)


def _save_module(m, module, f, extra_files):
    import pickle
    import taper

    if isinstance(m, ScriptFunction) and m._has_name():
        module = m
    kind = type(m).__name__ if isinstance(m, RecursiveScriptModule) else ""
    try:
        with _text.named_classes(module):
            taper.save({"format": _FORMAT, "kind": kind, "module": module, "extra_files": dict(extra_files or {})}, f)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise pickle.PicklingError(
            "torch.jit.save: what was scripted is saved by its name, and this has none that a program could load it "
            f"by ({error}); torch.jit.trace writes a graph, which needs none"
        ) from error


def _is_torchscript(f):
    """Is it a zip that PyTorch's torch.jit.save wrote, with code and constants in it?"""
    import zipfile

    try:
        with zipfile.ZipFile(f) as archive:
            return any("/code/" in name or name.endswith("constants.pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False
    finally:
        if hasattr(f, "seek"):
            f.seek(0)


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """Brings back what torch.jit.save wrote, to be called. The file may name tensors, plain containers, layers, classes
    of modules that the program has imported and functions that it has scripted (jit/_names.py), nothing else, and calls
    none of them while it is read."""
    import os

    if isinstance(f, (str, os.PathLike)) and not os.path.exists(f):
        raise ValueError(f"The provided filename {f} does not exist")
    from taper.jit import _file, _program

    if _is_torchscript(f):
        return _program.load(f, map_location, _extra_files)

    traced = _file.load(f, map_location, _extra_files)
    return _load_module(f, map_location, _extra_files) if traced is None else traced


def _load_module(f, map_location, _extra_files):
    import pickle
    from taper.jit import _names
    from taper.serialization import load_listed

    try:
        held = load_listed(f, map_location, _names.names_for)
    except pickle.UnpicklingError as error:
        raise pickle.UnpicklingError(
            f"torch.jit.load: {error}. A file may name layers, classes of modules that the program has imported, "
            "functions that it has scripted, and what torch.serialization.add_safe_globals lets through."
        ) from None
    if not isinstance(held, dict) or held.get("format") != _FORMAT:
        raise RuntimeError("torch.jit.load: the file was not written by torch.jit.save; torch.load reads other files")
    kinds = {"": None, **{cls.__name__: cls for cls in (RecursiveScriptModule, TracedModule, TopLevelTracedModule)}}
    module, kind, extra = held.get("module"), held.get("kind"), held.get("extra_files")
    if (
        not isinstance(extra, dict)
        or not isinstance(kind, str)
        or kind not in kinds
        or not isinstance(module, (Module, ScriptFunction))
        and not inspect.isfunction(module)
    ):
        raise RuntimeError("torch.jit.load: the file holds no module or function")
    for name, text in extra.items():
        if _extra_files is not None and name in _extra_files:
            _extra_files[name] = text.encode() if isinstance(text, str) else text
    if not isinstance(module, Module):
        return script(module)
    return kinds[kind](module) if kind else module
