"""torch.vmap by rules: for the recorded calls of every operator, a batch in one call gives what the slices give one by
one, whichever of the tensors is the batch and wherever its dim stands; and gradients likewise."""

import gzip
import json
import os

import numpy as np
import pytest

import taper as torch
from taper import _C, _batched, vmap
from taper._batched import NeedsSlices
from taper._functorch.vmap import _process_batched_inputs, _run_slices, _stack

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity")
COUNT = 3


def load():
    with gzip.open(os.path.join(CASES, "cases.json.gz")) as file:
        return json.load(file)["cases"], np.load(os.path.join(CASES, "arrays.npz"))


class Reader:
    """A recorded case's arguments; tensors also in `tensors`."""

    def __init__(self, arrays):
        self.arrays, self.tensors = arrays, []

    def read(self, v):
        if isinstance(v, list):
            return [self.read(i) for i in v]
        if not isinstance(v, dict):
            return v
        if "t" in v:
            a = self.arrays[v["t"]]
            if v["dt"] == "bfloat16":
                raise LookupError
            self.tensors.append(torch.from_numpy(np.ascontiguousarray(a).copy().reshape(a.shape)))
            return self.tensors[-1]
        if "l" in v:
            return [self.read(i) for i in v["l"]]
        if "tu" in v:
            return tuple(self.read(i) for i in v["tu"])
        if "m" in v:
            return {k: self.read(i) for k, i in v["m"].items()}
        if "c" in v:
            return complex(*v["c"])
        if "d" in v:
            return getattr(torch, v["d"])
        raise LookupError


def function(name):
    thing = torch
    for part in name.split("."):
        thing = getattr(thing, part, None)
    thing = thing if callable(thing) else getattr(torch.Tensor, name, None)
    return thing if isinstance(thing, (_C.Function, _C.Method)) and not name.endswith("_") else None


def replaced(tree, old, new):
    if tree is old:
        return new
    if isinstance(tree, (list, tuple)):
        return type(tree)(replaced(part, old, new) for part in tree)
    return {k: replaced(v, old, new) for k, v in tree.items()} if isinstance(tree, dict) else tree


def batch_of(t, dim):
    """The tensor thrice, a little different where that keeps it what it is."""
    rows = [t * (1 - 0.05 * i) if t.is_floating_point() else t for i in range(COUNT)]
    return torch.stack(rows, dim)


def by_slices(call, batch, dim):
    size, dims, leaves, spec = _process_batched_inputs(dim, (batch,), call)
    rows, out_spec = _run_slices(call, leaves, dims, spec, size, "different", {})
    return _stack(rows, out_spec, call, 0, size)


def outputs(result):
    return (
        [t for part in result for t in outputs(part)]
        if isinstance(result, (list, tuple))
        else [result]
        if isinstance(result, torch.Tensor)
        else []
    )


def test_every_recorded_call():
    cases, arrays = load()
    checked = by_rule = 0
    ruled, wrong = set(), []
    slices = _batched._Call.slices

    def counted(call):
        counted.slow += 1
        return slices(call)

    _batched._Call.slices = counted
    try:
        for number, case in enumerate(cases):
            call = function(case["op"])
            if call is None or "raises" in case:
                continue
            reader = Reader(arrays)
            try:
                args, kwargs = reader.read(case["args"]), reader.read(case["kwargs"])
            except LookupError:
                continue
            for t in reader.tensors:
                if not t.numel():
                    continue
                dim = number % (t.dim() + 1)
                batch = batch_of(t, dim)

                def one(x):
                    return call(*replaced(args, t, x), **replaced(kwargs, t, x))

                try:
                    want = outputs(by_slices(one, batch, dim))
                except Exception:
                    continue
                counted.slow = 0
                try:
                    got = outputs(_run(one, batch, dim))
                except NeedsSlices:
                    continue
                except Exception as error:
                    if "randomness error mode" in str(error):
                        continue
                    got = [f"{type(error).__name__}: {error}"]
                checked += 1
                if not counted.slow:
                    by_rule += 1
                    ruled.add(case["op"])
                same = len(got) == len(want) and all(
                    isinstance(g, torch.Tensor)
                    and g.dtype == w.dtype
                    and g.shape == w.shape
                    and torch.allclose(g, w, rtol=1e-4, atol=1e-5, equal_nan=True)
                    for g, w in zip(got, want)
                )
                if not same:
                    wrong.append(
                        (
                            case["op"],
                            case["args"],
                            case["kwargs"],
                            [getattr(g, "shape", g) for g in got],
                            [w.shape for w in want],
                        )
                    )
    finally:
        _batched._Call.slices = slices
    assert not wrong, "\n".join(map(str, wrong[:20])) + f"\n{len(wrong)} of {checked}"
    assert by_rule > 2000
    assert len(ruled) > 200


