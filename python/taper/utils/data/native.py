"""Datasets that are read in C. Beyond PyTorch: DataLoader(dataset, worker_threads=N) reads them ahead on threads, which
share this process's memory, need no pickling, and start at once. Rows of plain tensors (TensorDataset) and subsets of
such datasets can be read so, too."""

from taper import _C
from taper._C import Tensor
from taper.utils.data.dataset import Dataset, Subset, TensorDataset


class NativeDataset(Dataset):
    """Samples that the library reads: each is a tuple of tensors of fixed shapes. Made by the functions of this
    module."""

    def __init__(self, make, *args):
        self._recipe, self._native = (make, args), make(*args)

    def __reduce__(self):
        """Copies and other processes read the files themselves."""
        make, args = self._recipe
        return NativeDataset, (make, *args)

    def __len__(self):
        return len(self._native)

    def __getitem__(self, index):
        return self._native[index]

    def normalise(self, mean, std, field=0):
        """With a field's numbers x as (x - mean) / std; mean and std are numbers, or lists with one for each
        channel."""
        return NativeDataset(_normalised, self, field, _numbers(mean), _numbers(std))


def _normalised(dataset, field, mean, std):
    return dataset._native.normalised(field, 1.0, mean, std)


def _numbers(given):
    return given if isinstance(given, (list, tuple)) else [given]


def mnist(images, labels):
    """MNIST's files, gzipped or not: images (1, 28, 28) in [0, 1] and labels."""
    return NativeDataset(_C._dataset_mnist, images, labels)


def cifar10(*paths):
    """CIFAR-10's binary files: images (3, 32, 32) in [0, 1] and labels."""
    return NativeDataset(_C._dataset_cifar, paths, 10)


def cifar100(*paths):
    """CIFAR-100's binary files: images (3, 32, 32) in [0, 1] and fine labels."""
    return NativeDataset(_C._dataset_cifar, paths, 100)


def tensors(path, *names):
    """Rows of the named tensors in an .npz, .safetensors or .pt file, which is mapped into memory where it can be."""
    return NativeDataset(_C._dataset_of_file, path, names)


def read_idx(path):
    """A file in MNIST's format, gzipped or not, as a tensor."""
    return _C._read_idx(path)


def _plain(tensor):
    return (
        type(tensor) is Tensor
        and tensor.dim() > 0
        and tensor.is_contiguous()
        and tensor.device.type == "cpu"
        and not tensor.requires_grad
    )


def native_of(dataset):
    """The library's dataset with the same samples, or None where Python has to read them."""
    if type(dataset) is NativeDataset:
        return dataset._native
    if (
        type(dataset) is TensorDataset
        and 0 < len(dataset.tensors) <= 16
        and all(_plain(tensor) for tensor in dataset.tensors)
    ):
        return _C._dataset_of_tensors(dataset.tensors)
    if type(dataset) is Subset and (whole := native_of(dataset.dataset)) is not None:
        n = len(whole)
        try:
            return whole.subset([i + n if i < 0 else i for i in dataset.indices])
        except (IndexError, TypeError):  # some are no indices: an error when they are used
            return None
    return None
