"""Meshes of two dimensions."""

from dtensor_begin import P, R, S0, S1, X, Y, close, fails, lay, r, short
import itertools
import torch
import torch.distributed as dist
from torch.distributed.tensor import distribute_tensor, init_device_mesh

mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
assert repr(mesh) == "DeviceMesh((dp=2, tp=2), 'cpu', stride=(2, 1))"
assert mesh.get_coordinate() == (r // 2, r % 2)
assert mesh["tp"].mesh.tolist() == [r // 2 * 2, r // 2 * 2 + 1]
assert mesh["tp"].get_local_rank() == mesh.get_local_rank("tp") == r % 2
assert dist.get_process_group_ranks(mesh["dp"].get_group()) == [r % 2, r % 2 + 2]
assert mesh["tp"]._get_root_mesh() == mesh
assert mesh["dp"] != mesh["tp"]
flat = mesh["dp", "tp"]._flatten("both")
assert flat.mesh.tolist() == [0, 1, 2, 3]
assert mesh["both"] == flat
assert flat.get_local_rank() == r
assert flat.mesh_dim_names == ("both",)
cube = init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("a", "b", "c"))
assert cube["a", "c"].mesh.tolist() == [[0, 1], [2, 3]]
assert cube["b"].mesh.tolist() == [r]
assert cube["b", "c"]._flatten().mesh.tolist() == mesh["tp"].mesh.tolist()
with mesh["tp"]:
    assert distribute_tensor(X, placements=[S0]).device_mesh == mesh["tp"]
fails(KeyError, "'pp'", lambda: mesh["pp"])
fails(RuntimeError, "must be unique", lambda: init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "a")))
fails(RuntimeError, "bigger than default world size 4", lambda: init_device_mesh("cpu", (3, 2)))
fails(RuntimeError, "`mesh_dim` needs to be specified", lambda: mesh.get_group())

for whole in (torch.randn(8, 6), torch.randn(5, 3)):
    for a, b in itertools.product((S0, S1, R, P), repeat=2):
        part = lay(whole, mesh, a, b)
        close(part.full_tensor(), whole, (a, b))
        close(part.t().relu().full_tensor(), whole.t().relu(), (a, b))
        close(part.sum(0).full_tensor(), whole.sum(0), (a, b))
        for c, d in itertools.product((S0, S1, R), repeat=2):
            moved = part.redistribute(mesh, [c, d])
            assert moved.placements == (c, d)
            assert torch.equal(moved.to_local(), distribute_tensor(whole, mesh, [c, d]).to_local()), (a, b, c, d)
x, w = lay(torch.randn(8, 6), mesh, S0, R).detach().requires_grad_(), lay(Y, mesh, R, S1).detach().requires_grad_()
y = x @ w
assert y.placements == (S0, S1)
y.square().sum().full_tensor().backward()
a, b = x.full_tensor().detach().requires_grad_(), Y.clone().requires_grad_()
(a @ b).square().sum().backward()
close(x.grad.full_tensor(), a.grad, "x")
close(w.grad.full_tensor(), b.grad, "w")
assert short((y @ lay(torch.randn(8, 2), mesh, R, S0)).placements) == "S0 Psum"
assert short((x.view(4, 2, 6) @ w).placements) == "S0 S2"
