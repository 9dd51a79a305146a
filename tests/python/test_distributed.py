"""torch.distributed over the library's own TCP engine, and over libgloo: every collective on 1 to 4 ranks; stores, and
ways to meet."""

import os

import pytest
import taper
from ranks import run_ranks


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("program", ["reductions", "moves"])
def test_collectives(program, n, tmp_path):
    run_ranks(n, f"distributed/{program}.py", tmp_path)


def test_messages(tmp_path):
    run_ranks(3, "distributed/messages.py", tmp_path)


def test_groups(tmp_path):
    run_ranks(4, "distributed/groups.py", tmp_path)


@pytest.mark.parametrize("name, n", [("reductions", 3), ("moves", 2), ("moves", 4), ("messages", 3), ("groups", 4)])
def test_libgloo(name, n, tmp_path):
    folder = os.environ.get("TAPER_BUILD_DIR") or os.path.join(os.path.dirname(taper.__file__), "..", "..")
    if not os.path.exists(os.path.join(folder, "libtaper-gloo.so")):
        pytest.skip("the engine for libgloo was not built: libgloo is not on this machine")
    run_ranks(n, f"distributed/{name}.py", tmp_path, variables={"TAPER_GLOO": "1", "TEST_ENGINES": "gloo"})


@pytest.mark.parametrize("how", ["file", "tcp", "store"])
def test_ways_to_meet(how, tmp_path):
    run_ranks(3, "distributed/meet.py", tmp_path, arguments=(how, str(tmp_path)))


def test_tensors_of_other_devices(tmp_path):
    """Through the CPU's memory, and back. OpenCL on the processor stands for a GPU."""
    texts = run_ranks(
        2,
        "distributed/other_devices.py",
        tmp_path,
        variables={"TAPER_XPU_DEVICES": "cpu"},
    )
    if "xpu False" in texts[0]:
        pytest.skip("OpenCL has no processor here (pocl-opencl-icd)")


def test_names_and_errors():
    import taper.distributed as dist

    assert dist.is_available()
    assert dist.is_gloo_available()
    assert not dist.is_initialized()
    assert dist.ReduceOp.SUM == dist.ReduceOp.RedOpType.SUM
    with pytest.raises(
        ValueError, match="Default process group has not been initialized, please make sure to call init_process_group."
    ):
        dist.get_rank()
    with pytest.raises(ValueError, match="environment variable RANK expected, but not set"):
        dist.init_process_group("gloo")
    with pytest.raises(ValueError, match="rank parameter missing"):
        dist.init_process_group("gloo", init_method="tcp://127.0.0.1:1")
    with pytest.raises(RuntimeError, match="No rendezvous handler for nowhere://"):
        dist.init_process_group("gloo", init_method="nowhere://x", rank=0, world_size=1)
    store = dist.HashStore()
    store.set_timeout(__import__("datetime").timedelta(seconds=0.1))
    with pytest.raises(dist.DistStoreError, match="wait timeout after 100ms, keys: /never"):
        store.get("never")
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    with pytest.raises(ValueError, match="trying to initialize the default process group twice!"):
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    with pytest.raises(TypeError, match="Expected parameter `tensor` of type torch.Tensor"):
        dist.all_reduce([1, 2])
    with pytest.raises(ValueError, match="expected 1 tensors, one for each rank, got 2"):
        dist.all_gather([taper.zeros(2), taper.zeros(2)], taper.zeros(2))
    with pytest.raises(RuntimeError, match="several of its elements share memory"):
        dist.all_reduce(taper.zeros(1).expand(3))
    x = taper.zeros(3, requires_grad=True)
    version = x._version
    dist.all_reduce(x)
    assert x._version > version
    dist.destroy_process_group()


def test_backends_that_are_not_there(tmp_path):
    run_ranks(
        1,
        "distributed/absent_backends.py",
        tmp_path,
    )


def test_lists_of_uneven_sizes(tmp_path):
    run_ranks(
        3,
        "distributed/uneven_lists.py",
        tmp_path,
    )


def test_averages_of_whole_numbers_are_refused(tmp_path):
    run_ranks(
        2,
        "distributed/integer_averages.py",
        tmp_path,
    )


