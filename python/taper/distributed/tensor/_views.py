"""How operators that move, cut or join elements work on the parts of DTensors (see _rules.py)."""

import taper
from taper._C import Size, Tensor
from taper.distributed.tensor._plan import Plan, cheapest, dims_of, given, kept
from taper.distributed.tensor.placement_types import Replicate, Shard

_R = Replicate()


def _along(placements, to):
    """Placements of the result: dimension d of the input is to[d] of it."""
    return [Shard(to[p.dim]) if p.is_shard() else p for p in placements]


def _mapped(spec, placements, to, args=None):
    return Plan.of([placements], _along(placements, to), {at: spec.shape[dim] for dim, at in to.items()}, args)


# ---- Dimensions in another order ----


def rearranged(name, specs, args, kwargs):
    """transpose, permute, unsqueeze, squeeze: tried on a small tensor whose dimensions all differ."""
    spec = specs[0]
    probe = taper.empty([1 if n == 1 else 2 + i for i, n in enumerate(spec.shape)], device="cpu")
    made = getattr(probe, name)
    made = made(*args[1:], **kwargs) if callable(made) else made
    to = {n - 2: at for at, n in enumerate(made.shape) if n != 1}
    ones = [dim for dim, n in enumerate(spec.shape) if n == 1]
    if len(made.shape) == len(spec.shape) and not to:
        to = dict(enumerate(range(len(spec.shape))))
    return _mapped(spec, kept(spec, ones, True), to)


def expand(name, specs, args, kwargs):
    sizes = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
    spec, more = specs[0], len(sizes) - len(specs[0].shape)
    if len(specs) > 1 or kwargs or more < 0:
        return None
    grown = [dim for dim, n in enumerate(spec.shape) if n == 1]
    to = {dim: dim + more for dim in range(len(spec.shape))}
    return _mapped(
        spec,
        kept(spec, grown, True),
        to,
        (args[0], [n if at < more or at - more in grown else -1 for at, n in enumerate(sizes)]),
    )


# ---- Other shapes ----


def _target(name, shape, args, kwargs):
    """The shape that is asked for."""
    if name == "flatten":
        first, last = (
            d % max(len(shape), 1)
            for d in (given(args, kwargs, 1, "start_dim", 0), given(args, kwargs, 2, "end_dim", -1))
        )
        return [*shape[:first], Size(shape[first : last + 1]).numel(), *shape[last + 1 :]]
    if name == "unflatten":
        dim = given(args, kwargs, 1, "dim") % len(shape)
        wanted = [*shape[:dim], *given(args, kwargs, 2, "sizes"), *shape[dim + 1 :]]
    else:
        wanted = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else kwargs.get("shape", args[1:])
    wanted = list(wanted)
    if not all(isinstance(n, int) for n in wanted):
        return None
    if -1 in wanted:
        others = Size([n for n in wanted if n != -1]).numel()
        wanted[wanted.index(-1)] = Size(shape).numel() // others if others else 0
    return wanted if Size(wanted).numel() == Size(shape).numel() else None


def _groups(shape, wanted):
    """Which dimensions together become which: [(of the input, of the result)], without those of size 1."""
    a, b = [d for d, n in enumerate(shape) if n != 1], [d for d, n in enumerate(wanted) if n != 1]
    found, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        left, right, m, n = [a[i]], [b[j]], shape[a[i]], wanted[b[j]]
        while m != n:
            if m < n:
                i += 1
                left.append(a[i])
                m *= shape[a[i]]
            else:
                j += 1
                right.append(b[j])
                n *= wanted[b[j]]
        found.append((left, right))
        i, j = i + 1, j + 1
    return found


def reshaped(name, specs, args, kwargs):
    spec = specs[0]
    wanted = _target(name, spec.shape, args, kwargs) if len(specs) == 1 else None
    if wanted is None or 0 in wanted:
        return None
    to, local, box = {}, list(wanted), spec.local_box()[1]
    for left, right in _groups(spec.shape, wanted):
        ways = spec.ways(left[0])
        same = len(left) == len(right) == 1
        if same or (spec.shape[left[0]] % ways == 0 and wanted[right[0]] % ways == 0):
            to[left[0]] = right[0]
            local[right[0]] = box[left[0]] if same else wanted[right[0]] // ways
    placements = kept(spec, [dim for dim in range(len(spec.shape)) if dim not in to], True)
    plan = Plan.of([placements], _along(placements, to), {at: wanted[at] for at in to.values()}, (args[0], local))
    plan.func = None if name == "view" else Tensor.reshape
    return plan


# ---- Parts of it ----


