"""PyTorch's face on Taper's C library: tensors, operators, automatic differentiation."""

from taper import _C


def _c_name(name):
    """Names of torch._C that are written in Python, loaded when a package reads one."""
    from taper._c_names import find

    return find(name)


_C.__getattr__, _C.__path__ = _c_name, []  # a path: PyTorch's holds modules, such as torch._C._functorch
globals().update(_C._namespace("torch"))
# Types and settings; dtypes after the operators: torch.bool is a dtype, and an operator too.
from taper._C import *  # noqa: E402,F401,F403
from taper._C import Tensor  # noqa: E402,F401

from taper.torch_version import __version__  # noqa: E402,F401
from taper._toplevel import *  # noqa: E402,F401,F403
from taper._toplevel import _assert  # noqa: E402,F401
from taper._info import finfo, iinfo  # noqa: E402,F401
from taper._tensor import asarray, from_dlpack  # noqa: E402,F401
from taper._tensor_str import get_printoptions, printoptions, set_printoptions  # noqa: E402,F401
from taper._legacy import *  # noqa: E402,F401,F403
from taper.storage import StorageBase, TypedStorage, UntypedStorage  # noqa: E402,F401
from taper.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: E402,F401
from taper import __future__, autograd, overrides  # noqa: E402,F401
from os import environ as _environ  # noqa: E402

if "TAPER_RUN" not in _environ and " TAPER_" in " " + " ".join(_environ):
    from taper import _environment

    _environment.warn()


# Loaded at the first use of torch.NAME, so that a program pays for what it uses.
_LATER = frozenset(
    """
    __config__ _decomp _dynamo _functorch _guards _higher_order_ops _inductor _library _ops _subclasses _vmap_internals
    accelerator amp ao backends compiler cpu cuda distributed distributions export fft func functional futures fx hub io
    jit library linalg masked mps
    mtia multiprocessing nested nn onnx optim profiler quantization quasirandom random return_types serialization signal
    sparse special testing types utils version xpu""".split()
)
# Functions and classes that are loaded likewise: where each is.
_FROM = {
    "Event": "_gpu.streams",
    "DisableTorchFunctionSubclass": "overrides",
    "DisableTorchFunction": "overrides",
    "Stream": "_gpu.streams",
    "compile": "_dynamo",
    "load": "serialization",
    "save": "serialization",
    "vmap": "_functorch.vmap",
    **dict.fromkeys(
        """
    autocast is_autocast_cpu_enabled set_autocast_cpu_enabled get_autocast_cpu_dtype set_autocast_cpu_dtype
    get_autocast_gpu_dtype
    set_autocast_gpu_dtype""".split(),
        "amp.autocast_mode",
    ),
    **dict.fromkeys(
        """
    sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor
    sparse_compressed_tensor""".split(),
        "sparse._make",
    ),
    **dict.fromkeys(
        """
    _validate_sparse_coo_tensor_args _validate_sparse_compressed_tensor_args _validate_sparse_csr_tensor_args
    _validate_sparse_csc_tensor_args
    _validate_sparse_bsr_tensor_args _validate_sparse_bsc_tensor_args _validate_compressed_sparse_indices
    _sparse_broadcast_to
    _sparse_compressed_tensor_with_dims""".split(),
        "sparse._native",
    ),
    **dict.fromkeys("spmm dsmm hspmm sspaddmm saddmm smm hsmm".split(), "sparse._products"),
    "ops": "_ops",
    "_mkldnn": "_opaque",
    "_mkldnn_transpose": "_opaque",
    "jagged": "nested",
    "lobpcg": "_lobpcg",
    "_int_mm": "_scaled",
    "_scaled_mm": "_scaled",
    **dict.fromkeys(
        """
    per_tensor_affine per_tensor_symmetric quantize_per_tensor dequantize fake_quantize_per_tensor_affine""".split(),
        "_quantized",
    ),
    **dict.fromkeys(
        """
    embedding embedding_bag batch_norm instance_norm ctc_loss kl_div binary_cross_entropy_with_logits
    cosine_embedding_loss hinge_embedding_loss
    margin_ranking_loss triplet_margin_loss poisson_nll_loss adaptive_max_pool1d native_dropout detach detach_
    resize_as_ empty_permuted to_dlpack cond
    while_loop _nested_tensor_from_mask _nested_from_padded _nested_from_padded_and_nested_example
    _convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo _has_compatible_shallow_copy_type
    _amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_ _assert_async _addmm_activation hash_tensor
    _embedding_bag _embedding_bag_forward_only _chunk_cat _weight_int8pack_mm _native_batch_norm_legit
    _unsafe_masked_index _unsafe_masked_index_put_accumulate _segment_reduce
    _cast_Byte _cast_Char _cast_Short _cast_Int _cast_Long _cast_Half _cast_Float _cast_Double
    _shape_as_tensor _grouped_mm _nested_view_from_buffer eig lstsq matrix_rank solve symeig SymInt SymFloat SymBool
    sym_int sym_float sym_not sym_max sym_min sym_ite sym_sum sym_sqrt""".split(),
        "_native_names",
    ),
    **dict.fromkeys(
        """
    _check _check_with _check_index _check_value _check_type _check_not_implemented _check_is_size _check_tensor_all
    _check_tensor_all_with""".split(),
        "_checks",
    ),
    **dict.fromkeys(
        """
    AnyType AwaitType BoolType ClassType ComplexType DeviceObjType DictType EnumType FloatType FutureType InterfaceType
    IntType JitType ListType NoneType NumberType
    OptionalType PyObjectType StreamObjType StringType SymIntType TensorType TupleType Type UnionType
    PyTorchFileReader""".split(),
        "_c_names",
    ),
    "_native_multi_head_attention": "_native_attention",
    "_transform_bias_rescale_qkv": "_native_attention",
    "Future": "futures",
    "GradScaler": "amp",
    "Tag": "_ops",
    "ScriptModule": "jit",
    "ScriptFunction": "jit",
    "ScriptObject": "_classes",
    "classes": "_classes",
}


def __getattr__(name):
    from importlib import import_module

    if name in _LATER:
        return import_module("taper." + name)
    if name in _FROM:
        value = globals()[name] = getattr(import_module("taper." + _FROM[name]), name)
        return value
    if name == "torch":
        return import_module("taper")
    if name == "__all__":
        package = import_module("taper")
        return import_module("taper._hook").names_of(package, "torch")
    if name in ("has_cuda", "has_xpu"):
        return _C._gpu_count(name[4:]) > 0
    if name.startswith("_foreach_"):
        try:
            found = globals()[name] = import_module("taper._foreach").make(name[9:])
            return found
        except KeyError:
            pass
    raise AttributeError(f"module 'torch' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_LATER, *_FROM})
