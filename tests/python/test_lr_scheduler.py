"""torch.optim.lr_scheduler and swa_utils: every schedule against recorded rates of PyTorch; state, resuming, warnings,
errors."""

import copy
import gzip
import json
import math
import pathlib
import sys
import warnings

import pytest
import taper as torch

sys.path.insert(0, str(pathlib.Path(__file__).parent / "optim"))
import schedules  # noqa: E402

S, U = torch.optim.lr_scheduler, torch.optim.swa_utils
with gzip.open(schedules.RECORDED) as file:
    RECORDED = json.load(file)
SAME_MATHEMATICS = schedules.mathematics() == RECORDED["mathematics"]


def same(got, wanted):
    """Bit by bit where this machine's cosines and powers are those of the recording."""
    flat = lambda v: [x for item in v for x in flat(item)] if isinstance(v, list) else [v]  # noqa: E731
    got, wanted = flat(got), flat(wanted)
    assert len(got) == len(wanted)
    for i, (a, b) in enumerate(zip(got, wanted)):
        near = math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-15)
        assert a == b if SAME_MATHEMATICS else near, (i, a, b)


@pytest.mark.parametrize("text", schedules.PLAIN)
def test_rates_are_pytorchs(text):
    same(schedules.plain(torch, text), RECORDED["plain"][text])


@pytest.mark.parametrize("text", RECORDED["adam"])
def test_momentum_is_cycled_as_beta(text):
    same(schedules.plain(torch, text, "Adam"), RECORDED["adam"][text])


@pytest.mark.parametrize("text", schedules.PLATEAU)
def test_plateaus(text):
    same(schedules.plain(torch, text, figures=schedules.FIGURES), RECORDED["plateau"][text])


@pytest.mark.parametrize("text", schedules.TO_EPOCHS)
def test_steps_to_an_epoch(text):
    same(schedules.to_epochs(torch, text), RECORDED["epochs"][text])


@pytest.mark.parametrize("text", schedules.RESUMED)
def test_last_epoch_resumes(text):
    same(schedules.resumed(torch, text), RECORDED["resumed"][text])


@pytest.mark.parametrize("text", schedules.TENSORS)
def test_rates_that_are_tensors(text):
    same(schedules.tensors(torch, text), RECORDED["tensors"][text])


@pytest.mark.parametrize("text", schedules.PLAIN + schedules.PLATEAU)
def test_states_hold_what_pytorchs_hold(text):
    assert schedules.states(torch, text) == RECORDED["states"][text]


@pytest.mark.parametrize("text", schedules.PLAIN + schedules.PLATEAU)
def test_state_dicts_continue(text):
    figures = [1.0] * 20
    o = schedules.optimiser(torch)
    schedule = schedules.make(torch, text, o)
    arguments = (lambda i: [figures[i]]) if text in schedules.PLATEAU else (lambda i: [])

    def steps(o, schedule, numbers):
        rows = []
        for i in numbers:
            o.step()
            schedule.step(*arguments(i))
            rows.append(schedules.now(o, schedule))
        return rows

    steps(o, schedule, range(5))
    saved = copy.deepcopy([o.state_dict(), schedule.state_dict()])
    assert "optimizer" not in saved[1]
    wanted = steps(o, schedule, range(5, 12))
    other = schedules.optimiser(torch)
    resumed = schedules.make(torch, text, other)
    other.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    same(steps(other, resumed, range(5, 12)), wanted)


def test_state_of_a_callable_object():
    class Decay:
        def __init__(self, by):
            self.by = by

        def __call__(self, epoch):
            return self.by**epoch

    saved = S.LambdaLR(schedules.optimiser(torch), Decay(0.5)).state_dict()
    assert saved["lr_lambdas"] == [{"by": 0.5}] * 2
    other = S.LambdaLR(schedules.optimiser(torch), Decay(0.9))
    other.load_state_dict(saved)
    assert other.lr_lambdas[0].by == 0.5
    assert list(S.StepLR(schedules.optimiser(torch), 2).state_dict()) == [
        "step_size",
        "gamma",
        "base_lrs",
        "last_epoch",
        "_step_count",
        "_is_initial",
        "_get_lr_called_within_step",
        "_last_lr",
    ]


