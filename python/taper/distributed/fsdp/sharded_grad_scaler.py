"""torch.distributed.fsdp.sharded_grad_scaler: a GradScaler for gradients in parts: a step is skipped on all ranks when
one of them overflows."""

from taper import distributed as dist
from taper.amp import GradScaler

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    def __init__(
        self,
        device="cuda",
        init_scale=2.0**16,
        backoff_factor=0.5,
        growth_factor=2.0,
        growth_interval=2000,
        enabled=True,
        process_group=None,
    ):
        super().__init__(
            device,
            init_scale=init_scale,
            backoff_factor=backoff_factor,
            growth_factor=growth_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )
        self.process_group = process_group

    def unscale_(self, optimizer):
        super().unscale_(optimizer)
        if not self._enabled:
            return
        for flag in self._per_optimizer_states[id(optimizer)].found_inf_per_device.values():
            dist.all_reduce(flag, dist.ReduceOp.MAX, group=self.process_group)
