"""torchvision.transforms.v2: version 1's transforms for whole samples: images with their boxes, masks and labels, in
any nest of lists and dicts. Everything in a sample is changed by the same random draws."""

from enum import Enum

import taper as torch
from taper.nn import Module
from taper.torchvision._pillow import is_pil
from taper.torchvision.transforms import autoaugment as _auto, transforms as _v1
from taper.torchvision.transforms._interpolation import InterpolationMode  # noqa: F401
from taper.torchvision.transforms.autoaugment import AutoAugmentPolicy  # noqa: F401
from taper.torchvision.transforms.v2 import functional  # noqa: F401
from taper.torchvision.transforms.v2 import functional as F
from taper.torchvision.tv_tensors import BoundingBoxes, Image, Mask, TVTensor, Video, wrap
from taper.utils._pytree import tree_flatten, tree_unflatten


def _is_image(x):
    return is_pil(x) or isinstance(x, (Image, Video)) or F.is_pure_tensor(x)


class Transform(Module):
    """Subclasses write transform(inpt, params), and make_params(flat_inputs) for what all parts of a sample share."""

    _transformed_types = (torch.Tensor,)

    def check_inputs(self, flat_inputs):
        """Raises where a sample is not what the transform needs."""

    def make_params(self, flat_inputs):
        return {}

    def transform(self, inpt, params):
        raise NotImplementedError

    def _wanted(self, flat):
        """Which parts are transformed: of plain tensors the first alone, and that only where there is no other
        image."""
        other = any(is_pil(x) or isinstance(x, (Image, Video)) for x in flat)
        wanted, taken = [], other
        for x in flat:
            pure = F.is_pure_tensor(x)
            wanted.append((not taken if pure else is_pil(x) or isinstance(x, TVTensor)) and self._takes(x))
            taken = taken or pure
        return wanted

    def _takes(self, x):
        return True

    def forward(self, *inputs):
        flat, spec = tree_flatten(inputs if len(inputs) > 1 else inputs[0])
        self.check_inputs(flat)
        wanted = self._wanted(flat)
        params = self.make_params([x for x, w in zip(flat, wanted) if w])
        return tree_unflatten([self.transform(x, params) if w else x for x, w in zip(flat, wanted)], spec)

    def extra_repr(self):
        shown = [(k, v) for k, v in self.__dict__.items() if not k.startswith("_") and k != "training"]
        shown = [(k, v.value if isinstance(v, InterpolationMode) else v) for k, v in shown]
        return ", ".join(f"{k}={v}" for k, v in shown if isinstance(v, (bool, int, float, str, tuple, list, Enum)))

    __repr__ = Module.__repr__


class _Same(Transform):
    """A transform of version 1, done to each part of a sample with the same random numbers."""

    _F = F
    _of_images = False

    def __init__(self, *args, **kwargs):
        if isinstance(kwargs.get("interpolation"), str):
            kwargs["interpolation"] = InterpolationMode(kwargs["interpolation"])
        super().__init__(*args, **kwargs)

    def _takes(self, x):
        return _is_image(x) or not self._of_images

    def forward(self, *inputs):
        flat, spec = tree_flatten(inputs if len(inputs) > 1 else inputs[0])
        start, after = torch.get_rng_state(), None
        for i, wanted in enumerate(self._wanted(flat)):
            if wanted:
                torch.set_rng_state(start)
                result = self._old.forward(self, flat[i])
                flat[i] = (
                    wrap(result, like=flat[i]) if isinstance(flat[i], TVTensor) and F.is_pure_tensor(result) else result
                )
                after = after if after is not None else torch.get_rng_state()
        if after is not None:
            torch.set_rng_state(after)
        return tree_unflatten(flat, spec)


def _twins(names, of_images, module=_v1):
    """Classes of version 1 for whole samples."""
    for name in names.split():
        old = getattr(module, name)
        globals()[name] = type(
            name, (_Same, old), {"_old": old, "_of_images": of_images, "__module__": __name__, "__doc__": old.__doc__}
        )


_twins(
    "CenterCrop ElasticTransform FiveCrop Pad RandomAffine RandomHorizontalFlip RandomPerspective RandomResizedCrop "
    "RandomRotation RandomVerticalFlip TenCrop",
    of_images=False,
)
_twins(
    "ColorJitter GaussianBlur Grayscale LinearTransformation Normalize RandomAdjustSharpness RandomAutocontrast "
    "RandomEqualize RandomErasing RandomGrayscale RandomInvert RandomPosterize RandomSolarize",
    of_images=True,
)
_twins("AugMix AutoAugment RandAugment TrivialAugmentWide", of_images=True, module=_auto)