def test_a_users_own_schedule():
    class Halves(S.LRScheduler):
        def get_lr(self):
            return [base * 0.5**self.last_epoch for base in self.base_lrs]

    o = schedules.optimiser(torch)
    schedule = Halves(o)
    assert isinstance(schedule, S.LRScheduler)
    assert issubclass(S._LRScheduler, S.LRScheduler)
    assert schedule.optimizer is o
    o.step()
    schedule.step()
    assert schedule.get_last_lr() == [0.05, 0.2]
    assert o.param_groups[1]["initial_lr"] == 0.4
    with pytest.raises(NotImplementedError):
        S.LRScheduler(schedules.optimiser(torch))


def test_a_tensor_rate_stays_that_tensor():
    lr = torch.tensor(0.1)
    o = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=lr)
    schedule = S.ExponentialLR(o, 0.5)
    o.step()
    schedule.step()
    assert o.param_groups[0]["lr"] is lr
    assert lr.item() == pytest.approx(0.05)
    assert schedule.base_lrs[0].item() == pytest.approx(0.1)


def caught(action):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        action()
    return [str(w.message) for w in found]


def test_order_warnings():
    def right():
        o = schedules.optimiser(torch)
        schedule = S.StepLR(o, 1)
        o.step()
        schedule.step()

    def wrong():
        S.StepLR(schedules.optimiser(torch), 1).step()

    def overridden():
        o = schedules.optimiser(torch)
        schedule = S.StepLR(o, 1)
        o.step = lambda: None
        schedule.step()

    def asked():
        o = schedules.optimiser(torch)
        schedule = S.StepLR(o, 1)
        schedule.get_lr()

    assert caught(right) == []
    assert caught(wrong)[0].startswith("Detected call of `lr_scheduler.step()` before `optimizer.step()`.")
    assert caught(overridden)[0].startswith(
        "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization."
    )
    assert caught(asked) == ["To get the last learning rate computed by the scheduler, please use `get_last_lr()`."]


@pytest.mark.parametrize(
    "text,error,message",
    [
        ("S.StepLR(5, 1)", TypeError, "int is not an Optimizer"),
        ("S.StepLR(o, 1, last_epoch=3)", KeyError, "param 'initial_lr' is not specified in param_groups[0]"),
        ("S.LambdaLR(o, [lambda e: 1])", ValueError, "Expected 2 lr_lambdas, but got 1"),
        ("S.ConstantLR(o, 2)", ValueError, "factor expected to be between 0 and 1."),
        (
            "S.LinearLR(o, 0)",
            ValueError,
            "Starting multiplicative factor expected to be greater than 0 and less or equal to 1.",
        ),
        ("S.LinearLR(o, 0.5, 3)", ValueError, "Ending multiplicative factor expected to be between 0 and 1."),
        ("S.CosineAnnealingWarmRestarts(o, 0)", ValueError, "Expected positive integer T_0, but got 0"),
        ("S.CosineAnnealingWarmRestarts(o, 3).step(-1)", ValueError, "Expected non-negative epoch, but got -1"),
        ("S.CyclicLR(o, 0.1, 0.2, mode='x')", ValueError, "mode is invalid and scale_fn is None"),
        (
            "S.CyclicLR(o, [0.1], 0.2)",
            ValueError,
            "base_lr must have the same length as optimizer.param_groups. base_lr has 1 values, param_groups has 2.",
        ),
        ("S.OneCycleLR(o, 0.1)", ValueError, "You must define either total_steps OR (epochs AND steps_per_epoch)"),
        ("S.OneCycleLR(o, 0.1, total_steps=-1)", ValueError, "Expected positive integer total_steps, but got -1"),
        (
            "S.OneCycleLR(o, 0.1, total_steps=10, pct_start=2)",
            ValueError,
            "Expected float between 0 and 1 pct_start, but got 2",
        ),
        (
            "S.OneCycleLR(o, 0.1, total_steps=10, anneal_strategy='x')",
            ValueError,
            "anneal_strategy must be one of 'cos' or 'linear', instead got x",
        ),
        ("S.ReduceLROnPlateau(o, factor=1.0)", ValueError, "Factor should be < 1.0."),
        ("S.ReduceLROnPlateau(o, mode='x')", ValueError, "mode x is unknown!"),
        ("S.ReduceLROnPlateau(o, min_lr=[1])", ValueError, "expected 2 min_lrs, got 1"),
        ("S.SequentialLR(o, [], [])", ValueError, "SequentialLR expects at least one scheduler"),
        ("S.SequentialLR(o, [S.StepLR(o, 1)], [3])", ValueError, "to be one more than the number of milestone points"),
        (
            "S.SequentialLR(o, [S.ReduceLROnPlateau(o), S.StepLR(o, 1)], [3])",
            ValueError,
            "SequentialLR does not support `ReduceLROnPlateau`",
        ),
        ("S.ChainedScheduler([])", ValueError, "ChainedScheduler expects at least one scheduler to be chained"),
        (
            "U.SWALR(o, 0.1, anneal_strategy='x')",
            ValueError,
            "anneal_strategy must be one of 'cos' or 'linear', instead got x",
        ),
        ("U.SWALR(o, 0.1, anneal_epochs=-1)", ValueError, "anneal_epochs must be equal or greater than 0, got -1"),
        (
            "U.get_ema_avg_fn(1.5)",
            ValueError,
            "Invalid decay value 1.5 provided. Please provide a value in [0,1] range.",
        ),
    ],
)
def test_errors(text, error, message):
    with pytest.raises(error) as raised:
        schedules.make(torch, text, schedules.optimiser(torch))
    assert message in str(raised.value)


