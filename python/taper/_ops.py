"""torch.ops: operators by namespace, name and overload. `aten` leads to the functions of torch, nn.functional and
Tensor that PyTorch's operators of that name stand behind; other namespaces hold what torch.library was given. Schemas
of aten are PyTorch's (_aten.txt.gz)."""

import os
from enum import Enum
from types import ModuleType

from taper import _C

registered = {}  # (namespace, name): a function, of torch.library's
_listed = {}  # PyTorch's operators of aten: name -> {overload: the line that says its tags and its schema}


class Tag(Enum):
    """torch.Tag: what is said of an operator beside its schema."""

    core = 0
    cudagraph_unsafe = 1
    data_dependent_output = 2
    dynamic_output_shape = 3
    flexible_layout = 4
    generated = 5
    inplace = 6
    inplace_view = 7
    maybe_aliasing_or_mutating = 8
    needs_contiguous_strides = 9
    needs_exact_strides = 10
    needs_fixed_stride_order = 11
    nondeterministic_bitwise = 12
    nondeterministic_seeded = 13
    out = 14
    out_variant = 15
    pointwise = 16
    pt2_compliant_tag = 17
    reduction = 18
    view_copy = 19


Tag.__module__ = "torch"


def _overloads(name):
    """The overloads that PyTorch's operator of aten has; None where it has no such operator."""
    if not _listed:
        import gzip

        with gzip.open(__file__.rpartition("/")[0] + "/_aten.txt.gz", "rt", encoding="utf-8") as file:
            for line in file:
                if not line.startswith("#"):
                    operator, _, overload = line[line.index(" ") + 1 : line.index("(")].partition(".")
                    _listed.setdefault(operator, {})[overload or "default"] = line
    return _listed.get(name)


# What process groups do in PyTorch, below torch.distributed.
_C10D = frozenset(
    """
    _allgather_base_ _reduce_scatter_base_ allgather_ allgather_coalesced_ allgather_into_tensor_coalesced_ allreduce_
    allreduce_coalesced_ alltoall_ alltoall_base_ barrier broadcast_ gather_ gather_into_tensor_ monitored_barrier_
    recv_ recv_any_source_ reduce_ reduce_scatter_ reduce_scatter_tensor_coalesced_ scatter_ send""".split()
)


def _not_covered(name, namespace="aten"):
    """An operator that can be named, as packages do that say what theirs does for each of aten's; calling it tells that
    it is not here."""

    def function(*args, **kwargs):
        from taper._hook import NotCovered

        raise NotCovered(f"torch.ops.{namespace}.{name}")

    return function


class OperatorBase:
    """What packets and overloads have in common."""

    def __init__(self):
        self.functorch_table, self.python_key_table = {}, {}


