"""torch.autograd.forward_ad: tangents beside tensors.

Inside a level a mode sees every call. A call with a tensor that has a tangent is differentiated on the spot: a view of
it has the same view of the tangent; other calls run once more on fresh leaves, and differentiating their backward with
respect to the gradient that it is given pushes the tangents through. A tensor's tangent hangs on its Python object and
ends with the level.

Gradients that are taken inside of a level have tangents, too. For them each tensor with a tangent has a twin: the same
value, recorded from leaves that the level made. A gradient of twins depends on those leaves, and differentiating it
along their tangents gives its tangent."""

from collections import namedtuple
from weakref import ref

from taper import _C
from taper._C import Tensor
from taper.autograd.grad_mode import _DecoratorContextManager, enable_grad
from taper.overrides import TorchFunctionMode, _forward, _modes, _no_batches
from taper.utils._pytree import tree_flatten, tree_map

__all__ = ["UnpackedDualTensor", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual", "dual_level"]

UnpackedDualTensor = namedtuple("UnpackedDualTensor", ["primal", "tangent"])
_KEY, _TWIN = "_forward_tangent", "_forward_twin"
_PROPERTIES = frozenset(("T", "mT", "H", "mH", "real", "imag"))
_NOT_DIFFERENTIATED = frozenset(
    (
        "__set__",
        "__delete__",
        "backward",
        "requires_grad_",
        "register_hook",
        "retain_grad",
        "detach",
        "detach_",
        "item",
        "tolist",
        "numpy",
        "resolve_conj",
        "resolve_neg",
    )
)


class _Level:
    """The level that is open: the tensors that got a tangent in it."""

    def __init__(self):
        self.duals, self.mode = [], _Mode()
        self.leaves = []  # (a leaf of the twins, its tangent)


class _Mode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return _call(func, args, kwargs or {})


def __getattr__(name):
    if name == "_current_level":  # -1 outside of all of them
        return -1 if _forward.level is None else 0
    raise AttributeError(f"module 'torch.autograd.forward_ad' has no attribute '{name}'")


# ---- Levels ----
def enter_dual_level():
    """Opens a level; there is one at a time, as in PyTorch."""
    if _forward.level is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _forward.level = _Level()
    _forward.level.mode.__enter__()
    return 0


def exit_dual_level(*, level=None):
    """Closes the level and forgets its tangents."""
    if _forward.level is None:
        raise RuntimeError("Trying to exit a forward AD level but no level is active")
    if level not in (None, 0):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    closed, _forward.level = _forward.level, None
    _modes.stack.remove(closed.mode)
    _C._change_modes(-1)
    for dual in closed.duals:
        dual = dual()
        if dual is not None:
            dual.__dict__.pop(_KEY, None)
            dual.__dict__.pop(_TWIN, None)


class dual_level(_DecoratorContextManager):
    """A level for a block."""

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *error):
        exit_dual_level()


def _is_fwd_grad_enabled():
    """Do calls push tangents on?"""
    return _forward.enabled


class _set_fwd_grad_enabled(_DecoratorContextManager):
    """Tangents are pushed on from here, or are not; as a context, inside of it."""

    def __init__(self, mode):
        self.prev, self.mode = _forward.enabled, mode
        _forward.enabled = mode

    def __enter__(self):
        _forward.enabled = self.mode

    def __exit__(self, *error):
        _forward.enabled = self.prev

    def clone(self):
        return type(self)(self.mode)


# ---- Tangents of tensors ----
def _tangent(t):
    return t.__dict__.get(_KEY) if isinstance(t, Tensor) else None


