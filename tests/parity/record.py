#!/usr/bin/env python3
"""Asks PyTorch for the answers that check.py and check_nn.py hold a module to, and writes them anew.

  python record.py                          the recorded calls of operators, asked again of the PyTorch that runs this
  python record.py --nn                     those of layers, optimisers and schedules
  python record.py --add nn.functional.elu  also PyTorch's own samples of an operator (torch.testing, which needs the
                                            package expecttest)
  python record.py --to FOLDER              write there instead of beside this file

It runs with PyTorch, never with Taper. It prints each call whose answer is another one than before; a call that PyTorch
refuses now is left out."""

import argparse
import collections
import gzip
import hashlib
import json
import os
import types
import warnings

import numpy as np
import recorded
from recorded import dec, expect, flat, grads, problem, resolve, weight

DTYPES = ("float32", "float64", "bfloat16", "int64", "complex64", "bool")  # of samples that --add asks for

ap = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
ap.add_argument("--nn", action="store_true")
ap.add_argument("--add", default="")
ap.add_argument("--to", default=recorded.HERE)
A = ap.parse_args()
warnings.filterwarnings("ignore")
STEM = "nn_" if A.nn else ""
recorded.A = types.SimpleNamespace(device="cpu")
torch, DB = recorded.read("torch", recorded.HERE, STEM)
arrays = {}


# ---- Values as recorded.py reads them ----
def tensor(t):
    plain = t.detach().resolve_conj().resolve_neg().contiguous()
    array = plain.view(torch.uint16).numpy() if t.dtype is torch.bfloat16 else plain.numpy()
    name = hashlib.sha256(str((array.dtype, array.shape)).encode() + array.tobytes()).hexdigest()[:16]
    arrays[name] = array
    return {"t": name, "dt": str(t.dtype).split(".")[-1], "rg": t.requires_grad}


def enc(v):
    if isinstance(v, torch.Tensor):
        return tensor(v)
    if isinstance(v, tuple):
        return {"tu": [enc(i) for i in v]}
    if isinstance(v, list):
        return {"l": [enc(i) for i in v]}
    if isinstance(v, dict):
        return {"m": {k: enc(i) for k, i in v.items()}}
    if isinstance(v, complex):
        return {"c": [v.real, v.imag]}
    if isinstance(v, torch.dtype):
        return {"d": str(v).split(".")[-1]}
    if isinstance(v, torch.memory_format):
        return {"mf": str(v).split(".")[-1]}
    if isinstance(v, torch.device):
        return {"dev": 1}
    if isinstance(v, slice):
        return {"s": [enc(i) for i in (v.start, v.stop, v.step)]}
    if v is Ellipsis:
        return {"e": 1}
    if v is None or isinstance(v, (bool, int, float, str)):
        return v
    raise TypeError(f"no way to record a {type(v).__name__}")


def again(v):
    """A recorded value whose arrays are to be kept."""
    return enc(dec(v, []))


# ---- Operators ----
def gradients(out, leaves):
    outs = [t for t in flat(out) if t.requires_grad and t.is_floating_point()]
    loss = sum((t.to(torch.float64) * weight(t)).sum() for t in outs)
    return enc(list(torch.autograd.grad(loss, leaves, allow_unused=True)))


def answer_operator(c):
    """The case with PyTorch's answers to its call."""
    if c["dtype"] == "seed":
        torch.manual_seed(42)
        return {**c, "out": enc(eval(c["expr"], {"torch": torch}))}
    call = {**c, "args": again(c["args"]), "kwargs": again(c["kwargs"])}
    leaves = []
    args, kwargs = dec(c["args"], leaves), dec(c["kwargs"], leaves)
    if c["dtype"] == "error":
        try:
            resolve(c["op"])(*args, **kwargs)
        except Exception as error:
            return {**call, "raises": type(error).__name__, "message": str(error)}
        raise RuntimeError("no error any more")
    out = resolve(c["op"])(*args, **kwargs)
    made = {**call, "out": enc(out)}
    if "grads" in c:
        made["grads"] = gradients(out, leaves)
    return made


