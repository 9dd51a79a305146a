"""torch.nn.utils: clipping, parameters as a vector. The numbers are PyTorch's."""

import math
import warnings

import pytest
import taper as torch
from taper import nn
from taper.nn import utils


def with_gradients(*values):
    parameters = [nn.Parameter(torch.zeros(len(v))) for v in values]
    for parameter, v in zip(parameters, values):
        parameter.grad = torch.tensor(v)
    return parameters


@pytest.mark.parametrize(
    "order, norm", [(2, math.sqrt(30)), (1, 10.0), ("inf", 4.0), (3, 100 ** (1 / 3)), (0.5, 37.7762)]
)
def test_clipping_by_norm(order, norm):
    parameters = with_gradients([1.0, -2.0], [3.0, -4.0]) + [nn.Parameter(torch.zeros(1))]
    total = utils.clip_grad_norm_(parameters, 1.0, order)
    assert total.shape == ()
    assert math.isclose(total.item(), norm, rel_tol=1e-5)
    assert torch.allclose(parameters[1].grad, torch.tensor([3.0, -4.0]) / (norm + 1e-6))
    assert torch.allclose(utils.get_total_norm([p.grad for p in parameters[:2]], order), torch.tensor(1.0))
    before = parameters[0].grad.clone()
    utils.clip_grad_norm_(parameters, 100.0, order)
    assert torch.equal(parameters[0].grad, before)


def test_clipping_in_other_dtypes_and_strides():
    parameter = nn.Parameter(torch.zeros(3, 2, dtype=torch.bfloat16))
    parameter.grad = torch.ones(2, 3, dtype=torch.bfloat16).t()
    assert utils.clip_grad_norm_(parameter, 1.0).dtype == torch.bfloat16
    assert torch.equal(parameter.grad, torch.full((3, 2), 0.408203125, dtype=torch.bfloat16))
    grads = [torch.ones(3), torch.ones(4, dtype=torch.float64)[::2], torch.ones(4, dtype=torch.complex64)]
    assert torch.isclose(utils.get_total_norm(grads), torch.tensor(3.0, dtype=torch.float64))


def test_norms_that_are_not_finite():
    parameters = with_gradients([1.0, float("nan")])
    with pytest.raises(RuntimeError, match="The total norm of order 2.0 for gradients from `parameters` is non-finite"):
        utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    assert parameters[0].grad[0] == 1
    assert utils.clip_grad_norm_(parameters, 1.0).isnan()
    assert parameters[0].grad.isnan().all()


