"""How operators work on the parts of DTensors: for each, where its arguments must lie so that every rank can compute
its part by itself, and where the result lies then.

A rule takes the specs of the tensors among the arguments and gives a Plan, or None where parts do not serve: then the
whole is computed on every rank. Mesh dimensions are planned one by one; where several ways are open the one that moves
least is taken."""

from taper._C import Tensor
from taper.distributed.tensor._views import RULES as VIEWS
from taper.distributed.tensor._plan import Plan, cheapest, dims_of, given
from taper.distributed.tensor.placement_types import Partial, Replicate, Shard, _NormPartial

_R = Replicate()

_POINTWISE = """abs absolute acos acosh addcdiv addcmul angle arccos arcsin arctan asin asinh atan atan2 atanh
    bitwise_and bitwise_left_shift bitwise_not bitwise_or
    bitwise_right_shift bitwise_xor ceil celu clamp clamp_max clamp_min clip conj copysign cos cosh deg2rad digamma div
    divide elu eq erf erfc erfinv exp exp2 expm1
    float_power floor floor_divide fmax fmin fmod frac ge gelu greater greater_equal gt hardshrink hardsigmoid hardswish
    hardtanh heaviside hypot isclose isfinite
    isinf isnan isneginf isposinf le leaky_relu lerp less less_equal lgamma log log10 log1p log2 logaddexp logaddexp2
    logical_and logical_not logical_or
    logical_xor logit logsigmoid lt masked_fill maximum minimum mish mul multiply nan_to_num ne nextafter not_equal
    polygamma pow prelu rad2deg reciprocal relu
    relu6 remainder round rsqrt selu sgn sigmoid sign signbit silu sin sinc sinh softplus softshrink softsign sqrt
    square tan tanh tanhshrink threshold
    true_divide trunc where xlogy __rsub__ __rtruediv__ __rpow__ __rfloordiv__ __rmod__ add sub subtract rsub add_ sub_
    mul_ div_ neg_ sqrt_ abs_ exp_ pow_ clamp_
    clamp_min_ clamp_max_ lerp_ addcmul_ addcdiv_ sigmoid_ relu_ tanh_ masked_fill_ floor_ ceil_ round_ reciprocal_ log_
    square_ copy_""".split()
_UNARY_LINEAR = """neg negative clone to float half bfloat16 double cpu cuda contiguous requires_grad_ type type_as
    zero_ real imag positive alias view_as_real
    dropout""".split()
_LIKE = (
    "zeros_like ones_like full_like rand_like randn_like randint_like bernoulli fill_ uniform_ normal_ exponential_ "
    "bernoulli_ random_"
).split()


def _sum_kind(specs, mesh_dim):
    """The partial placement that a sum of these keeps: the first one's, if it is one that adds up."""
    kinds = [s.placements[mesh_dim] for s in specs if s.placements[mesh_dim].is_partial()]
    return (
        kinds[0] if kinds and kinds[0].reduce_op in ("sum", "avg") and all(kind == kinds[0] for kind in kinds) else None
    )


def _numbers(args, kwargs, skip=("alpha", "memory_format", "dtype")):
    """Are there numbers among the operands?"""
    return any(
        isinstance(value, (int, float, complex)) for value in (*args, *(v for k, v in kwargs.items() if k not in skip))
    )


def _pointwise_partials(name, specs, args, kwargs, mesh_dim):
    """Ways that keep what is yet to be summed: [(inputs, output)]."""
    base = name.rstrip("_") if not name.startswith("__") else name
    kind = _sum_kind(specs, mesh_dim)
    if kind is None:
        return []
    if base in ("add", "sub", "subtract", "copy"):
        return [] if _numbers(args[:2], {"other": kwargs.get("other")}) else [([kind] * len(specs), kind)]
    if base in ("mul", "multiply"):
        return [
            ([kind if j == i else _R for j in range(len(specs))], kind)
            for i, s in enumerate(specs)
            if s.placements[mesh_dim] == kind
        ]
    if (
        base in ("div", "divide", "true_divide")
        and not given(args, kwargs, None, "rounding_mode")
        and specs[0].placements[mesh_dim] == kind
    ):
        return [([kind] + [_R] * (len(specs) - 1), kind)]
    return []


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


