"""Nested dicts, lists, tuples and named tuples as a list of leaves and the shape they came in."""

import enum
from collections import OrderedDict, defaultdict, deque, namedtuple

__all__ = [
    "PyTree",
    "TreeSpec",
    "LeafSpec",
    "register_pytree_node",
    "tree_flatten",
    "tree_unflatten",
    "tree_leaves",
    "tree_structure",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_all",
    "tree_any",
    "tree_all_only",
    "tree_any_only",
    "tree_iter",
    "tree_is_leaf",
    "is_namedtuple",
    "is_namedtuple_class",
    "SequenceKey",
    "MappingKey",
    "GetAttrKey",
    "KeyPath",
    "keystr",
    "key_get",
    "tree_flatten_with_path",
    "tree_leaves_with_path",
    "tree_map_with_path",
    "register_dataclass",
]

PyTree = object
Context = object


def is_namedtuple_class(kind):
    """Is it a type of named tuples, those of results included?"""
    return (
        isinstance(kind, type)
        and issubclass(kind, tuple)
        and (hasattr(kind, "_fields") or hasattr(kind, "n_sequence_fields"))
    )


def is_namedtuple(value):
    return is_namedtuple_class(type(value))


def is_structseq_class(kind):
    """Is it a type of results such as torch.max's: a tuple with names that C makes?"""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "n_sequence_fields")


def is_structseq(value):
    return is_structseq_class(type(value))


is_structseq_instance, is_namedtuple_instance = is_structseq, is_namedtuple


# ---- What is a node, and how it comes apart ----
NodeDef = namedtuple("NodeDef", "type flatten_fn unflatten_fn flatten_with_keys_fn", defaults=(None,))
SUPPORTED_NODES = {}  # packages read it, and add to it
_FIELDS = {}  # dataclasses that are nodes: their fields


def _dict_flatten(d):
    return list(d.values()), list(d.keys())


def _dict_flatten_with_keys(d):
    return [(MappingKey(key), value) for key, value in d.items()], list(d.keys())


def _dict_unflatten(values, context):
    return dict(zip(context, values))


def _ordereddict_unflatten(values, context):
    return OrderedDict(zip(context, values))


def _defaultdict_flatten(d):
    return list(d.values()), [d.default_factory, list(d.keys())]


def _defaultdict_flatten_with_keys(d):
    return _dict_flatten_with_keys(d)[0], _defaultdict_flatten(d)[1]


def _defaultdict_unflatten(values, context):
    return defaultdict(context[0], zip(context[1], values))


def _list_flatten(values):
    return values, None


def _tuple_flatten(values):
    return list(values), None


def _deque_flatten(values):
    return list(values), values.maxlen


def _numbered(flatten):
    """flatten with each child's index."""

    def flatten_with_keys(tree):
        children, context = flatten(tree)
        return [(SequenceKey(i), child) for i, child in enumerate(children)], context

    return flatten_with_keys


_list_flatten_with_keys, _tuple_flatten_with_keys, _deque_flatten_with_keys = map(
    _numbered, (_list_flatten, _tuple_flatten, _deque_flatten)
)


def _list_unflatten(values, context):
    return list(values)


def _tuple_unflatten(values, context):
    return tuple(values)


def _deque_unflatten(values, context):
    return deque(values, maxlen=context)


def _namedtuple_flatten(values):
    return list(values), type(values)


def _namedtuple_flatten_with_keys(values):
    return [(GetAttrKey(name), value) for name, value in zip(values._fields, values)], type(values)


def _namedtuple_unflatten(values, context):
    return context(*values)


for _node in (
    NodeDef(dict, _dict_flatten, _dict_unflatten, _dict_flatten_with_keys),
    NodeDef(OrderedDict, _dict_flatten, _ordereddict_unflatten, _dict_flatten_with_keys),
    NodeDef(defaultdict, _defaultdict_flatten, _defaultdict_unflatten, _defaultdict_flatten_with_keys),
    NodeDef(list, _list_flatten, _list_unflatten, _list_flatten_with_keys),
    NodeDef(tuple, _tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys),
    NodeDef(deque, _deque_flatten, _deque_unflatten, _deque_flatten_with_keys),
    NodeDef(namedtuple, _namedtuple_flatten, _namedtuple_unflatten, _namedtuple_flatten_with_keys),
):
    SUPPORTED_NODES[_node.type] = _node  # all named tuples under the one key, which PyTorch has there


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, flatten_with_keys_fn=None, **names):
    """Lets another type be a node: flatten_fn(value) gives children and a context, unflatten_fn(children, context) the
    value; flatten_with_keys_fn gives (key, child) pairs and the context."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = register_pytree_node


ConstantNode = namedtuple("ConstantNode", "value")  # the context of a node that is one value
CONSTANT_NODES = set()


def register_constant(cls):
    """Lets a type be a node without leaves: its values are compared as parts of the tree."""
    for protocol, missing in (("__eq__", object.__eq__), ("__hash__", None)):
        if getattr(cls, protocol) is missing and not issubclass(cls, enum.Enum):
            raise TypeError(f"register_constant(cls) expects `cls` to have a non-default `{protocol}` implementation.")

    def flatten(value):
        return [], ConstantNode(value)

    register_pytree_node(cls, flatten, lambda _, context: context.value, flatten_with_keys_fn=flatten)
    CONSTANT_NODES.add(cls)


def is_constant_class(cls):
    return isinstance(cls, type) and cls in CONSTANT_NODES


def _deregister_pytree_node(cls):
    del SUPPORTED_NODES[cls]


def _get_node_type(tree):
    """The key that a value's type has in SUPPORTED_NODES, if it is a node."""
    node = _node_of(tree)
    return type(tree) if node is None else node.type


