"""The transforms' arithmetic on Pillow images: Pillow's own operations, called as torchvision calls them."""

from taper.torchvision._pillow import is_pil, pillow

_is_pil_image = is_pil


def _check(img):
    if not is_pil(img):
        raise TypeError(f"img should be PIL Image. Got {type(img)}")


def get_dimensions(img):
    _check(img)
    return [len(img.getbands()), img.height, img.width]


def get_image_size(img):
    return get_dimensions(img)[:0:-1]


def get_image_num_channels(img):
    return get_dimensions(img)[0]


def hflip(img):
    _check(img)
    return img.transpose(pillow().Transpose.FLIP_LEFT_RIGHT)


def vflip(img):
    _check(img)
    return img.transpose(pillow().Transpose.FLIP_TOP_BOTTOM)


def _enhanced(img, kind, factor):
    _check(img)
    return getattr(pillow("ImageEnhance"), kind)(img).enhance(factor)


def adjust_brightness(img, brightness_factor):
    return _enhanced(img, "Brightness", brightness_factor)


def adjust_contrast(img, contrast_factor):
    return _enhanced(img, "Contrast", contrast_factor)


def adjust_saturation(img, saturation_factor):
    return _enhanced(img, "Color", saturation_factor)


def adjust_sharpness(img, sharpness_factor):
    return _enhanced(img, "Sharpness", sharpness_factor)


def adjust_hue(img, hue_factor):
    if abs(hue_factor) > 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    _check(img)
    mode = img.mode
    if mode in ("L", "1", "I", "F"):
        return img
    hue, saturation, value = img.convert("HSV").split()
    shift = int(hue_factor * 255)
    hue = hue.point([(level + shift) % 256 for level in range(256)])
    return pillow().merge("HSV", (hue, saturation, value)).convert(mode)


def adjust_gamma(img, gamma, gain=1):
    _check(img)
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")
    levels = [int((255 + 1 - 1e-3) * gain * pow(level / 255.0, gamma)) for level in range(256)] * 3
    return img.convert("RGB").point(levels).convert(img.mode)


def _fill(fill, img, name="fillcolor"):
    """Pillow's keyword for the colour of new pixels."""
    bands, several = len(img.getbands()), isinstance(fill, (list, tuple))
    levels = list(fill) if several else [fill or 0]
    if len(levels) == 1:
        levels *= bands
    if len(levels) != bands:
        raise ValueError(
            f"The number of elements in 'fill' does not match the number of channels of the image ({len(levels)} != "
            f"{bands})"
        )
    levels = tuple(levels if img.mode == "F" else map(int, levels))
    return {name: levels if several or bands > 1 else levels[0]}


def _with_palette(image, of):
    """The colours that an image of numbers stands for go along with it."""
    if of.mode == "P":
        image.putpalette(of.getpalette())
    return image


def pad(img, padding, fill=0, padding_mode="constant"):
    _check(img)
    padding = tuple(padding) if isinstance(padding, list) else padding
    if not isinstance(padding, (int, float, tuple)):
        raise TypeError("Got inappropriate padding arg")
    if isinstance(padding, tuple) and len(padding) not in (1, 2, 4):
        raise ValueError(f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(padding)} element tuple")
    if isinstance(padding, tuple):
        padding = padding[0] if len(padding) == 1 else padding
    if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
    if padding_mode == "constant":
        return _with_palette(pillow("ImageOps").expand(img, border=padding, **_fill(fill, img, name="fill")), img)
    left, top, right, bottom = (
        [padding] * 4 if isinstance(padding, int) else padding * 2 if len(padding) == 2 else padding
    )
    cut = [-min(side, 0) for side in (left, top, right, bottom)]
    if any(cut):
        img = img.crop((cut[0], cut[1], img.width - cut[2], img.height - cut[3]))
        left, top, right, bottom = (max(side, 0) for side in (left, top, right, bottom))
    from taper.torchvision.transforms import _functional_tensor as on_tensors
    from taper.torchvision.transforms.functional import pil_to_tensor, to_pil_image

    return _with_palette(
        to_pil_image(
            on_tensors.pad(pil_to_tensor(img), [left, top, right, bottom], padding_mode=padding_mode), mode=img.mode
        ),
        img,
    )


def crop(img, top, left, height, width):
    _check(img)
    return img.crop((left, top, left + width, top + height))


def resize(img, size, interpolation=2):
    _check(img)
    if not (isinstance(size, list) and len(size) == 2):
        raise TypeError(f"Got inappropriate size arg: {size}")
    return img.resize(tuple(size[::-1]), interpolation)


def affine(img, matrix, interpolation=0, fill=None):
    _check(img)
    return img.transform(img.size, pillow().Transform.AFFINE, matrix, interpolation, **_fill(fill, img))


def rotate(img, angle, interpolation=0, expand=False, center=None, fill=None):
    _check(img)
    return img.rotate(angle, interpolation, expand, center, **_fill(fill, img))


def perspective(img, perspective_coeffs, interpolation=3, fill=None):
    _check(img)
    return img.transform(
        img.size, pillow().Transform.PERSPECTIVE, perspective_coeffs, interpolation, **_fill(fill, img)
    )


def to_grayscale(img, num_output_channels):
    _check(img)
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    gray = img.convert("L")
    return gray if num_output_channels == 1 else pillow().merge("RGB", (gray, gray, gray))


def _operated(img, name, *args):
    _check(img)
    return getattr(pillow("ImageOps"), name)(img, *args)


def invert(img):
    return _operated(img, "invert")


def posterize(img, bits):
    return _operated(img, "posterize", bits)


def solarize(img, threshold):
    return _operated(img, "solarize", threshold)


def autocontrast(img):
    return _operated(img, "autocontrast")


def equalize(img):
    return _operated(img, "equalize")
