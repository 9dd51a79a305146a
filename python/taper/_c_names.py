"""Names of torch._C that packages read, and that the extension itself has no use for. taper/__init__.py hands them out:
`find(name)`.

What has a meaning here answers truly. Switches of a compiler that is not here can be turned, and turn nothing.
"""

from types import ModuleType

from taper import _C

_TensorMeta = type(_C.Tensor)  # the metaclass that subclasses of Tensor with a metaclass of their own derive from


# ---- What is active, and where ----
def _are_functorch_transforms_active():
    """Does a vmap, grad or another transform of torch.func run?"""
    import sys

    from taper.overrides import _vmaps

    func = sys.modules.get("taper.func")  # a program that has not loaded it runs none of its transforms
    return bool(_vmaps.sizes) or func is not None and func._thread.depth > 0


def _is_torch_function_mode_enabled():
    from taper.overrides import _modes

    return bool(_modes.stack)


def _is_tracing():
    from taper.jit import is_tracing

    return is_tracing()


def _get_accelerator(check=False):
    """The accelerator's device; the CPU where there is none."""
    from taper.accelerator import current_accelerator

    return current_accelerator() or _C.device("cpu")


def _get_default_device():
    return str(_C.get_default_device())


def _get_privateuse1_backend_name():
    return "privateuseone"


def _get_cudnn_enabled():
    from taper.backends import cudnn

    return cudnn.enabled


def _is_alias_of(first, second):
    """Do two tensors share their storage?"""
    return first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


def _storage_Use_Count(storage_ptr):
    """How many tensors and holders the storage with this _cdata has."""
    return _C.UntypedStorage._count_at(storage_ptr)


# ---- GPUs ----
def _cuda_getCurrentRawStream(device):
    from taper.cuda import current_stream

    return current_stream(device).cuda_stream


def _cuda_clearCublasWorkspaces():
    """The libraries' workspaces belong to streams here and go with them."""


def _cuda_attach_out_of_memory_observer(observer):
    """Taken, and not called: an allocation that fails raises torch.OutOfMemoryError."""


def _set_math_sdp_allow_fp16_bf16_reduction(enabled):
    """Attention reduces half precision in float32, always."""


def _debug_only_display_vmap_fallback_warnings(enabled):
    """There are no such warnings."""


# ---- Switches of PyTorch's script compiler ----
_switches = {}


def _switch(name, default=True):
    def turn(on):
        before, _switches[name] = _switches.get(name, default), on
        return before

    turn.__name__ = turn.__qualname__ = name
    turn.__doc__ = "Kept, and given back by the next call; there is nothing that it would turn."
    return turn


for _name in """_jit_set_profiling_executor _jit_set_profiling_mode _jit_set_texpr_fuser_enabled
    _jit_set_nvfuser_enabled _jit_set_nvfuser_guard_mode
        _jit_override_can_fuse_on_cpu _jit_override_can_fuse_on_gpu _jit_set_bailout_depth""".split():
    globals()[_name] = _switch(_name)


def _jit_can_fuse_on_cpu():
    return False


_jit_can_fuse_on_gpu = _jit_texpr_fuser_enabled = _jit_can_fuse_on_cpu


class JitType:
    """A type of PyTorch's script compiler: annotations name them."""

    @classmethod
    def get(cls):
        return cls()

    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return hash(type(self))

    def __repr__(self):
        return type(self).__name__.removesuffix("Type").removesuffix("Obj")


for _name in """AnyType AwaitType BoolType ClassType ComplexType DeviceObjType DictType EnumType FloatType
    FutureType InterfaceType IntType ListType NoneType
        NumberType OptionalType PyObjectType StreamObjType StringType SymIntType TensorType TupleType Type
        UnionType""".split():
    globals()[_name] = type(_name, (JitType,), {"__doc__": "A type of PyTorch's script compiler."})


class PyTorchFileReader:
    """The records of a checkpoint: a zip file whose entries lie in one folder."""

    def __init__(self, file):
        from zipfile import ZipFile

        self._zip = ZipFile(file)
        self._folder = self._zip.namelist()[0].partition("/")[0]

    def get_all_records(self):
        return [name.partition("/")[2] for name in self._zip.namelist()]

    def has_record(self, name):
        return f"{self._folder}/{name}" in self._zip.NameToInfo

    def get_record(self, name):
        return self._zip.read(f"{self._folder}/{name}")

    def get_storage_from_record(self, name, numel, dtype):
        """A row of that many elements over the record's bytes."""
        return (
            _C.frombuffer(bytearray(self.get_record(name)), dtype=dtype, count=numel)
            if numel
            else _C._functions["empty"](0, dtype=dtype)
        )

    def serialization_id(self):
        return self.get_record(".data/serialization_id").decode() if self.has_record(".data/serialization_id") else ""