def _set_tangent(t, tangent):
    """Gives t the tangent, in t's layout: as it is, or a copy of it."""
    if tangent.shape != t.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is "
            f"not supported. Tensor is of size {list(t.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    if tangent.stride() != t.stride() and t.numel() > 1 or tangent.dtype != t.dtype:
        copy = (
            _C._functions["empty_strided"](t.shape, t.stride(), dtype=t.dtype, device=t.device)
            if _is_dense(t)
            else t.detach().clone()
        )
        tangent = copy.zero_().copy_(tangent)
    if _KEY not in t.__dict__:
        _forward.level.duals.append(ref(t))
    t.__dict__[_KEY] = tangent


def _is_dense(t):
    return all(n == 1 or s > 0 for n, s in zip(t.shape, t.stride()))


def _without_mode(function, *args):
    """function(*args), unseen by the level."""
    enabled, _forward.enabled = _forward.enabled, False
    try:
        return function(*args)
    finally:
        _forward.enabled = enabled


def make_dual(tensor, tangent, *, level=None):
    """The tensor with a tangent, which results that are computed from it have too."""
    if _forward.level is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    if not (tangent.is_floating_point() or tangent.is_complex()):
        raise ValueError(f"Expected tangent to be floating point or complex, but got: {tangent.dtype}")
    if _tangent(tangent) is not None:
        raise RuntimeError(
            "Trying to set a forward gradient that has a forward gradient at the same level: this is not supported."
        )
    dual = _without_mode(tensor.view_as, tensor)
    _without_mode(_set_tangent, dual, tangent)
    _without_mode(_make_twin, dual)
    return dual


def unpack_dual(tensor, *, level=None):
    """The tensor and its tangent, None if it has none."""
    if _forward.level is None:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(_without_mode(tensor.view_as, tensor), _tangent(tensor) if _forward.enabled else None)


# ---- Twins ----
def _make_twin(dual):
    """The twin of a tensor that was given a tangent: a copy of a leaf, so that it can be written in place."""
    with enable_grad():
        leaf = dual.view_as(dual) if dual.requires_grad else dual.detach()
        if not leaf.requires_grad:
            leaf.requires_grad = True
        _forward.level.leaves.append(
            (leaf, _tangent(dual).detach().clone() if not _tangent(dual).requires_grad else _tangent(dual).clone())
        )
        dual.__dict__[_TWIN] = leaf.clone()


def _twin(t):
    return t.__dict__.get(_TWIN, t) if isinstance(t, Tensor) else t


def _twin_to_write(t):
    """The twin of a tensor that is about to be written, made where there is none: that of a view is a view of its
    base's."""
    if _TWIN not in t.__dict__:
        base = t._base
        if base is None:
            t.__dict__[_TWIN] = t.clone()
        else:
            t.__dict__[_TWIN] = _twin_to_write(base).as_strided(
                t.shape, t.stride(), t.storage_offset() - base.storage_offset()
            )
        _forward.level.duals.append(ref(t))
    return t.__dict__[_TWIN]


def _call_on_twins(func, args, kwargs, written):
    with enable_grad():
        if written is not None:
            _twin_to_write(written)
        args, kwargs = tree_map(_twin, (args, kwargs))
        return func(*args, **kwargs)


def _keep_twins(outs, twins):
    for out, twin in zip(outs, twins):
        if isinstance(twin, Tensor) and twin.requires_grad and twin is not out:
            out.__dict__[_TWIN] = twin
            _forward.level.duals.append(ref(out))


def _tangent_of_twin(twin, create):
    """How a twin moves when the level's leaves move along their tangents; None if it does not."""
    from taper import zeros_like

    if not twin.requires_grad or not _forward.level.leaves:
        return None
    leaves, tangents = zip(*_forward.level.leaves)
    with enable_grad():
        mark = zeros_like(twin.detach())
        mark.requires_grad = True
        linear = _C._gradients((twin,), leaves, (mark,), True, True, True, False)
        pairs = [(g, v) for g, v in zip(linear, tangents) if g is not None and g.requires_grad]
        if not pairs:
            return None
        found = _C._gradients(
            tuple(g for g, _ in pairs), (mark,), tuple(v for _, v in pairs), True, create, True, True
        )[0]
    return found if create else found.detach()


