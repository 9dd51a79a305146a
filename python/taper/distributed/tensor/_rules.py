"""How operators work on the parts of DTensors: for each, where its arguments must lie so that every rank can compute
its part by itself, and where the result lies then.

A rule takes the specs of the tensors among the arguments and gives a Plan, or None where parts do not serve: then the
whole is computed on every rank. Mesh dimensions are planned one by one; where several ways are open the one that moves
least is taken."""

import ast
import functools
import re
from types import MethodDescriptorType

from taper import _C
from taper._C import Tensor
from taper.distributed.tensor._views import RULES as VIEWS
from taper.distributed.tensor._plan import Plan, cheapest, dims_of, given, kept
from taper.distributed.tensor.placement_types import Partial, Replicate, Shard, _NormPartial

_R = Replicate()
_facts = functools.cache(_C._operator_facts)


@functools.cache
def _default(signature, argument):
    found = re.search(rf" {argument}=([^,)]*)", signature)
    word = found.group(1) if found else "None"
    return {"true": True, "false": False}[word] if word in ("true", "false") else ast.literal_eval(word)


class Call:
    """A call as its operator's stanza tells of it: the facts, and the arguments by name."""

    def __init__(self, func, args, kwargs):
        operator, _, _, self.given = _C._bind(func, *args, **kwargs)
        self.facts = _facts(operator)
        self.name, self.in_place = func.__name__, _is_in_place(func.__name__)
        tensors = (name for name, value in self.given.items() if hasattr(value, "_spec"))
        self.places = {name: place for place, name in enumerate(tensors)}  # which of the specs is an argument's

    def argument(self, name):
        return self.given[name] if name in self.given else _default(self.facts["signature"], name)

    def linear(self):
        """Groups of arguments in which it is linear, as places among the specs; none with a number in a group."""
        groups = [group.split() for group in (self.facts["linear"] or "").split(", ") if group]
        return [[self.places[name] for name in group] for group in groups if all(name in self.places for name in group)]


def _is_in_place(name):
    return name.endswith("_") and not name.endswith("__")


def _sum_kind(specs, mesh_dim):
    """The partial placement that a sum of these keeps: the first one's, if it is one that adds up."""
    kinds = [s.placements[mesh_dim] for s in specs if s.placements[mesh_dim].is_partial()]
    return (
        kinds[0] if kinds and kinds[0].reduce_op in ("sum", "avg") and all(kind == kinds[0] for kind in kinds) else None
    )


def _partial_ways(call, specs, mesh_dim):
    """Ways that keep what is yet to be summed: [(inputs, output)]."""
    ways = []
    for group in call.linear() if call else ():
        kind = _sum_kind([specs[place] for place in group], mesh_dim)
        if kind is not None:
            ways.append(([kind if place in group else _R for place in range(len(specs))], kind))
    return ways


def _broadcast_shape(specs):
    ndim = max(len(s.shape) for s in specs)
    shape = [1] * ndim
    for s in specs:
        for i, n in enumerate(s.shape):
            at = ndim - len(s.shape) + i
            shape[at] = n if shape[at] == 1 else shape[at]
    return shape


def _cut_along(spec, dim, shape):
    """How an operand lies when the result is cut along a dimension: where it is repeated along it, whole."""
    at = dim - (len(shape) - len(spec.shape))
    return _R if at < 0 or (spec.shape[at] == 1 and shape[dim] != 1) else Shard(at)


def _pointwise_ways(specs, shape, mesh_dim):
    ways = [([_R] * len(specs), _R)]
    if any(s.placements[mesh_dim].is_shard() for s in specs):
        ways += [([_cut_along(s, dim, shape) for s in specs], Shard(dim)) for dim in range(len(shape))]
    return ways


def _result_sizes(shape):
    return dict(enumerate(shape))


def pointwise(call, specs):
    """Element by element, as arguments are broadcast."""
    shape = _broadcast_shape(specs)
    if call and call.in_place:
        return _in_place(call, specs, shape)
    plan = Plan(len(specs))
    for mesh_dim in range(specs[0].mesh.ndim):
        ways = _pointwise_ways(specs, shape, mesh_dim) + _partial_ways(call, specs, mesh_dim)
        plan.add(*cheapest(specs, mesh_dim, ways))
    return plan.done(_result_sizes(shape))


def _refuse_in_place(call, placements):
    raise RuntimeError(
        f"{call.name}: in-place operations that require placement changes are not supported: the tensor lies as "
        f"{placements}, which would have to be summed up first"
    )


