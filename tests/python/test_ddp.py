"""Data parallel training: DistributedDataParallel, SyncBatchNorm, DataParallel, Horovod's interface and
ZeroRedundancyOptimizer, each against one process with the whole batch."""

import subprocess
import sys

import pytest
import taper as torch
from ranks import PROGRAMS, run_ranks
from taper import nn


def test_the_weights_of_one_process_and_the_same_bits_each_run(tmp_path):
    """After 50 steps, for 1, 2 and 4 ranks."""
    for count in (1, 2):
        run_ranks(count, "ddp/figure.py", tmp_path)
    first, second = (run_ranks(4, "ddp/figure.py", tmp_path)[0].strip() for _ in range(2))
    assert first == second
    assert len(first) == 64


def test_ways_of_reducing(tmp_path):
    run_ranks(2, "ddp/ways.py", tmp_path)


def test_uneven_inputs(tmp_path):
    run_ranks(3, "ddp/uneven.py", tmp_path)


def test_different_models_are_told_apart(tmp_path):
    run_ranks(2, "ddp/different.py", tmp_path)


def test_batch_norm_over_all_ranks(tmp_path):
    run_ranks(2, "ddp/norm.py", tmp_path)


def test_all_hooks_have_names_where_partials_are_descriptors():
    """From Python 3.13 on functools.partial is a descriptor, which an Enum does not take for a member."""
    program = """
import functools
class partial(functools.partial):
    def __get__(self, object, owner=None):
        return self
functools.partial = partial
from taper.distributed.algorithms.ddp_comm_hooks import DDPCommHookType
print(len(DDPCommHookType), all(callable(hook.value) for hook in DDPCommHookType))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["8", "True"], done.stderr


def test_horovod(tmp_path):
    run_ranks(2, "ddp/horovod_calls.py", tmp_path)


def test_horovod_begins_at_the_last_commit():

    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "taper",
            "launch",
            "--nproc",
            "2",
            "--max-restarts",
            "1",
            str(PROGRAMS / "ddp" / "elastic.py"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines().count("restarts 1") == 2, done.stderr


def test_zero_redundancy_optimizer(tmp_path):
    run_ranks(3, "ddp/zero.py", tmp_path)


def test_data_parallel_over_devices_of_one_process():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    x = torch.randn(7, 6)
    both = nn.DataParallel(net, device_ids=["cpu", "cpu"])
    y = both(x)
    assert torch.equal(y, net(x))
    y.square().sum().backward()
    got = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    net(x).square().sum().backward()
    assert all(torch.allclose(a, p.grad, atol=1e-6) for a, p in zip(got, net.parameters()))
    assert torch.equal(both(x[:1]), net(x[:1]))
    assert list(both.state_dict())[0] == "module.0.weight"

    class Fails(nn.Module):
        def forward(self, x):
            raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        nn.DataParallel(Fails(), device_ids=["cpu", "cpu"])(x)
    with torch.no_grad():
        assert not both(x).requires_grad


def test_callbacks_at_the_end_of_a_backward():
    w, said = torch.ones(3, requires_grad=True), []
    w.register_post_accumulate_grad_hook(
        lambda p: torch.autograd.Variable._execution_engine.queue_callback(lambda: said.append(p.grad.sum().item()))
    )
    (w * 2).sum().backward()
    assert said == [6.0]
    with pytest.raises(RuntimeError, match="during backward"):
        torch.autograd.graph.queue_callback(print)

    def fails(p):
        torch.autograd.graph.queue_callback(lambda: said.append("not"))
        raise KeyError("hook")

    v = torch.ones(3, requires_grad=True)
    v.register_post_accumulate_grad_hook(fails)
    with pytest.raises(KeyError):
        v.sum().backward()
    (w * 2).sum().backward()
    assert said == [6.0, 12.0]


def test_reductions_run_while_the_backward_does(tmp_path):
    """A backward and its messages that take equally long: at least half of the messages travel meanwhile."""
    run_ranks(1, "ddp/overlap.py", tmp_path)


def test_collectives_with_gradients_and_wrappers(tmp_path):
    run_ranks(2, "ddp/differentiable.py", tmp_path)


def test_the_example_saves_when_told_and_goes_on(tmp_path):
    """SIGUSR1 to the launcher, as from a scheduler; then two ranks go on where three were, with the losses of a run
    that nobody stopped."""
    import os
    import re
    import signal

    from test_scripts import EXAMPLES, digits

    digits(str(tmp_path), train=600, test=100)
    script = os.path.join(EXAMPLES, "python", "data_parallel.py")

    def start(ranks, checkpoint, *more):
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "taper",
                "launch",
                "--nproc",
                str(ranks),
                script,
                "--data",
                str(tmp_path),
                "--checkpoint",
                str(tmp_path / checkpoint),
                "--batch-size",
                "24",
                "--log-interval",
                "5",
                *more,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def losses(text):
        return {match[1]: float(match[2]) for match in re.finditer(r"(epoch \d+ batch \d+) loss (\S+)", text)}

    first = start(3, "a", "--epochs", "40")
    begun = first.stdout.readline()
    first.send_signal(signal.SIGUSR1)
    out, err = first.stdout.read(), first.stderr.read()  # communicate() would lose lines that came with the first one
    assert first.wait(60) == 0, out + err
    assert "saved at epoch" in out, out + err
    whole, err = start(1, "b", "--epochs", "2").communicate(timeout=60)
    assert whole.endswith("done\n"), err
    second, err = start(2, "a", "--epochs", "2").communicate(timeout=60)
    where = re.search(r"saved at (epoch \d+ batch \d+)", out)[1]
    assert second.startswith(f"goes on at {where}"), second + err
    assert second.endswith("done\n"), second + err
    assert losses(begun + out + second).keys() >= losses(whole).keys()
    for at, loss in losses(whole).items():
        assert abs(losses(begun + out + second)[at] - loss) < 2e-3, at
