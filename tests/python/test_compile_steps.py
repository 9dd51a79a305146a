"""torch.compile of whole training steps: zero_grad, backward, clipping and the optimiser's step are part of the graph,
and give what the Python gives, bit by bit; what may change between steps (rates, gradients that were kept, hooks) is
seen."""

import copy
import gc
import subprocess
import sys
import warnings
import weakref
from pathlib import Path

import pytest
import taper as torch
import taper.nn.functional as F
from taper import nn


@pytest.fixture(autouse=True)
def no_warnings():
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.drop, self.head = nn.Dropout(0.2), nn.Linear(4 * 16, 5)

    def forward(self, x):
        return self.head(self.drop(F.gelu(self.norm(self.conv(x)))).flatten(1))


def batches(n, seed=3):
    generator = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(4, 2, 4, 4, generator=generator), torch.randint(0, 5, (4,), generator=generator)) for _ in range(n)
    ]


def pair(make_step, make_optimiser, make_model=Net):
    """Two models with the same values: (model, optimiser, step) as they are, and compiled."""
    first = make_model()
    sides = []
    for model in (first, copy.deepcopy(first)):
        optimiser = make_optimiser(model.parameters())
        sides.append([model, optimiser, make_step(model, optimiser)])
    sides[1][2] = torch.compile(sides[1][2], fullgraph=True)
    return sides


def run_both(sides, n=6, between=None):
    losses = []
    for model, optimiser, step in sides:
        torch.manual_seed(11)
        got = []
        for i, (x, y) in enumerate(batches(n)):
            got.append(step(x, y).item())
            if between:
                between(i, model, optimiser)
        losses.append(got)
    assert losses[0] == losses[1]
    for (name, a), (_, b) in zip(sides[0][0].state_dict().items(), sides[1][0].state_dict().items()):
        assert torch.equal(a, b), name
    for a, b in zip(sides[0][0].parameters(), sides[1][0].parameters()):
        assert (a.grad is None) == (b.grad is None)
        assert a.grad is None or torch.equal(a.grad, b.grad)


def plain_step(model, optimiser, **options):
    def step(x, y):
        optimiser.zero_grad(**options)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        return loss

    return step


OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-3),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3),
    "plain": lambda p: torch.optim.SGD(p, lr=0.05),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_whole_step(name):
    sides = pair(plain_step, OPTIMISERS[name])
    run_both(sides)
    assert sides[1][2].count == 1


def test_gradients_set_to_zero():
    sides = pair(lambda *both: plain_step(*both, set_to_none=False), OPTIMISERS["adam"])
    run_both(sides)
    assert sides[1][2].count == 2  # without gradients before, and with them


def test_rates_change_without_another_graph():
    schedules = {}

    def between(i, model, optimiser):
        if i == 1:
            schedules[optimiser] = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 4)
        if i > 1:
            schedules[optimiser].step()
        optimiser.param_groups[0]["betas"] = (0.9 - 0.1 * i, 0.95)

    sides = pair(plain_step, OPTIMISERS["adam"])
    run_both(sides, between=between)
    assert sides[1][2].count == 2  # the schedule watches steps: one more when it came


def test_clipping_and_its_norm():
    def make(model, optimiser):
        def step(x, y):
            optimiser.zero_grad()
            F.cross_entropy(model(x), y).backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimiser.step()
            nn.utils.clip_grad_value_(model.parameters(), 0.01)
            return norm

        return step

    sides = pair(make, OPTIMISERS["sgd"])
    run_both(sides)
    assert sides[1][2].count == 1


def test_gradients_that_are_kept_from_before():
    def make(model, optimiser):
        def step(x, y):
            loss = F.cross_entropy(model(x), y) / 2
            loss.backward()
            return loss

        return step

    def between(i, model, optimiser):
        if i % 3 == 2:
            optimiser.step()
            optimiser.zero_grad()

    sides = pair(make, OPTIMISERS["adam"])
    run_both(sides, n=8, between=between)
    assert sides[1][2].count == 1


def test_gradients_are_read_and_updates_written_by_hand():
    def make(model, optimiser):
        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad + 0.01 * p.grad.sign()
                    p.grad = None
            return loss

        return step

    sides = pair(make, OPTIMISERS["plain"])
    run_both(sides)
    assert sides[1][2].count == 1


def test_training_mode_and_frozen_parameters_are_seen():
    def between(i, model, optimiser):
        if i == 2:
            model.conv.weight.requires_grad_(False)
        if i == 4:
            model.eval()

    sides = pair(plain_step, OPTIMISERS["adam"])
    run_both(sides, n=7, between=between)
    assert sides[1][2].count == 3


def test_other_shapes_are_captured_anew():
    model, optimiser, step = pair(plain_step, OPTIMISERS["sgd"])[1]
    for n in (4, 3, 4, 3):
        assert step(torch.randn(n, 2, 4, 4), torch.randint(0, 5, (n,))).requires_grad
    assert step.count == 2