def _node_of(tree):
    kind = type(tree)
    node = SUPPORTED_NODES.get(kind)
    if node is None and is_namedtuple_class(kind):
        if not is_structseq_class(kind):
            return SUPPORTED_NODES[namedtuple]
        node = SUPPORTED_NODES[kind] = NodeDef(
            kind, _tuple_flatten, lambda values, context: kind(values), _tuple_flatten_with_keys
        )
    return node


class TreeSpec:
    """The shape of a tree: its node's type, what the node needs beside its children, and their specs."""

    def __init__(self, type, context, children):
        self.type, self.context, self.children_specs = type, context, children
        self.num_leaves = sum(child.num_leaves for child in children) if type is not None else 1
        self.num_children = len(children)

    def is_leaf(self):
        return self.type is None

    def __eq__(self, other):
        return isinstance(other, TreeSpec) and (self.type, self.context, self.children_specs) == (
            other.type,
            other.context,
            other.children_specs,
        )

    def __hash__(self):
        return hash((self.type, str(self.context), tuple(self.children_specs)))

    def __repr__(self, indent=0):
        if self.is_leaf():
            return "*"
        between = ",\n" + " " * (indent + 2)
        return (
            f"TreeSpec({self.type.__name__}, {self.context}, "
            f"[{between.join(child.__repr__(indent + 2) for child in self.children_specs)}])"
        )

    def unflatten(self, leaves):
        return tree_unflatten(leaves, self)


class LeafSpec(TreeSpec):
    """The spec of a leaf."""

    def __init__(self):
        super().__init__(None, None, [])


_LEAF = LeafSpec()


def _flatten(tree, leaves, is_leaf):
    node = None if is_leaf is not None and is_leaf(tree) else _node_of(tree)
    if node is None:
        leaves.append(tree)
        return _LEAF
    children, context = node.flatten_fn(tree)
    return TreeSpec(node.type, context, [_flatten(child, leaves, is_leaf) for child in children])


def tree_flatten(tree, is_leaf=None):
    """The leaves in order, and the tree's spec."""
    leaves = []
    return leaves, _flatten(tree, leaves, is_leaf)


def tree_leaves(tree, is_leaf=None):
    return tree_flatten(tree, is_leaf)[0]


def arg_tree_leaves(*args, **kwargs):
    """The leaves of a call's arguments."""
    return [leaf for argument in (*args, *kwargs.values()) for leaf in tree_leaves(argument)]


def tree_iter(tree, is_leaf=None):
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree, is_leaf=None):
    return tree_flatten(tree, is_leaf)[1]


def _unflatten(leaves, spec):
    if spec.type is None:
        return next(leaves)
    return SUPPORTED_NODES[spec.type].unflatten_fn(
        [_unflatten(leaves, child) for child in spec.children_specs], spec.context
    )


def tree_unflatten(leaves, treespec):
    """The tree of that spec with these leaves."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(leaves)} but the spec refers to a pytree "
            f"that holds {treespec.num_leaves} items ({treespec})."
        )
    return _unflatten(iter(leaves), treespec)


def _leaves_under(tree, spec):
    """The children of `tree` where `spec` has its leaves."""
    if spec.type is None:
        return [tree]
    node = _node_of(tree)
    if node is None or node.type is not spec.type:
        raise ValueError(f"Node type mismatch; expected {spec.type}, but got {type(tree)}.")
    children, context = node.flatten_fn(tree)
    if len(children) != len(spec.children_specs) or (isinstance(tree, dict) and set(context) != set(spec.context)):
        raise ValueError(f"Node arity mismatch; expected {len(spec.children_specs)}, but got {len(children)}.")
    if isinstance(tree, dict) and type(tree) is dict:
        children = [tree[key] for key in spec.context]
    return [leaf for child, below in zip(children, spec.children_specs) for leaf in _leaves_under(child, below)]


def tree_map(func, tree, *rests, is_leaf=None):
    """A tree of the same shape: func of each leaf, with those of further trees beside it."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return tree_unflatten(map(func, leaves, *[_leaves_under(rest, spec) for rest in rests]), spec)


