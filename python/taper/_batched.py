"""Tensors that stand for a batch of tensors inside torch.vmap: the function sees one slice's shape, and each operator
works on all slices at once, by the table's rule for it (the `batch` line, docs/tables.md). An operator without a rule
runs slice by slice. What cannot be done for a batch, such as reading a value, raises NeedsSlices, and vmap runs the
whole function slice by slice instead."""

import re

from taper import _C
from taper._C import Tensor
from taper.overrides import DisableTorchFunctionSubclass, _vmaps

_functions = _C._functions
_Operator = (_C.Function, _C.Method)


class NeedsSlices(BaseException):
    """Not for a batch at once. No Exception: the function's own `except Exception` must not take it."""


def _refuse(self, *args, **kwargs):
    raise NeedsSlices


class Batched(Tensor):
    """One level's batch. `_physical` has the batch as its first dim; what the object itself holds is the first slice,
    off the tape, for its shape, dtype and strides."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return _dispatch(func, args, kwargs or {})

    requires_grad = property(
        lambda self: self._physical.requires_grad, lambda self, on: setattr(self._physical, "requires_grad", on)
    )
    is_leaf = property(lambda self: self._physical.is_leaf)
    grad_fn = property(lambda self: self._physical.grad_fn)
    grad = data = property(_refuse, _refuse)
    item = tolist = numpy = backward = register_hook = retain_grad = untyped_storage = storage = data_ptr = (
        is_nonzero
    ) = nonzero = _refuse
    __bool__ = __int__ = __float__ = __index__ = __complex__ = __array__ = __format__ = __deepcopy__ = __reduce_ex__ = (
        __dlpack__
    ) = __contains__ = _refuse
    unique = unique_consecutive = _refuse

    def requires_grad_(self, requires_grad=True):
        self._physical.requires_grad_(requires_grad)
        return self

    def detach(self):
        return wrap(self._physical.detach(), self._level)

    def __repr__(self):
        inner = repr(self._physical).replace("\n", "\n    ")
        return f"BatchedTensor(lvl={self._level}, bdim=0, value={inner})"


def wrap(physical, level):
    """A batch of a level, from a tensor whose first dim is the batch."""
    with DisableTorchFunctionSubclass():
        batch = Tensor.detach(physical).select(0, 0).as_subclass(Batched)
    batch._physical, batch._level = physical, level
    return batch


def _tensors(tree):
    """The tensors among arguments and in lists of them."""
    for item in tree:
        if isinstance(item, Tensor):
            yield item
        elif isinstance(item, (list, tuple)):
            yield from _tensors(item)


def _map_tensors(function, item):
    if isinstance(item, Tensor):
        return function(item)
    if isinstance(item, (list, tuple)):
        parts = [_map_tensors(function, part) for part in item]
        return (
            parts
            if isinstance(item, list)
            else tuple(parts)
            if type(item) is tuple
            else type(item)(*parts)
            if hasattr(item, "_fields")
            else type(item)(parts)
        )
    return item


class _Call:
    """One call with a batch among its arguments: the innermost level's batches become plain first dims."""

    def __init__(self, func, args, kwargs):
        self.func, self.args, self.kwargs = func, args, kwargs
        batches = [t for t in _tensors((*args, *kwargs.values())) if isinstance(t, Batched)]
        self.level = max(t._level for t in batches)
        self.size = next(t._physical.shape[0] for t in batches if t._level == self.level)

    def has(self, item):
        """Is the tensor, or any of the list, a batch of this level?"""
        return any(isinstance(t, Batched) and t._level == self.level for t in _tensors((item,)))

    def physical(self, t):
        return t._physical if self.has(t) else t

    def lifted(self, t):
        """With the batch as its first dim, whether or not it differs from slice to slice."""
        return t._physical if self.has(t) else t.expand(self.size, *t.shape)

    def aligned(self, t, rank):
        """With the batch in front of `rank` dims, so that broadcasting pairs what it paired for one slice."""
        if not self.has(t):
            return t
        missing = rank - t.dim()
        return t._physical.reshape(self.size, *[1] * missing, *t.shape) if missing > 0 else t._physical

    def wrapped(self, result):
        return _map_tensors(lambda t: wrap(t, self.level), result)

    def slices(self):
        """Slice by slice, for operators without a rule that fits."""
        from taper import stack

        def one(i):
            def of(item):
                return _map_tensors(lambda t: t._physical.select(0, i) if self.has(t) else t, item)

            return self.func(*(of(a) for a in self.args), **{k: of(v) for k, v in self.kwargs.items()})

        rows = [one(i) for i in range(self.size)]
        if not list(_tensors((rows[0],))):
            if any(row != rows[0] for row in rows):
                raise NeedsSlices
            return rows[0]
        if any(t.shape != u.shape for row in rows for t, u in zip(_tensors((row,)), _tensors((rows[0],)))):
            raise NeedsSlices
        columns = [stack(list(column)) for column in zip(*(list(_tensors((row,))) for row in rows))]
        return _map_tensors(lambda t, left=iter(columns): wrap(next(left), self.level), rows[0])


