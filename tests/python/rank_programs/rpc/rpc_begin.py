"""What the programs of this folder share."""

import os
import sys
import threading
import time
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.nn as nn
from torch.distributed.optim import DistributedOptimizer
from expect import fails
from torch.distributed.rpc import RRef, remote, rpc_async, rpc_sync

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
