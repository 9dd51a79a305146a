"""torch.utils.data.datapipes: pipes, their one reading at a time, forks and shares."""

import pickle

import pytest
import taper as torch
from taper.utils.data import DataLoader, IterDataPipe
from taper.utils.data.datapipes import iter as steps
from taper.utils.data.datapipes import map as indexed
from taper.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES
from taper.utils.data.datapipes.utils.common import StreamWrapper
from taper.utils.data.datapipes.utils.snapshot import _simple_graph_snapshot_restoration
from taper.utils.data.graph import traverse_dps
from taper.utils.data.graph_settings import apply_random_seed, apply_sharding, get_all_graph_pipes


def ten(n):
    return n * 10


def odd(n):
    return n % 2


def test_a_new_reading_ends_the_one_before():
    pipe = steps.IterableWrapper(range(4)).map(ten)
    first = iter(pipe)
    assert next(first) == 0
    assert pipe._number_of_samples_yielded == 1
    assert list(pipe) == [0, 10, 20, 30]
    assert pipe._number_of_samples_yielded == 4
    with pytest.raises(RuntimeError, match="This iterator has been invalidated"):
        next(first)


def test_forks_and_what_they_wait_for():
    source = steps.IterableWrapper(range(6))
    one, two = source.fork(2)
    assert list(one) == list(two) == list(range(6))
    assert len(one) == 6
    assert source.fork(1) is source
    one, two = source.fork(2, buffer_size=2)
    with pytest.raises(BufferError):
        list(one)
    even, rest = source.demux(2, odd)
    assert list(even) == [0, 2, 4]
    assert list(rest) == [1, 3, 5]
    one, two = source.fork(2)
    list(one)
    with pytest.warns(UserWarning, match="Some child DataPipes are not exhausted"):
        assert list(one) == list(range(6))


def test_columns_and_checks():
    rows = steps.IterableWrapper([(0, 1, 2), (3, 4, 5)])
    assert list(rows.map(int.__add__, input_col=[2, 0])) == [(1, 2), (4, 8)]
    assert list(rows.map(ten, 1, -1)) == [
        (0, 1, 2, 10),
        (3, 4, 5, 40),
    ]
    with pytest.raises(ValueError, match="parameters"):
        rows.map(lambda a, b: a, input_col=0)
    with pytest.raises(ValueError, match="Boolean output is required"):
        list(rows.filter(len))
    with pytest.raises(TypeError, match="Expected all inputs to be `IterDataPipe`"):
        rows.concat(())
    with pytest.raises(TypeError, match="MapperIterDataPipe|Mapper instance doesn't have valid length"):
        len(steps.Filter(rows, bool).map(ten))


def test_graphs_shares_and_snapshots():
    source = steps.IterableWrapper(range(90))
    first = source.sharding_filter(SHARDING_PRIORITIES.DISTRIBUTED)
    second = first.sharding_filter(SHARDING_PRIORITIES.MULTIPROCESSING)
    for pipe in (first, second):
        pipe.apply_sharding(2, 1, SHARDING_PRIORITIES.DISTRIBUTED)
        pipe.apply_sharding(5, 3, SHARDING_PRIORITIES.MULTIPROCESSING)
    assert list(second) == [7, 17, 27, 37, 47, 57, 67, 77, 87]
    assert traverse_dps(second) == {id(second): (second, {id(first): (first, {id(source): (source, {})})})}
    with pytest.raises(RuntimeError, match="Sharding twice on a single pipeline"):
        apply_sharding(source.sharding_filter().sharding_filter(), 3, 0)
    one, two = steps.IterableWrapper(range(10)).shuffle().map(ten).fork(2)
    graph = one.zip(two)
    assert len(get_all_graph_pipes(traverse_dps(graph))) == 7
    apply_random_seed(graph, torch.Generator().manual_seed(0))
    whole = list(graph)
    copied = pickle.loads(pickle.dumps(graph))
    _simple_graph_snapshot_restoration(copied, 3, torch.Generator().manual_seed(0))
    assert list(copied) == whole[3:]


def test_seeds_give_pytorchs_order():
    assert list(indexed.SequenceWrapper(range(10)).shuffle().set_seed(3)) == [1, 5, 6, 0, 9, 4, 7, 2, 8, 3]
    assert list(steps.IterableWrapper(range(10)).shuffle(buffer_size=4).set_seed(5)) == [2, 4, 0, 3, 1, 6, 8, 9, 7, 5]


def test_files(tmp_path):
    (tmp_path / "a.txt").write_text("abc")
    (tmp_path / "b.bin").write_bytes(b"xyz")
    names = steps.FileLister(str(tmp_path), "*.txt")
    assert list(names.open_files(mode="b").read_from_stream()) == [(str(tmp_path / "a.txt"), b"abc")]
    assert list(names.open_files(mode="b").routed_decode()) == [(str(tmp_path / "a.txt"), "abc")]
    with open(tmp_path / "a.txt") as file:
        wrapped = StreamWrapper(file)
        assert wrapped.read() == "abc"
        assert repr(wrapped) == f"StreamWrapper<{file!r}>"


def test_workers_share_a_pipe():
    made = list(
        DataLoader(
            steps.IterableWrapper(range(8)).shuffle().sharding_filter(), batch_size=None, num_workers=2, shuffle=True
        )
    )
    assert sorted(made) == list(range(8))


def test_docs_name_the_step():
    doc = steps.IterableWrapper([]).batch.__doc__
    assert "(functional name: ``batch``)" in doc
    assert "Args:" in doc
    assert "Example:" in doc

    class Empty(IterDataPipe):
        pass

    assert isinstance(Empty(), IterDataPipe)
