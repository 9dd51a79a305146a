"""torchvision.transforms: the transforms as modules. Random ones draw from PyTorch's generator, in torchvision's order:
the same seed gives the same pictures."""

import math
import numbers
import random
import warnings

import taper as torch
from taper.nn import Module
from taper.torchvision.transforms import functional as F
from taper.torchvision.transforms._interpolation import InterpolationMode, interpolation_of


# ---- Draws ----
def _uniform(low, high):
    return torch.empty(1).uniform_(float(low), float(high)).item()


def _below(high, low=0):
    """A whole number from low to high - 1."""
    return torch.randint(low, high, size=(1,)).item()


def _corner(image, part):
    """(top, left) of a part, (height, width), somewhere in an image."""
    top, left = (_below(whole - size + 1) for whole, size in zip(image, part))
    return top, left


def _rectangles(area, scale, ratio):
    """Ten pairs of sides, as long as they are asked for: shares of the area within scale, the first side over the
    second within ratio."""
    low, high = torch.tensor(ratio).log().tolist()
    for _ in range(10):
        target = area * _uniform(*scale)
        aspect = torch.empty(1).uniform_(low, high).exp().item()
        yield int(round(math.sqrt(target * aspect))), int(round(math.sqrt(target / aspect)))


# ---- Arguments ----
def _is_sequence(x):
    return isinstance(x, (list, tuple))


def _setup_size(size, error_msg="Please provide only two dimensions (h, w) for size."):
    sides = [int(size)] if isinstance(size, numbers.Number) else size
    if len(sides) not in (1, 2):
        raise ValueError(error_msg)
    return sides if len(sides) == 2 else (sides[0], sides[0])


def _check_sequence_input(x, name, req_sizes):
    known = _is_sequence(x)
    if not known or len(x) not in req_sizes:
        raise (ValueError if known else TypeError)(
            f"{name} should be a sequence of length {' or '.join(map(str, req_sizes))}."
        )


def _optional_pair(x, name):
    if x is not None:
        _check_sequence_input(x, name, (2,))
    return x


def _setup_angle(x, name, req_sizes=(2,)):
    """[low, high] in degrees; one number goes both ways."""
    if not isinstance(x, numbers.Number):
        _check_sequence_input(x, name, req_sizes)
    elif x < 0:
        raise ValueError(f"If {name} is a single number, it must be positive.")
    return list(map(float, (-x, x) if isinstance(x, numbers.Number) else x))


def _checked_shares(scale, ratio):
    """Both as (min, max)."""
    for name, pair in (("Scale", scale), ("Ratio", ratio)):
        if not _is_sequence(pair):
            raise TypeError(f"{name} should be a sequence")
    if any(pair[0] > pair[1] for pair in (scale, ratio)):
        warnings.warn("Scale and ratio should be of kind (min, max)")
    return scale, ratio


def _checked_fill(fill):
    if not (fill is None or _is_sequence(fill) or isinstance(fill, numbers.Number)):
        raise TypeError("Fill should be either a sequence or a number.")
    return 0 if fill is None else fill


def _fill_for(img, fill):
    """A colour with a value for each channel, for tensors, whose fill is a list."""
    if not isinstance(img, torch.Tensor):
        return fill
    colour = fill if _is_sequence(fill) else [fill] * F.get_dimensions(img)[0]
    return [float(level) for level in colour]


# ---- What transforms share ----
class _Shown:
    """Prints as its name and the attributes that `_shows` names, less those that have the value given in `_unless`."""

    _shows = ""
    _unless = {}
    _comma = ", "

    def __repr__(self):
        values = {name: getattr(self, name) for name in self._shows.split()}
        shown = (self._text(n, v) for n, v in values.items() if n not in self._unless or self._unless[n] != v)
        return f"{type(self).__name__}({self._comma.join(shown)})"

    def _text(self, name, value):
        return f"{name}={value.value if isinstance(value, InterpolationMode) else value}"


class _Transform(_Shown, Module):
    """A transform that is a module: `_does` names a function and the attributes that it gets after the image. Version 2
    puts its own functions in place of these."""

    _F = F
    _does = ""

    def _done(self, img):
        function, *attributes = self._does.split()
        return getattr(self._F, function)(img, *(getattr(self, name) for name in attributes))

    def forward(self, img):
        return self._done(img)