# ---- The tape
# ---------------------------------------------------------------------------------------------------------------------
def plain(t):
    """The tensor with all batches as first dims."""
    while isinstance(t, Batched):
        t = t._physical
    return t


def fresh(t, make, level=None):
    """make(the plain tensor), as a batch at all levels now running: each slice gets a gradient of its own."""
    level = len(_vmaps.sizes) if level is None else level
    if level == 0:
        return make(t)
    here = isinstance(t, Batched) and t._level == level
    return wrap(fresh(t._physical if here else t.expand(_vmaps.sizes[level - 1], *t.shape), make, level - 1), level)


def _levels(t):
    found = set()
    while isinstance(t, Batched):
        found.add(t._level)
        t = t._physical
    return found


def _as_plain(g, like):
    """A cotangent with the batch dims of what it belongs to."""
    if not isinstance(like, Batched):
        if isinstance(g, Batched):
            raise NeedsSlices  # a batch of cotangents of one tensor
        return g
    here = isinstance(g, Batched) and g._level == like._level
    if not here and _levels(g) - _levels(like):
        raise NeedsSlices
    return _as_plain(g._physical if here else g.expand(like._physical.shape[0], *g.shape), like._physical)


def _rewrapped(t, like):
    return wrap(_rewrapped(t, like._physical), like._level) if isinstance(like, Batched) else t


def gradients(outputs, inputs, grads, *how):
    """_C._gradients for batches: one backward gives every slice its own gradient, as each slice has its own inputs."""
    if any(_levels(o) - _levels(x) for o in outputs for x in inputs):
        raise NeedsSlices
    given = [
        plain(o).new_ones(()).expand(plain(o).shape) if g is None else _as_plain(g, o) for o, g in zip(outputs, grads)
    ]
    found = _C._gradients(tuple(plain(o) for o in outputs), tuple(plain(x) for x in inputs), tuple(given), *how)
    return tuple(None if g is None else _rewrapped(g, x) for g, x in zip(found, inputs))


# ---- Operators with a rule in the table
# ------------------------------------------------------------------------------------------
class _Rule:
    """The words of a `batch` line, and the defaults of the signature."""

    def __init__(self, text, signature):
        head, *clauses = text.split(",")
        self.how, *words = head.split()
        self.argument = words[0] if words else None
        self.rank = int(words[1]) if self.how == "rows" else 0
        self.named = {"dims": [], "sizes": [], "spread": [], "times": [], "order": []}
        for clause in clauses:
            word, *names = clause.split()
            self.named[word] += names
        self.first = re.search(r"[( ](?:Tensor|Operand)\??(?:\[\])? (\w+)", signature).group(1)
        self.defaults, self.lists = (
            {},
            {name for name in self.named["dims"] if re.search(rf"int\[\]\?? {name}\b", signature)},
        )
        for name in self.named["dims"]:
            default = re.search(rf" {name}=([^,)]*)", signature)
            if default:
                text = default.group(1)
                self.defaults[name] = None if text in ("None", "[]") else int(text)


