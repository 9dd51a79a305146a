"""Writes the package's type stubs from the tables and from what the Python files define.

    python tools/stubs.py FOLDER    FOLDER/__init__.pyi, FOLDER/linalg.pyi, ...

`make reference` runs it on python/taper; a test compares. An operator's signature comes from the tables, a Python
function's from the function itself, with the types that its annotations or its arguments' names give.
"""

import importlib
import inspect
import keyword
import os
import re
import sys
import types

import taper
from taper import _C

MODULES = ["taper", "taper.linalg", "taper.fft", "taper.special", "taper.nn.functional"]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
HEADER = """# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
"""
TYPES = {
    "Tensor": "Tensor",
    "Tensor[]": "Sequence[Tensor]",
    "Tensor?[]": "Sequence[Optional[Tensor]]",
    "Operand": "Union[Tensor, Number]",
    "Scalar": "Number",
    "int": "_int",
    "int[]": "Sequence[_int]",
    "float": "_float",
    "bool": "_bool",
    "str": "str",
    "dtype": "_dtype",
    "device": "DeviceLike",
    "layout": "_memory_format",
    "Generator": "Generator",
    "float[]": "Union[_float, Sequence[_float]]",
    "Scalar[]": "Sequence[Number]",
    "bool[]": "Sequence[_bool]",
}
REST = ("size", "dims", "shape", "repeats")
FACTORY = ", layout: Optional[_layout] = None, requires_grad: _bool = False, pin_memory: Optional[_bool] = None"
SPECIAL = {
    "item": "() -> Union[_int, _float]",
    "tolist": "() -> Any",
    "numpy": "(*, force: _bool = False) -> Any",
    "size": None,
    "stride": None,
    "dim": "() -> _int",
    "ndimension": "() -> _int",
    "numel": "() -> _int",
    "nelement": "() -> _int",
    "storage_offset": "() -> _int",
    "element_size": "() -> _int",
    "data_ptr": "() -> _int",
    "get_device": "() -> _int",
    "is_floating_point": "() -> _bool",
    "is_complex": "() -> _bool",
    "is_signed": "() -> _bool",
    "is_contiguous": "(memory_format: _memory_format = ...) -> _bool",
    "backward": "(gradient: Optional[Tensor] = None, retain_graph: Optional[_bool] = None,"
    " create_graph: _bool = False, inputs: Optional[Sequence[Tensor]] = None) -> None",
    "requires_grad_": "(requires_grad: _bool = True) -> Tensor",
    "retain_grad": "() -> None",
    "to": "(*args: Any, **kwargs: Any) -> Tensor",
    "type": "(dtype: Any = None, non_blocking: _bool = False) -> Any",
    "type_as": "(other: Tensor) -> Tensor",
    "cpu": "(memory_format: _memory_format = ...) -> Tensor",
    "register_hook": "(hook: Callable[[Tensor], Optional[Tensor]]) -> Any",
    "new_tensor": "(data: Any, *, dtype: Optional[_dtype] = None, device: Optional[DeviceLike] = None, requires_grad: _bool = False) -> Tensor",
    "is_shared": "() -> _bool",
    "detach": "() -> Tensor",
    "detach_": "() -> Tensor",
}
TENSOR_FUNCTIONS = {
    "tensor": "(data: Any, *, dtype: Optional[_dtype] = None, device: Optional[DeviceLike] = None, requires_grad: _bool = False, pin_memory: _bool = False) -> Tensor",
    "as_tensor": "(data: Any, dtype: Optional[_dtype] = None, device: Optional[DeviceLike] = None) -> Tensor",
    "from_numpy": "(ndarray: Any) -> Tensor",
    "is_tensor": "(obj: Any) -> _bool",
    "manual_seed": "(seed: _int) -> Generator",
    "numel": "(input: Tensor) -> _int",
    "get_num_threads": "() -> _int",
    "set_num_threads": "(num: _int) -> None",
    "get_default_dtype": "() -> dtype",
    "set_default_dtype": "(d: dtype) -> None",
    "promote_types": "(type1: dtype, type2: dtype) -> dtype",
    "can_cast": "(from_: dtype, to: dtype) -> _bool",
    "from_dlpack": "(ext_tensor: Any) -> Tensor",
    "is_grad_enabled": "() -> _bool",
    "allclose": None,
    "equal": None,
}
PROPERTY_TYPES = {
    "shape": "Size",
    "dtype": "_dtype",
    "device": "_device",
    "grad": "Optional[Tensor]",
    "data": "Tensor",
    "grad_fn": "Any",
    "ndim": "_int",
    "itemsize": "_int",
    "nbytes": "_int",
    "requires_grad": "_bool",
    "output_nr": "_int",
    "layout": "_layout",
    "names": "Any",
    "name": "Any",
}
NUMBER_METHODS = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
COMPARISONS = "eq ne lt le gt ge".split()
FIXED = """
from builtins import bool as _bool, complex as _complex, float as _float, int as _int
Number = Union[_int, _float, _bool, _complex]

class dtype:
    is_floating_point: _bool
    is_complex: _bool
    is_signed: _bool
    itemsize: _int
    def to_complex(self) -> dtype: ...
    def to_real(self) -> dtype: ...

class layout: ...
class memory_format: ...

class device:
    type: str
    index: Optional[_int]
    def __init__(self, type: Union[str, _int, device], index: Optional[_int] = None) -> None: ...
    def __enter__(self) -> device: ...
    def __exit__(self, *error: Any) -> None: ...

_dtype = dtype
_device = device
_layout = layout
_memory_format = memory_format
DeviceLike = Union[str, device, _int]

class Size(Tuple[_int, ...]):
    def numel(self) -> _int: ...

class Generator:
    @property
    def device(self) -> _device: ...
    def __init__(self, device: DeviceLike = "cpu") -> None: ...
    def manual_seed(self, seed: _int) -> Generator: ...
    def initial_seed(self) -> _int: ...
    def seed(self) -> _int: ...
    def get_state(self) -> Tensor: ...
    def set_state(self, new_state: Tensor) -> Any: ...

_F = TypeVar("_F", bound=Callable[..., Any])

class _Mode:
    def __init__(self, mode: _bool = True) -> None: ...
    def __call__(self, function: _F) -> _F: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *error: Any) -> None: ...

class _Scope:
    @overload
    def __new__(cls, function: _F) -> _F: ...  # type: ignore[misc]
    @overload
    def __new__(cls) -> _Scope: ...
    def __call__(self, function: _F) -> _F: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *error: Any) -> None: ...

class no_grad(_Scope): ...
class enable_grad(_Scope): ...
class set_grad_enabled(_Mode): ...
class inference_mode(_Mode): ...
"""
FIXED_NAMES = {
    "dtype",
    "layout",
    "memory_format",
    "device",
    "Size",
    "Generator",
    "Tensor",
    "no_grad",
    "enable_grad",
    "set_grad_enabled",
    "inference_mode",
}