class _Several:
    """A list of transforms, printed one to a line."""

    def _lines(self):
        return [str(step) for step in self.transforms]

    def __repr__(self):
        return "\n    ".join([f"{type(self).__name__}(", *self._lines()]) + "\n)"


def _chain(steps, img):
    for step in steps:
        img = step(img)
    return img


# ---- Putting transforms together ----
class Compose(_Several):
    """One after the other."""

    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, img):
        return _chain(self.transforms, img)


class Lambda(_Shown):
    """A function of the user's."""

    def __init__(self, lambd):
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img):
        return self.lambd(img)


class RandomTransforms(_Several):
    """Base of those that choose among a list."""

    def __init__(self, transforms):
        if not _is_sequence(transforms):
            raise TypeError("Argument transforms should be a sequence")
        self.transforms = transforms


class RandomApply(_Several, _Transform):
    """All of them, or none."""

    def __init__(self, transforms, p=0.5):
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, img):
        return img if torch.rand(1) > self.p else _chain(self.transforms, img)

    def _lines(self):
        return [f"p={self.p}", *super()._lines()]


class RandomOrder(RandomTransforms):
    def __call__(self, img):
        steps = list(self.transforms)
        random.shuffle(steps)
        return _chain(steps, img)


class RandomChoice(RandomTransforms):
    def __init__(self, transforms, p=None):
        super().__init__(transforms)
        if p is not None and not _is_sequence(p):
            raise TypeError("Argument p should be a sequence")
        self.p = p

    def __call__(self, *args):
        (chosen,) = random.choices(self.transforms, weights=self.p)
        return chosen(*args)

    def __repr__(self):
        return super().__repr__() + f"(p={self.p})"


# ---- Between kinds of images ----
class ToTensor(_Shown):
    """A Pillow image or an array (H, W, C) of bytes as a float tensor (C, H, W) from 0 to 1."""

    def __call__(self, pic):
        return F.to_tensor(pic)


class PILToTensor(_Shown):
    def __call__(self, pic):
        return F.pil_to_tensor(pic)


class ToPILImage(_Shown):
    _shows, _unless = "mode", {"mode": None}

    def __init__(self, mode=None):
        self.mode = mode

    def __call__(self, pic):
        return F.to_pil_image(pic, mode=self.mode)


class ConvertImageDtype(_Transform):
    _does = "convert_image_dtype dtype"

    def __init__(self, dtype):
        super().__init__()
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"Argument dtype should be of type torch.dtype, got {type(dtype).__name__}")
        self.dtype = dtype

    def forward(self, image):
        return self._done(image)


class Normalize(_Transform):
    """(image - mean) / std for each channel."""

    _does, _shows = "normalize mean std inplace", "mean std"

    def __init__(self, mean, std, inplace=False):
        super().__init__()
        self.mean, self.std, self.inplace = mean, std, inplace

    def forward(self, tensor):
        return self._done(tensor)


class LinearTransformation(_Transform):
    """(flattened image - mean) @ matrix: whitening."""

    def __init__(self, transformation_matrix, mean_vector):
        super().__init__()
        rows, columns = transformation_matrix.size()
        if rows != columns:
            raise ValueError(f"transformation_matrix should be square. Got [{rows} x {columns}] rectangular matrix.")
        if mean_vector.size(0) != rows:
            raise ValueError(
                f"mean_vector should have the same length {mean_vector.size(0)} as any one of the dimensions of the "
                f"transformation_matrix [{tuple(transformation_matrix.size())}]"
            )
        self.transformation_matrix, self.mean_vector = transformation_matrix, mean_vector

    def forward(self, tensor):
        shape, n = tensor.shape, math.prod(tensor.shape[-3:])
        if len(self.transformation_matrix) != n:
            raise ValueError(
                "Input tensor and transformation matrix have incompatible shape."
                f"[{shape[-3]} x {shape[-2]} x {shape[-1]}] != {self.transformation_matrix.shape[0]}"
            )
        return torch.mm(tensor.reshape(-1, n) - self.mean_vector, self.transformation_matrix).reshape(shape)

    def __repr__(self):
        return (
            f"{type(self).__name__}(transformation_matrix={self.transformation_matrix.tolist()}, "
            f"mean_vector={self.mean_vector.tolist()})"
        )


