"""A sum over eight ranks of one machine."""

from process_group import dist, n, r, torch

t = torch.full((100000,), float(r))
dist.all_reduce(t)
assert bool((t == 28).all())
assert dist.get_node_local_rank() == r
print(f"rank {r} of {n}\n", end="", flush=True)  # one write, which no other rank cuts
