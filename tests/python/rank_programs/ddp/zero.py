"""ZeroRedundancyOptimizer."""

from ddp_begin import Net, apart, r, train
import copy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from torch.distributed.optim import ZeroRedundancyOptimizer

torch.manual_seed(0)
net, ref = Net(), None
ddp = DDP(net)
ref = copy.deepcopy(net)
zero = ZeroRedundancyOptimizer(ddp.parameters(), optimizer_class=torch.optim.AdamW, lr=0.02)
plan = torch.optim.lr_scheduler.StepLR(zero, 3, 0.5)
opt = torch.optim.AdamW(ref.parameters(), lr=0.02)
plan2 = torch.optim.lr_scheduler.StepLR(opt, 3, 0.5)
for step in range(5):
    train(ddp, 1, zero)
    train(ref, 1, opt, part=False)
    plan.step(), plan2.step()
assert apart(net, ref) < 2e-6, apart(net, ref)
assert len(zero.optim.state) < len(opt.state)
assert zero.param_groups[0]["lr"] == opt.param_groups[0]["lr"] == 0.01
try:
    zero.state_dict()
    raise AssertionError
except RuntimeError as error:
    assert "consolidate_state_dict" in str(error)
zero.consolidate_state_dict(to=0)
box = [zero.state_dict() if r == 0 else None]
dist.broadcast_object_list(box, 0)
assert sorted(box[0]["state"]) == list(range(8))
opt2 = torch.optim.AdamW(copy.deepcopy(ref).parameters(), lr=1.0)
opt2.load_state_dict(box[0])  # what one process could go on with
again = ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.AdamW, lr=1.0)
again.load_state_dict(box[0])
train(ddp, 3, again)
train(ref, 3, opt, part=False)
assert apart(net, ref) < 2e-6, apart(net, ref)
