"""Lists and dicts that a Node's arguments are kept in: changing one in place would go past the record of users, so it
is refused."""


def _refuse(name):
    def refused(self, *args, **kwargs):
        raise NotImplementedError(
            f"Object of type {type(self).__name__!r} does not support in-place mutation; assign the changed arguments "
            "to the node instead"
        )

    refused.__name__ = name
    return refused


def _frozen(base, names, rebuild):
    body = {name: _refuse(name) for name in names.split()}
    body["__reduce__"] = lambda self: (kind, (rebuild(self),))
    kind = type(f"immutable_{base.__name__}", (base,), body)
    kind.__module__ = __name__
    return kind


immutable_list = _frozen(
    list, "__delitem__ __iadd__ __imul__ __setitem__ append clear extend insert pop remove reverse sort", tuple
)
immutable_dict = _frozen(
    dict, "__delitem__ __ior__ __setitem__ clear pop popitem setdefault update", lambda self: tuple(self.items())
)
immutable_list.__hash__ = lambda self: hash(tuple(self))
immutable_dict.__hash__ = lambda self: hash(tuple(self.items()))
