"""torch.distributed.tensor.parallel: layers whose weights lie in parts, for models that are larger than one device."""

from taper.distributed.tensor.parallel.api import parallelize_module  # noqa: F401
from taper.distributed.tensor.parallel.loss import loss_parallel  # noqa: F401
from taper.distributed.tensor.parallel.style import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,  # noqa: F401
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
    "loss_parallel",
    "parallelize_module",
]
