"""Tensors in oneDNN's layout, and what PyTorch calls its convolutions."""

import pytest

import taper as torch
from taper import nn
from taper.utils import mkldnn


def test_a_tensor_in_onednns_layout():
    x = torch.randn(2, 3)
    y = x.to_mkldnn()
    assert y.is_mkldnn
    assert y.layout is torch._mkldnn
    assert "layout=torch._mkldnn" in repr(y)
    assert not x.is_mkldnn
    assert torch.equal(torch.relu(y).to_dense(), x.relu())
    assert torch.relu(y).is_mkldnn
    assert x.to_mkldnn(torch.bfloat16).to_dense(torch.float32).dtype is torch.float32
    for call, words in (
        (lambda: y.data_ptr(), "doesn't have storage"),
        (lambda: y.view(6), "Change to use reshape"),
        (lambda: y.copy_(x), "copy_mkldnn_"),
        (lambda: x.double().to_mkldnn(), "dense_to_mkldnn expects"),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()


def test_gradients_pass_through():
    x = torch.randn(3, requires_grad=True)
    (x.to_mkldnn() * 2).to_dense().sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_a_module_for_inference():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    x = torch.randn(1, 3, 5, 5)
    fast = mkldnn.to_mkldnn(net)
    assert fast(x.to_mkldnn()).is_mkldnn
    assert torch.allclose(fast(x.to_mkldnn()).to_dense(), net(x))
    assert torch.allclose(fast(x), net(x))


def test_names_of_convolutions():
    from taper._conv_backends import _ConvBackend, _select_conv_backend

    def name(x, w, stride=(1, 1), dilation=(1, 1), transposed=False, groups=1):
        return _select_conv_backend(x, w, None, stride, (0, 0), dilation, transposed, (0, 0), groups)

    x, w = torch.ones(2, 3, 8, 8), torch.ones(4, 3, 3, 3)
    assert name(x, w) is _ConvBackend.Mkldnn
    assert name(x.double(), w) is _ConvBackend.Slow2d
    assert name(x.double(), w, dilation=(2, 2)) is _ConvBackend.SlowDilated2d
    assert name(torch.ones(0, 3, 8, 8), w) is _ConvBackend.Empty
    with torch.backends.mkldnn.flags(enabled=False):
        assert name(x, w) is _ConvBackend.Slow2d
