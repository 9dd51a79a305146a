"""torch.distributed.fsdp: modules whose parameters, gradients and optimiser state lie in parts on all ranks:
fully_shard, and the older wrapper FullyShardedDataParallel."""

from taper.distributed.fsdp._fully_shard import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    UnshardHandle,  # noqa: F401
    fully_shard,
    register_fsdp_forward_method,
)
from taper.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,  # noqa: F401
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from taper.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel  # noqa: F401
