"""torch.distributed._tensor, where torch.distributed.tensor was before."""

from taper.distributed.tensor import *  # noqa: F401,F403
