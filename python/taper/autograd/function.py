"""torch.autograd.Function: differentiable functions written in Python."""
from taper import _C
from taper._C import _FunctionBase
from taper.autograd.grad_mode import no_grad
from taper.overrides import _no_batches


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
        warnings.warn("mark_shared_storage is deprecated. Tensors with shared storages are automatically tracked. Note that calls to `set_()` are not tracked",
                      FutureWarning, stacklevel=2)

    def mark_non_differentiable(self, *args):
        """These results have no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value):
        """Should backward get zeros where no gradient came? It does unless told otherwise."""
        self.materialize_grads = value


_ContextMethodMixin = FunctionCtx


class BackwardCFunction(_FunctionBase, FunctionCtx):
    """The class of a call's ctx, which is also its node on the tape."""

    def apply(self, *args):
        """The call's backward."""
        cls = self._forward_cls
        backward, vjp = cls.backward, cls.vjp
        if vjp is Function.vjp:
            return backward(self, *args)
        if backward is not Function.backward:
            raise RuntimeError("Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one of them.")
        return vjp(self, *args)

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
        cls._backward_cls = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls, "__module__": cls.__module__})
        cls._has_setup_context = cls.setup_context is not _setup_context


def _setup_context(ctx, inputs, output):
    """Fills ctx after a forward that does not take it."""
    raise NotImplementedError("setup_context is not implemented.")


class Function(_FunctionBase, FunctionCtx, metaclass=FunctionMeta):
    """The base of custom functions: forward and backward are static methods; call it by apply."""
    generate_vmap_rule = False
    setup_context = staticmethod(_setup_context)

    def __init__(self, *args, **kwargs):
        import warnings
        warnings.warn(f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should invoke them on the class itself. "
                      "Instantiating an autograd function will raise an error in a future version of PyTorch.", DeprecationWarning, stacklevel=2)

    def __call__(self, *args, **kwargs):
        raise RuntimeError("Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function with static forward "
                           "method. (Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)")

    @staticmethod
    def forward(*args, **kwargs):
        """Computes the results: forward(ctx, *args), or forward(*args) beside a setup_context."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """Gradients of the arguments, one each, from those of the results."""
        raise NotImplementedError("You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD.")

    vjp = backward

    @staticmethod
    def jvp(ctx, *grad_inputs):
        """The results' tangents from those of the arguments."""
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with forward mode AD.")

    @staticmethod
    def vmap(info, in_dims, *args):
        """The rule for torch.vmap."""
        raise NotImplementedError("To use autograd.Function with vmap, you must either override the vmap staticmethod or set generate_vmap_rule=True.")

    @classmethod
    def apply(cls, *args, **kwargs):
        """Runs forward and records the call."""
        _no_batches(args)
        if cls._has_setup_context:
            return cls._apply(*_bind_defaults(cls.forward, args, kwargs))
        return cls._apply(*args, **kwargs)


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
        marked = _DelayedError.apply("trying to differentiate twice a function that was marked with @once_differentiable",
                                     *(given[i].detach().requires_grad_() for i in where))
        filled = list(given)
        for i, t in zip(where, marked):
            filled[i] = t
        return tuple(filled) if isinstance(outputs, tuple) else filled[0]
    return wrapper