def _in_place(call, specs, shape):
    """The first argument stays where it is; the others come to it."""
    plan = Plan(len(specs))
    for mesh_dim, placement in enumerate(specs[0].placements):
        if placement.is_partial():
            ways = [way for way in _partial_ways(call, specs, mesh_dim) if way[0][0] == placement]
            if not ways:
                _refuse_in_place(call, placement)
            plan.add(*ways[0])
        elif placement.is_shard():
            plan.add([_cut_along(s, placement.dim, shape) for s in specs], placement)
        else:
            plan.add([_R] * len(specs), _R)
    return plan.done(_result_sizes(specs[0].shape))


def same(specs):
    """The first argument's elements: they stay where they are."""
    stay = list(specs[0].placements)
    return Plan.of([stay] + [[_R] * len(stay)] * (len(specs) - 1), stay, _result_sizes(specs[0].shape))


def like(call, specs):
    """New values of a tensor's shape: where it is yet to be summed, on every rank. In place it stays what it was."""
    out = [_R if p.is_partial() else p for p in specs[0].placements]
    if call.in_place and out != list(specs[0].placements):
        _refuse_in_place(call, specs[0].placements)
    return Plan.of([list(specs[0].placements)], out, _result_sizes(specs[0].shape))


def mean_loss(call, specs):
    """A loss element by element, then a mean or sum of it."""
    how = call.argument("reduction") or "mean"
    plan = pointwise(None, specs) if len(specs) == 2 else None
    if how == "none" or plan is None:
        return plan
    shape = _broadcast_shape(specs)
    for mesh_dim, placement in enumerate(plan.output):
        if placement.is_shard():
            if how == "mean" and shape[placement.dim] % specs[0].mesh.size():
                return None
            plan.output[mesh_dim] = Partial("avg" if how == "mean" else "sum")
    return plan.done({})


# ---- Along some dimensions ----


def along(call, specs):
    """What needs some dimensions whole, or gives something to be put together of their parts. Other tensors among the
    arguments are whole as well."""
    spec, (dim, *how) = specs[0], call.facts["along"].split()
    if not spec.shape or len(specs) > 1 and call.facts["kind"] == "fold":
        return None
    ndim = len(spec.shape)
    dims = dims_of(None if dim == "all" else call.argument(dim), ndim)
    gone = dim == "all" or how[:1] == ["gone"] or how[:1] == ["keep"] and not call.argument(how[1])
    to = {d: d - sum(gone and other < d for other in dims) for d in range(ndim) if d not in dims}
    partial = _partial_of(call, spec, dims)
    inputs, output = [], []
    for placement, stays in zip(spec.placements, kept(spec, dims, [0] in call.linear())):
        joined = placement.is_shard() and placement.dim in dims and partial is not None
        inputs.append(placement if joined else stays)
        output.append(partial if joined else Shard(to[stays.dim]) if stays.is_shard() else stays)
    whole = [[_R] * len(output) for _ in specs[1:]]
    return Plan.of([inputs, *whole], output, {at: spec.shape[d] for d, at in to.items()})


def _partial_of(call, spec, dims):
    """What the results of parts along these dims are to the whole's."""
    kind, *order = (call.facts["parts"] or "none").split()
    if kind == "norm":
        order = call.argument(order[0])
        if not isinstance(order, (int, float)) or abs(order) == float("inf") or order <= 0:
            return None
        return _NormPartial(int(order) if order == int(order) else order)
    if kind in ("avg", "max", "min") and any(spec.shape[dim] % max(spec.ways(dim), 1) for dim in dims):
        return None  # parts of different sizes, some of them perhaps empty
    return None if kind == "none" else Partial(kind)


# ---- Products ----


