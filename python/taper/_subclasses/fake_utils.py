"""torch._subclasses.fake_utils: what fake results share, compared with what real ones do."""

from taper._dispatch import tensors_of
from taper._subclasses.fake_tensor import FakeTensor
from taper.utils._pytree import tree_leaves


def _storages(values):
    tensors = tensors_of(tree_leaves(values))
    return [(t.elem if isinstance(t, FakeTensor) else t).untyped_storage()._cdata for t in tensors]


def outputs_alias_inputs(outputs, inputs):
    """Does a result share its memory with an argument?"""
    return not set(_storages(outputs)).isdisjoint(_storages(inputs))


def outputs_are_inputs(outputs, inputs):
    """Is a result an argument itself?"""
    ids = {id(t) for t in tensors_of(tree_leaves(inputs))}
    return any(id(t) in ids for t in tensors_of(tree_leaves(outputs)))


def output_alias_each_other(outputs):
    """Do two results share memory?"""
    storages = _storages(outputs)
    return len(set(storages)) < len(storages)