# ---- Modules inside torch._C ----
def _module(name, *functions, **values):
    module = ModuleType(f"torch._C.{name}")
    module.__dict__.update({function.__name__: function for function in functions}, **values)
    return module


def _parse_to(*args, **kwargs):
    """(device, dtype, non_blocking, memory_format) of a call to `to`."""
    from taper.nn.modules.module import _parse_to

    return _parse_to(*args, **kwargs)


def is_batchedtensor(tensor):
    """Is it one that stands for the slices of a vmap?"""
    from taper._batched import Batched

    return isinstance(tensor, Batched)


def is_legacy_batchedtensor(tensor):
    return False


def get_unwrapped(tensor):
    """The whole batch that a tensor inside vmap stands for."""
    return tensor._physical if is_batchedtensor(tensor) else tensor


def _add_batch_dim(tensor, batch_dim, level):
    from taper._batched import wrap

    return wrap(tensor.movedim(batch_dim, 0), level)


def _remove_batch_dim(tensor, level, batch_size, out_dim):
    mapped = is_batchedtensor(tensor) and tensor._level == level
    return (tensor._physical if mapped else tensor.expand(batch_size, *tensor.shape)).movedim(0, out_dim)


def _is_current_rpc_agent_set():
    from taper.distributed.rpc.api import _is_current_rpc_agent_set

    return _is_current_rpc_agent_set()


# ---- The backward that runs ----
def _current_graph_task_id():
    """The number of the backward that runs in this thread; -1 outside of one."""
    return _C._backward_number() or -1


def _will_engine_execute_node(node):
    """Will the backward that runs come to the node?"""
    if not _C._backward_number():
        raise RuntimeError("_get_should_execute_nodes should only be called during the backward pass")
    return _C._backward_runs(node)


def _get_current_graph_task_keep_graph():
    return _C._backward_keeps_graph()


def _is_fwd_grad_enabled():
    """Does forward-mode differentiation push tangents on?"""
    from taper.overrides import _forward

    return _forward.enabled


def _set_fwd_grad_enabled(enabled):
    from taper.overrides import _forward

    _forward.enabled = enabled


def _saved_tensors_hooks_is_enabled():
    """May hooks for saved tensors be pushed?"""
    message = _C._forbid_saved_hooks(None)
    if message is not None:
        _C._forbid_saved_hooks(message)
    return message is None


def _saved_tensor_class(name):
    if name != "SavedTensor":
        raise AttributeError(f"module 'torch._C._autograd' has no attribute '{name}'")
    from taper.autograd._saved import SavedTensor

    return SavedTensor


class _WeakTensorRef:
    """Asks whether a tensor is still there."""

    def __init__(self, tensor):
        from weakref import ref

        self._tensor = ref(tensor)

    def expired(self):
        return self._tensor() is None


# Functions that PyTorch keeps in torch._C._nn, though programs find them in nn.functional. The others there have the
# signatures of aten.
OF_NN = frozenset(
    """
    adaptive_avg_pool2d adaptive_avg_pool3d avg_pool2d avg_pool3d gelu linear log_sigmoid one_hot
    scaled_dot_product_attention softplus softshrink
    elu_ hardtanh_ leaky_relu_ silu mish pad""".split()
)


OF_NN_AND_ATEN = frozenset(
    """
    adaptive_max_pool2d adaptive_max_pool3d binary_cross_entropy col2im cross_entropy_loss elu fractional_max_pool2d
    fractional_max_pool3d gelu_ glu hardsigmoid hardsigmoid_ hardswish hardswish_ hardtanh huber_loss im2col l1_loss
    leaky_relu max_pool2d_with_indices max_pool3d_with_indices max_unpool2d max_unpool3d mish_ mse_loss
    multi_margin_loss multilabel_margin_loss nll_loss nll_loss2d nll_loss_nd pad_sequence reflection_pad1d
    reflection_pad2d reflection_pad3d relu6 relu6_ replication_pad1d replication_pad2d replication_pad3d silu_
    smooth_l1_loss soft_margin_loss upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d
    upsample_nearest2d upsample_nearest3d upsample_trilinear3d _upsample_bicubic2d_aa _upsample_bilinear2d_aa
    _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d flatten_dense_tensors
    unflatten_dense_tensors""".split()
)


