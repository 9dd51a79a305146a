"""What a captured call may meet that is not Python code. A function of C is listed if it computes from its arguments
alone; a type, if a call of it does. Everything else ends a capture, since nobody sees what it reads. A list or dict
that the program keeps is guarded, so that changing it is seen there."""

import abc
import builtins
import collections
import functools
import itertools
import math
import operator
import re
import sys
import threading
import types
import warnings
from opcode import hasname, opmap

import taper._C as _C

_BUILTINS = """abs all any ascii bin callable chr delattr divmod format getattr hasattr hex isinstance issubclass
    iter len locals max min next oct ord pow repr round
setattr sorted sum vars __build_class__""".split()
_VALUES = (str, bytes, int, float, complex, bool, range, slice, list, tuple, dict, set, frozenset, type, object)
_TYPES = _VALUES + (
    property,
    staticmethod,
    classmethod,
    super,
    enumerate,
    zip,
    map,
    filter,
    reversed,
    bytearray,
    memoryview,
    types.SimpleNamespace,
    types.MethodType,
    types.MappingProxyType,
    types.GenericAlias,
    functools.partial,
    operator.itemgetter,
    collections.deque,
    collections.defaultdict,
    collections.OrderedDict,
    type(None),
    type(...),
    type(NotImplemented),
    types.FunctionType,
    types.ModuleType,
)
_LOOKUPS = (
    getattr,
    hasattr,
    setattr,
    delattr,
    vars,
    str.format,
    str.format_map,
    object.__reduce__,
    object.__reduce_ex__,
    object.__dir__,
)
# Attributes through which code reads others that it does not name, and some that lead to what no guard follows.
_LOOKUP_WORDS = "__dict__ __getattribute__ __getstate__ __reduce__ __reduce_ex__ __dir__ __match_args__".split()
_REFUSED_WORDS = """__globals__ __builtins__ __closure__ cell_contents __subclasses__ __weakref__ f_locals f_globals
    f_back f_builtins gi_frame gi_yieldfrom gi_running cr_frame ag_frame
tb_frame tb_next __traceback__ __context__ __cause__ __type_params__""".split()
# Functions and methods of the package's extension. Graphs know what backward and steps of optimisers do, and guards
# hold the modes and settings that are read here.
_OWN = """_enter_disabled_torch_function _leave_disabled_torch_function _has_torch_function _call_torch_function
    _operator_kind _namespace _return_type _operator _bind tensor as_tensor
_leaves_of _grad_accumulator is_grad_enabled _set_grad_enabled is_inference_mode_enabled _enter_inference
_leave_inference _backward _gradients _log_api_usage_once _get_tracing_state
get_default_dtype get_default_device promote_types can_cast _operators _get_deterministic is_autocast_enabled
set_autocast_enabled get_autocast_dtype set_autocast_dtype
is_autocast_cache_enabled set_autocast_cache_enabled clear_autocast_cache autocast_increment_nesting
autocast_decrement_nesting _range_begin _range_end _total_norm _clip_to_norm
_optimiser_check _forget_grads _optimiser_step _graph_break _is_capturing _gpu_count _gpu_missing _gpu_backend
_gpu_version _gpu_describe _gpu_libraries _host_detours _dist_available
size stride __complex__ dim ndimension numel nelement element_size is_floating_point is_complex is_signed get_device
is_contiguous __array_namespace__ to item tolist
cpu cuda xpu type backward detach __getattr__ __setattr__ __delattr__ _apply name __enter__ __exit__ __instancecheck__
__subclasscheck__ to_complex to_real
Node.register_hook Node.register_prehook _FunctionBase.register_hook _FunctionBase.register_prehook""".split()


def _own_types():
    found = {value for value in vars(_C).values() if isinstance(value, type)}
    return frozenset(
        base for kind in found for base in kind.__mro__ if base not in _TYPES and not issubclass(base, BaseException)
    )


def _methods(kind):
    """Its methods, as they are found in the type and bound to it."""
    yield from (
        value
        for value in vars(kind).values()
        if type(value).__name__
        in ("method_descriptor", "wrapper_descriptor", "builtin_function_or_method", "classmethod_descriptor")
    )
    yield from (
        getattr(kind, name)
        for name in vars(kind)
        if type(getattr(kind, name, None)).__name__ == "builtin_function_or_method"
    )


