"""Loaders with worker processes: what comes through, what happens when a worker fails or dies, and that nothing is left
behind. Orders and seeds are in programs/data_workers.py."""

import gc
import multiprocessing
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import taper as torch
from taper.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info


class Of(Dataset):
    """Sample i is function(i)."""

    def __init__(self, n, function):
        self.n, self.function = n, function

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.function(i)


def lists(batches):
    return [batch.tolist() for batch in batches]


def no_children(within=5.0):
    until = time.monotonic() + within
    while multiprocessing.active_children() and time.monotonic() < until:
        time.sleep(0.01)
    return multiprocessing.active_children() == []


def descriptors():
    return len(os.listdir("/proc/self/fd"))


# ---- What comes through ----
class Box:
    def __init__(self, inside):
        self.inside = inside


class Named(torch.Tensor):
    pass


def test_all_kinds_of_batches():
    wide = torch.arange(2.0 * 3 * 64 * 64).reshape(2, 3, 64, 64)
    sent = {
        "small": torch.arange(3),
        "large": wide,
        "empty": torch.empty(0, 3),
        "number": torch.tensor(2.5),
        "half": wide.half(),
        "bool": wide > 5,
        "channels last": wide.contiguous(memory_format=torch.channels_last),
        "expanded": torch.ones(1).expand(100, 100),
        "part": wide[:, :, ::2, 3:5],
        "leaf": torch.ones(5, requires_grad=True),
        "parameter": torch.nn.Parameter(torch.ones(2, 20000)),
        "array": np.arange(30000.0).reshape(300, 100),
        "small array": np.arange(3),
        "Fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "text": ["a", b"b", None, 1j],
        "nested": ((wide, [wide]), {"x": Box(wide)}),
        "subclass": wide.as_subclass(Named),
    }
    (got,) = DataLoader(Of(1, lambda i: sent), batch_size=None, num_workers=1, collate_fn=lambda sample: sample)
    for name, value in sent.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(got[name], value), name
            assert got[name].dtype == value.dtype, name
            assert type(got[name]) is type(value), name
            assert got[name].requires_grad == value.requires_grad
        elif isinstance(value, np.ndarray):
            assert (got[name] == value).all()
            assert got[name].strides == value.strides
            assert got[name].flags.writeable
    assert got["channels last"].is_contiguous(memory_format=torch.channels_last)
    (a, (b,)), boxed = got["nested"]
    assert a is b is boxed["x"].inside
    assert got["text"] == sent["text"]
    got["large"].add_(1)
    assert torch.equal(got["large"], wide + 1)


def test_in_one_process_or_many():
    data = TensorDataset(torch.randn(100, 3, 40), torch.arange(100))
    runs = []
    for options in (
        {},
        {"num_workers": 1},
        {"num_workers": 2, "prefetch_factor": 1},
        {"num_workers": 2, "prefetch_factor": 5, "multiprocessing_context": "forkserver"},
    ):
        torch.manual_seed(4)
        loader = DataLoader(data, batch_size=8, shuffle=True, **options)
        runs.append(([[x.tolist(), y.tolist()] for _ in range(2) for x, y in loader], torch.rand(1).item()))
    assert all(run == runs[0] for run in runs)


def test_worker_info():
    def info(i):
        worker = get_worker_info()
        assert torch.get_num_threads() == 1
        assert torch.initial_seed() == worker.seed
        with pytest.raises(RuntimeError, match="Cannot assign attributes to WorkerInfo objects"):
            worker.id = 3
        return worker.id, worker.num_workers, worker.seed, worker.dataset.n, os.getpid()

    seen = list(DataLoader(Of(4, info), batch_size=None, num_workers=2))
    base = seen[0][2]
    assert [row[:4] for row in seen] == [[0, 2, base, 4], [1, 2, base + 1, 4]] * 2
    assert len({row[4] for row in seen}) == 2
    assert os.getpid() not in {row[4] for row in seen}


def test_worker_init_fn():
    started = multiprocessing.get_context("fork").SimpleQueue()
    list(DataLoader(range(3), num_workers=2, worker_init_fn=started.put))
    assert sorted([started.get(), started.get()]) == [0, 1]


def test_out_of_order():
    def slow_first(i):
        if i == 0:
            time.sleep(1.5)
        return i

    loader = DataLoader(Of(6, slow_first), batch_size=None, num_workers=2, in_order=False)
    seen = list(loader)
    assert sorted(seen) == list(range(6))
    assert seen[0] != 0
    next(iter(loader))
    with pytest.raises(ValueError, match="a loader with in_order=False has no place to go back to"):
        loader.state_dict()
    assert list(DataLoader(Of(6, slow_first), batch_size=None, num_workers=2)) == list(range(6))


