"""torch.autograd.Function: differentiable functions written in Python."""

from taper import _C
from taper._C import _FunctionBase
from taper.autograd.grad_mode import no_grad
from taper.overrides import _forward, _no_batches, _vmaps


class FunctionCtx:
    """What forward tells backward."""

    def save_for_backward(self, *tensors):
        """Keeps tensors for backward, which reads them as ctx.saved_tensors."""
        self.to_save = tensors

    def save_for_forward(self, *tensors):
        """Keeps tensors for jvp."""
        self.saved_for_forward = tensors

    def mark_dirty(self, *args):
        """These inputs were written in place; each must be returned."""
        self.dirty_tensors = args

    def mark_shared_storage(self, *pairs):
        import warnings

        warnings.warn(
            "mark_shared_storage is deprecated. Tensors with shared storages are automatically tracked. Note that "
            "calls to `set_()` are not tracked",
            FutureWarning,
            stacklevel=2,
        )

    def mark_non_differentiable(self, *args):
        """These results have no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value):
        """Should backward get zeros where no gradient came? It does unless told otherwise."""
        self.materialize_grads = value


_ContextMethodMixin = FunctionCtx


class BackwardCFunction(_FunctionBase, FunctionCtx):
    """The class of a call's ctx, which is also its node on the tape."""

    _apply_boxed = None  # of a Function with boxed_grads_call: backward with the list of gradients

    def apply(self, *args):
        """The call's backward."""
        if self._apply_boxed is not None:
            return self._apply_boxed(list(args))
        return self._backward_function()(self, *args)

    def _backward_function(self):
        cls = self._forward_cls
        backward, vjp = cls.backward, cls.vjp
        if vjp is Function.vjp:
            return backward
        if backward is not Function.backward:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                "implement one of them."
            )
        return vjp

    def apply_jvp(self, *args):
        """The call's forward-mode derivative."""
        return self._forward_cls.jvp(self, *args)

    def __call__(self, *args):
        return self.apply(*args)

    def __repr__(self):
        return f"<torch.autograd.function.{self.name()} object at {hex(id(self))}>"


class FunctionMeta(type):
    """Gives each Function the class of its ctx."""

    def __init__(cls, name, bases, attrs):
        super().__init__(name, bases, attrs)
        made = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls, "__module__": cls.__module__})
        if attrs.get("boxed_grads_call", getattr(cls, "boxed_grads_call", False)):
            made._apply_boxed = lambda self, grads: self._backward_function()(self, grads)
        cls._backward_cls = made
        cls._has_setup_context = cls.setup_context is not _setup_context


def _setup_context(ctx, inputs, output):
    """Fills ctx after a forward that does not take it."""
    raise NotImplementedError("setup_context is not implemented.")


class Function(_FunctionBase, FunctionCtx, metaclass=FunctionMeta):
    """The base of custom functions: forward and backward are static methods; call it by apply."""

    generate_vmap_rule = False
    boxed_grads_call = False  # backward(ctx, grads) gets a list that it may empty, instead of backward(ctx, *grads)
    setup_context = staticmethod(_setup_context)

    def __init__(self, *args, **kwargs):
        import warnings

        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should "
            "invoke them on the class itself. Instantiating an autograd function will raise an error in a future "
            "version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args, **kwargs):
        """Computes the results: forward(ctx, *args), or forward(*args) beside a setup_context."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """Gradients of the arguments, one each, from those of the results."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx, *grad_inputs):
        """The results' tangents from those of the arguments."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info, in_dims, *args):
        """The rule for torch.vmap."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args, **kwargs):
        """Runs forward and records the call."""
        if _vmaps.sizes:
            return _apply_in_vmap(cls, args, kwargs)
        if _forward.level is not None:
            from taper.autograd.forward_ad import apply_function

            return apply_function(
                cls,
                _bind_defaults(cls.forward, args, kwargs) if cls._has_setup_context else args,
                {} if cls._has_setup_context else kwargs,
            )
        if cls._has_setup_context:
            return cls._apply(*_bind_defaults(cls.forward, args, kwargs))
        if _vmaps.levels:
            raise RuntimeError(_NO_SETUP)
        return cls._apply(*args, **kwargs)