def gradients(outputs, inputs, grads, retain, create, unused, materialize):
    """_C._gradients inside of a level: what comes has tangents."""
    return _without_mode(_gradients_with_tangents, outputs, inputs, grads, retain, create, unused, materialize)


def _gradients_with_tangents(outputs, inputs, grads, retain, create, unused, materialize):
    outputs, inputs = ((t,) if isinstance(t, Tensor) else tuple(t) for t in (outputs, inputs))
    grads = (None,) * len(outputs) if grads is None else (grads,) if isinstance(grads, Tensor) else tuple(grads)
    twins = tuple(map(_twin, outputs)), tuple(map(_twin, inputs)), tuple(map(_twin, grads))
    changed = any(a is not b for a, b in zip((*outputs, *inputs, *grads), (t for part in twins for t in part)))
    moved = ()
    if changed and all(t.requires_grad for t in (*twins[0], *twins[1])):
        moved = _C._gradients(*twins, True, True, True, False)
    found = _C._gradients(outputs, inputs, grads, retain or bool(moved), create, unused, materialize)
    for g, twin in zip(found, moved):
        tangent = None if g is None or twin is None else _tangent_of_twin(twin, create)
        if tangent is not None:
            _set_tangent(g, tangent)
            _keep_twins((g,), (twin,))
    return found


def alias(t):
    """A leaf like t that has t's tangent and twin, for a transform that differentiates with respect to it."""
    return _without_mode(_alias, t)


def detached(t):
    """t without its history, but with its tangent and twin."""
    return _without_mode(_alias, t, False)


def _alias(t, requires_grad=True):
    leaf = t.detach()
    leaf.requires_grad = requires_grad
    if _tangent(t) is not None:
        _set_tangent(leaf, _tangent(t) if requires_grad else _tangent(t).detach())
    if _TWIN in t.__dict__:
        with enable_grad():
            _keep_twins((leaf,), (t.__dict__[_TWIN].view_as(t),))
    return leaf


# ---- Calls ----
def _call(func, args, kwargs):
    name = getattr(func, "__name__", "")
    duals = [t for t in tree_flatten((args, kwargs))[0] if _tangent(t) is not None] if _forward.enabled else ()
    if not duals:
        return func(*args, **kwargs)
    if name == "detach_":
        args[0].__dict__.pop(_KEY, None)
    if name == "__get__" and getattr(func.__self__, "__name__", "") not in _PROPERTIES or name in _NOT_DIFFERENTIATED:
        return func(*args, **kwargs)
    if kwargs.get("out") is not None:
        raise RuntimeError(
            f"{name}(): out= function are not supported in a region where forward mode AD is on, or its arguments "
            "have tangents"
        )
    return _without_mode(_differentiated, func, name, args, kwargs, duals)


def _writes(name, args, result):
    """Is this a call that writes to its first argument, and gave it back?"""
    inplace = (
        name.endswith("_")
        and not name.endswith("__")
        or name.startswith("__i")
        and name not in ("__invert__", "__index__", "__int__")
    )
    return name == "__setitem__" or inplace and isinstance(args[0], Tensor) and (result is args[0] or result is None)


