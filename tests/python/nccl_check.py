"""What torch.distributed does on the GPUs of this machine: a line for each collective, for DDP and for how long
all_reduce takes. No test of the suite, which has no GPU: run it by `taper run tests/python/nccl_check.py`, or with
several ranks by `taper launch --nproc N tests/python/nccl_check.py`. With `--two` it starts two ranks on one GPU that
claim to be on two machines, as far as NCCL permits that."""

import os
import subprocess
import sys
import time

if "--two" in sys.argv:
    with __import__("socket").socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "taper", "run", __file__],
            env={
                **os.environ,
                "RANK": str(i),
                "WORLD_SIZE": "2",
                "LOCAL_RANK": "0",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "NCCL_HOSTID": f"machine{i}",
            },
        )
        for i in range(2)
    ]
    sys.exit(max(process.wait() for process in ranks))

os.environ.setdefault("RANK", "0"), os.environ.setdefault("WORLD_SIZE", "1")
os.environ.setdefault("MASTER_ADDR", "127.0.0.1"), os.environ.setdefault("MASTER_PORT", "29571")
import torch
import torch.distributed as dist

kind = "cuda" if torch.cuda.is_available() else "xpu"
gpus = getattr(torch, kind)
gpus.set_device(int(os.environ.get("LOCAL_RANK", 0)) % gpus.device_count())
torch.set_default_device(kind)
dist.init_process_group(f"cpu:gloo,{kind}:{'nccl' if kind == 'cuda' else 'xccl'}")
r, n = dist.get_rank(), dist.get_world_size()
failed = []


def say(text):
    if r == 0:
        print(text, flush=True)


def check(name, run):
    """run() gives whether the result is right."""
    began = time.perf_counter()
    try:
        fine = bool(run())
        gpus.synchronize()
        text = "ok" if fine else "WRONG"
    except Exception as error:
        fine, text = False, f"{type(error).__name__}: {error}"
    if not fine:
        failed.append(name)
    if r == 0 or not fine:
        print(f"{name:34} {text} ({(time.perf_counter() - began) * 1000:.1f} ms)", flush=True)


say(
    f"{gpus.get_device_name()}, {n} ranks, nccl available: {dist.is_nccl_available()}, version {torch.cuda.nccl.version() if dist.is_nccl_available() else None}"
)


def all_reduce(dtype, op, mine, wanted):
    t = torch.tensor([mine] * 1000, device="cpu").to(dtype).to(kind)
    dist.all_reduce(t, op=op)
    return (t.cpu() == torch.tensor([wanted] * 1000, device="cpu").to(dtype)).all()


for dtype in (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
):
    check(f"all_reduce {dtype}", lambda: all_reduce(dtype, dist.ReduceOp.SUM, 1, n))
product = 1
for i in range(n):
    product *= i + 1
for op, wanted in (("SUM", n * (n + 1) / 2), ("AVG", (n + 1) / 2), ("PRODUCT", product), ("MIN", 1), ("MAX", n)):
    check(f"all_reduce {op}", lambda: all_reduce(torch.float32, getattr(dist.ReduceOp, op), r + 1, wanted))
check("all_reduce BOR, by the host", lambda: all_reduce(torch.int64, dist.ReduceOp.BOR, 1 << r, (1 << n) - 1))
check("all_reduce premultiplied", lambda: all_reduce(torch.float32, dist._make_nccl_premul_sum(0.5), 4, 2 * n))


def strided():
    t = (torch.arange(6.0).reshape(2, 3) + r).t()
    dist.all_reduce(t)
    return torch.equal(t.cpu(), (torch.arange(6.0, device="cpu").reshape(2, 3) * n + n * (n - 1) / 2).t())


def broadcast():
    t = torch.full((7,), r)
    dist.broadcast(t, n - 1)
    return t.tolist() == [n - 1] * 7


def reduce():
    t = torch.full((7,), float(r + 1))
    dist.reduce(t, 0)
    return r or t.tolist() == [n * (n + 1) / 2] * 7


def all_gather():
    parts = [torch.zeros(3, 2).t() for _ in range(n)]
    dist.all_gather(parts, torch.full((2, 3), float(r)))
    whole = torch.zeros(n, 2)
    dist.all_gather_into_tensor(whole, torch.full((2,), float(r)))
    uneven = [torch.zeros(i + 1) for i in range(n)]
    dist.all_gather(uneven, torch.full((r + 1,), float(r)))
    return [p[0, 0].item() for p in parts] == list(range(n)) == whole[:, 1].tolist() and [
        u.tolist() for u in uneven
    ] == [[float(i)] * (i + 1) for i in range(n)]


