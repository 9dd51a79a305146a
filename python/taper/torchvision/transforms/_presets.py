"""What weights want done to images before they see them."""

import taper as torch
from taper.nn import Module
from taper.torchvision.transforms import functional as F
from taper.torchvision.transforms._interpolation import InterpolationMode

__all__ = ["ImageClassification"]


class ImageClassification(Module):
    """Resized, the middle taken, as floats from 0 to 1, normalised."""

    def __init__(
        self,
        *,
        crop_size,
        resize_size=256,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        interpolation=InterpolationMode.BILINEAR,
        antialias=True,
    ):
        super().__init__()
        self.crop_size, self.resize_size = [crop_size], [resize_size]
        self.mean, self.std = list(mean), list(std)
        self.interpolation, self.antialias = interpolation, antialias

    def forward(self, img):
        img = F.center_crop(
            F.resize(img, self.resize_size, interpolation=self.interpolation, antialias=self.antialias), self.crop_size
        )
        if not isinstance(img, torch.Tensor):
            img = F.pil_to_tensor(img)
        return F.normalize(F.convert_image_dtype(img, torch.float), mean=self.mean, std=self.std)

    def __repr__(self):
        names = "crop_size", "resize_size", "mean", "std", "interpolation"
        return f"{type(self).__name__}(" + "".join(f"\n    {name}={getattr(self, name)}" for name in names) + "\n)"
