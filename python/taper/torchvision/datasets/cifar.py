"""CIFAR-10 and CIFAR-100 from the files of their Python versions. The pickles are read by a reader that makes arrays
and nothing else."""

import os
import pickle

import taper as torch
from taper._file_names import Names, read_pickle
from taper.torchvision._pillow import pillow
from taper.torchvision.datasets.utils import check_integrity, missing
from taper.torchvision.datasets.vision import ArrayDataset


class _Bytes:
    """An array of bytes in a pickle of NumPy's."""

    def __setstate__(self, state):
        _, shape, dtype, fortran, data = state
        data = data.encode() if isinstance(data, str) else data  # Python 2's strings are texts where they are UTF-8
        if fortran or dtype != "u1" or not isinstance(data, bytes) or len(data) != torch.Size(shape).numel():
            raise pickle.UnpicklingError("expected an array of bytes in row-major order")
        self.data = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(shape)


class _Dtype(str):
    def __new__(cls, text, align=False, copy=True):
        return super().__new__(cls, text)

    def __setstate__(self, state):
        """The order of bytes, which single bytes do not have."""


_NAMES = Names(
    call={
        **{f"numpy.{home}._reconstruct": lambda *args: _Bytes() for home in ("core.multiarray", "_core.multiarray")},
        "numpy.ndarray": _Bytes,
        "numpy.dtype": _Dtype,
    }
)


def read_batch(path):
    return read_pickle(path, _NAMES)


class CIFAR10(ArrayDataset):
    base_folder = "cifar-10-batches-py"
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    filename = "cifar-10-python.tar.gz"
    train_list = [[f"data_batch_{i}", None] for i in range(1, 6)]
    test_list = [["test_batch", None]]
    meta = {"filename": "batches.meta", "key": "label_names", "md5": None}
    _labels = "labels"

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        folder = os.path.join(os.fspath(self.root), self.base_folder)
        if not self._check_integrity():
            raise missing(
                type(self).__name__, [name for name, _ in self._list()] + [self.meta["filename"]], folder, download
            )
        batches = [read_batch(os.path.join(folder, name)) for name, _ in self._list()]
        planes = torch.cat([batch["data"].data for batch in batches]).view(-1, 3, 32, 32)
        self.data = _as_array(planes.permute(0, 2, 3, 1).contiguous())
        self.targets = [label for batch in batches for label in batch[self._labels]]
        self.classes = read_batch(os.path.join(folder, self.meta["filename"]))[self.meta["key"]]
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}

    def _list(self):
        return self.train_list if self.train else self.test_list

    def _check_integrity(self):
        folder = os.path.join(os.fspath(self.root), self.base_folder)
        return all(
            check_integrity(os.path.join(folder, name))
            for name in [n for n, _ in self._list()] + [self.meta["filename"]]
        )

    def download(self):
        """Nothing to do where the files are there."""
        if not self._check_integrity():
            raise missing(
                type(self).__name__,
                [n for n, _ in self._list()],
                os.path.join(os.fspath(self.root), self.base_folder),
                True,
            )

    def _planes(self, data):
        return data.movedim(-1, -3).contiguous()

    def _picture(self, index):
        image = self.data[index]
        return pillow().frombytes("RGB", (image.shape[1], image.shape[0]), bytes(memoryview(image)))

    def extra_repr(self):
        return f"Split: {'Train' if self.train is True else 'Test'}"


def _as_array(tensor):
    """NumPy's view of it, which scripts expect of `data`; the tensor itself where there is no NumPy."""
    try:
        return tensor.numpy()
    except (ImportError, RuntimeError):
        return tensor


class CIFAR100(CIFAR10):
    base_folder = "cifar-100-python"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    filename = "cifar-100-python.tar.gz"
    train_list = [["train", None]]
    test_list = [["test", None]]
    meta = {"filename": "meta", "key": "fine_label_names", "md5": None}
    _labels = "fine_labels"
