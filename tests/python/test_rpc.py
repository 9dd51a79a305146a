"""torch.distributed.rpc, its autograd and its optimiser: calls, references, errors, and gradients that are those of one process."""

import subprocess
import sys

import pytest
from ranks import run_ranks

HEAD = """
import os, sys, threading, time
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.nn as nn
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc import RRef, remote, rpc_async, rpc_sync

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

def raises(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
"""

CALLS = (
    HEAD
    + """
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
    assert rpc_sync("w1", add, args=(torch.ones(2), 3)).tolist() == [4, 4] and rpc_sync(1, torch.add, args=(1, 2), kwargs={"alpha": 2}) == 5
    assert torch.futures.wait_all([rpc_async(f"w{i}", where) for i in range(world)]) == ["w0", "w1", "w2"]
    assert rpc_sync("w1", chain, args=("w2", torch.ones(1))).item() == 20
    raises(ValueError, "On WorkerInfo(id=1, name=w1):", lambda: rpc_sync("w1", fail))
    raises(RuntimeError, "could not find destination name nobody", lambda: rpc_sync("nobody", where))
    raises(RuntimeError, "ran for more than set timeout (300 ms)", lambda: rpc_sync("w1", sleep, timeout=0.3))
    raises(RuntimeError, "already initialized", lambda: rpc.init_rpc("w0"))
    counter = remote("w1", Counter, args=(5,))
    assert not counter.is_owner() and counter.owner() == rpc.get_worker_info("w1") and counter.rpc_sync().more(2) == 7
    assert counter.rpc_async().more(1).wait() == 8 and counter.remote().more(1).to_here() == 9
    raises(RuntimeError, "can't call localValue() on user", counter.local_value)
    raises(ValueError, "invalid literal", lambda: remote("w1", int, args=("z",)).to_here())
    assert [rpc_sync("w1", ask, args=(remote("w0", add, args=(i, 1)),)) for i in range(30)] == list(range(2, 32))  # known at once where it is made
    mine = RRef(torch.arange(3))
    assert mine.is_owner() and rpc_sync("w1", ask, args=(mine,)).tolist() == [1, 2, 3] and rpc_sync("w2", ask, args=(remote("w1", add, args=(1, 2)),)) == 4
    w = torch.ones(2, requires_grad=True) * 2
    assert rpc_sync("w1", add, args=(w, 0)).requires_grad and rpc_sync("w1", add, args=(w, 0)).is_leaf
    big = torch.arange(300000.0)
    assert torch.equal(rpc_sync("w1", add, args=(big, 0)), big)
    del counter
    until = time.monotonic() + 20
    while rpc_sync("w1", held):  # what nobody refers to any more is let go
        assert time.monotonic() < until
        time.sleep(0.01)
rpc.shutdown()
raises(RuntimeError, "RPC has not been initialized", where)
"""
)

GRADIENTS = (
    HEAD
    + """
class Part(nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return torch.tanh(self.linear(x.to_here() if isinstance(x, RRef) else x))

    def references(self):
        return [RRef(p) for p in self.parameters()]

    def state(self):
        return [p.detach() for p in self.parameters()]

rpc.init_rpc(f"w{rank}", rank=rank, world_size=world, rpc_backend_options=rpc.TensorPipeRpcBackendOptions(rpc_timeout=60))
if rank == 0:
    parts = [remote(f"w{i}", Part, args=(i,)) for i in (1, 2)]
    torch.manual_seed(9)
    head, x = nn.Linear(3, 1), torch.randn(4, 3)
    here = nn.ModuleList([Part(1), Part(2)])
    same = nn.Linear(3, 1)
    same.load_state_dict(head.state_dict())
    references = [p for part in parts for p in part.rpc_sync().references()] + [RRef(p) for p in head.parameters()]
    far = DistributedOptimizer(torch.optim.SGD, references, lr=0.1, momentum=0.9)
    near = torch.optim.SGD([*here.parameters(), *same.parameters()], lr=0.1, momentum=0.9)
    for step in range(3):
        with dist_autograd.context() as context:
            middle = parts[0].remote().forward(x)  # stays there; the second part fetches it
            h = parts[1].rpc_sync().forward(middle)
            h = parts[0].rpc_sync().forward(h) + h  # two ways back
            loss = head(h).square().mean()
            dist_autograd.backward(context, [loss])
            assert head.weight.grad is None and dist_autograd.get_gradients(context)[head.weight].shape == (1, 3)
            far.step(context)
        raises(RuntimeError, "Could not find autograd context", lambda: dist_autograd.get_gradients(context))
        h = here[1](here[0](x))
        expected = same(here[0](h) + h).square().mean()
        near.zero_grad()
        expected.backward()
        near.step()
        assert torch.allclose(loss, expected), (step, loss, expected)
    for i in (0, 1):
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(parts[i].rpc_sync().state(), here[i].parameters()))
    with dist_autograd.context() as context:
        raises(RuntimeError, "root is not a scalar", lambda: dist_autograd.backward(context, [head(x)]))
rpc.shutdown()
"""
)

REMOTE_MODULE = (
    HEAD
    + """
from torch.distributed.nn import RemoteModule

rpc.init_rpc(f"w{rank}", rank=rank, world_size=world)
if rank == 0:
    module = RemoteModule("w1/cpu", nn.Linear, args=(3, 2))
    x = torch.ones(1, 3)
    assert torch.equal(module(x), module.forward_async(x).wait()) and module(x).shape == (1, 2)
    assert [p.to_here().shape for p in module.remote_parameters()] == [(2, 3), (2,)] and module.get_module_rref().owner().name == "w1"
    raises(ValueError, "Method ``parameters`` not supported for RemoteModule", module.parameters)
rpc.shutdown()
"""
)


def test_calls_and_references(tmp_path):
    run_ranks(3, CALLS, tmp_path)


def test_gradients_across_workers(tmp_path):
    run_ranks(3, GRADIENTS, tmp_path)


def test_remote_modules(tmp_path):
    run_ranks(2, REMOTE_MODULE, tmp_path)


BOTH = (
    HEAD
    + """
import torch.distributed as dist

def add_ranks():
    total = torch.tensor(rank + 1)
    dist.all_reduce(total)
    assert total.item() == world * (world + 1) // 2

def call():
    assert rpc_sync(f"w{(rank + 1) % world}", max, args=(1, 2)) == 2

def begin(kind):
    dist.init_process_group("gloo") if kind == "group" else rpc.init_rpc(f"w{rank}", rank=rank, world_size=world)

def end(kind):
    dist.destroy_process_group() if kind == "group" else rpc.shutdown()

orders = [("group", "rpc"), ("rpc", "group"), ("group", "rpc")]
for first, second in orders if sys.argv[1] == "group" else orders[1:]:
    for last in first, second:
        begin(first)
        begin(second)
        add_ranks()
        call()
        end(first if last == second else second)
        end(last)
print("done")
"""
)


@pytest.mark.parametrize("first", ["group", "rpc"])
def test_calls_beside_a_process_group(first, tmp_path):
    """Both meet at MASTER_PORT, where one store listens: rpc after init_process_group, and the other way round, more than once."""
    run_ranks(2, BOTH, tmp_path, arguments=[first])


def test_calls_beside_a_process_group_by_the_launcher(tmp_path):
    (tmp_path / "both.py").write_text(BOTH)
    command = [sys.executable, "-m", "taper", "launch", "--nproc", "2", str(tmp_path / "both.py"), "group"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.count("done") == 2, done.stderr
