# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


from taper.utils.data.datapipes import datapipe as datapipe
from taper.utils.data.datapipes import iter as iter
from taper.utils.data.datapipes import map as map
from taper.utils.data.datapipes import utils as utils
def __getattr__(name: str) -> Any: ...
