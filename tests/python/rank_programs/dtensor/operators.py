"""Operators on parts."""

from dtensor_begin import B, C, F, P, R, S0, S1, S2, X, Y, Z, close, fails, lay, n, r, short
import itertools
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Partial, Shard, distribute_tensor, init_device_mesh

mesh = init_device_mesh("cpu", (n,))
where = {"S0": S0, "S1": S1, "S2": S2, "R": R, "P": P}


def check(text, expected, *tensors):
    # What `text` gives for tensors that lie as said, with its gradients.
    call = eval("lambda x, y=None, z=None: " + text)
    for case in expected.split(","):
        have, want = (part.split() for part in case.split(">"))
        parts = [lay(t, mesh, where[p]).detach().requires_grad_() for t, p in zip(tensors, have)]
        wholes = [t.clone().requires_grad_() for t in tensors]
        got, ref = call(*parts), call(*wholes)
        got, ref = (got, ref) if isinstance(got, tuple) else ((got,), (ref,))
        assert len(got) == len(ref)
        for a, b in zip(got, ref):
            assert short(a.placements) == " ".join(want), (text, case, a.placements, a.shape)
            assert a.shape == b.shape, (text, case, a.placements, a.shape)
            close(a.full_tensor().detach(), b.detach(), (text, case))
        if got[0].dtype.is_floating_point and got[0].requires_grad:
            (got[0] * got[0]).sum().full_tensor().backward()
            (ref[0] * ref[0]).sum().backward()
            for part, whole in zip(parts, wholes):
                if whole.grad is not None:
                    close(part.grad.full_tensor(), whole.grad, (text, case, "gradient"))


for text in ("x.t()", "x.T", "x.transpose(0, 1)", "x.permute(1, 0)"):
    check(text, "S0 > S1, S1 > S0, R > R, P > Psum", X)
check("x.sum()", "S0 > Psum, S1 > Psum, R > R, P > Psum", X)
check("x.sum(1)", "S0 > S0, S1 > Psum, R > R, P > Psum", X)
check("x.sum(dim=0, keepdim=True)", "S0 > Psum, S1 > S1, R > R, P > Psum", X)
check("x.mean()", "S0 > Pavg, S1 > Pavg, R > R, P > R", X)
check("x.mean(0)", "S0 > Pavg, S1 > S0, R > R, P > R", X)
check("x.max()", "S0 > Pmax, S1 > Pmax, R > R, P > R", X)
check("x.amin(1)", "S0 > S0, S1 > Pmin, R > R, P > R", X)
check("x.max(1)", "S0 > S0, S1 > R, R > R, P > R", X)
check("x.norm()", "S0 > _NormP2, S1 > _NormP2, R > R, P > R", X)
check("x.prod()", "S0 > Pproduct, R > R, P > R", X)
check("x.var(1)", "S0 > S0, S1 > R, R > R, P > R", X)
check("(x > 0).all(1)", "S0 > S0, S1 > R, R > R", X)
check("x.cumsum(1)", "S0 > S0, S1 > R, R > R, P > Psum", X)
check("x.softmax(-1)", "S0 > S0, S1 > R, R > R, P > R", X)
check("F.layer_norm(x, (6,), y)", "S0 R > S0, S1 R > R, R R > R, P R > R", X, B)
for text in ("x.relu()", "F.gelu(x)", "x.exp()", "x + 1", "x ** 2", "torch.where(x > 0, x, 0.)", "x.clamp(min=0)"):
    check(text, "S0 > S0, S1 > S1, R > R, P > R", X)
for text in ("-x", "x * 2", "x / 2", "x.clone()", "x.to(torch.float64)", "x + torch.tensor(1.)"):
    check(text, "S0 > S0, S1 > S1, R > R, P > Psum", X)
