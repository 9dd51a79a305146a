"""Calls and references."""

from rpc_begin import fails, rank, world
import time
import torch
import torch.distributed.rpc as rpc
from torch.distributed.rpc import RRef, remote, rpc_async, rpc_sync


def add(a, b):
    return a + b


def fail():
    raise ValueError("no good")


def sleep():
    time.sleep(2)


def where():
    return rpc.get_worker_info().name


def ask(rref):
    return rref.to_here() + 1


def held():
    return len(rpc._get_current_rpc_agent().held)


@rpc.functions.async_execution
def chain(to, x):
    return rpc_async(to, torch.add, args=(x, 1)).then(lambda future: future.wait() * 10)


class Counter:
    def __init__(self, n):
        self.n = n

    def more(self, by):
        self.n += by
        return self.n


rpc.init_rpc(f"w{rank}", rank=rank, world_size=world)
if rank == 0:
    assert rpc_sync("w1", add, args=(torch.ones(2), 3)).tolist() == [4, 4]
    assert rpc_sync(1, torch.add, args=(1, 2), kwargs={"alpha": 2}) == 5
    assert torch.futures.wait_all([rpc_async(f"w{i}", where) for i in range(world)]) == ["w0", "w1", "w2"]
    assert rpc_sync("w1", chain, args=("w2", torch.ones(1))).item() == 20
    fails(ValueError, "On WorkerInfo(id=1, name=w1):", lambda: rpc_sync("w1", fail))
    fails(RuntimeError, "could not find destination name nobody", lambda: rpc_sync("nobody", where))
    fails(RuntimeError, "ran for more than set timeout (300 ms)", lambda: rpc_sync("w1", sleep, timeout=0.3))
    fails(RuntimeError, "already initialized", lambda: rpc.init_rpc("w0"))
    counter = remote("w1", Counter, args=(5,))
    assert not counter.is_owner()
    assert counter.owner() == rpc.get_worker_info("w1")
    assert counter.rpc_sync().more(2) == 7
    assert counter.rpc_async().more(1).wait() == 8
    assert counter.remote().more(1).to_here() == 9
    fails(RuntimeError, "can't call localValue() on user", counter.local_value)
    fails(ValueError, "invalid literal", lambda: remote("w1", int, args=("z",)).to_here())
    assert [rpc_sync("w1", ask, args=(remote("w0", add, args=(i, 1)),)) for i in range(30)] == list(
        range(2, 32)
    )  # known at once where it is made
    mine = RRef(torch.arange(3))
    assert mine.is_owner()
    assert rpc_sync("w1", ask, args=(mine,)).tolist() == [1, 2, 3]
    assert rpc_sync("w2", ask, args=(remote("w1", add, args=(1, 2)),)) == 4
    w = torch.ones(2, requires_grad=True) * 2
    assert rpc_sync("w1", add, args=(w, 0)).requires_grad
    assert rpc_sync("w1", add, args=(w, 0)).is_leaf
    big = torch.arange(300000.0)
    assert torch.equal(rpc_sync("w1", add, args=(big, 0)), big)
    del counter
    until = time.monotonic() + 20
    while rpc_sync("w1", held):  # what nobody refers to any more is let go
        assert time.monotonic() < until
        time.sleep(0.01)
rpc.shutdown()
fails(RuntimeError, "RPC has not been initialized", where)
