"""DTensor: where the results of operators lie (as PyTorch 2.15 places them), their values and gradients against the whole tensors, moving between all placements,
and meshes of two dimensions."""

from ranks import run_ranks

BEGIN = """
import itertools
import torch, torch.distributed as dist
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
F = torch.nn.functional
dist.init_process_group("gloo")
r, n = dist.get_rank(), dist.get_world_size()
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
    assert a.shape == b.shape and torch.allclose(a, b, atol=1e-5), (why, a, b)

def fails(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
"""

OPERATORS = (
    BEGIN
    + """
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
            assert short(a.placements) == " ".join(want) and a.shape == b.shape, (text, case, a.placements, a.shape)
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
check("F.linear(x, y, z)", "S0 R R > S0, S1 R R > Psum, R S0 S0 > S1, R S1 R > Psum, S1 S1 R > Psum, P R R > Psum, S0 S0 S0 > S1", X, Y.t().contiguous(), torch.randn(8))
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
assert short(F.embedding(ids, lay(X, mesh, R)).placements) == "S0" and short(F.embedding(ids, lay(X, mesh, S1)).placements) == "S1"

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
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 6))
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
assert net[5].weight.placements == (S0,) and net[0].weight.placements == (R,)
made = nn.init.orthogonal_(lay(torch.zeros(4, 4), mesh, S0))
assert made.placements == (S0,)
close(made.full_tensor() @ made.full_tensor().t(), torch.eye(4), "orthogonal")
close(linspace(0, 1, 5, device_mesh=mesh, placements=[S0]).full_tensor(), torch.linspace(0, 1, 5), "linspace")
import io
file = io.BytesIO()
torch.save(lay(X, mesh, S1), file)
file.seek(0)
back = torch.load(file, weights_only=False)
assert back.placements == (S1,) and back.device_mesh == mesh
close(back.full_tensor(), X, "saved")
from torch.distributed.tensor.experimental import implicit_replication
with implicit_replication():
    close((lay(X, mesh, S0) + X).full_tensor(), X * 2, "implicit")
"""
)


def test_operators_on_parts(tmp_path):
    run_ranks(2, OPERATORS, tmp_path)


MESHES = (
    BEGIN
    + """
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
assert repr(mesh) == "DeviceMesh((dp=2, tp=2), 'cpu', stride=(2, 1))" and mesh.get_coordinate() == (r // 2, r % 2)
assert mesh["tp"].mesh.tolist() == [r // 2 * 2, r // 2 * 2 + 1] and mesh["tp"].get_local_rank() == mesh.get_local_rank("tp") == r % 2
assert dist.get_process_group_ranks(mesh["dp"].get_group()) == [r % 2, r % 2 + 2] and mesh["tp"]._get_root_mesh() == mesh and mesh["dp"] != mesh["tp"]
flat = mesh["dp", "tp"]._flatten("both")
assert flat.mesh.tolist() == [0, 1, 2, 3] and mesh["both"] == flat and flat.get_local_rank() == r and flat.mesh_dim_names == ("both",)
cube = init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("a", "b", "c"))
assert cube["a", "c"].mesh.tolist() == [[0, 1], [2, 3]] and cube["b"].mesh.tolist() == [r] and cube["b", "c"]._flatten().mesh.tolist() == mesh["tp"].mesh.tolist()
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
assert short((y @ lay(torch.randn(8, 2), mesh, R, S0)).placements) == "S0 Psum" and short((x.view(4, 2, 6) @ w).placements) == "S0 S2"
"""
)


def test_meshes_of_two_dimensions(tmp_path):
    run_ranks(4, MESHES, tmp_path)


