# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


from taper.torchvision.transforms.transforms import CenterCrop as CenterCrop
from taper.torchvision.transforms.transforms import ColorJitter as ColorJitter
from taper.torchvision.transforms.transforms import Compose as Compose
from taper.torchvision.transforms.transforms import ConvertImageDtype as ConvertImageDtype
from taper.torchvision.transforms.transforms import ElasticTransform as ElasticTransform
from taper.torchvision.transforms.transforms import FiveCrop as FiveCrop
from taper.torchvision.transforms.transforms import GaussianBlur as GaussianBlur
from taper.torchvision.transforms.transforms import Grayscale as Grayscale
from taper.torchvision.transforms._interpolation import InterpolationMode as InterpolationMode
from taper.torchvision.transforms.transforms import Lambda as Lambda
from taper.torchvision.transforms.transforms import LinearTransformation as LinearTransformation
from taper.torchvision.transforms.transforms import Normalize as Normalize
from taper.torchvision.transforms.transforms import PILToTensor as PILToTensor
from taper.torchvision.transforms.transforms import Pad as Pad
from taper.torchvision.transforms.transforms import RandomAdjustSharpness as RandomAdjustSharpness
from taper.torchvision.transforms.transforms import RandomAffine as RandomAffine
from taper.torchvision.transforms.transforms import RandomApply as RandomApply
from taper.torchvision.transforms.transforms import RandomAutocontrast as RandomAutocontrast
from taper.torchvision.transforms.transforms import RandomChoice as RandomChoice
from taper.torchvision.transforms.transforms import RandomCrop as RandomCrop
from taper.torchvision.transforms.transforms import RandomEqualize as RandomEqualize
from taper.torchvision.transforms.transforms import RandomErasing as RandomErasing
from taper.torchvision.transforms.transforms import RandomGrayscale as RandomGrayscale
from taper.torchvision.transforms.transforms import RandomHorizontalFlip as RandomHorizontalFlip
from taper.torchvision.transforms.transforms import RandomInvert as RandomInvert
from taper.torchvision.transforms.transforms import RandomOrder as RandomOrder
from taper.torchvision.transforms.transforms import RandomPerspective as RandomPerspective
from taper.torchvision.transforms.transforms import RandomPosterize as RandomPosterize
from taper.torchvision.transforms.transforms import RandomResizedCrop as RandomResizedCrop
from taper.torchvision.transforms.transforms import RandomRotation as RandomRotation
from taper.torchvision.transforms.transforms import RandomSolarize as RandomSolarize
from taper.torchvision.transforms.transforms import RandomVerticalFlip as RandomVerticalFlip
from taper.torchvision.transforms.transforms import Resize as Resize
from taper.torchvision.transforms.transforms import TenCrop as TenCrop
from taper.torchvision.transforms.transforms import ToPILImage as ToPILImage
from taper.torchvision.transforms.transforms import ToTensor as ToTensor
from taper.torchvision.transforms import autoaugment as autoaugment
from taper.torchvision.transforms import functional as functional
from taper.torchvision.transforms import transforms as transforms
from taper.torchvision.transforms import v2 as v2
def __getattr__(name: str) -> Any: ...
