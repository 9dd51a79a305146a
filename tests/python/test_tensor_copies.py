"""Copies, pickles, subclasses and parameters, and objects that outlive Python's own references."""

import copy
import gc
import pickle
import weakref

import pytest
import taper as torch
from taper import nn


class Named(torch.Tensor):
    """A subclass whose instances carry attributes."""


def named(data, label):
    t = torch.tensor(data).as_subclass(Named)
    t.label = label
    return t


# ---- copy and deepcopy ----
def test_copy_shares_memory():
    x = torch.ones(2)
    y = copy.copy(x)
    assert y is not x
    assert y.data_ptr() == x.data_ptr()


def test_deepcopy():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    (x * 2).sum().backward()
    y = copy.deepcopy(x)
    assert y.tolist() == x.tolist()
    assert y.data_ptr() != x.data_ptr()
    assert y.requires_grad
    assert y.grad.tolist() == x.grad.tolist()
    assert y.grad is not x.grad
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(x * 2)


def test_deepcopy_keeps_what_is_shared():
    base = torch.arange(6.0)
    twice, view = copy.deepcopy([[base, base], base[2:4]])
    assert twice[0] is twice[1]
    assert twice[0].data_ptr() != base.data_ptr()
    view[0] = 99
    assert twice[0].tolist() == [0, 1, 99, 3, 4, 5]
    assert base[2].item() == 2
    assert copy.deepcopy(base.reshape(2, 3).T).stride() == (1, 3)


def test_deepcopy_of_subclasses():
    x = named([1.0, 2.0], ["a"])
    y = copy.deepcopy(x)
    assert type(y) is Named
    assert y.label == ["a"]
    assert y.label is not x.label


# ---- pickle ----
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.int8, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.complex64]
)
def test_pickle(protocol, dtype):
    x = torch.tensor([[1, 0, 1], [0, 1, 1]]).to(dtype).T
    y = pickle.loads(pickle.dumps(x, protocol))
    assert y.dtype == dtype
    assert y.stride() == x.stride()
    assert y.tolist() == x.tolist()


def test_pickle_keeps_what_is_shared():
    x = torch.arange(6.0)
    y, part = pickle.loads(pickle.dumps([x, x[2:4]]))
    part[0] = 99
    assert y.tolist() == [0, 1, 99, 3, 4, 5]


def test_pickle_of_empty_tensors_and_attributes():
    assert pickle.loads(pickle.dumps(torch.ones(0, 3))).shape == (0, 3)
    x = torch.ones(2, requires_grad=True)
    x.tag = "t"
    y = pickle.loads(pickle.dumps(x))
    assert y.requires_grad
    assert y.tag == "t"
    z = pickle.loads(pickle.dumps(named([1.0], "n")))
    assert type(z) is Named
    assert z.label == "n"


@pytest.mark.parametrize(
    "thing",
    [
        torch.float32,
        torch.bool,
        torch.device("cpu"),
        torch.channels_last,
        torch.strided,
        torch.Size([2, 3]),
        torch.add,
        torch.Tensor.add,
        torch.Tensor.add_,
    ],
)
def test_pickle_of_what_is_no_tensor(thing):
    again = pickle.loads(pickle.dumps(thing))
    assert again == thing
    assert type(again) is type(thing)
    assert copy.deepcopy(thing) == thing


# ---- Parameters ----
def test_parameters():
    p = nn.Parameter(torch.ones(2))
    assert isinstance(p, nn.Parameter)
    assert isinstance(p, torch.Tensor)
    assert p.requires_grad
    assert p.is_leaf
    assert not isinstance(torch.ones(2), nn.Parameter)
    assert not nn.Parameter(torch.ones(2), requires_grad=False).requires_grad
    assert type(p * 2) is torch.Tensor
    assert type(p.data) is torch.Tensor
    assert repr(p) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert nn.Parameter().shape == (0,)
    with pytest.raises(TypeError):
        nn.Parameter([1.0])


def test_parameters_copy_and_pickle():
    p = nn.Parameter(torch.ones(2))
    p.tag = 1
    for q in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert type(q) is nn.Parameter
        assert q.requires_grad
        assert q.tag == 1
        assert q.data_ptr() != p.data_ptr()
    both = copy.deepcopy([p, p])
    assert both[0] is both[1]


def test_uninitialised_parameters():
    p = nn.UninitializedParameter()
    with pytest.raises(RuntimeError, match="uninitialized"):
        p.shape
    with pytest.raises(ValueError, match="uninitialized"):
        p + 1
    p.materialize((2, 3))
    assert type(p) is nn.Parameter
    assert p.shape == (2, 3)


# ---- Objects that outlive Python's references ----
def test_a_gradient_keeps_its_type_and_attributes():
    x = torch.ones(2, requires_grad=True)
    x.grad = named([1.0, 2.0], "kept")
    gc.collect()
    g = x.grad
    assert type(g) is Named
    assert g.label == "kept"
    address = id(g)
    del g
    gc.collect()
    assert x.grad.label == "kept"
    assert id(x.grad) == address
    for _ in range(5):  # back and forth
        assert x.grad.label == "kept"


def test_the_object_goes_with_its_tensor():
    class Witness:
        pass

    witness = Witness()
    seen = weakref.ref(witness)
    x = torch.ones(2, requires_grad=True)
    g = torch.ones(2)
    g.witness = witness
    x.grad = g
    del g, witness
    gc.collect()
    assert seen() is not None
    x.grad = None
    gc.collect()
    assert seen() is None


def test_an_object_taken_back_lives_on():
    x = torch.ones(2, requires_grad=True)
    x.grad = named([1.0, 2.0], "mine")
    g = x.grad
    x.grad = None
    gc.collect()
    assert g.label == "mine"
    assert g.tolist() == [1.0, 2.0]


def test_plain_tensors_are_not_kept():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    gone = weakref.ref(y)
    z = y.exp()
    del y
    gc.collect()
    assert gone() is None
    assert z.requires_grad


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64, torch.complex128])
def test_transposed_copies_whose_rows_meet_in_a_cache(dtype):
    for shape in [(512, 512), (1024, 70), (70, 2048), (513, 256)]:
        x = torch.arange(shape[0] * shape[1]).remainder(251).to(dtype).reshape(shape)
        rows = x.t().contiguous()
        assert rows.is_contiguous()
        assert rows[3].tolist() == [x[i, 3].item() for i in range(shape[0])]
        assert torch.equal(rows.t(), x)


@pytest.mark.parametrize(
    "made",
    [
        lambda x: torch.permute_copy(x, (1, 0)),
        lambda x: torch.transpose_copy(x, 0, 1),
        lambda x: torch.diagonal_copy(x[None].expand(3, 3, 3)),
        lambda x: torch.unfold_copy(x, 0, 2, 1),
        lambda x: torch.combinations(x[0]),
        torch.matrix_exp,
    ],
)
def test_copies_lie_in_rows(made):
    result = made(torch.arange(9.0).view(3, 3) / 9)
    assert result.is_contiguous() and result.view(-1).shape == (result.numel(),)
