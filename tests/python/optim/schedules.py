#!/usr/bin/env python3
"""Learning rates (and momenta) of every schedule, step by step. Run under PyTorch this file writes schedules.json.gz,
what test_lr_scheduler.py compares with:   python tests/python/optim/schedules.py"""

import gzip
import json
import math
import pathlib
import warnings

RECORDED = pathlib.Path(__file__).with_name("schedules.json.gz")
STEPS = 50
# S is lr_scheduler, U swa_utils, o the optimiser; two groups.
PLAIN = [
    "S.LambdaLR(o, lambda e: 0.95 ** e)",
    "S.LambdaLR(o, [lambda e: 1 / (1 + e), lambda e: e])",
    "S.MultiplicativeLR(o, lambda e: 0.9 + 0.01 * e)",
    "S.StepLR(o, 3)",
    "S.StepLR(o, 1, gamma=0.5)",
    "S.StepLR(o, 7, gamma=0.3)",
    "S.MultiStepLR(o, [2, 5, 5, 9], gamma=0.5)",
    "S.MultiStepLR(o, [0.5 * 20, 0.75 * 30, 30.0], gamma=0.3)",
    "S.ConstantLR(o)",
    "S.ConstantLR(o, 0.25, 4)",
    "S.ConstantLR(o, 0.7, 31)",
    "S.LinearLR(o)",
    "S.LinearLR(o, 0.1, 0.8, 7)",
    "S.LinearLR(o, 1.0, 0.07, 43)",
    "S.ExponentialLR(o, 0.9)",
    "S.PolynomialLR(o)",
    "S.PolynomialLR(o, 9, 2.0)",
    "S.PolynomialLR(o, 47, 0.9)",
    "S.CosineAnnealingLR(o, 5)",
    "S.CosineAnnealingLR(o, 4, eta_min=0.01)",
    "S.CosineAnnealingLR(o, 47, eta_min=0.003)",
    "S.CosineAnnealingWarmRestarts(o, 3)",
    "S.CosineAnnealingWarmRestarts(o, 2, T_mult=2, eta_min=0.001)",
    "S.CyclicLR(o, 0.01, 0.1, step_size_up=3)",
    "S.CyclicLR(o, [0.01, 0.02], [0.1, 0.3], step_size_up=2, step_size_down=4, mode='triangular2')",
    "S.CyclicLR(o, 0.01, 0.1, step_size_up=3, mode='exp_range', gamma=0.9, cycle_momentum=False)",
    "S.CyclicLR(o, 0.01, 0.1, step_size_up=3, scale_fn=lambda x: 1 / (5 ** (x * 0.1)), scale_mode='iterations')",
    "S.OneCycleLR(o, 0.5, total_steps=60)",
    "S.OneCycleLR(o, [0.5, 0.1], epochs=5, steps_per_epoch=11, three_phase=True, anneal_strategy='linear', pct_start=0.2)",
    "S.OneCycleLR(o, 0.5, total_steps=50, cycle_momentum=False, div_factor=10.0, final_div_factor=100.0)",
    "S.SequentialLR(o, [S.LinearLR(o, 0.1, 1.0, 3), S.ExponentialLR(o, 0.9)], [3])",
    "S.SequentialLR(o, [S.ConstantLR(o, 0.1, 2), S.CosineAnnealingLR(o, 5), S.StepLR(o, 2)], [2, 8])",
    "S.SequentialLR(o, [S.SequentialLR(o, [S.ConstantLR(o, 0.1, 2), S.LinearLR(o)], [2]), S.ExponentialLR(o, 0.9)], [6])",
    "S.ChainedScheduler([S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.9)])",
    "S.ChainedScheduler([S.StepLR(o, 2), S.CosineAnnealingLR(o, 7)], optimizer=o)",
    "U.SWALR(o, swa_lr=0.05, anneal_epochs=6)",
    "U.SWALR(o, swa_lr=[0.05, 0.02], anneal_strategy='linear', anneal_epochs=4)",
    "U.SWALR(o, 0.05, anneal_epochs=0)",
]
PLATEAU = [
    "S.ReduceLROnPlateau(o)",
    "S.ReduceLROnPlateau(o, patience=1)",
    "S.ReduceLROnPlateau(o, 'max', factor=0.5, patience=0, cooldown=2, min_lr=[0.01, 0.3])",
    "S.ReduceLROnPlateau(o, threshold=0.3, threshold_mode='abs', patience=1, min_lr=1e-3)",
    "S.ReduceLROnPlateau(o, mode='max', threshold_mode='abs', patience=2)",
]
FIGURES = [1.0, 0.9, 0.95, 0.8, 0.85, 0.82, 0.9, 0.5, 0.6, 0.55, 0.7, 0.5, 0.51, 0.52, 0.3, 0.3]
FIGURES = [figure / (1 + i) for i in range(4) for figure in FIGURES][:STEPS]
TO_EPOCHS = [e for e in PLAIN if not any(word in e for word in ("Sequential", "Chained"))]  # these take no epoch
RESUMED = [e for e in PLAIN if not any(word in e for word in ("Sequential", "Chained", "SWALR"))]
TENSORS = [e for e in PLAIN if not any(word in e for word in ("SWALR", "Cycl"))]


