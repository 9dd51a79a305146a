"""torchvision.transforms: what happens to images on their way into a network."""

from taper.torchvision.transforms import functional  # noqa: F401
from taper.torchvision.transforms._interpolation import InterpolationMode  # noqa: F401
from taper.torchvision.transforms.transforms import (  # noqa: F401
    CenterCrop,
    ColorJitter,
    Compose,
    ConvertImageDtype,
    ElasticTransform,
    FiveCrop,
    GaussianBlur,
    Grayscale,
    Lambda,
    LinearTransformation,
    Normalize,
    Pad,
    PILToTensor,
    RandomAdjustSharpness,
    RandomAffine,
    RandomApply,
    RandomAutocontrast,
    RandomChoice,
    RandomCrop,
    RandomEqualize,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomInvert,
    RandomOrder,
    RandomPerspective,
    RandomPosterize,
    RandomResizedCrop,
    RandomRotation,
    RandomSolarize,
    RandomVerticalFlip,
    Resize,
    TenCrop,
    ToPILImage,
    ToTensor,
)

_AUGMENTS = frozenset("AugMix AutoAugment AutoAugmentPolicy RandAugment TrivialAugmentWide".split())


def __getattr__(name):
    from importlib import import_module

    if name in _AUGMENTS:
        return getattr(import_module("taper.torchvision.transforms.autoaugment"), name)
    if name in ("autoaugment", "v2"):
        return import_module("taper.torchvision.transforms." + name)
    raise AttributeError(f"module 'torchvision.transforms' has no attribute '{name}'")
