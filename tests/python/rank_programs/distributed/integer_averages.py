"""Averages of whole numbers are refused."""

from process_group import dist, n, r, torch

for call in (
    lambda t: dist.all_reduce(t, op=dist.ReduceOp.AVG),
    lambda t: dist.reduce(t, 0, op=dist.ReduceOp.AVG),
    lambda t: dist.reduce_scatter(t, [t, t], op=dist.ReduceOp.AVG),
):
    for dtype, name in ((torch.int64, "int64"), (torch.uint8, "uint8"), (torch.bool, "bool")):
        t = torch.ones(3).to(dtype)
        try:
            call(t)
        except RuntimeError as error:
            assert f"can't be cast to the desired output type {name}" in str(error), error
        else:
            raise AssertionError(f"{dtype} was averaged")
t = torch.ones(2)
dist.all_reduce(t, op=dist.ReduceOp.AVG)  # nobody is in the middle of anything
assert t.tolist() == [1, 1]
