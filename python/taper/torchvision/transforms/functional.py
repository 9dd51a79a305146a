"""torchvision.transforms.functional: each transform as a function of a Pillow image or of a tensor (..., C, H, W)."""

import math
import numbers
import sys

import taper as torch
from taper.torchvision._pillow import is_pil as _is_pil_image, pillow
from taper.torchvision.transforms import _functional_pil as F_pil, _functional_tensor as F_t
from taper.torchvision.transforms._interpolation import PIL_NUMBER, InterpolationMode, interpolation_of

pil_modes_mapping = PIL_NUMBER


def _kind(img):
    """The functions for this kind of image."""
    return F_t if isinstance(img, torch.Tensor) else F_pil


def get_dimensions(img):
    """[channels, height, width]; of boxes, those of the image that they lie in"""
    canvas = getattr(img, "canvas_size", None)
    return [1, *canvas] if canvas is not None else _kind(img).get_dimensions(img)


def get_image_size(img):
    """[width, height]"""
    return _kind(img).get_image_size(img)


def get_image_num_channels(img):
    return _kind(img).get_image_num_channels(img)


def _is_numpy(x):
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, numpy.ndarray)


def _is_numpy_image(img):
    return img.ndim in (2, 3)


# ---- Between Pillow, NumPy and tensors ----
_DTYPE_OF_MODE = {"I": torch.int32, "I;16": torch.int16, "F": torch.float32}


def _pixels(pic):
    """A Pillow image's values as a tensor (C, H, W) in their own dtype."""
    if pic.mode == "1":
        pic = pic.convert("L")
    data = torch.frombuffer(bytearray(pic.tobytes()), dtype=_DTYPE_OF_MODE.get(pic.mode, torch.uint8))
    return data.view(pic.size[1], pic.size[0], len(pic.getbands())).permute(2, 0, 1).contiguous()


def to_tensor(pic):
    """A Pillow image or an array (H, W, C) as a tensor (C, H, W); bytes become floating values from 0 to 1."""
    if not (_is_pil_image(pic) or _is_numpy(pic)):
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    if _is_numpy(pic):
        if not _is_numpy_image(pic):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        if pic.ndim == 2:
            pic = pic[:, :, None]
        img = torch.from_numpy(
            pic.transpose((2, 0, 1)).copy() if min(pic.strides, default=0) < 0 else pic.transpose((2, 0, 1))
        ).contiguous()
    else:
        img = _pixels(pic)
    return img.to(dtype=torch.get_default_dtype()).div_(255) if img.dtype == torch.uint8 else img


def pil_to_tensor(pic):
    """A Pillow image as a tensor (C, H, W), its values as they are."""
    if not _is_pil_image(pic):
        raise TypeError(f"pic should be PIL Image. Got {type(pic)}")
    return _pixels(pic)


def convert_image_dtype(image, dtype=torch.float32):
    """Another dtype, the values scaled to its range."""
    if not isinstance(image, torch.Tensor):
        raise TypeError("Input img should be Tensor Image")
    return F_t.convert_image_dtype(image, dtype)


_MODES_OF = {2: ("LA",), 3: ("RGB", "YCbCr", "HSV"), 4: ("RGBA", "CMYK", "RGBX")}
_MODE_OF_DTYPE = {torch.uint8: "L", torch.int16: "I;16", torch.int32: "I", torch.float32: "F"}


def _checked_planes(pic):
    if isinstance(pic, torch.Tensor):
        if pic.ndim == 3 and pic.shape[-3] > 4:
            raise ValueError(f"pic should not have > 4 channels. Got {pic.shape[-3]} channels.")
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        return pic.unsqueeze(0) if pic.ndim == 2 else pic
    if not _is_numpy(pic):
        raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")
    if pic.ndim not in (2, 3):
        raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
    if pic.ndim == 3 and pic.shape[-1] > 4:
        raise ValueError(f"pic should not have > 4 channels. Got {pic.shape[-1]} channels.")
    planes = torch.from_numpy(pic.copy())
    return planes.unsqueeze(0) if pic.ndim == 2 else planes.permute(2, 0, 1)


