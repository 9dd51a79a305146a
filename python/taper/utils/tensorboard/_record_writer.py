"""RecordWriter: bytes into a record file, each with its checksum."""

from taper._C import _RecordWriter as RecordWriter

RecordWriter.__module__ = "torch.utils.tensorboard"
