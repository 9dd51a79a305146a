"""A training, saved in the middle (begin) or resumed (sharded: resume, whole: one); prints the later losses."""

from sharding_begin import F, Net, X, Y, n, r
import sys
import torch
import torch.distributed as dist

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

what, folder = sys.argv[1:3]
net = Net()
if what != "one":
    for layer in net.layers:
        fully_shard(layer)
    fully_shard(net)
opt = torch.optim.AdamW(net.parameters(), lr=0.01)


class App:
    epoch = 0

    def state_dict(self):
        model, optimizer = get_state_dict(net, opt)
        return {"model": model, "optim": optimizer, "epoch": self.epoch}

    def load_state_dict(self, state):
        set_state_dict(net, opt, model_state_dict=state["model"], optim_state_dict=state["optim"])
        self.epoch = state["epoch"]


app = App()
if what != "begin":
    dcp.load({"app": app}, checkpoint_id=folder)
    assert app.epoch == 4
for epoch in range(app.epoch, 8):
    if what == "begin" and epoch == 4:
        app.epoch = 4
        saved = dcp.async_save({"app": app}, checkpoint_id=folder)
    opt.zero_grad()
    loss = F.cross_entropy(net(X[r::n]), Y[r::n], reduction="sum") / 48
    (loss * n).backward()
    opt.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    if r == 0 and epoch >= 4:
        print(total.item())
if what == "begin":
    saved.result()