def test_the_loss_has_no_second_backward():
    model, optimiser, step = pair(plain_step, OPTIMISERS["sgd"])[1]
    for x, y in batches(3):
        loss = step(x, y)
        assert loss.requires_grad
        assert not loss.is_leaf
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()


def test_added_parameters_and_hooks_are_seen():
    model, optimiser, step = pair(plain_step, OPTIMISERS["sgd"])[1]
    extra = nn.Parameter(torch.ones(3))
    ((x, y),) = batches(1)
    step(x, y), step(x, y)
    extra.grad = torch.ones(3)
    optimiser.add_param_group({"params": [extra]})
    step(x, y)
    assert extra.grad is None
    seen = []
    optimiser.register_step_post_hook(lambda *args: seen.append(1))
    with pytest.raises(torch._dynamo.exc.Unsupported, match="list is changed"):
        step(x, y)
    assert seen == [1]


def test_a_tensor_of_the_arguments_takes_a_gradient():
    w = torch.randn(3, requires_grad=True)

    @torch.compile(fullgraph=True)
    def f(x):
        (x * w).sin().sum().backward()

    for _ in range(3):
        x = torch.randn(3, requires_grad=True)
        w.grad = None
        f(x)
        assert torch.equal(x.grad, (x * w).cos() * w)
        assert torch.equal(w.grad, (x * w).cos() * x)
    f(x)
    assert torch.equal(x.grad, 2 * ((x * w).cos() * w))
    assert f.count == 1


def test_total_norm_is_worked_out_anew():
    f = torch.compile(lambda x: nn.utils.get_total_norm([x, x * 2]), fullgraph=True)
    for _ in range(3):
        x = torch.randn(5)
        assert torch.equal(f(x), nn.utils.get_total_norm([x, x * 2]))


def test_gradients_of_a_forward_alone_are_never_stale():
    p = torch.ones(3, requires_grad=True)
    f = torch.compile(lambda: torch.zeros(()) if p.grad is None else (p.grad * 2).sum(), fullgraph=True)
    assert f() == 0
    assert f() == 0
    p.grad = torch.ones(3)
    assert f() == 6
    assert f() == 6
    p.grad = torch.full((3,), 2.0)
    assert f() == 12
    assert f.count == 2


def refused(make, words, **options):
    """The step runs as it is, with one warning that names the line, and raises with fullgraph."""
    model = Net()
    optimiser = OPTIMISERS["adam"](model.parameters())
    step, calls = torch.compile(make(model, optimiser), **options), batches(4)
    with pytest.warns(UserWarning, match=words) as told:
        for x, y in calls:
            step(x, y)
    assert len(told) == 1
    assert "test_compile_steps.py" in str(told[0].message)
    with pytest.raises(torch._dynamo.exc.Unsupported, match=words):
        torch.compile(make(model, optimiser), fullgraph=True)(*calls[0])


def test_what_a_graph_cannot_repeat():
    def values(model, optimiser):
        inner = plain_step(model, optimiser)
        return lambda x, y: inner(x, y).item()

    def schedule(model, optimiser):
        inner, schedule = plain_step(model, optimiser), torch.optim.lr_scheduler.StepLR(optimiser, 1)

        def step(x, y):
            loss = inner(x, y)
            schedule.step()
            return loss

        return step

    def hooks(model, optimiser):
        model.head.weight.register_hook(lambda g: g * 2)
        return plain_step(model, optimiser)

    def scaled(model, optimiser):
        scaler = torch.amp.GradScaler("cpu")

        def step(x, y):
            scaler.scale(F.cross_entropy(model(x), y)).backward()
            scaler.step(optimiser)
            scaler.update()

        return step

    refused(values, "looked at")
    refused(schedule, "schedule takes a step")
    refused(hooks, "hooks")
    refused(scaled, "a value of a tensor is looked at")


def test_options_that_the_step_reads_itself():
    def make(model, optimiser):
        def step(x, y):
            loss = F.cross_entropy(model(x), y) * optimiser.param_groups[0]["lr"]
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            return loss

        return step

    def between(i, model, optimiser):
        optimiser.param_groups[0]["lr"] *= 0.5

    run_both(pair(make, OPTIMISERS["sgd"]), n=4, between=between)


class Trainer:
    def __init__(self):
        torch.manual_seed(4)
        self.model = Net()
        self.optimiser = OPTIMISERS["adamw"](self.model.parameters())
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimiser, 2, 0.5)
        self.count, self.losses, self.scale = 0, [], 1.0

    def plain(self, x, y):
        self.optimiser.zero_grad()
        loss = F.cross_entropy(self.model(x), y) * self.scale
        loss.backward()
        self.optimiser.step()
        return loss

    compiled = torch.compile(plain, fullgraph=True)

    def train(self, step, n):
        torch.manual_seed(1)
        for x, y in batches(n):
            self.losses.append(step(x, y).item())
            self.count += 1
            self.schedule.step()
            if self.count == 5:
                self.scale = 2.0


