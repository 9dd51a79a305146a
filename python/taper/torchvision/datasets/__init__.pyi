# Written by tools/stubs.py from the tables; 'make reference' writes it anew.
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar, Union, overload
from typing import ClassVar


from taper.torchvision.datasets.cifar import CIFAR10 as CIFAR10
from taper.torchvision.datasets.cifar import CIFAR100 as CIFAR100
from taper.torchvision.datasets.folder import DatasetFolder as DatasetFolder
from taper.torchvision.datasets.mnist import EMNIST as EMNIST
from taper.torchvision.datasets.fakedata import FakeData as FakeData
from taper.torchvision.datasets.mnist import FashionMNIST as FashionMNIST
from taper.torchvision.datasets.folder import ImageFolder as ImageFolder
from taper.torchvision.datasets.mnist import KMNIST as KMNIST
from taper.torchvision.datasets.mnist import MNIST as MNIST
from taper.torchvision.datasets.mnist import QMNIST as QMNIST
from taper.torchvision.datasets.arrays import STL10 as STL10
from taper.torchvision.datasets.arrays import SVHN as SVHN
from taper.torchvision.datasets.arrays import USPS as USPS
from taper.torchvision.datasets.vision import VisionDataset as VisionDataset
from taper.torchvision.datasets import arrays as arrays
from taper.torchvision.datasets import cifar as cifar
from taper.torchvision.datasets import fakedata as fakedata
from taper.torchvision.datasets import folder as folder
from taper.torchvision.datasets import mnist as mnist
from taper.torchvision.datasets import utils as utils
from taper.torchvision.datasets import vision as vision
def __getattr__(name: str) -> Any: ...