def _product(specs, terms, result, extra=0):
    """A sum of products, each dimension of the factors with a letter; the last `extra` terms are added to it. Cut along
    a letter: parts of the result, or summands."""
    sizes = {}
    for spec, term in zip(specs, terms):
        for letter, n in zip(term, spec.shape):
            sizes[letter] = max(sizes.get(letter, 1), n)
    for spec, term in zip(specs, terms):
        if len(term) != len(spec.shape) or any(n not in (1, sizes[letter]) for letter, n in zip(term, spec.shape)):
            return None  # the operator tells what is wrong
    letters = list(dict.fromkeys("".join(terms)))
    factors = len(specs) - extra
    plan = Plan(len(specs))

    def cut(i, letter):
        at = terms[i].find(letter)
        return Shard(at) if at >= 0 and (specs[i].shape[at] == sizes[letter]) else _R

    for mesh_dim in range(specs[0].mesh.ndim):
        ways = [([_R] * len(specs), _R)]
        if any(s.placements[mesh_dim].is_shard() for s in specs):
            for letter in sorted(letters, key=lambda one: result.find(one) if one in result else len(result)):
                out = Shard(result.index(letter)) if letter in result else Partial()
                ways.append(
                    ([cut(i, letter) if i < factors or letter in result else Partial() for i in range(len(specs))], out)
                )
        kind = _sum_kind(specs[:factors], mesh_dim)
        if kind is not None:
            ways += [
                ([kind if j == i or j >= factors else _R for j in range(len(specs))], kind)
                for i in range(factors)
                if specs[i].placements[mesh_dim] == kind
            ]
        plan.add(*cheapest(specs, mesh_dim, ways))
    return plan.done({i: sizes[letter] for i, letter in enumerate(result)})


_LETTERS = "abcdefghijlpqrstuvwxyz"  # of batches; m, k, n are those of matrices


def matmul(name, specs, args, kwargs):
    if len(specs) != 2:
        return None
    a, b = (len(s.shape) for s in specs)
    if not a or not b:
        return None
    batch = _LETTERS[: max(a, b, 2) - 2]
    left = "k" if a == 1 else batch[len(batch) - (a - 2) :] + "mk"
    right = "k" if b == 1 else batch[len(batch) - (b - 2) :] + "kn"
    return _product(specs, [left, right], batch + ("" if a == 1 else "m") + ("" if b == 1 else "n"))


def linear(name, specs, args, kwargs):
    if len(specs) < 2 or len(specs[1].shape) != 2:
        return None
    batch = _LETTERS[: len(specs[0].shape) - 1]
    return _product(specs, [batch + "k", "nk"] + ["n"] * (len(specs) - 2), batch + "n", len(specs) - 2)


def add_product(name, specs, args, kwargs):
    """addmm, baddbmm: something plus a product."""
    if len(specs) != 3 or len(specs[0].shape) > 2 + (name == "baddbmm") or kwargs:
        return None
    batch = "a" if name == "baddbmm" else ""
    result = batch + "mn"
    plan = _product(
        [*specs[1:], specs[0]], [batch + "mk", batch + "kn", result[len(result) - len(specs[0].shape) :]], result, 1
    )
    if plan is not None:
        plan.inputs = [plan.inputs[2], plan.inputs[0], plan.inputs[1]]
    return plan


def outer(name, specs, args, kwargs):
    return _product(specs, ["m", "n"], "mn") if len(specs) == 2 else None


def einsum(name, specs, args, kwargs):
    text = args[0].replace(" ", "") if isinstance(args[0], str) else ""
    left, arrow, result = text.partition("->")
    terms = left.split(",")
    if not arrow or "." in text or len(terms) != len(specs) or any(len(set(term)) != len(term) for term in terms):
        return None
    return _product(specs, terms, result)


# ---- Layers ----


def batch_alone(rank, specs):
    """Only the first dimension may be cut, where there are `rank` of them; weights are whole."""
    rest = [[_R] * specs[0].mesh.ndim] * (len(specs) - 1)
    stay = [p if p.is_shard(0) and len(specs[0].shape) >= rank else _R for p in specs[0].placements]
    return Plan.of([stay, *rest], stay, {0: specs[0].shape[0]})


def attention(name, specs, args, kwargs):
    """Cut along the batch or the heads."""
    if len(specs) != 3:
        return None
    plan = Plan(3)
    for mesh_dim in range(specs[0].mesh.ndim):
        wanted = specs[0].placements[mesh_dim]
        alike = (
            wanted.is_shard()
            and wanted.dim < len(specs[0].shape) - 2
            and all(
                s.placements[mesh_dim] == wanted and s.shape[wanted.dim] == specs[0].shape[wanted.dim] for s in specs
            )
        )
        plan.add([wanted if alike else _R] * 3, wanted if alike else _R)
    return plan.done({i: n for i, n in enumerate(specs[0].shape[:-1])})


