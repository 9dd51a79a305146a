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
    assert "scale" in net._parameters
    assert "scale" not in net._buffers
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
    assert len(list(net.parameters())) == 3
    assert len(net.state_dict()) == 4


def test_hooks_run_in_order_and_may_replace():
    layer, seen = nn.Linear(2, 2), []
    layer.register_forward_pre_hook(lambda module, args: seen.append("before"))
    layer.register_forward_hook(lambda module, args, output: output + 1)
    removed = layer.register_forward_hook(lambda module, args, output: seen.append("never"))
    removed.remove()
    layer.register_full_backward_hook(
        lambda module, grad_input, grad_output: seen.append((grad_input[0].shape, grad_output[0].shape))
    )
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
    with pytest.raises(
        RuntimeError, match=r"(?s)Missing key.*scale.*Unexpected key.*other.*size mismatch for first.weight"
    ):
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
    assert net.double().first.weight is weight
    assert weight.dtype == torch.float64
    assert net.scale.dtype == torch.float64
    assert not net.eval().rest.training
    assert net.train().rest.training


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
        assert torch.allclose(padded[: len(sequence), i], alone, atol=1e-6)
        assert torch.allclose(h[:, i], h_alone, atol=1e-6)


def test_printing():
    assert (
        repr(Net())
        == """Net(
  (first): Linear(in_features=3, out_features=4, bias=True)
  (rest): Sequential(
    (0): Identity()
    (1): Linear(in_features=4, out_features=2, bias=False)
  )
)"""
    )


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


@pytest.mark.filterwarnings("error")
def test_a_lazy_module_takes_its_shapes_from_the_first_input():
    layer, other = LazyScale(), LazyScale()
    scale = layer.scale
    assert repr(scale) == "<UninitializedParameter>"
    assert nn.parameter.is_lazy(layer.double().scale)
    assert layer.scale.dtype == torch.float64
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter"):
        scale.shape
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
        scale + 1
    assert layer(torch.ones(2, 4)).tolist() == [[3.0] * 4] * 2
    assert layer.scale is scale
    assert type(scale) is nn.Parameter
    assert type(layer) is LazyScale.cls_to_become
    other.load_state_dict(layer.state_dict())
    assert other.scale.shape == (4,)
    assert type(other) is LazyScale


def test_every_kind_of_forward_hook():
    layer, seen = Net(), []
    see = lambda name: lambda module, *rest: seen.append((name, *[type(value).__name__ for value in rest]))
    register = torch.nn.modules.module
    handles = [
        layer.register_forward_pre_hook(see("pre")),
        layer.register_forward_pre_hook(see("first"), prepend=True, with_kwargs=True),
        layer.register_forward_hook(see("post")),
        layer.register_forward_hook(see("always"), prepend=True, with_kwargs=True, always_call=True),
        register.register_module_forward_pre_hook(
            lambda module, args: seen.append("all pre") if module is layer else None
        ),
        register.register_module_forward_hook(
            lambda module, args, kwargs, output: seen.append(("all", output is None)) if module is layer else None,
            with_kwargs=True,
            always_call=True,
        ),
    ]
    layer(x=torch.ones(1, 3))
    before = ["all pre", ("first", "tuple", "dict"), ("pre", "tuple")]
    assert seen == before + [("all", False), ("always", "tuple", "dict", "Tensor"), ("post", "tuple", "Tensor")]
    seen.clear()
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        layer(wrong=1)
    assert seen == before + [("all", True), ("always", "tuple", "dict", "NoneType")]
    for handle in handles:
        handle.remove()
    with layer.register_forward_pre_hook(lambda module, args, kwargs: ((args[0] * 0,), {}), with_kwargs=True):
        assert torch.equal(layer(torch.ones(1, 3)), layer.forward(torch.zeros(1, 3)))
    with (
        layer.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True),
        pytest.raises(RuntimeError, match="must return None or a tuple"),
    ):
        layer(torch.ones(1, 3))
    assert not layer._forward_hooks
    assert not layer._forward_hooks_always_called
    assert not layer._forward_pre_hooks_with_kwargs


