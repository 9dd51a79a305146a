"""torch.utils.data in one process: arguments, batches, orders, and loaders that go on where they stood. What orders
PyTorch gives is in programs/data_orders.py."""

import copy
import itertools
import os
import pickle
import platform
import random
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import taper as torch
from taper.utils.data import native
from taper.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
    random_split,
)


def lists(batches):
    return [batch.tolist() for batch in batches]


class Row(IterableDataset):
    """0, 1, 2, ... n - 1, or the same shuffled by Python's generator."""

    def __init__(self, n, shuffled=False):
        self.n, self.shuffled = n, shuffled

    def __iter__(self):
        order = list(range(self.n))
        if self.shuffled:
            random.shuffle(order)
        yield from order

    def __len__(self):
        return self.n


# ---- Arguments that do not go together ----
@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"num_workers": -1},
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.",
        ),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, "prefetch_factor option could only be specified in multiprocessing"),
        ({"num_workers": 1, "prefetch_factor": -1}, "prefetch_factor option should be non-negative"),
        ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
        ({"sampler": [0], "shuffle": True}, "sampler option is mutually exclusive with shuffle"),
        (
            {"batch_sampler": [[0]], "batch_size": 2},
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last",
        ),
        (
            {"batch_size": None, "drop_last": True},
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last",
        ),
        ({"batch_size": 0}, "batch_size should be a positive integer value, but got batch_size=0"),
        ({"batch_size": True}, "batch_size should be a positive integer value, but got batch_size=True"),
        (
            {"multiprocessing_context": "fork"},
            r"multiprocessing_context can only be used with multi-process loading \(num_workers > 0\), but got num_w",
        ),
        (
            {"num_workers": 1, "multiprocessing_context": "clone"},
            "multiprocessing_context option should specify a valid start method in",
        ),
    ],
)
def test_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        DataLoader([1, 2], **options)


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}])
def test_arguments_of_iterable_datasets(options):
    name = next(iter(options))
    with pytest.raises(
        ValueError, match=f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}="
    ):
        DataLoader(Row(3), **options)
    DataLoader(Row(3), shuffle=False)


def test_what_is_fixed_once_it_is_made():
    loader = DataLoader([1, 2])
    for name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"):
            setattr(loader, name, None)
    loader.num_workers = 0
    with pytest.raises(TypeError, match="multiprocessing_context option should be a valid context object or a string"):
        DataLoader([1], num_workers=1, multiprocessing_context=3)


def test_errors_of_samplers_and_datasets():
    with pytest.raises(ValueError, match="num_samples should be a positive integer value, but got num_samples=0"):
        DataLoader([], shuffle=True)
    with pytest.raises(TypeError, match="replacement should be a boolean value, but got replacement=3"):
        RandomSampler([1], replacement=3)
    with pytest.raises(ValueError, match=r"weights should be a 1d sequence but given weights have shape \(1, 2\)"):
        WeightedRandomSampler([[1.0, 2.0]], 1)
    with pytest.raises(ValueError, match="drop_last should be a boolean value, but got drop_last=1"):
        BatchSampler([1], 1, 1)
    with pytest.raises(ValueError, match=r"Invalid rank 3, rank should be in the interval \[0, 2\]"):
        DistributedSampler([1], 3, 3)
    with pytest.raises(
        (RuntimeError, ValueError), match="Requires distributed package|Default process group has not been initialized"
    ):
        DistributedSampler([1])
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        TensorDataset(torch.ones(2), torch.ones(3))
    with pytest.raises(AssertionError, match="datasets should not be an empty iterable"):
        ConcatDataset([])
    with pytest.raises(AssertionError, match="ConcatDataset does not support IterableDataset"):
        ConcatDataset([Row(1)])
    with pytest.raises(ValueError, match="absolute value of index should not exceed dataset length"):
        ConcatDataset([[1]])[-2]
    with pytest.raises(ValueError, match="Size mismatch between datasets"):
        StackDataset([1], [1, 2])
    with pytest.raises(ValueError, match="Sum of input lengths does not equal the length of the input dataset!"):
        random_split([1, 2], [1, 2])
    with pytest.raises(NotImplementedError, match="Subclasses of Dataset should implement __getitem__"):
        Dataset()[0]
    with pytest.raises(TypeError, match="abstract"):
        IterableDataset()
    with pytest.raises(NotImplementedError, match="Half overrides __getitem__ but not __getitems__"):
        type("Half", (Subset,), {"__getitem__": lambda self, i: None})([1], [0])