def operators():
    """name -> its overloads' signatures, of all operators; and which of those are methods or have an in-place form."""
    result = {}
    for name, signature, _, _, method, inplace, _, namespaces in _C._operators():
        if "." not in name or namespaces != "aten":  # overloads of aten's alone are for programs in files
            result.setdefault(name.split(".")[0], []).append((signature, method, inplace))
    return result


OPERATORS = operators()


def split(text):
    """Splits at the commas that stand outside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [part.strip() for part in parts + [text[start:]] if part.strip()]


def argument_type(text):
    optional = text.endswith("?")
    text = text[:-1] if optional else text
    result = "Union[_int, Sequence[_int]]" if re.fullmatch(r"int\[\d*\]", text) else TYPES[text]
    return f"Optional[{result}]" if optional else result


def default_text(text):
    return {"true": "True", "false": "False", "inf": "...", "-inf": "..."}.get(
        text, "..." if text[:1] == "[" or text == "None" else text
    )


def result_type(text, named):
    if not text.startswith("("):
        return {"Tensor[]": "Tuple[Tensor, ...]", "()": "None"}.get(text, TYPES.get(text, "Any"))
    fields = [part.split() for part in split(text[1:-1])]
    return named(fields)


def operator_forms(signature, name, method, inplace, named):
    """The parameter lists of an operator's overload, as text; several where sizes may be given one by one."""
    arguments, _, result = signature.partition("(")[2].rpartition(") -> ")
    positional, keywords, forms, factory = ([], [], [], False)
    for i, argument in enumerate(split(arguments)):
        kind, _, rest = argument.partition(" ")
        label, has_default, default = rest.partition("=")
        if label == "self":
            if method:
                continue
            label = "input" if i == 0 else label
        label = label + "_" if keyword.iskeyword(label) else label
        typed = argument_type(kind)
        if has_default and default == "None" and not typed.startswith("Optional"):
            typed = f"Optional[{typed}]"
        factory |= kind.startswith("device")
        text = f"{label}: {typed}" + (f" = {default_text(default)}" if has_default else "")
        only = (
            label in ("correction", "alpha", "generator", "dtype", "device", "memory_format")
            and has_default
            or keywords
        )
        (keywords if only else positional).append((label, kind, text, bool(has_default)))
    returned = "Tensor" if inplace else result_type(result, named)
    out = (
        ""
        if inplace or method or not result.startswith("Tensor") or result == "Tensor[]"
        else ", out: Optional[Tensor] = None"
    )
    tail = "".join(", " + text for _, _, text, _ in keywords) + (FACTORY if factory and not method else "") + out
    needed = False
    for i in range(len(positional) - 1, -1, -1):  # what follows a required argument cannot stay optional in front of it
        if positional[i][3] and needed:
            label, kind, text, _ = positional[i]
            positional[i] = label, kind, text.partition(" = ")[0], False
        needed |= not positional[i][3]
    first = "self" if method else ""
    plain = ", ".join(([first] if first else []) + [text for _, _, text, _ in positional])
    forms.append(f"({plain}{', *' + tail if tail else ''}) -> {returned}")
    sizes = [
        i
        for i, (label, kind, _, _) in enumerate(positional)
        if label in REST and kind == "int[]" and i == len(positional) - 1
    ]
    if sizes and (i := sizes[0]) <= 1:
        before = ", ".join(([first] if first else []) + [text for _, _, text, _ in positional[:i]])
        forms.append(f"({before + ', ' if before else ''}*{positional[i][0]}: _int{tail}) -> {returned}")
    return [form.replace("(, ", "(") for form in forms]


