"""horovod.torch: Horovod's calls over torch.distributed. hvd.init() joins the world that the launcher's variables
describe."""

from taper.horovod.torch.compression import Compression  # noqa: F401
from taper.horovod.torch.functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)  # noqa: F401
from taper.horovod.torch.mpi_ops import (
    Adasum,
    Average,
    Max,
    Min,
    ProcessSet,
    Product,
    Sum,
    add_process_set,
    allgather,
    allgather_async,  # noqa: F401
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall,
    alltoall_async,
    barrier,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    global_process_set,
    gloo_built,
    gloo_enabled,
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter,
    grouped_reducescatter_async,
    init,
    is_homogeneous,
    is_initialized,
    join,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    poll,
    rank,
    reducescatter,
    reducescatter_async,
    remove_process_set,
    rocm_built,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
    synchronize,
)
from taper.horovod.torch.optimizer import DistributedOptimizer  # noqa: F401


def __getattr__(name):
    if name in ("elastic", "sync_batch_norm", "SyncBatchNorm"):
        from importlib import import_module

        if name == "elastic":
            return import_module("taper.horovod.torch.elastic")
        from taper.nn import SyncBatchNorm

        return SyncBatchNorm
    raise AttributeError(f"module 'horovod.torch' has no attribute '{name}'")