def test_a_method_of_an_object_whose_other_attributes_change():
    a, b = Trainer(), Trainer()
    a.train(a.plain, 8), b.train(b.compiled, 8)
    assert a.losses == b.losses
    assert b.count == 8
    assert Trainer.compiled.count == 2  # before and after the other scale


def test_names_that_are_used_for_two_things():
    model = Net().eval()
    optimiser = OPTIMISERS["sgd"](model.parameters())
    names = {"model": model, "optimiser": optimiser, "torch": torch, "F": F}
    exec(
        "@torch.compile(fullgraph=True)\ndef step(x, y):\n    optimiser.zero_grad()\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()\n    optimiser.step()\n    return loss\n",
        names,
    )
    for x, y in batches(4):
        names["step"](x, y)  # `step` is a global name as well as the optimiser's method
    assert names["step"].count == 1


def test_a_collection_is_not_part_of_the_step():
    """What Python's collector frees while a step is captured may call functions of anybody's."""

    class Circle:
        pass

    gone, threshold = [], gc.get_threshold()
    x, y = batches(1)[0]
    try:
        for after in range(50, 1050, 100):  # allocations until the next collection: some fall into the capture
            step = pair(plain_step, OPTIMISERS["plain"])[1][2]
            gc.collect()
            gc.disable()
            circle = Circle()
            circle.itself = circle
            watched = weakref.ref(circle, lambda _: gone.append(1))
            del circle
            gc.set_threshold(after)
            gc.enable()
            step(x, y)
            assert gc.isenabled()
            assert watched
    finally:
        gc.enable()
        gc.set_threshold(*threshold)


def test_amp_inside():
    def make(model, optimiser):
        def step(x, y):
            optimiser.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimiser.step()
            return loss.detach()

        return step

    sides = pair(make, OPTIMISERS["adamw"])
    run_both(sides)
    assert sides[1][2].count == 1


def test_a_backward_that_leaves_the_call():
    before = torch.randn(3, requires_grad=True)

    @torch.compile
    def f(x):
        (x * 2).sum().backward()

    with pytest.warns(UserWarning, match="computed before"):
        for i in range(1, 4):
            f(before * 3)
            assert torch.equal(before.grad, torch.full((3,), 6.0 * i))


def test_what_changes_after_a_capture():
    p = torch.nn.Parameter(torch.ones(1))
    o = torch.optim.SGD([p], lr=0.125)

    @torch.compile
    def step(x):
        o.zero_grad()
        (p * x).sum().backward()
        o.step()

    x = torch.ones(1)
    step(x), step(x)
    o.load_state_dict(o.state_dict())  # new groups
    o.param_groups[0]["lr"] = 1.0
    step(x)
    assert p.item() == 1 - 0.25 - 1
    p.register_hook(lambda grad: grad * 5)
    with pytest.warns(UserWarning, match="a tensor with hooks"):
        step(x)
    assert p.item() == 1 - 0.25 - 1 - 5

    schedule = torch.optim.lr_scheduler.ExponentialLR(o, 0.5)
    rate = torch.compile(lambda x: x * schedule.get_last_lr()[0] + schedule.last_epoch)
    for i in range(3):
        assert rate(x).item() == 0.5**i + i
        o.step()
        schedule.step()


def test_contents_that_cannot_be_watched():
    from collections import deque

    factors = deque([2.0])
    f = torch.compile(lambda x: x * factors[0])
    with pytest.warns(UserWarning, match="collections.deque, whose contents may change unseen"):
        assert f(torch.ones(1)).item() == 2
        assert f(torch.ones(1)).item() == 2
    factors[0] = 5.0
    assert f(torch.ones(1)).item() == 5


def test_branches_beside_each_other():
    """The number of threads for steps side by side is set once, as in PyTorch, and changes no bits."""
    code = Path(__file__).parent / "child_programs" / "interop_threads.py"
    printed = {
        subprocess.run(
            [sys.executable, "-m", "taper", "run", str(code), threads], capture_output=True, text=True, check=True
        ).stdout
        for threads in ("1", "2", "4")
    }
    assert len(printed) == 1
    assert "0x" in printed.pop()


@pytest.mark.parametrize(
    "bad, message",
    [
        (0, "expects a positive integer"),
        (-1, "expects a positive integer"),
        ("a", "expects an int, but got str"),
        (True, "expects an int, but got bool"),
    ],
)
def test_numbers_of_threads_that_are_none(bad, message):
    with pytest.raises(RuntimeError, match="set_num_interop_threads " + message):
        torch.set_num_interop_threads(bad)