class Pair(nn.Module):
    def forward(self, a, b):
        return a * 2, b


def test_every_kind_of_backward_hook():
    pair, seen = Pair(), []
    a = torch.ones(2, requires_grad=True)
    pair.register_full_backward_hook(
        lambda module, grad_input, grad_output: seen.append((len(grad_input), grad_input[0].tolist(), grad_output[1]))
    )
    pair.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 10, None))
    pair(a, 3)[0].sum().backward()
    assert seen == [(2, [20.0, 20.0], None)]
    assert a.grad.tolist() == [20, 20]
    pair.register_full_backward_hook(lambda module, grad_input, grad_output: (torch.zeros(2), None))
    a.grad = None
    pair(a, 3)[0].sum().backward()
    assert a.grad.tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full"):
        pair.register_backward_hook(lambda *args: None)

    layer, seen = nn.Identity(), []
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append(grad_input))
    layer.weight = nn.Parameter(torch.ones(1))
    layer.forward = lambda x: x * layer.weight
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        layer(torch.ones(1)).backward()
    assert seen == [(None,)]

    old, seen = nn.Identity(), []
    old.forward = lambda x: x.exp() * 2
    old.register_backward_hook(lambda module, grad_input, grad_output: seen.append(grad_input[0].item()))
    with pytest.warns(FutureWarning, match="multiple autograd Nodes"):
        old(torch.zeros(1, requires_grad=True)).backward()
    assert seen == [2.0]


def test_hooks_of_registration():
    register, seen = torch.nn.modules.module, []
    handles = [
        register.register_module_parameter_registration_hook(
            lambda module, name, value: seen.append(("parameter", name))
        ),
        register.register_module_buffer_registration_hook(lambda module, name, value: seen.append(("buffer", name))),
        register.register_module_module_registration_hook(lambda module, name, value: seen.append(("module", name))),
    ]
    net = nn.Module()
    net.w, net.child, net.b = nn.Parameter(torch.ones(1)), nn.Identity(), nn.Buffer(torch.ones(1), persistent=False)
    net.b = torch.zeros(1)
    net.w = net.child = None
    for handle in handles:
        handle.remove()
    assert seen == [("parameter", "w"), ("module", "child"), ("buffer", "b"), ("buffer", "b"), ("module", "child")]
    assert "b" in net._non_persistent_buffers_set
    with register.register_module_module_registration_hook(lambda module, name, value: nn.Identity()):
        net.other = nn.Linear(1, 1)
    assert isinstance(net.other, nn.Identity)


def test_what_may_take_a_names_place():
    net = Net()
    net.w = nn.Parameter(torch.ones(1))
    for name, value, words in [
        ("w", torch.ones(1), r"'torch.FloatTensor' as parameter 'w' \(torch.nn.Parameter or None expected\)"),
        ("w", nn.Identity(), "as parameter 'w'"),
        ("first", 3, r"'int' as child module 'first' \(torch.nn.Module or None expected\)"),
        ("scale", "x", r"'str' as buffer 'scale' \(torch.nn.Buffer, torch.Tensor or None expected\)"),
    ]:
        with pytest.raises(TypeError, match=words):
            setattr(net, name, value)
    net.first = nn.Parameter(torch.ones(1))
    assert "first" in net._parameters
    assert "first" not in net._modules
    for path, words in [("pn", "no attribute `pn`"), ("rest.1", "not an nn.Parameter")]:
        with pytest.raises(AttributeError, match=words):
            net.get_parameter(path)
    with pytest.raises(AttributeError, match="`w` is not an nn.Module"):
        net.set_submodule("w", nn.Identity())
    with pytest.raises(KeyError, match='contain ".", got: a.b'):
        net.add_module("a.b", None)