class Stub:
    """The text of one module's stub."""

    def __init__(self, module):
        self.module = module
        self.lines = []
        self.tuples = {}

    def named_tuple(self, name):
        def make(fields):
            if not all(len(field) == 2 for field in fields):
                return f"Tuple[{', '.join(TYPES.get(field[0], 'Any') for field in fields)}]"
            label = f"_{name}_{'_'.join(field[1] for field in fields)}"
            self.tuples[label] = [f"class {label}(NamedTuple):"] + [
                f"    {field[1]}: {TYPES.get(field[0], 'Any')}" for field in fields
            ]
            return label

        return make

    def define(self, name, forms, indent=""):
        forms = list(dict.fromkeys(forms))
        for form in forms:
            if len(forms) > 1:
                self.lines.append(f"{indent}@overload")
            self.lines.append(f"{indent}def {name}{form}: ...")

    def operator(self, name, base, method=False, inplace=False, indent=""):
        forms = [
            form
            for signature, is_method, has_inplace in OPERATORS[base]
            if not method or (has_inplace if inplace else is_method)
            for form in operator_forms(signature, name, method, inplace, self.named_tuple(base))
        ]
        self.define(name, forms, indent)

    def function(self, name, function, returned):
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            self.define(name, ["(*args: Any, **kwargs: Any) -> " + returned])
            return
        parts, star = [], False
        for p in parameters:
            if p.kind is p.KEYWORD_ONLY and not star:
                parts.append("*")
                star = True
            star |= p.kind is p.VAR_POSITIONAL
            typed = (
                "Tensor"
                if p.name in ("input", "tensor", "weight", "target", "A", "B") and p.default is p.empty
                else "Any"
            )
            prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
            parts.append(f"{prefix}{p.name}: {typed}" + ("" if p.default is p.empty else " = ..."))
        self.define(name, [f"({', '.join(parts)}) -> {returned}"])

    def text(self, start):
        tuples = [line for label in sorted(self.tuples) for line in ["", *self.tuples[label]]]
        return "\n".join([HEADER + start, *tuples, "", *self.lines, ""])


