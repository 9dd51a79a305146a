"""Dynamic quantization: the numbers and texts that PyTorch 2.15 gave for the same model."""

import io

import pytest
import taper as torch
from taper import nn


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)).eval()


def test_linear_layers(model):
    made = torch.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    x = torch.randn(3, 8)
    assert torch.allclose(
        made(x), torch.tensor([[-0.4077, -0.2729], [-0.6241, -0.2265], [-0.1501, -0.1936]]), atol=1e-4
    )
    assert (
        repr(made[0])
        == "DynamicQuantizedLinear(in_features=8, out_features=16, dtype=torch.qint8, qscheme=torch.per_tensor_affine)"
    )
    assert made[0].weight().int_repr()[0].tolist() == [-1, 69, -105, -94, -49, 34, -3, 101]
    assert made[0].weight().q_scale() == 0.002766112796962261
    assert list(made.state_dict())[:4] == [
        "0.scale",
        "0.zero_point",
        "0._packed_params.dtype",
        "0._packed_params._packed_params",
    ]
    assert type(model[0]) is nn.Linear
    assert not list(made.parameters())
    assert torch.equal(made(x.reshape(1, 3, 8))[0], made(x))
    with pytest.raises(RuntimeError, match=r"expected input of 8 features, got shape \[4, 16\]"):
        made(torch.randn(4, 16))


def test_saved_and_loaded(model):
    made, other = (
        torch.ao.quantization.quantize_dynamic(model),
        torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))),
    )
    x, file = torch.randn(3, 8), io.BytesIO()
    torch.save(made.state_dict(), file)
    assert not torch.equal(made(x), other(x))
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=False))
    assert torch.equal(made(x), other(x))


@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
def test_recurrent_layers_stay_near(dtype):
    torch.manual_seed(0)
    layer, x = nn.LSTM(4, 5), torch.randn(3, 2, 4)
    made = torch.ao.quantization.quantize_dynamic(nn.Sequential(layer), {nn.LSTM}, dtype=dtype)
    assert repr(made[0]) == "DynamicQuantizedLSTM(4, 5)"
    assert (made(x)[0] - layer(x)[0]).abs().max() < 0.01
    assert not torch.equal(made(x)[0], layer(x)[0])


def test_tensors():
    made = torch.quantize_per_tensor(torch.tensor([-1.0, 0.0, 0.55, 30.0]), 0.1, 10, torch.quint8)
    assert (
        repr(made)
        == """tensor([-1.0000,  0.0000,  0.6000, 24.5000], size=(4,), dtype=torch.quint8,
       quantization_scheme=torch.per_tensor_affine, scale=0.1, zero_point=10)"""
    )
    assert made.int_repr().tolist() == [0, 10, 16, 255]
    assert (
        made.dtype,
        made.q_scale(),
        made.q_zero_point(),
        made.is_quantized,
        made.shape,
    ) == (torch.quint8, 0.1, 10, True, (4,))
    with pytest.raises(NotImplementedError, match="'aten::exp' .* 'QuantizedCPU'"):
        made.exp()
    x = torch.tensor([-5.0, 0.0, 0.55], requires_grad=True)
    rounded = torch.fake_quantize_per_tensor_affine(x, 0.1, 10, 0, 255)
    rounded.sum().backward()
    assert torch.allclose(rounded, torch.tensor([-1.0, 0.0, 0.6]))
    assert x.grad.tolist() == [0, 1, 1]