def test_one_cycle_ends():
    o = schedules.optimiser(torch)
    schedule = S.OneCycleLR(o, 0.1, total_steps=2)
    with pytest.raises(ValueError, match="Tried to step 3 times. The specified number of total steps is 2"):
        for _ in range(4):
            o.step()
            schedule.step()


# ---- Averages ----
def models(values):
    model = torch.nn.Linear(2, 1)
    for value in values:
        with torch.no_grad():
            model.weight.fill_(value)
            model.bias.fill_(-value)
        yield model


@pytest.mark.parametrize(
    "options,wanted",
    [
        ({}, 3.0),
        ({"multi_avg_fn": U.get_ema_multi_avg_fn(0.75)}, 2.375),
        ({"avg_fn": U.get_ema_avg_fn(0.75)}, 2.375),
        ({"avg_fn": U.get_swa_avg_fn()}, 3.0),
        ({"avg_fn": lambda average, new, n: average * n + new, "use_buffers": True}, 12.0),
    ],
)
def test_averages_of_models(options, wanted):
    averaged = None
    for model in models([1.0, 2.0, 6.0] if wanted != 2.375 else [1.0, 2.0, 5.75]):
        averaged = averaged or U.AveragedModel(model, **options)
        averaged.update_parameters(model)
    assert averaged.n_averaged.item() == 3
    assert torch.allclose(averaged.module.weight, torch.full((1, 2), wanted))
    assert averaged.module is not model
    assert list(averaged.state_dict()) == ["n_averaged", "module.weight", "module.bias"]
    x = torch.ones(1, 2)
    assert torch.equal(averaged(x), averaged.module(x))
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn should be provided"):
        U.AveragedModel(model, avg_fn=U.get_swa_avg_fn(), multi_avg_fn=U.get_swa_multi_avg_fn())


def test_batch_norms_are_computed_anew():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    data = [(torch.randn(8, 3), 1) for _ in range(4)]
    model.eval()
    U.update_bn(data, model)
    assert torch.allclose(model[1].running_mean, model[0](torch.cat([x for x, _ in data])).mean(0), atol=1e-6)
    assert not model.training
    assert model[1].momentum == 0.1
    assert model[1].num_batches_tracked.item() == 4
    averaged = U.AveragedModel(model, multi_avg_fn=U.get_ema_multi_avg_fn(0.5), use_buffers=True)
    averaged.update_parameters(model)
    model[1].running_mean += 1
    averaged.update_parameters(model)
    assert torch.allclose(averaged.module[1].running_mean, model[1].running_mean - 0.5)
    assert averaged.module[1].num_batches_tracked.item() == 4
