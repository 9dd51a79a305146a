"""torch.utils.checkpoint. TAPER_TEST_MODULE=torch runs the same tests against PyTorch."""

import contextlib
import importlib
import os

import pytest

NAME = os.environ.get("TAPER_TEST_MODULE", "taper")
torch = importlib.import_module(NAME)
module = importlib.import_module(NAME + ".utils.checkpoint")
checkpoint = module.checkpoint


def leaf(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("reentrant", [True, False])
def test_the_same_gradients(reentrant):
    calls = []

    def f(x, factor, y):
        calls.append(1)
        return (x.exp() * factor * y).sin()

    x, y = leaf(0.5, 1.0), leaf(2.0, 3.0)
    f(x, 2, y).sum().backward()
    expected = [x.grad.clone(), y.grad.clone()]
    x.grad = y.grad = None
    calls.clear()
    out = checkpoint(f, x, 2, y, use_reentrant=reentrant)
    assert len(calls) == 1
    (out * 1).sum().backward()
    assert len(calls) == 2
    assert torch.equal(x.grad, expected[0])
    assert torch.equal(y.grad, expected[1])


@pytest.mark.parametrize("reentrant", [True, False])
def test_random_numbers_come_again(reentrant):
    def f(x):
        return x * torch.rand(3, dtype=torch.float64)

    x = leaf(1.0, 2.0, 3.0)
    torch.manual_seed(3)
    out = checkpoint(f, x, use_reentrant=reentrant)
    after = torch.rand(1)
    out.sum().backward()
    assert torch.allclose(x.grad, out.detach() / x.detach())
    torch.manual_seed(3)
    torch.rand(3, dtype=torch.float64)
    assert torch.equal(after, torch.rand(1))


@pytest.mark.parametrize("reentrant", [True, False])
def test_several_results_and_exceptions(reentrant):
    x = leaf(1.0, 2.0)
    a, b = checkpoint(lambda x: (x * 2, x * x), x, use_reentrant=reentrant)
    (a + b).sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]

    def fails(x):
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        checkpoint(fails, x, use_reentrant=reentrant)


def test_keywords_and_contexts():
    seen = []

    @contextlib.contextmanager
    def note(name):
        seen.append(name)
        yield

    x = leaf(1.0)
    out = checkpoint(
        lambda x, *, n: (x * n).exp(), x, n=3, use_reentrant=False, context_fn=lambda: (note("forward"), note("again"))
    )
    assert seen == ["forward"]
    out.sum().backward()
    assert seen == ["forward", "again"]
    with pytest.raises(ValueError, match="Unexpected keyword arguments"):
        checkpoint(lambda x: x, x, n=3, use_reentrant=True)
    with pytest.warns(UserWarning, match="use_reentrant"):
        checkpoint(lambda x: x * 2, x)


def test_parameters_that_are_not_arguments():
    w = leaf(2.0)
    x = leaf(3.0)
    checkpoint(lambda x: (x * w).exp(), x.detach(), use_reentrant=False).sum().backward()
    assert torch.allclose(w.grad, 3 * (w * x).exp().detach())


def test_double_backward_without_reentry():
    x = leaf(2.0)
    y = checkpoint(lambda x: (x**3).sin(), x, use_reentrant=False)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    x2 = leaf(2.0)
    (g2,) = torch.autograd.grad((x2**3).sin().sum(), x2, create_graph=True)
    (h2,) = torch.autograd.grad(g2.sum(), x2)
    assert torch.allclose(g, g2)
    assert torch.allclose(h, h2)


def test_what_differs_the_second_time_is_an_error():
    state = {"n": 2}

    def f(x):
        state["n"] += 1
        return (x.repeat(state["n"])).exp().sum()

    x = leaf(1.0, 2.0)
    out = checkpoint(f, x, use_reentrant=False)
    with pytest.raises(module.CheckpointError, match="different metadata"):
        out.backward()


def test_sequences():
    steps = [torch.sin, torch.exp, torch.tanh, torch.sigmoid, torch.sin]
    x, y = leaf(0.3, 0.7), leaf(0.3, 0.7)
    plain = x
    for f in steps:
        plain = f(plain)
    plain.sum().backward()
    module.checkpoint_sequential(steps, 2, y, use_reentrant=False).sum().backward()
    assert torch.allclose(x.grad, y.grad)


@pytest.mark.parametrize("before", ["layer", "reentrant", "not reentrant"])
@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients_reach_what_comes_before(before, reentrant):
    torch.manual_seed(0)
    first, second, x = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2), torch.ones(1, 2, requires_grad=True)
    hidden = first(x) if before == "layer" else checkpoint(first, x, use_reentrant=before == "reentrant")
    checkpoint(second, hidden, use_reentrant=reentrant).sum().backward()
    found = first.weight.grad.clone()
    first.weight.grad = None
    second(first(x)).sum().backward()
    torch.testing.assert_close(found, first.weight.grad)
