"""__torch_dispatch__: handlers that see operators of aten, below the tape.

A call that involves a tensor of a class with a handler, or that is made in a TorchDispatchMode, arrives in `call`
(python/ext/override.c sends it). It becomes an overload of aten with its arguments as PyTorch's schema has them. An
operator that PyTorch composes of others is composed here too (_decompositions.py), the tape gets a node whose backward
is written in operators (_derivatives.py), and what is left goes to the handlers: the innermost mode first, then the
classes of the arguments. Without either the operator runs."""

from _thread import _local

import taper
from taper import _C
from taper._ops import OpOverload, OpOverloadPacket
from taper._schema import fits, parse_schema, settle

Tensor = _C.Tensor


class _State(_local):
    def __init__(self):
        self.modes = []  # TorchDispatchModes that this thread is in, the innermost last
        self.records = 0  # of them those that want backward passes of views and writes in operators, too


state = _State()

# Python's name for a function or a method -> aten's.
_NAMES = {
    "__radd__": "add",
    "__rmul__": "mul",
    "__rsub__": "rsub",
    "__floordiv__": "floor_divide",
    "__eq__": "eq",
    "__iadd__": "add_",
    "__isub__": "sub_",
    "__imul__": "mul_",
    "__idiv__": "div_",
    "__itruediv__": "div_",
    "__matmul__": "matmul",
    "cross_entropy": "cross_entropy_loss",
    "detach_copy": "detach",
    "T": "numpy_T",
    "H": "matrix_H",
    "unique": "_unique2",
    "logsigmoid": "log_sigmoid",
    "nll_loss": "nll_loss_nd",
    "invert": "bitwise_not",
    "__invert__": "bitwise_not",
    "__neg__": "neg",
    "__pow__": "pow",
    "dropout1d": "feature_dropout",
    "dropout2d": "feature_dropout",
    "dropout3d": "feature_dropout",
}
# Operators that take a number where the schema has a tensor.
_NUMBERS_FOR_TENSORS = frozenset(
    "add add_ sub sub_ subtract mul mul_ multiply div div_ divide true_divide floor_divide floor_divide_".split()
)
_OTHER_WORDS = {
    "input": "self",
    "axis": "dim",
    "keepdims": "keepdim",
    "x1": "self",
    "x2": "other",
    "dims": "dim",
    "dim": "dims",
    "training": "train",
    "ord": "p",
    "p": "ord",
}
_UNSAID = {"cudnn_enabled": False, "cudnn_enable": True}  # arguments that Python's side does not have
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


# ---- From a Python call to an overload ----
def _bind(schema, args, kwargs, lenient):
    """The schema's arguments from a call's, or None where they do not fit."""
    numbers = schema.name.rpartition("::")[2] in _NUMBERS_FOR_TENSORS
    takes = [a for a in schema.arguments if not a.kwarg_only]
    if (
        len(takes) > 1
        and len(args) > len(takes)
        or len(takes) == 2
        and takes[1].type.list
        and len(args) > 1
        and _is_size(args[1])
    ):
        first = next((i for i, a in enumerate(takes) if a.type.list and a.type.word in ("SymInt", "int")), None)
        if first is None or not all(_is_size(a) for a in args[first:]):
            return None
        args = (*args[:first], list(args[first:]))  # x.view(2, 3)
    if len(args) > len(takes):
        return None
    bound = dict(zip((a.name for a in takes), args))
    names = {a.name for a in schema.arguments}
    for key, value in kwargs.items():
        if key not in names:
            key = _OTHER_WORDS.get(key, key)
        if key not in names:
            if value is None or value is False and key in ("requires_grad", "pin_memory"):
                continue
            return None
        if key in bound:
            return None
        bound[key] = value
    for argument in schema.arguments:
        if argument.name not in bound:
            if argument.name in _UNSAID:
                bound[argument.name] = _UNSAID[argument.name]
            elif not argument.has_default_value():
                return None
            continue
        value = bound[argument.name]
        if argument.name == "reduction" and isinstance(value, str):
            value = bound["reduction"] = _REDUCTIONS[value]
        if fits(argument.type, value, numbers) or value is None and argument.has_default_value():
            continue
        if lenient and argument.type.list and argument.type.word in ("SymInt", "int") and _is_size(value):
            continue  # torch.zeros(2)
        if (
            lenient
            and argument.type.word in ("Scalar", "float", "int", "SymInt")
            and isinstance(value, Tensor)
            and value.dim() == 0
        ):
            bound[argument.name] = value.item()
            continue
        return None
    return bound