# ---- Sizes ----
class Resize(_Transform):
    _does, _shows = "resize size interpolation max_size antialias", "size interpolation max_size antialias"

    def __init__(self, size, interpolation=InterpolationMode.BILINEAR, max_size=None, antialias=True):
        super().__init__()
        if not isinstance(size, (int, list, tuple)):
            raise TypeError(f"Size should be int or sequence. Got {type(size)}")
        if _is_sequence(size) and len(size) not in (1, 2):
            raise ValueError("If size is a sequence, it should have 1 or 2 values")
        self.size, self.max_size, self.interpolation, self.antialias = (
            size,
            max_size,
            interpolation_of(interpolation),
            antialias,
        )


class _Crop(_Transform):
    _shows = "size"

    def __init__(self, size):
        super().__init__()
        self.size = _setup_size(size)


class CenterCrop(_Crop):
    _does = "center_crop size"


class FiveCrop(_Crop):
    _does = "five_crop size"


class TenCrop(_Crop):
    _does, _shows = "ten_crop size vertical_flip", "size vertical_flip"

    def __init__(self, size, vertical_flip=False):
        super().__init__(size)
        self.vertical_flip = vertical_flip


class Pad(_Transform):
    _does, _shows = "pad padding fill padding_mode", "padding fill padding_mode"

    def __init__(self, padding, fill=0, padding_mode="constant"):
        super().__init__()
        if not isinstance(padding, (numbers.Number, tuple, list)):
            raise TypeError("Got inappropriate padding arg")
        if not isinstance(fill, (numbers.Number, str, tuple, list)):
            raise TypeError("Got inappropriate fill arg")
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
        if _is_sequence(padding) and len(padding) not in (1, 2, 4):
            raise ValueError(
                f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(padding)} element tuple"
            )
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode


class RandomCrop(_Crop):
    _shows = "size padding"

    def __init__(self, size, padding=None, pad_if_needed=False, fill=0, padding_mode="constant"):
        super().__init__(size)
        self.size = tuple(self.size)
        self.padding, self.pad_if_needed, self.fill, self.padding_mode = padding, pad_if_needed, fill, padding_mode

    @staticmethod
    def get_params(img, output_size):
        whole, part = tuple(F.get_dimensions(img)[1:]), tuple(output_size)
        if any(have < want for have, want in zip(whole, part)):
            raise ValueError(f"Required crop size {part} is larger than input image size {whole}")
        return (*((0, 0) if whole == part else _corner(whole, part)), *part)

    def forward(self, img):
        def padded(img, padding):
            return self._F.pad(img, padding, self.fill, self.padding_mode)

        img = img if self.padding is None else padded(img, self.padding)
        if self.pad_if_needed:
            more_y, more_x = (max(want - have, 0) for want, have in zip(self.size, self._F.get_dimensions(img)[1:]))
            for sides in ([more_x, 0], [0, more_y]):
                img = padded(img, sides) if any(sides) else img
        return self._F.crop(img, *self.get_params(img, self.size))


class RandomResizedCrop(_Crop):
    """A part of random area and shape, resized."""

    _shows = "size scale ratio interpolation antialias"

    def __init__(
        self,
        size,
        scale=(0.08, 1.0),
        ratio=(3.0 / 4.0, 4.0 / 3.0),
        interpolation=InterpolationMode.BILINEAR,
        antialias=True,
    ):
        super().__init__(size)
        self.scale, self.ratio = _checked_shares(scale, ratio)
        self.interpolation, self.antialias = interpolation_of(interpolation), antialias

    @staticmethod
    def get_params(img, scale, ratio):
        whole = height, width = F.get_dimensions(img)[1:]
        for w, h in _rectangles(height * width, scale, ratio):
            if 1 <= w <= width and 1 <= h <= height:
                return (*_corner(whole, (h, w)), h, w)
        # none fitted: the largest middle part of a permitted shape
        w, h = min(width, int(round(height * max(ratio)))), min(height, int(round(width / min(ratio))))
        return (height - h) // 2, (width - w) // 2, h, w

    def forward(self, img):
        box = self.get_params(img, self.scale, self.ratio)
        return self._F.resized_crop(img, *box, self.size, self.interpolation, antialias=self.antialias)

    def _text(self, name, value):
        return super()._text(name, tuple(round(v, 4) for v in value) if name in ("scale", "ratio") else value)