def _function_of_nn(name):
    from taper.nn import functional

    found = getattr(functional, "logsigmoid" if name == "log_sigmoid" else name, None) if name in OF_NN else None
    if name in OF_NN_AND_ATEN:
        from taper import ops

        found = getattr(ops.aten, name, None)
    if found is None:
        raise AttributeError(f"module 'torch._C._nn' has no attribute '{name}'")
    return found


def _name_of_c10d(name):
    """Process groups, stores and the reducer, which PyTorch has in C++."""
    from taper import distributed

    if name == "Reducer":
        from taper.nn.parallel._reducer import Reducer

        return Reducer
    found = getattr(distributed, name, None)
    if found is None or name.startswith("__"):
        raise AttributeError(f"module 'torch._C._distributed_c10d' has no attribute '{name}'")
    return found


def _get_cpu_capability():
    from taper.cpu import get_capabilities

    return dict(get_capabilities())


_cpu = _module("_cpu", _get_cpu_capability)
_nn = _module("_nn", _parse_to)
_nn.__getattr__ = _function_of_nn  # nn.functional is not loaded before somebody asks
_autograd = _module("_autograd", _get_current_graph_task_keep_graph, _saved_tensors_hooks_is_enabled)
_autograd.__getattr__ = _saved_tensor_class
_functorch = _module(
    "_functorch", is_batchedtensor, is_legacy_batchedtensor, get_unwrapped, _add_batch_dim, _remove_batch_dim
)
_distributed_c10d = _module("_distributed_c10d")
_distributed_c10d.__getattr__ = _name_of_c10d


def gather_traceback(python=True, script=True, cpp=True):
    """Where the caller stands, to be written out later."""
    import traceback

    return traceback.extract_stack()


def symbolize_tracebacks(tracebacks):
    """The frames of what gather_traceback noted, the innermost first."""
    return [
        [{"name": f.name, "filename": f.filename, "line": f.lineno} for f in reversed(stack)] for stack in tracebacks
    ]


_profiler = _module("_profiler", gather_traceback, symbolize_tracebacks)
_distributed_rpc = _module("_distributed_rpc", _is_current_rpc_agent_set)


def _jit_assert_is_instance(obj, type):
    """Raises unless a value is of a type of scripts; any value is of the type Any."""
    import taper

    kinds = {"Tensor": taper.Tensor, "int": int, "float": float, "bool": bool, "str": str}
    wanted = kinds.get(str(type))
    if wanted is not None and not isinstance(obj, wanted):
        raise RuntimeError(f"Expected an object of type {type}, got {obj.__class__.__name__}")


def find(name):
    """What torch._C has under this name; AttributeError where it has nothing."""
    if name == "_infer_size":
        from taper._native_names import _infer_size

        return _infer_size
    if name in ("_ConvBackend", "_select_conv_backend"):
        from taper import _conv_backends

        return getattr(_conv_backends, name)
    if name.startswith(("_dispatch_", "Dispatch", "_any_", "_jit_get_schemas", "_jit_resolve")) or name in (
        "FunctionSchema",
        "Argument",
        "parse_schema",
        "_get_schema",
        "_DisableTorchDispatch",
        "_AutoDispatchBelowAutograd",
        "_ExcludeDispatchKeyGuard",
        "_IncludeDispatchKeyGuard",
        "_ForceDispatchKeyGuard",
        "_len_torch_dispatch_stack",
        "_get_dispatch_stack_at",
        "_get_dispatch_mode",
    ):
        from taper._dispatch import _keys

        if name in _keys.NAMES:
            return getattr(_keys, name)
    if name in ("_len_torch_function_stack", "_get_function_stack_at"):
        from taper.overrides import _modes

        return (lambda: len(_modes.stack)) if name.startswith("_len") else lambda i: _modes.stack[i]
    if name == "Tag":
        from taper._ops import Tag

        return Tag
    if name == "_VariableFunctions":
        from taper import _VF

        return _VF
    if name == "_has_xpu":
        return _C._gpu_count("xpu") > 0
    if name in ("Graph", "Node", "Value"):
        from taper.jit import _graph

        return getattr(_graph, name)
    found = None if name.startswith("__") else globals().get(name)
    if found is None or name in ("ModuleType", "find"):
        raise AttributeError(f"module 'torch._C' has no attribute '{name}'")
    return found
