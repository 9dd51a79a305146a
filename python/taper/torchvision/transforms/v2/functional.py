"""torchvision.transforms.v2.functional: version 1's functions, for boxes and masks too; what comes out is of the kind
that went in."""

import taper as torch
from taper.torchvision.tv_tensors import BoundingBoxes, BoundingBoxFormat, Image, Mask, TVTensor, wrap
from taper.torchvision.ops.boxes import box_convert, clip_boxes_to_image
from taper.torchvision.transforms import functional as v1
from taper.torchvision.transforms._interpolation import InterpolationMode, interpolation_of
from taper.torchvision.transforms.functional import pil_to_tensor, to_pil_image  # noqa: F401


def is_pure_tensor(inpt):
    return isinstance(inpt, torch.Tensor) and not isinstance(inpt, TVTensor)


def _plain(inpt):
    return inpt.as_subclass(torch.Tensor) if isinstance(inpt, TVTensor) else inpt


def _mode(interpolation):
    return InterpolationMode(interpolation) if isinstance(interpolation, str) else interpolation_of(interpolation)


# ---- Sizes ----
def get_size(inpt):
    """[height, width]"""
    return list(inpt.canvas_size) if isinstance(inpt, BoundingBoxes) else v1.get_dimensions(inpt)[1:]


def get_dimensions(inpt):
    return v1.get_dimensions(_plain(inpt))


def get_num_channels(inpt):
    return v1.get_image_num_channels(_plain(inpt))


get_image_num_channels = get_num_channels


def get_image_size(inpt):
    return get_size(inpt)[::-1]


# ---- Kinds ----
def to_image(inpt):
    """A Pillow image, an array (H, W, C) or a tensor as an Image."""
    if isinstance(inpt, torch.Tensor):
        return Image(_plain(inpt))
    if v1._is_numpy(inpt):
        inpt = torch.from_numpy(inpt[:, :, None] if inpt.ndim == 2 else inpt).permute(2, 0, 1).contiguous()
    return Image(inpt)


def to_dtype(inpt, dtype=torch.float32, scale=False):
    if isinstance(inpt, (BoundingBoxes, Mask)) or not scale:
        return wrap(_plain(inpt).to(dtype), like=inpt) if isinstance(inpt, TVTensor) else inpt.to(dtype)
    result = v1.convert_image_dtype(_plain(inpt), dtype)
    return wrap(result, like=inpt) if isinstance(inpt, TVTensor) else result


def convert_image_dtype(image, dtype=torch.float32):
    return to_dtype(image, dtype=dtype, scale=True)


def to_tensor(inpt):
    return v1.to_tensor(inpt)


def convert_bounding_box_format(inpt, old_format=None, new_format=None, inplace=False):
    new = BoundingBoxFormat[new_format.upper()] if isinstance(new_format, str) else new_format
    old = (
        inpt.format
        if isinstance(inpt, BoundingBoxes)
        else BoundingBoxFormat[old_format.upper()]
        if isinstance(old_format, str)
        else old_format
    )
    boxes = box_convert(_plain(inpt), old.value.lower(), new.value.lower()).to(inpt.dtype)
    return wrap(boxes, like=inpt, format=new) if isinstance(inpt, BoundingBoxes) else boxes


def clamp_bounding_boxes(inpt, format=None, canvas_size=None, clamping_mode="soft"):
    """Cut where they leave the image."""
    size = inpt.canvas_size if isinstance(inpt, BoundingBoxes) else canvas_size
    return _on_corners(inpt, lambda boxes: clip_boxes_to_image(boxes, size))


def _on_corners(boxes, change, **kwargs):
    """Boxes with their corners changed, in their own format."""
    kind = boxes.format.value.lower()
    return wrap(
        box_convert(change(box_convert(_plain(boxes), kind, "xyxy")), "xyxy", kind).to(boxes.dtype),
        like=boxes,
        **kwargs,
    )


# ---- Geometry: a function of images and masks, and what becomes of boxes' corners ----
def _shifted(boxes, x, y, size):
    """Moved, the canvas another one, cut at its edges."""
    moved = _on_corners(boxes, lambda b: b + torch.tensor([x, y, x, y]).to(b), canvas_size=size)
    return clamp_bounding_boxes(moved)


def _images(function):
    """A function of version 1 for images and masks, in the kind that they are."""

    def apply(inpt, *args, **kwargs):
        if isinstance(inpt, BoundingBoxes):
            from taper._hook import NotCovered

            raise NotCovered(f"torchvision.transforms.v2.functional.{function.__name__} of bounding boxes")
        flat = isinstance(inpt, Mask) and inpt.ndim == 2
        plain = _plain(inpt)
        result = function(plain.unsqueeze(0) if flat else plain, *args, **kwargs)
        result = result.squeeze(0) if flat else result
        return wrap(result, like=inpt) if isinstance(inpt, TVTensor) and isinstance(result, torch.Tensor) else result

    apply.__name__ = function.__name__
    apply.__doc__ = function.__doc__
    return apply


def horizontal_flip(inpt):
    if isinstance(inpt, BoundingBoxes):
        width = inpt.canvas_size[1]
        return _on_corners(
            inpt, lambda b: torch.stack([width - b[..., 2], b[..., 1], width - b[..., 0], b[..., 3]], -1)
        )
    return _images(v1.hflip)(inpt)


def vertical_flip(inpt):
    if isinstance(inpt, BoundingBoxes):
        height = inpt.canvas_size[0]
        return _on_corners(
            inpt, lambda b: torch.stack([b[..., 0], height - b[..., 3], b[..., 2], height - b[..., 1]], -1)
        )
    return _images(v1.vflip)(inpt)


