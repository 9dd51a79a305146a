"""PyTorch's modules and Taper's are the same objects."""

import torch
import sys
import taper
import torch.nn.functional as F
from torch import nn, linalg as L
import taper.nn.functional

assert torch is taper
assert sys.modules["torch"] is taper
assert F is taper.nn.functional
assert nn is taper.nn
assert L is taper.linalg
assert sys.modules["torch.nn.functional"] is sys.modules["taper.nn.functional"]
assert taper.__name__ == "torch"
assert taper.__spec__.name == "taper"  # packages that patch PyTorch look at its name
print(torch.ones(2).sum().item())