def test_workers_that_stay():
    loader = DataLoader(Of(6, lambda i: (i, os.getpid())), num_workers=2, persistent_workers=True)
    first = {pid.item() for _, pid in loader}
    for i, pid in loader:
        if i == 1:
            break  # what was read ahead must not come up in the next epoch
    again = list(loader)
    assert [i.item() for i, _ in again] == list(range(6))
    assert {pid.item() for _, pid in again} == first
    del loader
    gc.collect()
    assert no_children()


def test_indices_of_any_size():
    many = list(range(200_000))
    loader = DataLoader(
        Of(len(many), lambda i: "text" * 10), batch_sampler=[many] * 6, num_workers=1, collate_fn=lambda batch: batch
    )
    assert [len(batch) for batch in loader] == [200_000] * 6  # neither side may wait for the other to read


# ---- When something goes wrong ----
class Fussy(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


class Local(Exception):
    __qualname__ = "nowhere.Local"  # another process cannot find it


@pytest.mark.parametrize(
    "error, raised",
    [
        (Local("no three"), RuntimeError),
        (ValueError("no three"), ValueError),
        (KeyError("no three"), KeyError),
        (IndexError("no three"), IndexError),
        (Fussy("no three", 3), RuntimeError),
        (StopIteration("no three"), StopIteration),
    ],
)
def test_exceptions(error, raised):
    def three(i):
        if i == 3:
            raise error
        return i

    batches = iter(DataLoader(Of(6, three), num_workers=2, batch_size=None))
    assert [next(batches) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(raised) as caught:
        next(batches)
    text = str(caught.value)
    assert text.startswith(
        f"Caught {type(error).__name__} in DataLoader worker process 1.\nOriginal Traceback (most recent call last):\n"
    )
    assert "in three\n    raise error\n" in text
    assert "no three" in text
    assert list(batches) == [4, 5]


def test_batches_that_cannot_be_sent():
    batches = iter(DataLoader(Of(2, lambda i: (lambda: i) if i == 0 else i), num_workers=1, batch_size=None))
    with pytest.raises((AttributeError, pickle.PicklingError), match="Caught .* in DataLoader worker process 0"):
        next(batches)
    assert list(batches) == [1]


def test_a_killed_worker():
    due = multiprocessing.Event()  # the program has had what came before

    def kill(i):
        if i == 3:
            due.wait()
            os.kill(os.getpid(), signal.SIGKILL)
        return i

    batches = iter(DataLoader(Of(8, kill), num_workers=2, batch_size=None))
    assert [next(batches) for _ in range(3)] == [0, 1, 2]
    due.set()
    start = time.monotonic()
    with pytest.raises(
        RuntimeError, match=r"DataLoader worker \(pid \d+\) is killed by signal: Killed. \(It was worker 1 of 2.\)"
    ):
        next(batches)
    assert time.monotonic() - start < 120
    assert no_children()


def test_a_worker_that_is_killed_while_the_program_waits_for_another():
    def pids(i):
        if i > 1:
            time.sleep(300)
        return os.getpid()

    batches = iter(DataLoader(Of(8, pids), num_workers=2, batch_size=None))
    next(batches)
    os.kill(next(batches), signal.SIGUSR1)
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="is killed by signal: User defined signal 1. .It was worker 1 of 2"):
        next(batches)
    assert time.monotonic() - start < 120
    assert no_children()


def test_a_worker_that_exits():
    def leave(i):
        os._exit(7)

    with pytest.raises(
        RuntimeError, match=r"DataLoader worker \(pid \d+\) exited unexpectedly with exit code 7. Details are lost"
    ):
        list(DataLoader(Of(2, leave), num_workers=1))


def test_timeout():
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.3 seconds"):
        list(DataLoader(Of(2, lambda i: time.sleep(300)), num_workers=1, timeout=0.3))
    assert time.monotonic() - start < 120
    assert no_children()


def test_without_shared_memory():
    """Batches then come through the socket; a file that is full is no signal at the first write."""

    def cramped(worker_id):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))  # no file, shared memory included, may be larger

    loader = DataLoader(
        Of(3, lambda i: torch.full((1 << 20,), i)), num_workers=1, batch_size=None, worker_init_fn=cramped
    )
    assert [(batch.sum().item(), batch.is_shared()) for batch in loader] == [(i << 20, False) for i in range(3)]


