"""torchvision.transforms: the transforms as modules. Random ones draw from PyTorch's generator, in torchvision's order: the same seed gives the
same pictures."""
import math
import numbers
import random

import taper as torch
from taper.nn import Module
from taper.torchvision.transforms import functional as F
from taper.torchvision.transforms._interpolation import InterpolationMode, interpolation_of


def _uniform(low, high):
    return torch.empty(1).uniform_(low, high).item()


def _below(high, low=0):
    """A whole number from low to high - 1."""
    return torch.randint(low, high, size=(1,)).item()


def _is_sequence(x):
    return isinstance(x, (list, tuple))


def _setup_size(size, error_msg):
    if isinstance(size, numbers.Number):
        return int(size), int(size)
    if _is_sequence(size) and len(size) == 1:
        return size[0], size[0]
    if len(size) != 2:
        raise ValueError(error_msg)
    return size


def _check_sequence_input(x, name, req_sizes):
    msg = req_sizes[0] if len(req_sizes) < 2 else " or ".join([str(s) for s in req_sizes])
    if not _is_sequence(x):
        raise TypeError(f"{name} should be a sequence of length {msg}.")
    if len(x) not in req_sizes:
        raise ValueError(f"{name} should be a sequence of length {msg}.")


def _setup_angle(x, name, req_sizes=(2,)):
    if isinstance(x, numbers.Number):
        if x < 0:
            raise ValueError(f"If {name} is a single number, it must be positive.")
        x = [-x, x]
    else:
        _check_sequence_input(x, name, req_sizes)
    return [float(d) for d in x]


class _Transform(Module):
    """A transform that is a module. Version 2 puts its own functions in place of these."""
    _F = F


def _fill_for(img, fill):
    """A colour with a value for each channel, for tensors, whose fill is a list."""
    if not isinstance(img, torch.Tensor):
        return fill
    if isinstance(fill, (int, float)):
        return [float(fill)] * F.get_dimensions(img)[0]
    return [float(f) for f in fill]


# ---- Putting transforms together ----
class Compose:
    """One after the other."""

    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, img):
        for t in self.transforms:
            img = t(img)
        return img

    def __repr__(self):
        lines = [f"{type(self).__name__}("] + [f"    {t}" for t in self.transforms] + [")"]
        return "\n".join(lines)


class Lambda:
    """A function of the user's."""

    def __init__(self, lambd):
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img):
        return self.lambd(img)

    def __repr__(self):
        return f"{type(self).__name__}()"


class RandomTransforms:
    """Base of those that choose among a list."""

    def __init__(self, transforms):
        if not _is_sequence(transforms):
            raise TypeError("Argument transforms should be a sequence")
        self.transforms = transforms

    def __repr__(self):
        return "\n".join([f"{type(self).__name__}("] + [f"    {t}" for t in self.transforms] + [")"])


class RandomApply(_Transform):
    """All of them, or none."""

    def __init__(self, transforms, p=0.5):
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, img):
        if self.p < torch.rand(1):
            return img
        for t in self.transforms:
            img = t(img)
        return img

    def __repr__(self):
        return "\n".join([f"{type(self).__name__}(", f"    p={self.p}"] + [f"    {t}" for t in self.transforms] + [")"])


class RandomOrder(RandomTransforms):
    def __call__(self, img):
        order = list(range(len(self.transforms)))
        random.shuffle(order)
        for i in order:
            img = self.transforms[i](img)
        return img


class RandomChoice(RandomTransforms):
    def __init__(self, transforms, p=None):
        super().__init__(transforms)
        if p is not None and not _is_sequence(p):
            raise TypeError("Argument p should be a sequence")
        self.p = p

    def __call__(self, *args):
        return random.choices(self.transforms, weights=self.p)[0](*args)

    def __repr__(self):
        return f"{super().__repr__()}(p={self.p})"


# ---- Between kinds of images ----
class ToTensor:
    """A Pillow image or an array (H, W, C) of bytes as a float tensor (C, H, W) from 0 to 1."""

    def __call__(self, pic):
        return F.to_tensor(pic)

    def __repr__(self):
        return f"{type(self).__name__}()"


class PILToTensor:
    def __call__(self, pic):
        return F.pil_to_tensor(pic)

    def __repr__(self):
        return f"{type(self).__name__}()"


class ToPILImage:
    def __init__(self, mode=None):
        self.mode = mode

    def __call__(self, pic):
        return F.to_pil_image(pic, self.mode)

    def __repr__(self):
        return f"{type(self).__name__}(" + (f"mode={self.mode}" if self.mode is not None else "") + ")"


