"""Steps that autograd records (differentiable=True): the table's expressions, evaluated over tensors. The parameters
are changed in place; a state gets new tensors, because the tape holds on to the old ones."""

import taper
from taper import _C
from taper._C import Tensor

_formulas = {}  # compiled, by class


def _choose(condition, first, second):
    """condition ? first : second, element by element where the condition is a tensor with dimensions."""
    if isinstance(condition, Tensor) and condition.dim():
        return _C._functions["where"](condition, first(), second())
    return first() if condition else second()


def _either(name):
    operator = _C._functions[name]

    def function(a, b):
        if not isinstance(a, Tensor) and not isinstance(b, Tensor):
            return max(a, b) if name == "maximum" else min(a, b)
        like = a if isinstance(a, Tensor) else b
        a, b = (v if isinstance(v, Tensor) else like.new_full((), v) for v in (a, b))
        return operator(a, b)

    return function


def _sqrt(x):
    return x.sqrt() if isinstance(x, Tensor) else x**0.5


_FUNCTIONS = {
    "__builtins__": {},
    "choose": _choose,
    "max": _either("maximum"),
    "min": _either("minimum"),
    "sqrt": _sqrt,
    "pow": lambda a, b: a**b,
    "abs": abs,
    "sign": _C._functions["sign"],
    "lerp": lambda a, b, weight: a + (b - a) * weight,
}


def _formula(optimizer):
    """(flags, state, numbers, update) of the optimiser, compiled."""
    kind = type(optimizer)
    if kind not in _formulas:
        source = _C._optimiser_formula(optimizer._kind)
        if source is None:
            from taper._hook import NotCovered

            raise NotCovered(f"torch.optim.{kind.__name__}: differentiable=True")
        _formulas[kind] = [
            [(name, compile(text, f"<{kind.__name__}>", "eval")) for name, text in part] for part in eval(source, {})
        ]
    return _formulas[kind]


def _is_number(value, param):
    """A count of steps and its like is computed with as the number that it is, in double precision; a parameter without
    dimensions has state like itself."""
    return isinstance(value, Tensor) and not value.dim() and param.dim() > 0 and not value.requires_grad


def step(optimizer):
    """One step of all parameters that have a gradient."""
    flags, kept, numbers, update = _formula(optimizer)
    fresh = {
        id(p)
        for group in optimizer.param_groups
        for p in group["params"]
        if any(name != "step" for name, _ in kept)
        and not any(name in optimizer.state[p] for name, _ in kept if name != "step")
    }
    with taper.no_grad():
        _C._optimiser_step(optimizer._kind, optimizer.param_groups, optimizer.state, True)
    for group in optimizer.param_groups:
        values = {name: group[option] if at < 0 else group[option][at] for name, option, at in optimizer._values}
        for p in group["params"]:
            grad = p._grad
            if grad is None:
                continue
            state = optimizer.state[p]
            known = {
                **_FUNCTIONS,
                **{name: 0.0 for name, _ in kept},
                **values,
                "param": p.clone(),
                "grad": grad.clone(),
                "first": id(p) in fresh,
            }
            known.update((name, value.item() if _is_number(value, p) else value) for name, value in state.items())
            for name, code in (*flags, *numbers, *update):
                known[name] = eval(code, known)
            for name, code in kept:
                if name in state and eval(code, known):
                    state[name] = (
                        known[name] if isinstance(known[name], Tensor) else state[name].new_full((), known[name])
                    )
            p.copy_(known["param"])