def _run(call, batch, dim):
    from taper._functorch.vmap import _run_batch

    size, dims, leaves, spec = _process_batched_inputs(dim, (batch,), call)
    return _run_batch(call, leaves, dims, spec, {}, 0, size)


def assert_as_slices(function, *batches, in_dims=0):
    """One call for the batch, without falling back, and the slices one by one: the same."""
    from taper._functorch.vmap import _run_batch

    size, dims, leaves, spec = _process_batched_inputs(in_dims, batches, function)
    got = outputs(_run_batch(function, leaves, dims, spec, {}, 0, size))
    rows, out_spec = _run_slices(function, leaves, dims, spec, size, "different", {})
    for g, w in zip(got, outputs(_stack(rows, out_spec, function, 0, size)), strict=True):
        torch.testing.assert_close(g, w)


F = torch.nn.functional


def test_gradients_of_each_sample():
    torch.manual_seed(0)
    weight, bias, x, y = torch.randn(3, 4), torch.randn(3), torch.randn(6, 4), torch.randint(3, (6,))

    def loss(w, b, x, y):
        return F.cross_entropy(F.linear(x.unsqueeze(0), w, b).tanh(), y.unsqueeze(0))

    assert_as_slices(torch.func.grad(loss, argnums=(0, 1)), weight, bias, x, y, in_dims=(None, None, 0, 0))
    assert_as_slices(torch.func.hessian(lambda x: (x @ weight.T).exp().sum()), x)
    assert_as_slices(torch.func.jacrev(lambda x: F.linear(x, weight, bias).sin()), x)
    assert_as_slices(lambda x, t: torch.func.jvp(lambda x: x.cos() * x.sum(), (x,), (t,)), x, torch.randn(6, 4))
    assert_as_slices(lambda x: torch.func.vjp(torch.sin, x)[1](torch.ones(4)), x)


def test_a_gradient_outside_goes_through():
    w, x = torch.randn(4, requires_grad=True), torch.randn(5, 4)
    vmap(lambda x: (x * w).sum())(x).sum().backward()
    torch.testing.assert_close(w.grad, x.sum(0))


def test_a_model_of_models():
    """An ensemble: parameters and inputs are batches."""
    models = [
        torch.nn.Sequential(
            torch.nn.Linear(4, 5),
            torch.nn.ReLU() if hasattr(torch.nn, "ReLU") else torch.nn.Identity(),
            torch.nn.Linear(5, 2),
        )
        for _ in range(3)
    ]
    params, buffers = torch.func.stack_module_state(models)
    x = torch.randn(3, 7, 4)
    got = vmap(lambda p, b, x: torch.func.functional_call(models[0], (p, b), (x,)))(params, buffers, x)
    torch.testing.assert_close(got, torch.stack([m(part) for m, part in zip(models, x)]))


def test_levels_within_levels():
    a, b = torch.randn(3, 2), torch.randn(4, 2)
    torch.testing.assert_close(vmap(vmap(torch.dot, (None, 0)), (0, None))(a, b), a @ b.T)
    table = vmap(lambda x: vmap(lambda y: torch.func.grad(lambda x: (x * y).sum() ** 2)(x))(b))(a)
    torch.testing.assert_close(table, 2 * (a @ b.T).unsqueeze(-1) * b.unsqueeze(0))


def test_indexing_and_writing():
    x = torch.randn(5, 3, 4)
    assert_as_slices(lambda x: x[0], x)
    assert_as_slices(lambda x: x[:, 1:3, None], x)
    assert_as_slices(lambda x: x[..., -1] + x[0, 0], x)
    assert_as_slices(lambda x: x[torch.tensor([2, 0])], x)
    assert_as_slices(lambda x: x[x.new_zeros(2, dtype=torch.long)], x)

    def writes(x):
        y = x.clone()
        y[0] = 1
        y[:, 1] = x[:, 0]
        y += x.sum()
        return y.mul_(2)

    assert_as_slices(writes, x)


def test_what_needs_single_tensors_runs_slice_by_slice():
    x = torch.tensor([1.0, -2.0, 3.0])
    torch.testing.assert_close(vmap(lambda x: x if x.item() > 0 else -x)(x), x.abs())
    torch.testing.assert_close(vmap(lambda x: torch.tensor(float(x)) + 1)(x), x + 1)

    class Square(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    torch.testing.assert_close(vmap(Square.apply)(x), x * x)


def test_refusals():
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda x: x + torch.randn(2))(torch.randn(3, 2))
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda x: F.dropout(x))(torch.randn(3, 2))
    with pytest.raises(RuntimeError, match="self. not being vmapped over"):
        vmap(lambda x: torch.zeros(2).add_(x))(torch.randn(3, 2))
    state = torch.get_rng_state()
    assert vmap(lambda x: F.dropout(x, training=False))(torch.ones(3, 2)).equal(torch.ones(3, 2))
    assert state.equal(torch.get_rng_state())
