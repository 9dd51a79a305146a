"""torch.multiprocessing: tensors that processes share, however they get there, and functions run by many processes."""

import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import taper as torch
import taper.multiprocessing as mp
from taper import nn

METHODS = "fork", "spawn", "forkserver"


def change(queue, replies, given):
    x = queue.get()
    x.add_(1)
    given.mul_(3)
    replies.put(x * 2)
    replies.put(torch.arange(5))


@pytest.mark.parametrize("method", METHODS)
def test_processes_and_queues(method):
    context = mp.get_context(method)
    queue, replies = context.Queue(), context.SimpleQueue()
    x, given = torch.ones(3), torch.ones(2).share_memory_()
    process = context.Process(target=change, args=(queue, replies, given))
    process.start()
    queue.put(x)
    assert replies.get().tolist() == [4, 4, 4]
    time.sleep(0.1)  # the process has nothing left to do, but waits until what it sent is taken
    assert replies.get().tolist() == [0, 1, 2, 3, 4]
    process.join()
    assert process.exitcode == 0
    assert x.tolist() == [2, 2, 2]
    assert given.tolist() == [3, 3]
    assert x.is_shared()
    assert given.is_shared()


def square(x):
    x.add_(1)
    return x * x


def test_pools():
    inputs = [torch.ones(2), torch.full((2,), 3.0)]
    with mp.Pool(2) as pool:
        assert [y.tolist() for y in pool.map(square, inputs)] == [[4, 4], [16, 16]]
    assert [x.tolist() for x in inputs] == [[2, 2], [4, 4]]


def through(value):
    queue = mp.SimpleQueue()
    queue.put(value)
    return queue.get()


def test_what_arrives():
    base = torch.arange(12.0).reshape(3, 4)
    whole, part, turned = through([base, base[1:, ::2], base.T])
    part[0, 0] = 99
    assert whole[1, 0] == 99
    assert turned[0, 1] == 99
    assert base[1, 0] == 99
    assert turned.stride() == (1, 4)
    weight = nn.Parameter(torch.ones(2))
    a, b = through([weight, weight])
    assert a is b
    assert type(a) is nn.Parameter
    assert a.requires_grad
    assert through(torch.empty(0, 3)).shape == (0, 3)
    assert through(torch.tensor(2.5)).item() == 2.5
    assert through(torch.ones(2, dtype=torch.bfloat16)).dtype == torch.bfloat16
    assert not through(nn.Parameter(torch.ones(2), requires_grad=False)).requires_grad
    storage = through(torch.arange(3).untyped_storage())
    assert len(storage) == 24
    assert through(torch.ones(2).storage()).tolist() == [1, 1]
    state = through(nn.Linear(2, 3).state_dict())
    assert list(state) == ["weight", "bias"]


def test_what_is_refused():
    leaf = torch.ones(2, requires_grad=True)
    assert through(leaf).requires_grad
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"):
        mp.SimpleQueue().put(leaf * 2)


def test_shared_parameters():
    model = (
        nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
        if hasattr(nn, "BatchNorm1d")
        else nn.Sequential(nn.Linear(4, 3))
    )
    before = {name: value.clone() for name, value in model.state_dict().items()}
    parameters = list(model.parameters())
    model(torch.randn(5, 4)).sum().backward()
    assert model.share_memory() is model
    assert all(p.is_shared() and q is p for p, q in zip(model.parameters(), parameters))
    assert all(
        torch.equal(value, before[name])
        for name, value in model.state_dict().items()
        if "running" not in name and "tracked" not in name
    )
    model(torch.randn(5, 4)).sum().backward()


