"""Ways to meet."""

import os
import sys
import torch
import torch.distributed as dist

how, rank, n = sys.argv[1], int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"):
    del os.environ[name]
if how == "file":
    dist.init_process_group("gloo", init_method="file://" + sys.argv[2] + "/meet", rank=rank, world_size=n)
elif how == "tcp":
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}?world_size={n}", rank=rank
    )
else:
    store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), n, rank == 0)
    store.set(f"key{rank}", str(rank))
    store.wait([f"key{i}" for i in range(n)])
    assert [store.get(f"key{i}") for i in range(n)] == [str(i).encode() for i in range(n)]
    assert store.add("sum", 0) == 0
    assert store.compare_set("cas", "", "x") == b"x"
    assert not store.check(["absent"])
    dist.init_process_group("cpu:gloo,cuda:nccl", store=dist.PrefixStore("job", store), rank=rank, world_size=n)
for _ in range(2):
    t = torch.tensor([1.0])
    dist.all_reduce(t)
    assert t.item() == n
    assert dist.get_rank() == rank
    assert dist.get_backend() == "gloo"
    dist.barrier()
