"""Collectives that move tensors and objects."""

from process_group import dist, n, r, torch

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
dist.all_to_all(outs, [torch.full((r + 1,), 10.0 * r + i) for i in range(n)])
assert [o.tolist() for o in outs] == [[10.0 * i + r] * (i + 1) for i in range(n)]
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
