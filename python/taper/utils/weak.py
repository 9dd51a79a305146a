"""torch.utils.weak: dictionaries whose keys are tensors by identity, and do not keep them alive."""

from collections.abc import MutableMapping
from weakref import ref

__all__ = ["TensorWeakRef", "WeakIdRef", "WeakIdKeyDictionary", "WeakTensorKeyDictionary"]


class WeakIdRef(ref):
    """A weak reference that is equal to another one when both are to the same object; a dead one only to itself."""

    __slots__ = ["_id"]

    def __init__(self, key, callback=None):
        self._id = id(key)
        super().__init__(key, callback)

    def __call__(self):
        return super().__call__()

    def __hash__(self):
        return self._id

    def __eq__(self, other):
        mine, others = self(), other()
        return mine is others if mine is not None and others is not None else self is other


class TensorWeakRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor):
        self.ref = WeakIdRef(tensor)

    def __call__(self):
        return self.ref()


class WeakIdKeyDictionary(MutableMapping):
    """A dictionary that forgets a key with the object; objects are told apart by identity."""

    def __init__(self, dict=None, ref_type=WeakIdRef):
        self.data, self.ref_type = {}, ref_type
        if dict is not None:
            self.update(dict)

    def __delitem__(self, key):
        del self.data[self.ref_type(key)]

    def __getitem__(self, key):
        return self.data[self.ref_type(key)]

    def __setitem__(self, key, value):
        data = self.data
        self.data[self.ref_type(key, lambda dead: data.pop(dead, None))] = value

    def __len__(self):
        return len(self.data)

    def __contains__(self, key):
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # what has no weak references is no key
            return False

    def __iter__(self):
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __repr__(self):
        return f"<{type(self).__name__} at {id(self):#x}>"

    def copy(self):
        new = type(self)()
        new.update(self)
        return new

    __copy__ = copy

    def keyrefs(self):
        return list(self.data)


class WeakTensorKeyDictionary(WeakIdKeyDictionary):
    """The same, of tensors."""