# ---- With a probability ----
class _Sometimes(_Transform):
    """Done with probability p."""

    _shows, _comma = "p", ","

    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, img):
        return self._done(img) if torch.rand(1) < self.p else img


class RandomHorizontalFlip(_Sometimes):
    _does = "hflip"


class RandomVerticalFlip(_Sometimes):
    _does = "vflip"


class RandomInvert(_Sometimes):
    _does = "invert"


class RandomAutocontrast(_Sometimes):
    _does = "autocontrast"


class RandomEqualize(_Sometimes):
    _does = "equalize"


class RandomGrayscale(_Sometimes):
    def __init__(self, p=0.1):
        super().__init__(p)

    def _done(self, img):
        return self._F.rgb_to_grayscale(img, num_output_channels=self._F.get_dimensions(img)[0])


class RandomPosterize(_Sometimes):
    _does, _shows = "posterize bits", "bits p"

    def __init__(self, bits, p=0.5):
        super().__init__(p)
        self.bits = bits


class RandomSolarize(_Sometimes):
    _does, _shows = "solarize threshold", "threshold p"

    def __init__(self, threshold, p=0.5):
        super().__init__(p)
        self.threshold = threshold


class RandomAdjustSharpness(_Sometimes):
    _does, _shows = "adjust_sharpness sharpness_factor", "sharpness_factor p"

    def __init__(self, sharpness_factor, p=0.5):
        super().__init__(p)
        self.sharpness_factor = sharpness_factor


class Grayscale(_Transform):
    _does, _shows = "rgb_to_grayscale num_output_channels", "num_output_channels"

    def __init__(self, num_output_channels=1):
        super().__init__()
        self.num_output_channels = num_output_channels