_rules = {}


def _shift(dim):
    if isinstance(dim, int):
        return dim + 1 if dim >= 0 else dim
    return [_shift(int(d)) for d in dim]


def _close_dtypes(tensors):
    """Are there different dtypes of the same kind (integer, floating, complex) among them?"""
    kinds = {}
    for t in tensors:
        kinds.setdefault((t.is_floating_point(), t.is_complex(), t.dtype is _C.bool), set()).add(t.dtype)
    return any(len(found) > 1 for found in kinds.values())


def _apply_rule(call, name, rule, given):
    """The physical arguments of one call for all slices; None if the rule does not take these."""
    tensors = {
        k: v for k, v in given.items() if isinstance(v, Tensor) or isinstance(v, (list, tuple)) and list(_tensors(v))
    }
    if rule.how == "each":
        ranks = [t.dim() for t in _tensors(tensors.values())]
        if any(t.dim() == 0 and call.has(t) for t in _tensors(tensors.values())) and _close_dtypes(
            _tensors(tensors.values())
        ):
            return None  # a number's dtype gives way, a vector's does not
        return {**given, **{k: _map_tensors(lambda t: call.aligned(t, max(ranks)), v) for k, v in tensors.items()}}
    if rule.how == "only" and any(call.has(v) for k, v in tensors.items() if k != rule.argument):
        return None
    this = given.get(rule.argument or rule.first)
    rank = next(_tensors((this,))).dim()
    if rule.how == "all":
        if len({t.dim() for t in _tensors(tensors.values())}) > 1:
            return None  # they broadcast
        given = {**given, **{k: _map_tensors(call.lifted, v) for k, v in tensors.items()}}
    else:
        given = {**given, rule.argument: call.physical(this)}
    for arg in rule.named["dims"]:
        dim = given.get(arg, rule.defaults.get(arg))
        if rank == 0 and name not in ("unsqueeze", "stack"):
            return None
        if dim is None or isinstance(dim, (list, tuple)) and not dim and rule.defaults.get(arg, 0) is None:
            if arg not in rule.lists:
                return None
            given[arg] = list(range(1, rank + 1))
        else:
            given[arg] = _shift(dim)
    for arg in rule.named["sizes"]:
        given[arg] = (call.size, *_sizes(given[arg]))
    for arg in (*rule.named["spread"], *rule.named["times"]):
        sizes = _sizes(given[arg])
        given[rule.first] = call.aligned(this, len(sizes))
        given[arg] = (call.size if arg in rule.named["spread"] else 1, *sizes)
    for arg in rule.named["order"]:
        given[arg] = (0, *(d % rank + 1 for d in given[arg]))
    return given


def _sizes(given):
    return (given,) if isinstance(given, int) else tuple(given)


def check_same_randomness(parameters):
    """Before a draw from a distribution that these tensors give: slices with distributions of their own cannot draw
    the same."""
    if _vmaps.randomness == "same" and any(isinstance(t, Batched) for t in parameters):
        raise RuntimeError(
            "Vmap does not currently support same randomness with a batched tensor input. Please file an issue with "
            "your use case."
        )


def refuse_randomness():
    if _vmaps.randomness != "error":  # each slice draws by itself
        raise NeedsSlices
    raise RuntimeError(
        "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
        "randomness flags on vmap or perform the randomness operation out of vmap"
    )


