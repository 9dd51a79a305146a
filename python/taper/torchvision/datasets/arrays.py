"""STL10, SVHN and USPS: small images in one file for each split."""

import os

import taper as torch
from taper import _C
from taper.torchvision._pillow import pillow
from taper.torchvision.datasets.cifar import _as_array
from taper.torchvision.datasets.utils import check_integrity, missing, open_packed, verify_str_arg
from taper.torchvision.datasets.vision import ArrayDataset


class _PlanesDataset(ArrayDataset):
    """data (N, 3, H, W), its numbers in `labels`."""

    targets = property(lambda self: self.labels)

    def _planes(self, data):
        return data

    def _picture(self, index):
        planes = torch.as_tensor(self.data[index])
        return pillow().frombytes(
            "RGB", (planes.shape[2], planes.shape[1]), bytes(memoryview(planes.permute(1, 2, 0).contiguous()))
        )

    def _need(self, folder, files, download):
        if not all(check_integrity(os.path.join(folder, name)) for name in files):
            raise missing(type(self).__name__, files, folder, download)

    def extra_repr(self):
        return f"Split: {self.split}"


class STL10(_PlanesDataset):
    base_folder = "stl10_binary"
    splits = ("train", "train+unlabeled", "unlabeled", "test")

    def __init__(self, root, split="train", folds=None, transform=None, target_transform=None, download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split = verify_str_arg(split, "split", self.splits)
        if folds is not None and folds not in range(10):
            raise ValueError(f"Value for argument folds should be in the range [0, 10), but got {folds}.")
        self.folds = folds
        self._folder = os.path.join(os.fspath(self.root), self.base_folder)
        parts = self.split.split("+")
        self._need(
            self._folder,
            [f"{part}_X.bin" for part in parts] + [f"{p}_y.bin" for p in parts if p != "unlabeled"],
            download,
        )
        pairs = [self._load(part) for part in parts]
        data, labels = (torch.cat(column) for column in zip(*pairs))
        if folds is not None and "train" in parts:
            chosen = self._fold(folds)
            data, labels = data[chosen], labels[chosen]
        self.data, self.labels = _as_array(data), _as_array(labels)
        names = os.path.join(self._folder, "class_names.txt")
        if os.path.isfile(names):
            with open(names) as file:
                self.classes = file.read().splitlines()

    def _bytes(self, name):
        return _C._read_file(os.path.join(self._folder, name))

    def _load(self, part):
        images = (
            self._bytes(f"{part}_X.bin").view(-1, 3, 96, 96).transpose(2, 3).contiguous()
        )  # columns come first in the files
        labels = torch.full((len(images),), -1) if part == "unlabeled" else self._bytes(f"{part}_y.bin").long() - 1
        return images, labels

    def _fold(self, fold):
        with open(os.path.join(self._folder, "fold_indices.txt")) as file:
            return torch.tensor([int(i) for i in file.read().splitlines()[fold].split()])


class SVHN(_PlanesDataset):
    def __init__(self, root, split="train", transform=None, target_transform=None, download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split = verify_str_arg(split, "split", ("train", "test", "extra"))
        name = f"{split}_32x32.mat"
        self._need(os.fspath(self.root), [name], download)
        try:
            import scipy.io
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "SVHN's files are MATLAB's, which SciPy reads: `pip install scipy`", name="scipy"
            ) from None
        arrays = scipy.io.loadmat(os.path.join(os.fspath(self.root), name))
        self.labels = arrays["y"].astype("int64").squeeze()
        self.labels[self.labels == 10] = 0  # the files' way to write the digit 0
        self.data = arrays["X"].transpose((3, 2, 0, 1)).copy()


class USPS(ArrayDataset):
    split_list = {"train": [None, "usps.bz2", None], "test": [None, "usps.t.bz2", None]}

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        name = self.split_list["train" if train else "test"][1]
        path = os.path.join(os.fspath(self.root), name)
        if not check_integrity(path):
            raise missing("USPS", [name], os.fspath(self.root), download)
        with open_packed(path) as file:
            rows = [line.decode().split() for line in file]
        values = torch.tensor([[float(pixel.partition(":")[2]) for pixel in row[1:]] for row in rows]).view(-1, 16, 16)
        self.data = _as_array(((values + 1) / 2 * 255).to(torch.uint8))
        self.targets = [int(row[0]) - 1 for row in rows]

    def _planes(self, data):
        return data.unsqueeze(-3)

    def _picture(self, index):
        return pillow().frombytes("L", (16, 16), bytes(memoryview(torch.as_tensor(self.data[index]).contiguous())))
