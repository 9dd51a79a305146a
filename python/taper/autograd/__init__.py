"""torch.autograd: gradients of tensors through what was recorded."""

from _thread import _local

from taper import _C
from taper._C import Tensor
from taper.autograd import function, grad_mode
from taper.autograd.function import Function
from taper.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled, set_multithreading_enabled
from taper.overrides import _forward, _no_batches

__all__ = [
    "Variable",
    "Function",
    "backward",
    "grad_mode",
    "detect_anomaly",
    "set_detect_anomaly",
    "grad",
    "inference_mode",
    "no_grad",
    "enable_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "gradcheck",
    "gradgradcheck",
    "variable",
]

_LAZY = {
    "detect_anomaly": "anomaly_mode",
    "set_detect_anomaly": "anomaly_mode",
    "GradcheckError": "gradcheck",
    "gradcheck": "gradcheck",
    "gradgradcheck": "gradcheck",
}
_LAZY.update(
    SavedTensor="_saved",
    is_multithreading_enabled="grad_mode",
    **dict.fromkeys(
        """
    kineto_available is_view_replay_enabled _record_function_with_args_enter _record_function_with_args_exit
    _calculate_shape""".split(),
        "_names",
    ),
)
_MODULES = {"_functions", "anomaly_mode", "forward_ad", "functional", "graph", "profiler", "variable", "profiler_util"}


def _profiler_enabled():
    """Does a profile record?"""
    import sys

    profiler = sys.modules.get("taper.autograd.profiler")
    return profiler is not None and bool(profiler._running)


def _disable_profiler():
    """Stops the profiles that record; what they have recorded is theirs."""
    if _profiler_enabled():
        from taper.autograd import profiler

        for running in list(profiler._running):
            running._stop()


def __getattr__(name):  # what few programs use is loaded when they do
    from importlib import import_module

    if name in _LAZY:
        value = getattr(import_module("taper.autograd." + _LAZY[name]), name)
    elif name in _MODULES:
        value = import_module("taper.autograd." + name)
    else:
        raise AttributeError(f"module 'torch.autograd' has no attribute '{name}'")
    globals()[name] = value
    return value


class _VariableMeta(type):
    def __instancecheck__(cls, other):
        return isinstance(other, Tensor)


class _Engine:
    """What walks the tape, as far as scripts ask for it."""

    @staticmethod
    def queue_callback(callback):
        """Calls it when the backward that runs now is done."""
        _C._queue_callback(callback)


class Variable(metaclass=_VariableMeta):
    """What tensors with gradients once were called: Variable(x) is x."""

    _execution_engine = _Engine()

    def __new__(cls, data=None, requires_grad=False, volatile=None):
        if data is None:
            from taper import empty

            data = empty(0)
        made = data.detach()
        return made.requires_grad_() if requires_grad else made


def variable(*args, **kwargs):
    raise RuntimeError("torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead")


variable.Variable = Variable  # the function hides the module of this name, from which programs take the class


def _tuple(tensors):
    return (tensors,) if isinstance(tensors, Tensor) or _is_edge(tensors) else tuple(tensors)


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Adds the gradients of the tensors to the .grad of the leaves (or of the inputs alone)."""
    if grad_variables is not None:
        import warnings

        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only "
                "use `grad_tensors`."
            )
        grad_tensors = grad_variables
    _no_batches(_tuple(tensors))
    _C._backward(tensors, grad_tensors, retain_graph, create_graph, inputs)


class _Run(_local):
    for_inputs_alone = False  # does the backward that runs leave everybody's .grad alone?
    slices_follow = False  # will vmap run the function again, for another slice, and go through the same graph?


_run = _Run()


def _is_checkpoint_valid():
    """May a checkpoint walk a tape of its own in the backward that runs? Not where only some gradients are wanted."""
    return not _run.for_inputs_alone


def _found(outputs, inputs, *options):
    before, _run.for_inputs_alone = _run.for_inputs_alone, True
    try:
        if _forward.level is not None and _forward.enabled and not any(map(_is_edge, _tuple(inputs))):
            from taper.autograd.forward_ad import gradients

            return gradients(outputs, inputs, *options)
        return _C._gradients(outputs, inputs, *options)
    finally:
        _run.for_inputs_alone = before


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """The gradients of the outputs with respect to the inputs, as a tuple; nobody's .grad changes."""
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if not only_inputs:
        import warnings

        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    retain = (create_graph if retain_graph is None else retain_graph) or _run.slices_follow
    _no_batches((*_tuple(outputs), *_tuple(inputs), *(_tuple(grad_outputs) if grad_outputs is not None else ())))
    if is_grads_batched:
        return _batched(
            outputs, inputs, _tuple(grad_outputs), retain, create_graph, bool(allow_unused), materialize_grads
        )
    if materialize_grads and any(map(_is_edge, _tuple(inputs))):
        return _filled(_found(outputs, inputs, grad_outputs, retain, create_graph, True, False), _tuple(inputs))
    found = _found(outputs, inputs, grad_outputs, retain, create_graph, bool(allow_unused), materialize_grads)
    if any(
        hasattr(type(x), "_grad_in_form") for x in _tuple(inputs)
    ):  # of a sparse, nested or masked tensor it is of the same kind
        return tuple(
            x._grad_in_form(g) if g is not None and hasattr(type(x), "_grad_in_form") else g
            for g, x in zip(found, _tuple(inputs))
        )
    return found


def _is_edge(given):
    return isinstance(given, tuple) and hasattr(given, "output_nr") and hasattr(given, "node")


def _filled(found, inputs):
    """Zeros for what was not used; of an edge nobody knows more than where it is."""
    from taper import zeros_like

    for g, x in zip(found, inputs):
        if g is None and _is_edge(x):
            raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
    return tuple(zeros_like(x, requires_grad=True) if g is None else g for g, x in zip(found, inputs))


def _batched(outputs, inputs, grads, retain, create, unused, materialize):
    from taper import stack

    for i, (g, o) in enumerate(zip(grads, _tuple(outputs))):
        if g is not None and g.shape[1:] != o.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output[{i}] has a shape of {g.shape} and output[{i}] has "
                f"a shape of {o.shape}. If you only want some tensors in `grad_output` to be considered batched, "
                "consider using vmap."
            )
    n = next(g.shape[0] for g in grads if g is not None)
    rows = [
        _C._gradients(
            outputs,
            inputs,
            tuple(None if g is None else g[i] for g in grads),
            retain or create or i + 1 < n,
            create,
            unused,
            materialize,
        )
        for i in range(n)
    ]
    return tuple(None if column[0] is None else stack(column) for column in zip(*rows))
