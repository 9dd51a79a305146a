"""What check.py, check_nn.py and record.py share: their arguments, the recorded calls, and what of an answer differs.

A value in a call is a number, a text, None, or a dict with one key that says what it is: `t` a tensor (its array's
name, `dt` its dtype, `rg` whether it requires a gradient), `l` a list, `tu` a tuple, `m` a dict, `c` a complex number,
`d` a dtype, `dev` a device, `mf` a memory format, `s` a slice, `e` an ellipsis."""

import argparse
import gzip
import importlib
import json
import math
import os
import warnings

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
A = torch = ARR = None  # the arguments, the module that is asked, the arrays: start() sets them


def start(doc, stem):
    """(arguments, module, calls): those of `stem` + cases.json.gz."""
    global A, torch, ARR
    warnings.filterwarnings("ignore")
    ap = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=doc)
    ap.add_argument("--module", default="taper")
    ap.add_argument("--cases", default=HERE)
    ap.add_argument("--device", default="cpu")
    ap.add_argument("--op", default="")
    ap.add_argument("--kind", default="")
    ap.add_argument("--dtype", default="")
    ap.add_argument("--json", default="")
    ap.add_argument("--require", default="")
    ap.add_argument("--quiet", action="store_true")
    A = ap.parse_args()
    return A, *read(A.module, A.cases, stem)


def read(module, folder, stem):
    """(module, calls) of a folder."""
    global torch, ARR
    torch = importlib.import_module(module)
    ARR = np.load(os.path.join(folder, stem + "arrays.npz"))
    with gzip.open(os.path.join(folder, stem + "cases.json.gz")) as file:
        return torch, json.load(file)


TOL = dict(
    float32=(2e-4, 1e-5),
    float64=(1e-7, 1e-8),
    bfloat16=(2e-2, 2e-2),
    float16=(4e-3, 4e-3),
    complex64=(2e-4, 1e-5),
    complex128=(1e-7, 1e-8),
)


def counts(line):
    """(name, {kind: [right, all]}) of a line of a list."""
    name, *kinds = line.split()
    return name, {kind: [int(n) for n in of.split("/")] for kind, of in (k.split("=") for k in kinds)}


def fewer(file, found):
    """What a list has that was not found: names, cases, or cases that were right."""
    bad = []
    for name, kinds in map(counts, open(file)):
        for kind, (right, of) in kinds.items():
            now = found.get(name, {}).get(kind, [0, 0])
            if now[0] < right or now[1] < of:
                bad.append(f"{name} {kind}: {now[0]}/{now[1]}, not {right}/{of}")
    return bad


def resolve(name):
    o = torch
    for p in name.split("."):
        o = getattr(o, p, None)
        if o is None:
            break
    if callable(o):
        return o
    o = getattr(torch.Tensor, name, None)
    return o if callable(o) else None


def arr(v):
    a = ARR[v["t"]]
    if v["dt"] == "bfloat16":
        a = (a.astype(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return a


def dec(v, leaves):
    if isinstance(v, list):
        return [dec(i, leaves) for i in v]
    if not isinstance(v, dict):
        return v
    if "t" in v:
        a = arr(v)
        t = torch.from_numpy(np.ascontiguousarray(a).copy().reshape(a.shape))
        if v["dt"] == "bfloat16":
            t = t.to(torch.bfloat16)
        if A.device != "cpu":
            t = t.to(A.device)
        if v["rg"]:
            t = t.requires_grad_(True)
            leaves.append(t)
        return t
    if "l" in v:
        return [dec(i, leaves) for i in v["l"]]
    if "tu" in v:
        return tuple(dec(i, leaves) for i in v["tu"])
    if "m" in v:
        return {k: dec(i, leaves) for k, i in v["m"].items()}
    if "c" in v:
        return complex(*v["c"])
    if "d" in v:
        return getattr(torch, v["d"])
    if "dev" in v:
        return A.device
    if "mf" in v:
        return getattr(torch, v["mf"])
    if "s" in v:
        return slice(*[dec(i, leaves) for i in v["s"]])
    if "e" in v:
        return Ellipsis
    raise ValueError(v)


def flat(v):
    if isinstance(v, torch.Tensor):
        return [v]
    if isinstance(v, (list, tuple)):
        return [t for i in v for t in flat(i)]
    if isinstance(v, dict):
        return [t for i in v.values() for t in flat(i)]
    return []


def name_of(dt):
    return str(dt).split(".")[-1]


def to_np(t):
    t = t.detach()
    if A.device != "cpu":
        t = t.cpu()
    if name_of(t.dtype) == "bfloat16":
        t = t.to(torch.float32)
    for f in ("resolve_conj", "resolve_neg"):
        if hasattr(t, f):
            t = getattr(t, f)()
    return t.numpy()


def differs(got, want, tol=1.0):
    """'' if the tensor got matches the recorded want, else what differs."""
    if name_of(got.dtype) != want["dt"]:
        return f"dtype {name_of(got.dtype)}, not {want['dt']}"
    g, w = to_np(got), arr(want)
    if tuple(g.shape) != tuple(w.shape):
        return f"shape {tuple(g.shape)}, not {tuple(w.shape)}"
    if w.dtype.kind in "biu":
        return "" if np.array_equal(g, w) else f"values {g.ravel()[:4]}, not {w.ravel()[:4]}"
    r, a = TOL[want["dt"]]
    with np.errstate(all="ignore"):
        ok = np.isclose(g, w, rtol=r * tol, atol=a * tol, equal_nan=True)
    if ok.all():
        return ""
    i = np.flatnonzero(~ok.ravel())[0]
    return f"{(~ok).sum()} of {ok.size} values, first {g.ravel()[i]!r}, not {w.ravel()[i]!r}"


def expect(got, want):
    if isinstance(want, dict) and "t" in want:
        return differs(got, want) if isinstance(got, torch.Tensor) else f"{type(got).__name__}, not a tensor"
    if isinstance(want, dict) and "tu" in want and any(isinstance(x, dict) and "t" in x for x in want["tu"]):
        g = flat(got)
        if len(g) != len(want["tu"]):
            return f"{len(g)} tensors, not {len(want['tu'])}"
        return next((d for d in map(differs, g, want["tu"]) if d), "")
    w = dec(want, [])
    if isinstance(w, float):
        return (
            "" if got == w or (w != w and got != got) or math.isclose(got, w, rel_tol=1e-4) else f"{got!r}, not {w!r}"
        )
    if isinstance(w, (tuple, list)):
        w, got = list(w), list(got)
    return "" if got == w else f"{got!r}, not {w!r}"


def weight(t):
    n = t.numel()
    w = (((np.arange(n, dtype=np.float64) * 7 + 3) % 11 - 5) / 4).reshape(tuple(t.shape))
    w = torch.from_numpy(w)
    return w if A.device == "cpu" else w.to(t.device)


def problem():
    """The parameters that optimisers and schedules are given."""
    g = np.random.RandomState(0)
    return [
        torch.from_numpy(g.randn(4, 3).astype("f4")).requires_grad_(),
        torch.from_numpy(g.randn(3).astype("f4")).requires_grad_(),
    ]


def grads(step):
    """Their gradients before a step."""
    g = np.random.RandomState(100 + step)
    return [torch.from_numpy(g.randn(4, 3).astype("f4")), torch.from_numpy(g.randn(3).astype("f4"))]