def embedding(name, specs, args, kwargs):
    """Cut along the numbers, or along what is kept for each."""
    if len(specs) != 2:
        return None
    numbers, weight = specs
    plan, last = Plan(2), len(numbers.shape)
    for mesh_dim in range(weight.mesh.ndim):
        ways = [([_R, _R], _R), ([_R, Shard(1)], Shard(last))] + [([Shard(dim), _R], Shard(dim)) for dim in range(last)]
        if not any(s.placements[mesh_dim].is_shard() for s in specs):
            ways = ways[:1]
        plan.add(*cheapest(specs, mesh_dim, ways))
    return plan.done({**dict(enumerate(numbers.shape)), last: weight.shape[1]})


# Operators whose rule is more than a fact of their stanza.
RULES = {
    **VIEWS,
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot", "vdot", "inner"), matmul),
    "linear": linear,
    "addmm": add_product,
    "baddbmm": add_product,
    "outer": outer,
    "einsum": einsum,
    "embedding": embedding,
    "scaled_dot_product_attention": attention,
    "interpolate": lambda name, specs, args, kwargs: batch_alone(3, specs),  # of any rank, as group_norm
    "group_norm": lambda name, specs, args, kwargs: batch_alone(2, specs),
    # What is not set stays so, in parts as well. view_as_real has one more dimension, the last.
    **dict.fromkeys(("empty_like", "view_as_real"), lambda name, specs, args, kwargs: same(specs)),
}
# Methods of Python's Tensor that are no operators.
_SAME_METHODS = ("cpu", "cuda", "requires_grad_", "to", "type")
_REFLECTED = ("__rsub__", "__rtruediv__", "__rpow__", "__rfloordiv__", "__rmod__")


_ROWS = re.compile(r"rows (\w+) (\d+)")


@functools.cache
def is_face(func, name):
    """Is it a function of Python in front of an operator of its name, whose facts are enough for a rule?"""
    if isinstance(func, (_C.Function, _C.Method, MethodDescriptorType)) or name in RULES or name not in _C._functions:
        return False
    facts = _facts(name) if _C._operator_kind(name) else {}
    return any(facts.get(word) for word in ("elementwise", "along", "shape_from")) or bool(
        _ROWS.fullmatch(facts.get("batch") or "")
    )


def _by_stanza(call, specs):
    """By the facts of the operator; None: they say nothing."""
    rows = _ROWS.fullmatch(call.facts["batch"] or "")
    if call.facts["elementwise"] == "same" and not call.in_place:
        return same(specs)
    if call.facts["elementwise"] == "reduced":
        return mean_loss(call, specs)
    if call.facts["elementwise"]:
        return pointwise(call, specs)
    if call.facts["shape_from"]:
        return like(call, specs)
    if call.facts["along"]:
        return along(call, specs)
    return batch_alone(int(rows.group(2)), specs) if rows and call.places.get(rows.group(1)) == 0 else None


def _as_they_lie(call, name, specs):
    """Parts that were cut in another order than the mesh's: element by element, all alike, or in place with the others
    brought to the first."""
    first = specs[0]
    facts = call.facts if call else {}
    if not (
        facts.get("elementwise") in ("each", "same")
        or facts.get("shape_from")
        or name in (*_SAME_METHODS, *_REFLECTED, "empty_like")
    ):
        return None
    fits = [s.shape == first.shape for s in specs]
    in_place = _is_in_place(name)
    if not all(
        s.shape.numel() == 1 or ok and (in_place or s.placements == first.placements) for s, ok in zip(specs, fits)
    ):
        return None
    return Plan.of(
        [first.placements if ok else [_R] * len(first.placements) for ok in fits],
        first.placements,
        _result_sizes(first.shape),
    )


def _bound(func, args, kwargs):
    """The operator's call; None for a function that is no operator, or arguments that it does not take."""
    try:
        return Call(func, args, kwargs)
    except TypeError:
        return None


def plan_for(func, name, specs, args, kwargs):
    """How to compute on parts, or None."""
    call = None if name in RULES else _bound(func, args, kwargs)
    if any(s.is_strided() for s in specs):
        return _as_they_lie(call, name, specs)
    if any(isinstance(value, Tensor) for value in kwargs.values() if not hasattr(value, "_spec")) or "out" in kwargs:
        return None
    if name in RULES:
        return RULES[name](name, specs, args, kwargs)
    if name in _SAME_METHODS:
        return same(specs)
    if name in _REFLECTED:
        return pointwise(None, specs)
    return _by_stanza(call, specs) if call else None
