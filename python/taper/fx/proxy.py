"""Stand-ins for values while a function is traced: what is done to a Proxy becomes a node of the tracer's graph."""

import enum
import operator
import sys

from taper import _C
from taper.fx import _functional
from taper.fx.node import Node, map_aggregate

_BASE = (str, int, float, bool, complex, _C.dtype, _C.device, range, type(...), type(None))


class TraceError(ValueError):
    """The function does something with a stand-in that depends on its value."""


class TracerBase:
    """Makes nodes and proxies; what a Tracer and a GraphAppendingTracer share."""

    graph = None
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node):
        return Proxy(node, self)

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, proxy_factory_fn=None):
        """A node for the operation and a stand-in for its result."""
        args, kwargs = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError("create_arg must keep tuples and dicts")
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a):
        """The argument with nodes for stand-ins, as a node may hold it."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return type(a)(*(self.create_arg(item) for item in a))
        if isinstance(a, (tuple, list)):
            return (tuple if isinstance(a, tuple) else list)([self.create_arg(item) for item in a])
        if isinstance(a, dict):
            return {self._key(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, (*_BASE, enum.Enum, Node, _C.memory_format, _C.layout)):
            return a
        if hasattr(type(a), "__dataclass_fields__"):
            values = {name: self.create_arg(getattr(a, name)) for name in type(a).__dataclass_fields__}
            return self.create_node("call_function", type(a), (), values)
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _key(self, key):
        key = self.create_arg(key)

        def refuse(item):
            if isinstance(item, Node):
                raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {key}")

        map_aggregate(key, refuse)
        return key

    def to_bool(self, obj):
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj):
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args "
            "or **kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of "
            "what types of control flow can be traced, and check out the Proxy docstring for help troubleshooting "
            "Proxy iteration errors"
        )

    def keys(self, obj):
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Records into a graph that exists already."""

    def __init__(self, graph):
        self.graph = graph


class Proxy:
    """A value that is known once the graph runs. Operators, methods, attributes and torch's functions on it become
    nodes."""

    def __init__(self, node, tracer=None):
        self.tracer = tracer or GraphAppendingTracer(node.graph)
        self.node = node

    def __repr__(self):
        return f"Proxy({self.node.name})"

    def __getattr__(self, name):
        return Attribute(self, name)

    def __getstate__(self):
        return self.__dict__

    def __setstate__(self, state):
        self.__dict__.update(state)

    def __deepcopy__(self, memo):
        raise TypeError("a Proxy cannot be copied")

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self):
        count = _unpacked(sys._getframe(1))
        return (self[i] for i in range(count)) if count is not None else self.tracer.iter(self)

    def __abs__(self):
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self):
        if self.tracer.trace_asserts:
            message = _asserted(sys._getframe(1))
            if message is not None:
                import taper

                self.tracer.create_proxy("call_function", taper._assert, (self, message), {})
                return True
        return self.tracer.to_bool(self)

    def __len__(self):
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please "
            "call torch.fx.wrap('len') at module scope"
        )

    def keys(self):
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(cls, orig_method, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tracer = _tracer_of(args, kwargs)
        if isinstance(orig_method, _C.Method) or _functional.is_method(orig_method):
            return tracer.create_proxy("call_method", _functional.method_name(orig_method), args, kwargs)
        args, kwargs = _functional.normal_form(orig_method, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


def _tracer_of(args, kwargs):
    """The one tracer that all stand-ins among the arguments belong to."""
    found = {}

    def look(item):
        if isinstance(item, Proxy):
            found[item.tracer] = None

    map_aggregate(args, look)
    map_aggregate(kwargs, look)
    if len(found) > 1:
        raise RuntimeError(f"Found multiple different tracers {list(found)} while trying to trace operations")
    return next(iter(found))


def _instructions(code):
    import dis

    return [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "EXTENDED_ARG")]


def _unpacked(frame):
    """How many names `a, b = proxy` fills, where that is what the frame does now."""
    at = next((step for step in _instructions(frame.f_code) if step.offset == frame.f_lasti), None)
    return at.argval if at is not None and at.opname == "UNPACK_SEQUENCE" else None


def _asserted(frame):
    """The message of the assert statement that the frame is in; None outside of one."""
    steps = _instructions(frame.f_code)
    at = next((i for i, step in enumerate(steps) if step.offset == frame.f_lasti), None)
    if at is None:
        return None
    jump = at if "JUMP" in steps[at].opname else at + 1
    if (
        jump + 1 >= len(steps)
        or not steps[jump].opname.endswith("IF_TRUE")
        or steps[jump + 1].opname != "LOAD_ASSERTION_ERROR"
    ):
        return None
    following = steps[jump + 2]
    return following.argval if following.opname == "LOAD_CONST" and isinstance(following.argval, str) else ""


class Attribute(Proxy):
    """An attribute of a stand-in. It becomes a node when it is used as a value, and a method call when it is called."""

    def __init__(self, root, attr):
        self.root, self.attr, self.tracer, self._node = root, attr, root.tracer, None

    @property
    def node(self):
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter's stand-in: its shape and the like are known, so that code may branch on them."""

    def __init__(self, tracer, node, name, param):
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self):
        return f"ParameterProxy({self.name})"

    shape = property(lambda self: self.param.shape)
    ndim = property(lambda self: self.param.ndim)

    def size(self):
        return self.param.size()

    def dim(self):
        return self.param.dim()

    def numel(self):
        return self.param.numel()

    def nelement(self):
        return self.param.nelement()


def _install():
    def forward(function):
        def operate(*args, **kwargs):
            return args[0].tracer.create_proxy("call_function", function, args, kwargs)

        return operate

    def reflected(function):
        def operate(self, other):
            return self.tracer.create_proxy("call_function", function, (other, self), {})

        return operate

    both = "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor matmul"
    for name in (both + " eq ne lt gt le ge pos neg invert getitem").split():
        setattr(Proxy, f"__{name.strip('_')}__", forward(getattr(operator, name)))
    for name in both.split():
        setattr(Proxy, f"__r{name.strip('_')}__", reflected(getattr(operator, name)))
    Proxy.__hash__ = object.__hash__


_install()
