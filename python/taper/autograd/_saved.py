"""What a node of the tape keeps for its backward, as an object: y.grad_fn._raw_saved_self."""

from taper import _C


class SavedTensor:
    """One saved tensor of a node. Hooks may be given to it later, once."""

    __slots__ = ("_node", "_slot")
    __module__ = "torch._C._autograd"

    def __init__(self, node=None, slot=None, made=False):
        if not made:
            raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")
        self._node, self._slot = node, slot

    def __call__(self):
        return _C._saved_slot(self._node, self._slot)

    unpack = __call__

    def register_hooks(self, *hooks):
        """The tensor goes through pack_hook now, and through unpack_hook whenever backward wants it."""
        if len(hooks) != 2 or not all(map(callable, hooks)):
            raise TypeError(
                "register_hooks(): incompatible function arguments. The following argument types are supported: "
                "(pack_hook: function, unpack_hook: function)"
            )
        _C._pack_saved(self._node, self._slot, *hooks)