def tree_map_(func, tree, *rests, is_leaf=None):
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(kind, func, tree, is_leaf=None):
    """func of the leaves of a type (or of several, or for which a test holds); others stay."""
    fits = kind if callable(kind) and not isinstance(kind, type) else lambda leaf: isinstance(leaf, kind)
    return tree_map(lambda leaf: func(leaf) if fits(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_map_only_(kind, func, tree, is_leaf=None):
    tree_map_only(kind, func, tree, is_leaf)
    return tree


# ---- Paths: where each leaf stands ----
class _Key:
    """One step of a path."""

    def __init__(self, key):
        setattr(self, self._field, key)

    def __eq__(self, other):
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self):
        return hash((type(self), *vars(self).values()))

    def __repr__(self):
        return f"{type(self).__name__}({self._field}={getattr(self, self._field)!r})"


class SequenceKey(_Key):
    """An index."""

    _field = "idx"

    def __str__(self):
        return f"[{self.idx}]"

    def get(self, parent):
        return parent[self.idx]


class MappingKey(_Key):
    """A key of a dict."""

    _field = "key"

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, parent):
        return parent[self.key]


class GetAttrKey(_Key):
    """An attribute."""

    _field = "name"

    def __str__(self):
        return f".{self.name}"

    def get(self, parent):
        return getattr(parent, self.name)


KeyPath = tuple


def keystr(kp):
    """A path as it would be written: "['a'][0].x"."""
    return "".join(map(str, kp))


def key_get(obj, kp):
    """What stands at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def _flatten_with_keys(node, tree):
    """(key, child) for each child of a node; a type that was registered without keys has its fields or numbers."""
    if node.flatten_with_keys_fn is not None:
        return node.flatten_with_keys_fn(tree)[0]
    children = node.flatten_fn(tree)[0]
    names = _FIELDS.get(type(tree))
    return [(GetAttrKey(names[i]) if names else SequenceKey(i), child) for i, child in enumerate(children)]


def _paths(tree, path, found, is_leaf):
    node = None if is_leaf is not None and is_leaf(tree) else _node_of(tree)
    if node is None:
        found.append((path, tree))
        return
    for key, child in _flatten_with_keys(node, tree):
        _paths(child, (*path, key), found, is_leaf)


def tree_leaves_with_path(tree, is_leaf=None):
    """(path, leaf) for each leaf."""
    found = []
    _paths(tree, (), found, is_leaf)
    return found


def tree_flatten_with_path(tree, is_leaf=None):
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """tree_map with func(path, leaf, ...)."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    return tree_unflatten(
        [
            func(path, leaf, *others)
            for (path, leaf), *others in zip(found, *[_leaves_under(rest, spec) for rest in rests])
        ],
        spec,
    )


def register_dataclass(cls, *, field_names=None, drop_field_names=None, serialized_type_name=None):
    """Lets a dataclass be a node whose children are its fields."""
    import dataclasses

    names = list(
        field_names or [f.name for f in dataclasses.fields(cls) if f.init and f.name not in (drop_field_names or ())]
    )
    register_pytree_node(
        cls,
        lambda value: ([getattr(value, name) for name in names], names),
        lambda children, names: cls(**dict(zip(names, children))),
    )
    _FIELDS[cls] = names


def tree_is_leaf(tree, is_leaf=None):
    """Is it no node?"""
    return (is_leaf is not None and is_leaf(tree)) or _node_of(tree) is None


def tree_all(pred, tree, is_leaf=None):
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(kind, pred, tree, is_leaf=None):
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, kind))


def tree_any_only(kind, pred, tree, is_leaf=None):
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, kind))


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """`tree`'s leaves, each as often as `treespec` has leaves under it; None where the shapes do not fit."""
    node = None if is_leaf is not None and is_leaf(tree) else _node_of(tree)
    if node is None or treespec.type is None:
        return [tree] * treespec.num_leaves if node is None else None
    children, context = node.flatten_fn(tree)
    if node.type is not treespec.type or len(children) != treespec.num_children or context != treespec.context:
        return None
    parts = [_broadcast_to_and_flatten(child, spec, is_leaf) for child, spec in zip(children, treespec.children_specs)]
    return None if any(part is None for part in parts) else [leaf for part in parts for leaf in part]
