"""What the programs of this folder share."""

import itertools
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from expect import fails
from process_group import dist, n, r, torch

F = torch.nn.functional
torch.manual_seed(0)
S0, S1, S2, R, P = Shard(0), Shard(1), Shard(2), Replicate(), Partial()
X, Y, Z, B, C = torch.randn(4, 6), torch.randn(6, 8), torch.randn(4, 6), torch.randn(6), torch.randn(2, 4, 6)


def lay(t, mesh, *placements):
    # Partial: the first rank has it all, the others zeros.
    made = distribute_tensor(t, mesh, [R if p == P else p for p in placements]).to_local()
    for dim, p in enumerate(placements):
        made = made * 0 if p == P and mesh.get_local_rank(dim) else made
    return DTensor.from_local(made, mesh, placements, shape=t.shape, stride=t.stride())


def short(placements):
    return " ".join(str(p).replace("(", "").replace(")", "") for p in placements)


def close(a, b, why):
    assert a.shape == b.shape, (why, a, b)
    assert torch.allclose(a, b, atol=1e-5), (why, a, b)
