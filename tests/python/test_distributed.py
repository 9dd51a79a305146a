"""torch.distributed over the library's own TCP engine, and over libgloo: every collective on 1 to 4 ranks; stores, and
ways to meet."""

import os

import pytest
import taper
from ranks import run_ranks

BEGIN = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
r, n = dist.get_rank(), dist.get_world_size()
"""
REDUCTIONS = (
    BEGIN
    + """
t = (torch.arange(6.).reshape(2, 3).t() + r)  # strided
dist.all_reduce(t)
assert torch.equal(t, torch.arange(6.).reshape(2, 3).t() * n + n * (n - 1) / 2)
for dtype in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
              torch.complex64, torch.complex128):
    for size in (5, 70000):  # all to all at once, and in parts
        x = torch.ones(size, dtype=dtype)
        dist.all_reduce(x)
        assert x.dtype == dtype and bool((x == (True if dtype is torch.bool else n)).all()), (dtype, x)
for op, wanted in (("SUM", n * (n + 1) // 2), ("PRODUCT", [1, 2, 6, 24][n - 1]), ("MIN", 1), ("MAX", n), ("AVG", (n + 1) / 2), ("BAND", [1, 0, 0, 0][n - 1]),
                   ("BOR", [1, 3, 3, 7][n - 1]), ("BXOR", [1, 3, 0, 4][n - 1])):
    x = torch.full((3,), r + 1, dtype=torch.float64 if op == "AVG" else torch.int64)
    dist.all_reduce(x, op=getattr(dist.ReduceOp, op))
    assert x.tolist() == [wanted] * 3, (op, x)
big = torch.full((300007,), float(r + 1))
dist.reduce(big, dst=n - 1, op=dist.ReduceOp.SUM)
assert big[0] == (n * (n + 1) / 2 if r == n - 1 else r + 1) and bool((big == big[0]).all())
out = torch.zeros(2)
dist.reduce_scatter_tensor(out, torch.arange(2. * n))
assert out.tolist() == [2 * r * n, (2 * r + 1) * n]
dist.reduce_scatter(out, [torch.full((2,), float(i + r)) for i in range(n)], op=dist.ReduceOp.MAX)
assert out.tolist() == [r + n - 1] * 2
try:
    dist.all_reduce(torch.ones(2), op=dist.ReduceOp.BAND)
    raise AssertionError("BAND of floats went through")
except RuntimeError as error:
    assert "BAND" in str(error)
"""
)
MOVES = (
    BEGIN
    + """
for size in (7, 300000):
    b = torch.full((size,), r)
    dist.broadcast(b, n - 1)
    assert bool((b == n - 1).all())
parts = [torch.zeros(3, 2).t() for _ in range(n)]
dist.all_gather(parts, torch.full((2, 3), float(r)))
assert [p[0, 0].item() for p in parts] == list(range(n))
uneven = [torch.zeros(i + 1) for i in range(n)]
dist.all_gather(uneven, torch.full((r + 1,), float(r)))
assert [u.tolist() for u in uneven] == [[float(i)] * (i + 1) for i in range(n)]
whole = torch.zeros(n, 2)
dist.all_gather_into_tensor(whole, torch.full((2,), float(r)))
assert whole[:, 1].tolist() == list(range(n))
got = [torch.zeros(2) for _ in range(n)] if r == 0 else None
dist.gather(torch.full((2,), float(r)), got, dst=0)
assert r or [g[0].item() for g in got] == list(range(n))
mine = torch.zeros(2)
dist.scatter(mine, [torch.full((2,), float(i)) for i in range(n)] if r == n - 1 else None, src=n - 1)
assert mine.tolist() == [r, r]
outs = [torch.zeros(i + 1) for i in range(n)]
dist.all_to_all(outs, [torch.full((r + 1,), 10. * r + i) for i in range(n)])
assert [o.tolist() for o in outs] == [[10. * i + r] * (i + 1) for i in range(n)]
rows = torch.zeros(sum(range(1, n + 1)), 2)
dist.all_to_all_single(rows, torch.full(((r + 1) * n, 2), float(r)), list(range(1, n + 1)), [r + 1] * n)
assert rows[:, 0].tolist() == [float(i) for i in range(n) for _ in range(i + 1)]
objects = [None] * n
dist.all_gather_object(objects, {"rank": r, "text": "x" * r})
assert objects == [{"rank": i, "text": "x" * i} for i in range(n)]
objects = [r, "a", None] if r == 0 else [None] * 3
dist.broadcast_object_list(objects, 0)
assert objects == [0, "a", None]
one = [None]
dist.scatter_object_list(one, [str(i) * i for i in range(n)] if r == 0 else None, src=0)
assert one == [str(r) * r]
gathered = [None] * n if r == 0 else None
dist.gather_object(r * "y", gathered, dst=0)
assert r or gathered == [i * "y" for i in range(n)]
dist.monitored_barrier()
dist.barrier()
"""
)
MESSAGES = (
    BEGIN
    + """
x = torch.zeros(4)
right, left = (r + 1) % n, (r - 1) % n
works = [dist.isend(torch.arange(4.) + r, right), dist.irecv(x, left)]
for work in works:
    work.wait()
assert x.tolist() == [left + i for i in range(4)]
ops = [dist.P2POp(dist.isend, torch.full((200000,), r), right), dist.P2POp(dist.irecv, y := torch.zeros(200000, dtype=torch.int64), left)]
for work in dist.batch_isend_irecv(ops):
    work.wait()
assert bool((y == left).all())
if r == 0:
    seen = set()
    for _ in range(n - 1):
        z = torch.zeros(1)
        seen.add(source := dist.recv(z))
        assert z.item() == source
    assert seen == set(range(1, n))
    a, b = torch.zeros(1), torch.zeros(1)
    second, first = dist.irecv(b, 1, tag=2), dist.irecv(a, 1, tag=1)
    second.wait(), first.wait()
    assert (a.item(), b.item()) == (1, 2)
    dist.send_object_list([1, "two"], dst=1)
else:
    dist.send(torch.tensor([float(r)]), 0)
    if r == 1:
        dist.send(torch.tensor([1.]), 0, tag=1)
        dist.send(torch.tensor([2.]), 0, tag=2)
        dist.recv_object_list(things := [None, None], src=0)
        assert things == [1, "two"]
"""
)
GROUPS = (
    BEGIN
    + """
evens = dist.new_group(range(0, n, 2))
if r % 2 == 0:
    t = torch.tensor([float(r)])
    dist.all_reduce(t, group=evens)
    assert t.item() == sum(range(0, n, 2)) and dist.get_rank(evens) == r // 2 and dist.get_world_size(evens) == (n + 1) // 2
    assert dist.get_global_rank(evens, 1) == 2 and dist.get_group_rank(evens, 2) == 1
    b = torch.tensor([r])
    dist.broadcast(b, src=2, group=evens)
    assert b.item() == 2
else:
    assert evens == dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(evens) == -1
mine, both = dist.new_subgroups(2)
t = torch.tensor([float(r)])
dist.all_reduce(t, group=mine)
assert t.item() == r // 2 * 4 + 1 and len(both) == 2
works = [dist.all_reduce(torch.ones(10) * i, async_op=True) for i in range(20)]
assert works[3].get_future().then(lambda f: f.value()[0][0].item()).wait() == 3 * n
for i, work in enumerate(works):
    assert work.wait() and work.is_completed() and work.is_success() and work.result()[0][0] == i * n
dist.destroy_process_group(mine)
dist.barrier()
dist.destroy_process_group()
assert not dist.is_initialized()
"""
)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("program", ["REDUCTIONS", "MOVES"])
def test_collectives(program, n, tmp_path):
    run_ranks(n, globals()[program], tmp_path)


def test_messages(tmp_path):
    run_ranks(3, MESSAGES, tmp_path)


def test_groups(tmp_path):
    run_ranks(4, GROUPS, tmp_path)


@pytest.mark.parametrize("name, n", [("REDUCTIONS", 3), ("MOVES", 2), ("MOVES", 4), ("MESSAGES", 3), ("GROUPS", 4)])
def test_libgloo(name, n, tmp_path):
    folder = os.environ.get("TAPER_BUILD_DIR") or os.path.join(os.path.dirname(taper.__file__), "..", "..")
    if not os.path.exists(os.path.join(folder, "libtaper-gloo.so")):
        pytest.skip("the engine for libgloo was not built: libgloo is not on this machine")
    run_ranks(
        n,
        globals()[name] + "\nimport taper\nassert taper._C._dist_engine() in ('gloo', None)\n",
        tmp_path,
        variables={"TAPER_GLOO": "1"},
    )


MEET = """
import sys, torch, torch.distributed as dist
how, rank, n = sys.argv[1], int(__import__("os").environ["RANK"]), int(__import__("os").environ["WORLD_SIZE"])
for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"):
    del __import__("os").environ[name]
if how == "file":
    dist.init_process_group("gloo", init_method="file://" + sys.argv[2] + "/meet", rank=rank, world_size=n)
elif how == "tcp":
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{__import__('os').environ['MASTER_PORT']}?world_size={n}", rank=rank)
else:
    store = dist.TCPStore("127.0.0.1", int(__import__("os").environ["MASTER_PORT"]), n, rank == 0)
    store.set(f"key{rank}", str(rank))
    store.wait([f"key{i}" for i in range(n)])
    assert [store.get(f"key{i}") for i in range(n)] == [str(i).encode() for i in range(n)]
    assert store.add("sum", 0) == 0 and store.compare_set("cas", "", "x") == b"x" and not store.check(["absent"])
    dist.init_process_group("cpu:gloo,cuda:nccl", store=dist.PrefixStore("job", store), rank=rank, world_size=n)
for _ in range(2):
    t = torch.tensor([1.])
    dist.all_reduce(t)
    assert t.item() == n and dist.get_rank() == rank and dist.get_backend() == "gloo"
    dist.barrier()
"""


@pytest.mark.parametrize("how", ["file", "tcp", "store"])
def test_ways_to_meet(how, tmp_path):
    run_ranks(3, MEET, tmp_path, arguments=(how, str(tmp_path)))


def test_tensors_of_other_devices(tmp_path):
    """Through the CPU's memory, and back. OpenCL on the processor stands for a GPU."""
    texts = run_ranks(
        2,
        BEGIN.replace("gloo", "cpu:gloo,xpu:xccl")
        + """
if torch.xpu.is_available():
    t = torch.full((3, 4), float(r + 1), device="xpu")
    dist.all_reduce(t)
    b = torch.full((2, 3), r, device="xpu").t()
    dist.broadcast(b, 1)
    parts = [torch.zeros(2, device="xpu") for _ in range(n)]
    dist.all_gather(parts, torch.full((2,), float(r), device="xpu"))
    x = torch.zeros(2, device="xpu")
    (dist.send(t[0, :2], 1) if r == 0 else dist.recv(x, 0))
    assert t.device.type == "xpu" and t.sum().item() == 36 and b.tolist() == [[1, 1]] * 3 and [p.tolist() for p in parts] == [[0, 0], [1, 1]]
    assert r == 0 or x.tolist() == [3, 3]
print("xpu", torch.xpu.is_available())
""",
        tmp_path,
        variables={"TAPER_XPU_DEVICES": "cpu"},
    )
    if "xpu False" in texts[0]:
        pytest.skip("OpenCL has no processor here (pocl-opencl-icd)")


def test_names_and_errors():
    import taper.distributed as dist

    assert (
        dist.is_available()
        and dist.is_gloo_available()
        and not dist.is_initialized()
        and dist.ReduceOp.SUM == dist.ReduceOp.RedOpType.SUM
    )
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
        BEGIN
        + """
from torch.distributed.distributed_c10d import BackendConfig
for wrong, error in (("foo", "Unknown backend type foo"), ("cpu:foo", "Unknown c10d backend type FOO"), (3, "Backend constructor parameter must be string-ish"),
                     ("ucc", "Distributed package doesn't have UCC built in")):
    for call in (dist.new_group, dist.init_process_group):
        try:
            call(backend=wrong)
        except (AssertionError, ValueError, RuntimeError) as told:
            assert str(told) == error, told
        else:
            assert False, wrong
        if call is dist.new_group:
            dist.destroy_process_group()
    dist.init_process_group("gloo")
assert dist.get_backend(dist.new_group(backend="")) == "gloo" and dist.get_backend(dist.new_group(backend="cpu:gloo,cuda:nccl")) == "gloo"
for wrong in ("cpu:gloo,cpu:gloo", "cpu:gloo,foo"):
    try:
        BackendConfig(wrong)
    except ValueError as told:
        assert f"argument is invalid: {wrong}" in str(told)
    else:
        assert False, wrong
""",
        tmp_path,
    )


