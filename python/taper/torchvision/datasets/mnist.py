"""MNIST and the datasets in its format, from the files of torchvision's layout: root/NAME/raw/*-ubyte, packed (.gz) or
not."""

import math
import os
import string

import taper as torch
from taper.torchvision._pillow import pillow
from taper.torchvision.datasets.utils import check_integrity, missing, open_packed, read_claimed, verify_str_arg
from taper.torchvision.datasets.vision import ArrayDataset, through

SN3_PASCALVINCENT_TYPEMAP = {
    8: torch.uint8,
    9: torch.int8,
    11: torch.int16,
    12: torch.int32,
    13: torch.float32,
    14: torch.float64,
}


def read_sn3_pascalvincent_tensor(path, strict=True):
    """A tensor in the format of the MNIST files: type, sizes, and elements with the big end first."""
    with open_packed(os.fspath(path)) as file:
        head = read_claimed(file, 4)
        kind, ndim = head[2:] if len(head) == 4 else (0, 0)
        sizes = read_claimed(file, 4 * ndim)
        if head[:2] != b"\0\0" or kind not in SN3_PASCALVINCENT_TYPEMAP or len(sizes) < 4 * ndim:
            raise ValueError(f"{path} is not in the format of the MNIST files")
        shape, dtype = (
            [int.from_bytes(sizes[4 * i : 4 * i + 4], "big") for i in range(ndim)],
            SN3_PASCALVINCENT_TYPEMAP[kind],
        )
        promised = math.prod(shape) * dtype.itemsize
        data = read_claimed(file, promised + 1)
    if len(data) < promised or strict and len(data) > promised:
        raise ValueError(
            f"{path} holds {len(data)} bytes of elements{' or more' if len(data) > promised else ''}, its header "
            f"promises {shape}"
        )
    if not promised:
        return torch.empty(shape, dtype=dtype)
    body = torch.frombuffer(data, dtype=torch.uint8, count=promised)
    if dtype.itemsize > 1:
        body = body.view(-1, dtype.itemsize).flip(1).reshape(-1).view(dtype)
    return body.view(shape)


def read_label_file(path):
    x = read_sn3_pascalvincent_tensor(path, strict=False)
    if x.dtype != torch.uint8 or x.ndim != 1:
        raise ValueError(f"{path} does not hold labels: {x.dtype} with {x.ndim} dimensions")
    return x.long()


def read_image_file(path):
    x = read_sn3_pascalvincent_tensor(path)
    if x.dtype != torch.uint8 or x.ndim != 3:
        raise ValueError(f"{path} does not hold images: {x.dtype} with {x.ndim} dimensions")
    return x


class MNIST(ArrayDataset):
    mirrors = ["https://ossci-datasets.s3.amazonaws.com/mnist/"]
    resources = [
        (name + ".gz", None)
        for name in (
            "train-images-idx3-ubyte",
            "train-labels-idx1-ubyte",
            "t10k-images-idx3-ubyte",
            "t10k-labels-idx1-ubyte",
        )
    ]
    training_file, test_file = "training.pt", "test.pt"
    classes = [
        "0 - zero",
        "1 - one",
        "2 - two",
        "3 - three",
        "4 - four",
        "5 - five",
        "6 - six",
        "7 - seven",
        "8 - eight",
        "9 - nine",
    ]

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        files = [self._find(name) for name in self._files()]
        if not all(files):
            raise missing(type(self).__name__, [name + ".gz" for name in self._files()], self.raw_folder, download)
        self.data, self.targets = self._read(*files)

    def _files(self):
        """The images' and the labels' file."""
        part = "train" if self.train else "t10k"
        return f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"

    def _find(self, name):
        for path in (os.path.join(self.raw_folder, name), os.path.join(os.fspath(self.root), name)):
            for suffix in ("", ".gz", ".xz"):
                if check_integrity(path + suffix):
                    return path + suffix
        return None

    def _read(self, images, labels):
        return read_image_file(images), read_label_file(labels)

    def _planes(self, data):
        return data.unsqueeze(-3)

    def _picture(self, index):
        image = torch.as_tensor(self.data[index])
        return pillow().frombytes("L", (image.shape[-1], image.shape[-2]), bytes(memoryview(image.contiguous())))

    @property
    def raw_folder(self):
        return os.path.join(os.fspath(self.root), type(self).__name__, "raw")

    @property
    def processed_folder(self):
        return os.path.join(os.fspath(self.root), type(self).__name__, "processed")

    @property
    def class_to_idx(self):
        return {name: i for i, name in enumerate(self.classes)}

    train_labels = test_labels = property(lambda self: self.targets, doc="The old name of targets.")
    train_data = test_data = property(lambda self: self.data, doc="The old name of data.")

    def _check_exists(self):
        return all(self._find(name) for name in self._files())

    def download(self):
        """Nothing to do where the files are there."""
        if not self._check_exists():
            raise missing(type(self).__name__, [name + ".gz" for name in self._files()], self.raw_folder, True)

    def extra_repr(self):
        return f"Split: {'Train' if self.train is True else 'Test'}"


class FashionMNIST(MNIST):
    mirrors = ["http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"]
    classes = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]


class KMNIST(MNIST):
    mirrors = ["http://codh.rois.ac.jp/kmnist/dataset/kmnist/"]
    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]


class EMNIST(MNIST):
    """Letters and digits; the files lie in root/EMNIST/raw."""

    splits = ("byclass", "bymerge", "balanced", "letters", "digits", "mnist")
    _all = set(string.digits + string.ascii_letters)
    _merged = sorted(_all - set("cijklmopsuvwxyz"))
    classes_split_dict = {
        "byclass": sorted(_all),
        "bymerge": _merged,
        "balanced": _merged,
        "letters": ["N/A"] + list(string.ascii_lowercase),
        "digits": list(string.digits),
        "mnist": list(string.digits),
    }

    def __init__(self, root, split, **kwargs):
        self.split = verify_str_arg(split, "split", self.splits)
        super().__init__(root, **kwargs)
        self.classes = self.classes_split_dict[self.split]

    def _files(self):
        part = "train" if self.train else "test"
        return f"emnist-{self.split}-{part}-images-idx3-ubyte", f"emnist-{self.split}-{part}-labels-idx1-ubyte"


class QMNIST(MNIST):
    """MNIST with all its test images; compat=False gives eight numbers about each image in place of its label."""

    subsets = {"train": "train", "test": "test", "test10k": "test", "test50k": "test", "nist": "nist"}

    def __init__(self, root, what=None, compat=True, train=True, **kwargs):
        self.what = verify_str_arg(
            ("train" if train else "test") if what is None else what, "what", tuple(self.subsets)
        )
        self.compat = compat
        super().__init__(root, train, **kwargs)

    def _files(self):
        subset = self.subsets[self.what]
        head = "xnist" if subset == "nist" else f"qmnist-{subset}"
        return f"{head}-images-idx3-ubyte", f"{head}-labels-idx2-int"

    def _read(self, images, labels):
        data, targets = read_image_file(images), read_sn3_pascalvincent_tensor(labels).long()
        first, last = {"test10k": (0, 10000), "test50k": (10000, None)}.get(self.what, (0, None))
        return data[first:last].clone(), targets[first:last].clone()

    def _target(self, index):
        target = int(self.targets[index][0]) if self.compat else self.targets[index]
        return through(self.target_transform, target)

    def extra_repr(self):
        return f"Split: {self.what}"