def indexed(name, specs, args, kwargs):
    """x[...] with numbers, slices, None and an ellipsis."""
    spec, index = specs[0], args[1] if isinstance(args[1], tuple) else (args[1],)
    if len(specs) > 1 or any(
        isinstance(i, (Tensor, list, tuple, bool)) or not (i is None or i is Ellipsis or isinstance(i, (int, slice)))
        for i in index
    ):
        return None
    free = len(spec.shape) - sum(1 for i in index if i is not None and i is not Ellipsis)
    if free < 0:
        return None  # the operator tells what is wrong
    at = index.index(Ellipsis) if Ellipsis in index else len(index)
    index = (*index[:at], *[slice(None)] * free, *index[at + 1 :])
    to, cut, own, dim, out = {}, [], [], 0, 0
    for i in index:
        whole = isinstance(i, slice) and i.indices(spec.shape[dim]) == (0, spec.shape[dim], 1)
        own.append(slice(None) if whole else i)
        if whole:
            to[dim] = out
        elif i is not None:
            cut.append(dim)
        out += not isinstance(i, int)
        dim += i is not None
    return _mapped(spec, kept(spec, cut, True), to, (args[0], tuple(own)))


def last_dims(name, specs, args, kwargs):
    """layer_norm, rms_norm, pad, tril: the last dimensions whole. Weights are whole as well."""
    spec = specs[0]
    if name in ("layer_norm", "rms_norm"):
        count = len(given(args, kwargs, 1, "normalized_shape"))
    else:
        count = len(given(args, kwargs, 1, "pad", ())) // 2 if name == "pad" else 2
    linear = name == "pad" and len(args) == 2 and not kwargs
    placements = kept(spec, range(len(spec.shape) - count, len(spec.shape)), linear)
    plan = _mapped(spec, placements, {d: d for d in range(len(spec.shape) - count)})
    plan.inputs += [[_R] * len(placements) for _ in specs[1:]]
    return plan


def picked(name, specs, args, kwargs):
    """gather: the numbers lie as the tensor does along the other dimensions."""
    if len(specs) != 2 or len(specs[0].shape) != len(specs[1].shape):
        return None
    spec, numbers = specs
    dim = given(args, kwargs, 1, "dim") % max(len(spec.shape), 1)
    differ = [d for d in range(len(spec.shape)) if d == dim or spec.shape[d] != numbers.shape[d]]
    placements = kept(spec, differ, False)
    return Plan.of([placements, placements], placements, dict(enumerate(numbers.shape)))


def repeated(name, specs, args, kwargs):
    times = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
    spec, more = specs[0], len(times) - len(specs[0].shape)
    if kwargs or more < 0:
        return None
    to = {d: d + more for d in range(len(spec.shape)) if times[d + more] == 1}
    return _mapped(spec, kept(spec, [d for d in range(len(spec.shape)) if d not in to], True), to)


# ---- Joined ----


def joined(name, specs, args, kwargs):
    """cat: any other dimension may be cut; sums are joined as sums."""
    if len(specs) != len(args[0]) or any(len(s.shape) != len(specs[0].shape) for s in specs):
        return None
    ndim, plan = len(specs[0].shape), Plan(len(specs))
    dim = given(args, kwargs, 1, "dim", 0) % max(ndim, 1)
    for mesh_dim in range(specs[0].mesh.ndim):
        have = [s.placements[mesh_dim] for s in specs]
        ways = [([_R] * len(specs), _R)]
        if any(p.is_shard() for p in have):
            ways += [([Shard(d)] * len(specs), Shard(d)) for d in range(ndim) if d != dim]
        ways += [([p] * len(specs), p) for p in dict.fromkeys(have) if p.is_partial() and p.reduce_op in ("sum", "avg")]
        plan.add(*cheapest(specs, mesh_dim, ways))
    return plan.done({d: n for d, n in enumerate(specs[0].shape) if d != dim})


def stacked(name, specs, args, kwargs):
    """stack: all lie as those that are cut do, if those agree."""
    if len(specs) != len(args[0]):
        return None
    ndim, plan = len(specs[0].shape), Plan(len(specs))
    dim = given(args, kwargs, 1, "dim", 0) % (ndim + 1)
    for mesh_dim in range(specs[0].mesh.ndim):
        have = [s.placements[mesh_dim] for s in specs]
        cuts, sums = ({p for p in have if p.is_shard()}, {p for p in have if p.is_partial()})
        one = next(iter(cuts)) if len(cuts) == 1 else next(iter(sums)) if not cuts and len(sums) == 1 else _R
        one = _R if one.is_partial() and one.reduce_op not in ("sum", "avg") else one
        plan.add([one] * len(specs), Shard(one.dim + (one.dim >= dim)) if one.is_shard() else one)
    return plan.done({d + (d >= dim): n for d, n in enumerate(specs[0].shape)})


RULES = {
    **dict.fromkeys(
        "t T mT H adjoint transpose swapaxes swapdims permute movedim moveaxis unsqueeze squeeze".split(), rearranged
    ),
    **dict.fromkeys("view reshape flatten unflatten".split(), reshaped),
    **dict.fromkeys("layer_norm rms_norm pad tril triu".split(), last_dims),
    "expand": expand,
    "broadcast_to": expand,
    "__getitem__": indexed,
    "gather": picked,
    "repeat": repeated,
    "cat": joined,
    "concat": joined,
    "stack": stacked,
}