def tensor_class(stub):
    """class Tensor: properties, operators and methods, in the order of their names."""
    lines = stub.lines
    lines.append("class Tensor:")
    lines.append("    def __init__(self, *args: Any, device: Optional[DeviceLike] = None) -> None: ...")
    for name in NUMBER_METHODS:
        for prefix in ("", "r", "i"):
            if prefix != "i" or hasattr(taper.Tensor, f"__i{name}__"):
                lines.append(f"    def __{prefix}{name}__(self, other: Any) -> Tensor: ...")
    for name in COMPARISONS:
        ignore = "  # type: ignore[override]" if name in ("eq", "ne") else ""
        lines.append(f"    def __{name}__(self, other: Any) -> Tensor: ...{ignore}")
    for name, form in (
        ("neg", "(self) -> Tensor"),
        ("pos", "(self) -> Tensor"),
        ("abs", "(self) -> Tensor"),
        ("invert", "(self) -> Tensor"),
        ("bool", "(self) -> _bool"),
        ("int", "(self) -> _int"),
        ("float", "(self) -> _float"),
        ("complex", "(self) -> _complex"),
        ("index", "(self) -> _int"),
        ("len", "(self) -> _int"),
        ("iter", "(self) -> Iterator[Tensor]"),
        ("getitem", "(self, key: Any) -> Tensor"),
        ("setitem", "(self, key: Any, value: Any) -> None"),
        ("contains", "(self, element: Any) -> _bool"),
        ("hash", "(self) -> _int"),
        ("array", "(self, dtype: Any = None, copy: Any = None) -> Any"),
        ("dlpack", "(self, **kwargs: Any) -> Any"),
        ("dlpack_device", "(self) -> Tuple[_int, _int]"),
        ("array_namespace", "(self, *, api_version: Optional[str] = None) -> Any"),
    ):
        lines.append(f"    def __{name}__{form}: ...")
    for name in sorted(n for n in dir(taper.Tensor) if not n.startswith("_")):
        value = inspect.getattr_static(taper.Tensor, name)
        if name in ("size", "stride"):
            stub.define(
                name,
                [
                    "(self, dim: None = None) -> " + ("Size" if name == "size" else "Tuple[_int, ...]"),
                    "(self, dim: _int) -> _int",
                ],
                "    ",
            )
        elif SPECIAL.get(name):
            stub.define(name, [SPECIAL[name].replace("(", "(self, ", 1).replace("self, )", "self)")], "    ")
        elif isinstance(value, (property, types.GetSetDescriptorType, types.MemberDescriptorType)):
            typed = PROPERTY_TYPES.get(name, "_bool" if name.startswith(("is_", "_is")) else "Tensor")
            if name in ("grad", "data", "requires_grad", "names", "real", "imag"):
                lines.append(f"    {name}: {typed}")
            else:
                lines += ["    @property", f"    def {name}(self) -> {typed}: ..."]
        elif type(value).__name__ in ("Method", "Function"):
            base, inplace = value.__name__, value.__name__ not in OPERATORS
            stub.operator(name, base[:-1] if inplace else base, True, inplace, "    ")
        else:
            returned = (
                "Tensor"
                if name.endswith("_") or name.startswith("new_") or name in ("cuda", "norm", "unflatten", "to_dense")
                else "Tuple[Tensor, ...]"
                if name == "split"
                else "Any"
            )
            lines.append(f"    def {name}(self, *args: Any, **kwargs: Any) -> {returned}: ...")


def module_stub(name):
    module = importlib.import_module(name)
    stub = Stub(module)
    top = name == "taper"
    if top:
        tensor_class(stub)
        stub.lines.append("")
    for label in sorted(n for n in dir(module) if not n.startswith("_") and not keyword.iskeyword(n)):
        value = getattr(module, label)
        if (
            top
            and label in FIXED_NAMES
            or not top
            and value is getattr(taper, label, None)
            and not callable(value)
            and not isinstance(value, types.ModuleType)
        ):
            continue
        if isinstance(value, types.ModuleType):
            if top and value.__name__ == f"taper.{label}":
                stub.lines.append(f"from taper import {label} as {label}")
        elif isinstance(value, _C.dtype):
            stub.lines.append(f"{label}: _dtype")
        elif isinstance(value, (_C.memory_format, _C.layout)):
            stub.lines.append(f"{label}: _{type(value).__name__}")
        elif isinstance(value, type):
            if value is not taper.Tensor:
                stub.lines.append(f"{label}: Any")
        elif type(value).__name__ == "Function":
            base, inplace = value.__name__, value.__name__ not in OPERATORS
            stub.operator(label, base[:-1] if inplace else base, False, inplace)
        elif top and TENSOR_FUNCTIONS.get(label):
            stub.define(label, [TENSOR_FUNCTIONS[label]])
        elif callable(value):
            stub.function(
                label,
                value,
                "Tensor" if name == "taper.nn.functional" and not label.endswith("_with_indices") else "Any",
            )
        elif isinstance(value, (int, float, str)):
            stub.lines.append(f"{label}: {'_' if type(value) is not str else ''}{type(value).__name__}")
        else:
            stub.lines.append(f"{label}: Any")
    if top:
        stub.lines += ["__version__: str", "def __getattr__(name: str) -> Any: ..."]
        return stub.text(FIXED)
    imports = "from taper import DeviceLike, Generator, Number, Size, Tensor, _bool, _complex, _device, _dtype, _float, _int, _layout, _memory_format\n"
    return stub.text(imports)