def _differentiated(func, name, args, kwargs, duals):
    generator = _C.default_generator
    state = generator.get_state()
    inplace = (
        name == "__setitem__"
        or name.endswith("_")
        and not name.endswith("__")
        or name.startswith("__i")
        and name not in ("__invert__", "__index__", "__int__")
    )
    if inplace:
        pushed = _pushed(func, args, kwargs, duals, args[0])
        generator.set_state(state)
        _call_on_twins(func, args, kwargs, args[0])
        generator.set_state(state)
        result = func(*args, **kwargs)
        if _writes(name, args, result) and pushed:
            _write_tangent(args[0], pushed[0])
        return result
    result = func(*args, **kwargs)
    outs = [t for t in tree_flatten(result)[0] if isinstance(t, Tensor) and (t.is_floating_point() or t.is_complex())]
    if not outs:
        return result
    if all(_is_view_of(out, duals) for out in outs):
        tangents = tree_flatten(_on_tangents(func, args, kwargs))[0]
    else:
        after = generator.get_state()
        generator.set_state(state)
        tangents = _pushed(func, args, kwargs, duals, None)
        generator.set_state(after)
    after = generator.get_state()
    generator.set_state(state)
    _keep_twins(
        [t for t in tree_flatten(result)[0] if isinstance(t, Tensor)],
        [t for t in tree_flatten(_call_on_twins(func, args, kwargs, None))[0] if isinstance(t, Tensor)],
    )
    generator.set_state(after)
    for out, tangent in zip(outs, tangents):
        if tangent is not None and not any(out is t for t in duals):
            _set_tangent(out, tangent)
    return result


def _is_view_of(out, duals):
    return out._is_view() and any(out.untyped_storage().data_ptr() == t.untyped_storage().data_ptr() for t in duals)


def _on_tangents(func, args, kwargs):
    """A linear call on the tangents."""
    args, kwargs = tree_map(lambda t: t if _tangent(t) is None else _tangent(t), (args, kwargs))
    return func(*args, **kwargs)


def _write_tangent(t, tangent):
    """t was written in place: so is its tangent, that of a view through its base's."""
    from taper import zeros_like

    if _tangent(t) is None:
        base = t._base
        if base is not None:
            if _tangent(base) is None:
                _set_tangent(base, zeros_like(base.detach()))
            _set_tangent(t, _tangent(base).as_strided(t.shape, t.stride(), t.storage_offset() - base.storage_offset()))
        else:
            _set_tangent(t, tangent.detach().clone() if not tangent.requires_grad else tangent.clone())
            return
    _tangent(t).copy_(tangent)


def _pushed(func, args, kwargs, duals, written):
    """The tangents of what a call gives (of what it writes to), by differentiating its backward; None where none
    comes."""
    from taper import zeros_like
    from taper.func import _gradients

    tangents = [_tangent(t) for t in duals]
    _no_batches((*duals, *tangents))
    create = _C.is_grad_enabled() and any(t.requires_grad for t in (*duals, *tangents))
    with enable_grad():
        leaves = []
        for t in duals:
            leaf = t.view_as(t) if create and t.requires_grad else t.detach()
            if not leaf.requires_grad:
                leaf.requires_grad = True
            leaves.append(leaf)
        place = {id(t): leaf for t, leaf in zip(duals, leaves)}
        if written is not None:  # a copy takes the write
            place[id(written)] = place.get(id(written), written.detach()).clone()
        args, kwargs = tree_map(lambda t: place.get(id(t), t), (args, kwargs))
        result = func(*args, **kwargs)
        given = (place[id(written)],) if written is not None else tree_flatten(result)[0]
        outs = [t for t in given if isinstance(t, Tensor) and (t.is_floating_point() or t.is_complex())]
        marks = [zeros_like(o.detach()) if o.requires_grad else None for o in outs]
        used = [m for m in marks if m is not None]
        for mark in used:
            mark.requires_grad = True
        if not used:
            return [None] * len(outs)
        linear = _C._gradients(
            tuple(o for o, m in zip(outs, marks) if m is not None), tuple(leaves), tuple(used), True, True, True, False
        )
        pairs = [(g, v) for g, v in zip(linear, tangents) if g is not None and g.requires_grad]
        found = iter(
            _gradients([g for g, _ in pairs], used, [v for _, v in pairs], create)
            if pairs
            else [zeros_like(m) for m in used]
        )
        return [None if m is None else next(found) if create else next(found).detach() for m in marks]