def samples(name):
    """Calls of PyTorch's own samples of an operator."""
    from torch.testing._internal.common_methods_invocations import op_db

    for info in (i for i in op_db if i.name == name):
        for dtype in (getattr(torch, d) for d in DTYPES):
            if dtype not in info.supported_dtypes("cpu"):
                continue
            tracked = info.supports_autograd and dtype.is_floating_point
            for sample in info.sample_inputs("cpu", dtype, requires_grad=tracked):
                case = {"op": name, "variant": info.variant_test_name, "dtype": str(dtype).split(".")[-1]}
                case.update(args=enc([sample.input, *sample.args]), kwargs=enc(sample.kwargs))
                recorded.ARR = collections.ChainMap(arrays, recorded.ARR)
                if tracked:
                    case["grads"] = True
                case["method"] = info.method_variant is not None
                yield case


# ---- Layers, optimisers, schedules ----
def answer_layer(c):
    layer = getattr(torch.nn, c["op"])(*dec(c["ctor"][0], []), **dec(c["ctor"][1], [])).train(c["training"])
    layer.load_state_dict(dec(c["state"], []))
    out = layer(*dec(c["args"], []), **dec(c["kwargs"], []))
    made = {key: again(c[key]) for key in ("state", "args", "kwargs")}
    made.update(ctor=[again(x) for x in c["ctor"]], keys=list(layer.state_dict()), repr=repr(layer))
    made["out"] = {"tu": [enc(t) for t in flat(out)]}
    if "grads" in c:
        named = dict(layer.named_parameters())
        loss = sum((t.to(torch.float64) * weight(t)).sum() for t in flat(out) if t.requires_grad)
        found = torch.autograd.grad(loss, list(named.values()), allow_unused=True) if named else []
        made["grads"] = {name: enc(g) for name, g in zip(named, found) if g is not None}
    return {**c, **made}


def answer_optimiser(c):
    parameters = problem()
    optimiser = getattr(torch.optim, c["op"])(parameters, **dec(c["kwargs"], []))
    for step in range(6):
        for p, g in zip(parameters, grads(step)):
            p.grad = g
        optimiser.step()
    state = optimiser.state_dict()
    made = {"out": enc(parameters), "kwargs": again(c["kwargs"]), "groups": sorted(state["param_groups"][0])}
    return {**c, **made, "state": sorted(next(iter(state["state"].values()), {}))}


def answer_schedule(c):
    optimiser = torch.optim.SGD(problem(), lr=0.1, momentum=0.9)
    schedule = eval(c["expr"], {"S": torch.optim.lr_scheduler, "o": optimiser})
    rates = []
    for _ in range(12):
        rates.append([optimiser.param_groups[0]["lr"], schedule.get_last_lr()[0]])
        optimiser.step()
        schedule.step()
    return {**c, "out": rates}


ANSWER = {"module": answer_layer, "optim": answer_optimiser, "schedule": answer_schedule}


# ---- All of them ----
def changed(before, now):
    """What of an answer is another one than before; '' where nothing is."""
    for key in ("raises", "repr", "keys", "groups"):
        if before.get(key) != now.get(key):
            return key
    if now.get("kind") == "schedule":
        return "" if np.allclose(before["out"], now["out"], rtol=0, atol=1e-9) else "learning rates"
    if "out" not in before or "out" not in now:
        return ""
    if isinstance(now["out"], dict) and "l" in now["out"]:  # parameters after steps
        return next(filter(None, (expect(dec_new(a), b) for a, b in zip(now["out"]["l"], before["out"]["l"]))), "")
    return expect(dec_new(now["out"]), before["out"])


def dec_new(v):
    """The value that was just recorded."""
    old, recorded.ARR = recorded.ARR, arrays
    try:
        return dec(v, [])
    finally:
        recorded.ARR = old


def main():
    kept, others = [], 0
    for before in [*DB["cases"], *(samples(A.add) if A.add else ())]:
        answer = ANSWER[before["kind"]] if A.nn else answer_operator
        try:
            now = answer(before)
        except Exception as error:
            print(f"left out: {before['op']} {before.get('variant', '')}: {type(error).__name__}: {str(error)[:120]}")
            continue
        what = changed(before, now)
        others += bool(what)
        if what:
            print(f"changed: {before['op']} {before.get('variant', '')} {before.get('dtype', '')}: {what[:160]}")
        kept.append(now)
    with gzip.open(os.path.join(A.to, STEM + "cases.json.gz"), "wt") as file:
        json.dump({"torch": torch.__version__, "cases": kept}, file)
    np.savez_compressed(os.path.join(A.to, STEM + "arrays.npz"), **arrays)
    print(f"{len(kept)} calls of PyTorch {torch.__version__}; {others} answers changed")


if __name__ == "__main__":
    main()