def _operator(call):
    name, text, signature, given = _C._bind(call.func, *call.args, **call.kwargs)
    base = name.partition(".")[0]
    inplace = call.func.__name__.endswith("_") and not call.func.__name__.endswith("__")
    if "out" in given:
        raise NeedsSlices
    if _C._operator_draws(name) and given.get("training", True):
        parameters = _C._operator_facts(name)["draws_by"]
        check_same_randomness([given.get(a) for a in parameters if not (inplace and a == "self")])
        refuse_randomness()
    if inplace:
        return _in_place(call, name, text, given)
    if text:
        rule = _rules.get(name) or _rules.setdefault(name, _Rule(text, signature))
        if rule.how == "rows":
            result = _rows(call, base, rule, given)
        else:
            fitting = _apply_rule(call, name, rule, given)
            result = NotImplemented if fitting is None else call.wrapped(_functions[base](**fitting))
        if result is not NotImplemented:
            return result
    return _DECOMPOSED[name](call, **given) if name in _DECOMPOSED else call.slices()


def _in_place(call, name, text, given):
    first = next(iter(given))
    if not call.has(given[first]):
        raise RuntimeError(
            f"vmap: {name}_ is not possible because there exists a Tensor in its arguments that has more elements "
            "than `self`. This happened due to `self` not being vmapped over but the other being vmapped over. "
            "Please use out-of-place operators instead."
        )
    if text != "each" or any(t.dim() > given[first].dim() for t in _tensors(given.values())):
        raise NeedsSlices
    rank = given[first].dim()
    _functions[name.partition(".")[0] + "_"](
        **{k: _map_tensors(lambda t: call.aligned(t, rank), v) for k, v in given.items()}
    )
    return given[first]


def _rows(call, base, rule, given):
    """Operators that take rows of samples: the batch's rows are more rows."""
    if any(call.has(v) for k, v in given.items() if k != rule.argument):
        return NotImplemented
    this = given[rule.argument]
    if this.dim() == rule.rank - 1:  # one sample: the batch is the rows
        return call.wrapped(_functions[base](**{**given, rule.argument: this._physical}))
    if this.dim() != rule.rank:
        return NotImplemented
    result = _functions[base](**{**given, rule.argument: this._physical.flatten(0, 1)})
    return _map_tensors(lambda t: wrap(t.unflatten(0, (call.size, this.shape[0])), call.level), result)


# ---- Operators said in others
# ----------------------------------------------------------------------------------------------------
def _matmul(call, self, other):
    from taper import matmul

    if self.dim() == 1:
        return matmul(self.unsqueeze(0), other).squeeze(-2 if other.dim() > 1 else -1)
    if other.dim() == 1:
        return matmul(self, other.unsqueeze(-1)).squeeze(-1)
    rank = max(self.dim(), other.dim())
    return call.wrapped(matmul(call.aligned(self, rank), call.aligned(other, rank)))


def _einsum(call, equation, tensors):
    from taper import einsum

    equation = equation.replace(" ", "")
    letter = next((c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if c not in equation), None)
    if "..." in equation or letter is None:
        return call.slices()
    terms, arrow, out = equation.partition("->")
    if not arrow:
        out = "".join(sorted(c for c in set(terms) - {","} if terms.count(c) == 1))
    terms = [(letter if call.has(t) else "") + term for term, t in zip(terms.split(","), tensors)]
    return call.wrapped(einsum(",".join(terms) + "->" + letter + out, [call.physical(t) for t in tensors]))


def _linear(call, input, weight, bias=None):
    if input.dtype.itemsize == 2 and bias is not None:
        return call.slices()  # which round once
    product = input.matmul(weight.mT if weight.dim() > 1 else weight)
    return product if bias is None else product + bias


def _addmm(call, self, mat1, mat2, beta=1, alpha=1):
    from taper import baddbmm

    shape = (mat1.shape[0], mat2.shape[1])
    return call.wrapped(
        baddbmm(call.lifted(self.expand(shape)), call.lifted(mat1), call.lifted(mat2), beta=beta, alpha=alpha)
    )


def _reduced(losses, reduction):
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


