"""The calls of one run as a graph of PyTorch's script compiler: `torch.jit._get_trace_graph`. Packages that count
operations walk it.

Calls are seen as PyTorch's tracer sees them: operators by aten's names, above what they are made of. Constants, lists
and tuples are nodes."""

from types import FunctionType, MethodType

from taper import _C
from taper._C import Size, Tensor, dtype
from taper.overrides import TorchFunctionMode

_KINDS = {
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}


class ValueType:
    """The type of a value: of a tensor with its sizes."""

    def __init__(self, name, tensor=None):
        self._name, self._tensor = name, tensor is not None
        if self._tensor:
            self._sizes, self._strides, self._dtype, self._requires_grad = (
                list(tensor.shape),
                list(tensor.stride()),
                tensor.dtype,
                tensor.requires_grad,
            )
            self._device = tensor.device

    def kind(self):
        if self._tensor:
            return "TensorType"
        name = self._name.partition("[")[0]
        return {"str": "StringType", "NoneType": "NoneType"}.get(name) or name.capitalize() + "Type"

    def sizes(self):
        return list(self._sizes) if self._tensor else None

    def strides(self):
        return list(self._strides) if self._tensor else None

    def dim(self):
        return len(self._sizes) if self._tensor else None

    def dtype(self):
        return self._dtype if self._tensor else None

    def scalarType(self):
        return _KINDS.get(str(self._dtype)[6:], str(self._dtype)[6:]) if self._tensor else None

    def device(self):
        return self._device if self._tensor else None

    def requires_grad(self):
        return self._tensor and self._requires_grad

    def __str__(self):
        if not self._tensor:
            return self._name
        strides = [f"strides={self._strides}"] if self._sizes else []
        words = [
            *map(str, self._sizes),
            *strides,
            f"requires_grad={int(self._requires_grad)}",
            f"device={self._device}",
        ]
        return f"{self.scalarType()}({', '.join(words)})"


class Value:
    """What a node makes, or the graph is given."""

    def __init__(self, number, type, node, constant=None):
        self._number, self._type, self._node, self._constant = number, type, node, constant

    def debugName(self):
        return str(self._number)

    def unique(self):
        return self._number

    def type(self):
        return self._type

    def node(self):
        return self._node

    def isCompleteTensor(self):
        return self._type.sizes() is not None

    def requires_grad(self):
        return self._type.requires_grad()

    def toIValue(self):
        """A constant's value; None for others."""
        return self._constant

    def __repr__(self):
        return f"{self._number} defined in ({self._node!r})"


class Node:
    """A call, a constant, or a list that a call takes."""

    def __init__(self, kind, scope, inputs):
        self._kind, self._scope, self._inputs, self._outputs = kind, scope, inputs, []

    def kind(self):
        return self._kind

    def scopeName(self):
        return self._scope

    def inputs(self):
        return iter(self._inputs)

    def outputs(self):
        return iter(self._outputs)

    # A constant's value is its attribute: of one letter for its kind, the method of that name reads it.
    def attributeNames(self):
        return ["value"] if self._kind == "prim::Constant" and self._outputs[0].toIValue() is not None else []

    def hasAttribute(self, name):
        return name in self.attributeNames()

    def kindOf(self, name):
        value = self._attribute(name)
        return "t" if isinstance(value, Tensor) else {float: "f", str: "s", complex: "c"}.get(type(value), "i")

    def _attribute(self, name):
        if name not in self.attributeNames():
            raise RuntimeError(f"required keyword attribute '{name}' is undefined")
        return self._outputs[0].toIValue()

    f = s = t = c = _attribute

    def i(self, name):
        value = self._attribute(name)
        return int(value) if isinstance(value, (int, bool)) else value

    def inputsSize(self):
        return len(self._inputs)

    def outputsSize(self):
        return len(self._outputs)

    def output(self):
        if len(self._outputs) != 1:
            raise RuntimeError(f"{self._kind} has {len(self._outputs)} outputs")
        return self._outputs[0]

    def __repr__(self):
        made = ", ".join(f"%{value.debugName()} : {value.type()}" for value in self._outputs)
        value = (
            f"[value={self._outputs[0].toIValue()!r}]"
            if self._kind == "prim::Constant" and self._outputs[0].toIValue() is not None
            else ""
        )
        scope = f", scope: {self._scope}" if self._scope else ""
        return f"{made} = {self._kind}{value}({', '.join('%' + value.debugName() for value in self._inputs)}){scope}"


class Graph:
    """The nodes of one run, in order."""

    def __init__(self):
        self._nodes, self._inputs, self._outputs, self._count = [], [], [], 0

    def nodes(self):
        return iter(self._nodes)

    def inputs(self):
        return iter(self._inputs)

    def outputs(self):
        return iter(self._outputs)

    def findAllNodes(self, kind, recurse=True):
        return [node for node in self._nodes if node.kind() == kind]

    def findNode(self, kind, recurse=True):
        return next(iter(self.findAllNodes(kind)), None)

    def value(self, type, node, constant=None):
        made = Value(self._count, type, node, constant)
        self._count += 1
        return made

    def __str__(self):
        given = ",\n      ".join(f"%{value.debugName()} : {value.type()}" for value in self._inputs)
        lines = [
            f"graph({given}):",
            *(f"  {node!r}" for node in self._nodes),
            f"  return ({', '.join('%' + value.debugName() for value in self._outputs)})",
        ]
        return "\n".join(lines) + "\n"


class TracingState:
    """The names of the modules that run, which hooks may push: nodes carry them."""

    def __init__(self):
        self.scopes = []

    def push_scope(self, name):
        self.scopes.append(name)

    def pop_scope(self):
        self.scopes.pop()

    def current_scope(self):
        return "/".join(self.scopes)