class ConvertImageDtype(_Transform):
    def __init__(self, dtype):
        super().__init__()
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"Argument dtype should be of type torch.dtype, got {type(dtype).__name__}")
        self.dtype = dtype

    def forward(self, image):
        return self._F.convert_image_dtype(image, self.dtype)


class Normalize(_Transform):
    """(image - mean) / std for each channel."""

    def __init__(self, mean, std, inplace=False):
        super().__init__()
        self.mean, self.std, self.inplace = mean, std, inplace

    def forward(self, tensor):
        return self._F.normalize(tensor, self.mean, self.std, self.inplace)

    def __repr__(self):
        return f"{type(self).__name__}(mean={self.mean}, std={self.std})"


class LinearTransformation(_Transform):
    """(flattened image - mean) @ matrix: whitening."""

    def __init__(self, transformation_matrix, mean_vector):
        super().__init__()
        rows, columns = transformation_matrix.size()
        if rows != columns:
            raise ValueError(f"transformation_matrix should be square. Got [{rows} x {columns}] rectangular matrix.")
        if mean_vector.size(0) != rows:
            raise ValueError(f"mean_vector should have the same length {mean_vector.size(0)} as any one of the dimensions of the "
                             f"transformation_matrix [{tuple(transformation_matrix.size())}]")
        self.transformation_matrix, self.mean_vector = transformation_matrix, mean_vector

    def forward(self, tensor):
        shape, n = tensor.shape, math.prod(tensor.shape[-3:])
        if n != self.transformation_matrix.shape[0]:
            raise ValueError("Input tensor and transformation matrix have incompatible shape."
                             f"[{shape[-3]} x {shape[-2]} x {shape[-1]}] != {self.transformation_matrix.shape[0]}")
        return torch.mm(tensor.reshape(-1, n) - self.mean_vector, self.transformation_matrix).reshape(shape)

    def __repr__(self):
        return (f"{type(self).__name__}(transformation_matrix={self.transformation_matrix.tolist()}, "
                f"mean_vector={self.mean_vector.tolist()})")


# ---- Sizes ----
class Resize(_Transform):
    def __init__(self, size, interpolation=InterpolationMode.BILINEAR, max_size=None, antialias=True):
        super().__init__()
        if not isinstance(size, (int, list, tuple)):
            raise TypeError(f"Size should be int or sequence. Got {type(size)}")
        if _is_sequence(size) and len(size) not in (1, 2):
            raise ValueError("If size is a sequence, it should have 1 or 2 values")
        self.size, self.max_size = size, max_size
        self.interpolation = interpolation_of(interpolation)
        self.antialias = antialias

    def forward(self, img):
        return self._F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)

    def __repr__(self):
        return (f"{type(self).__name__}(size={self.size}, interpolation={self.interpolation.value}, max_size={self.max_size}, "
                f"antialias={self.antialias})")


class CenterCrop(_Transform):
    def __init__(self, size):
        super().__init__()
        self.size = _setup_size(size, error_msg="Please provide only two dimensions (h, w) for size.")

    def forward(self, img):
        return self._F.center_crop(img, self.size)

    def __repr__(self):
        return f"{type(self).__name__}(size={self.size})"


class FiveCrop(_Transform):
    def __init__(self, size):
        super().__init__()
        self.size = _setup_size(size, error_msg="Please provide only two dimensions (h, w) for size.")

    def forward(self, img):
        return self._F.five_crop(img, self.size)

    def __repr__(self):
        return f"{type(self).__name__}(size={self.size})"


class TenCrop(_Transform):
    def __init__(self, size, vertical_flip=False):
        super().__init__()
        self.size = _setup_size(size, error_msg="Please provide only two dimensions (h, w) for size.")
        self.vertical_flip = vertical_flip

    def forward(self, img):
        return self._F.ten_crop(img, self.size, self.vertical_flip)

    def __repr__(self):
        return f"{type(self).__name__}(size={self.size}, vertical_flip={self.vertical_flip})"


