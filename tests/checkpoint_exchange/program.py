"""Rows of a matrix of 10 by 4, cut over the ranks, and a step: element (i, j) is (10 i + j) times SCALE, the step is SCALE.

    program.py save|load FOLDER SCALE

load checks what it finds."""

import sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

what, folder, scale = sys.argv[1], sys.argv[2], float(sys.argv[3])
dist.init_process_group("gloo")
whole = (10 * torch.arange(10.0)[:, None] + torch.arange(4.0)) * scale
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
state = {
    "model": {"weight": distribute_tensor(whole if what == "save" else torch.zeros(10, 4), mesh, [Shard(0)])},
    "step": int(scale) if what == "save" else 0,
}
if what == "save":
    dcp.save(state, checkpoint_id=folder)
else:
    dcp.load(state, checkpoint_id=folder)
    assert torch.equal(state["model"]["weight"].full_tensor(), whole) and state["step"] == scale, state
dist.destroy_process_group()