class OpOverload(OperatorBase):
    """torch.ops.NAMESPACE.NAME.OVERLOAD."""

    def __init__(self, packet, overload):
        super().__init__()
        self.overloadpacket, self._overloadname = packet, overload
        self._overloadpacket, self._opname = packet, packet.__name__
        self.namespace, self.__name__ = packet._namespace, f"{packet.__name__}.{overload}"
        self.__qualname__, self.__module__ = self.__name__, f"torch._ops.{packet._namespace}"
        self._name = (
            packet.__name__ if overload == "default" else self.__name__
        )  # as derivatives and decompositions are listed
        self._qualified = f"torch.ops.{self.namespace}.{self.__name__}"
        self._defined_in_python = packet._namespace not in ("aten", "prim", "prims")

    def __getattr__(self, name):
        if name in ("_schema", "tags", "_composite"):
            self._read()
            return self.__dict__[name]
        if name == "_kernel":
            kernel = self.overloadpacket._function
            if self.namespace != "aten":  # torch.library's: an operator for each overload
                kernel = getattr(kernel, "overloads", {}).get(self._overloadname, kernel)
            self.__dict__["_kernel"] = kernel
            return kernel
        if name == "__annotations__":
            return {}
        raise AttributeError(f"'OpOverload' object has no attribute '{name}'")

    def _read(self):
        """Schema and tags, when they are first asked for."""
        from taper._schema import parse_schema

        if self.namespace == "aten":
            line = (_overloads(self.overloadpacket.__name__) or {}).get(self._overloadname)
            letters, _, text = line.strip().partition(" ") if line else ("-", "", "")
            self.tags = [Tag(ord(letter) - ord("a")) for letter in letters[1:]]
            self._composite = letters[0] == "C"
        else:
            operator = self._kernel
            text = getattr(operator, "schema", None) or ""
            if text and not text.split("(")[0].strip():
                text = self.__name__.removesuffix(".default") + text.strip()
            self.tags = list(getattr(operator, "tags", None) or ())
            self._composite = bool(getattr(operator, "composite", False))
        self._schema = parse_schema(text) if text else None
        if self._schema is not None:
            self._schema.name = f"{self.namespace}::{self.overloadpacket.__name__}"

    def __call__(self, /, *args, **kwargs):
        if _C._has_torch_function(*args, *kwargs.values()):
            return _C._call_torch_function(self, *args, **kwargs)
        return self._kernel(*args, **kwargs)

    def __repr__(self):
        return f"<OpOverload(op='{self.namespace}.{self.overloadpacket.__name__}', overload='{self._overloadname}')>"

    def __str__(self):
        return f"{self.namespace}.{self.__name__}"

    def __hash__(self):
        return id(self)

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return _find, (self.namespace, self.overloadpacket.__name__, self._overloadname)

    def name(self):
        base = f"{self.namespace}::{self.overloadpacket.__name__}"
        return base if self._overloadname == "default" else f"{base}.{self._overloadname}"

    @property
    def op(self):
        return self._kernel

    @property
    def is_view(self):
        schema = self._schema
        return any(a.alias_info is not None and not a.is_write for a in schema.arguments)

    def _handle(self):
        return self

    def has_kernel_for_dispatch_key(self, key):
        return False

    def has_kernel_for_any_dispatch_key(self, keys):
        return False

    def _can_decompose(self):
        return self._composite

    def decompose(self, *args, **kwargs):
        if not self._composite:
            return NotImplemented
        from taper._dispatch._decompositions import DECOMPOSED

        return DECOMPOSED.get(self._name, lambda *args, **kwargs: NotImplemented)(*args, **kwargs)

    def redispatch(self, keys, /, *args, **kwargs):
        return self(*args, **kwargs)

    def py_impl(self, key):
        """A decorator that keeps a function for a key, a mode or a class; nothing here asks for it."""

        def register(function):
            self.python_key_table[key] = function
            return function

        return register


def _find(namespace, name, overload):
    return getattr(getattr(getattr(ops, namespace), name), overload)


class OpOverloadPacket(OperatorBase):
    """torch.ops.NAMESPACE.NAME."""

    def __init__(self, namespace, name, function):
        super().__init__()
        self._namespace, self._function = namespace, function
        self.__name__, self.__module__, self._qualified_op_name = name, f"torch.ops.{namespace}", f"{namespace}::{name}"

    def __call__(self, /, *args, **kwargs):
        if _C._has_torch_function(*args, *kwargs.values()):
            return _C._call_torch_function(self, *args, **kwargs)
        return self._function(*args, **kwargs)

    def __getattr__(self, overload):
        if overload.startswith("__") or overload in ("_order", "_schemas"):
            raise AttributeError(f"'OpOverloadPacket' object has no attribute '{overload}'")
        listed = self.overloads()
        if overload not in listed and (self._namespace != "aten" or _overloads(self.__name__) is not None):
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{overload}'")
        made = self.__dict__[overload] = OpOverload(self, overload)
        return made

    def overloads(self):
        if self._namespace == "aten":
            return list(_overloads(self.__name__) or ["default"])
        return list(getattr(self._function, "overloads", None) or ["default"])

    @property
    def op(self):
        return self._function

    def __iter__(self):
        return iter(self.overloads())

    def __deepcopy__(self, memo):
        return self

    def __repr__(self):
        return f"<OpOverloadPacket(op='{self._namespace}.{self.__name__}')>"

    def __str__(self):
        return f"{self._namespace}.{self.__name__}"

    def __hash__(self):
        return id(self)


