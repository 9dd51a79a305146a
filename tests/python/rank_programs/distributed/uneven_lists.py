"""Lists of uneven sizes."""

from process_group import dist, n, r, torch

parts = [torch.zeros(i + 1, 2) for i in range(n)]
dist.all_gather(parts, torch.full((r + 1, 2), float(r)))
assert all(torch.equal(part, torch.full((i + 1, 2), float(i))) for i, part in enumerate(parts))
for op, wanted in ((dist.ReduceOp.SUM, 3 + 3 * r), (dist.ReduceOp.AVG, 1 + r), (dist.ReduceOp.MAX, 2 + r)):
    out = torch.zeros(r)
    dist.reduce_scatter(out, [torch.full((i,), float(r + i)) for i in range(n)], op=op)  # rank 0's part is empty
    assert torch.equal(out, torch.full((r,), float(wanted))), (op, out)
