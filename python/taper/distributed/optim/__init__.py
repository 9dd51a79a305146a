"""torch.distributed.optim: optimisers whose state lies in parts on the ranks, or whose parameters are averaged now and
then, or lie on other workers."""

from taper.distributed.optim.optimizer import DistributedOptimizer  # noqa: F401
from taper.distributed.optim.post_localSGD_optimizer import PostLocalSGDOptimizer  # noqa: F401
from taper.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer  # noqa: F401

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]