hflip, vflip = horizontal_flip, vertical_flip


def resize(inpt, size, interpolation=InterpolationMode.BILINEAR, max_size=None, antialias=True):
    if isinstance(inpt, BoundingBoxes):
        new = v1._compute_resized_output_size(inpt.canvas_size, [size] if isinstance(size, int) else size, max_size)
        x, y = new[1] / inpt.canvas_size[1], new[0] / inpt.canvas_size[0]
        return _on_corners(inpt, lambda b: b * torch.tensor([x, y, x, y]), canvas_size=tuple(new))
    interpolation = InterpolationMode.NEAREST if isinstance(inpt, Mask) else _mode(interpolation)
    return _images(v1.resize)(inpt, size, interpolation, max_size, antialias)


def crop(inpt, top, left, height, width):
    if isinstance(inpt, BoundingBoxes):
        return _shifted(inpt, -left, -top, (height, width))
    return _images(v1.crop)(inpt, top, left, height, width)


def center_crop(inpt, output_size):
    if isinstance(inpt, BoundingBoxes):
        height, width = v1._pair(output_size)
        top, left = (int(round((have - want) / 2.0)) for have, want in zip(inpt.canvas_size, (height, width)))
        return _shifted(inpt, -left, -top, (height, width))
    return _images(v1.center_crop)(inpt, output_size)


def resized_crop(inpt, top, left, height, width, size, interpolation=InterpolationMode.BILINEAR, antialias=True):
    return resize(crop(inpt, top, left, height, width), size, interpolation, antialias=antialias)


def pad(inpt, padding, fill=None, padding_mode="constant"):
    if isinstance(inpt, BoundingBoxes):
        from taper.torchvision.transforms._functional_tensor import _padding_sides

        left, right, top, bottom = _padding_sides(padding)
        return _shifted(inpt, left, top, (inpt.canvas_size[0] + top + bottom, inpt.canvas_size[1] + left + right))
    return _images(v1.pad)(inpt, padding, 0 if fill is None or isinstance(inpt, Mask) else fill, padding_mode)


def _how(inpt, interpolation, fill):
    """Masks are never mixed: the nearest value, and zero outside."""
    return (InterpolationMode.NEAREST, 0) if isinstance(inpt, Mask) else (_mode(interpolation), fill)


def affine(inpt, angle, translate, scale, shear, interpolation=InterpolationMode.NEAREST, fill=None, center=None):
    interpolation, fill = _how(inpt, interpolation, fill)
    return _images(v1.affine)(inpt, angle, translate, scale, shear, interpolation, fill, center)


def rotate(inpt, angle, interpolation=InterpolationMode.NEAREST, expand=False, center=None, fill=None):
    interpolation, fill = _how(inpt, interpolation, fill)
    return _images(v1.rotate)(inpt, angle, interpolation, expand, center, fill)


def perspective(inpt, startpoints, endpoints, interpolation=InterpolationMode.BILINEAR, fill=None):
    interpolation, fill = _how(inpt, interpolation, fill)
    return _images(v1.perspective)(inpt, startpoints, endpoints, interpolation, fill)


def elastic(inpt, displacement, interpolation=InterpolationMode.BILINEAR, fill=None):
    interpolation, fill = _how(inpt, interpolation, fill)
    return _images(v1.elastic_transform)(inpt, displacement, interpolation, fill)


elastic_transform = elastic


# ---- Colours: of images alone ----
(
    adjust_brightness,
    adjust_contrast,
    adjust_saturation,
    adjust_hue,
    adjust_gamma,
    adjust_sharpness,
    rgb_to_grayscale,
    autocontrast,
    equalize,
    invert,
    posterize,
    solarize,
    gaussian_blur,
    normalize,
    erase,
    five_crop,
    ten_crop,
) = (
    _images(f)
    for f in (
        v1.adjust_brightness,
        v1.adjust_contrast,
        v1.adjust_saturation,
        v1.adjust_hue,
        v1.adjust_gamma,
        v1.adjust_sharpness,
        v1.rgb_to_grayscale,
        v1.autocontrast,
        v1.equalize,
        v1.invert,
        v1.posterize,
        v1.solarize,
        v1.gaussian_blur,
        v1.normalize,
        v1.erase,
        v1.five_crop,
        v1.ten_crop,
    )
)
to_grayscale = rgb_to_grayscale


def grayscale_to_rgb(inpt):
    if isinstance(inpt, torch.Tensor):
        result = _plain(inpt).expand(*inpt.shape[:-3], 3, *inpt.shape[-2:]) if inpt.shape[-3] == 1 else _plain(inpt)
        return wrap(result, like=inpt) if isinstance(inpt, TVTensor) else result
    return inpt.convert("RGB")


def permute_channels(inpt, permutation):
    if isinstance(inpt, torch.Tensor):
        result = _plain(inpt)[..., permutation, :, :]
        return wrap(result, like=inpt) if isinstance(inpt, TVTensor) else result
    return to_pil_image(permute_channels(pil_to_tensor(inpt), permutation))


def gaussian_noise(inpt, mean=0.0, sigma=0.1, clip=True):
    if not inpt.is_floating_point():
        raise ValueError(f"Input tensor is expected to be in float dtype, got dtype={inpt.dtype}")
    if sigma < 0:
        raise ValueError(f"sigma shouldn't be negative. Got {sigma}")
    result = _plain(inpt) + mean + torch.randn_like(_plain(inpt)) * sigma
    result = result.clamp(0, 1) if clip else result
    return wrap(result, like=inpt) if isinstance(inpt, TVTensor) else result
