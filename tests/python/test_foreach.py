"""torch._foreach_NAME: operators over lists of tensors."""

import pytest

import taper as torch


def lists():
    return [torch.tensor([1.0, 2.0]), torch.tensor([3.0])], [torch.tensor([0.5, 0.5]), torch.tensor([2.0])]


def values(tensors):
    return [t.tolist() for t in tensors]


def test_results():
    a, b = lists()
    assert values(torch._foreach_add(a, b, alpha=2)) == [[2, 3], [7]]
    assert values(torch._foreach_mul(a, 3)) == [[3, 6], [9]]
    assert values(torch._foreach_mul(a, [2.0, 3.0])) == [
        [2, 4],
        [9],
    ]
    assert values(torch._foreach_lerp(a, b, 0.5)) == [[0.75, 1.25], [2.5]]
    assert values(torch._foreach_addcmul(a, b, b, value=2)) == [[1.5, 2.5], [11]]
    assert values(torch._foreach_max(a)) == [2, 3]
    assert values(torch._foreach_norm([b[1], a[1]])) == [2, 3]


def test_in_place():
    a, b = lists()
    assert torch._foreach_mul_(a, 2) is a
    assert values(a) == [[2, 4], [6]]
    torch._foreach_copy_(a, b)
    assert values(a) == values(b)
    torch._foreach_zero_(a)
    assert values(a) == [[0, 0], [0]]


def test_mistakes():
    a, b = lists()
    with pytest.raises(RuntimeError, match="same number of tensors"):
        torch._foreach_add(a, b[:1])
    with pytest.raises(RuntimeError, match="at least one tensor"):
        torch._foreach_sqrt([])
    assert not hasattr(torch, "_foreach_no_such_thing")