def reduce_scatter():
    a, b = torch.zeros(2), torch.zeros(2)
    dist.reduce_scatter_tensor(a, torch.arange(2.0 * n))
    dist.reduce_scatter(b, [torch.full((2,), float(i + r)) for i in range(n)], op=dist.ReduceOp.MAX)
    return a.tolist() == [2 * r * n, (2 * r + 1) * n] and b.tolist() == [r + n - 1] * 2


def gather_scatter():
    got = [torch.zeros(2) for _ in range(n)] if r == 0 else None
    dist.gather(torch.full((2,), float(r)), got, dst=0)
    mine = torch.zeros(2)
    dist.scatter(mine, [torch.full((2,), float(i)) for i in range(n)] if r == 0 else None, src=0)
    return mine.tolist() == [r, r] and (r or [g[0].item() for g in got] == list(range(n)))


def all_to_all():
    outs = [torch.zeros(i + 1) for i in range(n)]
    dist.all_to_all(outs, [torch.full((r + 1,), 10.0 * r + i) for i in range(n)])
    flat = torch.zeros(n)
    dist.all_to_all_single(flat, torch.arange(float(n)) + 10 * r)
    return [o.tolist() for o in outs] == [[10.0 * i + r] * (i + 1) for i in range(n)] and flat.tolist() == [
        10.0 * i + r for i in range(n)
    ]


def messages():
    if n == 1:
        return True
    x, y = torch.zeros(1000000), torch.zeros(5)
    works = [dist.isend(torch.full((1000000,), float(r)), (r + 1) % n), dist.irecv(x, (r - 1) % n)]
    works += dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, torch.full((5,), float(r)), (r + 1) % n), dist.P2POp(dist.irecv, y, (r - 1) % n)]
    )
    for work in works:
        work.wait()
    return bool((x == (r - 1) % n).all()) and y.tolist() == [(r - 1) % n] * 5


def asynchronous():
    works = [dist.all_reduce(torch.full((100000,), float(i)), async_op=True) for i in range(20)]
    done = [work.wait() and work.result()[0][0].item() == i * n for i, work in enumerate(works)]
    gpus.synchronize()
    time.sleep(0.5)
    return all(done) and all(work.is_completed() and work.is_success() for work in works)


def groups():
    mine = dist.new_group(list(range(n)))
    t = torch.ones(5)
    dist.all_reduce(t, group=mine)
    dist.barrier()
    return t.tolist() == [n] * 5


def data_parallel():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    whole = __import__("copy").deepcopy(net)
    x, y = torch.randn(32 * n, 64), torch.randint(0, 10, (32 * n,))
    losses = []
    for model, part in (
        (torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.02), slice(r, None, n)),
        (whole, slice(None)),
    ):
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(10):
            sgd.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x[part]), y[part])
            loss.backward()
            sgd.step()
        losses.append(loss.item())
    apart = max((a - b).abs().max().item() for a, b in zip(net.parameters(), whole.parameters()))
    say(f"  losses {losses[0]:.4f} and {losses[1]:.4f}, weights apart by {apart:.2g}")
    return apart < 1e-5


for run in (
    strided,
    broadcast,
    reduce,
    all_gather,
    reduce_scatter,
    gather_scatter,
    all_to_all,
    messages,
    asynchronous,
    groups,
    data_parallel,
):
    check(run.__name__, run)

block = torch.ones(16 << 20)  # 64 MB
for _ in range(3):
    dist.all_reduce(block, op=dist.ReduceOp.AVG)
gpus.synchronize()
dist.barrier()
began = time.perf_counter()
for _ in range(20):
    dist.all_reduce(block, op=dist.ReduceOp.AVG)
begun = time.perf_counter() - began
gpus.synchronize()
took = (time.perf_counter() - began) / 20
say(
    f"all_reduce of 64 MB: {took * 1e3:.3f} ms, {0.0671 / took:.1f} GB/s; the host was busy with it for {begun / 20 * 1e6:.0f} us"
)
small = torch.ones(1)
began = time.perf_counter()
for _ in range(200):
    dist.all_reduce(small)
gpus.synchronize()
say(f"all_reduce of 4 bytes: {(time.perf_counter() - began) / 200 * 1e6:.0f} us")
dist.destroy_process_group()
say("all right" if not failed else f"FAILED: {failed}")
sys.exit(bool(failed))
