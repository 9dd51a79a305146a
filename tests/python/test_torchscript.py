"""TorchScript files that PyTorch wrote (tests/scripts): what torch.jit.load gives of them behaves as its modules do."""

import copy
import io
import os

import pytest
import taper as torch

FOLDER = os.path.join(os.path.dirname(__file__), "..", "scripts")
NAMES = sorted(name[:-3] for name in os.listdir(FOLDER) if name.endswith(".pt") and not name.endswith(".io.pt"))


def path(name):
    return os.path.join(FOLDER, name + ".pt")


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
        yield from tensors(item)


def check(module, name):
    known = torch.load(path(name + ".io"))
    out = list(tensors(module(*known["inputs"])))
    assert len(out) == len(known["outputs"])
    for got, wanted in zip(out, known["outputs"]):
        torch.testing.assert_close(got.detach(), wanted, rtol=1e-5, atol=2e-5)
    if known["grads"]:
        loss = sum((t * t).sum() for t in out if t.requires_grad)
        for got, wanted in zip(torch.autograd.grad(loss, list(module.parameters())), known["grads"]):
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=2e-5)
    state = module.state_dict()
    assert list(state) == list(known["state"])
    for key, wanted in known["state"].items():
        torch.testing.assert_close(state[key], wanted, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("name", NAMES)
def test_gives_what_pytorch_gave(name):
    check(torch.jit.load(path(name)), name)


@pytest.mark.parametrize("name", NAMES)
def test_saved_again(name):
    held = io.BytesIO()
    torch.jit.save(torch.jit.load(path(name)), held)
    held.seek(0)
    check(torch.jit.load(held), name)


def test_is_a_script_module():
    module = torch.jit.load(path("methods"), map_location="cpu")
    assert isinstance(module, torch.jit.ScriptModule)
    assert isinstance(module, torch.jit.RecursiveScriptModule)
    assert module.original_name == "Methods"
    assert "def forward" in module.code
    x = torch.ones(2, 3)
    torch.testing.assert_close(module.scaled(x, k=2), x @ module.w * 2)
    assert module.calls == 0
    module(x)
    assert module.calls == 1
    assert int(module.steps) == 1
    module.calls = 5
    assert copy.deepcopy(module).calls == 5
    module.train()
    assert module.training
    assert not module.eval().training
    with pytest.raises(AttributeError, match="nothing"):
        module.nothing


def test_trains():
    module = torch.jit.load(path("perceptron")).train()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    x, y = torch.randn(8, 4), torch.randn(8, 3)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = (module(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    other = torch.jit.load(path("perceptron"))
    other.load_state_dict(module.state_dict())
    torch.testing.assert_close(other(x), module(x))


def test_other_dtypes():
    module = torch.jit.load(path("convolutions_train")).double()
    assert module(torch.randn(2, 3, 12, 12, dtype=torch.float64)).dtype == torch.float64


def test_values_in_and_out():
    module = torch.jit.load(path("containers"))
    out, text, n = module({"a": torch.ones(2)}, name="words")
    assert list(out) == ["a", "a_seen"]
    assert text == "2 of WORDS"
    assert n == 1
    assert module.counts == {"a": 1, "b": 2}
    assert module.scale == [0.5, 1.5]
    assert module.absent is None
    with pytest.raises(RuntimeError, match="asked for an error: bad"):
        module({"a": torch.ones(2)}, "bad")
    with pytest.raises(TypeError, match="Expected a value of type 'Dict'"):
        module(3)
    with pytest.raises(RuntimeError, match="of type 'object'"):
        module(object())


def test_errors_say_where():
    with pytest.raises(RuntimeError, match=r"Linear\.forward \(.*, line \d+\)"):
        torch.jit.load(path("perceptron"))(torch.ones(2, 9))
    with open(path("perceptron"), "rb") as file:
        cut = file.read()[:1000]
    with pytest.raises((RuntimeError, OSError)):
        torch.jit.load(io.BytesIO(cut))
