"""torch.distributed on GPUs by NCCL: every collective, messages, groups, DDP and FSDP, and what happens when something
goes wrong. OpenCL on the processor stands for the GPU, and tests/fake_nccl.c for NCCL."""

import os
import pathlib

os.environ.setdefault("TAPER_XPU_DEVICES", "cpu")
import pytest
import taper
from ranks import PROGRAMS, Ranks, program_after, run_ranks

BUILD = pathlib.Path(os.environ.get("TAPER_BUILD_DIR") or os.path.join(os.path.dirname(taper.__file__), "..", ".."))
LIBRARY = BUILD / "tests" / "libfake-nccl.so"
if not taper.xpu.is_available():
    pytest.skip("OpenCL has no processor here (pocl-opencl-icd)", allow_module_level=True)
if not LIBRARY.exists():
    pytest.skip("tests/libfake-nccl.so was not built (it is part of the target `tests`)", allow_module_level=True)

VARIABLES = {"TAPER_XPU_DEVICES": "cpu", "TAPER_NCCL_LIBRARY": str(LIBRARY)}
# Each rank claims a machine of its own: NCCL has no two ranks on one GPU.
APART = "import os, ctypes\nif 'SHARED' not in os.environ: os.environ['NCCL_HOSTID'] = os.environ['RANK']\n"
COUNT = "\ndef by_nccl(): return ctypes.CDLL(os.environ['TAPER_NCCL_LIBRARY']).fake_nccl_operations()\n"
BEGIN = (
    APART
    + """
import torch, torch.distributed as dist
dist.init_process_group("cpu:gloo,xpu:xccl")
r, n = dist.get_rank(), dist.get_world_size()
"""
    + COUNT
    + 'torch.set_default_device("xpu")\n'
)


def run(n, program, folder, **variables):
    return run_ranks(n, program, folder, variables={**VARIABLES, **variables})


@pytest.mark.parametrize("name, n", [("reductions", 1), ("reductions", 3), ("moves", 1), ("moves", 4), ("groups", 4)])
def test_collectives(name, n, tmp_path):
    run(n, program_after(BEGIN, f"distributed/{name}.py") + "assert by_nccl() > 4, by_nccl()\n", tmp_path)


MORE = (
    BEGIN
    + """
x, y = torch.zeros(4), torch.zeros(200000, dtype=torch.int64)
right, left = (r + 1) % n, (r - 1) % n
works = [dist.isend(torch.arange(4.) + r, right), dist.irecv(x, left)]  # each to the right first: nobody holds up anybody
assert all(work.wait() for work in works) and x.tolist() == [left + i for i in range(4)]
for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.full((200000,), r), right), dist.P2POp(dist.irecv, y, left)]):
    work.wait()
assert bool((y == left).all())
for k in range(3):  # strided, in order
    strided = torch.zeros(3, 2).t()
    dist.send(torch.full((2, 3), 10. * k + r).t().contiguous().t(), right) if r % 2 == 0 else dist.recv(strided, left)
    dist.send(torch.full((2, 3), 10. * k + r), right) if r % 2 else dist.recv(strided, left)
    assert strided.tolist() == [[10. * k + left] * 3] * 2
try:
    dist.recv(x)
    raise AssertionError("from anybody, on a GPU")
except ValueError as error:
    assert "from one rank" in str(error)
before = by_nccl()
half = torch.full((3,), 2., dtype=torch.float16)
dist.all_reduce(half, op=dist._make_nccl_premul_sum(0.5))
assert half.tolist() == [n] * 3
out = torch.zeros(2)
dist.reduce_scatter_tensor(out, torch.ones(2 * n), op=dist._make_nccl_premul_sum(3.0))
assert out.tolist() == [3 * n] * 2 and by_nccl() == before + 2
words = torch.full((3,), 1 << r)
dist.all_reduce(words, op=dist.ReduceOp.BOR)  # not NCCL's: by the host
assert words.tolist() == [2 ** n - 1] * 3 and by_nccl() == before + 2
host = torch.full((3,), float(r), device="cpu")
dist.all_reduce(host)
assert host.tolist() == [n * (n - 1) / 2] * 3 and by_nccl() == before + 2
work = dist.all_reduce(torch.ones(5), async_op=True)
from datetime import timedelta
assert work.wait(timedelta(seconds=20)) and work.is_completed() and work.is_success() and work.exception() is None  # given a time, the host waits
side = torch.xpu.Stream()
with torch.xpu.stream(side):
    z = torch.full((100000,), float(r + 1))
    dist.all_reduce(z)
    z += 1
torch.xpu.current_stream().wait_stream(side)
assert bool((z == n * (n + 1) / 2 + 1).all())
assert dist.is_xccl_available() and dist.get_backend_config() == "cpu:gloo,xpu:xccl" and len(dist.group.WORLD._device_types) == 2
"""
)


def test_messages_and_what_else_there_is(tmp_path):
    run(2, MORE, tmp_path)


def test_backends_by_name(tmp_path):
    """None is NCCL for GPUs; gloo is the host's for all; and ranks that share a GPU go by the host, since NCCL refuses."""
    program = (
        BEGIN.replace('"cpu:gloo,xpu:xccl"', "eval(os.environ['BACKEND'])")
        + """
for k in range(2):
    t = torch.full((3, 2), float(r + 1))
    dist.all_reduce(t.t())
    x = torch.zeros(2)
    dist.send(t[0], 1) if r == 0 else dist.recv(x, 0)
    assert t.sum().item() == 18 and (r == 0 or x.tolist() == [3, 3])
print("operations", by_nccl(), dist.get_backend_config())
"""
    )
    for backend, shared, wanted in (
        ("None", None, "operations 4 cpu:gloo,xpu:xccl"),
        ("'gloo'", None, "operations 0"),
        ("None", "1", "operations 0"),
        ("'xccl'", None, "operations 4"),
    ):
        for text in run(2, program, tmp_path, BACKEND=backend, **({"SHARED": shared} if shared else {})):
            assert wanted in text, (backend, text)


