"""torch.jit: scripts and traces run as graphs where their code can be captured, and as the Python they are elsewhere.
save writes a trace as a graph with its weights (_file.py), and a script as the module it is."""

from typing import Final  # noqa: F401

from taper.futures import Future  # noqa: F401
from taper.jit import _text
from taper.jit._module import (
    Error,
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    TopLevelTracedModule,
    TracedModule,
    TracerWarning,
    TracingCheckError,
    freeze,
    is_tracing,
    load,
    optimize_for_inference,
    run_frozen_optimizations,
    save,
    script,
    script_method,
    trace,
    trace_module,
)

__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Future",
    "ScriptFunction",
    "ScriptModule",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "isinstance",
    "is_scripting",
    "is_tracing",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]
_builtin_isinstance = isinstance


class ScriptWarning(Warning):
    """Something that a script would do otherwise."""


def is_scripting():
    """Is this compiled code? Never here: scripts run as Python."""
    return False


def annotate(the_type, the_value):
    """The value; the type is for a compiler."""
    return the_value


class Attribute:
    """A value with a type."""

    def __new__(cls, value, type):
        return value


def _handed_through(doc):
    """A decorator that marks a function for a compiler, with or without arguments."""

    def mark(fn=None, **options):
        return (lambda fn: fn) if fn is None or not callable(fn) else fn

    mark.__doc__ = doc
    return mark


export = _handed_through("Marks a method to be compiled too.")
unused = _handed_through("Marks a method that compiled code never calls.")
ignore = _handed_through("Marks a method that stays Python.")
interface = _handed_through("Marks a class as an interface.")
script_if_tracing = _handed_through("Compiles a function when it is traced.")
_overload = _handed_through("Marks a signature that a compiler may choose; the function below it is the one that runs.")
_overload_method = _handed_through("The same for a method.")


def _get_trace_graph(
    f, args=(), kwargs=None, strict=True, _force_outplace=False, return_inputs=False, _return_inputs_states=False
):
    """(graph, results): the operators of one call as a graph of PyTorch's script compiler, for programs that walk
    it."""
    from taper.jit._graph import get_trace_graph

    return get_trace_graph(f, args, kwargs, return_inputs=return_inputs)


def isinstance(obj, target_type):
    """isinstance for annotated types such as List[int]."""
    from typing import get_origin

    return _builtin_isinstance(obj, get_origin(target_type) or target_type)


def fork(func, *args, **kwargs):
    """Calls at once, and gives what wait() takes."""
    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future):
    if future is None:
        raise RuntimeError("Future can't be None")
    return future.wait()


class CompilationUnit:
    """Functions defined by their text."""

    def __init__(self, lang=None, _frames_up=0):
        if lang is not None:
            self._add(lang, _text.names_of_caller(2 + _frames_up))

    def define(self, lang, rcb=None, _frames_up=0):
        self._add(lang, _text.names_of_caller(2 + _frames_up))

    def _add(self, lang, names):
        self.__dict__.update({name: ScriptFunction(function) for name, function in _text.compiled(lang, names).items()})


class _Setting:
    """A `with` around code whose compilation it would change."""

    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


optimized_execution = fuser = strict_fusion = _Setting


def set_fusion_strategy(strategy):
    """Accepted; returns what was set before."""
    return []


def enable_onednn_fusion(enabled):
    """Accepted."""


def onednn_fusion_enabled():
    return False


def export_opnames(m):
    return []
