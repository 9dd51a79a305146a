"""torch.nn.utils.parametrize and parametrizations: tensors that are functions of others."""

import copy
import pickle

import pytest
import taper as torch
from taper import nn
from taper.nn.utils import parametrizations, parametrize


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT

    def right_inverse(self, a):
        return a.triu()


class Exponential(nn.Module):
    def forward(self, x):
        return x.exp()


class Product(nn.Module):
    def forward(self, a, b):
        return a @ b

    def right_inverse(self, x):
        return x, torch.eye(x.shape[1])


def test_a_parametrised_weight():
    layer = nn.Linear(3, 3)
    assert parametrize.register_parametrization(layer, "weight", Symmetric()) is layer
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert type(layer).__name__ == "ParametrizedLinear"
    assert parametrize.is_parametrized(layer)
    assert parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    assert isinstance(layer, nn.Linear)
    assert torch.equal(layer.weight, layer.weight.T)
    layer(torch.ones(1, 3)).sum().backward()
    assert layer.parametrizations.weight.original.grad[1, 0] == 0
    layer.weight = torch.eye(3)
    assert torch.equal(layer.weight, torch.eye(3))
    parametrize.register_parametrization(layer, "weight", Exponential())
    assert torch.equal(layer.weight, torch.eye(3).exp())
    with pytest.raises(RuntimeError, match="parametrization Exponential does not implement right_inverse"):
        layer.weight = torch.eye(3)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert isinstance(layer.weight, nn.Parameter)
    assert torch.equal(layer.weight, torch.eye(3).exp())


def test_leaving_what_it_was_computed_from():
    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "bias", Exponential())
    original = layer.parametrizations.bias.original
    parametrize.remove_parametrizations(layer, "bias", leave_parametrized=False)
    assert layer.bias is original


def test_several_originals():
    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Product())
    assert list(layer.state_dict()) == [
        "bias",
        "parametrizations.weight.original0",
        "parametrizations.weight.original1",
    ]
    layer.weight = torch.ones(3, 3)
    assert torch.equal(layer.weight, torch.ones(3, 3))
    with pytest.raises(ValueError, match="Cannot leave unparametrized"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    other = nn.Linear(3, 3)
    parametrize.transfer_parametrizations_and_params(layer, other)
    assert other.parametrizations.weight.original0 is layer.parametrizations.weight.original0


def test_computed_once_when_cached():
    layer = nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert layer.weight is not layer.weight
    assert not parametrize._cache


def test_copies_and_refused_pickles():
    layer = nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    other = copy.deepcopy(layer)
    assert torch.equal(other.weight, layer.weight)
    assert other.parametrizations.weight.original is not layer.parametrizations.weight.original
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(layer)


@pytest.mark.parametrize(
    "function, words",
    [
        (lambda x: x[:1], "may not change the shape"),
        (lambda x: x.double(), "may not change the dtype"),
        (lambda x: 3, "must return a tensor. Got int"),
    ],
)
def test_what_is_refused(function, words):
    class Wrong(nn.Module):
        def forward(self, x):
            return function(x)

    layer = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=words):
        parametrize.register_parametrization(layer, "weight", Wrong())
    assert type(layer) is nn.Linear
    assert "weight" in layer._parameters
    with pytest.raises(
        ValueError, match="does not have a parameter, a buffer, or a parametrized element with name 'zz'"
    ):
        parametrize.register_parametrization(layer, "zz", Wrong())


def test_weight_norm_takes_states_of_the_old_form():
    layer = parametrizations.weight_norm(nn.Linear(4, 3))
    weight = torch.randn(3, 4)
    state = {"bias": torch.zeros(3), "weight_g": weight.norm(dim=1, keepdim=True), "weight_v": weight * 2}
    layer.load_state_dict(state)
    assert torch.allclose(layer.weight, weight, atol=1e-6)


def test_spectral_norm():
    layer = parametrizations.spectral_norm(nn.Linear(4, 3), n_power_iterations=20)
    assert list(layer.state_dict()) == [
        "bias",
        "parametrizations.weight.original",
        "parametrizations.weight.0._u",
        "parametrizations.weight.0._v",
    ]
    assert torch.isclose(torch.linalg.matrix_norm(layer.weight, 2), torch.tensor(1.0), atol=1e-4)
    layer.eval()
    assert torch.equal(layer.weight, layer.weight)


@pytest.mark.parametrize("trivial", [True, False])
@pytest.mark.parametrize("name", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_orthogonal(shape, name, trivial):
    layer = parametrizations.orthogonal(nn.Linear(shape[1], shape[0]), orthogonal_map=name, use_trivialization=trivial)
    weight = layer.weight
    gram = weight @ weight.T if shape[0] < shape[1] else weight.T @ weight
    assert torch.allclose(gram, torch.eye(min(shape)), atol=1e-5)
    (weight * torch.randn(shape)).sum().backward()
    assert layer.parametrizations.weight.original.grad.isfinite().all()
    if not trivial and name != "householder":
        return
    q = torch.linalg.qr(torch.randn(max(shape), min(shape))).Q
    layer.weight = q.T if shape[0] < shape[1] else q
    assert torch.allclose(layer.weight, q.T if shape[0] < shape[1] else q, atol=1e-5)
