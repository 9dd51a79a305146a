"""torch.utils.tensorboard: event files that TensorBoard reads, written by the C library."""

from taper.utils.tensorboard.writer import FileWriter, SummaryWriter  # noqa: F401
from taper.utils.tensorboard._record_writer import RecordWriter  # noqa: F401

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
