# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


from taper.torchvision import datasets as datasets
def disable_beta_transforms_warning() -> Any: ...
def get_image_backend() -> Any: ...
def get_video_backend() -> Any: ...
from taper.torchvision import io as io
from taper.torchvision import models as models
from taper.torchvision import ops as ops
def set_image_backend(backend: Any) -> Any: ...
from taper.torchvision import transforms as transforms
from taper.torchvision import tv_tensors as tv_tensors
from taper.torchvision import utils as utils
from taper.torchvision import version as version
def __getattr__(name: str) -> Any: ...