class Resize(_Same, _v1.Resize):
    _old = _v1.Resize

    def __init__(self, size, interpolation=InterpolationMode.BILINEAR, max_size=None, antialias=True):
        super().__init__(
            [size] if isinstance(size, int) else size,
            interpolation=interpolation,
            max_size=max_size,
            antialias=antialias,
        )


class RandomCrop(_Same, _v1.RandomCrop):
    _old = _v1.RandomCrop

    @staticmethod
    def get_params(img, output_size):
        """As version 1, but no number is drawn for a side that fits."""
        height, width = F.get_size(img)
        th, tw = output_size
        if height < th or width < tw:
            raise ValueError(f"Required crop size {(th, tw)} is larger than padded input image size {(height, width)}.")
        top = int(torch.randint(0, height - th + 1, size=(1,))) if height > th else 0
        return top, int(torch.randint(0, width - tw + 1, size=(1,))) if width > tw else 0, th, tw


# ---- Putting transforms together ----
class Compose(Transform):
    def __init__(self, transforms):
        super().__init__()
        if not isinstance(transforms, (list, tuple)) or not transforms:
            raise TypeError(
                "Argument transforms should be a sequence of callables"
                if not isinstance(transforms, (list, tuple))
                else "Pass at least one transform"
            )
        self.transforms = transforms

    def forward(self, *inputs):
        several = len(inputs) > 1
        for t in self.transforms:
            outputs = t(*inputs)
            inputs = outputs if several else (outputs,)
        return outputs

    def extra_repr(self):
        return "\n".join(f"    {t}" for t in self.transforms)


class RandomApply(Compose):
    def __init__(self, transforms, p=0.5):
        super().__init__(transforms)
        if not 0.0 <= p <= 1.0:
            raise ValueError("`p` should be a floating point value in the interval [0.0, 1.0].")
        self.p = p

    def forward(self, *inputs):
        if torch.rand(1) >= self.p:
            return inputs if len(inputs) > 1 else inputs[0]
        return super().forward(*inputs)


class RandomChoice(Compose):
    def __init__(self, transforms, p=None):
        super().__init__(transforms)
        self.p = [1 / len(transforms)] * len(transforms) if p is None else [share / sum(p) for share in p]

    def forward(self, *inputs):
        return self.transforms[int(torch.multinomial(torch.tensor(self.p), 1))](*inputs)


class RandomOrder(Compose):
    def forward(self, *inputs):
        several = len(inputs) > 1
        for i in torch.randperm(len(self.transforms)).tolist():
            outputs = self.transforms[i](*inputs)
            inputs = outputs if several else (outputs,)
        return outputs


class Lambda(Transform):
    def __init__(self, lambd, *types):
        super().__init__()
        self.lambd, self.types = lambd, types or (object,)

    def _wanted(self, flat):
        return [isinstance(x, self.types) for x in flat]

    def transform(self, inpt, params):
        return self.lambd(inpt)


class Identity(Transform):
    def transform(self, inpt, params):
        return inpt


# ---- Kinds and dtypes ----
class ToImage(Transform):
    def _wanted(self, flat):
        return [is_pil(x) or F.is_pure_tensor(x) or F.v1._is_numpy(x) for x in flat]

    def transform(self, inpt, params):
        return F.to_image(inpt)


class ToPureTensor(Transform):
    def _wanted(self, flat):
        return [isinstance(x, TVTensor) for x in flat]

    def transform(self, inpt, params):
        return inpt.as_subclass(torch.Tensor)


class PILToTensor(Transform):
    def _takes(self, x):
        return is_pil(x)

    def transform(self, inpt, params):
        return F.pil_to_tensor(inpt)


class ToTensor(Transform):
    def _wanted(self, flat):
        return [is_pil(x) or F.v1._is_numpy(x) for x in flat]

    def transform(self, inpt, params):
        return F.to_tensor(inpt)


class ToPILImage(Transform):
    def __init__(self, mode=None):
        super().__init__()
        self.mode = mode

    def _takes(self, x):
        return F.is_pure_tensor(x) or isinstance(x, Image)

    def transform(self, inpt, params):
        return F.to_pil_image(inpt.as_subclass(torch.Tensor) if isinstance(inpt, Image) else inpt, mode=self.mode)


