"""Reductions of every dtype and operation."""

from process_group import dist, n, r, torch

t = torch.arange(6.0).reshape(2, 3).t() + r  # strided
dist.all_reduce(t)
assert torch.equal(t, torch.arange(6.0).reshape(2, 3).t() * n + n * (n - 1) / 2)
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
    for size in (5, 70000):  # all to all at once, and in parts
        x = torch.ones(size, dtype=dtype)
        dist.all_reduce(x)
        assert x.dtype == dtype, (dtype, x)
        assert bool((x == (True if dtype is torch.bool else n)).all()), (dtype, x)
for op, wanted in (
    ("SUM", n * (n + 1) // 2),
    ("PRODUCT", [1, 2, 6, 24][n - 1]),
    ("MIN", 1),
    ("MAX", n),
    ("AVG", (n + 1) / 2),
    ("BAND", [1, 0, 0, 0][n - 1]),
    ("BOR", [1, 3, 3, 7][n - 1]),
    ("BXOR", [1, 3, 0, 4][n - 1]),
):
    x = torch.full((3,), r + 1, dtype=torch.float64 if op == "AVG" else torch.int64)
    dist.all_reduce(x, op=getattr(dist.ReduceOp, op))
    assert x.tolist() == [wanted] * 3, (op, x)
big = torch.full((300007,), float(r + 1))
dist.reduce(big, dst=n - 1, op=dist.ReduceOp.SUM)
assert big[0] == (n * (n + 1) / 2 if r == n - 1 else r + 1)
assert bool((big == big[0]).all())
out = torch.zeros(2)
dist.reduce_scatter_tensor(out, torch.arange(2.0 * n))
assert out.tolist() == [2 * r * n, (2 * r + 1) * n]
dist.reduce_scatter(out, [torch.full((2,), float(i + r)) for i in range(n)], op=dist.ReduceOp.MAX)
assert out.tolist() == [r + n - 1] * 2
try:
    dist.all_reduce(torch.ones(2), op=dist.ReduceOp.BAND)
    raise AssertionError("BAND of floats went through")
except RuntimeError as error:
    assert "BAND" in str(error)
