"""Tensors of other devices, through the CPU's memory and back."""

import torch
import torch.distributed as dist

dist.init_process_group("cpu:gloo,xpu:xccl")
r, n = dist.get_rank(), dist.get_world_size()
if torch.xpu.is_available():
    t = torch.full((3, 4), float(r + 1), device="xpu")
    dist.all_reduce(t)
    b = torch.full((2, 3), r, device="xpu").t()
    dist.broadcast(b, 1)
    parts = [torch.zeros(2, device="xpu") for _ in range(n)]
    dist.all_gather(parts, torch.full((2,), float(r), device="xpu"))
    x = torch.zeros(2, device="xpu")
    (dist.send(t[0, :2], 1) if r == 0 else dist.recv(x, 0))
    assert t.device.type == "xpu"
    assert t.sum().item() == 36
    assert b.tolist() == [[1, 1]] * 3
    assert [p.tolist() for p in parts] == [[0, 0], [1, 1]]
    assert r == 0 or x.tolist() == [3, 3]
print("xpu", torch.xpu.is_available())