def test_a_property_that_fails_and_a_getattr_of_its_own():
    class Own(nn.Module):
        @property
        def broken(self):
            return self.nothing

        @property
        def answer(self):
            return 42

    class Asks(Own):
        def __getattr__(self, name):
            return 7 if name == "seven" else super().__getattr__(name)

    for net in (Own(), Asks()):
        net.w = nn.Parameter(torch.ones(1))
        for _ in range(3):
            assert net.w is net._parameters["w"]
            assert net.answer == 42
            with pytest.raises(AttributeError, match="object has no attribute 'broken'"):
                net.broken
    assert Asks().seven == 7
    Own.__getattr__ = lambda self, name: 8
    assert Own().anything == 8


def test_moving_keeps_gradients_the_same_objects():
    net = Net()
    net(torch.ones(1, 3)).sum().backward()
    gradient = net.first.weight.grad
    assert net.double().first.weight.grad is gradient
    assert gradient.dtype == torch.float64
    assert net.to("cpu", torch.float32, True).first.weight.dtype == torch.float32
    assert net.to(torch.ones(1, dtype=torch.bfloat16)).scale.dtype == torch.bfloat16
    with pytest.raises(TypeError, match="only accepts floating point or complex"):
        net.to(torch.int32)
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        net.to(foo=1)


def count_call(module, args, output):
    module.calls = getattr(module, "calls", 0) + 1


def test_copies_keep_hooks_and_handles_can_be_pickled():
    net = Net()
    handle = net.register_forward_hook(count_call)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        other(torch.ones(1, 3))
        assert other.calls == 1
    other, its_handle = pickle.loads(pickle.dumps((net, handle)))
    its_handle.remove()
    assert not other._forward_hooks
    assert net._forward_hooks


def test_parameters_in_dicts_and_lists():
    held = nn.ParameterDict({"b": torch.ones(1), "a": torch.zeros(1)})
    assert list(held) == ["a", "b"]
    assert isinstance(held["a"], nn.Parameter)
    assert list(held | {"c": torch.ones(1)}) == ["a", "b", "c"]
    assert list(({"z": 1} | held)) == ["z", "a", "b"]
    with pytest.raises(ValueError, match="ParameterDict update sequence element #0 has length 1; 2 is required"):
        held.update([("x",)])
    with pytest.raises(ValueError, match="Non-positive multiplication factor -1"):
        nn.Sequential(nn.Identity()).__imul__(-1)
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        nn.ModuleList([nn.Identity()])["0"]


def test_data_parallel_on_one_device_is_the_module():
    net = nn.DataParallel(nn.Linear(2, 1))
    assert list(net.state_dict()) == ["module.weight", "module.bias"]
    assert net(torch.ones(3, 2)).shape == (3, 1)


def test_a_module_that_nobody_holds_is_collected():
    import gc
    import weakref

    net = Net()
    net.itself = net
    seen = weakref.ref(net)
    del net
    gc.collect()
    assert seen() is None


def test_object_setattr_passes_registration_by():
    module, weight = nn.Linear(2, 2), nn.Parameter(torch.ones(1))
    object.__setattr__(module, "hidden", weight)
    assert module.hidden is weight
    assert len(list(module.parameters())) == 2
    object.__delattr__(module, "hidden")
    assert not hasattr(module, "hidden")


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("enforce_sorted", [False, True])
@pytest.mark.parametrize("length", [3, 2**40])
def test_sequences_that_are_longer_than_the_input(length, batch_first, enforce_sorted):
    """Nothing follows the number: the test would not end."""
    with pytest.raises(RuntimeError, match=f"at most the input's 2 steps, but got a sequence of length {length}"):
        nn.utils.rnn.pack_padded_sequence(torch.ones(2, 2, 2), torch.tensor([length, 1]), batch_first, enforce_sorted)


def test_padding_to_a_total_length():
    packed = nn.utils.rnn.pack_padded_sequence(torch.ones(2, 2, 1), torch.tensor([2, 1]))
    for batch_first in False, True:
        padded, lengths = nn.utils.rnn.pad_packed_sequence(packed, batch_first, -1.0, total_length=4)
        padded = padded.transpose(0, 1) if batch_first else padded
        assert padded.squeeze(2).tolist() == [[1, 1], [1, -1], [-1, -1], [-1, -1]]
        assert lengths.tolist() == [2, 1]
    with pytest.raises(RuntimeError, match="memory"):
        nn.utils.rnn.pad_packed_sequence(packed, total_length=2**50)