def pointwise(name, specs, args, kwargs):
    shape = _broadcast_shape(specs)
    if name.endswith("_") and not name.endswith("__"):
        return _in_place(name, specs, args, kwargs, shape)
    plan = Plan(len(specs))
    for mesh_dim in range(specs[0].mesh.ndim):
        ways = _pointwise_ways(specs, shape, mesh_dim) + _pointwise_partials(name, specs, args, kwargs, mesh_dim)
        plan.add(*cheapest(specs, mesh_dim, ways))
    return plan.done(_result_sizes(shape))


def _in_place(name, specs, args, kwargs, shape):
    """The first argument stays where it is; the others come to it."""
    plan = Plan(len(specs))
    for mesh_dim, placement in enumerate(specs[0].placements):
        if placement.is_partial():
            ways = [way for way in _pointwise_partials(name, specs, args, kwargs, mesh_dim) if way[0][0] == placement]
            if not ways:
                raise RuntimeError(
                    f"{name}: in-place operations that require placement changes are not supported: the tensor lies "
                    f"as {placement}, which {name} would have to sum up first"
                )
            plan.add(*ways[0])
        elif placement.is_shard():
            plan.add([_cut_along(s, placement.dim, shape) for s in specs], placement)
        else:
            plan.add([_R] * len(specs), _R)
    return plan.done(_result_sizes(specs[0].shape))


def unary_linear(name, specs, args, kwargs):
    kept = list(specs[0].placements)
    if any(
        p.is_partial()
        and p.reduce_op not in ("sum", "avg")
        and name not in ("clone", "contiguous", "requires_grad_", "to")
        for p in kept
    ):
        return pointwise(name, specs, args, kwargs)
    return Plan.of([kept] + [[_R] * len(kept)] * (len(specs) - 1), kept, _result_sizes(specs[0].shape))


def like(name, specs, args, kwargs):
    """New values of a tensor's shape: where it is yet to be summed, on every rank. In place it stays what it was."""
    out = [_R if p.is_partial() else p for p in specs[0].placements]
    if name.endswith("_") and out != list(specs[0].placements):
        raise RuntimeError(
            f"{name}: in-place operations that require placement changes are not supported: the tensor lies as "
            f"{specs[0].placements}"
        )
    return Plan.of([list(specs[0].placements)], out, _result_sizes(specs[0].shape))


def empty_like(name, specs, args, kwargs):
    return Plan.of([list(specs[0].placements)], list(specs[0].placements), _result_sizes(specs[0].shape))


# ---- Reductions ----

# name: (place of dim, place of keepdim, what parts of the reduced dimension give)
_REDUCTIONS = {
    "sum": (1, 2, "sum"),
    "nansum": (1, 2, "sum"),
    "mean": (1, 2, "avg"),
    "amax": (1, 2, "max"),
    "amin": (1, 2, "min"),
    "max": (1, 2, "max"),
    "min": (1, 2, "min"),
    "prod": (1, 2, "product"),
    "any": (1, 2, None),
    "all": (1, 2, None),
    "var": (1, 3, None),
    "std": (1, 3, None),
    "logsumexp": (1, 2, None),
    "argmax": (1, 2, None),
    "argmin": (1, 2, None),
    "norm": (2, 3, "norm"),
    "linalg_vector_norm": (2, 3, "norm"),
    "count_nonzero": (1, 9, "sum"),
    "median": (1, 2, None),
    "nanmean": (1, 2, None),
}


def _kept_dims(ndim, dims, keepdim):
    """Where dimensions are in the result."""
    return {dim: (dim if keepdim else dim - sum(1 for d in dims if d < dim)) for dim in range(ndim) if dim not in dims}


def reduction(name, specs, args, kwargs):
    if len(specs) > 1:
        return pointwise(name, specs, args, kwargs) if name in ("max", "min") else None
    spec, (at, keep_at, kind) = specs[0], _REDUCTIONS[name]
    ndim = len(spec.shape)
    dim = given(args, kwargs, at, "dim", given((), kwargs, None, "axis"))
    dims = dims_of(dim, ndim)
    if isinstance(dim, int) and name in ("max", "min"):
        kind = None  # values and places
    kept = _kept_dims(ndim, dims, given(args, kwargs, keep_at, "keepdim", False))
    inputs, output = [], []
    for placement in spec.placements:
        partial = _partial_of(name, kind, spec, dims, args, kwargs)
        if placement.is_shard() and placement.dim in kept:
            inputs.append(placement)
            output.append(Shard(kept[placement.dim]))
        elif placement.is_shard() and partial is not None:
            inputs.append(placement)
            output.append(partial)
        else:
            stays = placement.is_partial("sum") and name == "sum"
            inputs.append(placement if stays else _R)
            output.append(placement if stays else _R)
    return Plan.of([inputs], output, {to: spec.shape[dim] for dim, to in kept.items()})


