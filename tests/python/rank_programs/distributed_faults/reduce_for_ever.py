"""Says that it is ready; then one all_reduce after the other, until somebody ends it."""

from process_group import dist, torch

x = torch.ones(1000)
print("ready", flush=True)
while True:
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
