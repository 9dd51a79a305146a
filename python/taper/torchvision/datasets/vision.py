"""What datasets of images share: transforms, printing, and items that skip Pillow where nobody sees the difference."""
import os

import taper as torch
from taper.utils.data import Dataset


class StandardTransform:
    """A transform for the input and one for the target."""

    def __init__(self, transform=None, target_transform=None):
        self.transform = transform
        self.target_transform = target_transform

    def __call__(self, input, target):
        if self.transform is not None:
            input = self.transform(input)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return input, target

    @staticmethod
    def _format_transform_repr(transform, head):
        first, *rest = repr(transform).splitlines()
        return [f"{head}{first}"] + [" " * len(head) + line for line in rest]

    def __repr__(self):
        body = [type(self).__name__]
        if self.transform is not None:
            body += self._format_transform_repr(self.transform, "Transform: ")
        if self.target_transform is not None:
            body += self._format_transform_repr(self.target_transform, "Target transform: ")
        return "\n".join(body)


class VisionDataset(Dataset):
    _repr_indent = 4

    def __init__(self, root=None, transforms=None, transform=None, target_transform=None):
        self.root = os.path.expanduser(root) if isinstance(root, str) else root
        separate = transform is not None or target_transform is not None
        if transforms is not None and separate:
            raise ValueError("Only transforms or transform/target_transform can be passed as argument")
        self.transform, self.target_transform = transform, target_transform
        self.transforms = StandardTransform(transform, target_transform) if separate else transforms

    def __getitem__(self, index):
        raise NotImplementedError

    def __len__(self):
        raise NotImplementedError

    def __repr__(self):
        body = [f"Number of datapoints: {len(self)}"]
        if self.root is not None:
            body.append(f"Root location: {self.root}")
        body += self.extra_repr().splitlines()
        if getattr(self, "transforms", None) is not None:
            body += [repr(self.transforms)]
        return "\n".join(["Dataset " + type(self).__name__] + [" " * self._repr_indent + line for line in body])

    def extra_repr(self):
        return ""


class ArrayDataset(VisionDataset):
    """A dataset whose images are one array in memory, `data`, with a number for each in `targets`. A transform that is ToTensor, alone or
    followed by Normalize, works on the array itself, for whole batches where the loader asks for them: same values, no Pillow."""

    def _planes(self, data):
        """Bytes as (..., C, H, W)."""
        raise NotImplementedError

    def _picture(self, index):
        """The image as Pillow's."""
        raise NotImplementedError

    def _steps(self):
        """The Normalize, or an empty tuple, where the transform begins with ToTensor and has nothing else; otherwise None."""
        from taper.torchvision.transforms.transforms import Compose, Normalize, ToTensor
        steps = self.transform.transforms if type(self.transform) is Compose else [self.transform]
        if type(steps) in (list, tuple) and 1 <= len(steps) <= 2 and type(steps[0]) is ToTensor and all(type(s) is Normalize for s in steps[1:]):
            return tuple(steps[1:])
        return None

    def _tensors(self, data, steps):
        images = self._planes(torch.as_tensor(data)).to(torch.get_default_dtype()).div_(255)
        for step in steps:
            images = step(images)
        return images

    def _target(self, index):
        target = int(self.targets[index])
        return target if self.target_transform is None else self.target_transform(target)

    def __getitem__(self, index):
        steps = self._steps()
        if steps is not None:
            return self._tensors(self.data[index], steps), self._target(index)
        img = self._picture(index)
        return (img if self.transform is None else self.transform(img)), self._target(index)

    def __getitems__(self, indices):
        steps = self._steps() if type(self).__getitem__ is ArrayDataset.__getitem__ else None
        if steps is None:
            return [self[i] for i in indices]
        images = self._tensors(self.data[list(indices)], steps).unbind(0)
        return [(image, self._target(i)) for image, i in zip(images, indices)]

    def __len__(self):
        return len(self.data)
