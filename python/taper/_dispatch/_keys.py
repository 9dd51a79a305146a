"""Names of PyTorch's dispatcher that programs and its own tests read from torch._C: keys, schemas by name, and
questions about calls."""

from enum import IntEnum

from taper import _C
from taper._dispatch import NoHandlers, resolve, state, tensors_of
from taper._ops import _overloads, ops
from taper._schema import Argument, FunctionSchema, parse_schema  # noqa: F401

DispatchKey = IntEnum(
    "DispatchKey",
    """Undefined Dense FPGA MAIA Vulkan Metal Quantized CustomRNGKeyId MkldnnCPU Sparse SparseCsr NestedTensor
    BackendSelect Python Fake
FuncTorchDynamicLayerBackMode Functionalize Named Conjugate Negative ZeroTensor ADInplaceOrView AutogradOther
AutogradFunctionality AutogradNestedTensor Tracer
AutocastCPU AutocastMTIA AutocastMAIA AutocastXPU AutocastIPU AutocastHPU AutocastXLA AutocastMPS AutocastCUDA
AutocastPrivateUse1 FuncTorchBatched BatchedNestedTensor
FuncTorchVmapMode Batched VmapMode FuncTorchGradWrapper DeferredInit PythonTLSSnapshot FuncTorchDynamicLayerFrontMode
TESTING_ONLY_GenericWrapper TESTING_ONLY_GenericMode
PreDispatch PythonDispatcher CPU CUDA HIP XLA MPS MTIA IPU XPU HPU VE Lazy Meta PrivateUse1 PrivateUse2 PrivateUse3
QuantizedCPU QuantizedCUDA QuantizedXPU SparseCPU
SparseCUDA SparseXPU SparseCsrCPU SparseCsrCUDA NestedTensorCPU NestedTensorCUDA AutogradCPU AutogradCUDA AutogradXLA
AutogradMPS AutogradMTIA AutogradIPU AutogradXPU
AutogradHPU AutogradLazy AutogradMeta AutogradPrivateUse1 Autograd CompositeImplicitAutograd
CompositeImplicitAutogradNestedTensor CompositeExplicitAutograd
CompositeExplicitAutogradNonFunctional FuncTorchBatchedDecomposition""".split(),
    start=0,
)
DispatchKey.__module__ = "torch._C"


class DispatchKeySet:
    """A set of keys."""

    def __init__(self, *keys):
        self._keys = frozenset(keys[0]._keys if keys and isinstance(keys[0], DispatchKeySet) else keys)

    def _of(self, keys):
        made = DispatchKeySet()
        made._keys = frozenset(keys)
        return made

    def __or__(self, other):
        return self._of(self._keys | other._keys)

    def __and__(self, other):
        return self._of(self._keys & other._keys)

    def __sub__(self, other):
        return self._of(self._keys - other._keys)

    def __eq__(self, other):
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self):
        return hash(self._keys)

    def add(self, key):
        return self._of(self._keys | {key})

    def remove(self, key):
        return self._of(self._keys - {key})

    def has(self, key):
        return key in self._keys

    def highestPriorityTypeId(self):
        return max(self._keys, default=DispatchKey.Undefined)

    def __repr__(self):
        return f"DispatchKeySet({', '.join(key.name for key in sorted(self._keys))})"