class Pad(_Transform):
    def __init__(self, padding, fill=0, padding_mode="constant"):
        super().__init__()
        if not isinstance(padding, (numbers.Number, tuple, list)):
            raise TypeError("Got inappropriate padding arg")
        if not isinstance(fill, (numbers.Number, str, tuple, list)):
            raise TypeError("Got inappropriate fill arg")
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
        if _is_sequence(padding) and len(padding) not in (1, 2, 4):
            raise ValueError(f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(padding)} element tuple")
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def forward(self, img):
        return self._F.pad(img, self.padding, self.fill, self.padding_mode)

    def __repr__(self):
        return f"{type(self).__name__}(padding={self.padding}, fill={self.fill}, padding_mode={self.padding_mode})"


class RandomCrop(_Transform):
    @staticmethod
    def get_params(img, output_size):
        _, h, w = F.get_dimensions(img)
        th, tw = output_size
        if h < th or w < tw:
            raise ValueError(f"Required crop size {(th, tw)} is larger than input image size {(h, w)}")
        if w == tw and h == th:
            return 0, 0, h, w
        top = _below(h - th + 1)
        return top, _below(w - tw + 1), th, tw

    def __init__(self, size, padding=None, pad_if_needed=False, fill=0, padding_mode="constant"):
        super().__init__()
        self.size = tuple(_setup_size(size, error_msg="Please provide only two dimensions (h, w) for size."))
        self.padding, self.pad_if_needed, self.fill, self.padding_mode = padding, pad_if_needed, fill, padding_mode

    def forward(self, img):
        if self.padding is not None:
            img = self._F.pad(img, self.padding, self.fill, self.padding_mode)
        _, height, width = self._F.get_dimensions(img)
        if self.pad_if_needed and width < self.size[1]:
            img = self._F.pad(img, [self.size[1] - width, 0], self.fill, self.padding_mode)
        if self.pad_if_needed and height < self.size[0]:
            img = self._F.pad(img, [0, self.size[0] - height], self.fill, self.padding_mode)
        return self._F.crop(img, *self.get_params(img, self.size))

    def __repr__(self):
        return f"{type(self).__name__}(size={self.size}, padding={self.padding})"


class RandomResizedCrop(_Transform):
    """A part of random area and shape, resized."""

    def __init__(self, size, scale=(0.08, 1.0), ratio=(3.0 / 4.0, 4.0 / 3.0), interpolation=InterpolationMode.BILINEAR, antialias=True):
        super().__init__()
        self.size = _setup_size(size, error_msg="Please provide only two dimensions (h, w) for size.")
        if not _is_sequence(scale):
            raise TypeError("Scale should be a sequence")
        if not _is_sequence(ratio):
            raise TypeError("Ratio should be a sequence")
        if scale[0] > scale[1] or ratio[0] > ratio[1]:
            import warnings
            warnings.warn("Scale and ratio should be of kind (min, max)")
        self.scale, self.ratio = scale, ratio
        self.interpolation = interpolation_of(interpolation)
        self.antialias = antialias

    @staticmethod
    def get_params(img, scale, ratio):
        _, height, width = F.get_dimensions(img)
        area = height * width
        log_ratio = torch.log(torch.tensor(ratio))
        for _ in range(10):
            target = area * _uniform(scale[0], scale[1])
            aspect = torch.exp(torch.empty(1).uniform_(log_ratio[0], log_ratio[1])).item()
            w, h = int(round(math.sqrt(target * aspect))), int(round(math.sqrt(target / aspect)))
            if 0 < w <= width and 0 < h <= height:
                top = _below(height - h + 1)
                return top, _below(width - w + 1), h, w
        whole = float(width) / float(height)  # none fitted: the middle
        if whole < min(ratio):
            w, h = width, int(round(width / min(ratio)))
        elif whole > max(ratio):
            w, h = int(round(height * max(ratio))), height
        else:
            w, h = width, height
        return (height - h) // 2, (width - w) // 2, h, w

    def forward(self, img):
        i, j, h, w = self.get_params(img, self.scale, self.ratio)
        return self._F.resized_crop(img, i, j, h, w, self.size, self.interpolation, antialias=self.antialias)

    def __repr__(self):
        return (f"{type(self).__name__}(size={self.size}, scale={tuple(round(s, 4) for s in self.scale)}, "
                f"ratio={tuple(round(r, 4) for r in self.ratio)}, interpolation={self.interpolation.value}, antialias={self.antialias})")


# ---- With a probability ----
class _Sometimes(_Transform):
    """Done with probability p. Subclasses say what in `change`."""

    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, img):
        return self.change(img) if torch.rand(1) < self.p else img

    def __repr__(self):
        return f"{type(self).__name__}({self._arguments()}p={self.p})"

    def _arguments(self):
        return ""


