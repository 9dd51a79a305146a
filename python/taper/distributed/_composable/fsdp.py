"""torch.distributed._composable.fsdp: an older home of torch.distributed.fsdp's fully_shard."""

from taper.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
    register_fsdp_forward_method,
)  # noqa: F401