class ToDtype(Transform):
    """dtype: of images, or a dict from kinds (and "others") to dtypes."""

    def __init__(self, dtype, scale=False):
        super().__init__()
        self.dtype, self.scale = dtype, scale

    def transform(self, inpt, params):
        if isinstance(self.dtype, torch.dtype):
            wanted = self.dtype if _is_image(inpt) else None
        else:
            wanted = self.dtype.get(type(inpt), self.dtype.get("others"))
        if wanted is None or is_pil(inpt):
            return inpt
        return F.to_dtype(inpt, dtype=wanted, scale=self.scale)


class ConvertImageDtype(ToDtype):
    def __init__(self, dtype=torch.float32):
        super().__init__(dtype, scale=True)


class RGB(Transform):
    def _takes(self, x):
        return _is_image(x)

    def transform(self, inpt, params):
        return F.grayscale_to_rgb(inpt)


class ConvertBoundingBoxFormat(Transform):
    def __init__(self, format):
        super().__init__()
        self.format = format

    def _takes(self, x):
        return isinstance(x, BoundingBoxes)

    def transform(self, inpt, params):
        return F.convert_bounding_box_format(inpt, new_format=self.format)


class ClampBoundingBoxes(Transform):
    def _takes(self, x):
        return isinstance(x, BoundingBoxes)

    def transform(self, inpt, params):
        return F.clamp_bounding_boxes(inpt)


# ---- Only in version 2 ----
class GaussianNoise(Transform):
    def __init__(self, mean=0.0, sigma=0.1, clip=True):
        super().__init__()
        self.mean, self.sigma, self.clip = mean, sigma, clip

    def _takes(self, x):
        return _is_image(x)

    def transform(self, inpt, params):
        return F.gaussian_noise(inpt, mean=self.mean, sigma=self.sigma, clip=self.clip)


class RandomChannelPermutation(Transform):
    def _takes(self, x):
        return _is_image(x)

    def make_params(self, flat_inputs):
        return {"permutation": torch.randperm(F.get_num_channels(flat_inputs[0]))}

    def transform(self, inpt, params):
        return F.permute_channels(inpt, params["permutation"])


class _Mixed(Transform):
    """A batch mixed with itself moved on by one, and its labels likewise, as shares of classes."""

    def __init__(self, *, alpha=1.0, num_classes=None):
        super().__init__()
        self.alpha, self.num_classes = float(alpha), num_classes
        from taper.distributions import Beta

        self._beta = Beta(torch.tensor([self.alpha]), torch.tensor([self.alpha]))

    def forward(self, *inputs):
        images, labels = inputs if len(inputs) > 1 else inputs[0]
        if labels.ndim == 1 and self.num_classes is None:
            raise ValueError("num_classes must be passed if the labels are index-based (1D)")
        images, share = self._mix(images, float(self._beta.sample(())))
        shares = torch.nn.functional.one_hot(labels, num_classes=self.num_classes) if labels.ndim == 1 else labels
        shares = shares if shares.is_floating_point() else shares.float()
        return images, shares.roll(1, 0).mul_(1.0 - share).add_(shares.mul(share))


class MixUp(_Mixed):
    def _mix(self, images, share):
        return images.roll(1, 0).mul_(1.0 - share).add_(images.mul(share)), share


class CutMix(_Mixed):
    def _mix(self, images, share):
        height, width = F.get_size(images)
        x, y = int(torch.randint(width, size=(1,))), int(torch.randint(height, size=(1,)))
        reach = 0.5 * (1.0 - share) ** 0.5
        w, h = int(reach * width), int(reach * height)
        x1, y1, x2, y2 = max(x - w, 0), max(y - h, 0), min(x + w, width), min(y + h, height)
        mixed = images.clone()
        mixed[..., y1:y2, x1:x2] = images.roll(1, 0)[..., y1:y2, x1:x2]
        return mixed, float(1.0 - (x2 - x1) * (y2 - y1) / (width * height))


def query_size(flat_inputs):
    """[height, width], the same for all parts of a sample."""
    sizes = {tuple(F.get_size(x)) for x in flat_inputs if _is_image(x) or isinstance(x, (BoundingBoxes, Mask))}
    if not sizes:
        raise TypeError("No image, video, mask or bounding box was found in the sample")
    if len(sizes) > 1:
        raise ValueError(f"Found multiple HxW dimensions in the sample: {sorted(sizes)}")
    return list(sizes.pop())
