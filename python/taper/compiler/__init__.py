"""torch.compiler: what programs say to and ask of torch.compile."""

import taper._C as _C
import taper._dynamo as _dynamo

__all__ = [
    "compile",
    "config",
    "assume_constant_result",
    "reset",
    "allow_in_graph",
    "substitute_in_graph",
    "list_backends",
    "disable",
    "set_stance",
    "set_enable_guard_collectives",
    "cudagraph_mark_step_begin",
    "wrap_numpy",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "save_cache_artifacts",
    "load_cache_artifacts",
    "nested_compile_region",
    "get_default_backend",
    "set_default_backend",
]

compile = _dynamo.compile
reset = _dynamo.reset
disable = _dynamo.disable
allow_in_graph = assume_constant_result = nonstrict_trace = wrap_numpy = _dynamo.allow_in_graph
list_backends = _dynamo.list_backends
config = _dynamo.Settings("taper.compiler.config", job_id="", cache_key_tag="", dynamic_sources="", unbacked_sources="")
_default_backend = "inductor"


is_compiling = is_dynamo_compiling = _dynamo.is_compiling


def is_exporting():
    """Is this code being exported?"""
    return False


def cudagraph_mark_step_begin():
    """A step begins: for graphs on a GPU."""


def substitute_in_graph(original_fn, *, can_constant_fold_through=False, skip_signature_check=False):
    """Marks a function that stands for another in graphs."""
    return lambda fn: fn


def nested_compile_region(fn=None, options=None):
    """Marks a region that is compiled once."""
    return (lambda fn: fn) if fn is None else fn


class set_stance:
    """How strict compilation is: from now on, within a `with`, or in a function."""

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        if stance not in (
            "default",
            "force_eager",
            "eager_on_recompile",
            "fail_on_recompile",
            "eager_then_compile",
            "aot_eager_then_compile",
        ):
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")
        self._stance, self._before = stance, _C._graph_enable(stance != "force_eager")

    def __call__(self, fn):
        from functools import wraps

        _C._graph_enable(self._before)

        @wraps(fn)
        def within(*args, **kwargs):
            with set_stance(self._stance):
                return fn(*args, **kwargs)

        return within

    def __enter__(self):
        return None

    def __exit__(self, *error):
        _C._graph_enable(self._before)
        return False


def set_enable_guard_collectives(enabled):
    """Accepted; returns what was set before."""
    return False


def get_default_backend():
    return _default_backend


def set_default_backend(backend):
    global _default_backend
    _dynamo._check(backend, None, None)
    _default_backend = backend


def save_cache_artifacts():
    """Compiled code as bytes: there is none."""
    return None


def load_cache_artifacts(serialized_artifacts):
    return None