def to_pil_image(pic, mode=None):
    """A Pillow image of a tensor (C, H, W) or an array (H, W, C); floating tensors from 0 to 1 become bytes."""
    planes = _checked_planes(pic)
    if isinstance(pic, torch.Tensor) and planes.is_floating_point() and mode != "F":
        planes = planes.mul(255).to(torch.uint8)
    channels, height, width = planes.shape
    if channels == 1:
        expected = _MODE_OF_DTYPE.get(planes.dtype)
        if mode is not None and mode != expected:
            raise ValueError(f"Incorrect mode ({mode}) supplied for input type {planes.dtype}. Should be {expected}")
        mode = expected
    else:
        permitted = _MODES_OF[channels]
        if mode is not None and mode not in permitted:
            raise ValueError(
                f"Only modes {list(permitted)} are supported for {channels} channel inputs"
                if len(permitted) > 1
                else f"Only modes {list(permitted)} are supported for 2D inputs"
            )
        mode = mode or permitted[0]
        if planes.dtype != torch.uint8:
            raise TypeError(f"Input type {planes.dtype} is not supported")
    if mode is None:
        raise TypeError(f"Input type {planes.dtype} is not supported")
    data = planes.permute(1, 2, 0).reshape(-1).view(torch.uint8)
    return pillow().frombytes(mode, (width, height), bytes(memoryview(data)))


