"""Random images, the same for the same index."""

import taper as torch
from taper.torchvision.datasets.vision import VisionDataset


class FakeData(VisionDataset):
    def __init__(
        self,
        size=1000,
        image_size=(3, 224, 224),
        num_classes=10,
        transform=None,
        target_transform=None,
        random_offset=0,
    ):
        super().__init__(transform=transform, target_transform=target_transform)
        self.size, self.num_classes, self.image_size, self.random_offset = size, num_classes, image_size, random_offset

    def __getitem__(self, index):
        if index >= len(self):
            raise IndexError(f"{type(self).__name__} index out of range")
        from taper.torchvision.transforms.functional import to_pil_image

        source = torch.Generator().manual_seed(
            self.random_offset + index
        )  # the program's own random numbers are left alone
        noise = torch.randn(self.image_size, generator=source)
        label = torch.randint(self.num_classes, (), generator=source)
        picture, label = self._changed(to_pil_image(noise), label)
        return picture, label.item() if isinstance(label, torch.Tensor) else label

    def __len__(self):
        return self.size