# ---- torch.ops.profiler: named ranges ----
def _record_function_enter_new(name, args=None):
    from taper.autograd.profiler import record_function

    return record_function(name, args).__enter__()


def _record_function_exit(handle):
    handle.__exit__(None, None, None)


_PROFILER = {
    "_record_function_enter": _record_function_enter_new,
    "_record_function_enter_new": _record_function_enter_new,
    "_record_function_exit": _record_function_exit,
}
_PREFIXES = "linalg", "fft", "special"


def _aten(name):
    """The function behind an operator of PyTorch's, or None."""
    import taper
    from taper._aten_kernels import KERNELS

    if name in KERNELS:
        return KERNELS[name]
    if name.endswith("_backward"):
        from taper import _aten_backward

        if callable(vars(_aten_backward).get(name)):
            return vars(_aten_backward)[name]
    for prefix in _PREFIXES:
        if name.startswith(prefix + "_"):
            found = getattr(getattr(taper, prefix), name, None) or getattr(
                getattr(taper, prefix), name[len(prefix) + 1 :], None
            )
            if found is not None:
                return found
    for functions in (_C._functions, vars(taper), vars(taper.nn.functional), _C.Tensor.__dict__):
        if callable(functions.get(name)) and not isinstance(functions[name], type):
            return functions[name]
    return getattr(taper, name, None)


class _OpNamespace:
    """torch.ops.NAMESPACE."""

    def __init__(self, name):
        self.name, self.__name__ = name, f"torch.ops.{name}"

    def __getattr__(self, op):
        if op.startswith("__") and not (self.name == "aten" and _overloads(op)):
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{op}'")
        function = registered.get((self.name, op)) or self._built_in(op)
        if function is None and self.name not in ("aten", "prims", "profiler"):
            from taper._cpp_operators import look_again  # of an extension that was imported since

            function = look_again() and registered.get((self.name, op))
        if not function:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{op}'")
        made = self.__dict__[op] = OpOverloadPacket(self.name, op, function)
        return made

    def _built_in(self, op):
        """The function behind an operator that nobody registered, or None."""
        if self.name == "profiler":
            return _PROFILER.get(op)
        if self.name == "c10d" and op in _C10D:
            return _not_covered(op, "c10d")
        if self.name in ("_c10d_functional", "c10d_functional"):
            from taper.distributed import _collective_operators  # noqa: F401  (registers them)

            return registered.get((self.name, op))
        found = _aten(op) if self.name in ("aten", "prims") else None
        return _not_covered(op) if found is None and self.name == "aten" and _overloads(op) else found

    def __repr__(self):
        return f"<module 'torch.ops.{self.name}'>"


class _Ops(ModuleType):
    """torch.ops: operators by namespace and name, as libraries register them. A module, which packages import."""

    loaded_libraries = set()

    def __getattr__(self, namespace):
        if namespace.startswith("__"):
            raise AttributeError(f"module 'torch.ops' has no attribute '{namespace}'")
        made = self.__dict__[namespace] = _OpNamespace(namespace)
        return made

    def load_library(self, path):
        """Loads a shared library; operators that it registered with TORCH_LIBRARY are under torch.ops from then on."""
        from taper._cpp_operators import load

        load(path)
        self.loaded_libraries.add(os.path.realpath(path))

    def __repr__(self):
        return "<module 'torch.ops'>"


ops = _Ops("torch.ops")
