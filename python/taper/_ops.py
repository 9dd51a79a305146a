"""torch.ops: operators by namespace, name and overload. `aten` leads to the functions of torch, nn.functional and Tensor that PyTorch's operators of that name stand
behind; other namespaces hold what torch.library was given. An overload is a name alone: the function itself sees what its arguments are."""
from types import ModuleType

from taper import _C

registered = {}  # (namespace, name): a function, of torch.library's
_listed = {}  # PyTorch's operators of aten: name -> its overloads


def _overloads(name):
    """The overloads that PyTorch's operator of aten has; None where it has no such operator."""
    if not _listed:
        with open(__file__.rpartition("/")[0] + "/_aten_names.txt", encoding="utf-8") as file:
            for line in file:
                if not line.startswith("#"):
                    operator, *overloads = line.split()
                    _listed[operator] = overloads
    return _listed.get(name)


def _not_covered(name):
    """An operator that can be named, as packages do that say what theirs does for each of aten's; calling it tells that it is not here."""
    def function(*args, **kwargs):
        from taper._hook import NotCovered
        raise NotCovered(f"torch.ops.aten.{name}")
    return function


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
        listed = _overloads(self.__name__) if self._namespace == "aten" else None
        if listed is not None and overload not in listed and overload != "default":
            raise AttributeError(f"The underlying op of 'aten.{self.__name__}' has no overload name '{overload}'")
        made = self.__dict__[overload] = OpOverload(self, overload)
        return made

    def overloads(self):
        listed = _overloads(self.__name__) if self._namespace == "aten" else None
        return list(listed or ["default"])

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


def lift_fresh(input):
    return input


def _pin_memory(input, device=None):
    return input.pin_memory()


def _local_scalar_dense(input):
    return input.item()


def _is_all_true(input):
    return input.all()


def _is_any_true(input):
    return input.any()


def sym_size(input, dim=None):
    return input.size() if dim is None else input.size(dim)


def sym_numel(input):
    return input.numel()


def sym_stride(input, dim=None):
    return input.stride() if dim is None else input.stride(dim)


def silu_backward(grad_output, input):
    gate = input.sigmoid()
    return grad_output * gate * (1 + input * (1 - gate))


def gelu_backward(grad_output, input, *, approximate="none"):
    import taper
    with taper.enable_grad():
        leaf = input.detach().requires_grad_()
        return taper.autograd.grad(taper.nn.functional.gelu(leaf, approximate=approximate), leaf, grad_output)[0]


def sigmoid_backward(grad_output, output):
    return grad_output * output * (1 - output)


def tanh_backward(grad_output, output):
    return grad_output * (1 - output * output)


def _scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    import taper
    if dropout_p:
        raise RuntimeError("scaled_dot_product_flash_attention: Currently do not support dropout > 0")
    factor = query.size(-1) ** -0.5 if scale is None else scale
    out = taper.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask, 0.0, is_causal, scale=scale)
    scores = (query.float() if query.dtype.itemsize == 2 else query) @ key.transpose(-2, -1).to(
        taper.float32 if query.dtype.itemsize == 2 else query.dtype) * factor
    if is_causal:
        keep = taper.ones(scores.shape[-2:], dtype=taper.bool, device=scores.device).tril()
        scores = scores.masked_fill(~keep, float("-inf"))
    if attn_mask is not None:
        scores = scores + attn_mask
    with taper.no_grad():  # PyTorch gives these no gradient
        sums = scores.logsumexp(-1)
    return out, sums.transpose(-2, -1).contiguous().transpose(-2, -1)


_OWN = {f.__name__: f for f in (
    _scaled_dot_product_flash_attention_for_cpu, _softmax, _log_softmax, _to_copy, _unsafe_view, threshold_backward, lift_fresh_copy, lift_fresh, _pin_memory, _local_scalar_dense, _is_all_true,
    _is_any_true, sym_size, sym_numel, sym_stride, silu_backward, gelu_backward, sigmoid_backward, tanh_backward)}


# ---- torch.ops.profiler: named ranges ----
def _record_function_enter_new(name, args=None):
    from taper.autograd.profiler import record_function
    return record_function(name, args).__enter__()


def _record_function_exit(handle):
    handle.__exit__(None, None, None)


_PROFILER = {"_record_function_enter": _record_function_enter_new, "_record_function_enter_new": _record_function_enter_new,
             "_record_function_exit": _record_function_exit}
_PREFIXES = "linalg", "fft", "special"


def _aten(name):
    """The function behind an operator of PyTorch's, or None."""
    import taper
    if name in _OWN:
        return _OWN[name]
    if name.endswith("_backward"):
        from taper import _aten_backward
        if callable(vars(_aten_backward).get(name)):
            return vars(_aten_backward)[name]
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
        function = registered.get((self.name, op)) or self._built_in(op)
        if function is None:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{op}'")
        made = self.__dict__[op] = OpOverloadPacket(self.name, op, function)
        return made

    def _built_in(self, op):
        """The function behind an operator that nobody registered, or None."""
        if self.name == "profiler":
            return _PROFILER.get(op)
        found = _aten(op) if self.name in ("aten", "prims") else None
        return _not_covered(op) if found is None and self.name == "aten" and _overloads(op) else found

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