# ---- Classes: layers, optimisers, schedules, loaders, groups ----
IMPORTS = (
    "from taper import DeviceLike, Generator, Number, Size, Tensor, _bool, _complex, _device, _dtype, _float, _int,"
    " _layout, _memory_format\n"
)
LAYER_TYPES = {
    "int": "int",
    "int?": "Optional[int]",
    "float": "float",
    "float?": "Optional[float]",
    "bool": "bool",
    "str": "str",
    "Tensor": "Tensor",
    "Tensor?": "Optional[Tensor]",
    "any": "Any",
}
# Methods whose types programs rely on. The rest of a class is read off it.
METHODS = {
    "Module": """
    training: bool
    def __setattr__(self, name: str, value: Any) -> None: ...
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...
    def parameters(self, recurse: bool = True) -> Iterator[Parameter]: ...
    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[Tuple[str, Parameter]]: ...
    def buffers(self, recurse: bool = True) -> Iterator[Tensor]: ...
    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[Tuple[str, Tensor]]: ...
    def children(self) -> Iterator[Module]: ...
    def named_children(self) -> Iterator[Tuple[str, Module]]: ...
    def modules(self) -> Iterator[Module]: ...
    def named_modules(self, memo: Any = None, prefix: str = "", remove_duplicate: bool = True) -> Iterator[Tuple[str, Module]]: ...
    def train(self: _M, mode: bool = True) -> _M: ...
    def eval(self: _M) -> _M: ...
    def to(self: _M, *args: Any, **kwargs: Any) -> _M: ...
    def cpu(self: _M) -> _M: ...
    def cuda(self: _M, device: Any = None) -> _M: ...
    def float(self: _M) -> _M: ...
    def double(self: _M) -> _M: ...
    def half(self: _M) -> _M: ...
    def bfloat16(self: _M) -> _M: ...
    def requires_grad_(self: _M, requires_grad: bool = True) -> _M: ...
    def apply(self: _M, fn: Callable[[Module], Any]) -> _M: ...
    def zero_grad(self, set_to_none: bool = True) -> None: ...
    def state_dict(self, *args: Any, **kwargs: Any) -> Dict[str, Any]: ...
    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any: ...
    def register_buffer(self, name: str, tensor: Optional[Tensor], persistent: bool = True) -> None: ...
    def register_parameter(self, name: str, param: Optional[Parameter]) -> None: ...
    def add_module(self, name: str, module: Optional[Module]) -> None: ...
    def get_submodule(self, target: str) -> Module: ...
    def get_parameter(self, target: str) -> Parameter: ...""",
    "Parameter": """
    def __init__(self, data: Optional[Tensor] = None, requires_grad: bool = True) -> None: ...""",
    "Sequential": """
    def __init__(self, *args: Any) -> None: ...
    def __call__(self, input: Any) -> Any: ...
    def __iter__(self) -> Iterator[Module]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, idx: Any) -> Any: ...
    def append(self, module: Module) -> Sequential: ...""",
    "ModuleList": """
    def __init__(self, modules: Optional[Iterable[Module]] = None) -> None: ...
    def __iter__(self) -> Iterator[Module]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, idx: Any) -> Any: ...
    def append(self, module: Module) -> ModuleList: ...""",
    "Optimizer": """
    param_groups: List[Dict[str, Any]]
    state: Dict[Any, Any]
    defaults: Dict[str, Any]
    def __init__(self, params: _Params, defaults: Dict[str, Any]) -> None: ...
    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], Any]) -> Any: ...
    def zero_grad(self, set_to_none: bool = True) -> None: ...
    def state_dict(self) -> Dict[str, Any]: ...
    def load_state_dict(self, state_dict: Dict[str, Any]) -> None: ...
    def add_param_group(self, param_group: Dict[str, Any]) -> None: ...""",
    "LRScheduler": """
    optimizer: Optimizer
    last_epoch: int
    base_lrs: List[float]
    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None: ...
    def step(self, epoch: Any = None) -> None: ...
    def get_last_lr(self) -> List[float]: ...
    def state_dict(self) -> Dict[str, Any]: ...
    def load_state_dict(self, state_dict: Dict[str, Any]) -> None: ...""",
    "Dataset": """
    def __getitem__(self, index: Any) -> _T: ...
    def __add__(self, other: Dataset[_T]) -> Dataset[_T]: ...""",
    "IterableDataset": """
    def __iter__(self) -> Iterator[_T]: ...""",
    "TensorDataset": """
    tensors: Tuple[Tensor, ...]
    def __init__(self, *tensors: Tensor) -> None: ...
    def __len__(self) -> int: ...""",
    "Subset": """
    dataset: Dataset[_T]
    indices: Sequence[int]
    def __init__(self, dataset: Dataset[_T], indices: Sequence[int]) -> None: ...
    def __len__(self) -> int: ...""",
    "Sampler": """
    def __iter__(self) -> Iterator[_T]: ...""",
    "DataLoader": """
    dataset: Any
    batch_size: Optional[int]
    def __init__(self, dataset: Dataset[_T], batch_size: Optional[int] = 1, shuffle: Optional[bool] = None, sampler: Any = None, batch_sampler: Any = None, num_workers: int = 0, collate_fn: Optional[Callable[..., Any]] = None, pin_memory: bool = False, drop_last: bool = False, timeout: float = 0, worker_init_fn: Optional[Callable[[int], None]] = None, multiprocessing_context: Any = None, generator: Optional[Generator] = None, *, prefetch_factor: Optional[int] = None, persistent_workers: bool = False, pin_memory_device: str = "", in_order: bool = True, worker_threads: int = 0) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def state_dict(self) -> Dict[str, Any]: ...
    def load_state_dict(self, state_dict: Dict[str, Any]) -> None: ...""",
}
BASES = {
    "Module": "",
    "Parameter": "(Tensor)",
    "Optimizer": "",
    "LRScheduler": "",
    "Dataset": "(Generic[_T])",
    "IterableDataset": "(Dataset[_T])",
    "TensorDataset": "(Dataset[Tuple[Tensor, ...]])",
    "Subset": "(Dataset[_T])",
    "Sampler": "(Generic[_T])",
    "DataLoader": "(Generic[_T])",
}
# Layers whose call gives more than one tensor.
SEVERAL = {"RNN", "LSTM", "GRU", "RNNBase", "LSTMCell", "MultiheadAttention", "AdaptiveLogSoftmaxWithLoss", "Identity"}
DISTRIBUTED_TYPES = {
    "tensor": "Tensor",
    "input": "Tensor",
    "output": "Tensor",
    "tensor_list": "List[Tensor]",
    "async_op": "bool",
    "src": "int",
    "dst": "int",
    "tag": "int",
    "backend": "Optional[str]",
    "init_method": "Optional[str]",
    "world_size": "int",
    "rank": "int",
    "group_name": "str",
    "object_list": "List[Any]",
}
DISTRIBUTED_RESULTS = {
    "get_rank": "int",
    "get_world_size": "int",
    "get_local_rank": "int",
    "is_initialized": "bool",
    "is_available": "bool",
    "is_nccl_available": "bool",
    "is_mpi_available": "bool",
    "is_gloo_available": "bool",
    "get_backend": "str",
    "init_process_group": "None",
    "destroy_process_group": "None",
}
CLASS_MODULES = {
    "taper.nn": ["functional", "init", "utils", "parallel", "modules"],
    "taper.optim": ["lr_scheduler"],
    "taper.optim.lr_scheduler": [],
    "taper.utils.data": [],
    "taper.distributed": [],
    "taper.distributions": [],
}
EXTRA = """from typing import ClassVar, Dict, Generic, Iterable, List, Mapping
_T = TypeVar("_T", covariant=True)
"""
EXTRAS = {
    "taper.nn": '_M = TypeVar("_M", bound="Module")\n',
    "taper.optim": "_Params = Union[Iterable[Tensor], Iterable[Dict[str, Any]], Iterable[Tuple[str, Tensor]]]\n",
    "taper.optim.lr_scheduler": "from taper.optim import Optimizer\n",
}


