"""Functions hide the modules that they come from."""

import torch
import torch.nn.utils.weight_norm
from torch._higher_order_ops.cond import cond_op
from torch._prims_common import corresponding_complex_dtype

assert callable(torch.nn.utils.weight_norm)
assert callable(torch._higher_order_ops.cond)
assert corresponding_complex_dtype(torch.float32) is torch.complex64