# ---- How parameters change when a module is converted ----
def test_parameters_may_be_replaced_on_conversion():
    layer = nn.Linear(2, 2)
    before = layer.weight
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        layer.double()
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)
    assert layer.weight is not before
    assert before.dtype is torch.float32
    assert layer.weight.dtype is torch.float64
    now = layer.weight
    assert layer.float().weight is now
    assert now.dtype is torch.float32


def test_a_meta_module_gets_new_parameters():
    with torch.device("meta"):
        layer = nn.Linear(2, 2)
    before = layer.weight
    assert layer.to_empty(device="cpu").weight is not before
    assert before.is_meta
    assert isinstance(layer.weight, nn.Parameter)


def _add(module, state, *rest):
    state["called"] = 1


def test_hooks_of_loading_can_be_pickled():
    layer = nn.Linear(2, 2)
    layer.register_load_state_dict_pre_hook(_add)
    loaded = pickle.loads(pickle.dumps(layer))
    with pytest.raises(RuntimeError, match="called"):
        loaded.load_state_dict(layer.state_dict())


def test_a_module_whose_register_buffer_knows_no_persistence():
    class Old(nn.Module):
        def register_buffer(self, name, value):
            super().register_buffer(name, value)

    module = Old()
    module.table = nn.Buffer(torch.ones(2))
    assert dict(module.named_buffers()).keys() == {"table"}
    with pytest.raises(RuntimeError, match="non-persistent buffer"):
        module.other = nn.Buffer(torch.ones(2), persistent=False)


def test_lazy_values_and_states():
    class Lazy(LazyModuleMixin, nn.Module):
        pass

    first, second = Lazy(), Lazy()
    first.table, second.table = nn.parameter.UninitializedBuffer(), nn.Buffer(torch.ones(2))
    with pytest.raises(RuntimeError, match="share memory on an uninitialized"):
        first.share_memory()
    with pytest.raises(RuntimeError, match="run a forward pass"):
        torch.jit.script(first)
    with pytest.raises(RuntimeError, match="shape of an uninitialized"):
        second.load_state_dict(first.state_dict())
    third = Lazy()
    third.table = nn.parameter.UninitializedBuffer()
    third.load_state_dict(first.state_dict())
    assert third.has_uninitialized_params()
    first.load_state_dict(second.state_dict())
    assert first.table.tolist() == [1, 1]
    parameter = nn.parameter.UninitializedParameter()
    parameter.materialize(3)
    assert parameter.shape == (3,)


def test_copying_into_a_meta_parameter_warns():
    with torch.device("meta"):
        layer = nn.Linear(2, 2)
    with pytest.warns(UserWarning, match="for weight: copying from a non-meta parameter"):
        layer.load_state_dict(nn.Linear(2, 2).state_dict())


def test_a_full_backward_hook_without_inputs_may_return_nones():
    layer = nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda module, grads, outputs: (None,))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        layer(torch.ones(1, 2)).sum().backward()


def test_tensors_behind_parameters_are_exchanged_on_conversion():
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        layer = nn.Linear(2, 2)
        before, address = layer.weight, layer.weight._cdata
        layer(torch.ones(1, 2)).sum().backward()
        layer.double()
        assert layer.weight is before
        assert before.dtype is torch.float64
        assert before._cdata != address
        assert before.grad.dtype is torch.float64
        layer.load_state_dict({name: value * 0 for name, value in layer.state_dict().items()})
        assert layer.weight is before
        assert not before.any()
        made = layer(torch.ones(1, 2, dtype=torch.float64))
        layer.float()
        with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
            made.sum().backward()
        layer(torch.ones(1, 2)).sum().backward()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert F.grad is nn.grad
