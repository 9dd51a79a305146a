"""torch.distributed.algorithms: ranks with different numbers of inputs (join), other ways to average gradients
(ddp_comm_hooks)."""

from taper.distributed.algorithms.join import Join, Joinable, JoinHook  # noqa: F401
