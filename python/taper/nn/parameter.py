"""torch.nn.parameter: tensors that modules count as their own."""

from collections import OrderedDict

from taper import _C
from taper._C import Tensor
from taper._utils import _get_obj_state, _rebuild_parameter, _rebuild_parameter_with_state
from taper.overrides import _disabled_torch_function_impl


def _nothing(**options):
    """A tensor without elements, where none is given or none can be yet."""
    return _C._functions["empty"]((0,), **options)


class _ParameterMeta(type(Tensor)):
    """isinstance(t, Parameter) also holds for other subclasses of Tensor that were marked as parameters."""

    def __instancecheck__(cls, instance):
        marked = cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)
        return bool(marked) or type.__instancecheck__(cls, instance)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that becomes a parameter of the module it is assigned to, and requires gradients unless told
    otherwise."""

    def __new__(cls, data=None, requires_grad=True):
        data = _nothing() if data is None else data
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        if not isinstance(data, Tensor):
            raise TypeError(f"cannot make a Parameter of {type(data).__name__}: expected a Tensor")
        marked = data.detach().requires_grad_(requires_grad)
        if type(marked) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns "
                f"an instance of the same type, but return type {type(marked).__name__} was found instead."
            )
        marked._is_param = True
        return marked

    def __deepcopy__(self, memo):
        copied = memo.get(id(self))
        if copied is None:
            copied = memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
            if self.__dict__:
                from copy import deepcopy

                copied.__dict__.update(deepcopy(self.__dict__, memo))
        return copied

    def __repr__(self):
        return "Parameter containing:\n" + self._format("tensor")

    def __reduce_ex__(self, protocol):
        state = _get_obj_state(self)
        if not state:
            return _rebuild_parameter, (self.data, self.requires_grad, OrderedDict())
        return _rebuild_parameter_with_state, (self.data, self.requires_grad, OrderedDict(), state)

    __torch_function__ = _disabled_torch_function_impl


class _BufferMeta(type(Tensor)):
    """isinstance(t, Buffer) holds for tensors that were marked as buffers."""

    def __instancecheck__(cls, instance):
        if cls is not Buffer:
            return type.__instancecheck__(cls, instance)
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that becomes a buffer of the module it is assigned to."""

    def __new__(cls, data=None, *, persistent=True):
        data = _nothing() if data is None else data
        buffer = data.detach().requires_grad_(data.requires_grad)
        buffer.persistent, buffer._is_buffer = persistent, True
        return buffer

    __torch_function__ = _disabled_torch_function_impl


class UninitializedTensorMixin:
    """A parameter whose shape is not known yet: materialize(shape) gives it one, and until then it takes part in
    nothing else."""

    _allowed = frozenset(
        """device dtype requires_grad requires_grad_ is_leaf data cls_to_become materialize share_memory_ is_shared to
        cpu
        cuda half float double char short int long bfloat16 copy_ size is_complex is_floating_point is_meta module_load
        register_hook _is_param untyped_storage __get__""".split()
    )

    def materialize(self, shape, device=None, dtype=None):
        """Becomes an ordinary parameter of that shape, not initialised."""
        now = self.data
        self.data = _C._functions["empty"](
            shape, dtype=dtype or now.dtype, device=now.device if device is None else device
        )
        self.__class__ = self.cls_to_become

    @property
    def shape(self):
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call "
            "`forward` to initialize the parameters before accessing their attributes."
        )

    def share_memory_(self):
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self):
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol):
        return type(self), (self.requires_grad,)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in cls._allowed:
            return _disabled_torch_function_impl(func, types, args, kwargs)
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. This error happens when you are using a "
            f"`LazyModule` or explicitly manipulating `torch.nn.parameter.{cls.__name__}` objects. When using "
            "LazyModules Call `forward` with a dummy batch to initialize the parameters before calling torch "
            "functions"
        )


def is_lazy(param):
    """Is its shape still unknown?"""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter without a shape."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        return Tensor._make_subclass(cls, _nothing(dtype=dtype, device=device), requires_grad)

    def __deepcopy__(self, memo):
        return memo.setdefault(id(self), type(self)(self.requires_grad, self.data.device, self.data.dtype))


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer without a shape."""

    cls_to_become = Tensor

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        buffer = Tensor._make_subclass(cls, _nothing(dtype=dtype, device=device), requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer
