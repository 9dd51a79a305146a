"""Gradients across workers."""

from rpc_begin import fails, rank, world
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.nn as nn
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc import RRef, remote


class Part(nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return torch.tanh(self.linear(x.to_here() if isinstance(x, RRef) else x))

    def references(self):
        return [RRef(p) for p in self.parameters()]

    def state(self):
        return [p.detach() for p in self.parameters()]


rpc.init_rpc(
    f"w{rank}", rank=rank, world_size=world, rpc_backend_options=rpc.TensorPipeRpcBackendOptions(rpc_timeout=60)
)
if rank == 0:
    parts = [remote(f"w{i}", Part, args=(i,)) for i in (1, 2)]
    torch.manual_seed(9)
    head, x = nn.Linear(3, 1), torch.randn(4, 3)
    here = nn.ModuleList([Part(1), Part(2)])
    same = nn.Linear(3, 1)
    same.load_state_dict(head.state_dict())
    references = [p for part in parts for p in part.rpc_sync().references()] + [RRef(p) for p in head.parameters()]
    far = DistributedOptimizer(torch.optim.SGD, references, lr=0.1, momentum=0.9)
    near = torch.optim.SGD([*here.parameters(), *same.parameters()], lr=0.1, momentum=0.9)
    for step in range(3):
        with dist_autograd.context() as context:
            middle = parts[0].remote().forward(x)  # stays there; the second part fetches it
            h = parts[1].rpc_sync().forward(middle)
            h = parts[0].rpc_sync().forward(h) + h  # two ways back
            loss = head(h).square().mean()
            dist_autograd.backward(context, [loss])
            assert head.weight.grad is None
            assert dist_autograd.get_gradients(context)[head.weight].shape == (1, 3)
            far.step(context)
        fails(RuntimeError, "Could not find autograd context", lambda: dist_autograd.get_gradients(context))
        h = here[1](here[0](x))
        expected = same(here[0](h) + h).square().mean()
        near.zero_grad()
        expected.backward()
        near.step()
        assert torch.allclose(loss, expected), (step, loss, expected)
    for i in (0, 1):
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(parts[i].rpc_sync().state(), here[i].parameters()))
    with dist_autograd.context() as context:
        fails(RuntimeError, "root is not a scalar", lambda: dist_autograd.backward(context, [head(x)]))
rpc.shutdown()
