"""to, type, the old constructors, storages and what moves a tensor's place in memory."""

import os

import numpy as np
import pytest
import taper as torch


# ---- to ----
def test_to_takes_its_arguments_in_every_form():
    x, other = torch.ones(2, 3), torch.ones(1, dtype=torch.int32)
    for arguments, keywords, dtype in [
        ((torch.float64,), {}, torch.float64),
        (("cpu", torch.float16), {}, torch.float16),
        ((None, torch.float16), {}, torch.float16),
        ((torch.device("cpu"), torch.int8, True, True), {}, torch.int8),
        ((torch.float16, False, True), {}, torch.float16),
        ((other,), {}, torch.int32),
        ((), {"dtype": torch.bool}, torch.bool),
        ((), {"device": "cpu", "dtype": torch.int64}, torch.int64),
        ((float,), {}, torch.float64),
    ]:
        assert x.to(*arguments, **keywords).dtype == dtype
    assert torch.ones(1, 2, 2, 2).to(memory_format=torch.channels_last).stride() == (8, 1, 4, 2)


def test_to_is_the_tensor_itself_where_nothing_changes():
    x = torch.ones(2)
    assert x.to() is x
    assert x.to("cpu") is x
    assert x.to(torch.float32) is x
    assert x.to(x) is x
    assert x.cpu() is x
    assert x.to("cpu", non_blocking=True) is x
    assert x.type(torch.FloatTensor) is x
    assert x.to(torch.float32, copy=True) is not x


@pytest.mark.parametrize(
    "arguments, keywords",
    [
        ((1.5,), {}),
        ((torch.float64, torch.float32), {}),
        ((), {"foo": 1}),
        (("cpu", torch.float32, 3), {}),
        (([],), {}),
    ],
)
def test_to_refuses_what_it_does_not_know(arguments, keywords):
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        torch.ones(2).to(*arguments, **keywords)


def test_type():
    x = torch.ones(2)
    assert x.type() == "torch.FloatTensor"
    assert torch.ones(1, dtype=torch.bool).type() == "torch.BoolTensor"
    assert x.type("torch.DoubleTensor").dtype == torch.float64
    assert x.type(torch.LongTensor).dtype == torch.int64
    assert x.type(torch.int8).dtype == torch.int8
    for bad in ("torch.foo", "torch.float32", "FloatTensor"):
        with pytest.raises(ValueError, match="invalid type"):
            x.type(bad)
    with pytest.raises(TypeError):
        x.type(3)


# ---- The old constructors ----
def test_old_constructors():
    assert torch.Tensor().shape == (0,)
    assert torch.Tensor(3).shape == (3,)
    assert torch.Tensor(2, 3).shape == (2, 3)
    assert torch.Tensor(torch.Size([2, 3])).shape == (2, 3)
    assert torch.Tensor([1, 2]).tolist() == [1.0, 2.0]
    assert torch.Tensor((2, 3)).tolist() == [2.0, 3.0]
    assert torch.Tensor(np.ones(2)).dtype == torch.float32
    x = torch.tensor([1, 2])
    assert torch.Tensor(x).data_ptr() == x.data_ptr()
    assert torch.Tensor(x).dtype == torch.int64
    assert torch.LongTensor([1.7, 2]).tolist() == [1, 2]
    assert torch.BoolTensor([1, 0]).tolist() == [True, False]
    assert x.new([3]).dtype == torch.int64
    assert x.new(2, 2).shape == (2, 2)
    assert x.new().shape == (0,)
    assert torch.ones(1, dtype=torch.int8).new_tensor([1.5]).tolist() == [1]


@pytest.mark.parametrize("arguments", [(2.5,), (None,), ("a",), (1, 2.5), ({},), (torch.float32,)])
def test_old_constructors_refuse(arguments):
    with pytest.raises(TypeError):
        torch.Tensor(*arguments)
    with pytest.raises(TypeError):
        torch.LongTensor(torch.ones(2))
    with pytest.raises(RuntimeError):
        torch.Tensor(-1)


def test_old_types_are_types():
    x = torch.ones(2)
    assert isinstance(x, torch.FloatTensor)
    assert not isinstance(x, torch.LongTensor)
    assert not isinstance(3, torch.FloatTensor)
    assert repr(torch.FloatTensor) == "<class 'torch.FloatTensor'>"
    assert torch.FloatTensor.dtype == torch.float32


def test_subclasses():
    class Sub(torch.Tensor):
        pass

    s = Sub([1, 2])
    assert type(s) is Sub
    assert s.tolist() == [1.0, 2.0]
    assert type(torch.ones(2).as_subclass(Sub)) is Sub
    t = torch.Tensor._make_subclass(Sub, torch.ones(2), True)
    assert type(t) is Sub
    assert t.requires_grad
    for bad in (int, 3, None):
        with pytest.raises(TypeError):
            torch.ones(2).as_subclass(bad)