def layer_types():
    """{layer: {argument: type}} of tables/layers; {N} of a stanza for several layers stands for any number."""
    found = []
    folder = os.path.join(ROOT, "tables", "layers")
    for file in sorted(os.listdir(folder)):
        with open(os.path.join(folder, file), encoding="utf-8") as lines:
            for name, arguments in re.findall(r"^layer ([\w{}]+)\((.*?)\)$", lines.read(), re.M):
                known = {}
                for argument in split(arguments):
                    kind, _, rest = argument.strip().partition(" ")
                    known[rest.partition("=")[0]] = kind
                found.append((re.sub(r"\{\w+\}", r"\\d", name), known))
    return found


LAYERS = layer_types()


def _layer_type(owner, name):
    """The type that the tables give an argument of a class, or of a class that it stands on."""
    for base in owner.__mro__:
        for pattern, known in LAYERS:
            if re.fullmatch(pattern, base.__name__) and name in known:
                kind = known[name]
                if kind in LAYER_TYPES:
                    return LAYER_TYPES[kind]
                if kind.startswith("int["):
                    text = "Union[int, Sequence[int]]" if "|str" not in kind else "Union[int, Sequence[int], str]"
                    return f"Optional[{text}]" if kind.endswith("?") else text
                return "Any"
    return None


def _from_default(value):
    """A type for an option, by its default."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "float"
    if isinstance(value, tuple) and value and all(isinstance(v, (int, float)) for v in value):
        return f"Tuple[{', '.join(['float'] * len(value))}]"
    return "str" if isinstance(value, str) else "Any"


def _parameter(owner, p, types):
    prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    typed = types(owner, p) if not prefix else "Any"
    if p.default is None and typed != "Any" and not typed.startswith("Optional"):
        typed = f"Optional[{typed}]"
    return f"{prefix}{p.name}: {typed}" + ("" if p.default is p.empty else " = ...")


def _parameters(owner, function, types, skip_first):
    """A parameter list as text."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return "*args: Any, **kwargs: Any"
    if skip_first:
        parameters = parameters[1:]
    parts, star = [], False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        star |= p.kind is p.VAR_POSITIONAL
        parts.append(_parameter(owner, p, types))
    return ", ".join(parts)


