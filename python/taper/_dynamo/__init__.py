"""torch.compile and the names around it: calls are captured and run as graphs (eval_frame.py)."""

import functools
import sys
import types

import taper._C as _C
from taper._dynamo import eval_frame, exc
from taper._dynamo.eval_frame import OptimizedModule

_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
# How steps on a GPU are started (tp_replay): 0 small graphs by one launch, 1 all of them, 2 step by step.
_REPLAYS = {"reduce-overhead": 1, "max-autotune": 1, "max-autotune-no-cudagraphs": 2}
_BACKENDS = ["cudagraphs", "inductor", "openxla", "tvm"]
_DEBUG_BACKENDS = [
    "aot_eager",
    "aot_eager_decomp_partition",
    "aot_ts",
    "eager",
    "eager_noexcept",
    "ts",
    "onnxrt",
    "ipex",
    "openvino",
    "hidet",
]
_registered = {}  # backends of the program's own: name -> function, tags


class Settings(types.ModuleType):
    """A module of settings: kept as set."""

    def __init__(self, name, **values):
        super().__init__(name, "Settings, kept as set.")
        self.__dict__.update(values)
        sys.modules[name] = self

    def patch(self, arg=None, value=None, **values):
        """The settings as given within a `with`, or around a function."""
        from contextlib import contextmanager

        values.update(arg if isinstance(arg, dict) else {} if arg is None else {arg: value})

        @contextmanager
        def patched():
            before = {name: self.__dict__.get(name) for name in values}
            self.__dict__.update(values)
            try:
                yield
            finally:
                self.__dict__.update(before)

        return patched()


config = Settings(
    "taper._dynamo.config",
    suppress_errors=False,
    verbose=False,
    cache_size_limit=8,
    recompile_limit=8,
    accumulated_cache_size_limit=256,
    accumulated_recompile_limit=256,
    optimize_ddp=True,
    dynamic_shapes=True,
    assume_static_by_default=True,
    automatic_dynamic_shapes=True,
    capture_scalar_outputs=False,
    capture_dynamic_output_shape_ops=False,
    guard_nn_modules=True,
    log_level=None,
    force_parameter_static_shapes=True,
    allow_unspec_int_on_nn_module=False,
    inline_inbuilt_nn_modules=True,
    error_on_recompile=False,
    fake_tensor_cache_enabled=True,
    fake_tensor_cache_crosscheck_enabled=False,
)


def list_backends(exclude_tags=("debug", "experimental")):
    named = [name for name, (_, tags) in _registered.items() if not set(tags) & set(exclude_tags or ())]
    return sorted({*_BACKENDS, *named, *(() if exclude_tags else _DEBUG_BACKENDS)})


def register_backend(compiler_fn=None, name=None, tags=()):
    """Makes a function a backend that torch.compile knows by name."""
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    name = name or compiler_fn.__name__
    if name in _registered:
        raise AssertionError(f"duplicate name: {name}")
    _registered[name] = compiler_fn, tags
    return compiler_fn


def lookup_backend(compiler_fn):
    """The function of a backend that was registered by name."""
    if not isinstance(compiler_fn, str):
        return compiler_fn
    if compiler_fn in _registered:
        return _registered[compiler_fn][0]
    if compiler_fn not in _BACKENDS + _DEBUG_BACKENDS:
        raise exc.InvalidBackend(compiler_fn)
    return lambda graph, example_inputs, **options: graph.forward


def _check(backend, mode, options):
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if backend is not None and not callable(backend) and backend not in (*_BACKENDS, *_DEBUG_BACKENDS, *_registered):
        raise exc.InvalidBackend(backend)


def _replay(mode, options):
    if options and "triton.cudagraphs" in options:
        return 1 if options["triton.cudagraphs"] else 2
    return _REPLAYS.get(mode, 0)


def compile(
    model=None,
    *,
    fullgraph=False,
    dynamic=None,
    backend=None,
    mode=None,
    options=None,
    name=None,
    disable=False,
    recompile_limit=None,
    isolate_recompiles=False,
    dynamic_shapes=None,
):
    """A module or function whose calls are recorded once and then run as graphs. Other shapes, dtypes or values of what
    it reads are recorded anew; what cannot be repeated (looking at a value, printing) runs as it is, with one warning
    that names the line, or an error with fullgraph. A backend that is a function, or registered as one, is handed what
    torch.fx traces (_backends.py)."""
    _check(backend, mode, options)
    if model is None:
        return lambda model: compile(
            model, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable
        )
    if not callable(model):
        raise RuntimeError(f"torch.compile() expects a module or a function, but got {type(model).__name__}")
    if disable:
        return eval_frame.wrapped(model, lambda function: function)
    if callable(backend) or backend in _registered:
        from taper._dynamo import _backends

        given = {
            word: value
            for word, value in (("mode", mode if mode != "default" else None), ("options", options))
            if value
        }
        return eval_frame.wrapped(
            model,
            functools.partial(
                _backends.compiled,
                backend=lookup_backend(backend),
                options=given,
                fullgraph=fullgraph,
                limit=recompile_limit,
            ),
        )
    return eval_frame.wrapped(
        model,
        functools.partial(
            eval_frame.captured, fullgraph=fullgraph, limit=recompile_limit, replay=_replay(mode, options)
        ),
    )


def optimize(
    backend="inductor", *, nopython=False, guard_export_fn=None, guard_fail_fn=None, disable=False, dynamic=None
):
    """The older name of torch.compile, as a decorator."""
    _check(backend, None, None)
    return eval_frame.wrapped


def optimize_assert(backend, **options):
    return optimize(backend)


def disable(fn=None, recursive=True, *, reason=None, wrapping=True):
    """Marks a function that is not compiled: what calls it runs as it is."""
    if fn is None:
        return lambda fn: disable(fn, recursive, reason=reason, wrapping=wrapping)
    if not wrapping or isinstance(fn, type):
        return fn
    if isinstance(fn, eval_frame.Module):
        fn.forward = disable(fn.forward, reason=reason)
        return fn

    @functools.wraps(fn)
    def disabled(*args, **kwargs):
        _C._graph_break(f"{getattr(fn, '__qualname__', 'a function')} is disabled{': ' + reason if reason else ''}")
        return fn(*args, **kwargs)

    return disabled


def reset():
    """Forgets all graphs."""
    eval_frame.reset()


def is_compiling():
    """Is this call being captured?"""
    return _C._is_capturing()


def graph_break(msg=""):
    """Ends a graph: what calls this runs as it is."""
    _C._graph_break("graph_break() is called" + (": " + msg if msg else ""))


def allow_in_graph(fn):
    """Marks a function that goes into graphs whole."""
    return fn


assume_constant_result = run = skip = forbid_in_graph = disallow_in_graph = allow_in_graph
reset_code_caches = reset


def mark_dynamic(t, index, *, min=None, max=None, hint_override=None):
    """Marks a dimension whose size changes between calls. Graphs are for the sizes they saw, whatever is marked."""


def mark_unbacked(t, index, hint_override=None, strict=False, specialize_on=None):
    """Marks a dimension whose size no graph may know."""


def mark_static(t, index=None):
    """Marks a dimension, or all, whose size stays."""


def mark_static_address(t, guard=True):
    """Marks a tensor whose memory stays where it is. Graphs watch where tensors of the program's are, marked or not."""


maybe_mark_dynamic = mark_dynamic