TWO_WAYS = (
    BEGIN
    + """
import copy, sys
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 6)) for _ in range(2)])
        self.last = nn.Linear(6, 3)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.last(x)

def sharded(net):
    for layer in net.layers:
        parallelize_module(layer, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        fully_shard(layer, mesh=mesh["dp"])
    parallelize_module(net, mesh["tp"], {"last": ColwiseParallel(output_layouts=R)})
    return fully_shard(net, mesh=mesh["dp"])

torch.manual_seed(4)
whole, X = Net(), torch.randn(8, 6)
net = sharded(copy.deepcopy(whole))
placed = {name: short(p.placements) for name, p in net.named_parameters()}
assert placed["layers.0.0.weight"] == "_S0, 2 S0" and placed["layers.0.2.weight"] == "S0 S1" and placed["layers.0.2.bias"] == "S0 R" and placed["last.bias"] == "_S0, 2 S0", placed
assert net.layers[0][0].weight.device_mesh == mesh and net.layers[0][0].weight.to_local().shape == (3 - r // 2, 6) and net.layers[0][0].weight.shape == (10, 6)
ref, mine = torch.optim.AdamW(whole.parameters(), lr=0.05), torch.optim.AdamW(net.parameters(), lr=0.05)

def train(steps):
    part = X[mesh.get_local_rank("dp") * 4:][:4]
    for _ in range(steps):
        norms = []
        for model, optimizer, x in ((whole, ref, X), (net, mine, part)):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5))
            optimizer.step()
        close(norms[1].full_tensor(), norms[0], "norm")

def same():
    state = get_model_state_dict(net, options=StateDictOptions(full_state_dict=True))
    for name, value in whole.state_dict().items():
        close(state[name], value, name)

train(4)
same()
# A checkpoint of it goes on in another of its kind, and one process's model can read it.
state = dict(zip(("model", "optim"), get_state_dict(net, mine)))
dcp.save(state, checkpoint_id=sys.argv[1])
net = sharded(Net())
mine = torch.optim.AdamW(net.parameters(), lr=0.05)
state = dict(zip(("model", "optim"), get_state_dict(net, mine)))
dcp.load(state, checkpoint_id=sys.argv[1])
set_state_dict(net, mine, model_state_dict=state["model"], optim_state_dict=state["optim"])
plain = {"model": Net().state_dict()}
dcp.load(plain, checkpoint_id=sys.argv[1])
for name, value in whole.state_dict().items():
    close(plain["model"][name], value, name)
train(3)
same()
# Parts that were cut inside out: to any other placement, element by element, and through operators that need them whole.
p = net.layers[1][0].weight
close((p * 2 + p).full_tensor(), p.full_tensor() * 3, "element by element")
assert (p * 2).placements == p.placements
close((p @ torch.distributed.tensor.distribute_tensor(torch.ones(6, 2), mesh, [R, R])).full_tensor(), p.full_tensor().sum(1, keepdim=True).expand(10, 2), "product")
for a, b in itertools.product((S0, S1, R), repeat=2):
    assert torch.equal(p.detach().redistribute(placements=[a, b]).to_local(), distribute_tensor(p.detach().full_tensor(), mesh, [a, b]).to_local()), (a, b)
"""
)


def test_fully_shard_over_tensor_parallel_layers(tmp_path):
    run_ranks(4, TWO_WAYS, tmp_path, arguments=[str(tmp_path / "saved")])


TRANSFORMER = (
    BEGIN
    + """
import contextlib, copy
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel, parallelize_module
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(8, 8, bias=False) for _ in range(4))

    def forward(self, x):
        heads = [layer(x).view(*x.shape[:2], -1, 2).transpose(1, 2) for layer in (self.q, self.k, self.v)]
        return self.o(F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).reshape(*x.shape[:2], -1))

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.up, self.down, self.first, self.second = Attention(), nn.Linear(8, 16), nn.Linear(16, 8), nn.LayerNorm(8), nn.LayerNorm(8)

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.down(F.silu(self.up(self.second(x))))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.blocks, self.norm, self.output = nn.Embedding(16, 8), nn.ModuleList([Block() for _ in range(2)]), nn.LayerNorm(8), nn.Linear(8, 16, bias=False)

    def forward(self, i):
        x = self.embed(i)
        for block in self.blocks:
            x = block(x)
        return self.output(self.norm(x))

COLUMNS = {name: ColwiseParallel() for name in ("attention.q", "attention.k", "attention.v")}
PLAIN = {**COLUMNS, "attention.o": RowwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
SEQUENCE = {**COLUMNS, "attention.o": RowwiseParallel(output_layouts=S1), "up": ColwiseParallel(input_layouts=S1), "down": RowwiseParallel(output_layouts=S1),
            "first": SequenceParallel(), "second": SequenceParallel(), "attention": PrepareModuleInput(input_layouts=(S1,), desired_input_layouts=(R,))}
for plan, cut_loss in ((PLAIN, False), (SEQUENCE, False), (SEQUENCE, True)):
    torch.manual_seed(0)
    model = Model()
    whole = copy.deepcopy(model)
    if plan is SEQUENCE:
        parallelize_module(model, mesh["tp"], {"embed": RowwiseParallel(input_layouts=R, output_layouts=S1), "norm": SequenceParallel(), "output": ColwiseParallel(
            input_layouts=S1, output_layouts=Shard(-1) if cut_loss else R, use_local_output=not cut_loss)})
    for block in model.blocks:
        fully_shard(parallelize_module(block, mesh["tp"], plan), mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    I = torch.randint(0, 16, (4, 6))
    part = I[mesh.get_local_rank("dp") * 2:][:2]
    steps = [(one, torch.optim.AdamW(one.parameters(), lr=0.01), i) for one, i in ((model, part), (whole, I))]
    for _ in range(3):
        for one, optimizer, i in steps:
            optimizer.zero_grad()
            with loss_parallel() if cut_loss else contextlib.nullcontext():
                F.cross_entropy(one(i).flatten(0, 1), i.flatten()).backward()
            optimizer.step()
    state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    for name, value in whole.state_dict().items():
        close(state[name], value, (cut_loss, name))
"""
)


def test_a_transformer_over_both_mesh_dimensions(tmp_path):
    run_ranks(4, TRANSFORMER, tmp_path)
