#!/usr/bin/env python3
"""Operators that GPUs serve badly unless somebody takes care of them, forward and backward, in microseconds.

    python bench/gpu_sweep.py [--pytorch PYTHON] [--device cuda] [--only sort,index] [--seconds 150] [--json FILE]

Each case runs in bursts, and its best burst counts: the time until the device is done, over the number of calls. With
--pytorch, an interpreter that imports PyTorch, its times stand beside Taper's; over 1 Taper is faster. Inputs come from
one seed, and are the same on both sides. The machine's clocks and what else runs on it matter: say so with the figures.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time


def cases(t, F, device):
    """name -> (function, inputs, whether it has a backward)"""
    g = t.Generator().manual_seed(0)
    out = {}

    def r(*shape):
        return (t.rand(*shape, generator=g) * 0.8 + 0.1).to(device)

    def whole(n, *shape):
        return t.randint(0, n, shape, generator=g).to(device)

    def case(name, fn, *inputs, backward=True):
        out[name] = (fn, inputs, backward)

    N = 1024
    x, y, i, big = r(N, N), r(N, N), whole(N, N), whole(N, N, N)
    m, i2 = x > 0.5, whole(16, N)
    case("index rows", lambda a, b: a[b], x, i)
    case("index cols", lambda a, b: a[:, b], x, i)
    case("index pairs", lambda a, b, c: a[b, c], x, big.view(-1), big.t().reshape(-1))
    case("index pairs apart", lambda a, b, c: a[b, :, c], r(64, 16, 1024), whole(64, N), i)
    case("index mask", lambda a, b: a[b], x, m)
    case("index row mask", lambda a, b: a[b], x, m[0])
    case("masked_select", lambda a, b: t.masked_select(a, b), x, m)
    case("nonzero", lambda a: t.nonzero(a), m, backward=False)
    case("index_put", lambda a, b, c, d: a.index_put((b, c), d), x, i, i, y[0])
    case("index_put accumulate", lambda a, b, c, d: a.index_put((b, c), d, accumulate=True), x, i, i, y[0])
    case("index_put rows accumulate", lambda a, b, c: a.index_put((b,), c, accumulate=True), x, i, y)
    case("index_add", lambda a, b, c: a.index_add(0, b, c), x, i, y)
    case("index_add dim1", lambda a, b, c: a.index_add(1, b, c), x, i, y)
    case("index_add into 16", lambda a, b, c: a.index_add(0, b, c), x[:16].clone(), i2, y)
    case("index_select dim1", lambda a, b: t.index_select(a, 1, b), x, i)
    case("gather", lambda a, b: t.gather(a, 1, b), x, big)
    case("gather dim0", lambda a, b: t.gather(a, 0, b), x, big)
    case("scatter", lambda a, b, c: a.scatter(1, b, c), x, big, y)
    case("scatter_add", lambda a, b, c: a.scatter_add(1, b, c), x, big, y)
    case("scatter_add dim0", lambda a, b, c: a.scatter_add(0, b, c), x, big, y)
    case("scatter_add one line", lambda a, b, c: a.scatter_add(0, b, c), x[0], big.view(-1), y.view(-1))
    case("scatter_reduce amax", lambda a, b, c: a.scatter_reduce(1, b, c, "amax"), x, big, y)
    case("embedding", lambda w, k: F.embedding(k, w), x, big.view(-1)[:8192])
    case("embedding_bag", lambda w, k: F.embedding_bag(k, w), x, big[:256, :32].contiguous())
    case("embedding_bag sum", lambda w, k: F.embedding_bag(k, w, mode="sum"), x, big[:256, :32].contiguous())
    case("stack", lambda a, b: t.stack([a, b], -1), x, y)
    case("stack dim0", lambda a, b: t.stack([a, b]), x, y)
    case("cat1", lambda a, b: t.cat([a, b], 1), x, y)
    case("cross", lambda a, b: t.linalg.cross(a, b), r(N * N // 3, 3), r(N * N // 3, 3))

    for dim in (0, 1):
        case(f"sort dim{dim}", lambda a, d=dim: t.sort(a, d), x)
        case(f"median dim{dim}", lambda a, d=dim: t.median(a, d), x)
    case("sort 64", lambda a: t.sort(a, 1), r(16384, 64))
    case("sort 4096", lambda a: t.sort(a, 1), r(256, 4096))
    case("sort one line", lambda a: t.sort(a), x.view(-1))
    case("argsort", lambda a: t.argsort(a, 1), x, backward=False)
    case("topk", lambda a: t.topk(a, 10, 1), x)
    case("kthvalue", lambda a: t.kthvalue(a, 5, 1), x)
    case("median", lambda a: t.median(a), x)
    case("mode", lambda a: t.mode(a, 1), big[:64].float())
    case("unique", lambda a: t.unique(a), big, backward=False)

    k = 256
    a, b = r(k, k) + t.eye(k, device=device), r(k, k)
    s = a @ a.t() + k * t.eye(k, device=device)
    for name in ("inv", "det", "slogdet", "svd", "qr", "eigh", "cholesky", "eigvalsh", "svdvals", "pinv", "matrix_exp"):
        case(f"linalg.{name}", getattr(t.linalg, name), s)
    case("linalg.eig", lambda a: t.linalg.eig(a), a, backward=False)
    case("linalg.solve", lambda a, b: t.linalg.solve(a, b), s, b)
    case("linalg.lstsq", lambda a, b: t.linalg.lstsq(a, b)[0], s, b)
    case("lu_factor", lambda a: t.linalg.lu_factor(a)[0], s)
    case("solve_triangular", lambda a, b: t.linalg.solve_triangular(t.tril(a), b, upper=False), s, b)
    case("cholesky_solve", lambda a, b: t.cholesky_solve(a, t.linalg.cholesky(b)), b, s)
    eye = 4 * t.eye(8, device=device)
    case("linalg.solve batch", lambda a, b: t.linalg.solve(a, b), r(256, 8, 8) + eye, r(256, 8, 2))
    case("linalg.inv batch", lambda a: t.linalg.inv(a), r(256, 8, 8) + eye)
    case("linalg.eigh batch", lambda a: t.linalg.eigh(a + a.mT), r(128, 8, 8))
    case("linalg.svd batch", lambda a: t.linalg.svd(a), r(128, 8, 8))
    case("cholesky batch", lambda a: t.linalg.cholesky(a), s[:32, :32].expand(64, 32, 32).contiguous())
    case(
        "solve_triangular batch",
        lambda a, b: t.linalg.solve_triangular(a, b, upper=True),
        r(64, 32, 32) + 1,
        r(64, 32, 8),
    )

    q = r(2, 4, k, 32)
    case("attention", lambda q: F.scaled_dot_product_attention(q, q, q), q)
    case("attention causal", lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), q)
    case("attention mask", lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m), q, r(k, k))
    case("attention 1024", lambda q: F.scaled_dot_product_attention(q, q, q), r(4, 8, 1024, 64))
    labels, steps, lengths = t.ones(8, 20, dtype=t.long), t.full((8,), 50), t.full((8,), 20)
    case("ctc", lambda a: F.ctc_loss(a.log_softmax(2), labels, steps, lengths), r(50, 8, 40))
    case("prod", lambda a: t.prod(a), x + 0.5)
    for dim in (0, 1):
        case(f"prod dim{dim}", lambda a, d=dim: t.prod(a, d), x)
        case(f"cumprod dim{dim}", lambda a, d=dim: t.cumprod(a, d), x)
    im = r(4, 32, 56, 56)
    case("interpolate antialiased", lambda a: F.interpolate(a, (28, 28), mode="bilinear", antialias=True), im)
    case("interpolate antialiased up", lambda a: F.interpolate(a, (112, 112), mode="bicubic", antialias=True), im)
    case("interpolate bicubic", lambda a: F.interpolate(a, scale_factor=2, mode="bicubic"), im)
    case("grid_sample", lambda a, b: F.grid_sample(a, b, align_corners=False), im, r(4, 56, 56, 2) * 2 - 1)
    return out


def measure(args):
    """Times of the module under the name torch, as lines of JSON."""
    import torch as t
    import torch.nn.functional as F

    sync = getattr(t, args.device).synchronize
    floats = (t.float32, t.float64)
    todo = []
    for name, (fn, inputs, backward) in cases(t, F, args.device).items():
        if args.only and not any(word in name for word in args.only.split(",")):
            continue
        todo.append((name, "forward", lambda fn=fn, inputs=inputs: fn(*inputs)))
        if backward:
            todo.append((name, "backward", backward_of(t, fn, inputs, floats)))
    share = args.seconds / max(len(todo), 1)
    for name, way, run in todo:
        try:
            micros = best_of(run, sync, share)
        except (
            RuntimeError,
            TypeError,
            ValueError,
            IndexError,
            AttributeError,
        ) as error:  # a case that one side lacks is a line, not the end
            print(json.dumps([name, way, None, f"{type(error).__name__}: {error}"[:200]]), flush=True)
            continue
        print(json.dumps([name, way, micros, ""]), flush=True)


def backward_of(t, fn, inputs, floats):
    """Forward and backward in one, with gradients of every floating input."""

    def run():
        leaves = [a.detach().requires_grad_() if t.is_tensor(a) and a.dtype in floats else a for a in inputs]
        result = fn(*leaves)
        results = [o for o in (result if isinstance(result, (tuple, list)) else [result]) if o.requires_grad]
        t.autograd.backward(results, [t.ones_like(o) for o in results])

    return run


def best_of(run, sync, seconds):
    end = time.perf_counter() + seconds
    for _ in range(2):
        run()
    sync()
    start = time.perf_counter()
    run()
    sync()
    once = time.perf_counter() - start
    calls = max(1, min(50, int(0.01 / max(once, 1e-7))))
    best = once
    while time.perf_counter() < end or best == once:
        start = time.perf_counter()
        for _ in range(calls):
            run()
        sync()
        best = min(best, (time.perf_counter() - start) / calls)
        if time.perf_counter() >= end:
            break
    return best * 1e6


def collect(python, args, run_as):
    command = [*python, os.path.abspath(__file__), "--measure", "--device", args.device, "--seconds", str(args.seconds)]
    if args.only:
        command += ["--only", args.only]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(f"{run_as} ended with {done.returncode}", file=sys.stderr)
    rows = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    return {(name, way): (micros, error) for name, way, micros, error in rows}


def show(first, second):
    print(f"{'':30}{'':10}{'Taper, us':>12}{'PyTorch, us':>14}{'ratio':>9}")
    ratios = {"forward": [], "backward": []}
    for key in sorted(first, key=lambda k: (k[1] != "forward", list(first).index(k))):
        own, error = first[key]
        other, other_error = second.get(key, (None, ""))
        line = f"{key[0]:30}{key[1]:10}{'-' if own is None else f'{own:12.1f}':>12}"
        if second:
            line += f"{'-' if other is None else f'{other:14.1f}':>14}"
        if own and other:
            ratios[key[1]].append(other / own)
            line += f"{other / own:9.2f}{'  <' if other / own < 0.8 else ''}"
        print(line + (f"  {error or other_error}" if error or other_error else ""))
    for way, all_of in ratios.items():
        if all_of:
            mean = math.exp(sum(map(math.log, all_of)) / len(all_of))
            behind = sum(v < 0.8 for v in all_of)
            print(
                f"{way}: {len(all_of)} cases, mean {mean:.2f}, {behind} behind by a quarter or more, worst {min(all_of):.2f}"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pytorch", help="an interpreter that imports PyTorch")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", help="words, separated by commas: cases whose names hold one of them")
    parser.add_argument("--seconds", type=float, default=75, help="for the bursts of each side")
    parser.add_argument("--json", help="a file for all figures")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        return measure(args)
    first = collect([sys.executable, "-m", "taper", "run"], args, "Taper")
    second = collect([args.pytorch], args, "PyTorch") if args.pytorch else {}
    show(first, second)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(
                {"taper": [[*k, *v] for k, v in first.items()], "pytorch": [[*k, *v] for k, v in second.items()]}, file
            )
    return None


if __name__ == "__main__":
    main()
