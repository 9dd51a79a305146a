"""A training by ranks gives the weights of one process; rank 0 prints their bits."""

from ddp_begin import Net, apart, bits, r, sgd, train
import copy
import sys
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

steps = int(sys.argv[1]) if sys.argv[1:] else 50
torch.manual_seed(r)  # rank 0's parameters count
net = Net()
ddp = DDP(net, bucket_cap_mb=0.0005)
assert len(ddp.reducer.buckets) > 1
assert list(ddp.state_dict())[0] == "module.a.weight"
ref = copy.deepcopy(net)
train(ddp, steps, sgd(ddp))
train(ref, steps, sgd(ref), part=False)
assert apart(net, ref) < 1e-6, apart(net, ref)
if r == 0:
    print(bits(net))