def _dispatch_keys(tensor):
    """The keys of a tensor: its place, and whether a handler sees it."""
    place = getattr(
        DispatchKey, {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta", "xpu": "XPU"}.get(tensor.device.type, "PrivateUse1")
    )
    own = {DispatchKey.Python, DispatchKey.PythonTLSSnapshot} if _C._has_handler(tensor) else set()
    return DispatchKeySet(place, DispatchKey.ADInplaceOrView, DispatchKey[f"Autograd{place.name}"], *own)


def _dispatch_key_name(key):
    return key.name


def _dispatch_key_parse(name):
    return DispatchKey[name]


def _dispatch_isTensorSubclassLike(tensor):
    return _C._has_handler(tensor) or type(tensor) is not _C.Tensor and tensor.is_sparse


def _parts(name):
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    return namespace, base, overload or "default"


def _dispatch_has_kernel(name):
    namespace, base, overload = _parts(name)
    packet = getattr(getattr(ops, namespace), base, None)
    return packet is not None and overload in packet.overloads()


def _dispatch_has_kernel_for_dispatch_key(name, key):
    """Is there a function of the operator's for a key?"""
    if not _dispatch_has_kernel(name):
        raise RuntimeError(f"operator {name} does not exist")
    namespace, base, overload = _parts(name)
    operator = getattr(getattr(getattr(ops, namespace), base), overload)
    key = key if isinstance(key, str) else key.name
    kernels = getattr(operator._kernel, "kernels", None)
    if kernels is None:  # the library's own
        return (
            operator._composite
            if key == "CompositeImplicitAutograd"
            else not operator._composite and key in ("CPU", "CUDA", "Meta", "Autograd", "AutogradCPU")
        )
    own = operator._kernel
    if key in ("CompositeImplicitAutograd", "CompositeExplicitAutograd"):
        return None in kernels and own.composite == (key == "CompositeImplicitAutograd")
    if key == "Meta":
        return own.fake is not None
    if key.startswith("Autograd"):
        return own.autograd_kernel is not None or own.backward is not None
    return key.lower() in kernels


_dispatch_has_computed_kernel_for_dispatch_key = _dispatch_has_kernel_for_dispatch_key


def _dispatch_has_kernel_for_any_dispatch_key(name, keys):
    return any(_dispatch_has_kernel_for_dispatch_key(name, key) for key in keys._keys)


def _dispatch_get_all_op_names():
    _overloads("add")
    from taper._ops import _listed

    return [
        f"aten::{name}" + ("" if overload == "default" else f".{overload}")
        for name, overloads in _listed.items()
        for overload in overloads
    ]


def _get_schema(name, overload=""):
    """The schema of an operator by its full name."""
    namespace, base, _ = _parts(name)
    found = getattr(getattr(getattr(ops, namespace), base, None), overload or "default", None)
    if found is None:
        raise RuntimeError(f"Found no matching schema for {name}.{overload}")
    return found._schema


_dispatch_find_schema_or_throw = _get_schema


def _jit_get_schemas_for_operator(name):
    namespace, base, _ = _parts(name)
    packet = getattr(getattr(ops, namespace), base, None)
    return [] if packet is None else [getattr(packet, overload)._schema for overload in packet.overloads()]


def _jit_resolve_packet(name, *args, **kwargs):
    """The name of the overload that takes a call."""
    namespace, base, _ = _parts(name)
    found = resolve(getattr(getattr(ops, namespace), base), args, kwargs)
    if found is None:
        raise RuntimeError(f"no overload of {name} takes these arguments")
    return found[0]._overloadname


def _dispatch_call_boxed(schema, *args, **kwargs):
    """Calls the operator of a schema."""
    namespace, base, _ = _parts(schema.name)
    return getattr(getattr(getattr(ops, namespace), base), schema.overload_name or "default")(*args, **kwargs)


def _dispatch_tls_local_include_set():
    return DispatchKeySet()


_dispatch_tls_local_exclude_set = _dispatch_tls_local_include_set


def _any_requires_grad(*args, **kwargs):
    return any(t.requires_grad for t in tensors_of((args, kwargs)))


def _any_output_is_alias_to_input_or_output(args, kwargs, outs):
    """Does a result share its memory with an argument or with another result?"""

    def places(values):
        tensors = tensors_of((values,)) if not isinstance(values, _C.Tensor) else [values]
        return [p for p in (t.untyped_storage().data_ptr() for t in tensors) if p]

    results = places(outs)
    return len(set(results)) < len(results) or bool(set(results) & set(places(args) + places(kwargs or {})))


def _len_torch_dispatch_stack():
    return len(state.modes)


def _get_dispatch_stack_at(i):
    return state.modes[i]


def _get_dispatch_mode(key):
    return None


class _DisableTorchDispatch:
    """No handler sees operators from the moment it is made to the end of its with statement, or to its own end."""

    def __init__(self):
        self._off = NoHandlers()
        self._off.__enter__()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._off is not None:
            self._off.__exit__(*error)
            self._off = None

    __del__ = __exit__


class _Guard:
    """A scope that includes or excludes keys of the dispatcher, which has none here."""

    def __init__(self, *keys):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def _ExcludeDispatchKeyGuard(keys=None):
    """With the key Python among the excluded ones no handler sees operators."""
    return _DisableTorchDispatch() if keys is not None and keys.has(DispatchKey.Python) else _Guard()


_IncludeDispatchKeyGuard = _ForceDispatchKeyGuard = _Guard


def _AutoDispatchBelowAutograd():
    """with this: operators of torch.library run their kernels, and not what was given for the key Autograd."""
    from taper.library import _below

    return _below


NAMES = frozenset(
    name
    for name, value in globals().items()
    if not name.startswith("__") and getattr(value, "__module__", "") in (__name__, "torch._C", "taper._schema")
) - {"_Guard", "_parts", "settle", "fits"}
