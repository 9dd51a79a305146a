"""What a file of torch.jit.save may name: layers of this package and classes of modules that the program has imported,
which are made empty and given their state; functions of torch.nn.functional and functions that the program has
scripted, which stay values and are not called while the file is read; instances of C++ classes that the program has
loaded; and what torch.serialization.add_safe_globals let through."""

import pickle
import sys
import types
from importlib import import_module

from taper import _C, _classes, _hook
from taper._file_names import Names
from taper.jit import _module, _text
from taper.nn import modules
from taper.nn.modules.module import Module
from taper.serialization import _full_name, get_safe_globals


def _scripted_module(kind):
    def make(module):
        if not isinstance(module, Module):
            raise TypeError(f"{kind.__name__} is made of a module, got {type(module).__name__}")
        return kind(module)

    return make


def _script_function(function):
    if not isinstance(function, (types.FunctionType, _module.ScriptFunction)):
        raise TypeError(f"ScriptFunction is made of a function, got {type(function).__name__}")
    return _module.script(function)


def _operator(name, method=False):
    """A function of the package's, such as torch.relu, which are saved by their operators' names."""
    if not isinstance(name, str) or _C._functions.get(name) is None:
        raise pickle.UnpicklingError(f"there is no function {name!r}")
    return _C._operator(name, method)


def _makers():
    kinds = _module.RecursiveScriptModule, _module.TracedModule, _module.TopLevelTracedModule
    modules_of = {_full_name(kind)[0]: _scripted_module(kind) for kind in kinds}
    return {
        **modules_of,
        _full_name(_module.ScriptFunction)[0]: _script_function,
        "torch._C._operator": _operator,
        "builtins.slice": slice,
        "builtins.frozenset": frozenset,
    }


def _at_top(name):
    """What stands under a full name at the top of a module that is imported; None where there is nothing. No name has
    anything imported but files of layers, and no part of a name is an attribute of an attribute."""
    module, _, last = name.rpartition(".")
    ours = _hook.taper_name(module)
    home, _, file = (ours or "").rpartition(".")
    if home == "taper.nn.modules" and file in modules._files.values():
        import_module(ours)  # a file of layers, which comes when it is first asked for
    found = sys.modules.get(module if ours is None else ours)
    return vars(found).get(last) if isinstance(found, types.ModuleType) else None


def _is(found, name):
    """Is it the object's own name?"""
    own = getattr(found, "__qualname__", None) is not None and isinstance(found.__module__, str)
    return own and _full_name(found)[0] == name


def _is_functional(found, name):
    module, _, last = name.rpartition(".")
    kind = isinstance(found, (types.FunctionType, types.BuiltinFunctionType))
    return module == "torch.nn.functional" and not last.startswith("_") and kind


def names_for(in_file):
    """The Names for a file that has these names."""
    classes, values = {}, {}
    for name in in_file:
        found = _at_top(name)
        local = _text.local_classes.get(name)
        if found is None and local is not None:
            classes[name] = local
        elif isinstance(found, type) and issubclass(found, Module) and _is(found, name):
            classes[name] = found
        elif _is_functional(found, name) or isinstance(found, _module.ScriptFunction):
            values[name] = found
        elif isinstance(found, types.FunctionType) and found in _module.scripted and _is(found, name):
            values[name] = found
    allowed = [*get_safe_globals(), _classes.restore]  # the latter: of C++ classes that the program has loaded
    return Names(call={**_makers(), **dict(map(_full_name, allowed))}, new=classes, value=values)