def hogwild(model, inputs, targets):
    for _ in range(30):
        loss = ((model(inputs) - targets) ** 2).mean()
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(parameter.grad, alpha=0.05)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_hogwild(method):
    """Processes train one model, each by its own gradients."""
    torch.manual_seed(0)
    model, inputs = nn.Linear(4, 1), torch.randn(20, 4)
    targets = inputs.sum(1, keepdim=True)
    model.share_memory()
    before = ((model(inputs) - targets) ** 2).mean().item()
    processes = [mp.get_context(method).Process(target=hogwild, args=(model, inputs, targets)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert ((model(inputs) - targets) ** 2).mean().item() < before / 10


# ---- Nothing is left behind ----
def resources():
    gc.collect()
    return len(os.listdir("/proc/self/fd")), sum(1 for line in open("/proc/self/maps") if "taper" in line)


@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_nothing_leaks(strategy):
    mp.set_sharing_strategy(strategy)
    try:
        assert mp.get_sharing_strategy() == strategy
        through(torch.ones(3))
        before = resources()
        for i in range(300):
            assert through(torch.full((1000,), i))[5] == i
        through(torch.ones(1))  # what was sent last is let go of with the next
        now = resources()
        assert now[0] <= before[0] + 1
        assert now[1] <= before[1] + 1
        gc.collect()
    finally:
        mp.set_sharing_strategy("file_descriptor")
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    with pytest.raises(AssertionError, match="invalid sharing strategy"):
        mp.set_sharing_strategy("telepathy")


FILES = Path(__file__).parent / "child_programs" / "shared_files.py"


def test_files_go_with_their_process():
    def run(*arguments):
        return subprocess.run([sys.executable, str(FILES), *arguments], capture_output=True, text=True, timeout=60)

    done = run()
    there, values, path, other = done.stdout.split(" ", 1)[0], "[2.0, 2.0, 2.0, 2.0, 2.0]", *done.stdout.split()[-2:]
    assert there == "True", done.stderr
    assert values in done.stdout, done.stderr
    assert not os.path.exists(path)
    assert not os.path.exists(other)
    left = run("killed").stdout.split()[-2]
    assert os.path.exists(left)
    run()
    assert not os.path.exists(left)  # the next process cleans up


def test_a_sender_that_is_gone():
    pickled = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent("""
        import sys, taper, taper.multiprocessing
        from multiprocessing.reduction import ForkingPickler
        sys.stdout.buffer.write(bytes(ForkingPickler.dumps(taper.ones(3))))
    """),
        ],
        capture_output=True,
    ).stdout
    with pytest.raises(
        RuntimeError, match="process .* has sent is gone: the process must live until the tensor is received"
    ):
        pickle.loads(pickled)


# ---- spawn ----
def fill(i, x):
    x[i] = i + 1


def fail(i, what):
    if i == 1 and what == "raise":
        raise ValueError("no luck")
    if i == 1 and what == "exit":
        sys.exit(3)
    if i == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(300)


def test_spawn():
    x = torch.zeros(3).share_memory_()
    assert mp.spawn(fill, args=(x,), nprocs=3) is None
    assert x.tolist() == [1, 2, 3]
    context = mp.spawn(fill, args=(x,), nprocs=2, join=False)
    assert isinstance(context, mp.ProcessContext)
    assert len(context.pids()) == 2
    while not context.join(timeout=30):
        pass


@pytest.mark.parametrize(
    "what, kind, message",
    [
        (
            "raise",
            mp.ProcessRaisedException,
            r"(?s)-- Process 1 terminated with the following error:\nTraceback.*in fail\n.*ValueError: no luck",
        ),
        ("exit", mp.ProcessExitedException, "process 1 terminated with exit code 3"),
        ("kill", mp.ProcessExitedException, "process 1 terminated with signal SIGTERM"),
    ],
)
def test_a_process_that_fails_ends_the_others(what, kind, message):
    start = time.monotonic()
    with pytest.raises(kind, match=message) as caught:
        mp.start_processes(fail, args=(what,), nprocs=2, start_method="fork")
    assert time.monotonic() - start < 120
    assert caught.value.error_index == 1
    assert caught.value.pid > 0
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    if what == "kill":
        assert caught.value.signal_name == "SIGTERM"
        assert caught.value.exit_code == -signal.SIGTERM


def test_under_taper_run(tmp_path):
    (tmp_path / "script.py").write_text(
        textwrap.dedent("""
        import torch
        import torch.multiprocessing as mp
        def work(rank, x):
            x[rank] = torch.arange(4).sum() + rank
        if __name__ == "__main__":
            mp.set_start_method("spawn")
            x = torch.zeros(2)
            x.share_memory_()
            mp.spawn(work, args=(x,), nprocs=2)
            print(x, mp.get_start_method())
    """)
    )
    done = subprocess.run(
        [sys.executable, "-m", "taper", "run", tmp_path / "script.py"], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "tensor([6., 7.]) spawn\n", done.stderr