def test_clipping_without_gradients():
    assert utils.clip_grad_norm_([], 1.0) == 0
    assert utils.clip_grad_norm_([nn.Parameter(torch.ones(1))], 1.0) == 0
    with pytest.warns(UserWarning, match="empty generator"):
        utils.clip_grad_norm_((p for p in []), 1.0)
    with pytest.warns(FutureWarning, match="deprecated"):
        utils.clip_grad_norm(with_gradients([1.0]), 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        utils.clip_grad_norm_(nn.Linear(1, 1).parameters(), 1.0)


def test_clipping_by_value():
    parameters = with_gradients([1.0, -2.0, 0.25])
    utils.clip_grad_value_(parameters, 0.5)
    assert parameters[0].grad.tolist() == [0.5, -0.5, 0.25]


def test_clipping_counts_as_a_write():
    x = torch.ones(2, requires_grad=True)
    parameter = nn.Parameter(torch.zeros(2))
    parameter.grad = torch.full((2,), 3.0)
    y = (x * parameter.grad).sum()
    utils.clip_grad_norm_(parameter, 1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_parameters_as_a_vector():
    layer = nn.Linear(3, 2)
    vector = utils.parameters_to_vector(layer.parameters())
    assert vector.shape == (8,)
    assert vector.requires_grad
    assert torch.equal(vector[:6].view(2, 3), layer.weight)
    utils.vector_to_parameters(torch.arange(8.0), layer.parameters())
    assert torch.equal(layer.weight, torch.arange(6.0).view(2, 3))
    assert layer.bias.tolist() == [6, 7]
    assert layer.bias.requires_grad
    with pytest.raises(TypeError, match="expected torch.Tensor, but got: list"):
        utils.vector_to_parameters([1.0], layer.parameters())


def seeded_linear(*sizes):
    torch.manual_seed(0)
    return nn.Linear(*sizes)


def test_weight_norm_by_hooks():
    layer = seeded_linear(4, 3)
    before = layer.weight.detach().clone()
    with pytest.warns(FutureWarning, match="deprecated in favor of"):
        utils.weight_norm(layer)
    assert list(layer.state_dict()) == ["bias", "weight_g", "weight_v"]
    assert layer.weight_g.shape == (3, 1)
    assert torch.allclose(layer.weight, before, atol=1e-6)
    layer(torch.ones(2, 4)).sum().backward()
    assert torch.allclose(layer.weight_g.grad, torch.tensor([[-1.678], [1.424], [-1.417]]), atol=1e-3)
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError, match="Cannot register two weight_norm hooks"):
        utils.weight_norm(layer)
    with torch.no_grad():
        layer.weight_g.mul_(2)
    utils.remove_weight_norm(layer)
    assert list(layer.state_dict()) == ["bias", "weight"]
    assert torch.allclose(layer.weight, 2 * before, atol=1e-6)
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found in Linear"):
        utils.remove_weight_norm(layer)


def test_spectral_norm_by_hooks():
    layer = utils.spectral_norm(seeded_linear(4, 3), n_power_iterations=20)
    assert list(layer.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    assert layer.state_dict()._metadata[""] == {"version": 1, "spectral_norm": {"weight.version": 1}}
    layer(torch.ones(1, 4)).sum().backward()
    assert torch.isclose(torch.linalg.matrix_norm(layer.weight, 2), torch.tensor(1.0), atol=1e-4)
    assert layer.weight_orig.grad is not None
    other = utils.spectral_norm(nn.Linear(4, 3))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.eval()(torch.ones(1, 4)), layer.eval()(torch.ones(1, 4)))
    weight = layer.weight.detach().clone()
    utils.remove_spectral_norm(layer)
    assert isinstance(layer.weight, nn.Parameter)
    assert torch.equal(layer.weight, weight)
    assert not layer._state_dict_hooks
    with pytest.raises(ValueError, match="Expected n_power_iterations to be positive"):
        utils.spectral_norm(nn.Linear(4, 3), n_power_iterations=0)


def test_folding_batch_norm():
    layer = seeded_linear(3, 2).eval()
    mean, var, scale, shift = (
        torch.tensor([0.1, 0.2]),
        torch.tensor([1.0, 4.0]),
        torch.tensor([2.0, 3.0]),
        torch.tensor([0.5, -0.5]),
    )
    x = torch.randn(5, 3)
    expected = nn.functional.batch_norm(layer(x), mean, var, scale, shift)
    weight, bias = utils.fuse_linear_bn_weights(layer.weight, layer.bias, mean, var, 1e-5, scale, shift)
    assert isinstance(weight, nn.Parameter)
    assert torch.allclose(nn.functional.linear(x, weight, bias), expected, atol=1e-6)
    kernel, image = torch.randn(2, 3, 3, 3), torch.randn(1, 3, 5, 5)
    expected = nn.functional.batch_norm(nn.functional.conv2d(image, kernel), mean, var, scale, shift)
    weight, bias = utils.fuse_conv_bn_weights(kernel, None, mean, var, 1e-5, scale, shift)
    assert torch.allclose(nn.functional.conv2d(image, weight, bias), expected, atol=1e-5)


def test_skipping_initialisation_leaves_the_random_stream_alone():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    assert utils.skip_init(nn.Linear, 2, 3).weight.shape == (3, 2)
    assert torch.equal(torch.rand(1), expected)
    with pytest.raises(RuntimeError, match="must support a 'device' arg"):
        utils.skip_init(nn.Sequential)


def test_the_old_functional_call():
    layer = nn.Linear(1, 1)
    with pytest.warns(FutureWarning, match="torch.func.functional_call"):
        assert (
            utils.stateless.functional_call(
                layer, {"weight": torch.ones(1, 1), "bias": torch.ones(1)}, torch.ones(1, 1)
            ).item()
            == 2
        )


def test_packed_sequences_convert():
    packed = utils.rnn.pack_sequence([torch.ones(2), torch.ones(1)])
    assert packed.long().data.dtype == torch.int64
    assert packed.byte().data.dtype == torch.uint8
    assert not packed.is_pinned()
    with pytest.raises(RuntimeError, match="received an empty list of sequences"):
        utils.rnn.pad_sequence([])


def test_a_star_brings_what_pytorchs_brings():
    names = {}
    exec("from taper.nn.utils import *", names)
    assert {"parametrizations", "parametrize", "stateless", "fuse_conv_bn_eval", "skip_init"} <= set(names)
    assert names["parametrizations"].weight_norm and not {"convert_parameters", "_LATER"} & set(names)