def test_what_a_tensor_is():
    x = torch.ones(2, 3, 4)
    assert x.layout == torch.strided
    assert not x.is_conj()
    assert not x.is_xla
    assert x.to_dense() is x
    assert x.permute(2, 0, 1).dim_order() == (1, 2, 0)
    assert torch.ones(1, 2, 3, 4).to(memory_format=torch.channels_last).dim_order() == (0, 2, 3, 1)
    assert torch.ones(1).is_nonzero()
    assert not torch.zeros(1).is_nonzero()
    with pytest.raises(RuntimeError, match="ambiguous"):
        x.is_nonzero()
    assert x.new_empty_strided((2, 2), (1, 2)).stride() == (1, 2)
    assert x.module_load(torch.zeros(2, 3, 4)).sum().item() == 0
    assert x.sum().item() == 0


# ---- Storage ----
def test_untyped_storage():
    x = torch.ones(2, 3)
    s = x.untyped_storage()
    assert s is x[1].untyped_storage()
    assert s.nbytes() == len(s) == 24
    assert s.data_ptr() == x.data_ptr()
    assert s[3] == 63
    assert s.tolist()[:4] == [0, 0, 128, 63]
    s.fill_(0)
    assert x.sum().item() == 0
    s[3] = 63
    assert x[0, 0].item() != 0
    for bad, error in ((24, IndexError), ("a", TypeError)):
        with pytest.raises(error):
            s[bad]
    assert torch.UntypedStorage([1, 2, 3]).tolist() == [1, 2, 3]
    assert s.clone().data_ptr() != s.data_ptr()


def test_typed_storage():
    x = torch.arange(3.0)
    s = x.storage()
    assert s.tolist() == [0, 1, 2]
    assert s.size() == 3
    assert s.nbytes() == 12
    assert s.dtype == torch.float32
    s[1] = 5
    assert x.tolist() == [0, 5, 2]
    assert isinstance(s, torch.FloatStorage)
    assert not isinstance(s, torch.LongStorage)
    assert torch.FloatTensor(torch.FloatStorage([1, 2])).tolist() == [1, 2]


def test_set():
    base = torch.arange(6.0)
    x = torch.empty(0).set_(base.untyped_storage(), 1, (2, 2), (2, 1))
    assert x.tolist() == [[1, 2], [3, 4]]
    x[0, 0] = 9
    assert base[1].item() == 9
    assert x.is_set_to(x)
    assert not x.is_set_to(base)
    assert torch.empty(0).set_(base).data_ptr() == base.data_ptr()
    assert torch.ones(3).set_().shape == (0,)
    with pytest.raises(RuntimeError):
        torch.empty(0).set_(torch.ones(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="offset"):
        torch.empty(0).set_(base.untyped_storage(), -1, (2,), (1,))


def test_resize():
    x = torch.ones(4)
    assert x.resize_(2, 2) is x
    assert x.shape == (2, 2)
    assert x.resize_((8,)).shape == (8,)
    assert x[:4].tolist() == [1] * 4
    assert torch.ones(4).resize_as_(torch.ones(2, 2)).shape == (2, 2)
    with pytest.raises(RuntimeError, match="require grad"):
        torch.ones(2, requires_grad=True).resize_(3)
    with pytest.raises((RuntimeError, TypeError)):
        x.resize_(-1)
    with pytest.raises(TypeError):
        x.resize_("a")


def test_an_array_keeps_its_memory_when_the_tensor_is_resized():
    x = torch.ones(4)
    a = x.numpy()
    try:
        x.resize_(1000000)
    except RuntimeError:
        pass
    assert a.tolist() == [1] * 4


def test_shared_memory_is_seen_by_a_child():
    x = torch.zeros(3)
    assert not x.is_shared()
    assert x.share_memory_() is x
    assert x.is_shared()
    child = os.fork()
    if not child:
        x[1] = 7
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert x.tolist() == [0, 7, 0]


def test_functions_over_elements():
    assert torch.arange(3.0).apply_(lambda v: v + 1).tolist() == [1, 2, 3]
    assert torch.ones(2).map_(torch.arange(2.0), lambda a, b: a + 10 * b).tolist() == [1, 11]
    with pytest.raises(RuntimeError, match="requires grad"):
        torch.ones(2, requires_grad=True).apply_(abs)
    with pytest.raises(ZeroDivisionError):
        torch.zeros(2).apply_(lambda v: 1 / v)


def test_complex():
    assert complex(torch.tensor(1 + 2j)) == 1 + 2j
    assert complex(torch.tensor([3])) == 3 + 0j
    with pytest.raises(ValueError, match="only one element"):
        complex(torch.ones(2))
