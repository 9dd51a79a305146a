"""torch.ops: operators by namespace, name and overload. `aten` leads to the functions of torch, nn.functional and Tensor that PyTorch's operators of that name stand
behind; other namespaces hold what torch.library was given. An overload is a name alone: the function itself sees what its arguments are."""
from types import ModuleType

from taper import _C

registered = {}  # (namespace, name): a function, of torch.library's


class OpOverload:
    """torch.ops.NAMESPACE.NAME.OVERLOAD."""

    def __init__(self, packet, overload):
        self.overloadpacket, self._overloadname = packet, overload
        self.namespace, self.__name__ = packet._namespace, f"{packet.__name__}.{overload}"
        self.__qualname__, self.__module__ = self.__name__, f"torch.ops.{packet._namespace}"

    def __call__(self, *args, **kwargs):
        return self.overloadpacket(*args, **kwargs)

    def __repr__(self):
        return f"<OpOverload(op='{self.namespace}.{self.overloadpacket.__name__}', overload='{self._overloadname}')>"

    def __str__(self):
        return f"{self.namespace}.{self.__name__}"

    def name(self):
        base = f"{self.namespace}::{self.overloadpacket.__name__}"
        return base if self._overloadname == "default" else f"{base}.{self._overloadname}"

    @property
    def op(self):
        return self.overloadpacket


class OpOverloadPacket:
    """torch.ops.NAMESPACE.NAME."""

    def __init__(self, namespace, name, function):
        self._namespace, self._function = namespace, function
        self.__name__, self.__module__, self._qualified_op_name = name, f"torch.ops.{namespace}", f"{namespace}::{name}"

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    def __getattr__(self, overload):
        if overload.startswith("__"):
            raise AttributeError(f"'OpOverloadPacket' object has no attribute '{overload}'")
        made = self.__dict__[overload] = OpOverload(self, overload)
        return made

    def overloads(self):
        return ["default"]

    def __repr__(self):
        return f"<OpOverloadPacket(op='{self._namespace}.{self.__name__}')>"

    def __str__(self):
        return f"{self._namespace}.{self.__name__}"


# Operators whose arguments differ from those of the function that does their work.
def _softmax(input, dim, half_to_float):
    return input.softmax(dim)


def _log_softmax(input, dim, half_to_float):
    return input.log_softmax(dim)


def _to_copy(input, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    return input.to(device=device or input.device, dtype=dtype or input.dtype, non_blocking=non_blocking, copy=True)


def _unsafe_view(input, size):
    return input.view(size)


def threshold_backward(grad_output, input, threshold):
    return grad_output.masked_fill(input <= threshold, 0)


def lift_fresh_copy(input):
    return input.clone()


_OWN = {f.__name__: f for f in (_softmax, _log_softmax, _to_copy, _unsafe_view, threshold_backward, lift_fresh_copy)}
_PREFIXES = "linalg", "fft", "special"


def _aten(name):
    """The function behind an operator of PyTorch's, or None."""
    import taper
    if name in _OWN:
        return _OWN[name]
    for prefix in _PREFIXES:
        if name.startswith(prefix + "_"):
            found = getattr(getattr(taper, prefix), name, None) or getattr(getattr(taper, prefix), name[len(prefix) + 1:], None)
            if found is not None:
                return found
    for room in (_C._functions, vars(taper), vars(taper.nn.functional), _C.Tensor.__dict__):
        if callable(room.get(name)) and not isinstance(room[name], type):
            return room[name]
    return getattr(taper, name, None)


class _OpNamespace:
    """torch.ops.NAMESPACE."""

    def __init__(self, name):
        self.name, self.__name__ = name, f"torch.ops.{name}"

    def __getattr__(self, op):
        if op.startswith("__"):
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{op}'")
        function = registered.get((self.name, op)) or (_aten(op) if self.name in ("aten", "prims") else None)
        if function is None:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{op}'")
        made = self.__dict__[op] = OpOverloadPacket(self.name, op, function)
        return made

    def __repr__(self):
        return f"<module 'torch.ops.{self.name}'>"


class _Ops(ModuleType):
    """torch.ops: a module, which packages import."""
    loaded_libraries = frozenset()

    def __getattr__(self, namespace):
        if namespace.startswith("__"):
            raise AttributeError(f"module 'torch.ops' has no attribute '{namespace}'")
        made = self.__dict__[namespace] = _OpNamespace(namespace)
        return made

    def load_library(self, path):
        from taper._hook import NotCovered
        raise NotCovered("torch.ops.load_library")

    def __repr__(self):
        return "<module 'torch.ops'>"


ops = _Ops("torch.ops")
