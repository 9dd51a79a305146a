"""torch.utils._pytree: where leaves stand, and how trees print; selective checkpoints."""

from collections import namedtuple
from dataclasses import dataclass
from functools import partial

import pytest
import taper as torch
from taper.utils import _pytree as pytree
from taper.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

Pair = namedtuple("Pair", "left right")


def test_paths():
    tree = {"a": 1, "b": [2, Pair(3, (4,))]}
    assert pytree.tree_map_with_path(lambda path, leaf: pytree.keystr(path), tree) == {
        "a": "['a']",
        "b": ["['b'][0]", Pair("['b'][1].left", ("['b'][1].right[0]",))],
    }
    found, spec = pytree.tree_flatten_with_path(tree)
    assert [leaf for _, leaf in found] == [1, 2, 3, 4]
    assert all(pytree.key_get(tree, path) == leaf for path, leaf in found)
    assert found[1][0] == (pytree.MappingKey("b"), pytree.SequenceKey(0))
    assert spec == pytree.tree_structure(tree)
    assert pytree.tree_map_with_path(lambda path, a, b: a + b, [1, 2], [10, 20]) == [11, 22]


def test_text():
    assert (
        repr(pytree.tree_structure({"a": 1, "b": [2, 3]}))
        == "TreeSpec(dict, ['a', 'b'], [*,\n  TreeSpec(list, None, [*,\n    *])])"
    )


def test_dataclasses():
    @dataclass
    class Batch:
        x: int
        y: int

    pytree.register_dataclass(Batch)
    assert pytree.tree_map(lambda v: v * 2, Batch(1, 2)) == Batch(2, 4)
    assert [pytree.keystr(p) for p, _ in pytree.tree_leaves_with_path(Batch(1, 2))] == [".x", ".y"]


def test_selective_checkpoints_give_the_same_gradients():
    layer, x = torch.nn.Linear(3, 3), torch.randn(2, 3, requires_grad=True)
    layer(x).sin().sum().backward()
    plain, x.grad = x.grad, None
    policy = partial(create_selective_checkpoint_contexts, lambda ctx, op, *args, **kwargs: CheckpointPolicy.MUST_SAVE)
    checkpoint(lambda x: layer(x).sin(), x, use_reentrant=False, context_fn=policy).sum().backward()
    assert torch.equal(x.grad, plain)
    with pytest.raises(TypeError, match="either a function or a list of ops"):
        create_selective_checkpoint_contexts(3)