def _is_size(value):
    return isinstance(value, int) and not isinstance(value, bool)


def arguments_of(schema, bound):
    """Positions and keywords as handlers see them: no defaults at the end of the positions, none among the keywords."""
    args, kwargs, given = [], {}, 0
    for argument in schema.arguments:
        value = settle(argument.type, bound[argument.name]) if argument.name in bound else argument.default_value
        default = argument.has_default_value() and (
            value is None or _same(value, settle(argument.type, argument.default_value))
        )
        if argument.kwarg_only:
            if not default or value is not None and argument.default_value is None:
                kwargs[argument.name] = value
        else:
            args.append(argument.default_value if value is None and default else value)
            if not default:
                given = len(args)
    return tuple(args[:given]), kwargs


def _same(value, default):
    return type(value) is type(default) and not isinstance(value, Tensor) and value == default


def resolve(packet, args, kwargs):
    """The overload that takes a call, with its arguments; None where none does."""
    out = kwargs.get("out")
    if out is None and "out" in kwargs:
        kwargs = {k: v for k, v in kwargs.items() if k != "out"}
    for lenient in (False, True):
        for overload in _in_order(packet, out is not None):
            schema = overload._schema
            given = kwargs if out is None else _with_out(schema, kwargs, out)
            bound = None if given is None else _bind(schema, args, given, lenient)
            if bound is not None:
                return (overload, *arguments_of(schema, bound))
    return None


def _with_out(schema, kwargs, out):
    places = [a.name for a in schema.arguments if a.is_out]
    outs = list(out) if isinstance(out, (tuple, list)) else [out]
    if len(places) != len(outs):
        return None
    return {**{k: v for k, v in kwargs.items() if k != "out"}, **dict(zip(places, outs))}


def _in_order(packet, out):
    """Overloads in the order in which PyTorch tries them: tensors before numbers, and none with names of dimensions."""
    order = packet.__dict__.get("_order")
    if order is None:
        order = [], []
        for name in packet.overloads():
            overload = getattr(packet, name)
            schema = overload._schema
            if schema is None or any(a.type.word == "Dimname" for a in schema.arguments):
                continue
            order[any(a.is_out for a in schema.arguments)].append(overload)
        for listed in order:
            listed.sort(
                key=lambda o: (sum(a.type.word == "Scalar" for a in o._schema.arguments), len(o._schema.arguments))
            )
        packet.__dict__["_order"] = order
    return order[out]


def call(function, args, kwargs):
    """A call of torch's that no __torch_function__ answers."""
    if isinstance(function, OpOverload):
        return _call_overload(function, args, kwargs)
    name = getattr(function, "__name__", "")
    name = _NAMES.get(name, name)
    if isinstance(function, OpOverloadPacket):
        found = resolve(function, args, kwargs)
        if found is None:
            raise RuntimeError(f"no overload of {function} takes these arguments")
        return _call_overload(*found)
    from taper._dispatch._decompositions import FUNCTIONS

    own = FUNCTIONS.get(name)
    if own is not None:
        return own(*args, **kwargs)
    packet = getattr(taper.ops.aten, name, None) if name else None
    requires_grad = kwargs.get("requires_grad") is True  # Python's word: the schema of a factory has none
    plain = {k: v for k, v in kwargs.items() if k != "requires_grad"} if requires_grad else kwargs
    found = _resolve_named(packet, function, args, plain) if packet is not None else None
    if found is None:
        return _without_handlers(function, name, args, kwargs)
    _add_options(*found)
    result = compose(*found)
    return result.requires_grad_() if requires_grad else result


