"""torch.distributed.algorithms.ddp_comm_hooks: other ways than plain averaging to make gradients the same on all ranks."""
from taper.nn.parallel._reducer import GradBucket  # noqa: F401
