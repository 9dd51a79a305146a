"""torch.distributed._tensor.placement_types, where torch.distributed.tensor.placement_types was before."""

from taper.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard  # noqa: F401
