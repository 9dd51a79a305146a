"""make_fx: a function's graph of aten's operators, below the tape. A TorchDispatchMode writes down each operator that a
run on example inputs meets, so transforms and backward passes inside of the function are in the graph as well."""

import functools
import gc
import inspect
import operator
from collections import Counter
from contextlib import nullcontext

import taper
from taper._dispatch import state
from taper.fx.graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from taper.fx.graph_module import GraphModule
from taper.fx.node import map_aggregate
from taper.fx.passes.shape_prop import _extract_tensor_metadata
from taper.utils import _pytree as pytree
from taper.utils._python_dispatch import TorchDispatchMode

_TRACING_MODES = ("real", "fake", "symbolic")


class _Recorder(TorchDispatchMode):
    """Writes operators into a graph. Tensors that it has not seen come from outside: they become attributes."""

    def __init__(self, graph, root, decompositions, fake_mode, may_read_values):
        super().__init__()
        self.graph, self.root, self.decompositions = graph, root, decompositions
        self.fake_mode, self.may_read_values = fake_mode, may_read_values
        self.known = {}  # id -> (tensor, node); the tensor stays, so that its id is its own
        self.places = {}  # memory -> those (tensor, node) whose elements are there, the latest last
        self.constants = Counter()
        self.outside = _places_of_all_tensors()

    def __enter__(self):
        state.records += 1
        return super().__enter__()

    def __exit__(self, *error):
        state.records -= 1
        return super().__exit__(*error)

    def note(self, tensor, node):
        self.known[id(tensor)] = tensor, node
        self.places.setdefault(_place(tensor), []).append((tensor, node))
        node.meta.setdefault("val", tensor if self.fake_mode is not None else _without_elements(tensor))
        node.meta.setdefault("tensor_meta", _extract_tensor_metadata(tensor))

    def node_of(self, value):
        """What stands in the graph for an argument."""
        if not isinstance(value, taper.Tensor):
            return value
        if id(value) not in self.known:
            self.note(value, self._alias(value) or self._constant(value))
        return self.known[id(value)][1]

    def _alias(self, value):
        """The node for a tensor that shares its memory with one of the graph: what the tape kept, or a view of the
        library's own; None for other tensors."""
        place = _place(value)
        for known, node in reversed(self.places.get(place, []) if place is not None else []):
            if known.dtype == value.dtype:
                if _geometry(known) == _geometry(value):
                    return node
                return self.graph.call_function(taper.ops.aten.as_strided.default, (node, *_geometry(value)))
        return None

    def _constant(self, value, made_from_data=False):
        place = _place(value)
        if not made_from_data and (place is None or place not in self.outside):
            raise NotImplementedError(
                f"make_fx: a tensor of shape {list(value.shape)} was computed inside of the function, and no operator "
                "of aten was seen to make it (a function or a derivative that Taper does not take apart into them): "
                "the graph would hold this run's value"
            )
        kind = "_param_constant" if isinstance(value, taper.nn.Parameter) else "_tensor_constant"
        name = f"{kind}{self.constants[kind]}"
        self.constants[kind] += 1
        if isinstance(value, taper.nn.Parameter):
            setattr(self.root, name, value)
        else:
            self.root.register_buffer(name, value)
        return self.graph.get_attr(name)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        decomposed = self.decompositions.get(func)
        if decomposed is not None:
            with self:
                result = decomposed(*args, **kwargs)
            if result is not NotImplemented:
                return result
        aten = taper.ops.aten
        if func is aten.lift_fresh.default and id(args[0]) not in self.known:
            self.note(args[0], self._constant(args[0], made_from_data=True))
        if func in (aten._local_scalar_dense.default, aten.is_nonzero.default) and not self.may_read_values:
            _refuse_value(func, args[0], self.known)
        target = aten.lift_fresh_copy.default if func is aten.lift_fresh.default else func
        node = self.graph.create_node(
            "call_function",
            target,
            map_aggregate(tuple(args), self.node_of),
            map_aggregate(dict(kwargs), self.node_of),
            name=target.overloadpacket.__name__,
        )
        result = func(*args, **kwargs)
        self._note_result(result, node)
        return result

    def _note_result(self, result, node):
        if isinstance(result, taper.Tensor):
            self.note(result, node)
        elif isinstance(result, (tuple, list)):
            for i, part in enumerate(result):
                if isinstance(part, (taper.Tensor, tuple, list)):
                    self._note_result(part, self.graph.call_function(operator.getitem, (node, i)))


