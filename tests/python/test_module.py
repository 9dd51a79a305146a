"""nn.Module: where attributes go, what a module knows about itself, hooks, state."""
import copy
import pickle

import pytest
import taper as torch
from taper import nn
from taper.nn import functional as F
from taper.nn.modules.lazy import LazyModuleMixin


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.rest = nn.Sequential(nn.Identity(), nn.Linear(4, 2, bias=False))
        self.register_buffer("scale", torch.full((1,), 2.0))
        self.register_buffer("hidden", torch.zeros(1), persistent=False)

    def forward(self, x):
        return self.rest(torch.tanh(self.first(x))) * self.scale


def test_parameters_buffers_and_children_are_found_by_name():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == ["first.weight", "first.bias", "rest.1.weight"]
    assert [name for name, _ in net.named_modules()] == ["", "first", "rest", "rest.0", "rest.1"]
    assert list(net.state_dict()) == ["scale", "first.weight", "first.bias", "rest.1.weight"]
    assert net.get_parameter("rest.1.weight") is net.rest[1].weight


def test_an_attribute_moves_between_kinds():
    net = Net()
    net.scale = torch.ones(1)
    assert "scale" in net._buffers
    with pytest.raises(TypeError, match="cannot assign"):
        net.first = torch.ones(2)
    del net.scale
    net.scale = nn.Parameter(torch.ones(1))
    assert "scale" in net._parameters and "scale" not in net._buffers
    net.first = None
    assert net._modules["first"] is None
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        net.missing
    with pytest.raises(AttributeError, match="before Module.__init__"):
        class Early(nn.Module):
            def __init__(self):
                self.layer = nn.Linear(1, 1)
        Early()


def test_a_shared_parameter_counts_once_but_is_saved_twice():
    net = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    net[1].weight = net[0].weight
    assert len(list(net.parameters())) == 3 and len(net.state_dict()) == 4


def test_hooks_run_in_order_and_may_replace():
    layer, seen = nn.Linear(2, 2), []
    layer.register_forward_pre_hook(lambda module, args: seen.append("before"))
    layer.register_forward_hook(lambda module, args, output: output + 1)
    removed = layer.register_forward_hook(lambda module, args, output: seen.append("never"))
    removed.remove()
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append((grad_input[0].shape, grad_output[0].shape)))
    x = torch.ones(3, 2, requires_grad=True)
    y = layer(x)
    assert torch.equal(y, F.linear(x, layer.weight, layer.bias) + 1)
    y.sum().backward()
    assert seen == ["before", (torch.Size([3, 2]), torch.Size([3, 2]))]
    assert torch.allclose(x.grad, layer.weight.sum(0).expand(3, 2))


def test_hooks_of_all_modules():
    from taper.nn.modules.module import register_module_forward_hook
    seen = []
    handle = register_module_forward_hook(lambda module, args, output: seen.append(type(module).__name__))
    Net()(torch.ones(1, 3))
    handle.remove()
    Net()(torch.ones(1, 3))
    assert seen == ["Linear", "Identity", "Linear", "Sequential", "Net"]


def test_loading_state():
    a, b = Net(), Net()
    assert str(b.load_state_dict(a.state_dict())) == "<All keys matched successfully>"
    x = torch.randn(2, 3)
    assert torch.equal(a(x), b(x))
    state = a.state_dict()
    state["first.weight"] = torch.zeros(1, 2)
    state["other"] = state.pop("scale")
    before = b.first.weight.clone()
    with pytest.raises(RuntimeError, match=r"(?s)Missing key.*scale.*Unexpected key.*other.*size mismatch for first.weight"):
        b.load_state_dict(state)
    assert torch.equal(b.first.weight, before)
    assert b.load_state_dict({}, strict=False).missing_keys


def test_copies_and_pickles():
    net = Net()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert all(torch.equal(p, q) and p is not q for p, q in zip(net.parameters(), other.parameters()))


def test_conversion_keeps_parameters_the_same_objects():
    net = Net()
    weight = net.first.weight
    assert net.double().first.weight is weight and weight.dtype == torch.float64 and net.scale.dtype == torch.float64
    assert not net.eval().rest.training and net.train().rest.training


def test_seeded_layers_give_pytorchs_numbers():
    torch.manual_seed(0)
    assert torch.allclose(nn.Linear(3, 2).weight[0], torch.tensor([-0.004322518, 0.309715837, -0.475185335]))


def test_recurrent_layers_take_packed_sequences():
    from taper.nn.utils.rnn import pack_sequence, pad_packed_sequence
    layer = nn.LSTM(3, 4, bidirectional=True)
    sequences = [torch.randn(n, 3) for n in (2, 4, 1)]
    output, (h, _) = layer(pack_sequence(sequences, enforce_sorted=False))
    padded, lengths = pad_packed_sequence(output)
    assert lengths.tolist() == [2, 4, 1]
    for i, sequence in enumerate(sequences):
        alone, (h_alone, _) = layer(sequence)
        assert torch.allclose(padded[:len(sequence), i], alone, atol=1e-6) and torch.allclose(h[:, i], h_alone, atol=1e-6)


def test_printing():
    assert repr(Net()) == """Net(
  (first): Linear(in_features=3, out_features=4, bias=True)
  (rest): Sequential(
    (0): Identity()
    (1): Linear(in_features=4, out_features=2, bias=False)
  )
)"""


class LazyScale(LazyModuleMixin, nn.Module):
    """Scales each feature; how many there are, the first input tells."""

    class cls_to_become(nn.Module):
        def forward(self, x):
            return x * self.scale

    forward = cls_to_become.forward

    def __init__(self):
        super().__init__()
        self.scale = nn.UninitializedParameter()

    def initialize_parameters(self, x):
        self.scale.materialize(x.shape[-1:])
        nn.init.constant_(self.scale, 3.0)


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_a_lazy_module_takes_its_shapes_from_the_first_input():
    layer, other = LazyScale(), LazyScale()
    scale = layer.scale
    assert repr(scale) == "<UninitializedParameter>" and nn.parameter.is_lazy(layer.double().scale) and layer.scale.dtype == torch.float64
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter"):
        scale.shape
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
        scale + 1
    assert layer(torch.ones(2, 4)).tolist() == [[3.0] * 4] * 2
    assert layer.scale is scale and type(scale) is nn.Parameter and type(layer) is LazyScale.cls_to_become
    other.load_state_dict(layer.state_dict())
    assert other.scale.shape == (4,) and type(other) is LazyScale