class RandomHorizontalFlip(_Sometimes):
    def change(self, img):
        return self._F.hflip(img)


class RandomVerticalFlip(_Sometimes):
    def change(self, img):
        return self._F.vflip(img)


class RandomInvert(_Sometimes):
    def change(self, img):
        return self._F.invert(img)


class RandomAutocontrast(_Sometimes):
    def change(self, img):
        return self._F.autocontrast(img)


class RandomEqualize(_Sometimes):
    def change(self, img):
        return self._F.equalize(img)


class RandomGrayscale(_Sometimes):
    def __init__(self, p=0.1):
        super().__init__(p)

    def change(self, img):
        return self._F.rgb_to_grayscale(img, num_output_channels=self._F.get_dimensions(img)[0])


class RandomPosterize(_Sometimes):
    def __init__(self, bits, p=0.5):
        super().__init__(p)
        self.bits = bits

    def change(self, img):
        return self._F.posterize(img, self.bits)

    def _arguments(self):
        return f"bits={self.bits},"


class RandomSolarize(_Sometimes):
    def __init__(self, threshold, p=0.5):
        super().__init__(p)
        self.threshold = threshold

    def change(self, img):
        return self._F.solarize(img, self.threshold)

    def _arguments(self):
        return f"threshold={self.threshold},"


class RandomAdjustSharpness(_Sometimes):
    def __init__(self, sharpness_factor, p=0.5):
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def change(self, img):
        return self._F.adjust_sharpness(img, self.sharpness_factor)

    def _arguments(self):
        return f"sharpness_factor={self.sharpness_factor},"


class Grayscale(_Transform):
    def __init__(self, num_output_channels=1):
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img):
        return self._F.rgb_to_grayscale(img, num_output_channels=self.num_output_channels)

    def __repr__(self):
        return f"{type(self).__name__}(num_output_channels={self.num_output_channels})"