check("x.view(-1)", "S0 > S0, R > R, P > Psum", X)
check("x.view(2, 2, 6)", "S0 > S0, S1 > S2, R > R, P > Psum", X)
check("x.reshape(4, 2, 3)", "S0 > S0, S1 > S1, R > R, P > Psum", X)
check("x.reshape(2, 12)", "S0 > S0, S1 > R, R > R", X)
check("x.unflatten(1, (2, 3))", "S0 > S0, S1 > S1, R > R", X)
check("x.unsqueeze(0)", "S0 > S1, S1 > S2, R > R, P > Psum", X)
check("x.expand(3, 4, 6)", "S0 > S1, S1 > S2, R > R, P > Psum", X)
check("x[0]", "S0 > R, S1 > S0, R > R, P > Psum", X)
check("x[:, :3]", "S0 > S0, S1 > R, R > R, P > Psum", X)
check("x[None, 0:4]", "S0 > S1, S1 > S2, R > R", X)
check("x.chunk(2, 1)", "S0 > S0, S1 > R, R > R, P > Psum", X)
check("torch.zeros_like(x)", "S0 > S0, S1 > S1, R > R, P > R", X)
check("x.new_ones(4, 6)", "S0 > S0, S1 > S1, R > R", X)
check("x.new_zeros(3)", "S0 > R, R > R", X)
MM = "S0 S0 > S0, S0 S1 > S1, S0 R > S0, S0 P > Psum, S1 S0 > Psum, S1 S1 > S1, S1 R > Psum, R S0 > Psum, R S1 > S1, R R > R, R P > Psum, P S0 > Psum, P R > Psum, P P > Psum"
check("x @ y", MM, X, Y)
check("torch.mm(x, y)", MM, X, Y)
check(
    "F.linear(x, y, z)",
    "S0 R R > S0, S1 R R > Psum, R S0 S0 > S1, R S1 R > Psum, S1 S1 R > Psum, P R R > Psum, S0 S0 S0 > S1",
    X,
    Y.t().contiguous(),
    torch.randn(8),
)
check("torch.addmm(z, x, y)", "S0 R R > S0, S1 S0 R > Psum, R S1 R > S1", X, Y, torch.randn(8))
check("torch.bmm(x, y)", "S0 S0 > S0, S1 R > S1, R S2 > S2, S2 S1 > Psum, R R > R", C, torch.randn(2, 6, 4))
check("torch.einsum('ij,ij->i', x, y)", "S0 S0 > S0, S1 S1 > Psum, R R > R", X, Z)
ADD = "S0 S0 > S0, S0 S1 > S0, S1 S0 > S0, S0 R > S0, R S1 > S1, S0 P > S0, R R > R, R P > Psum, P R > Psum, P P > Psum"
check("x + y", ADD, X, Z)
check("x - y", ADD, X, Z)
check("x * y", ADD, X, Z)
check("x / y", "S0 S1 > S0, R P > R, P R > Psum, S1 R > S1", X, Z.abs() + 1)
check("torch.maximum(x, y)", "S0 S1 > S0, S0 P > S0, P P > R, R P > R", X, Z)
check("x + y", "S0 S0 > S0, S0 R > S0, S0 P > S0, S1 S0 > S1, R S0 > S1, P R > Psum", X, B)
check("x * y", "S0 P > Psum, S1 R > S1, P S0 > Psum", X, B)
check("torch.cat([x, y], 0)", "S0 S0 > R, S0 S1 > S1, S1 R > S1, R P > Psum", X, Z)
check("torch.stack([x, y])", "S0 S0 > S1, S0 S1 > R, R S1 > S2, P R > Psum", X, Z)
check("F.mse_loss(x, y)", "S0 S0 > Pavg, S1 R > Pavg, R R > R", X, Z)
check("x.t() @ x", "S0 > Psum, S1 > S0", torch.randn(5, 3))  # rows that do not divide
check("x.sum(0) + x.mean(0)", "S0 > Psum, R > R", torch.randn(5, 3))
check("F.conv2d(x, y)", "S0 R > S0, R R > R", torch.randn(2, 3, 5, 5), torch.randn(4, 3, 3, 3))
check("F.scaled_dot_product_attention(x, x, x)", "S0 > S0, S1 > S1, S2 > R", torch.randn(2, 2, 4, 3))
ids = distribute_tensor(torch.tensor([0, 3, 2, 1]), mesh, [S0])
assert short(F.embedding(ids, lay(X, mesh, R)).placements) == "S0"
assert short(F.embedding(ids, lay(X, mesh, S1)).placements) == "S1"

# Moving.
for a, b in itertools.product((S0, S1, R, P), repeat=2):
    for whole in (X, torch.randn(5, 3)):
        part = lay(whole, mesh, a).detach().requires_grad_()
        if a == R and b == P:
            fails(RuntimeError, "Can not redistribute from R to P(sum)", lambda: part.redistribute(mesh, [b]))
            continue
        moved = part.redistribute(mesh, [b])
        assert moved.placements == (b,)
        close(moved.full_tensor(), whole, (a, b))
        (moved * moved).sum().full_tensor().backward()
        close(part.grad.full_tensor(), 2 * whole, (a, b, "gradient"))
