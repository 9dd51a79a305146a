"""Different models are told apart."""

from ddp_begin import r
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

net = nn.Sequential(nn.Linear(6, 5 if r == 0 else 4), nn.Linear(3, 3))
try:
    DDP(net)
    raise AssertionError("different models went together")
except RuntimeError as error:
    text = str(error)
    assert (
        "rank 1 has parameter '0.weight' [4, 6] float32 where rank 0 has parameter '0.weight' [5, 6] float32" in text
    ), text
try:
    DDP(nn.ReLU())
    raise AssertionError
except RuntimeError as error:
    assert "doesn't have any parameters" in str(error)