def _type_in(module):
    """How the arguments of a module's classes and functions are typed."""

    def of_layer(owner, p):
        known = _layer_type(owner, p.name)
        return known or {"device": "DeviceLike", "dtype": "_dtype"}.get(p.name, "Any")

    def of_optimiser(owner, p):
        if p.name == "params":
            return "_Params"
        if p.name == "lr":
            return "Union[float, Tensor]"
        return "Optional[bool]" if p.name in ("foreach", "fused") else _from_default(p.default)

    def of_schedule(owner, p):
        return "Optimizer" if p.name == "optimizer" else "int" if p.name == "last_epoch" else _from_default(p.default)

    def of_group(owner, p):
        return DISTRIBUTED_TYPES.get(p.name, "Any")

    return {
        "taper.nn": of_layer,
        "taper.optim": of_optimiser,
        "taper.optim.lr_scheduler": of_schedule,
        "taper.distributed": of_group,
    }.get(module, lambda owner, p: "Any")


def _constants(owner):
    """Lines for the values that a class itself holds, such as ReduceOp.MAX."""
    values = {name: value for name, value in vars(owner).items() if not name.startswith("_")}
    return [
        f"    {name}: ClassVar[Any]"
        for name, value in sorted(values.items())
        if not callable(value) and not hasattr(type(value), "__get__") and not keyword.iskeyword(name)
    ]


def _class_lines(label, owner, module, known):
    types = _type_in(module)
    if label in METHODS:
        return [f"class {label}{BASES.get(label, '(Module)')}:" + METHODS[label]]
    bases = [base.__name__ for base in owner.__mro__[1:] if base.__name__ in known or base.__name__ in BASES]
    if issubclass(owner, BaseException):
        bases = ["RuntimeError"]
    generic = {"Dataset", "IterableDataset", "Subset", "Sampler", "DataLoader"}
    base = next((name for name in bases if name != label), "")
    text = f"({base}[Any])" if base in generic else f"({base})" if base else ""
    if label[0] != "_" and isinstance(owner, type) and owner.__init__ is not object.__init__:
        lines = [f"class {label}{text}:"]
        lines.append(f"    def __init__(self{_comma(_parameters(owner, owner.__init__, types, True))}) -> None: ...")
    else:
        lines = [f"class {label}{text}:", "    def __init__(self, *args: Any, **kwargs: Any) -> None: ..."]
    if module == "taper.nn" and any(re.fullmatch(pattern, label) for pattern, _ in LAYERS):
        returned = "Any" if label in SEVERAL else "Tensor"
        lines.append(f"    def __call__(self, *args: Any, **kwargs: Any) -> {returned}: ...")
    elif not base:
        lines.append("    def __getattr__(self, name: str) -> Any: ...")
    return lines + _constants(owner)


def _comma(text):
    return ", " + text if text else ""


def class_stub(name, submodules):
    """The stub of a module whose names are classes and functions of Python."""
    module = importlib.import_module(name)
    labels = sorted(n for n in dir(module) if not n.startswith("_") and not keyword.iskeyword(n))
    classes = {n for n in labels if isinstance(getattr(module, n), type)}
    first = [n for n in METHODS if n in classes]
    depth = lambda n: len(getattr(module, n).__mro__)  # noqa: E731
    order = first + sorted(classes - set(first), key=lambda n: (depth(n), n))
    types, lines = _type_in(name), []
    lines += [f"from {name} import {submodule} as {submodule}" for submodule in submodules]
    for label in order:
        owner = getattr(module, label)
        imported = f"import {label}\n" in EXTRAS.get(name, "")
        if imported or owner.__module__.split(".")[0] not in ("taper", "torch") or owner is taper.Tensor:
            continue
        lines += _class_lines(label, owner, name, classes)
    for label in labels:
        value = getattr(module, label)
        if label in classes or inspect.ismodule(value):
            continue
        if callable(value):
            returned = DISTRIBUTED_RESULTS.get(label, "Any") if name == "taper.distributed" else "Any"
            lines.append(f"def {label}({_parameters(module, value, types, False)}) -> {returned}: ...")
        else:
            lines.append(
                f"{label}: {'Any' if not isinstance(value, (bool, int, float, str)) else type(value).__name__}"
            )
    lines.append("def __getattr__(name: str) -> Any: ...")
    return "\n".join([HEADER + EXTRA + IMPORTS + EXTRAS.get(name, ""), *lines, ""])