def test_warnings():
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accelerator is found"):
        assert lists(DataLoader([1, 2], pin_memory=True)) == [[1], [2]]
    with pytest.warns(
        UserWarning,
        match="This DataLoader will create 1000 worker processes in total. Our suggested max number of worker",
    ):
        DataLoader([1], num_workers=1000)
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        assert [len(part) for part in random_split([1, 2], [0.99, 0.01])] == [2, 0]
    row = Row(3)
    loader = DataLoader(row)
    assert len(loader) == 3
    row.n = 4
    with pytest.warns(UserWarning, match="Length of IterableDataset .* was reported to be 3"):
        list(loader)


def test_types_can_be_parametrised():
    class Typed(Dataset[int]):
        def __getitem__(self, i):
            return i

    assert Typed()[1] == 1
    assert "Dataset[int]" in repr(Dataset[int])
    assert isinstance(DataLoader[int], type(list[int]))
    assert isinstance(Sampler[int], type(list[int]))


def test_samplers_of_ones_own():
    class Odd(Sampler):
        def __iter__(self):
            return iter([1, 3, 5])

        def __len__(self):
            return 3

    loader = DataLoader(range(10), batch_size=2, sampler=Odd())
    assert lists(loader) == [[1, 3], [5]]
    assert len(loader) == 2
    assert lists(DataLoader(range(10), batch_size=2, sampler=iter([7, 8]))) == [[7, 8]]


def test_the_order_and_what_follows_do_not_depend_on_collation():
    """A row of tensors is read at once; samples that must go one by one come out the same."""
    data = TensorDataset(torch.randn(50, 3), torch.arange(50), torch.randn(50, 2, 2))
    for dataset in (data, Subset(data, list(range(40, 3, -2))), Subset(Subset(data, list(range(30))), [3, 1, 29])):
        runs = []
        for collate in (None, lambda batch: default_collate(batch)):
            torch.manual_seed(1)
            runs.append((list(DataLoader(dataset, batch_size=7, shuffle=True, collate_fn=collate)), torch.rand(1)))
        (at_once, after), (one_by_one, after_too) = runs
        assert after == after_too
        assert len(at_once) == len(one_by_one)
        for a, b in zip(at_once, one_by_one):
            assert type(a) is type(b) is list
            assert all(torch.equal(x, y) and x.dtype == y.dtype and x.stride() == y.stride() for x, y in zip(a, b))


def test_rows_by_odd_indices():
    data = TensorDataset(torch.arange(5))
    assert lists(batch[0] for batch in DataLoader(data, batch_sampler=[[-1, 0], [torch.tensor(2)]])) == [[4, 0], [2]]
    with pytest.raises(IndexError):
        list(DataLoader(data, batch_sampler=[[5]]))


def test_indices_of_other_kinds():
    data = TensorDataset(torch.arange(5))
    assert lists(batch[0] for batch in DataLoader(data, batch_sampler=[torch.tensor([3, 1]), (2, 0)])) == [
        [3, 1],
        [2, 0],
    ]
    for indices in (range(4, 0, -2), torch.tensor([4, 2]), (4, 2), [4, -3]):
        for threads in (0, 1):
            assert lists(
                batch[0] for batch in DataLoader(Subset(data, indices), batch_size=2, worker_threads=threads)
            ) == [[4, 2]]
    batches = iter(DataLoader(Subset(data, [1, 9])))
    assert lists(next(batches)) == [[1]]
    with pytest.raises(IndexError):
        next(batches)


