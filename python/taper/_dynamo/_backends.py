"""Backends of the program's own: torch.compile(f, backend=function) traces f with torch.fx, hands the function the
graph and the example inputs, and runs what it gives back for all calls that give the same graph. Each call is traced,
so whatever the function reads counts as it is then."""

import functools
import warnings

import taper
from taper._dynamo import exc
from taper.fx import GraphModule, Proxy, Tracer
from taper.fx.node import map_arg
from taper.fx.proxy import TraceError
from taper.nn.modules.module import Module
from taper.overrides import TorchFunctionMode
from taper.utils import _pytree

_VALUES = frozenset("item tolist __bool__ __int__ __float__ __index__ __complex__ numpy __array__".split())


class _Inlining(Tracer):
    """Traces a call with tensors as its only inputs; buffers are read when the graph runs."""

    proxy_buffer_attributes = True

    def __init__(self, call, count):
        super().__init__()
        self._call, self._count, self.constants = call, count, []

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        return self._call, [self.create_proxy("placeholder", f"arg{i}_1", (), {}) for i in range(self._count)]

    def call_module(self, m, forward, args, kwargs):
        """torch.nn's own modules are one node where the graph's module can have them; others are traced through."""
        if self.submodule_paths and self.submodule_paths.get(m):
            return super().call_module(m, forward, args, kwargs)
        return forward(*args, **kwargs)

    def _constant(self, value):
        self.constants.append(super()._constant(value))
        return self.constants[-1]

    def create_arg(self, a):
        try:
            return super().create_arg(a)
        except NameError:  # a parameter of a module that the function only reaches
            return self.create_node("get_attr", self.tensor_attrs.get(a) or self._constant(a), (), {})


class _RecordMade(TorchFunctionMode):
    """Tensors that the function makes, or works out from tensors that are no inputs, are made anew by each run of the
    graph."""

    def __init__(self, tracer):
        self._tracer = tracer

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        leaves = _pytree.tree_leaves((args, kwargs))
        if any(isinstance(leaf, Proxy) for leaf in leaves):
            return func(*args, **kwargs)
        if name in _VALUES:
            raise TraceError(f"it looks at a tensor's value ({name})")
        written = name.endswith("_") and not name.endswith("__")
        if any(isinstance(leaf, taper.Tensor) for leaf in leaves) and not written:
            result = func(*args, **kwargs)
            if not any(isinstance(leaf, taper.Tensor) for leaf in _pytree.tree_leaves(result)) or name == "__get__":
                return result  # a size, a dtype
        return self._tracer.create_proxy("call_function", func, args, kwargs)


class _Graph:
    """What the backend made of one kind of call."""

    def __init__(self, model, leaves, spec, inputs, places):
        def call(*given):
            filled = [given[place] if place is not None else leaf for leaf, place in zip(leaves, places)]
            args, kwargs = _pytree.tree_unflatten(filled, spec)
            result, self.spec = _pytree.tree_flatten(model(*args, **kwargs))
            self.constants = [None if isinstance(leaf, (Proxy, taper.Tensor)) else (leaf,) for leaf in result]
            return tuple(leaf for leaf in result if isinstance(leaf, (Proxy, taper.Tensor)))

        tracer = _Inlining(call, len(inputs))
        with _RecordMade(tracer):
            graph = tracer.trace(model if isinstance(model, Module) else call)
        self.module = GraphModule(tracer.root, graph)
        self.steps = self._steps(graph), self.constants, self.spec
        for name in tracer.constants:  # they are the graph's, not the program's module's
            delattr(tracer.root, name)

    def _steps(self, graph):
        """The graph as plain values: what each node does, to what."""
        number = {node: _Step(i) for i, node in enumerate(graph.nodes)}
        return [
            (
                node.op,
                functools.reduce(getattr, node.target.split("."), self.module)
                if node.op in ("get_attr", "call_module")
                else node.target,
                map_arg(node.args, number.get),
                map_arg(node.kwargs, number.get),
            )
            for node in graph.nodes
        ]

    def compile(self, backend, inputs, options):
        name = getattr(backend, "__name__", type(backend).__name__)
        try:
            self.run = backend(self.module, list(inputs), **options)
        except Exception as error:
            raise exc.BackendCompilerFailed(f"backend={name!r} raised:\n{type(error).__name__}: {error}") from error
        if not callable(self.run):
            raise exc.BackendCompilerFailed(
                f"backend={name!r} raised:\n"
                f"TypeError: compiler_fn did not return a callable, but {type(self.run).__name__}"
            )

    def __call__(self, inputs):
        results = iter(self.run(*inputs))
        return _pytree.tree_unflatten(
            [next(results) if constant is None else constant[0] for constant in self.constants], self.spec
        )


class _Step(int):
    """A node's number among a graph's."""


_COMPARED = (int, float, complex, str, bytes, type(None), type(...), taper.dtype, taper.device, _Step)


def _same(a, b):
    """Are two graphs' values the same? Tensors, modules and functions are the same object or differ."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, slice):
        return _same((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    return (
        repr(a) == repr(b)
        if isinstance(a, (float, complex))
        else isinstance(a, _COMPARED + (_pytree.TreeSpec,)) and a == b
    )


def _kind(tensor):
    return type(tensor), tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.requires_grad


def compiled(model, backend, options, fullgraph=False, limit=None):
    """The callable that runs `model` through graphs of the backend's, or as it is, with one warning, where torch.fx
    cannot trace it."""
    from taper._dynamo import config

    graphs, eager = {}, False

    def give_up(why):
        nonlocal eager
        name = getattr(model, "__qualname__", type(model).__name__)
        if fullgraph:
            raise exc.Unsupported(f"torch.fx cannot trace {name} for the backend: {why}")
        eager = True
        warnings.warn(f"torch.compile runs {name} without its backend, which never sees it: {why}", stacklevel=4)

    def run(*args, **kwargs):
        if eager:
            return model(*args, **kwargs)
        leaves, spec = _pytree.tree_flatten((args, kwargs))
        inputs, places, at = [], [], {}
        for leaf in leaves:
            if isinstance(leaf, taper.Tensor) and id(leaf) not in at:
                at[id(leaf)] = len(inputs)
                inputs.append(leaf)
            places.append(at.get(id(leaf)))
        key = (
            tuple(map(_kind, inputs)),
            tuple(places),
            spec,
            tuple((type(leaf), leaf) for leaf, place in zip(leaves, places) if place is None),
            taper.is_grad_enabled(),
            tuple(m.training for m in model.modules()) if isinstance(model, Module) else None,
        )
        try:
            known = graphs.setdefault(key, [])
        except TypeError:
            give_up("an argument that is no tensor cannot be compared with later ones, as it has no hash")
            return model(*args, **kwargs)
        try:
            graph = _Graph(model, leaves, spec, inputs, places)
        except Exception as error:  # the function's own errors come again as it runs
            give_up(f"{type(error).__name__}: {error}")
            return model(*args, **kwargs)
        made = next((each for each in known if _same(each.steps, graph.steps)), None)
        if made is None:
            count = sum(map(len, graphs.values()))
            if count >= (config.recompile_limit if limit is None else limit):
                give_up(f"it was compiled {count} times, for other arguments or other values of what it reads")
                return model(*args, **kwargs)
            graph.compile(backend, inputs, options)
            known.append(graph)
            made = graph
        return made(inputs)

    return functools.wraps(model)(run) if hasattr(model, "__code__") else run
