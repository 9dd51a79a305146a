"""torchvision.datasets, from files on disk: Taper downloads nothing by itself."""

from taper.torchvision.datasets.arrays import STL10, SVHN, USPS  # noqa: F401
from taper.torchvision.datasets.cifar import CIFAR10, CIFAR100  # noqa: F401
from taper.torchvision.datasets.fakedata import FakeData  # noqa: F401
from taper.torchvision.datasets.folder import DatasetFolder, ImageFolder  # noqa: F401
from taper.torchvision.datasets.mnist import EMNIST, KMNIST, MNIST, QMNIST, FashionMNIST  # noqa: F401
from taper.torchvision.datasets.vision import VisionDataset  # noqa: F401