def test_rows_that_must_go_one_by_one():
    leaf = torch.ones(3, 2, requires_grad=True)
    ((batch,),) = DataLoader(TensorDataset(leaf), batch_size=3)
    batch.sum().backward()
    assert leaf.grad.tolist() == [[1, 1]] * 3

    class Doubled(TensorDataset):
        def __getitem__(self, i):
            return super().__getitem__(i)[0] * 2

    assert lists(DataLoader(Doubled(torch.arange(3)), batch_size=3)) == [[0, 2, 4]]


def test_many_at_once():
    class Many(Dataset):
        def __getitems__(self, indices):
            return [i * 10 for i in indices]

        def __len__(self):
            return 5

    assert lists(DataLoader(Many(), batch_size=3)) == [[0, 10, 20], [30, 40]]
    assert lists(DataLoader(Subset(Many(), [4, 2]), batch_size=3)) == [[40, 20]]


def test_copies_and_pickles():
    loader = DataLoader([1, 2, 3], batch_size=2)
    next(iter(loader))
    for copied in (copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert lists(copied) == [[1, 2], [3]]
    with pytest.raises(NotImplementedError):
        pickle.dumps(iter(loader))
    assert get_worker_info() is None


def test_nothing_heavy_is_imported():
    code = "import sys, taper.utils.data; print([m for m in ('multiprocessing', 'numpy', 'typing', 'inspect', 'dataclasses') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


# ---- Going on where a loader stood ----
def orders():
    """Loaders whose order comes from different places; each call makes it anew, as a restarted program does."""

    class FromPython(Sampler):
        def __iter__(self):
            order = list(range(20))
            random.shuffle(order)
            return iter(order)

    return {
        "in order": lambda: DataLoader(range(20), batch_size=3),
        "shuffled": lambda: DataLoader(range(20), batch_size=3, shuffle=True),
        "own generator": lambda: DataLoader(
            range(20), batch_size=3, shuffle=True, generator=torch.Generator().manual_seed(3)
        ),
        "sampler's generator": lambda: DataLoader(
            range(20), batch_size=3, sampler=SubsetRandomSampler(range(20), torch.Generator().manual_seed(3))
        ),
        "replacement": lambda: DataLoader(range(20), batch_size=3, sampler=RandomSampler(range(20), True, 100)),
        "weighted": lambda: DataLoader(range(20), batch_size=3, sampler=WeightedRandomSampler([1.0] * 20, 30)),
        "distributed": lambda: DataLoader(range(20), batch_size=3, sampler=DistributedSampler(range(20), 2, 1)),
        "Python's": lambda: DataLoader(range(20), batch_size=3, sampler=FromPython()),
        "one by one": lambda: DataLoader(range(20), batch_size=None, shuffle=True),
        "iterable": lambda: DataLoader(Row(20, True), batch_size=3),
    }


def epoch(loader):
    """A training's loop: it draws numbers of its own between the batches."""
    for batch in loader:
        torch.rand(3)
        random.random()
        yield batch.tolist() if isinstance(batch, torch.Tensor) else batch


@pytest.mark.parametrize("when", ["in the loop", "after the loop was left"])
@pytest.mark.parametrize("name", orders())
def test_goes_on(name, when):
    make = orders()[name]

    def begin():
        torch.manual_seed(0)
        random.seed(0)
        loader = make()
        assert len(list(loader)) >= 4
        return loader

    loader = begin()
    expected = list(epoch(loader)), list(epoch(loader)), torch.rand(1).item()

    loader = begin()
    seen = []
    for batch in epoch(loader):
        seen.append(batch)
        if len(seen) == 3:
            state = loader.state_dict()
            break
    if when != "in the loop":
        state = loader.state_dict()
    stopped = pickle.dumps((state, random.getstate(), torch.get_rng_state()))
    torch.manual_seed(99)
    random.seed(99)
    state, python, default = pickle.loads(stopped)
    random.setstate(python)
    loader = make()
    loader.load_state_dict(state)
    if name in ("own generator", "sampler's generator"):  # the default generator is the program's, not the loader's
        torch.set_rng_state(default)
    assert (seen + list(epoch(loader)), list(epoch(loader)), torch.rand(1).item()) == expected


def test_a_loader_between_epochs():
    def make(seed, of_loader):
        generator = torch.Generator().manual_seed(seed)
        if of_loader:
            return DataLoader(range(6), batch_size=2, shuffle=True, generator=generator)
        return DataLoader(range(6), batch_size=2, sampler=RandomSampler(range(6), generator=generator))

    for of_loader in (True, False):
        loader = make(1, of_loader)
        list(loader)
        state = loader.state_dict()
        following = lists(loader), lists(loader)
        again = make(2, of_loader)
        again.load_state_dict(state)
        assert (lists(again), lists(again)) == following


def test_state_at_the_first_and_the_last_batch():
    loader = DataLoader(range(4), batch_size=2, shuffle=True)
    iterator = iter(loader)
    at_first, first = loader.state_dict(), next(iterator)
    last = next(iterator)
    at_last = loader.state_dict()
    loader.load_state_dict(at_first)
    assert loader.state_dict() is at_first
    assert lists(loader) == lists([first, last])
    loader.load_state_dict(at_last)
    assert lists(loader) == []
    assert len(lists(loader)) == 2


def test_samplers_and_datasets_that_tell():
    class Telling(Sampler):
        def __init__(self):
            self.at = 0

        def __iter__(self):
            while self.at < 10:
                self.at += 1
                yield self.at - 1
            self.at = 0

        def state_dict(self):
            return {"at": self.at}

        def load_state_dict(self, state):
            self.at = state["at"]

    class Stream(IterableDataset):
        def __init__(self):
            self.at, self.read = 0, 0

        def __iter__(self):
            for self.at in range(self.at + 1, 11):
                self.read += 1
                yield self.at
            self.at = 0

        state_dict, load_state_dict = Telling.state_dict, Telling.load_state_dict

    for make in (
        lambda: DataLoader(range(10), batch_size=4, sampler=Telling()),
        lambda: DataLoader(Stream(), batch_size=4),
    ):
        loader = make()
        next(iter(loader))
        state = loader.state_dict()
        again = make()
        again.load_state_dict(state)
        whole = lists(make())
        assert lists(again) == whole[1:]
        assert lists(again) == whole
    stream = Stream()
    again = DataLoader(stream, batch_size=4)
    again.load_state_dict(state)
    list(again)
    assert stream.read == 6  # nothing was read twice


@pytest.mark.parametrize("options", [{}, {"num_workers": 1}])
def test_a_batch_that_failed_does_not_come_again(options):
    class Failing(Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, i):
            return 1 // (i - 1) + i

    loader = DataLoader(Failing(), **options)
    batches = iter(loader)
    next(batches)
    with pytest.raises(ZeroDivisionError):
        next(batches)
    following = next(batches)
    again = DataLoader(Failing(), **options)
    again.load_state_dict(loader.state_dict())
    assert lists([following, *again]) == [[3], [3], [4], [5]]


def test_states_that_do_not_fit():
    loader = DataLoader(range(10), batch_size=2)
    for _ in itertools.islice(loader, 3):
        pass
    state = loader.state_dict()
    with pytest.raises(ValueError, match="expected what DataLoader.state_dict"):
        loader.load_state_dict({"batches": 3})
    short = DataLoader(range(4), batch_size=2)
    short.load_state_dict(state)
    with pytest.raises(ValueError, match="had read 3 batches, this one has only 2"):
        iter(short)
    seeded = DataLoader(range(10), batch_size=2, shuffle=True, generator=torch.Generator())
    with pytest.raises(ValueError, match="had 0 generators, this one has 1"):
        seeded.load_state_dict(state)


def test_a_sequential_loader_asks_for_one_seed():
    """As in PyTorch: one number of the default generator's per epoch, shuffled or not."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.manual_seed(0)
        list(DataLoader(range(3), sampler=SequentialSampler(range(3))))
        after = torch.rand(1)
    torch.manual_seed(0)
    torch.empty((), dtype=torch.int64).random_()
    assert after == torch.rand(1)


# ---- Datasets that are read in C ----
EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "data")


def digits():
    return native.mnist(os.path.join(EXAMPLES, "test-images.idx.gz"), os.path.join(EXAMPLES, "test-labels.idx.gz"))


def same(a, b):
    return len(a) == len(b) and all(
        len(x) == len(y) and all(torch.equal(u, v) for u, v in zip(x, y)) for x, y in zip(a, b)
    )


def test_files_of_digits():
    data, pixels = digits(), native.read_idx(os.path.join(EXAMPLES, "test-images.idx.gz"))
    image, label = data[-1]
    assert len(data) == 2000
    assert image.shape == (1, 28, 28)
    assert label.dtype == torch.int64
    assert label.dim() == 0
    assert torch.equal(image[0], pixels[-1].float() / 255)
    scaled = data.normalise(0.1307, [0.3081])
    assert torch.equal(scaled[5][0], (data[5][0] - 0.1307) / 0.3081)
    assert torch.equal(pickle.loads(pickle.dumps(scaled))[5][0], scaled[5][0])
    with pytest.raises(IndexError):
        data[2000]
    with pytest.raises(OSError, match="could not open .nowhere.: No such file"):
        native.read_idx("nowhere")


def test_files_of_tensors(tmp_path):
    x, y = torch.randn(20, 3), torch.arange(20)
    torch.save({"x": x, "y": y}, tmp_path / "data.pt")
    data = native.tensors(tmp_path / "data.pt", "x", "y")
    (a, b), (c, d) = DataLoader(data, batch_size=10, worker_threads=2)
    assert torch.equal(torch.cat([a, c]), x)
    assert torch.equal(torch.cat([b, d]), y)


@pytest.mark.parametrize(
    "make",
    [
        digits,
        lambda: TensorDataset(torch.randn(150, 3), torch.arange(150)),
        lambda: Subset(TensorDataset(torch.randn(150, 3)), list(range(149, -50, -2))),
    ],
)
def test_threads_give_the_same_batches(make):
    runs, data = [], make()
    for options in (
        {"collate_fn": lambda batch: default_collate(batch)},
        {},
        {"worker_threads": 1},
        {"worker_threads": 3, "prefetch_factor": 4},
    ):
        torch.manual_seed(8)
        loader = DataLoader(data, batch_size=16, shuffle=True, **options)
        runs.append((list(loader), list(loader), torch.rand(1)))
    for first, second, after in runs[1:]:
        assert same(first, runs[0][0])
        assert same(second, runs[0][1])
        assert after == runs[0][2]


def test_threads_and_states():
    data = TensorDataset(torch.arange(30))
    torch.manual_seed(2)
    loader = DataLoader(data, batch_size=4, shuffle=True, worker_threads=2)
    expected = list(loader), list(loader)
    torch.manual_seed(2)
    seen = list(itertools.islice(loader, 3))
    again = DataLoader(data, batch_size=4, shuffle=True, worker_threads=1)
    again.load_state_dict(pickle.loads(pickle.dumps(loader.state_dict())))
    assert same(seen + list(again), expected[0])
    assert same(list(again), expected[1])


def test_what_threads_do_not_read():
    for data, options in (
        (range(3), {}),
        (TensorDataset(torch.ones(3, requires_grad=True)), {}),
        (TensorDataset(torch.ones(3)), {"batch_size": None}),
        (TensorDataset(torch.ones(3)), {"collate_fn": list}),
    ):
        with pytest.raises(ValueError, match="worker_threads needs a dataset that Taper reads in C"):
            iter(DataLoader(data, worker_threads=1, **options))
    with pytest.raises(ValueError, match="worker_threads option should be non-negative"):
        DataLoader(range(3), worker_threads=1, num_workers=1)
    batches = iter(DataLoader(TensorDataset(torch.arange(3)), batch_sampler=[[0], [-1], [7], [1]], worker_threads=1))
    assert lists(next(batches)) == [[0]]
    assert lists(next(batches)) == [[2]]
    with pytest.raises(IndexError, match="index 7 is out of range for a dataset of 3 items"):
        next(batches)
    assert lists(next(batches)) == [[1]]


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="it is glibc's malloc that gives blocks of that size back"
)
def test_memory_of_samples_is_kept():
    program = Path(__file__).parent / "child_programs" / "page_faults.py"
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=plain)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 1000  # 17,900 where each sample's pages are new
