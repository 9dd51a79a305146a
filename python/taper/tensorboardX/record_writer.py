"""tensorboardX.record_writer."""

from taper.utils.tensorboard._record_writer import RecordWriter  # noqa: F401
