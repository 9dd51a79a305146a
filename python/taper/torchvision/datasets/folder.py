"""Images in folders, one for each class."""

import os

from taper.torchvision._pillow import pillow
from taper.torchvision.datasets.vision import VisionDataset

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def has_file_allowed_extension(filename, extensions):
    return filename.lower().endswith(extensions if isinstance(extensions, str) else tuple(extensions))


def is_image_file(filename):
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def find_classes(directory):
    with os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir())
    if not names:
        raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")
    return names, dict(zip(names, range(len(names))))


def _files(folder):
    """The paths under a folder, links followed: folders in the order of their names, and so the files of each. Without
    the folder, none."""
    for place, _, names in sorted(os.walk(folder, followlinks=True)):
        yield from (os.path.join(place, name) for name in sorted(names))


def make_dataset(directory, class_to_idx=None, extensions=None, is_valid_file=None, allow_empty=False):
    """(path, class number) of each file, in the order of names."""
    directory = os.path.expanduser(directory)
    numbers = find_classes(directory)[1] if class_to_idx is None else class_to_idx
    if not numbers:
        raise ValueError("'class_to_index' must have at least one entry to collect any samples.")
    if (extensions is None) == (is_valid_file is None):
        raise ValueError("Both extensions and is_valid_file cannot be None or not None at the same time")
    accepted = is_valid_file or (lambda path: has_file_allowed_extension(path, extensions))
    paths = {name: list(filter(accepted, _files(os.path.join(directory, name)))) for name in sorted(numbers)}
    without = [name for name in paths if not paths[name]]
    if without and not allow_empty:
        known = [] if extensions is None else [extensions] if isinstance(extensions, str) else extensions
        hint = f"Supported extensions are: {', '.join(known)}" if extensions is not None else ""
        raise FileNotFoundError(f"Found no valid file for the classes {', '.join(without)}. {hint}")
    return [(path, numbers[name]) for name in paths for path in paths[name]]


class DatasetFolder(VisionDataset):
    """root/class/file, each read by `loader`."""

    def __init__(
        self,
        root,
        loader,
        extensions=None,
        transform=None,
        target_transform=None,
        is_valid_file=None,
        allow_empty=False,
    ):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.loader, self.extensions = loader, extensions
        self.classes, self.class_to_idx = self.find_classes(self.root)
        self.samples = self.make_dataset(self.root, self.class_to_idx, extensions, is_valid_file, allow_empty)
        self.targets = [number for _, number in self.samples]

    @staticmethod
    def make_dataset(directory, class_to_idx, extensions=None, is_valid_file=None, allow_empty=False):
        if class_to_idx is None:
            raise ValueError("The class_to_idx parameter cannot be None.")
        return make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    def find_classes(self, directory):
        return find_classes(directory)

    def __getitem__(self, index):
        path, number = self.samples[index]
        return self._changed(self.loader(path), number)

    def __len__(self):
        return len(self.samples)


def pil_loader(path):
    with open(path, "rb") as file:
        return pillow().open(file).convert("RGB")


default_loader = pil_loader


class ImageFolder(DatasetFolder):
    def __init__(
        self, root, transform=None, target_transform=None, loader=default_loader, is_valid_file=None, allow_empty=False
    ):
        super().__init__(
            root,
            loader,
            IMG_EXTENSIONS if is_valid_file is None else None,
            transform,
            target_transform,
            is_valid_file,
            allow_empty,
        )
        self.imgs = self.samples