def test_shared_memory_in_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TAPER_SHARED", str(tmp_path))
    loader = DataLoader(Of(4, lambda i: torch.full((300, 300), i)), num_workers=2)
    assert [(batch.sum().item(), batch.is_shared()) for batch in loader] == [(90000 * i, True) for i in range(4)]
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("TAPER_SHARED", str(tmp_path / "nowhere"))
    assert [(batch.sum().item(), batch.is_shared()) for batch in loader] == [(90000 * i, False) for i in range(4)]


# ---- Nothing is left behind ----
def test_a_loop_that_is_left():
    """Workers go when they are asked to: one that had to be killed would have the signal as its exit code."""
    for _ in DataLoader(range(100), num_workers=2):
        workers = multiprocessing.active_children()
        break
    assert no_children()
    iterator = iter(DataLoader(range(100), num_workers=2))
    next(iterator)
    workers += multiprocessing.active_children()
    del iterator
    assert no_children()
    assert [worker.exitcode for worker in workers] == [0] * 4


@pytest.mark.parametrize("stay", [False, True])
def test_two_hundred_epochs(stay):
    loader = DataLoader(
        Of(4, lambda i: torch.full((100, 100), i)), num_workers=2 if stay else 1, batch_size=2, persistent_workers=stay
    )

    def epochs(n):
        for i in range(n):
            for batch in loader:
                if i % 10 == 0:
                    break
        return (
            descriptors(),
            len(multiprocessing.active_children()),
            sum(1 for line in open("/proc/self/maps") if "taper" in line),
        )

    assert epochs(200) == epochs(3)


def test_batches_that_are_kept_cost_no_descriptors():
    before = descriptors()
    kept = list(DataLoader(Of(60, lambda i: torch.full((100, 100), i)), num_workers=1))
    assert descriptors() <= before
    assert [batch[0, 0, 0].item() for batch in kept] == list(range(60))


