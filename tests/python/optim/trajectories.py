#!/usr/bin/env python3
"""Trajectories of every optimiser under every combination of its options that matters. Run under PyTorch this file
writes trajectories.json.gz, what test_optim.py compares with:   python tests/python/optim/trajectories.py The numbers
of the problem come from a formula, so that no generator has to agree."""

import gzip
import itertools
import json
import math
import pathlib

RECORDED = pathlib.Path(__file__).with_name("trajectories.json.gz")
STEPS = 12
SHAPES = {"Muon": [(3, 2), (2, 4)]}


def combinations(**options):
    return [dict(zip(options, values)) for values in itertools.product(*options.values())]


CASES = {
    "Adadelta": combinations(lr=[1.0, 0.1], rho=[0.9, 0.5], weight_decay=[0, 0.1], maximize=[False, True]),
    "Adafactor": combinations(
        lr=[0.01, 0.5],
        beta2_decay=[-0.8, -0.3],
        eps=[(None, 1e-3), (1e-3, 1e-2)],
        d=[1.0, 2.0],
        weight_decay=[0, 0.1],
        maximize=[False, True],
    ),
    "Adagrad": combinations(
        lr=[0.01], lr_decay=[0, 0.1], weight_decay=[0, 0.1], initial_accumulator_value=[0, 0.3], maximize=[False, True]
    ),
    "Adam": combinations(
        betas=[(0.9, 0.999), (0.3, 0.5)],
        weight_decay=[0, 0.1],
        amsgrad=[False, True],
        maximize=[False, True],
        decoupled_weight_decay=[False, True],
    ),
    "AdamW": combinations(weight_decay=[0.01, 0], amsgrad=[False, True], maximize=[False, True]),
    "Adamax": combinations(betas=[(0.9, 0.999), (0.5, 0.5)], weight_decay=[0, 0.1], maximize=[False, True]),
    "ASGD": combinations(lambd=[1e-4, 0.1], t0=[1e6, 5], weight_decay=[0, 0.1], maximize=[False, True]),
    "Muon": combinations(weight_decay=[0, 0.1], nesterov=[True, False], adjust_lr_fn=[None, "match_rms_adamw"]),
    "NAdam": combinations(
        betas=[(0.9, 0.999), (0.5, 0.5)],
        weight_decay=[0, 0.1],
        momentum_decay=[0.004, 0.1],
        decoupled_weight_decay=[False, True],
        maximize=[False, True],
    ),
    "RAdam": combinations(
        betas=[(0.9, 0.999), (0.5, 0.9)],
        weight_decay=[0, 0.1],
        decoupled_weight_decay=[False, True],
        maximize=[False, True],
    ),
    "RMSprop": combinations(
        alpha=[0.99, 0.3], weight_decay=[0, 0.1], momentum=[0, 0.9], centered=[False, True], maximize=[False, True]
    ),
    "Rprop": combinations(etas=[(0.5, 1.2), (0.3, 2.0)], step_sizes=[(1e-6, 50), (1e-2, 0.2)], maximize=[False, True]),
    "SGD": combinations(lr=[0.1], momentum=[0, 0.9], dampening=[0, 0.5], weight_decay=[0, 0.1], maximize=[False, True])
    + combinations(lr=[0.1], momentum=[0.9], nesterov=[True], weight_decay=[0, 0.1], maximize=[False, True]),
}


def numbers(shape, seed):
    return [math.sin(1.7 * i + 2.3 * seed) * (1 + 0.1 * i) + 0.05 for i in range(math.prod(shape))]


def tensor(torch, shape, seed, dtype):
    return torch.tensor(numbers(shape, seed), dtype=torch.float64).reshape(shape).to(dtype)


def problem(torch, name, options, dtype):
    """An optimiser over two groups, one of them with half the learning rate."""
    shapes = SHAPES.get(name, [(3, 2), (4,)])
    params = [tensor(torch, shape, i, dtype).requires_grad_() for i, shape in enumerate(shapes)]
    make = getattr(torch.optim, name)
    lr = make(params, **options).param_groups[0]["lr"]
    return params, make([{"params": params[:1]}, {"params": params[1:], "lr": lr / 2}], **options)


def run(torch, params, optimiser, dtype, steps=STEPS, start=0):
    """The second parameter goes without gradient in some steps, and a learning rate changes on the way."""
    for step in range(start, start + steps):
        for i, p in enumerate(params):
            p.grad = None if i == 1 and step % 5 == 3 else tensor(torch, tuple(p.shape), 10 + 3 * step + i, dtype)
        if step == 6:
            optimiser.param_groups[0]["lr"] *= 0.5
        optimiser.step()


def values(torch, params, optimiser):
    flat = lambda t: [float("%.12g" % v) for v in t.detach().to(torch.float64).reshape(-1).tolist()]  # noqa: E731
    state = {
        str(k): {name: flat(s) for name, s in entries.items()} for k, entries in optimiser.state_dict()["state"].items()
    }
    return {"params": [flat(p) for p in params], "state": state}


def main():
    import torch

    recorded = {}
    for name, cases in CASES.items():
        recorded[name] = []
        for options in cases:
            params, optimiser = problem(torch, name, options, torch.float64)
            run(torch, params, optimiser, torch.float64)
            groups = [{key: value for key, value in group.items()} for group in optimiser.state_dict()["param_groups"]]
            recorded[name].append({"options": options, "groups": groups, **values(torch, params, optimiser)})
    with gzip.GzipFile(RECORDED, "wb", mtime=0) as file:
        file.write(json.dumps(recorded, separators=(",", ":")).encode())


if __name__ == "__main__":
    main()
