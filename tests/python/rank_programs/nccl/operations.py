"""Which operations NCCL carries, and which the host."""

from process_group import dist, n, r, torch
from nccl_begin import by_nccl
from datetime import timedelta

before = by_nccl()
half = torch.full((3,), 2.0, dtype=torch.float16)
dist.all_reduce(half, op=dist._make_nccl_premul_sum(0.5))
assert half.tolist() == [n] * 3
out = torch.zeros(2)
dist.reduce_scatter_tensor(out, torch.ones(2 * n), op=dist._make_nccl_premul_sum(3.0))
assert out.tolist() == [3 * n] * 2
assert by_nccl() == before + 2
words = torch.full((3,), 1 << r)
dist.all_reduce(words, op=dist.ReduceOp.BOR)  # not NCCL's: by the host
assert words.tolist() == [2**n - 1] * 3
assert by_nccl() == before + 2
host = torch.full((3,), float(r), device="cpu")
dist.all_reduce(host)
assert host.tolist() == [n * (n - 1) / 2] * 3
assert by_nccl() == before + 2
work = dist.all_reduce(torch.ones(5), async_op=True)
assert work.wait(timedelta(seconds=20))  # given a time, the host waits
assert work.is_completed()
assert work.is_success()
assert work.exception() is None
side = torch.xpu.Stream()
with torch.xpu.stream(side):
    z = torch.full((100000,), float(r + 1))
    dist.all_reduce(z)
    z += 1
torch.xpu.current_stream().wait_stream(side)
assert bool((z == n * (n + 1) / 2 + 1).all())
assert dist.is_xccl_available()
assert dist.get_backend_config() == "cpu:gloo,xpu:xccl"
assert len(dist.group.WORLD._device_types) == 2