def _functions():
    found = {getattr(builtins, name) for name in _BUILTINS} | {warnings.warn, functools.reduce}
    for kind in (
        *_VALUES,
        collections.OrderedDict,
        collections.defaultdict,
        collections.deque,
        bytearray,
        re.Pattern,
        re.Match,
    ):  # a deque of the program's is refused where it is met
        found.update(_methods(kind))
    for module in (math, operator, itertools):
        found.update(value for value in vars(module).values() if callable(value) and not isinstance(value, type))
    return found - {type.__subclasses__}


def _opcodes():
    """What instructions do (guards.h) and by how many bits their argument is shifted to be a name's index."""
    other, of_globals, attribute, imports, name, extended, nothing, store_global, match_class, store = range(10)
    found = {op: (name, 0) for op in hasname}
    shifts = {
        "LOAD_GLOBAL": int(sys.version_info >= (3, 11)),
        "LOAD_ATTR": int(sys.version_info >= (3, 12)),
        "LOAD_SUPER_ATTR": 2,
        "LOAD_ZERO_SUPER_ATTR": 2,
    }
    kinds = {
        "LOAD_GLOBAL": of_globals,
        "LOAD_NAME": of_globals,
        "LOAD_ATTR": attribute,
        "LOAD_METHOD": attribute,
        "LOAD_SUPER_ATTR": attribute,
        "IMPORT_NAME": imports,
        "EXTENDED_ARG": extended,
        "CACHE": nothing,
        "STORE_GLOBAL": store_global,
        "DELETE_GLOBAL": store_global,
        "MATCH_CLASS": match_class,
        "STORE_ATTR": store,
        "DELETE_ATTR": store,
        "LOAD_FROM_DICT_OR_GLOBALS": of_globals,
    }
    found.update({opmap[key]: (kind, shifts.get(key, 0)) for key, kind in kinds.items() if key in opmap})
    return {op: kind for op, kind in found.items() if op < 256}


def _numpy():
    """(types that may be called, types of objects that never change) of NumPy, where it is in use."""
    numpy = sys.modules.get("numpy")
    scalars = (
        "bool_",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "longdouble",
        "complex64",
        "complex128",
    )
    kinds = {getattr(numpy, name) for name in scalars} if hasattr(numpy, "ufunc") else set()
    return kinds, kinds | ({numpy.ufunc} if kinds else set())


_told = None


def tell():
    """Hands the lists to the extension."""
    global _told
    if _told == ("numpy" in sys.modules):
        return
    _told = "numpy" in sys.modules
    called, constant = _numpy()
    own = _own_types()
    iterators = {value for value in vars(itertools).values() if isinstance(value, type)}
    fixed = {
        type(NotImplemented),
        types.GenericAlias,
        types.MethodDescriptorType,
        types.ClassMethodDescriptorType,
        type(abc.ABC._abc_impl),
        type(collections.namedtuple("_Pair", "first").first),
        type(threading.Lock()),
        type(threading.RLock()),
        re.Pattern,
        operator.itemgetter,
        _C.Generator,
        _C.Function,
        _C.Method,
        _C._Asking,
        _C.DisableTorchFunction,
        _C.DisableTorchFunctionSubclass,
    }
    if hasattr(types, "UnionType"):
        fixed.add(types.UnionType)
    _C._graph_proven(
        {
            "functions": frozenset(f for f in _functions() if f.__hash__ is not None),
            "own_functions": frozenset(_OWN),
            "lookups": frozenset(_LOOKUPS),
            "types": frozenset(_TYPES) | iterators | called,
            "layouts": frozenset(
                (
                    object,
                    int,
                    float,
                    complex,
                    str,
                    bytes,
                    tuple,
                    list,
                    dict,
                    set,
                    frozenset,
                    type,
                    property,
                    collections.OrderedDict,
                    collections.defaultdict,
                    types.ModuleType,
                    _C.ModuleBase,
                    _C._FunctionBase,
                )
            ),
            "opaque": frozenset(fixed) | constant,
            "own_types": own,
            "lookup_words": frozenset(_LOOKUP_WORDS),
            "refused_words": frozenset(_REFUSED_WORDS),
            "opcodes": _opcodes(),
            "python_class": type("Example", (), {}),
            "package": vars(sys.modules["taper"]),
        }
    )