_NAMES = {
    "__getitem__": "index",
    "__setitem__": "index_put_",
    **dict.fromkeys("cpu cuda type float double half bfloat16 int long short char byte bool".split(), "to"),
}
_ORDERS = {
    "embedding": (1, 0),
    "batch_norm": (0, 3, 4, 1, 2),
}  # aten's, of the first arguments of functions that have another
_CONVOLUTIONS = frozenset(f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3))


def _convolution(args, kwargs, transposed):
    """The arguments of aten::_convolution, under which every convolution is seen."""
    names = [
        "input",
        "weight",
        "bias",
        "stride",
        "padding",
        *(("output_padding", "groups", "dilation") if transposed else ("dilation", "groups")),
    ]
    given = {
        "bias": None,
        "stride": 1,
        "padding": 0,
        "output_padding": 0,
        "groups": 1,
        "dilation": 1,
        **dict(zip(names, args)),
        **kwargs,
    }
    spatial = given["weight"].dim() - 2

    def each(name):
        value = given[name]
        return (
            list(value) if isinstance(value, (list, tuple)) else value if isinstance(value, str) else [value] * spatial
        )

    return [
        given["input"],
        given["weight"],
        given["bias"],
        each("stride"),
        each("padding"),
        each("dilation"),
        transposed,
        each("output_padding"),
        given["groups"],
        False,
        False,
        True,
        True,
    ]


class _Writer(TorchFunctionMode):
    """Writes every operator that is called into a graph."""

    def __init__(self, graph):
        super().__init__()
        self.graph, self.values, self.kept = graph, {}, []

    def given(self, tensor):
        value = self.graph.value(ValueType("Tensor", tensor), Node("prim::Param", "", []))
        self.graph._inputs.append(value)
        self.keep(tensor, value)

    def keep(self, tensor, value):
        self.values[id(tensor)] = value
        self.kept.append(tensor)  # while it lives nothing else has its id

    def node(self, kind, inputs):
        made = Node(kind, _C._get_tracing_state().current_scope(), inputs)
        self.graph._nodes.append(made)
        return made

    def made(self, node, type, constant=None):
        value = self.graph.value(type, node, constant)
        node._outputs.append(value)
        return value

    def constant(self, item):
        name = {type(None): "NoneType", str: "str", dtype: "int"}.get(type(item), type(item).__name__)
        return self.made(
            self.node("prim::Constant", []),
            ValueType("Tensor", item) if isinstance(item, Tensor) else ValueType(name),
            item,
        )

    def argument(self, item):
        """The value that stands for an argument or a result."""
        if isinstance(item, Tensor) and id(item) in self.values:
            return self.values[id(item)]
        if isinstance(item, (list, tuple, Size)):
            parts = [self.argument(part) for part in item]
            inner = ["Tensor" if part.isCompleteTensor() else str(part.type()) for part in parts] or ["Tensor"]
            if isinstance(item, (list, Size)) or not any(isinstance(part, Tensor) for part in item):
                return self.made(self.node("prim::ListConstruct", parts), ValueType(f"List[{inner[0]}]"))
            return self.made(self.node("prim::TupleConstruct", parts), ValueType(f"Tuple[{', '.join(inner)}]"))
        return self.constant(item)

    def result(self, node, out):
        if isinstance(out, Tensor):
            self.keep(out, self.made(node, ValueType("Tensor", out)))
        elif isinstance(out, (list, tuple)):
            unpack = (
                node
                if isinstance(out, tuple)
                else self.node("prim::ListUnpack", [self.made(node, ValueType("List[Tensor]"))])
            )
            for part in out:
                if isinstance(part, Tensor):
                    self.keep(part, self.made(unpack, ValueType("Tensor", part)))

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if isinstance(func, (FunctionType, MethodType)):  # Python, whose own calls are seen
            with self:
                return func(*args, **kwargs)
        out = func(*args, **kwargs)
        if not isinstance(out, Tensor) and not (
            isinstance(out, (list, tuple)) and any(isinstance(part, Tensor) for part in out)
        ):
            return out
        name, values = func.__name__, [*args, *kwargs.values()]
        if name in _CONVOLUTIONS:
            name, values = "_convolution", _convolution(args, kwargs, "transpose" in name)
        elif name in _ORDERS and not kwargs:
            values = [*(values[i] for i in _ORDERS[name]), *values[len(_ORDERS[name]) :]]
        inputs = [self.argument(value) for value in values]
        self.result(self.node(f"aten::{_NAMES.get(name, name)}", inputs), out)
        return out


def get_trace_graph(f, args=(), kwargs=None, return_inputs=False):
    """(graph, results) of one call; parameters and buffers of a module are inputs of the graph, behind the
    arguments."""
    from taper.nn.modules.module import Module
    from taper.utils._pytree import tree_leaves

    args = args if isinstance(args, tuple) else (args,)
    before = _C._get_tracing_state()
    _C._set_tracing_state(TracingState())
    writer = _Writer(Graph())
    try:
        given = [leaf for leaf in tree_leaves((args, kwargs or {})) if isinstance(leaf, Tensor)]
        for tensor in [*given, *(f.state_dict(keep_vars=True).values() if isinstance(f, Module) else ())]:
            writer.given(tensor)
        with writer:
            out = f(*args, **(kwargs or {}))
        writer.graph._outputs.append(writer.argument(out))
    finally:
        _C._set_tracing_state(before)
    return (writer.graph, out, args) if return_inputs else (writer.graph, out)
