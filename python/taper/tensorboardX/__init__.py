"""tensorboardX: its writers on Taper's event files."""

from taper.tensorboardX.global_writer import GlobalSummaryWriter  # noqa: F401
from taper.tensorboardX.record_writer import RecordWriter  # noqa: F401
from taper.tensorboardX.writer import FileWriter, SummaryWriter  # noqa: F401

__version__ = "2.6.5"
