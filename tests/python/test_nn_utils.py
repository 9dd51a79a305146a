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


@pytest.mark.parametrize("order, norm", [(2, math.sqrt(30)), (1, 10.0), ("inf", 4.0), (3, 100 ** (1 / 3)), (0.5, 37.7762)])
def test_clipping_by_norm(order, norm):
    parameters = with_gradients([1.0, -2.0], [3.0, -4.0]) + [nn.Parameter(torch.zeros(1))]
    total = utils.clip_grad_norm_(parameters, 1.0, order)
    assert total.shape == () and math.isclose(total.item(), norm, rel_tol=1e-5)
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
    assert utils.clip_grad_norm_(parameters, 1.0).isnan() and parameters[0].grad.isnan().all()


def test_clipping_without_gradients():
    assert utils.clip_grad_norm_([], 1.0) == 0 and utils.clip_grad_norm_([nn.Parameter(torch.ones(1))], 1.0) == 0
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
    assert vector.shape == (8,) and vector.requires_grad and torch.equal(vector[:6].view(2, 3), layer.weight)
    utils.vector_to_parameters(torch.arange(8.0), layer.parameters())
    assert torch.equal(layer.weight, torch.arange(6.0).view(2, 3)) and layer.bias.tolist() == [6, 7] and layer.bias.requires_grad
    with pytest.raises(TypeError, match="expected torch.Tensor, but got: list"):
        utils.vector_to_parameters([1.0], layer.parameters())
