"""Nested dicts and lists as one flat dict of dotted names, as PyTorch names them, and back."""

from taper._C import Tensor


def _opens(value):
    """Is a list entered, or kept as one value? It is entered for the tensors and dicts in it."""
    return any(isinstance(item, (Tensor, dict)) or isinstance(item, (list, tuple)) and _opens(item) for item in value)


def flatten(tree):
    """{dotted name: value}, {dotted name: path}."""
    values, paths = {}, {}

    def walk(value, path):
        if isinstance(value, dict) and value:
            for key, item in value.items():
                walk(item, (*path, str(key)))
        elif isinstance(value, (list, tuple)) and _opens(value):
            for i, item in enumerate(value):
                walk(item, (*path, i))
        else:
            name = ".".join(map(str, path))
            if name in values:
                raise ValueError(f"two values are both called '{name}'")
            values[name], paths[name] = value, path

    for key, item in tree.items():
        walk(item, (str(key),))
    return values, paths


def put(tree, path, value):
    """Writes a value into a nested dict or list that has its place already."""
    for at in path[:-1]:
        tree = tree[_key(tree, at)]
    at = path[-1]
    if isinstance(tree, tuple):
        return
    tree[_key(tree, at)] = value


def _key(tree, at):
    """The key that a part of a path stands for: dicts may have keys that are no strings."""
    if isinstance(tree, dict) and at not in tree:
        return next((key for key in tree if str(key) == at), at)
    return at


def unflatten(values, paths):
    """A nested dict made from nothing but names."""
    tree = {}
    for name, value in values.items():
        here, path = tree, paths[name]
        for at, following in zip(path, path[1:]):
            empty = [] if isinstance(following, int) else {}
            if isinstance(here, list):
                here.extend([None] * (at + 1 - len(here)))
                here[at] = empty if here[at] is None else here[at]
                here = here[at]
            else:
                here = here.setdefault(at, empty)
        if isinstance(here, list):
            here.extend([None] * (path[-1] + 1 - len(here)))
        here[path[-1]] = value
    return tree
