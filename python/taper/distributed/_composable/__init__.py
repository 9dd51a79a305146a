"""torch.distributed._composable: parallelism as calls that change a module in place."""

from taper.distributed._composable.replicate import replicate  # noqa: F401
from taper.distributed.fsdp import fully_shard  # noqa: F401
