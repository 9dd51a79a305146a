"""What is written and what is read share memory: PyTorch's refusals, and the right values where it does not look."""

import pytest
import taper as torch

INDEX = torch.tensor([0, 1, 2])
SOME = "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location"
MORE = "unsupported operation: more than one element of the written-to tensor refers to a single memory location"


def numbers():
    return torch.arange(6.0)


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x[1:].copy_(x[:-1]),
        lambda x: x.__setitem__(slice(1, None), x[:-1]),
        lambda x: x[:4].view(2, 2).copy_(x[:4].view(2, 2).t()),
        lambda x: x[1:].add_(x[:-1]),
        lambda x: x.view(2, 3).add_(x.view(2, 3)[0]),
        lambda x: x.add_(x[0]),
        lambda x: torch.add(x[:-1], 1, out=x[1:]),
        lambda x: torch.neg(x[:-1], out=x[1:]),
        lambda x: x[1:].lerp_(x[:-1], 0.5),
        lambda x: x[1:].addcmul_(x[:-1], x[:-1]),
        lambda x: x.scatter_(0, INDEX, x),
        lambda x: x[:4].scatter_(0, INDEX, x[2:]),
        lambda x: x.scatter_add_(0, INDEX, x),
        lambda x: x.scatter_reduce_(0, INDEX, x, "amax"),
        lambda x: torch.gather(x, 0, INDEX, out=x[3:]),
        lambda x: x.index_copy_(0, INDEX, x[3:]),
        lambda x: x.index_add_(0, INDEX, x[3:]),
        lambda x: x.index_put_((INDEX,), x[3:]),
        lambda x: x.__setitem__(INDEX, x[3:]),
        lambda x: x.put_(INDEX, x[3:]),
        lambda x: torch.take(x, INDEX, out=x[3:]),
        lambda x: torch.index_select(x, 0, INDEX, out=x[3:]),
        lambda x: torch.cat([x[:3], x[:3]], out=x),
        lambda x: torch.cumsum(x[:-1], 0, out=x[1:]),
    ],
)
def test_overlapping_writes_are_refused_and_change_nothing(write):
    x = numbers()
    with pytest.raises(RuntimeError, match=SOME):
        write(x)
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_an_index_is_an_input_too():
    for write in (
        lambda i: i.scatter_(0, i, 5),
        lambda i: i.index_fill_(0, i, 5),
        lambda i: i.index_put_((i,), torch.tensor(9)),
    ):
        i = torch.tensor([0, 1, 2])
        with pytest.raises(RuntimeError, match=SOME):
            write(i)
        assert i.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "write, expected",
    [
        (lambda x: x.copy_(x), [0, 1, 2, 3, 4, 5]),
        (lambda x: x.mul_(x), [0, 1, 4, 9, 16, 25]),
        (lambda x: x[::2].add_(x[1::2]), [1, 1, 5, 3, 9, 5]),
        (lambda x: torch.neg(x, out=x), [0, -1, -2, -3, -4, -5]),
        (lambda x: x[:3].scatter_(0, INDEX, x[3:]), [3, 4, 5, 3, 4, 5]),
        (lambda x: torch.gather(x[:3], 0, INDEX, out=x[3:]), [0, 1, 2, 0, 1, 2]),
        (lambda x: torch.cumsum(x, 0, out=x), [0, 1, 3, 6, 10, 15]),
        (
            lambda x: x.view(2, 3).add_(x.view(2, 3)[:, :1]),
            [0, 1, 2, 6, 7, 8],
        ),  # gaps are not looked at, and come out right
    ],
)
def test_what_does_not_overlap_or_is_the_same(write, expected):
    x = numbers()
    write(x)
    assert x.tolist() == expected


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1),
        lambda x: x.copy_(torch.ones(3)),
        lambda x: x.scatter_(0, INDEX, torch.ones(3)),
        lambda x: x.uniform_(),
        lambda x: x.relu_(),
        lambda x: x.put_(INDEX, torch.ones(3)),
        lambda x: torch.add(torch.ones(3), 1, out=x),
    ],
)
def test_expanded_tensors_are_not_written(write):
    with pytest.raises(RuntimeError, match=MORE):
        write(torch.ones(1).expand(3))


def test_expanded_tensors_are_filled():
    assert torch.ones(1).expand(3).fill_(2).tolist() == [2, 2, 2]
    assert torch.ones(1).expand(3).zero_().tolist() == [0, 0, 0]
    assert torch.ones(1).expand(3).index_fill_(0, INDEX, 2).tolist() == [2, 2, 2]
    x = torch.ones(1).expand(3)
    x[0] = 5
    assert x.tolist() == [5, 5, 5]


@pytest.mark.parametrize(
    "look, shape",
    [
        (lambda x: x.unsqueeze_(0), (1, 3, 2)),
        (lambda x: x.squeeze_(), (3, 2)),
        (lambda x: x.t_(), (2, 3)),
        (lambda x: x.transpose_(0, 1), (2, 3)),
        (lambda x: x.swapaxes_(0, 1), (2, 3)),
        (lambda x: x.as_strided_((2,), (0,)), (2,)),
    ],
)
def test_views_in_place_write_no_element(look, shape):
    assert tuple(look(torch.ones(1, 1).expand(3, 2)).shape) == shape