def _refuse_value(func, tensor, known):
    if id(tensor) in known:
        raise RuntimeError(
            f"It appears that you're trying to get value out of a tracing tensor with {func} - erroring out! It's "
            "likely that this is caused by data-dependent control flow or similar. It may be possible to trace this "
            "with dynamic shapes; try setting tracing_mode='symbolic' in your make_fx call."
        )


def _places_of_all_tensors():
    """The memory of the tensors that there are: what is elsewhere later was made in between."""
    found = [o for o in gc.get_objects() if isinstance(o, taper.Tensor)]
    found += [t.grad for t in found if t.is_leaf and t.grad is not None]
    return {_place(t) for t in found} - {None}


def _place(tensor):
    """Which memory a tensor's elements are in; None where it has none."""
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (RuntimeError, NotImplementedError):
        return None


def _geometry(tensor):
    return list(tensor.shape), list(tensor.stride()), tensor.storage_offset()


def _without_elements(tensor):
    return taper.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _names_of(function, count):
    """The function's own names for its arguments, or arg0, arg1, ... where it takes any number."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or inspect.ismethod(function) or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return [f"arg{i}" for i in range(count)]
    names = list(code.co_varnames[: code.co_argcount])
    if len(names) != count:
        raise RuntimeError(f"Tracing expected {len(names)} arguments but got {count} concrete arguments")
    return names


def _trace(function, args, decompositions, tracing_mode, may_read_values):
    from taper._subclasses import FakeTensorMode

    graph, root = Graph(), taper.nn.Module()
    names = _names_of(function, len(args))
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True) if tracing_mode != "real" else None
    recorder = _Recorder(graph, root, decompositions, fake_mode, may_read_values)
    flat, in_spec = pytree.tree_flatten(tuple(args))
    flat = [
        fake_mode.from_tensor(leaf) if fake_mode is not None and isinstance(leaf, taper.Tensor) else leaf
        for leaf in flat
    ]
    nested = any(not spec.is_leaf() for spec in in_spec.children_specs)
    owners = [name for name, spec in zip(names, in_spec.children_specs) for _ in range(spec.num_leaves)]
    leaves_of = Counter()
    for owner, leaf in zip(owners, flat):
        leaves_of[owner] += 1
        node = graph.placeholder(f"{owner}_{leaves_of[owner]}")
        if isinstance(leaf, taper.Tensor):
            recorder.note(leaf, node)
    with fake_mode if fake_mode is not None else nullcontext(), recorder:
        result = function(*pytree.tree_unflatten(flat, in_spec))
    leaves, out_spec = pytree.tree_flatten(result)
    if nested:
        graph.output([recorder.node_of(leaf) for leaf in leaves])
        graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(names, in_spec, out_spec)))
    else:
        graph.output(pytree.tree_map(recorder.node_of, result))
    graph.eliminate_dead_code(_does_more)
    return GraphModule(root, graph, getattr(function, "__name__", type(function).__name__))


def _does_more(node):
    """Nodes that stay when nothing uses them: those that write."""
    schema = getattr(node.target, "_schema", None)
    return node.is_impure() or bool(schema is not None and schema.is_mutable)


def make_fx(
    f,
    decomposition_table=None,
    tracing_mode="real",
    _allow_non_fake_inputs=False,
    *,
    pre_dispatch=False,
    record_module_stack=False,
    _allow_fake_constant=False,
    _error_on_data_dependent_ops=True,
    record_stack_traces=False,
    proxy_module_inputs=False,
    _disable_torch_fn_metadata_mode=False,
):
    """make_fx(f)(*args): a GraphModule of the operators that f met. Shapes are those of the examples; tracing_mode
    "fake" and "symbolic" compute no elements, and a symbolic graph holds for its examples' shapes as well."""
    if tracing_mode not in _TRACING_MODES:
        raise AssertionError(f"Expected tracing_mode to be one of {_TRACING_MODES}, got {tracing_mode}")
    decompositions = dict(decomposition_table or {})

    @functools.wraps(f)
    def wrapped(*args):
        return _trace(f, args, decompositions, tracing_mode, not _error_on_data_dependent_ops)

    return wrapped


def get_proxy_mode():
    """The innermost recorder of this thread, or None."""
    from taper.utils._python_dispatch import _get_current_dispatch_mode_stack

    return next((m for m in reversed(_get_current_dispatch_mode_stack()) if isinstance(m, _Recorder)), None)
