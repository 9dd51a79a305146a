"""Layers of tables/layers: the C and the Python side give the same bits from the same seed, and constructors are what the table says."""
import importlib.util
import inspect
import os
import pathlib
import subprocess

import numpy as np
import pytest
import taper as torch
from taper import nn

BUILD = pathlib.Path(os.environ.get("TAPER_BUILD_DIR", pathlib.Path(__file__).resolve().parents[2] / "build"))


def _generated():
    spec = importlib.util.spec_from_file_location("layer_samples", BUILD / "generated" / "layer_samples.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = _generated()


def tensor(text):
    """As layer_tensor in tests/layer_samples.c."""
    maker, _, rest = text.partition("(")
    numbers = [int(x) for x in rest.rstrip(")").split(",") if x.strip()]
    if maker == "ints":
        return torch.randint(numbers[-2], numbers[-1], numbers[:-2])
    if maker == "pos":
        return torch.rand(numbers) * 1.8 + 0.2
    if maker == "prob":
        return torch.rand(numbers) * 0.8 + 0.1
    return torch.randn(numbers)


def results(make, inputs, evaluate, text):
    """What tests/layers_test.c writes down, computed here."""
    torch.manual_seed(0)
    module = make(torch, tensor).train(not evaluate)
    noted = {"text/repr": np.frombuffer(repr(module).encode(), dtype=np.uint8)}
    noted.update({f"state/{k}": v.numpy().copy() for k, v in module.state_dict().items()})
    torch.manual_seed(1)
    first, *rest = [tensor(x) for x in inputs]
    if "float64" in text:
        first = first.double()
    if first.is_floating_point():
        first.requires_grad_()
    torch.manual_seed(2)
    out = module(first * 1 if first.is_floating_point() else first, *rest)
    while isinstance(out, tuple):
        out = out[0]
    noted["out/0"] = out.detach().numpy().copy()
    if out.requires_grad:
        (out * out).sum().backward()
        if first.grad is not None:
            noted["grad/input"] = first.grad.numpy()
        noted.update({f"grad/{k}": p.grad.numpy() for k, p in module.named_parameters() if p.grad is not None})
    noted.update({f"after/{k}": v.numpy() for k, v in module.state_dict().items()})
    return noted


@pytest.fixture(scope="session")
def from_c(tmp_path_factory):
    program = BUILD / "tests" / "layers_test"
    if not program.exists():
        pytest.skip("the C tests are not built")
    file = tmp_path_factory.mktemp("layers") / "c.npz"
    run = subprocess.run([program], env={**os.environ, "TAPER_LAYER_RESULTS": str(file)}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    arrays = {}
    for key, value in np.load(file).items():
        layer, number, what = key.split("/", 2)
        arrays.setdefault((layer, int(number)), {})[what] = value
    return arrays


@pytest.mark.parametrize("layer,number,text,evaluate,in_c,make,inputs", TABLE.SAMPLES, ids=[f"{s[0]}-{s[1]}" for s in TABLE.SAMPLES])
def test_c_and_python_agree(from_c, layer, number, text, evaluate, in_c, make, inputs):
    ours = results(make, inputs, evaluate, text)
    if not in_c:
        return
    theirs = from_c[layer, number]
    assert bytes(theirs.pop("text/repr")).decode() == bytes(ours.pop("text/repr")).decode()
    assert list(theirs) == list(ours)
    for what, value in ours.items():
        assert value.dtype == theirs[what].dtype and value.shape == theirs[what].shape, what
        assert value.tobytes() == theirs[what].tobytes(), f"{what}: {value} in Python, {theirs[what]} in C"


def written(default):
    """A default as the table writes it; a function by its name."""
    default = getattr(default, "__name__", default)
    return "None" if default is None else str(default).lower() if isinstance(default, bool) else f'"{default}"' if isinstance(default, str) else str(default)


@pytest.mark.parametrize("layer", TABLE.CONSTRUCTORS)
def test_constructor_is_the_tables(layer):
    found, keyword = [], False
    for p in list(inspect.signature(getattr(nn, layer).__init__).parameters.values())[1:]:
        if p.kind == p.KEYWORD_ONLY and not keyword:
            found.append("*")
            keyword = True
        found.append((p.name, None if p.default is p.empty else p.default))
    expected = TABLE.CONSTRUCTORS[layer]
    if not expected:  # Module's own, or anything
        return
    names = [e if e == "*" else e[0] for e in expected]
    if layer == "LinearCrossEntropyLoss":  # device and dtype stand among its keywords
        assert sorted(names) == sorted(f if f == "*" else f[0] for f in found)
        return
    assert [f if f == "*" else f[0] for f in found] == names
    for e, f in zip(expected, found):
        if e != "*" and e[1] is not None and e[1] not in ("[]",):
            assert f[1] == eval(e[1], {"true": True, "false": False, "inf": float("inf")}) or written(f[1]) == e[1], f"{layer}({e[0]})"
