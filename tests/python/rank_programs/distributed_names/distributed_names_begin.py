"""What the programs of this folder share."""

import copy
import warnings
import torch.nn as nn
from expect import fails
from process_group import dist, n, r, torch

F = nn.functional
W = dist.group.WORLD
