"""Tracing: runs a function on stand-ins, with calls of modules, parameters and wrapped functions caught on the way."""

import builtins
import functools
import inspect
import math
import sys

import taper
from taper import nn
from taper.fx.graph import Graph
from taper.fx.graph_module import GraphModule
from taper.fx.node import map_aggregate
from taper.fx.proxy import ParameterProxy, Proxy, TracerBase

_wrapped = {}  # (id of a module's globals, name): those globals; what wrap() was called for
_wrapped_methods = []  # (class, name)
_NO_VALUE = object()


class PHBase:
    """A mark in concrete_args for a part that stays an input."""

    def __repr__(self):
        return "PH"


PH = PHBase()


class ProxyableClassMeta(type):
    """For classes whose construction from stand-ins is to be recorded."""

    def __call__(cls, *args, **kwargs):
        found = []

        def look(item):
            if isinstance(item, Proxy):
                found.append(item.tracer)

        map_aggregate((args, kwargs), look)
        if found:
            return found[0].create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


def wrap(fn_or_name):
    """Makes a function of the calling module, given itself or by name, a single call in traced graphs."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def _wrapped_names():
    """Names and the namespaces they are in: what wrap() was given, and what Taper's own modules say without importing
    this one."""
    yield from ((name, namespace) for (_, name), namespace in list(_wrapped.items()))
    for path, module in list(sys.modules.items()):
        if path.startswith("taper.torchvision"):
            namespace = vars(module)
            yield from ((name, namespace) for name in namespace.get("_one_call_when_traced", ()))


class _Patches:
    """Changes that last as long as a trace."""

    def __init__(self):
        self.undo = []

    def in_dict(self, namespace, name, value):
        old = namespace.get(name, _NO_VALUE)
        namespace[name] = value
        self.undo.append(lambda: namespace.pop(name) if old is _NO_VALUE else namespace.__setitem__(name, old))

    def on_class(self, cls, name, value):
        old = cls.__dict__.get(name, _NO_VALUE)
        setattr(cls, name, value)
        self.undo.append(lambda: delattr(cls, name) if old is _NO_VALUE else setattr(cls, name, old))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        while self.undo:
            self.undo.pop()()


def _find_proxy(*trees):
    found = []

    def look(item):
        if isinstance(item, Proxy):
            found.append(item)

    map_aggregate(trees, look)
    return found[0] if found else None


def _recording(function):
    """The function, recorded as one call where a stand-in is among its arguments."""

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        result = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        result.node.meta["is_wrapped"] = True
        return result

    return wrapped


def _recording_method(cls, name):
    original = getattr(cls, name)

    @functools.wraps(original)
    def wrapped(*args, **kwargs):
        proxy = _find_proxy(args, kwargs)
        return (
            original(*args, **kwargs) if proxy is None else proxy.tracer.create_proxy("call_method", name, args, kwargs)
        )

    return wrapped


class Tracer(TracerBase):
    """Traces modules and functions; subclasses say what is a leaf and how arguments, branches and loops are taken."""

    def __init__(self, autowrap_modules=(math,), autowrap_functions=(), param_shapes_constant=False):
        super().__init__()
        self._autowrap = {id(function): function for function in autowrap_functions}
        for module in autowrap_modules:
            self._autowrap.update(
                (id(value), value)
                for name, value in vars(module).items()
                if not name.startswith("_") and callable(value)
            )
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths = self.root = None
        self.tensor_attrs = {}

    # ---- Arguments
    # --------------------------------------------------------------------------------------------------------
    def create_arg(self, a):
        if isinstance(a, nn.Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, taper.Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
        elif isinstance(a, nn.Module):
            for name, module in self.root.named_modules():
                if a is module:
                    return self.create_node("get_attr", name, (), {})
        elif isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node("call_function", type(a), tuple(self.create_arg(item) for item in a), {})
        if isinstance(a, taper.Tensor) or not isinstance(a, type) and hasattr(type(a), "__fx_constant__"):
            return self.create_node("get_attr", self.tensor_attrs.get(a) or self._constant(a), (), {})
        return super().create_arg(a)

    def _constant(self, value):
        """The name of an attribute of the root that holds the tensor."""
        number = 0
        while hasattr(self.root, f"_tensor_constant{number}"):
            number += 1
        name = self.tensor_attrs[value] = f"_tensor_constant{number}"
        setattr(self.root, name, value)
        return name

    # ---- Modules
    # --------------------------------------------------------------------------------------------------------
    def is_leaf_module(self, m, module_qualified_name):
        """Is a call of the module one node? Of torch.nn's own ones, except containers, it is."""
        module = type(m).__module__
        return module.startswith(("torch.nn", "taper.nn", "torch.ao.nn")) and not isinstance(m, nn.Sequential)

    def path_of_module(self, mod):
        if self.submodule_paths and mod in self.submodule_paths:
            return self.submodule_paths[mod]
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m, forward, args, kwargs):
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        """What an attribute of a module is during the trace: a stand-in for parameters."""
        if isinstance(attr_val, nn.Parameter):
            return self._stand_in(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        if self.proxy_buffer_attributes and isinstance(attr_val, taper.Tensor):
            return self._stand_in(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        return attr_val

    def _stand_in(self, value, named, cache):
        for name, member in named:
            if member is value:
                if name not in cache:
                    factory = (
                        (lambda node: ParameterProxy(self, node, name, value)) if self.param_shapes_constant else None
                    )
                    cache[name] = self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=factory)
                return cache[name]
        return value

    # ---- Functions
    # --------------------------------------------------------------------------------------------------------
    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        """The function to call and the stand-ins to call it with."""
        function = inspect.unwrap(root_fn)
        code = function.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        names, args = list(code.co_varnames), []
        if is_module:
            if count == 0:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            args.append(self.root)
        signature = inspect.signature(function).parameters
        concrete = (
            dict(zip(names[len(args) :], concrete_args)) if isinstance(concrete_args, tuple) else concrete_args or {}
        )
        annotations = getattr(function, "__annotations__", {})
        for name in names[len(args) : count]:
            args.append(self._input(name, signature[name].default, concrete.get(name, PH), annotations.get(name)))
        for flag, stars in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
            if code.co_flags & flag:
                name = names[count]
                count += 1
                args.append(self.create_proxy("placeholder", stars + name, (), {}, type_expr=annotations.get(name)))
        if code.co_kwonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            function = _with_plain_signature(function)
        return function, args

    def _input(self, name, default, concrete, annotation):
        defaults = () if default is inspect.Parameter.empty else (default,)
        if concrete is PH:
            return self.create_proxy("placeholder", name, defaults, {}, type_expr=annotation)
        if isinstance(concrete, (tuple, list, dict)):
            from taper._hook import NotCovered

            raise NotCovered("torch.fx concrete_args of lists, tuples and dicts")
        out = self.create_proxy("placeholder", f"{name}_1", defaults, {})
        if isinstance(concrete, (int, float, str)):
            taper._assert(
                out == concrete, f"{name} has been specialized to have value {concrete} but got another value"
            )
        return concrete

    def trace(self, root, concrete_args=None):
        """The graph of a module or a function."""
        if isinstance(root, nn.Module):
            self.root, name = root, self.traced_func_name
            if not hasattr(type(root), name):
                raise AssertionError(f"traced_func_name={name} doesn't exist in {type(root).__name__}")
            function = getattr(type(root), name)
            self.submodule_paths = {module: path for path, module in root.named_modules()}
        else:
            self.root, function, self.submodule_paths = nn.Module(), root, None
        self.graph = Graph(tracer_cls=type(self) if "<locals>" not in type(self).__qualname__ else None)
        self.tensor_attrs = _IdentityMap()
        self._collect(self.root, "")
        function, args = self.create_args_for_root(function, isinstance(root, nn.Module), concrete_args)
        with _Patches() as patches:
            self._patch(patches, function)
            result = function(*args)
            self.create_node(
                "output",
                "output",
                (self.create_arg(result),),
                {},
                type_expr=getattr(function, "__annotations__", {}).get("return"),
            )
        self.submodule_paths = None
        return self.graph

    def _collect(self, module, prefix):
        """Tensors that are plain attributes of modules are found again by name."""
        for name, value in vars(module).items():
            if isinstance(value, taper.Tensor):
                self.tensor_attrs[value] = prefix + name
        for name, child in module.named_children():
            self._collect(child, f"{prefix}{name}.")

    def _patch(self, patches, function):
        cache, call, find = {}, nn.Module.__call__, nn.Module.__getattr__

        def module_call(module, *args, **kwargs):
            self._autowrap_in(
                patches, getattr(getattr(type(module).forward, "__func__", type(module).forward), "__globals__", {})
            )
            return self.call_module(module, lambda *args, **kwargs: call(module, *args, **kwargs), args, kwargs)

        def module_getattr(module, name):
            return self.getattr(name, find(module, name), cache)

        patches.on_class(nn.Module, "__getattr__", module_getattr)
        patches.on_class(nn.Module, "__call__", module_call)
        for name, namespace in _wrapped_names():
            original = namespace.get(name, getattr(builtins, name, None))
            if original is not None:
                patches.in_dict(namespace, name, _recording(original))
        for cls, name in _wrapped_methods:
            patches.on_class(cls, name, _recording_method(cls, name))
        self._seen = set()
        self._autowrap_in(patches, getattr(function, "__globals__", {}))
        for module in self._autowrap_search:
            self._autowrap_in(patches, vars(module))

    def _autowrap_in(self, patches, namespace):
        """Functions such as math.sqrt, under whatever names the namespace has them."""
        if id(namespace) in self._seen:
            return
        self._seen.add(id(namespace))
        for name, value in list(namespace.items()):
            if not name.startswith("_") and id(value) in self._autowrap and self._autowrap[id(value)] is value:
                patches.in_dict(namespace, name, _recording(value))

    def get_fresh_qualname(self, prefix):
        """A name that no attribute of the root has."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"


class _IdentityMap:
    """Objects, compared by identity, to values."""

    def __init__(self):
        self._items = {}

    def __setitem__(self, key, value):
        self._items[id(key)] = (key, value)

    def get(self, key, default=None):
        return self._items.get(id(key), (None, default))[1]

    def __contains__(self, key):
        return id(key) in self._items

    def __getitem__(self, key):
        return self._items[id(key)][1]


def _with_plain_signature(function):
    """The function with all its arguments, *args and **kwargs too, taken by position, so that stand-ins can be passed
    for them."""
    import types

    code = function.__code__
    count = (
        code.co_argcount
        + code.co_kwonlyargcount
        + bool(code.co_flags & inspect.CO_VARARGS)
        + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    )
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    plain = code.replace(co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=flags)
    return types.FunctionType(plain, function.__globals__, function.__name__, None, function.__closure__)


def symbolic_trace(root, concrete_args=None):
    """A GraphModule that does what the module or function does."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


def is_fx_tracing():
    return False


def is_fx_symbolic_tracing():
    return False
