"""torch.distributed.optim: optimisers whose state lies in parts on the ranks."""
from taper.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer  # noqa: F401

__all__ = ["ZeroRedundancyOptimizer"]