def _resolve_named(packet, function, args, kwargs):
    """The overload for a call of the library's function, whose arguments have names but may have another order than
    aten's."""
    if type(function) in (_C.Function, _C.Method):
        try:
            _, _, signature, given = _C._bind(function, *args, **kwargs)
        except TypeError:
            return resolve(packet, args, kwargs)
        found = resolve(packet, (), given)
        if found is None:  # Python has defaults that aten has not
            found = resolve(
                packet,
                (),
                {
                    **{a.name: a.default_value for a in parse_schema(signature).arguments if a.has_default_value()},
                    **given,
                },
            )
        if found is not None:
            return found
    return resolve(packet, args, kwargs)


def _add_options(overload, args, kwargs):
    """Python's factories say where a tensor is made, and that it is not pinned."""
    names = [a.name for a in overload._schema.arguments if a.kwarg_only]
    if "pin_memory" in names and overload._opname != "to":
        kwargs.setdefault("pin_memory", False)
        if "device" in names and "device" not in kwargs and not tensors_of(args):
            kwargs["device"] = taper.get_default_device()
        ordered = {name: kwargs[name] for name in names if name in kwargs}
        kwargs.clear()
        kwargs.update(ordered)


def _call_overload(overload, args, kwargs):
    own = getattr(overload._kernel, "call_handled", None)  # torch.library's operators bring their own derivatives
    if own is not None:
        return own(args, kwargs)
    schema = overload._schema
    if schema is None:
        return run(overload, args, kwargs)
    bound = _bind(schema, args, kwargs, True)
    if bound is not None:
        args, kwargs = arguments_of(schema, bound)
    return compose(overload, args, kwargs) if overload._composite else run(overload, args, kwargs)


def compose(overload, args, kwargs):
    """An overload's call above the tape: what PyTorch composes of others is composed."""
    from taper._dispatch._decompositions import DECOMPOSED

    composed = DECOMPOSED.get(overload._name)
    if composed is not None:
        result = composed(*args, **kwargs)
        if result is not NotImplemented:
            return result
    return run(overload, args, kwargs)


def _without_handlers(function, name, args, kwargs):
    """What is no operator of aten runs as it is. A wrapper has no elements that it could run on."""
    if any(_C._has_handler(t) for t in tensors_of((args, kwargs))) and any(
        _is_wrapper(t) for t in tensors_of((args, kwargs))
    ):
        raise NotImplementedError(
            f"{name}: there is no operator of aten that a __torch_dispatch__ could see for these arguments"
        )
    with NoHandlers():
        return function(*args, **kwargs)


def _is_wrapper(tensor):
    return tensor.device.type != "meta" and Tensor.untyped_storage(tensor).device.type == "meta"


# ---- From an overload to its handlers ----
def tensors_of(values):
    """The tensors among arguments, in lists and dicts too."""
    found = []
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (tuple, list, dict)) and value:
            found += tensors_of(value)
    return found


def run(overload, args, kwargs):
    """An overload's call: on the tape if a gradient may flow, then to handlers."""
    if taper.is_grad_enabled() and any(t.requires_grad for t in tensors_of((args, kwargs))):
        from taper._dispatch._tape import record

        return record(overload, args, kwargs)
    return ask(overload, args, kwargs)


def ask(overload, args, kwargs):
    """Hands a call to the innermost mode, else to the classes of its arguments; else the operator runs."""
    asked = []
    given = tensors_of((args, kwargs))
    kinds = _kinds(given)
    modes = state.modes
    if modes:
        mode = modes.pop()
        _C._change_dispatch(-1, 0)
        rule = overload.python_key_table.get(type(mode))
        try:
            result = (
                rule(mode, overload, tuple(kinds), args, kwargs)
                if rule
                else mode.__torch_dispatch__(overload, tuple(kinds), args, kwargs)
            )
        finally:
            modes.append(mode)
            _C._change_dispatch(1, 0)
        if result is not NotImplemented:
            return result
        asked.append(f"mode object {mode}")
    for kind in kinds:
        rule = overload.python_key_table.get(kind)
        result = (
            rule(kind, overload, tuple(kinds), args, kwargs)
            if rule
            else kind.__torch_dispatch__(overload, tuple(kinds), args, kwargs)
        )
        if result is not NotImplemented:
            return result
        asked.append(f"tensor subclass {kind}")
    if asked:
        lines = "".join(f"\n  - {one}" for one in asked)
        raise TypeError(
            f"Multiple dispatch failed for '{overload._qualified}'; all __torch_dispatch__ handlers returned "
            "NotImplemented:\n"
            f"{lines}\n\n"
            "For more information, try re-running with TORCH_LOGS=not_implemented"
        )
    return overload._kernel(*args, **kwargs)