def _partial_of(name, kind, spec, dims, args, kwargs):
    if kind == "norm":
        order = given(args, kwargs, 1, "p" if name == "norm" else "ord", 2)
        return (
            _NormPartial(int(order) if order == int(order) else order)
            if isinstance(order, (int, float)) and abs(order) != float("inf") and order > 0
            else None
        )
    if kind in ("avg", "max", "min") and any(spec.shape[dim] % max(spec.ways(dim), 1) for dim in dims):
        return None  # parts of different sizes, some of them perhaps empty
    return None if kind is None else Partial(kind)


def mean_loss(name, specs, args, kwargs):
    """A loss element by element, then a mean or sum of it."""
    how = kwargs.get("reduction") or next((value for value in args if isinstance(value, str)), "mean")
    plan = pointwise(name, specs, args, kwargs) if len(specs) == 2 else None
    if how == "none" or plan is None:
        return plan
    shape = _broadcast_shape(specs)
    for mesh_dim, placement in enumerate(plan.output):
        if placement.is_shard():
            if how == "mean" and shape[placement.dim] % specs[0].mesh.size():
                return None
            plan.output[mesh_dim] = Partial("avg" if how == "mean" else "sum")
    return plan.done({})


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


def batch_alone(name, specs, args, kwargs):
    """Only the first dimension may be cut; weights are whole."""
    rest = [[_R] * specs[0].mesh.ndim] * (len(specs) - 1)
    kept = [p if p.is_shard(0) and len(specs[0].shape) >= _BATCHED[name] else _R for p in specs[0].placements]
    return Plan.of([kept, *rest], kept, {0: specs[0].shape[0]})


_BATCHED = {
    "conv1d": 3,
    "conv2d": 4,
    "conv3d": 5,
    "conv_transpose1d": 3,
    "conv_transpose2d": 4,
    "conv_transpose3d": 5,
    "max_pool1d": 3,
    "max_pool2d": 4,
    "max_pool3d": 5,
    "avg_pool1d": 3,
    "avg_pool2d": 4,
    "avg_pool3d": 5,
    "adaptive_avg_pool1d": 3,
    "adaptive_avg_pool2d": 4,
    "adaptive_max_pool2d": 4,
    "interpolate": 3,
    "group_norm": 2,
}


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


RULES = {
    **VIEWS,
    **dict.fromkeys(_POINTWISE, pointwise),
    **dict.fromkeys(_UNARY_LINEAR, unary_linear),
    **dict.fromkeys(_LIKE, like),
    "empty_like": empty_like,
    **dict.fromkeys(_REDUCTIONS, reduction),
    **dict.fromkeys(_BATCHED, batch_alone),
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot", "vdot", "inner"), matmul),
    "linear": linear,
    "addmm": add_product,
    "baddbmm": add_product,
    "outer": outer,
    "einsum": einsum,
    "embedding": embedding,
    "scaled_dot_product_attention": attention,
    **dict.fromkeys(
        (
            "mse_loss",
            "l1_loss",
            "smooth_l1_loss",
            "huber_loss",
            "binary_cross_entropy",
            "binary_cross_entropy_with_logits",
        ),
        mean_loss,
    ),
}


def _as_they_lie(name, specs):
    """Parts that were cut in another order than the mesh's: element by element, all alike, or in place with the others
    brought to the first."""
    first = specs[0]
    if RULES.get(name) not in (pointwise, unary_linear, like, empty_like):
        return None
    same = [s.shape == first.shape for s in specs]
    in_place = name.endswith("_") and not name.endswith("__")
    if not all(
        s.shape.numel() == 1 or ok and (in_place or s.placements == first.placements) for s, ok in zip(specs, same)
    ):
        return None
    return Plan.of(
        [first.placements if ok else [_R] * len(first.placements) for ok in same],
        first.placements,
        _result_sizes(first.shape),
    )


def plan_for(name, specs, args, kwargs):
    """How to compute on parts, or None."""
    if any(s.is_strided() for s in specs):
        return _as_they_lie(name, specs)
    rule = RULES.get(name)
    if (
        rule is None
        or any(isinstance(value, Tensor) for value in kwargs.values() if not hasattr(value, "_spec"))
        or "out" in kwargs
    ):
        return None
    return rule(name, specs, args, kwargs)