def mathematics():
    """Bits of this machine's mathematical functions: rates can be compared to the last bit where these agree."""
    return [[math.cos(math.pi * i / 47), 0.3 ** (i / 7), math.log(1 + i, 3)] for i in range(50)]


def optimiser(torch, kind="SGD", rate=float):
    params = [torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)]
    options = {"lr": rate(0.1), "momentum": 0.9} if kind == "SGD" else {"lr": rate(0.1)}
    return getattr(torch.optim, kind)([{"params": params[:1]}, {"params": params[1:], "lr": rate(0.4)}], **options)


def make(torch, text, o):
    return eval(text, {"S": torch.optim.lr_scheduler, "U": torch.optim.swa_utils, "o": o})


def now(o, schedule):
    momenta = [float(g["momentum"] if "momentum" in g else g["betas"][0]) for g in o.param_groups]
    return [[float(g["lr"]) for g in o.param_groups], momenta, [float(lr) for lr in schedule.get_last_lr()]]


def plain(torch, text, kind="SGD", figures=None, rate=float):
    """Every step's rates, momenta and last rates."""
    o = optimiser(torch, kind, rate)
    schedule = make(torch, text, o)
    rows = [now(o, schedule)] if figures is None else []
    for step in range(STEPS):
        o.step()
        schedule.step(*([] if figures is None else [figures[step]]))
        rows.append(now(o, schedule))
    return rows


def to_epochs(torch, text):
    """Steps to given epochs, back and forth."""
    o = optimiser(torch)
    schedule, rows = make(torch, text, o), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for epoch in (1, 4, 2, 7, 0, 12, 26, 31, 45):
            o.step()
            schedule.step(epoch)
            rows.append(now(o, schedule))
    return rows


def resumed(torch, text):
    """Six steps, then another schedule with last_epoch=6 on the same optimiser, as scripts resume."""
    o = optimiser(torch)
    schedule = make(torch, text, o)
    for _ in range(6):
        o.step()
        schedule.step()
    schedule = make(torch, text[:-1] + ", last_epoch=6)", o)
    rows = [now(o, schedule)]
    for _ in range(4):
        o.step()
        schedule.step()
        rows.append(now(o, schedule))
    return rows


def tensors(torch, text):
    """Rates that are tensors."""
    return plain(torch, text, rate=torch.tensor)


def plainly(value):
    """A state's value as JSON holds it, with the types of numbers."""
    if isinstance(value, dict):
        return {str(key): plainly(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plainly(item) for item in value]
    return f"{type(value).__name__} {value!r}"


def states(torch, text):
    """What state_dict() gives after some steps, and after a step to an epoch where the schedule takes one."""
    o = optimiser(torch)
    schedule, figures = make(torch, text, o), text in PLATEAU
    for step in range(7):
        o.step()
        schedule.step(*([FIGURES[step]] if figures else []))
    rows = [list(plainly(schedule.state_dict()).items())]
    if text in TO_EPOCHS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            schedule.step(11)
        rows.append(list(plainly(schedule.state_dict()).items()))
    return json.loads(json.dumps(rows))


def main():
    import torch

    recorded = {
        "mathematics": mathematics(),
        "plain": {e: plain(torch, e) for e in PLAIN},
        "adam": {e: plain(torch, e, "Adam") for e in PLAIN if "Cycl" in e},
        "plateau": {e: plain(torch, e, figures=FIGURES) for e in PLATEAU},
        "epochs": {e: to_epochs(torch, e) for e in TO_EPOCHS},
        "resumed": {e: resumed(torch, e) for e in RESUMED},
        "tensors": {e: tensors(torch, e) for e in TENSORS},
        "states": {e: states(torch, e) for e in PLAIN + PLATEAU},
    }
    with gzip.GzipFile(RECORDED, "wb", mtime=0) as file:
        file.write(json.dumps(recorded, separators=(",", ":")).encode())


if __name__ == "__main__":
    main()