# ---- torch.autograd.Function ----
def _captured(cls, seen):
    """A Function like cls whose calls leave their ctx in `seen`."""
    if cls._has_setup_context:

        def setup_context(ctx, inputs, output):
            seen.append(ctx)
            return cls.setup_context(ctx, inputs, output)

        body = {"setup_context": staticmethod(setup_context)}
    else:

        def forward(ctx, *args, **kwargs):
            seen.append(ctx)
            return cls.forward(ctx, *args, **kwargs)

        body = {"forward": staticmethod(forward)}
    made = type(cls)(cls.__name__, (cls,), body)
    made._backward_cls = cls._backward_cls
    return made


def apply_function(cls, args, kwargs):
    """A Function's call where some argument has a tangent: its own jvp pushes the tangents on."""
    if not _forward.enabled or not any(_tangent(t) is not None for t in args):
        return cls._apply(*args, **kwargs)
    return _without_mode(_apply_with_jvp, cls, args, kwargs)


def _apply_with_jvp(cls, args, kwargs):
    from taper import zeros_like

    seen = []
    result = _captured(cls, seen)._apply(*args, **kwargs)
    ctx = seen[0]
    outs = result if isinstance(result, tuple) else (result,)
    dirty = getattr(ctx, "dirty_tensors", None) or ()
    outs = tuple(
        t.view_as(t) if any(t is x for x in args) and not any(t is x for x in dirty) else t for t in outs
    )  # an input as it is

    def argument(t):
        if not isinstance(t, Tensor) or not (t.is_floating_point() or t.is_complex()):
            return None
        found = _tangent(t)
        return zeros_like(t.detach()) if found is None and ctx.materialize_grads else found

    pushed = cls.jvp(_JvpContext(ctx), *map(argument, args))
    pushed = pushed if isinstance(pushed, tuple) else (pushed,)
    if len(pushed) != len(outs):
        raise RuntimeError(
            f"{cls.__name__}.jvp returned an incorrect number of forward gradients (expected {len(outs)} got "
            f"{len(pushed)})"
        )
    for i, (out, tangent) in enumerate(zip(outs, pushed)):
        _check_pushed(cls, ctx, i, out, tangent, args)
        if tangent is not None:
            _set_tangent(out, tangent)
    return outs if isinstance(result, tuple) else outs[0]


class _JvpContext:
    """A call's ctx as its jvp sees it: what is saved for it are the tensors of save_for_forward."""

    def __init__(self, ctx):
        self.__dict__["_ctx"] = ctx

    def __getattr__(self, name):
        return getattr(self._ctx, "saved_for_forward", ()) if name == "saved_tensors" else getattr(self._ctx, name)

    def __setattr__(self, name, value):
        setattr(self._ctx, name, value)


def _check_pushed(cls, ctx, i, out, tangent, args):
    marked = any(t is out for t in getattr(ctx, "non_differentiable", None) or ())
    if not isinstance(out, Tensor) or marked or not (out.is_floating_point() or out.is_complex()):
        if tangent is not None:
            raise RuntimeError(
                f"{cls.__name__}.jvp returned a gradient at position {i}, but the corresponding forward output is not "
                "a differentiable Tensor. You should return None at that position instead."
            )
        return
    memory = out.untyped_storage().data_ptr()
    dual = next(
        (t for t in args if _tangent(t) is not None and (t is out or t.untyped_storage().data_ptr() == memory)), None
    )
    if dual is None or tangent is None:
        return
    if dual is out:
        if tangent is not _tangent(dual):
            raise RuntimeError(
                "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is "
                "modifying an input inplace, then the jvp function must modify the corresponding gradient inplace."
            )
        return
    head = "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view"
    if tangent is _tangent(dual) or not tangent._is_view():
        raise RuntimeError(f"{head}.")
    if tangent.untyped_storage().data_ptr() != _tangent(dual).untyped_storage().data_ptr():
        raise RuntimeError(
            f"{head} of the same base as the given gradient, or of the given gradient: jvp is not returning a view of "
            "the given gradient and jvp is not returning a view of the same base."
        )
