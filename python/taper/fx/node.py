"""One step of a Graph. Nodes form a ring in the order of execution, know their inputs and their users, and keep both in
step."""

import builtins
import re

from taper.fx import _naming
from taper.fx.immutable_collections import immutable_dict, immutable_list


def map_aggregate(a, fn):
    """The argument with fn applied to each leaf of its tuples, lists, dicts and slices, which come back immutable."""
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return tuple(items) if not hasattr(a, "_fields") else type(a)(*items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(value, fn)) for key, value in a.items())
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a, fn):
    """map_aggregate where fn sees only Nodes."""
    return map_aggregate(a, lambda item: fn(item) if isinstance(item, Node) else item)


_OPS = frozenset(("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root"))
# Calls that nothing needs may still not be removed where they act on something else.
_IMPURE_NAMES = frozenset(
    ("_assert", "_assert_async", "manual_seed", "seed", "set_grad_enabled", "_set_grad_enabled", "set_default_dtype")
)


class Node:
    """An operation (`op`), what it is done with (`target`, `args`, `kwargs`) and who uses the result (`users`)."""

    def __init__(self, graph, name, op, target, args, kwargs, return_type=None):
        if op not in _OPS:
            raise AssertionError(f"op {op!r} is not one of {sorted(_OPS)}")
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} but a Callable "
                    "is expected"
                )
        elif not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} but a str is expected"
            )
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users, self._input_nodes, self.meta, self._erased = {}, {}, {}, False
        self._prev = self._next = self
        self._set(args, kwargs)

    @property
    def next(self):
        return self._next

    @property
    def prev(self):
        return self._prev

    # ---- Arguments
    # --------------------------------------------------------------------------------------------------------
    def _set(self, args, kwargs):
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._input_nodes = {}
        self._args, self._kwargs = map_arg(tuple(args), self._note), map_arg(dict(kwargs), self._note)

    def _note(self, node):
        """An input, and this node as its user."""
        self._input_nodes.setdefault(node)
        node.users.setdefault(self)
        return node

    @property
    def args(self):
        return self._args

    @args.setter
    def args(self, args):
        self._set(args, self._kwargs)

    @property
    def kwargs(self):
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs):
        self._set(self._args, kwargs)

    @property
    def all_input_nodes(self):
        return list(self._input_nodes)

    def update_arg(self, idx, arg):
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx, arg):
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        added = map_arg((arg,), self._note)
        self._args = (*self.args[:idx], *added, *self.args[idx:])

    def update_kwarg(self, key, arg):
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input, new_input):
        """Every use of old_input by this node becomes one of new_input."""

        def exchange(node):
            return new_input if node is old_input else node

        self._set(map_arg(self.args, exchange), map_arg(self.kwargs, exchange))

    def replace_all_uses_with(self, replace_with, delete_user_cb=lambda user: True, *, propagate_meta=False):
        """Every use of this node becomes one of replace_with; the nodes that were changed."""
        if propagate_meta:
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # ---- Places
    # --------------------------------------------------------------------------------------------------------
    def _leave(self):
        self._prev._next, self._next._prev = self._next, self._prev

    def prepend(self, x):
        """Puts x before this node, from wherever it is in the graph."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._leave()
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x

    def append(self, x):
        """Puts x after this node."""
        if x is not self:
            x._leave()
            self._next.prepend(x) if self._next is not x else self._next._next.prepend(x)

    def __lt__(self, other):
        return self._index() < other._index()

    def __gt__(self, other):
        return other < self

    def __le__(self, other):
        return self is other or self < other

    def __ge__(self, other):
        return self is other or self > other

    def _index(self):
        return next(i for i, node in enumerate(self.graph.nodes) if node is self)

    # ---- What it is
    # --------------------------------------------------------------------------------------------------------
    @property
    def stack_trace(self):
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace):
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random=True):
        """Does it do more than return a value? Such nodes stay when unused."""
        if self.op in ("placeholder", "output"):
            return True
        name = self.target if isinstance(self.target, str) else getattr(self.target, "__name__", "")
        if self.op == "call_function":
            return (
                name in _IMPURE_NAMES
                or name == "setitem"
                or self.kwargs.get("inplace", False) is True
                and not self.users
            )
        if self.op == "call_module":
            try:
                return bool(getattr(self.graph.owning_module.get_submodule(name), "_is_impure", False))
            except AttributeError:
                return False
        return False

    def normalized_arguments(self, root, arg_types=None, kwarg_types=None, normalize_to_only_use_kwargs=False):
        from taper._hook import NotCovered

        raise NotCovered("torch.fx.Node.normalized_arguments")

    def _rename(self, candidate):
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace.associate_name_with_obj(self.name, self)

    def format_node(self, placeholder_names=None, maybe_return_typename=None, *, include_tensor_metadata=False):
        """The node's line in the graph's text."""
        kind = f"{_naming.type_text(self.type)} " if self.type else ""
        head = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target="
        if self.op == "placeholder":
            if placeholder_names is not None:
                default = f" = {self.args[0]}" if self.args else ""
                annotation = f" : {_naming.type_text(self.type)}" if self.type else ""
                placeholder_names.append(f"{self.target}{annotation}{default}")
                return None
            return f"{head}{self.target}]" + (f"(default={self.args[0]})" if self.args else "")
        if self.op == "get_attr":
            return f"{head}{_naming.printed(self.target)}]"
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_naming.type_text(self.type)}"
            return f"return {self.args[0]}"
        return (
            f"{head}{_naming.printed(self.target)}](args = {_format_arg(self.args)}, kwargs = "
            f"{_format_arg(self.kwargs)})"
        )

    def __repr__(self):
        return self.name

    def __deepcopy__(self, memo):
        from taper.fx.graph import Graph

        return memo.get(id(self)) or Graph.__deepcopy__(self.graph, memo) and memo[id(self)]


def _format_arg(arg):
    """An argument as the graph's text shows it: %names for nodes, and strings bare."""
    if isinstance(arg, list):
        return "[" + ", ".join(map(_format_arg, arg)) + "]"
    if isinstance(arg, tuple) and hasattr(arg, "_fields"):
        return (
            f"{type(arg).__name__}("
            + ", ".join(f"{name}={_format_arg(value)}" for name, value in zip(arg._fields, arg))
            + ")"
        )
    if isinstance(arg, tuple):
        return "(" + ", ".join(map(_format_arg, arg)) + ("," if len(arg) == 1 else "") + ")"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{key}: {_format_arg(value)}" for key, value in arg.items()) + "}"
    return f"%{arg.name}" if isinstance(arg, Node) else str(arg)


def has_side_effect(fn):
    """A decorator for functions whose calls stay in a graph although nothing uses their results."""
    global _IMPURE_NAMES
    _IMPURE_NAMES |= {fn.__name__}
    return fn


def _snake_case(name):
    """HelloWorld as hello_world."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _candidate_name(target):
    """The name that a node would like to have."""
    name = target if isinstance(target, str) else getattr(target, "__name__", None) or type(target).__name__
    if name.startswith("__") and name.endswith("__") and len(name) > 4:
        name = name[2:-2]
    return _snake_case(name)


Argument, Target, BaseArgumentTypes = object, object, (str, int, float, bool, complex, builtins.slice)