# ---- Packages whose names come from other files ----
def packages():
    """The public packages that take names from their files, at once or at first use. A type checker follows neither:
    it holds imported names for private, and guesses at what a module's __getattr__ returns."""
    found = []
    top = os.path.join(ROOT, "python", "taper")
    for folder, below, files in os.walk(top):
        below[:] = sorted(name for name in below if not name.startswith("_"))
        if folder == top or "__init__.py" not in files:
            continue
        with open(os.path.join(folder, "__init__.py"), encoding="utf-8") as file:
            text = file.read()
        takes = re.search(r"^from taper", text, re.M) and not re.search(r"^__all__", text, re.M)
        if takes or re.search(r"^def __getattr__|sys\.modules\[", text, re.M):
            found.append("taper." + os.path.relpath(folder, top).replace(os.sep, "."))
    return [name for name in found if name not in MODULES and name not in CLASS_MODULES]


def _submodules(module):
    """The names of a package's public files and folders."""
    found = set()
    if not hasattr(module, "__path__"):
        return found
    for entry in os.scandir(os.path.join(ROOT, "python", *module.__name__.split("."))):
        stem, kind = os.path.splitext(entry.name)
        if (kind == ".py" or os.path.exists(os.path.join(entry.path, "__init__.py"))) and stem.isidentifier():
            found.add(stem)
    return {name for name in found if not name.startswith("_") and not keyword.iskeyword(name)}


def _defining(owner):
    """The module in whose file a class stands. `__module__` may name another one, which took it from there; a type
    checker holds a name that was taken so for private."""
    file = getattr(getattr(owner.__init__, "__code__", None), "co_filename", "")
    stated = sys.modules.get(owner.__module__)
    for module in list(sys.modules.values()):
        if file and getattr(module, "__file__", None) == file and getattr(module, owner.__name__, None) is owner:
            return module
    return stated


def package_stub(name):
    """The stub of a package: its files, the classes that it takes from them, and its functions by their signatures."""
    module = importlib.import_module(name)
    stub = Stub(module)
    files = _submodules(module)
    for label in sorted({*files, *(n for n in dir(module) if not n.startswith("_") and not keyword.iskeyword(n))}):
        value = None if label in files and label not in vars(module) else getattr(module, label)
        if value is None or inspect.ismodule(value):
            if label in files or getattr(value, "__name__", "") == f"{name}.{label}":
                stub.lines.append(f"from {name} import {label} as {label}")
            elif value is None:
                stub.lines.append(f"{label}: Any")
        elif isinstance(value, type):
            home = _defining(value)
            if home is not module and getattr(home, label, None) is value and home.__name__.startswith("taper."):
                stub.lines.append(f"from {home.__name__} import {label} as {label}")
            else:
                stub.lines += _class_lines(label, value, name, ())
        elif callable(value):
            stub.define(label, [f"({_parameters(module, value, lambda owner, p: 'Any', False)}) -> Any"])
        else:
            stub.lines.append(f"{label}: {type(value).__name__ if isinstance(value, (int, float, str)) else 'Any'}")
    stub.lines += [f"{switch}: bool" for switch in vars(module).get("_wired", ())]  # those of torch.backends
    stub.lines.append("def __getattr__(name: str) -> Any: ...")
    derives = not hasattr(module, "Module") and any(re.match(r"class \w+\(Module\)", line) for line in stub.lines)
    return stub.text("from typing import ClassVar\n" + ("from taper.nn import Module\n" if derives else ""))


def switches():
    """{name: text}: the modules of torch.backends, which are made when the package is loaded and have no files."""
    backends = importlib.import_module("taper.backends")
    modules = [label for label, value in vars(backends).items() if inspect.ismodule(value) and label[0] != "_"]
    made = [label for label in modules if getattr(backends, label).__name__ == f"taper.backends.{label}"]
    return {f"taper.backends.{label}": package_stub(f"taper.backends.{label}") for label in made}


def main(folder):
    texts = {name: module_stub(name) for name in MODULES}
    texts.update({name: class_stub(name, submodules) for name, submodules in CLASS_MODULES.items()})
    texts.update({name: package_stub(name) for name in packages()})
    texts.update(switches())
    for name, text in texts.items():
        module = importlib.import_module(name)
        package = hasattr(module, "__path__")
        path = os.path.join(folder, *name.split(".")[1:])
        path = os.path.join(path, "__init__.pyi") if package else path + ".pyi"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


if __name__ == "__main__":
    main(sys.argv[1])
