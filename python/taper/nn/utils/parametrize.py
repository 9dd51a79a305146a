"""torch.nn.utils.parametrize: parameters and buffers that are functions of others.

A parametrised tensor becomes a property of a class of its own (ParametrizedLinear); what it is computed from lies in
module.parametrizations.NAME, under `original`, or `original0`, `original1`, ... where the first parametrisation takes
several tensors."""

from contextlib import contextmanager
from copy import deepcopy

from taper._C import Tensor, _graph_break
from taper.autograd.grad_mode import no_grad as _no_grad
from taper.nn.modules.container import ModuleDict, ModuleList
from taper.nn.parameter import Parameter

_cache_depth = 0
_cache = {}


@contextmanager
def cached():
    """Inside, a parametrised tensor is computed once."""
    global _cache_depth
    _cache_depth += 1
    try:
        yield
    finally:
        _cache_depth -= 1
        if not _cache_depth:
            _cache.clear()


def _register(module, name, tensor):
    (module.register_parameter if isinstance(tensor, Parameter) else module.register_buffer)(name, tensor)


def _is_sequence(value):
    from collections.abc import Sequence

    return isinstance(value, Sequence)


class ParametrizationList(ModuleList):
    """The parametrisations of one tensor, first to last, with the tensors they start from."""

    def __init__(self, modules, original, unsafe=False):
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        start = self._start_from(original)
        self.is_tensor = isinstance(start, Tensor)
        self.ntensors = 1 if self.is_tensor else len(start)
        if self.is_tensor:
            self._adopt(original, start)
        else:
            self._adopt_several(original, start)
        if not unsafe:
            _check_result(self(), dtype, shape)

    def _start_from(self, original):
        """What right_inverse, where there is one, takes the tensor back to."""
        with _no_grad():
            start = original
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        start = module.right_inverse(start)
                    except NotImplementedError:
                        pass
        if not isinstance(start, Tensor) and not _is_sequence(start):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                f"{type(start).__name__}"
            )
        return start

    def _adopt(self, original, start):
        for what in ("dtype", "device"):
            before, after = getattr(original, what), getattr(start, what)
            if before != after:
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {what}.\n"
                    f"original.{what}: {before}\n"
                    f"right_inverse(original).{what}: {after}"
                )
        with _no_grad():
            original.set_(start)
        _register(self, "original", original)

    def _adopt_several(self, original, start):
        for i, tensor in enumerate(start):
            if not isinstance(tensor, Tensor):
                raise ValueError(
                    f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element {i} "
                    f"of the sequence with type {type(tensor).__name__}."
                )
            if isinstance(original, Parameter):
                tensor = Parameter(tensor, original.requires_grad)
            _register(self, f"original{i}", tensor.requires_grad_(original.requires_grad))

    def right_inverse(self, value):
        """Sets the tensors it starts from so that the result is value."""
        with _no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
                if value.dtype != self.original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {value.dtype} while `original` has dtype "
                        f"{self.original.dtype}"
                    )
                self.original.set_(value)
                return
            if not _is_sequence(value):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
            if len(value) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of "
                    f"length {len(value)}."
                )
            for i, tensor in enumerate(value):
                own = getattr(self, f"original{i}")
                if not isinstance(tensor, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a sequence of tensors or reference-type opaques. Got element "
                        f"{i} of type {type(tensor).__name__}."
                    )
                if own.dtype != tensor.dtype:
                    raise ValueError(
                        f"Tensor {i} returned by `right_inverse` has dtype {tensor.dtype} while `original{i}` has "
                        f"dtype {own.dtype}"
                    )
                own.set_(tensor)

    def forward(self):
        first, *rest = self
        value = (
            first(self.original)
            if self.is_tensor
            else first(*[getattr(self, f"original{i}") for i in range(self.ntensors)])
        )
        for module in rest:
            value = module(value)
        return value


def _check_result(result, dtype, shape):
    if not isinstance(result, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
    for what, before, after in (("dtype", dtype, result.dtype), ("shape", shape, result.shape)):
        if before != after:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag is "
                "enabled.\n"
                f"unparametrized {what}: {before}\n"
                f"parametrized {what}: {after}"
            )


def _check_next(module, name, parametrization):
    """One more parametrisation must neither change dtype nor shape, nor may its right_inverse."""
    now = getattr(module, name)
    result = parametrization(now)
    if not isinstance(result, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
    for what in ("dtype", "shape"):
        if getattr(result, what) != getattr(now, what):
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless the `unsafe` flag is "
                "enabled.\n"
                f"module.{name}.{what}: {getattr(now, what)}\n"
                f"parametrization(module.{name}).{what}: {getattr(result, what)}"
            )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(result)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
    for what in ("dtype", "shape"):
        if getattr(back, what) != getattr(now, what):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} as module.{name}, "
                "unless the `unsafe` flag is enabled.\n"
                f"module.{name}.{what}: {getattr(now, what)}\n"
                f"returned {what}: {getattr(back, what)}"
            )


def _own_class(module):
    """Gives the module a class of its own, for the properties to come."""
    kind = type(module)

    def refuse_state(self):
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). See:\n"
            "https://pytorch.org/tutorials/beginner/saving_loading_models.html#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
        )

    def copied(self, memo):
        if id(self) not in memo:
            memo[id(self)] = copy = type(self).__new__(type(self))
            copy.__dict__.update(deepcopy(self.__dict__, memo))
        return memo[id(self)]

    members = {"__getstate__": refuse_state}
    if not hasattr(kind, "__deepcopy__"):
        members["__deepcopy__"] = copied
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), members)


def _own_property(module, name):
    def get(self):
        parametrization = self.parametrizations[name]
        if not _cache_depth:
            return parametrization()
        key = id(self), name
        _graph_break("parametrizations are cached")
        if key not in _cache:
            _cache[key] = parametrization()
        return _cache[key]

    def put(self, value):
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """From here on module.tensor_name is parametrization of what it was."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_next(module, tensor_name, parametrization)
        held = module.parametrizations[tensor_name]
        held.append(parametrization)
        held.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        held = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _own_class(module)
            module.parametrizations = ModuleDict()
        _own_property(module, tensor_name)
        module.parametrizations[tensor_name] = held
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def is_parametrized(module, tensor_name=None):
    """Is that tensor of the module, or any, a parametrised one?"""
    held = getattr(module, "parametrizations", None)
    if not isinstance(held, ModuleDict):
        return False
    return len(held) > 0 if tensor_name is None else tensor_name in held


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Makes the tensor a plain one again: with the value it has now, or the one it was computed from."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    held = module.parametrizations[tensor_name]
    if held.is_tensor:
        original = held.original
        if leave_parametrized:
            with _no_grad():
                original.set_(getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module):
    """The module's class without the one that parametrisations gave it."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Gives another module the parametrisations of one, or of one tensor of it, and the tensors they start from."""
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        for own in ["original"] if source.is_tensor else [f"original{i}" for i in range(source.ntensors)]:
            setattr(to_module.parametrizations[name], own, getattr(source, own))
    return to_module