def test_lists_of_uneven_sizes(tmp_path):
    run_ranks(
        3,
        """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
r, n = dist.get_rank(), dist.get_world_size()
parts = [torch.zeros(i + 1, 2) for i in range(n)]
dist.all_gather(parts, torch.full((r + 1, 2), float(r)))
assert all(torch.equal(part, torch.full((i + 1, 2), float(i))) for i, part in enumerate(parts))
for op, wanted in ((dist.ReduceOp.SUM, 3 + 3 * r), (dist.ReduceOp.AVG, 1 + r), (dist.ReduceOp.MAX, 2 + r)):
    out = torch.zeros(r)
    dist.reduce_scatter(out, [torch.full((i,), float(r + i)) for i in range(n)], op=op)  # rank 0's part is empty
    assert torch.equal(out, torch.full((r,), float(wanted))), (op, out)
""",
        tmp_path,
    )


def test_averages_of_whole_numbers_are_refused(tmp_path):
    run_ranks(
        2,
        """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for call in (lambda t: dist.all_reduce(t, op=dist.ReduceOp.AVG), lambda t: dist.reduce(t, 0, op=dist.ReduceOp.AVG),
             lambda t: dist.reduce_scatter(t, [t, t], op=dist.ReduceOp.AVG)):
    for dtype, name in ((torch.int64, "int64"), (torch.uint8, "uint8"), (torch.bool, "bool")):
        t = torch.ones(3).to(dtype)
        try:
            call(t)
        except RuntimeError as error:
            assert f"can't be cast to the desired output type {name}" in str(error), error
        else:
            raise AssertionError(f"{dtype} was averaged")
t = torch.ones(2)
dist.all_reduce(t, op=dist.ReduceOp.AVG)  # nobody is in the middle of anything
assert t.tolist() == [1, 1]
""",
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
    assert (
        repr(op.MAX) == "<RedOpType.MAX: 4>"
        and f"{op.MIN} {op.BOR}" == "RedOpType.MIN RedOpType.BOR"
        and "%s" % op.BXOR == "RedOpType.BXOR"
    )
    assert (
        op.SUM == 0
        and op.SUM == op(op.SUM)
        and op.SUM != op.AVG
        and op.SUM != "SUM"
        and {op.SUM: 1}[op.SUM] == 1
        and int(op.MAX) == op.MAX.value == 4
        and op.MAX.name == "MAX"
    )
    assert isinstance(op.SUM, op) and not isinstance(op.SUM, int) and bool(op.SUM) and op.RedOpType.SUM is op.SUM
    assert pickle.loads(pickle.dumps(op.MAX)) is op.MAX and copy.deepcopy(op.MIN) is op.MIN
    for wrong in (lambda: op.SUM < op.AVG, lambda: op.SUM + 1, lambda: op("SUM")):
        with pytest.raises(TypeError):
            wrong()


def test_a_group_after_a_group(tmp_path):
    """Ranks may be ahead of rank 0, whose store they need for the next one."""
    run_ranks(
        3,
        """
import time, torch, torch.distributed as dist
for _ in range(3):
    dist.init_process_group("gloo")
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x.tolist() == [3, 3]
    if dist.get_rank() == 0:
        time.sleep(0.3)
    dist.destroy_process_group()
""",
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
    assert (
        own.values == {"p/a": b"xy", "p/b": b"z"}
        and prefix.multi_get(["a", "b"]) == [b"xy", b"z"]
        and not prefix.has_extended_api()
    )
    with pytest.raises(RuntimeError, match="Not implemented."):
        dist.PrefixStore("p", dist.Store()).append("a", "b")
    with pytest.raises(ValueError):
        dist.PrefixStore("p", None)
    path = str(tmp_path / "store")
    for store in (dist.HashStore(), dist.FileStore(path, 1), dist.TCPStore("localhost", 0, 1, True)):
        for one in (store, dist.PrefixStore("q", store)):
            one.queue_push("work", "1")
            one.queue_push("work", "2")
            assert one.check(["work"]) and one.queue_len("work") == 2 and "work" in one.list_keys()
            assert [one.queue_pop("work"), one.queue_pop("work")] == [b"1", b"2"] and not one.check(["work"])
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
    assert server.num_keys() == 1 and server._s.get("init/") == b"1"
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