class RandomPerspective(_Transform):
    def __init__(self, distortion_scale=0.5, p=0.5, interpolation=InterpolationMode.BILINEAR, fill=0):
        super().__init__()
        self.p = p
        self.interpolation = interpolation_of(interpolation)
        self.distortion_scale = distortion_scale
        self.fill = _checked_fill(fill)

    def forward(self, img):
        fill = _fill_for(img, self.fill)
        _, height, width = self._F.get_dimensions(img)
        if torch.rand(1) < self.p:
            return self._F.perspective(img, *self.get_params(width, height, self.distortion_scale), self.interpolation, fill)
        return img

    @staticmethod
    def get_params(width, height, distortion_scale):
        x, y = int(distortion_scale * (width // 2)), int(distortion_scale * (height // 2))
        near_x, far_x = (0, x + 1), (width - x - 1, width)
        near_y, far_y = (0, y + 1), (height - y - 1, height)
        corners = [(near_x, near_y), (far_x, near_y), (far_x, far_y), (near_x, far_y)]
        endpoints = [[_below(xs[1], xs[0]), _below(ys[1], ys[0])] for xs, ys in corners]
        startpoints = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
        return startpoints, endpoints

    def __repr__(self):
        return f"{type(self).__name__}(p={self.p})"


def _checked_fill(fill):
    if fill is None:
        return 0
    if not isinstance(fill, (tuple, list, numbers.Number)):
        raise TypeError("Fill should be either a sequence or a number.")
    return fill


class ColorJitter(_Transform):
    """Brightness, contrast, saturation and hue changed by random factors, in random order."""

    def __init__(self, brightness=0, contrast=0, saturation=0, hue=0):
        super().__init__()
        self.brightness = self._check_input(brightness, "brightness")
        self.contrast = self._check_input(contrast, "contrast")
        self.saturation = self._check_input(saturation, "saturation")
        self.hue = self._check_input(hue, "hue", center=0, bound=(-0.5, 0.5), clip_first_on_zero=False)

    @staticmethod
    def _check_input(value, name, center=1, bound=(0, float("inf")), clip_first_on_zero=True):
        if isinstance(value, numbers.Number):
            if value < 0:
                raise ValueError(f"If {name} is a single number, it must be non negative.")
            value = [center - float(value), center + float(value)]
            if clip_first_on_zero:
                value[0] = max(value[0], 0.0)
        elif _is_sequence(value) and len(value) == 2:
            value = [float(value[0]), float(value[1])]
        else:
            raise TypeError(f"{name} should be a single number or a list/tuple with length 2.")
        if not bound[0] <= value[0] <= value[1] <= bound[1]:
            raise ValueError(f"{name} values should be between {bound}, but got {value}.")
        return None if value[0] == value[1] == center else tuple(value)

    @staticmethod
    def get_params(brightness, contrast, saturation, hue):
        order = torch.randperm(4)
        return (order, *(None if range_ is None else float(_uniform(*range_)) for range_ in (brightness, contrast, saturation, hue)))

    def forward(self, img):
        order, *factors = self.get_params(self.brightness, self.contrast, self.saturation, self.hue)
        changes = self._F.adjust_brightness, self._F.adjust_contrast, self._F.adjust_saturation, self._F.adjust_hue
        for i in order.tolist():
            if factors[i] is not None:
                img = changes[i](img, factors[i])
        return img

    def __repr__(self):
        return f"{type(self).__name__}(brightness={self.brightness}, contrast={self.contrast}, saturation={self.saturation}, hue={self.hue})"


class RandomRotation(_Transform):
    def __init__(self, degrees, interpolation=InterpolationMode.NEAREST, expand=False, center=None, fill=0):
        super().__init__()
        self.degrees = _setup_angle(degrees, name="degrees", req_sizes=(2,))
        if center is not None:
            _check_sequence_input(center, "center", req_sizes=(2,))
        self.center = center
        self.interpolation = interpolation_of(interpolation)
        self.expand = expand
        self.fill = _checked_fill(fill)

    @staticmethod
    def get_params(degrees):
        return float(_uniform(float(degrees[0]), float(degrees[1])))

    def forward(self, img):
        return self._F.rotate(img, self.get_params(self.degrees), self.interpolation, self.expand, self.center, _fill_for(img, self.fill))

    def __repr__(self):
        text = f"{type(self).__name__}(degrees={self.degrees}, interpolation={self.interpolation.value}, expand={self.expand}"
        if self.center is not None:
            text += f", center={self.center}"
        if self.fill is not None:
            text += f", fill={self.fill}"
        return text + ")"


class RandomAffine(_Transform):
    def __init__(self, degrees, translate=None, scale=None, shear=None, interpolation=InterpolationMode.NEAREST, fill=0, center=None):
        super().__init__()
        self.degrees = _setup_angle(degrees, name="degrees", req_sizes=(2,))
        if translate is not None:
            _check_sequence_input(translate, "translate", req_sizes=(2,))
            if not all(0.0 <= t <= 1.0 for t in translate):
                raise ValueError("translation values should be between 0 and 1")
        if scale is not None:
            _check_sequence_input(scale, "scale", req_sizes=(2,))
            if any(s <= 0 for s in scale):
                raise ValueError("scale values should be positive")
        self.translate, self.scale = translate, scale
        self.shear = None if shear is None else _setup_angle(shear, name="shear", req_sizes=(2, 4))
        self.interpolation = interpolation_of(interpolation)
        self.fill = _checked_fill(fill)
        if center is not None:
            _check_sequence_input(center, "center", req_sizes=(2,))
        self.center = center

    @staticmethod
    def get_params(degrees, translate, scale_ranges, shears, img_size):
        angle = float(_uniform(float(degrees[0]), float(degrees[1])))
        translations, scale, shear = (0, 0), 1.0, (0.0, 0.0)
        if translate is not None:
            reach = [float(t * s) for t, s in zip(translate, img_size)]
            translations = tuple(int(round(_uniform(-r, r))) for r in reach)
        if scale_ranges is not None:
            scale = float(_uniform(scale_ranges[0], scale_ranges[1]))
        if shears is not None:
            shear_x = float(_uniform(shears[0], shears[1]))
            shear = shear_x, float(_uniform(shears[2], shears[3])) if len(shears) == 4 else 0.0
        return angle, translations, scale, shear

    def forward(self, img):
        fill = _fill_for(img, self.fill)
        _, height, width = self._F.get_dimensions(img)
        params = self.get_params(self.degrees, self.translate, self.scale, self.shear, [width, height])
        return self._F.affine(img, *params, interpolation=self.interpolation, fill=fill, center=self.center)

    def __repr__(self):
        text = f"{type(self).__name__}(degrees={self.degrees}"
        text += f", translate={self.translate}" if self.translate is not None else ""
        text += f", scale={self.scale}" if self.scale is not None else ""
        text += f", shear={self.shear}" if self.shear is not None else ""
        text += f", interpolation={self.interpolation.value}" if self.interpolation != InterpolationMode.NEAREST else ""
        text += f", fill={self.fill}" if self.fill != 0 else ""
        text += f", center={self.center}" if self.center is not None else ""
        return text + ")"


class RandomErasing(_Transform):
    """A rectangle of the tensor becomes a value, a colour, or noise (value='random')."""

    def __init__(self, p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0, inplace=False):
        super().__init__()
        if not isinstance(value, (numbers.Number, str, tuple, list)):
            raise TypeError("Argument value should be either a number or str or a sequence")
        if isinstance(value, str) and value != "random":
            raise ValueError("If value is str, it should be 'random'")
        if not _is_sequence(scale):
            raise TypeError("Scale should be a sequence")
        if not _is_sequence(ratio):
            raise TypeError("Ratio should be a sequence")
        if scale[0] > scale[1] or ratio[0] > ratio[1]:
            import warnings
            warnings.warn("Scale and ratio should be of kind (min, max)")
        if scale[0] < 0 or scale[1] > 1:
            raise ValueError("Scale should be between 0 and 1")
        if p < 0 or p > 1:
            raise ValueError("Random erasing probability should be between 0 and 1")
        self.p, self.scale, self.ratio, self.value, self.inplace = p, scale, ratio, value, inplace

    @staticmethod
    def get_params(img, scale, ratio, value=None):
        channels, height, width = img.shape[-3:]
        area = height * width
        log_ratio = torch.log(torch.tensor(ratio))
        for _ in range(10):
            target = area * _uniform(scale[0], scale[1])
            aspect = torch.exp(torch.empty(1).uniform_(log_ratio[0], log_ratio[1])).item()
            h, w = int(round(math.sqrt(target * aspect))), int(round(math.sqrt(target / aspect)))
            if not (h < height and w < width):
                continue
            v = torch.empty([channels, h, w], dtype=torch.float32).normal_() if value is None else torch.tensor(value)[:, None, None]
            top = _below(height - h + 1)
            return top, _below(width - w + 1), h, w, v
        return 0, 0, height, width, img

    def forward(self, img):
        if not torch.rand(1) < self.p:
            return img
        value = [float(self.value)] if isinstance(self.value, (int, float)) else None if isinstance(self.value, str) else list(self.value)
        if value is not None and len(value) not in (1, img.shape[-3]):
            raise ValueError(f"If value is a sequence, it should have either a single value or {img.shape[-3]} (number of input channels)")
        return self._F.erase(img, *self.get_params(img, scale=self.scale, ratio=self.ratio, value=value), self.inplace)

    def __repr__(self):
        return f"{type(self).__name__}(p={self.p}, scale={self.scale}, ratio={self.ratio}, value={self.value}, inplace={self.inplace})"


class GaussianBlur(_Transform):
    def __init__(self, kernel_size, sigma=(0.1, 2.0)):
        super().__init__()
        self.kernel_size = _setup_size(kernel_size, "Kernel size should be a tuple/list of two integers")
        for size in self.kernel_size:
            if size <= 0 or size % 2 == 0:
                raise ValueError("Kernel size value should be an odd and positive number.")
        if isinstance(sigma, numbers.Number):
            if sigma <= 0:
                raise ValueError("If sigma is a single number, it must be positive.")
            sigma = (sigma, sigma)
        elif _is_sequence(sigma) and len(sigma) == 2:
            if not 0.0 < sigma[0] <= sigma[1]:
                raise ValueError("sigma values should be positive and of the form (min, max).")
        else:
            raise ValueError("sigma should be a single number or a list/tuple with length 2.")
        self.sigma = sigma

    @staticmethod
    def get_params(sigma_min, sigma_max):
        return _uniform(sigma_min, sigma_max)

    def forward(self, img):
        sigma = self.get_params(self.sigma[0], self.sigma[1])
        return self._F.gaussian_blur(img, self.kernel_size, [sigma, sigma])

    def __repr__(self):
        return f"{type(self).__name__}(kernel_size={self.kernel_size}, sigma={self.sigma})"


class ElasticTransform(_Transform):
    """Bent by a smooth random field."""

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
        return self._F.elastic_transform(tensor, self.get_params(self.alpha, self.sigma, [height, width]), self.interpolation, self.fill)

    def __repr__(self):
        return (f"{type(self).__name__}(alpha={self.alpha}, sigma={self.sigma}, interpolation={self.interpolation}, "
                f"fill={self.fill})")
