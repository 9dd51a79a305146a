"""What datasets of images share: transforms, printing, and items that skip Pillow where nobody sees the difference."""

import os

import taper as torch
from taper.utils.data import Dataset


def through(step, value):
    """step(value); no step leaves the value as it is."""
    return value if step is None else step(value)


class StandardTransform:
    """A transform for the input and one for the target."""

    def __init__(self, transform=None, target_transform=None):
        self.transform, self.target_transform = transform, target_transform

    def __call__(self, input, target):
        return through(self.transform, input), through(self.target_transform, target)

    @staticmethod
    def _format_transform_repr(transform, head):
        """Lines, the further ones under the end of the head."""
        return f"{head}{transform!r}".replace("\n", "\n" + " " * len(head)).split("\n")

    def __repr__(self):
        steps = {"Transform: ": self.transform, "Target transform: ": self.target_transform}
        lines = (self._format_transform_repr(step, head) for head, step in steps.items() if step is not None)
        return "\n".join(sum(lines, [type(self).__name__]))


class VisionDataset(Dataset):
    _repr_indent = 4

    def __init__(self, root=None, transforms=None, transform=None, target_transform=None):
        self.root = os.path.expanduser(root) if isinstance(root, str) else root
        self.transform, self.target_transform, self.transforms = transform, target_transform, transforms
        if transform is not None or target_transform is not None:
            if transforms is not None:
                raise ValueError("Only transforms or transform/target_transform can be passed as argument")
            self.transforms = StandardTransform(transform, target_transform)

    def _changed(self, input, target):
        """A sample as its transforms make it."""
        return through(self.transform, input), through(self.target_transform, target)

    def __getitem__(self, index):
        raise NotImplementedError

    def __len__(self):
        raise NotImplementedError

    def __repr__(self):
        root, steps = self.root, getattr(self, "transforms", None)
        facts = [
            f"Dataset {type(self).__name__}",
            f"Number of datapoints: {len(self)}",
            *([] if root is None else [f"Root location: {root}"]),
            *self.extra_repr().splitlines(),
            *([] if steps is None else [f"{steps!r}"]),
        ]
        return ("\n" + " " * self._repr_indent).join(facts)

    def extra_repr(self):
        return ""


class ArrayDataset(VisionDataset):
    """A dataset whose images are one array in memory, `data`, with a number for each in `targets`. A transform that is
    ToTensor, alone or followed by Normalize, works on the array itself, for whole batches where the loader asks for
    them: same values, no Pillow."""

    def _planes(self, data):
        """Bytes as (..., C, H, W)."""
        raise NotImplementedError

    def _picture(self, index):
        """The image as Pillow's."""
        raise NotImplementedError

    def _steps(self):
        """The Normalize, or an empty tuple, where the transform begins with ToTensor and has nothing else; otherwise
        None."""
        from taper.torchvision.transforms.transforms import Compose, Normalize, ToTensor

        steps = self.transform.transforms if type(self.transform) is Compose else [self.transform]
        if (
            type(steps) in (list, tuple)
            and 1 <= len(steps) <= 2
            and type(steps[0]) is ToTensor
            and all(type(s) is Normalize for s in steps[1:])
        ):
            return tuple(steps[1:])
        return None

    def _tensors(self, data, steps):
        images = self._planes(torch.as_tensor(data)).to(torch.get_default_dtype()).div_(255)
        for step in steps:
            images = step(images)
        return images

    def _target(self, index):
        return through(self.target_transform, int(self.targets[index]))

    def __getitem__(self, index):
        steps = self._steps()
        if steps is not None:
            return self._tensors(self.data[index], steps), self._target(index)
        return through(self.transform, self._picture(index)), self._target(index)

    def __getitems__(self, indices):
        steps = self._steps() if type(self).__getitem__ is ArrayDataset.__getitem__ else None
        if steps is None:
            return [self[i] for i in indices]
        images = self._tensors(self.data[list(indices)], steps).unbind(0)
        return [(image, self._target(i)) for image, i in zip(images, indices)]

    def __len__(self):
        return len(self.data)