_FURTHER = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"
_NO_SETUP = (
    "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must override "
    "the setup_context staticmethod. " + _FURTHER
)


def _apply_in_vmap(cls, args, kwargs):
    """The call where some argument is a batch: by the class's own rule, or slice by slice."""
    from taper._batched import Batched
    from taper.utils._pytree import tree_flatten

    if not cls._has_setup_context:
        raise RuntimeError(_NO_SETUP)
    args = _bind_defaults(cls.forward, args, kwargs)
    level = len(_vmaps.sizes)
    if not any(isinstance(t, Batched) for t in tree_flatten(args)[0]):
        return cls._apply(*args)
    has_rule = cls.vmap is not Function.vmap
    if cls.generate_vmap_rule and has_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap "
            "staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid "
            "ambiguity. " + _FURTHER
        )
    if not cls.generate_vmap_rule and not has_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement "
            "the vmap staticmethod or set generate_vmap_rule=True. " + _FURTHER
        )
    if cls.generate_vmap_rule:
        _no_batches(tree_flatten(args)[0])
    return _by_own_rule(cls, args, level)


def _by_own_rule(cls, args, level):
    """cls.vmap(info, in_dims, *args) on the whole batch of the innermost vmap."""
    from collections import namedtuple
    from taper._batched import Batched, wrap
    from taper.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_map, tree_unflatten

    def here(t):
        return isinstance(t, Batched) and t._level == level

    in_dims = tree_map(lambda t: 0 if here(t) else None, args)
    plain = tree_map(lambda t: t._physical if here(t) else t, args)
    info = namedtuple("VmapInfo", ["batch_size", "randomness"])(_vmaps.sizes[-1], _vmaps.randomness)
    sizes, _vmaps.sizes = _vmaps.sizes, _vmaps.sizes[:-1]
    try:
        given = cls.vmap(info, in_dims, *plain)
    finally:
        _vmaps.sizes = sizes
    if not (isinstance(given, tuple) and len(given) == 2):
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure "
            f"compatible with the output. Got a {type(given)} instead"
        )
    output, out_dims = given
    leaves, spec = tree_flatten(output)
    dims = _broadcast_to_and_flatten(out_dims, spec)
    if dims is None:
        raise RuntimeError(
            "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected "
            f"out_dims={out_dims} to be compatible with the structure of `output`. out_dims has structure "
            f"{tree_flatten(out_dims)[1]} but output has structure {spec}. " + _FURTHER
        )
    return tree_unflatten([t if dim is None else wrap(t.movedim(dim, 0), level) for t, dim in zip(leaves, dims)], spec)


def _bind_defaults(forward, args, kwargs):
    code = getattr(forward, "__code__", None)
    if not kwargs and (code is None or len(args) >= code.co_argcount):
        return args
    from inspect import signature

    bound = signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


class InplaceFunction(Function):
    """Kept for programs that derive from it."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace


class _DelayedError(Function):
    """Passes tensors on; differentiating through it is an error."""

    @staticmethod
    def forward(ctx, message, *tensors):
        ctx.message = message
        return tuple(t.detach() for t in tensors)

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError(ctx.message)


def once_differentiable(fn):
    """A backward that cannot be differentiated again, and says so when it is."""
    from functools import wraps

    @wraps(fn)
    def wrapper(ctx, *args):
        with no_grad():
            outputs = fn(ctx, *args)
        if not _C.is_grad_enabled() or not any(isinstance(a, _C.Tensor) and a.requires_grad for a in args):
            return outputs
        given = outputs if isinstance(outputs, tuple) else (outputs,)
        where = [i for i, t in enumerate(given) if isinstance(t, _C.Tensor)]
        leaves = [given[i].detach() for i in where]
        for leaf in leaves:
            leaf.requires_grad = True
        marked = _DelayedError.apply(
            "trying to differentiate twice a function that was marked with @once_differentiable", *leaves
        )
        filled = list(given)
        for i, t in zip(where, marked):
            filled[i] = t
        return tuple(filled) if isinstance(outputs, tuple) else filled[0]

    return wrapper
