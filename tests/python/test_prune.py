"""torch.nn.utils.prune: parameters with elements masked out."""

import pytest
import taper as torch
from taper import nn
from taper.nn.utils import prune


def layer_of(*rows):
    layer = nn.Linear(len(rows[0]), len(rows))
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(rows))
    return layer


def test_the_smallest_elements():
    layer = layer_of([1.0, -4.0], [3.0, 2.0])
    assert prune.l1_unstructured(layer, "weight", 0.5) is layer
    assert prune.is_pruned(layer)
    assert layer.weight_mask.tolist() == [[0, 1], [1, 0]]
    assert layer.weight.tolist() == [[0, -4], [3, 0]]
    assert list(layer.state_dict()) == ["bias", "weight_orig", "weight_mask"]
    assert [name for name, _ in layer.named_parameters()] == ["bias", "weight_orig"]
    layer(torch.ones(1, 2)).sum().backward()
    assert layer.weight_orig.grad.tolist() == [[0, 1], [1, 0]]
    prune.l1_unstructured(layer, "weight", 1)  # of what is left
    assert layer.weight_mask.tolist() == [[0, 1], [0, 0]]
    assert len(layer._forward_pre_hooks) == 1
    prune.remove(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter)
    assert layer.weight.tolist() == [[0, -4], [0, 0]]
    assert not prune.is_pruned(layer)
    with pytest.raises(ValueError, match="has to be pruned before pruning can be removed"):
        prune.remove(layer, "weight")


def test_whole_channels():
    layer = layer_of([1.0, -4.0, 1.0], [3.0, 2.0, 0.0])
    prune.ln_structured(layer, "weight", 1, n=2, dim=0)
    assert layer.weight_mask.tolist() == [[1, 1, 1], [0, 0, 0]]
    prune.ln_structured(layer, "weight", 1, n=float("inf"), dim=1)
    assert layer.weight_mask.sum() == 2
    assert layer.weight_mask[0, 1] == 1
    prune.random_structured(layer, "weight", 1, dim=-1)
    assert layer.weight_mask.sum() == 1


def test_at_random_as_pytorch_draws():
    layer = layer_of([1.0] * 4)
    torch.manual_seed(0)  # draws 0.4963, 0.7682, 0.0885, 0.1320
    prune.random_unstructured(layer, "weight", 2)
    assert layer.weight_mask.tolist() == [[0, 0, 1, 1]]


def test_several_parameters_as_one():
    net = nn.Sequential(layer_of([1.0, 5.0]), layer_of([2.0], [6.0]))
    prune.global_unstructured([(net[0], "weight"), (net[1], "weight")], prune.L1Unstructured, amount=0.5)
    assert net[0].weight_mask.tolist() == [[0, 1]]
    assert net[1].weight_mask.tolist() == [[0], [1]]
    with pytest.raises(TypeError, match='Only "unstructured" PRUNING_TYPE supported'):
        prune.global_unstructured([(net[0], "weight")], prune.LnStructured, amount=1, n=2)


@pytest.mark.parametrize(
    "amount, error, words",
    [
        (-1, ValueError, "non-negative integer"),
        (1.5, ValueError, "range"),
        ("x", TypeError, "Must be int or float"),
        (99, ValueError, "amount=99 should be smaller than the number of parameters to prune=4"),
    ],
)
def test_amounts_that_are_refused(amount, error, words):
    layer = nn.Linear(2, 2)
    with pytest.raises(error, match=words):
        prune.l1_unstructured(layer, "weight", amount)
    assert "weight" in layer._parameters
    assert not prune.is_pruned(layer)


def test_given_scores_masks_and_own_methods():
    layer = nn.Linear(2, 2)
    prune.l1_unstructured(layer, "weight", 1, importance_scores=torch.tensor([[3.0, 1.0], [2.0, 4.0]]))
    assert layer.weight_mask.tolist() == [[1, 0], [1, 1]]

    class EverySecond(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    EverySecond.apply(layer, "bias")
    assert layer.bias_mask.tolist() == [0, 1]
    assert prune.L1Unstructured(amount=2).prune(torch.tensor([1.0, -3.0, 2.0])).tolist() == [0, -3, 0]