def test_reduce_ops_are_printed_and_compared_as_in_pytorch():
    import copy
    import pickle

    op = taper.distributed.ReduceOp
    assert [str(one) for one in (op.SUM, op.AVG, op.PREMUL_SUM)] == [
        "RedOpType.SUM",
        "RedOpType.AVG",
        "RedOpType.PREMUL_SUM",
    ]
    assert repr(op.MAX) == "<RedOpType.MAX: 4>"
    assert f"{op.MIN} {op.BOR}" == "RedOpType.MIN RedOpType.BOR"
    assert "%s" % op.BXOR == "RedOpType.BXOR"
    assert op.SUM == 0
    assert op.SUM == op(op.SUM)
    assert op.SUM != op.AVG
    assert op.SUM != "SUM"
    assert {op.SUM: 1}[op.SUM] == 1
    assert int(op.MAX) == op.MAX.value == 4
    assert op.MAX.name == "MAX"
    assert isinstance(op.SUM, op)
    assert not isinstance(op.SUM, int)
    assert bool(op.SUM)
    assert op.RedOpType.SUM is op.SUM
    assert pickle.loads(pickle.dumps(op.MAX)) is op.MAX
    assert copy.deepcopy(op.MIN) is op.MIN
    for wrong in (lambda: op.SUM < op.AVG, lambda: op.SUM + 1, lambda: op("SUM")):
        with pytest.raises(TypeError):
            wrong()


def test_a_group_after_a_group(tmp_path):
    """Ranks may be ahead of rank 0, whose store they need for the next one."""
    run_ranks(
        3,
        "distributed/group_after_group.py",
        tmp_path,
    )


def test_stores_of_programs_and_queues(tmp_path):
    from datetime import timedelta
    import taper.distributed as dist

    class Own(dist.Store):
        def __init__(self):
            super().__init__()
            self.values = {}

        def set(self, key, value):
            self.values[key] = value

        def get(self, key):
            return self.values.get(key, b"")

    own = Own()
    prefix = dist.PrefixStore("p", own)
    prefix.append("a", "x")
    prefix.append("a", "y")
    prefix.multi_set(["b"], ["z"])
    assert own.values == {"p/a": b"xy", "p/b": b"z"}
    assert prefix.multi_get(["a", "b"]) == [b"xy", b"z"]
    assert not prefix.has_extended_api()
    with pytest.raises(RuntimeError, match="Not implemented."):
        dist.PrefixStore("p", dist.Store()).append("a", "b")
    with pytest.raises(ValueError):
        dist.PrefixStore("p", None)
    path = str(tmp_path / "store")
    for store in (dist.HashStore(), dist.FileStore(path, 1), dist.TCPStore("localhost", 0, 1, True)):
        for one in (store, dist.PrefixStore("q", store)):
            one.queue_push("work", "1")
            one.queue_push("work", "2")
            assert one.check(["work"])
            assert one.queue_len("work") == 2
            assert "work" in one.list_keys()
            assert [one.queue_pop("work"), one.queue_pop("work")] == [b"1", b"2"]
            assert not one.check(["work"])
            with pytest.raises(dist.QueueEmptyError, match="empty"):
                one.queue_pop("work", block=False)
            one.barrier("here", 1)
            with pytest.raises(dist.DistStoreError, match="barrier timeout"):
                one.barrier("there", 2, timedelta(seconds=0.05))
    store = one = None
    first, second = dist.FileStore(path, 1), dist.FileStore(path, 1)
    del first
    assert os.path.exists(path)
    del second
    assert not os.path.exists(path)


def test_tcp_stores_count_their_clients():
    from datetime import timedelta
    import taper.distributed as dist

    server = dist.TCPStore("localhost", 0, 1, True)
    assert server.num_keys() == 1
    assert server._s.get("init/") == b"1"
    with pytest.raises(
        dist.DistStoreError, match=r"Timed out after \d+ seconds waiting for clients. 1/2 clients joined."
    ):
        dist.TCPStore("localhost", 0, 2, True, timedelta(seconds=0.1))
    with pytest.raises(
        dist.DistNetworkError,
        match=f"^The server socket has failed to listen on any local network address. port: {server.port}",
    ):
        dist.TCPStore("localhost", server.port, 1, True)
    with pytest.raises(ValueError, match="world size cannot be 0"):
        dist.TCPStore("localhost", 0, 0, True)
    with pytest.raises(AssertionError, match="has node-specific arguments"):
        dist.rendezvous("file://foo?rank=12&world_size=16", 12, 16)
    with pytest.raises(RuntimeError, match="^No rendezvous handler"):
        dist.rendezvous("invalid://")