# ---- Geometry ----
def normalize(tensor, mean, std, inplace=False):
    """(tensor - mean) / std for each channel."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(tensor)}")
    return F_t.normalize(tensor, mean=mean, std=std, inplace=inplace)


def _compute_resized_output_size(image_size, size, max_size=None, allow_size_none=False):
    if size is None and not allow_size_none:
        raise ValueError("This should never happen!!")
    if size is not None and len(size) != 1:
        return list(size[:2])
    short, long = sorted(image_size)
    edges = None
    if size is not None:
        if max_size is not None and max_size <= size[0]:
            raise ValueError(
                f"max_size = {max_size} must be strictly greater than the requested size for the smaller edge size = "
                f"{size}"
            )
        edges = size[0], int(size[0] * long / short)
    if edges is None or max_size is not None and edges[1] > max_size:  # the longer edge decides
        short, long = edges or (short, long)
        edges = int(max_size * short / long), max_size
    height, width = image_size
    return list(edges if height < width else edges[::-1])


def resize(img, size, interpolation=InterpolationMode.BILINEAR, max_size=None, antialias=True):
    """To size (h, w), or to a smaller edge of one number."""
    interpolation = interpolation_of(interpolation)
    if isinstance(size, (list, tuple)):
        if len(size) not in (1, 2):
            raise ValueError(
                f"Size must be an int or a 1 or 2 element tuple/list, not a {len(size)} element tuple/list"
            )
        if max_size is not None and len(size) != 1:
            raise ValueError(
                "max_size should only be passed if size specifies the length of the smaller edge, i.e. size should "
                "be an int or a sequence of length 1 in torchscript mode."
            )
    now = get_dimensions(img)[1:]
    wanted = _compute_resized_output_size(now, [size] if isinstance(size, int) else list(size), max_size)
    if wanted == list(now):
        return img
    if _kind(img) is F_t:
        return F_t.resize(img, wanted, interpolation.value, antialias)
    return F_pil.resize(img, wanted, PIL_NUMBER[interpolation])


def pad(img, padding, fill=0, padding_mode="constant"):
    return _kind(img).pad(img, padding=padding, fill=fill, padding_mode=padding_mode)


def crop(img, top, left, height, width):
    return _kind(img).crop(img, top, left, height, width)


def _twice(size):
    """One number stands for both sides."""
    sides = [int(size)] if isinstance(size, numbers.Number) else size
    return (sides[0], sides[0]) if len(sides) == 1 else sides


def center_crop(img, output_size):
    """The middle; where the image is smaller, it is padded with zeros first."""
    want_h, want_w = _twice(output_size)
    height, width = get_dimensions(img)[1:]
    more_h, more_w = max(want_h - height, 0), max(want_w - width, 0)
    if more_h or more_w:
        img = pad(img, [more_w // 2, more_h // 2, (more_w + 1) // 2, (more_h + 1) // 2], fill=0)
        height, width = height + more_h, width + more_w
        if (height, width) == (want_h, want_w):
            return img
    top, left = (int(round(extra / 2.0)) for extra in (height - want_h, width - want_w))
    return crop(img, top, left, want_h, want_w)


def resized_crop(img, top, left, height, width, size, interpolation=InterpolationMode.BILINEAR, antialias=True):
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def hflip(img):
    return _kind(img).hflip(img)


def vflip(img):
    return _kind(img).vflip(img)


def _get_perspective_coeffs(startpoints, endpoints):
    if {len(startpoints), len(endpoints)} != {4}:
        raise ValueError(
            f"Please provide exactly four corners, got {len(startpoints)} startpoints and {len(endpoints)} endpoints."
        )
    a = torch.zeros(8, 8, dtype=torch.float64)
    for i, ((sx, sy), (ex, ey)) in enumerate(zip(startpoints, endpoints)):
        a[2 * i] = torch.tensor([ex, ey, 1, 0, 0, 0, -sx * ex, -sx * ey])
        a[2 * i + 1] = torch.tensor([0, 0, 0, ex, ey, 1, -sy * ex, -sy * ey])
    b = torch.tensor(startpoints, dtype=torch.float64).view(8)
    return torch.linalg.lstsq(a, b.unsqueeze(-1), driver="gels").solution.view(8).to(torch.float32).tolist()


def perspective(img, startpoints, endpoints, interpolation=InterpolationMode.BILINEAR, fill=None):
    eight, mode = _get_perspective_coeffs(startpoints, endpoints), interpolation_of(interpolation)
    kind = _kind(img)
    return kind.perspective(img, eight, mode.value if kind is F_t else PIL_NUMBER[mode], fill)


def _pair(size):
    sides = _twice(size)
    if len(sides) != 2:
        raise ValueError("Please provide only two dimensions (h, w) for size.")
    return sides


def five_crop(img, size):
    """The four corners and the middle."""
    crop_height, crop_width = _pair(size)
    height, width = get_dimensions(img)[1:]
    if crop_width > width or crop_height > height:
        raise ValueError(
            f"Requested crop size {tuple(size) if not isinstance(size, int) else size} is bigger than input size "
            f"{(height, width)}"
        )
    right, bottom = width - crop_width, height - crop_height
    corners = [
        crop(img, top, left, crop_height, crop_width)
        for top, left in ((0, 0), (0, right), (bottom, 0), (bottom, right))
    ]
    return (*corners, center_crop(img, [crop_height, crop_width]))


def ten_crop(img, size, vertical_flip=False):
    """five_crop of the image and of its mirror image."""
    size = _pair(size)
    return five_crop(img, size) + five_crop(vflip(img) if vertical_flip else hflip(img), size)


# ---- Colours ----
def adjust_brightness(img, brightness_factor):
    return _kind(img).adjust_brightness(img, brightness_factor)


def adjust_contrast(img, contrast_factor):
    return _kind(img).adjust_contrast(img, contrast_factor)


def adjust_saturation(img, saturation_factor):
    return _kind(img).adjust_saturation(img, saturation_factor)


def adjust_hue(img, hue_factor):
    return _kind(img).adjust_hue(img, hue_factor)


def adjust_gamma(img, gamma, gain=1):
    return _kind(img).adjust_gamma(img, gamma, gain)


def to_grayscale(img, num_output_channels=1):
    if not _is_pil_image(img):
        raise TypeError("Input should be PIL Image")
    return rgb_to_grayscale(img, num_output_channels)


def rgb_to_grayscale(img, num_output_channels=1):
    convert = F_t.rgb_to_grayscale if _kind(img) is F_t else F_pil.to_grayscale
    return convert(img, num_output_channels)


# ---- Rotations and affine maps ----
def _get_inverse_affine_matrix(center, angle, translate, scale, shear, inverted=True):
    """The 2x3 matrix that takes a pixel of the result to where it comes from: T C R(angle) Shear Scale C^-1, turned
    round."""
    turn, sx, sy = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    (cx, cy), (tx, ty) = center, translate
    a = math.cos(turn - sy) / math.cos(sy)
    b = -math.cos(turn - sy) * math.tan(sx) / math.cos(sy) - math.sin(turn)
    c = math.sin(turn - sy) / math.cos(sy)
    d = -math.sin(turn - sy) * math.tan(sx) / math.cos(sy) + math.cos(turn)
    if inverted:
        matrix = [x / scale for x in (d, -b, 0.0, -c, a, 0.0)]
        matrix[2] += matrix[0] * (-cx - tx) + matrix[1] * (-cy - ty) + cx
        matrix[5] += matrix[3] * (-cx - tx) + matrix[4] * (-cy - ty) + cy
    else:
        matrix = [x * scale for x in (a, b, 0.0, c, d, 0.0)]
        matrix[2] += matrix[0] * (-cx) + matrix[1] * (-cy) + cx + tx
        matrix[5] += matrix[3] * (-cx) + matrix[4] * (-cy) + cy + ty
    return matrix


def _check_center(center):
    if not (center is None or isinstance(center, (list, tuple))):
        raise TypeError("Argument center should be a sequence")


def _from_middle(img, center):
    """A point (x, y) seen from the middle of the image, which is where None lies."""
    if center is None:
        return [0.0, 0.0]
    sizes = get_dimensions(img)[:0:-1]
    return [c - 0.5 * size for c, size in zip(center, sizes)]


def rotate(img, angle, interpolation=InterpolationMode.NEAREST, expand=False, center=None, fill=None):
    """Turned by angle degrees, counter-clockwise."""
    interpolation = interpolation_of(interpolation)
    if not isinstance(angle, (int, float)):
        raise TypeError("Argument angle should be int or float")
    _check_center(center)
    if not isinstance(img, torch.Tensor):
        return F_pil.rotate(
            img, angle=angle, interpolation=PIL_NUMBER[interpolation], expand=expand, center=center, fill=fill
        )
    turned = _get_inverse_affine_matrix(_from_middle(img, center), -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    return F_t.rotate(img, turned, interpolation.value, expand, fill)


def _checked_shear(shear):
    if not isinstance(shear, (numbers.Number, list, tuple)):
        raise TypeError("Shear should be either a single value or a sequence of two values")
    slants = [shear, 0.0] if isinstance(shear, numbers.Number) else list(_twice(shear))
    if len(slants) != 2:
        raise ValueError(f"Shear should be a sequence containing two values. Got {slants}")
    return slants


def affine(img, angle, translate, scale, shear, interpolation=InterpolationMode.NEAREST, fill=None, center=None):
    """Turned, shifted, scaled and sheared around its centre."""
    interpolation = interpolation_of(interpolation)
    if not isinstance(angle, (int, float)):
        raise TypeError("Argument angle should be int or float")
    if not isinstance(translate, (list, tuple)):
        raise TypeError("Argument translate should be a sequence")
    if len(translate) != 2:
        raise ValueError("Argument translate should be a sequence of length 2")
    if scale <= 0.0:
        raise ValueError("Argument scale should be positive")
    angle, translate, shear = float(angle), list(translate), _checked_shear(shear)
    _check_center(center)
    height, width = get_dimensions(img)[1:]
    if _kind(img) is F_pil:
        middle = [width * 0.5, height * 0.5] if center is None else center
        return F_pil.affine(
            img, _get_inverse_affine_matrix(middle, angle, translate, scale, shear), PIL_NUMBER[interpolation], fill
        )
    return F_t.affine(
        img,
        _get_inverse_affine_matrix(_from_middle(img, center), angle, translate, scale, shear),
        interpolation.value,
        fill,
    )


# ---- Blur, levels, holes ----
def erase(img, i, j, h, w, v, inplace=False):
    if not isinstance(img, torch.Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(img)}")
    return F_t.erase(img, i, j, h, w, v, inplace=inplace)


def _blur_arguments(kernel_size, sigma):
    if not isinstance(kernel_size, (int, list, tuple)):
        raise TypeError(f"kernel_size should be int or a sequence of integers. Got {type(kernel_size)}")
    kernel_size = [kernel_size, kernel_size] if isinstance(kernel_size, int) else list(kernel_size)
    if len(kernel_size) != 2:
        raise ValueError(f"If kernel_size is a sequence its length should be 2. Got {len(kernel_size)}")
    for size in kernel_size:
        if size % 2 == 0 or size < 0:
            raise ValueError(f"kernel_size should have odd and positive integers. Got {kernel_size}")
    if sigma is None:
        sigma = [size * 0.15 + 0.35 for size in kernel_size]
    if not isinstance(sigma, (int, float, list, tuple)):
        raise TypeError(f"sigma should be either float or sequence of floats. Got {type(sigma)}")
    sigma = [float(sigma)] * 2 if isinstance(sigma, (int, float)) else list(sigma)
    if len(sigma) == 1:
        sigma = sigma * 2
    if len(sigma) != 2:
        raise ValueError(f"If sigma is a sequence, its length should be 2. Got {len(sigma)}")
    for value in sigma:
        if value <= 0.0:
            raise ValueError(f"sigma should have positive values. Got {sigma}")
    return kernel_size, sigma


def _through_tensor(img, function):
    """A function of tensors on either kind of image."""
    if isinstance(img, torch.Tensor):
        return function(img)
    if not _is_pil_image(img):
        raise TypeError(f"img should be PIL Image or Tensor. Got {type(img)}")
    return to_pil_image(function(pil_to_tensor(img)), mode=img.mode)


def gaussian_blur(img, kernel_size, sigma=None):
    kernel_size, sigma = _blur_arguments(kernel_size, sigma)
    return _through_tensor(img, lambda t: F_t.gaussian_blur(t, kernel_size, sigma))


def invert(img):
    return _kind(img).invert(img)


def posterize(img, bits):
    if not 0 <= bits <= 8:
        raise ValueError(f"The number if bits should be between 0 and 8. Got {bits}")
    return _kind(img).posterize(img, bits)


def solarize(img, threshold):
    return _kind(img).solarize(img, threshold)


def adjust_sharpness(img, sharpness_factor):
    return _kind(img).adjust_sharpness(img, sharpness_factor)


def autocontrast(img):
    return _kind(img).autocontrast(img)


def equalize(img):
    return _kind(img).equalize(img)


def elastic_transform(img, displacement, interpolation=InterpolationMode.BILINEAR, fill=None):
    """Each pixel comes from its place moved by displacement (1, H, W, 2), in units of half the image."""
    interpolation = interpolation_of(interpolation)
    if not isinstance(displacement, torch.Tensor):
        raise TypeError("Argument displacement should be a Tensor")
    height, width = get_dimensions(img)[1:]
    if displacement.shape != (1, height, width, 2):
        raise ValueError(
            f"Argument displacement shape should be {(1, height, width, 2)}, but given {displacement.shape}"
        )
    return _through_tensor(
        img, lambda t: F_t.elastic_transform(t, displacement, interpolation=interpolation.value, fill=fill)
    )
