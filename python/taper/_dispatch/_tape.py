"""The tape over handlers: a node per operator that they see, whose backward calls operators that they see again."""

from inspect import signature

import taper
from taper import _C
from taper._dispatch import Tensor, ask, state, tensors_of
from taper._dispatch._derivatives import DERIVATIVES, WITHOUT
from taper.autograd.function import Function
from taper.overrides import _forward


class _Call:
    """What a node knows of its call: the formulas that are needed, and their arguments that are no tensors."""

    def __init__(self, overload, args, kwargs):
        self.overload, self.args, self.kwargs = overload, args, kwargs
        schema = overload._schema
        self.given = {a.name: a.default_value for a in schema.arguments}
        self.given.update(zip((a.name for a in schema.arguments), args))
        self.given.update(kwargs)
        self.inputs = [(name, t) for name, value in self.given.items() for t in tensors_of((value,))]
        self.flat = [t for _, t in self.inputs]
        self.inplace = bool(schema.arguments) and schema.arguments[0].is_write

    def choose(self, formulas):
        """The formulas of inputs that need a gradient, and what they read."""
        needed = {name for name, t in self.inputs if t.requires_grad}
        self.formulas = [
            (names.split(), formula) for names, formula in formulas.items() if needed.intersection(names.split())
        ]
        self.reads = {word for _, formula in self.formulas for word in _words(formula)}
        self.needed = needed
        missing = needed - {name for names, _ in self.formulas for name in names}
        return not missing

    def keep(self, ctx, results):
        """Tensors that formulas read go to the tape, the rest stays here."""
        saved, self.values = [], {}
        fixed = []
        for word in self.reads - {"grad", "grads", "mask"}:
            if word == "result":
                value = results[0].detach()
            elif word.startswith("result"):
                value = results[int(word[6:])]
                fixed.append(value)
            else:
                value = self._value(word)
            if isinstance(value, Tensor):
                self.values[word] = len(saved), None
                saved.append(value)
            elif isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
                self.values[word] = len(saved), len(value)
                saved += value
            else:
                self.values[word] = None, value
        if fixed:
            ctx.mark_non_differentiable(*fixed)
        self.like = [(t.shape, t.dtype) for t in self.flat]
        ctx.save_for_backward(*saved)
        self.args = self.kwargs = self.given = None
        self.inputs = [(name, t.requires_grad) for name, t in self.inputs]
        self.flat = None

    def _value(self, word):
        name, _, what = word.rpartition("_")
        if what == "shape" and name in self.given:
            return list(self.given[name].shape)
        if what == "stride" and name in self.given:
            return self.given[name].stride()
        if what in ("dtype", "device") and name in self.given:
            return getattr(self.given[name], what)
        return self.given["mask" if word == "given_mask" else word]

    def gradients(self, grads, saved):
        """One gradient for each tensor among the arguments."""
        words = {"grad": grads[0], "grads": grads}
        for word, (at, value) in self.values.items():
            words[word] = value if at is None else saved[at] if value is None else list(saved[at : at + value])
        if "result" in words:
            words["result"] = words["result"].detach()
        made = {}
        for names, formula in self.formulas:
            words["mask"] = [name in self.needed for name in names]
            answer = formula(*(words[word] for word in _words(formula)))
            made.update(zip(names, answer) if len(names) > 1 else ((names[0], answer),))
        places, result = {}, []
        for (name, needs), (shape, dtype) in zip(self.inputs, self.like):
            value = made.get(name)
            if isinstance(value, (list, tuple)):
                place = places[name] = places.get(name, -1) + 1
                value = value[place]
            result.append(_fit(value, shape, dtype) if needs and value is not None else None)
        return result


def _words(formula):
    words = _known.get(formula)
    if words is None:
        words = _known[formula] = tuple(signature(formula).parameters)
    return words


_known = {}


def _fit(grad, shape, dtype):
    """Sums down what was broadcast, and gives the input's dtype."""
    if grad.shape != shape:
        grad = grad.sum_to_size(shape)
    if grad.dtype != dtype:
        if grad.is_complex() and not dtype.is_complex:
            grad = taper.real(grad)
        if grad.dtype != dtype:
            grad = grad.to(dtype)
    return grad


def _node_class(overload):
    """Of one operator's nodes, named as PyTorch names them."""
    made = overload.__dict__.get("_node")
    if made is None:
        words = overload._opname.strip("_").split("_")
        name = "".join(word[:1].upper() + word[1:] for word in words) + "Backward0"
        made = overload.__dict__["_node"] = type(name, (_Recorded,), {})
        made._backward_cls.__name__ = made._backward_cls.__qualname__ = name
    return made


class _Recorded(Function):
    @classmethod
    def apply(cls, *args):
        """Inside of func.grad the tape of its level records anyway, and vmap has taken batches apart."""
        return super().apply(*args) if _forward.level is not None else cls._apply(*args)

    @staticmethod
    def forward(ctx, call, *tensors):
        result = ask(call.overload, call.args, call.kwargs)
        call.several = isinstance(result, (tuple, list))
        results = tuple(result) if call.several else (result,)
        ctx.set_materialize_grads(False)
        if call.inplace:
            ctx.mark_dirty(call.flat[0])
            results = (call.flat[0],)
        call.keep(ctx, results)
        ctx.call, call.container = call, type(result)
        return results

    @staticmethod
    def backward(ctx, *grads):
        if all(g is None for g in grads):
            return (None,) * (1 + len(ctx.call.inputs))
        return (None, *ctx.call.gradients(grads, ctx.saved_tensors))


class _Missing(Function):
    """The node of an operator whose derivative is not written down: an error, not a gradient that is lost."""

    @staticmethod
    def forward(ctx, call, *tensors):
        ctx.name_of = str(call.overload)
        return ask(call.overload, call.args, call.kwargs)

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError(f"the derivative of {ctx.name_of} below a __torch_dispatch__ is not implemented")


def record(overload, args, kwargs):
    """A call with a gradient to come."""
    base = overload._opname
    if base in WITHOUT:
        with taper.no_grad():
            return ask(overload, args, kwargs)
    call = _Call(overload, args, kwargs)
    plain = not any(_C._has_handler(t) for t in call.flat)
    if plain and not state.records and any(a.alias_info is not None for a in overload._schema.arguments):
        return ask(overload, args, kwargs)  # the library's own tape knows views and writes
    formulas = DERIVATIVES.get(overload._name) or DERIVATIVES.get(base)
    if formulas is None and call.inplace:
        formulas = DERIVATIVES.get(overload._name.replace("_.", ".", 1)) or DERIVATIVES.get(base[:-1])
    if formulas is None or not call.choose(formulas):
        return ask(overload, args, kwargs) if plain and not state.records else _Missing.apply(call, *call.flat)
    if call.inplace and "self" in call.reads:
        with taper.no_grad():
            call.given["self"] = call.given["self"].clone()  # what it was before
    result = _node_class(overload).apply(call, *call.flat)
    return list(result) if call.container is list else result if call.several else result[0]