def test_data_parallel(tmp_path):
    begin, figure = ((PROGRAMS / "ddp" / name).read_text() for name in ("ddp_begin.py", "figure.py"))
    program = (
        APART
        + begin.replace('"gloo"', "None").replace("dist.init", 'torch.set_default_device("xpu")\ndist.init')
        + figure.split("\n", 1)[1]  # all but the import of the other file
        + COUNT
        + "assert by_nccl() > 40, by_nccl()\n"
    )
    run(2, program.replace("50, ", "20, "), tmp_path)


SHARDED = (
    APART
    + """
import copy, torch, torch.nn as nn, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
"""
    + COUNT
    + """
dist.init_process_group()
r, n = dist.get_rank(), dist.get_world_size()
torch.set_default_device("xpu")
torch.manual_seed(1)
net = nn.Sequential(nn.Linear(6, 17), nn.Tanh(), nn.Linear(17, 3))
ref, zero = copy.deepcopy(net), copy.deepcopy(net)
X, Y = torch.randn(24, 6), torch.randint(0, 3, (24,))
fully_shard(net)
ddp = nn.parallel.DistributedDataParallel(zero)
makers = [(net, torch.optim.Adam(net.parameters(), lr=0.01), True), (ref, torch.optim.Adam(ref.parameters(), lr=0.01), False),
          (ddp, ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.Adam, lr=0.01), True)]
for step in range(5):
    for model, adam, part in makers:
        adam.zero_grad()
        nn.functional.cross_entropy(model(X[r::n] if part else X), Y[r::n] if part else Y).backward()
        adam.step()
assert by_nccl() > 20, by_nccl()
for name, wanted in ref.state_dict().items():
    assert torch.allclose(net.state_dict()[name].full_tensor(), wanted, atol=1e-5), name
    assert torch.allclose(zero.state_dict()[name], wanted, atol=1e-5), name
"""
)


def test_sharded(tmp_path):
    run(2, SHARDED, tmp_path)


# ---- Faults ----
STEPS = (
    BEGIN
    + """
import sys, time
def step(): dist.all_reduce(torch.ones(3, 4))
for _ in range(3): step()
"""
)


def faulty(n, fault, folder, **variables):
    return Ranks(
        n,
        STEPS + fault + "\nprint('went on')\n",
        folder,
        variables={**VARIABLES, "TAPER_STALL": "1.5", "TAPER_GRACE": "2", **variables},
    )


@pytest.mark.parametrize(
    "call, wanted",
    [
        ("dist.all_reduce(torch.ones(3, 4 + r))", "ranks disagree about number 4 of group 'default': rank 0 (host"),
        (
            "dist.all_reduce(torch.ones(3)) if r else dist.broadcast(torch.ones(3), 0)",
            "broadcast of float32 [3] on xpu, root 0, rank 1 (host",
        ),
        (
            "dist.all_reduce(torch.ones(3, device='cpu' if r else 'xpu'))",
            "came to all_reduce(SUM) of float32 [3] on xpu, rank 1 (host",
        ),
    ],
)
def test_ranks_that_disagree(call, wanted, tmp_path):
    statuses, texts = faulty(2, call, tmp_path).wait(30)
    assert statuses == [1, 1] and all(wanted in text and "went on" not in text for text in texts), (statuses, texts)


def test_a_stall_names_who_has_not_come(tmp_path):
    ranks = faulty(3, "time.sleep(60 if r == 1 else 0)\nstep()", tmp_path)
    try:
        ranks.wait_for_text("has waited", ranks=[0, 2])
        for r in (0, 2):
            text = ranks.texts()[r]
            assert (
                "in all_reduce(SUM) of float32 [3, 4] on xpu, number 4 of group 'default', at " in text
                and "  rank 1 (host" in text
                and "  rank 2 (host" not in text
            ), text
    finally:
        for process in ranks.processes:
            process.kill()
        ranks.wait(5)


def test_a_death_takes_all_down(tmp_path):
    ranks = faulty(3, "if r == 1:\n    os.kill(os.getpid(), 9)\nstep()", tmp_path)
    statuses, texts = ranks.wait(30)
    for r in (0, 2):
        assert (
            statuses[r] == 1 and f"rank 1 (host " in texts[r] and f"pid {ranks.processes[1].pid}) died" in texts[r]
        ), (statuses, texts)


@pytest.mark.parametrize(
    "variable, wanted",
    [
        ("FAKE_NCCL_FAIL", "ncclAllReduce failed: unhandled system error; last error: a failure that was asked for"),
        ("FAKE_NCCL_BREAK", "a collective of NCCL's failed: unhandled system error"),
    ],
)
def test_errors_of_nccl(variable, wanted, tmp_path):
    statuses, texts = faulty(
        2,
        f"if r == 1:\n    os.environ['{variable}'] = '4'\nstep()\nwhile True:\n    step()\n    time.sleep(0.01)",
        tmp_path,
    ).wait(30)
    assert statuses == [1, 1] and all(wanted in text for text in texts), (statuses, texts)