def _kinds(tensors):
    """Classes with handlers, subclasses before their bases."""
    kinds = []
    for tensor in tensors:
        kind = type(tensor)
        if kind is not Tensor and kind not in kinds and _C._has_handler(tensor):
            at = next((i for i, other in enumerate(kinds) if issubclass(kind, other)), len(kinds))
            kinds.insert(at, kind)
    return kinds


def _is_dense(tensor):
    """Does each element have a place of its own, without gaps?"""
    elements = 1
    for stride, n in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape) if n != 1):
        if stride != elements:
            return False
        elements *= n
    return True


def answer_tape(what, one, two):
    """What the tape itself would compute with gradients: their sum, a copy, a gradient without history, or the first
    gradient of all."""
    aten = taper.ops.aten
    if what == "add":
        return run(aten.add.Tensor, (one, two), {})
    if what == "clone":
        return run(aten.clone.default, (one,), {})
    if what == "detach":
        if _is_dense(one):
            return run(aten.detach.default, (one,), {})
        strides, at = [], 1
        for n in reversed(one.shape):
            strides.insert(0, at)
            at *= max(n, 1)
        options = {"dtype": one.dtype, "layout": one.layout, "device": one.device}
        return run(
            aten.copy_.default, (run(aten.new_empty_strided.default, (one, list(one.shape), strides), options), one), {}
        )
    return run(aten.ones_like.default, (one,), {"pin_memory": False, "memory_format": taper.preserve_format})


def lift(tensor):
    """A tensor from Python's data: modes see it come."""
    lifted = run(taper.ops.aten.lift_fresh.default, (tensor,), {})
    return lifted.requires_grad_() if tensor.requires_grad and not lifted.requires_grad else lifted


class NoHandlers:
    """with NoHandlers(): operators run, and no handler sees them."""

    def __enter__(self):
        self._modes = state.modes
        state.modes = []
        _C._change_dispatch(-len(self._modes), 1)

    def __exit__(self, *error):
        _C._change_dispatch(len(self._modes), -1)
        state.modes = self._modes


# ---- Wrappers ----
def make_wrapper_subclass(
    cls,
    size,
    strides=None,
    storage_offset=None,
    memory_format=None,
    dtype=None,
    layout=taper.strided,
    device=None,
    pin_memory=False,
    requires_grad=False,
    dispatch_sizes_strides_policy=None,
    dispatch_device=False,
    dispatch_layout=False,
    _extra_dispatch_keys=None,
    storage_size=None,
):
    """A tensor of a subclass that has a shape and no elements: its __torch_dispatch__ computes."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError("cls must be a type that inherits from Tensor")
    if cls.__torch_dispatch__ is _C._disabled_torch_dispatch_impl:
        raise RuntimeError(f"{cls.__name__} must define __torch_dispatch__")
    with NoHandlers(), taper.no_grad():
        if strides is None:
            data = taper.empty(
                tuple(size), dtype=dtype, device="meta", memory_format=memory_format or taper.contiguous_format
            )
        else:
            data = taper.empty_strided(tuple(size), tuple(strides), dtype=dtype, device="meta")
        if storage_offset:
            elements = (
                storage_offset + 1 + sum((n - 1) * s for n, s in zip(data.shape, data.stride()))
                if data.numel()
                else storage_offset
            )
            data = taper.empty(elements, dtype=dtype, device="meta").as_strided(
                data.shape, data.stride(), storage_offset
            )
    return _C._wrapper(
        cls, data, taper.device(device) if device is not None else taper.get_default_device(), requires_grad
    )