for op, value in (("avg", 0.5), ("max", 1.0), ("min", 0.0), ("product", 0.0)):
    assert DTensor.from_local(torch.tensor([float(r)]), mesh, [Partial(op)]).full_tensor().item() == value
# Local and back.
t = torch.ones(2, 3, requires_grad=True)
DTensor.from_local(t, mesh, [S0]).mul(2).sum().full_tensor().backward()
assert t.grad.tolist() == [[2.0] * 3] * 2
d = lay(X, mesh, R).detach().requires_grad_()
(d.to_local(grad_placements=[P]) * (r + 1)).sum().backward()
assert (d.grad.full_tensor() == n * (n + 1) / 2).all()
# In place, a tensor stays where it is.
d = lay(X, mesh, S0)
d.add_(lay(Z, mesh, S1)).mul_(2)
assert d.placements == (S0,)
close(d.full_tensor(), (X + Z) * 2, "add_")
d[1] = 7
assert d.full_tensor()[1].tolist() == [7.0] * 6
fails(RuntimeError, "in-place operations that require placement changes", lambda: lay(X, mesh, P).add_(1))
# Draws: parts differ, copies do not.
torch.manual_seed(r)
assert len(set(torch.rand_like(lay(X, mesh, S0)).full_tensor().flatten().tolist())) == 24
every = [None] * n
dist.all_gather_object(every, F.dropout(lay(X, mesh, R), 0.5, True).to_local().tolist())
assert every[0] == every[1]
fails(RuntimeError, "add got mixed torch.Tensor and DTensor", lambda: lay(X, mesh, S0) + X)
fails(ValueError, "same length as `device_mesh.ndim`", lambda: distribute_tensor(X, mesh, [S0, S1]))
fails(IndexError, "Dimension out of range", lambda: distribute_tensor(X, mesh, [Shard(2)]))
fails(ValueError, "do you want to call `redistribute`", lambda: distribute_tensor(lay(X, mesh, S0), mesh, [S1]))
fails(RuntimeError, "leaf tensors", lambda: distribute_tensor(X.clone().requires_grad_() * 1, mesh, [S0]))
# Modules: parameters and buffers become copies on all ranks, or lie as partition_fn says.
from torch import nn
from torch.distributed.tensor import distribute_module, linspace

torch.manual_seed(2)
net = nn.Sequential(
    nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 6)
)
import copy

ref, image, label = copy.deepcopy(net), torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 2, 3])


def cut_linear(name, module, mesh):
    if isinstance(module, nn.Linear):
        for key, p in list(module.named_parameters()):
            module.register_parameter(key, nn.Parameter(distribute_tensor(p, mesh, [S0])))


distribute_module(net, mesh, cut_linear, input_fn=lambda module, inputs, mesh: distribute_tensor(inputs[0], mesh, [S0]))
from torch.distributed.tensor.parallel import loss_parallel

for _ in range(2):
    with loss_parallel():
        F.cross_entropy(net(image), label).full_tensor().backward()
    F.cross_entropy(ref(image), label).backward()
for (name, p), q in zip(net.named_parameters(), ref.parameters()):
    close(p.grad.full_tensor(), q.grad, name)
close(net[1].running_mean.full_tensor(), ref[1].running_mean, "running mean")
assert net[5].weight.placements == (S0,)
assert net[0].weight.placements == (R,)
made = nn.init.orthogonal_(lay(torch.zeros(4, 4), mesh, S0))
assert made.placements == (S0,)
close(made.full_tensor() @ made.full_tensor().t(), torch.eye(4), "orthogonal")
close(linspace(0, 1, 5, device_mesh=mesh, placements=[S0]).full_tensor(), torch.linspace(0, 1, 5), "linspace")
import io

file = io.BytesIO()
torch.save(lay(X, mesh, S1), file)
file.seek(0)
back = torch.load(file, weights_only=False)
assert back.placements == (S1,)
assert back.device_mesh == mesh
close(back.full_tensor(), X, "saved")
from torch.distributed.tensor.experimental import implicit_replication

with implicit_replication():
    close((lay(X, mesh, S0) + X).full_tensor(), X * 2, "implicit")