class RandomPerspective(_Transform):
    _shows = "p"

    def __init__(self, distortion_scale=0.5, p=0.5, interpolation=InterpolationMode.BILINEAR, fill=0):
        super().__init__()
        self.p, self.interpolation, self.distortion_scale, self.fill = (
            p,
            interpolation_of(interpolation),
            distortion_scale,
            _checked_fill(fill),
        )

    def forward(self, img):
        _, height, width = self._F.get_dimensions(img)
        if not torch.rand(1) < self.p:
            return img
        corners = self.get_params(width, height, self.distortion_scale)
        return self._F.perspective(img, *corners, self.interpolation, _fill_for(img, self.fill))

    @staticmethod
    def get_params(width, height, distortion_scale):
        """The corners, clockwise from the first pixel, and each of them moved towards the middle."""

        def moved(place, length):
            reach = int(distortion_scale * (length // 2))
            return _below(place + 1, place - reach) if place else _below(reach + 1)

        right, bottom = width - 1, height - 1
        corners = [[0, 0], [right, 0], [right, bottom], [0, bottom]]
        return corners, [[moved(x, width), moved(y, height)] for x, y in corners]


class ColorJitter(_Transform):
    """Brightness, contrast, saturation and hue changed by random factors, in random order."""

    _shows = "brightness contrast saturation hue"

    def __init__(self, brightness=0, contrast=0, saturation=0, hue=0):
        super().__init__()
        for name, given in (("brightness", brightness), ("contrast", contrast), ("saturation", saturation)):
            setattr(self, name, self._check_input(given, name))
        self.hue = self._check_input(hue, "hue", 0, (-0.5, 0.5), False)

    @staticmethod
    def _check_input(value, name, center=1, bound=(0, float("inf")), clip_first_on_zero=True):
        """(low, high), or None where nothing changes."""
        if _is_sequence(value) and len(value) == 2:
            low, high = map(float, value)
        elif not isinstance(value, numbers.Number):
            raise TypeError(f"{name} should be a single number or a list/tuple with length 2.")
        elif value < 0:
            raise ValueError(f"If {name} is a single number, it must be non negative.")
        else:
            low, high = center - float(value), center + float(value)
            low = max(low, 0.0) if clip_first_on_zero else low
        if low > high or low < bound[0] or high > bound[1]:
            raise ValueError(f"{name} values should be between {bound}, but got {[low, high]}.")
        return None if low == high == center else (low, high)

    @staticmethod
    def get_params(brightness, contrast, saturation, hue):
        order = torch.randperm(4)
        return (
            order,
            *(None if limits is None else _uniform(*limits) for limits in (brightness, contrast, saturation, hue)),
        )

    def forward(self, img):
        names = self._shows.split()
        order, *factors = self.get_params(*(getattr(self, name) for name in names))
        for i in order.tolist():
            if factors[i] is not None:
                img = getattr(self._F, f"adjust_{names[i]}")(img, factors[i])
        return img


class RandomRotation(_Transform):
    _shows, _unless = "degrees interpolation expand center fill", {"center": None, "fill": None}

    def __init__(self, degrees, interpolation=InterpolationMode.NEAREST, expand=False, center=None, fill=0):
        super().__init__()
        self.degrees, self.center = _setup_angle(degrees, "degrees"), _optional_pair(center, "center")
        self.interpolation, self.expand, self.fill = interpolation_of(interpolation), expand, _checked_fill(fill)

    @staticmethod
    def get_params(degrees):
        return _uniform(*degrees)

    def forward(self, img):
        return self._F.rotate(
            img, self.get_params(self.degrees), self.interpolation, self.expand, self.center, _fill_for(img, self.fill)
        )


class RandomAffine(_Transform):
    _shows = "degrees translate scale shear interpolation fill center"
    _unless = {
        "translate": None,
        "scale": None,
        "shear": None,
        "interpolation": InterpolationMode.NEAREST,
        "fill": 0,
        "center": None,
    }

    def __init__(
        self,
        degrees,
        translate=None,
        scale=None,
        shear=None,
        interpolation=InterpolationMode.NEAREST,
        fill=0,
        center=None,
    ):
        super().__init__()
        self.degrees = _setup_angle(degrees, "degrees")
        if not all(0.0 <= share <= 1.0 for share in _optional_pair(translate, "translate") or ()):
            raise ValueError("translation values should be between 0 and 1")
        if any(factor <= 0 for factor in _optional_pair(scale, "scale") or ()):
            raise ValueError("scale values should be positive")
        self.translate, self.scale = translate, scale
        self.shear = None if shear is None else _setup_angle(shear, "shear", (2, 4))
        self.interpolation, self.fill = interpolation_of(interpolation), _checked_fill(fill)
        self.center = _optional_pair(center, "center")

    @staticmethod
    def get_params(degrees, translate, scale_ranges, shears, img_size):
        """Drawn in the order of the result; what has no range stays as it is."""
        angle = _uniform(*degrees)
        reach = [share * length for share, length in zip(translate or (), img_size)]
        shift = tuple(int(round(_uniform(-r, r))) for r in reach) or (0, 0)
        factor = _uniform(*scale_ranges) if scale_ranges else 1.0
        slants = [_uniform(*shears[i : i + 2]) for i in range(0, len(shears or ()), 2)]
        return angle, shift, factor, tuple(slants + [0.0, 0.0])[:2]

    def forward(self, img):
        fill, (_, height, width) = _fill_for(img, self.fill), self._F.get_dimensions(img)
        params = self.get_params(self.degrees, self.translate, self.scale, self.shear, [width, height])
        return self._F.affine(img, *params, interpolation=self.interpolation, fill=fill, center=self.center)


class RandomErasing(_Transform):
    """A rectangle of the tensor becomes a value, a colour, or noise (value='random')."""

    _shows = "p scale ratio value inplace"

    def __init__(self, p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0, inplace=False):
        super().__init__()
        if not isinstance(value, (numbers.Number, str, tuple, list)):
            raise TypeError("Argument value should be either a number or str or a sequence")
        if isinstance(value, str) and "random" != value:
            raise ValueError("If value is str, it should be 'random'")
        _checked_shares(scale, ratio)
        if not (0 <= scale[0] and scale[1] <= 1):
            raise ValueError("Scale should be between 0 and 1")
        if not 0 <= p <= 1:
            raise ValueError("Random erasing probability should be between 0 and 1")
        self.p, self.scale, self.ratio, self.value, self.inplace = p, scale, ratio, value, inplace

    @staticmethod
    def get_params(img, scale, ratio, value=None):
        channels, height, width = img.shape[-3:]
        for h, w in _rectangles(height * width, scale, ratio):
            if h < height and w < width:
                filling = (
                    torch.empty([channels, h, w], dtype=torch.float32).normal_()
                    if value is None
                    else torch.tensor(value)[:, None, None]
                )
                return (*_corner((height, width), (h, w)), h, w, filling)
        return 0, 0, height, width, img

    def forward(self, img):
        if not torch.rand(1) < self.p:
            return img
        value = (
            None
            if isinstance(self.value, str)
            else list(self.value)
            if _is_sequence(self.value)
            else [float(self.value)]
        )
        if len(value or [0]) not in (1, img.shape[-3]):
            raise ValueError(
                f"If value is a sequence, it should have either a single value or {img.shape[-3]} (number of input "
                "channels)"
            )
        return self._F.erase(img, *self.get_params(img, self.scale, self.ratio, value), self.inplace)


class GaussianBlur(_Transform):
    _shows = "kernel_size sigma"

    def __init__(self, kernel_size, sigma=(0.1, 2.0)):
        super().__init__()
        self.kernel_size = _setup_size(kernel_size, "Kernel size should be a tuple/list of two integers")
        if not all(size > 0 and size % 2 for size in self.kernel_size):
            raise ValueError("Kernel size value should be an odd and positive number.")
        one = isinstance(sigma, numbers.Number)
        limits = (sigma, sigma) if one else sigma
        if not (_is_sequence(limits) and len(limits) == 2):
            raise ValueError("sigma should be a single number or a list/tuple with length 2.")
        if limits[0] <= 0 or limits[1] < limits[0]:
            raise ValueError(
                "If sigma is a single number, it must be positive."
                if one
                else "sigma values should be positive and of the form (min, max)."
            )
        self.sigma = limits

    @staticmethod
    def get_params(sigma_min, sigma_max):
        return _uniform(sigma_min, sigma_max)

    def forward(self, img):
        return self._F.gaussian_blur(img, self.kernel_size, [self.get_params(*self.sigma)] * 2)


class ElasticTransform(_Transform):
    """Bent by a smooth random field."""

    _shows = "alpha sigma interpolation fill"

    def __init__(self, alpha=50.0, sigma=5.0, interpolation=InterpolationMode.BILINEAR, fill=0):
        super().__init__()
        self.alpha, self.sigma = self._pair(alpha, "alpha"), self._pair(sigma, "sigma")
        self.interpolation = interpolation_of(interpolation)
        self.fill = [float(fill)] if isinstance(fill, (int, float)) else [float(f) for f in fill]

    @staticmethod
    def _pair(value, name):
        if not isinstance(value, (float, list, tuple)):
            raise TypeError(f"{name} should be float or a sequence of floats. Got {type(value)}")
        if _is_sequence(value) and len(value) not in (1, 2):
            raise ValueError(f"{name} is a sequence its length should be one of 2. Got {len(value)}")
        if _is_sequence(value) and not all(isinstance(v, float) for v in value):
            raise TypeError(f"{name} should be a sequence of floats.")
        return [float(value)] * 2 if isinstance(value, float) else list(value) * (2 // len(value))

    @staticmethod
    def get_params(alpha, sigma, size):
        def field(axis):
            d = torch.rand([1, 1] + list(size)) * 2 - 1
            if sigma[axis] > 0.0:
                kernel = int(8 * sigma[axis] + 1) | 1
                d = F.gaussian_blur(d, [kernel, kernel], list(sigma))
            return d * alpha[axis] / size[1 - axis]  # x first in alpha, height first in size

        dx = field(0)
        return torch.concat([dx, field(1)], 1).permute([0, 2, 3, 1])

    def forward(self, tensor):
        _, height, width = self._F.get_dimensions(tensor)
        return self._F.elastic_transform(
            tensor, self.get_params(self.alpha, self.sigma, [height, width]), self.interpolation, self.fill
        )

    def _text(self, name, value):
        return f"{name}={value}"
