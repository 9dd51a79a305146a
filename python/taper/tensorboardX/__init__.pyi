# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


from taper.tensorboardX.writer import FileWriter as FileWriter
from taper.tensorboardX.global_writer import GlobalSummaryWriter as GlobalSummaryWriter
class RecordWriter:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
from taper.tensorboardX.writer import SummaryWriter as SummaryWriter
from taper.tensorboardX import global_writer as global_writer
from taper.tensorboardX import record_writer as record_writer
from taper.tensorboardX import summary as summary
from taper.tensorboardX import writer as writer
from taper.tensorboardX import x2num as x2num
def __getattr__(name: str) -> Any: ...