LOOP = Path(__file__).parent / "child_programs" / "slow_loader.py"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_a_program_that_ends_takes_its_workers_along(how):
    program = subprocess.Popen(
        [sys.executable, str(LOOP)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    workers = {int(program.stdout.readline()) for _ in range(4)}
    os.killpg(program.pid, how) if how == signal.SIGINT else program.send_signal(how)  # Ctrl-C reaches all of them
    _, said = program.communicate(timeout=120)
    assert program.returncode == -how
    assert ("KeyboardInterrupt" in said) == (how == signal.SIGINT)
    assert said.count("Traceback") <= 1
    until = time.monotonic() + 120
    while any(os.path.exists(f"/proc/{pid}") for pid in workers) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in workers)


# ---- Going on where a loader stood ----
def drawn(i):
    """An image that its worker changes at random."""
    return i, torch.rand(1).item(), random.random(), float(np.random.rand())


class Row(IterableDataset):
    """Each worker's numbers, changed at random."""

    def __iter__(self):
        worker = get_worker_info()
        for i in range(worker.id * 100, worker.id * 100 + 8 + 6 * worker.id):
            yield i, torch.rand(1).item()


class Stream(Row):
    """The same, telling where it is."""

    def __init__(self):
        self.at = 0

    def __iter__(self):
        worker = get_worker_info()
        while self.at < 8 + 6 * worker.id:
            self.at += 1
            yield worker.id * 100 + self.at, torch.rand(1).item()
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


LOADERS = {
    "shuffled": lambda: DataLoader(Of(30, drawn), batch_size=3, shuffle=True, num_workers=2),
    "workers that stay": lambda: DataLoader(
        Of(30, drawn), batch_size=3, shuffle=True, num_workers=2, prefetch_factor=3, persistent_workers=True
    ),
    "own generator": lambda: DataLoader(
        Of(30, drawn), batch_size=3, shuffle=True, num_workers=2, generator=torch.Generator().manual_seed(1)
    ),
    "spawned": lambda: DataLoader(
        Of(30, drawn), batch_size=3, shuffle=True, num_workers=1, multiprocessing_context="spawn"
    ),
    "iterable": lambda: DataLoader(Row(), batch_size=3, num_workers=2),
    "iterable, workers that stay": lambda: DataLoader(Row(), batch_size=2, num_workers=2, persistent_workers=True),
    "telling": lambda: DataLoader(Stream(), batch_size=3, num_workers=2, persistent_workers=True),
}


def plain(batch):
    return [column.tolist() for column in batch]


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("after", [1, 6])
def test_goes_on(name, after):
    if name == "spawned" and after != 6:  # each of its epochs starts processes anew
        return
    make = LOADERS[name]
    torch.manual_seed(0)
    loader = make()
    list(loader)
    expected = [plain(batch) for batch in loader]
    following = [plain(batch) for batch in loader], torch.rand(1).item()

    torch.manual_seed(0)
    loader = make()
    list(loader)
    seen = []
    for batch in loader:
        seen.append(plain(batch))
        if len(seen) == after:
            break
    stopped = pickle.dumps((loader.state_dict(), torch.get_rng_state()))
    del loader
    torch.manual_seed(99)
    state, numbers = pickle.loads(stopped)
    loader = make()
    loader.load_state_dict(state)
    torch.set_rng_state(numbers)
    assert seen + [plain(batch) for batch in loader] == expected
    assert ([plain(batch) for batch in loader], torch.rand(1).item()) == following


def test_another_number_of_workers():
    torch.manual_seed(0)
    data = Of(20, lambda i: i)
    loader = DataLoader(data, batch_size=2, shuffle=True, num_workers=2)
    rest = lists(loader)[3:]
    torch.manual_seed(0)
    for i, _ in enumerate(loader):
        if i == 2:
            break
    for workers in (0, 1, 3):
        again = DataLoader(data, batch_size=2, shuffle=True, num_workers=workers)
        again.load_state_dict(loader.state_dict())
        assert lists(again) == rest
    rows = DataLoader(Row(), batch_size=2, num_workers=2)
    next(iter(rows))
    for workers in (0, 3):
        again = DataLoader(Row(), batch_size=2, num_workers=workers)
        again.load_state_dict(rows.state_dict())
        with pytest.raises(ValueError, match=f"had 2 workers, this one has {workers}"):
            iter(again)


TRAINING = Path(__file__).parent / "child_programs" / "killed_training.py"


def test_a_training_that_is_killed_and_started_again(tmp_path):
    def run(name, stop):
        return subprocess.run(
            [sys.executable, str(TRAINING), str(tmp_path / name), str(stop)],
            capture_output=True,
            text=True,
            timeout=60,
        )

    whole = run("whole", -1)
    assert whole.returncode == 0, whole.stderr
    for stop in (3, 8, 17, 26, 30):
        assert run("killed", stop).returncode == -signal.SIGKILL
    again = run("killed", -1)
    assert again.stdout == whole.stdout
    assert len(again.stdout) > 1000


def test_under_taper_run(tmp_path):
    """Spawned workers find PyTorch's names too."""
    (tmp_path / "script.py").write_text(
        textwrap.dedent("""
        import torch
        from torch.utils.data import DataLoader, Dataset
        class Ours(Dataset):
            def __len__(self): return 4
            def __getitem__(self, i): return torch.full((200, 200), i)
        if __name__ == "__main__":
            for context in ("spawn", "forkserver"):
                print([x.sum().item() for x in DataLoader(Ours(), num_workers=2, multiprocessing_context=context)])
    """)
    )
    done = subprocess.run(
        [sys.executable, "-m", "taper", "run", tmp_path / "script.py"], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "[0, 40000, 80000, 120000]\n" * 2, done.stderr


# ---- Shared memory is used again ----


def test_memory_is_used_again_only_when_nobody_looks_at_it():
    kept_there = []

    def keep(batch):  # a worker that keeps every fourth of its own batches
        made = torch.utils.data.default_collate(batch)
        if made[0, 0, 0] % 4 == 0:
            kept_there.append((made[0, 0, 0].item(), made))
        for value, old in kept_there:
            assert (old == value).all()
        return made

    loader = DataLoader(Of(60, lambda i: torch.full((100, 100), i)), num_workers=2, collate_fn=keep)
    kept = {}
    for i, batch in enumerate(loader):
        assert (batch == i).all()
        if i % 7 == 0:
            kept[i] = batch  # the others are let go of
        for j, old in kept.items():
            assert (old == j).all()


def test_a_forked_process_keeps_what_it_sees():
    batches = iter(DataLoader(Of(40, lambda i: torch.full((100, 100), i)), num_workers=1))
    batch = next(batches)
    ready, go, seen = (mp_context.SimpleQueue() for mp_context in [multiprocessing.get_context("fork")] * 3)

    def child():
        ready.put(None)
        go.get()
        seen.put((batch == 0).all().item())

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    ready.get()
    del batch
    for batch in batches:
        pass
    go.put(None)
    assert seen.get()
    process.join()
    assert process.exitcode == 0