def _cross_entropy(call, input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    if weight is not None or label_smoothing or target.is_floating_point() or input.dim() > 2:
        return call.slices()
    return _nll(call, input.log_softmax(-1), target, None, ignore_index, reduction)


def _nll(call, input, target, weight=None, ignore_index=-100, reduction="mean"):
    if weight is not None or input.dim() > 2:
        return call.slices()
    counted = target != ignore_index
    losses = -input.gather(-1, target.where(counted, 0).unsqueeze(-1)).squeeze(-1) * counted
    return losses.sum() / counted.sum() if reduction == "mean" else _reduced(losses, reduction)


_DECOMPOSED = {
    "matmul": _matmul,
    "mm": lambda call, self, mat2: _matmul(call, self, mat2),
    "bmm": lambda call, self, mat2: _matmul(call, self, mat2),
    "mv": lambda call, self, vec: _matmul(call, self, vec),
    "dot": lambda call, self, tensor: _matmul(call, self, tensor),
    "outer": lambda call, self, vec2: self.unsqueeze(1) * vec2.unsqueeze(0),
    "einsum": _einsum,
    "linear": _linear,
    "addmm": _addmm,
    "T": lambda call, self: self.permute(tuple(range(self.dim()))[::-1]),
    "t": lambda call, self: self.transpose(0, 1) if self.dim() == 2 else self.view(self.shape),
    "squeeze": lambda call, self: self.squeeze([d for d, n in enumerate(self.shape) if n == 1]),
    "view_as": lambda call, self, other: self.view(other.shape),
    "expand_as": lambda call, self, other: self.expand(other.shape),
    "reshape_as": lambda call, self, other: self.reshape(other.shape),
    "max": lambda call, self: self.amax() if self.dim() else self.clone(),
    "min": lambda call, self: self.amin() if self.dim() else self.clone(),
    "mse_loss": lambda call, input, target, reduction="mean", weight=None: (
        _reduced((input - target) ** 2, reduction) if weight is None else call.slices()
    ),
    "l1_loss": lambda call, input, target, reduction="mean", weight=None: (
        _reduced((input - target).abs(), reduction) if weight is None else call.slices()
    ),
    "cross_entropy": _cross_entropy,
    "nll_loss": _nll,
}


# ---- Indexing
# --------------------------------------------------------------------------------------------------------------------
def _plain_index(index):
    """The index as a tuple if it is made of numbers, slices, None and ..., without a tensor."""
    index = index if isinstance(index, tuple) else (index,)
    return (
        index
        if all(i is None or i is Ellipsis or isinstance(i, (int, slice)) and not isinstance(i, bool) for i in index)
        else None
    )


def _getitem(call, self, index):
    plain = _plain_index(index)
    if plain is None or not call.has(self):
        return call.slices()
    return call.wrapped(self._physical[(slice(None), *plain)])


def _setitem(call, self, index, value):
    plain = _plain_index(index)
    if plain is None or not call.has(self):
        raise NeedsSlices
    if isinstance(value, Tensor):
        value = call.aligned(value, self._physical[(slice(None), *plain)].dim() - 1)
    self._physical[(slice(None), *plain)] = value


def _dispatch(func, args, kwargs):
    call = _Call(func, args, kwargs)
    if isinstance(func, _Operator):
        return _operator(call)
    name = getattr(func, "__name__", "")
    if name == "__getitem__":
        return _getitem(call, *args)
    if name == "__setitem__":
        return _setitem(call, *args)
    if name in ("__matmul__", "__rmatmul__"):
        return _matmul(call, *(args if name == "__matmul__" else args[::-1]))
    if (
        name.startswith("__") and type(func).__name__ == "wrapper_descriptor" or name in ("to", "type", "cpu")
    ):  # operators and moves: element by element
        if name.startswith("__i") and name not in ("__invert__",):
            raise NeedsSlices
        rank = max(t.dim() for t in _tensors(args))
        return call.wrapped(func(*(_map_tensors(lambda t: call.aligned(t, rank), a) for a in args), **kwargs))
    raise NeedsSlices
