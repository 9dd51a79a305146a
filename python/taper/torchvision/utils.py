"""torchvision.utils: many images in one, images into files, boxes and masks drawn onto images."""

import math

import taper as torch

__all__ = ["make_grid", "save_image", "draw_bounding_boxes", "draw_segmentation_masks", "draw_keypoints"]


def _stretched(tensor, value_range, scale_each):
    """The values moved to 0 ... 1: by the given range, by that of all, or by that of each image."""
    tensor = tensor.clone()
    if value_range is not None and not isinstance(value_range, tuple):
        raise TypeError("value_range has to be a tuple (min, max) if specified. min and max are numbers")

    def stretch(img):
        low, high = value_range if value_range is not None else (float(img.min()), float(img.max()))
        img.clamp_(min=low, max=high)
        img.sub_(low).div_(max(high - low, 1e-5))

    if scale_each:
        for img in tensor:
            stretch(img)
    else:
        stretch(tensor)
    return tensor


@torch.no_grad()
def make_grid(tensor, nrow=8, padding=2, normalize=False, value_range=None, scale_each=False, pad_value=0.0):
    """A batch (B, C, H, W) or a list of images as one image, nrow in a row."""
    if not (
        isinstance(tensor, torch.Tensor)
        or isinstance(tensor, list)
        and all(isinstance(t, torch.Tensor) for t in tensor)
    ):
        raise TypeError(f"tensor or list of tensors expected, got {type(tensor)}")
    if isinstance(tensor, list):
        tensor = torch.stack(tensor, dim=0)
    if tensor.dim() == 2:
        tensor = tensor.unsqueeze(0)
    if tensor.dim() == 3:
        tensor = tensor.unsqueeze(0)
    if tensor.dim() == 4 and tensor.size(1) == 1:
        tensor = torch.cat((tensor, tensor, tensor), 1)
    if normalize:
        tensor = _stretched(tensor, value_range, scale_each)
    if tensor.size(0) == 1:
        return tensor.squeeze(0)
    n, channels = tensor.shape[:2]
    columns = min(nrow, n)
    rows = math.ceil(n / columns)
    height, width = tensor.size(2) + padding, tensor.size(3) + padding
    grid = tensor.new_full((channels, height * rows + padding, width * columns + padding), pad_value)
    for k, img in enumerate(tensor):
        y, x = divmod(k, columns)
        grid[:, y * height + padding : (y + 1) * height, x * width + padding : (x + 1) * width] = img
    return grid


def _encoder(fp, format):
    """The C encoder for the file's kind, or None: Pillow writes the others."""
    from taper import _C

    name = format if format is not None else str(fp).rpartition(".")[2] if not hasattr(fp, "write") else ""
    return {"PNG": _C._encode_png, "JPG": _C._encode_jpeg, "JPEG": _C._encode_jpeg}.get(name.upper())


@torch.no_grad()
def save_image(tensor, fp, format=None, **kwargs):
    """Writes a grid of images with values from 0 to 1 to a file; fp: a path, or a file with `format`."""
    grid = make_grid(tensor, **kwargs)
    image = grid.mul(255).add_(0.5).clamp_(0, 255).to("cpu", torch.uint8)
    encode = _encoder(fp, format)
    if encode is None:
        from taper.torchvision.transforms.functional import to_pil_image

        to_pil_image(image).save(fp, format=format)
        return
    data = encode(image)
    if hasattr(fp, "write"):
        fp.write(bytes(memoryview(data)))
    else:
        from taper import _C

        _C._write_file(fp, data)


# ---- Drawing ----
def _palette(n):
    base = torch.tensor([2**25 - 1, 2**15 - 1, 2**21 - 1])
    return [tuple(int(c) for c in (i * base) % 255) for i in range(n)]


def _colors(colors, n):
    """n colours as Pillow takes them."""
    from taper.torchvision._pillow import pillow

    if colors is None:
        colors = _palette(n)
    elif isinstance(colors, list):
        if len(colors) < n:
            raise ValueError(
                f"Number of colors must be equal or larger than the number of objects, but got {len(colors)} < {n}."
            )
    elif isinstance(colors, (str, tuple)):
        colors = [colors] * n
    else:
        raise ValueError(f"colors must be a tuple or a string, or a list thereof, but got {colors}.")
    return [pillow("ImageColor").getrgb(c) if isinstance(c, str) else c for c in colors]


def _checked(image):
    if not isinstance(image, torch.Tensor):
        raise TypeError(f"Tensor expected, got {type(image)}")
    if not (image.dtype == torch.uint8 or image.is_floating_point()):
        raise ValueError(f"The image dtype must be uint8 or float, got {image.dtype}")
    if image.dim() != 3:
        raise ValueError("Pass individual images, not batches")
    if image.size(0) not in (1, 3):
        raise ValueError("Only grayscale and RGB images are supported")
    return image.expand(3, -1, -1) if image.size(0) == 1 else image


def _canvas(image):
    """A Pillow image, its drawing tools, and a function that gives the result in the image's dtype."""
    from taper.torchvision._pillow import pillow
    from taper.torchvision.transforms import functional as F

    picture = F.to_pil_image(F.convert_image_dtype(image, torch.uint8))
    return picture, pillow("ImageDraw"), lambda: F.convert_image_dtype(F.pil_to_tensor(picture), image.dtype)


@torch.no_grad()
def draw_bounding_boxes(
    image,
    boxes,
    labels=None,
    colors=None,
    fill=False,
    width=1,
    font=None,
    font_size=None,
    label_colors=None,
    label_background_colors=None,
    fill_labels=False,
):
    """The image with boxes (N, 4) as (xmin, ymin, xmax, ymax) and their labels."""
    from taper.torchvision._pillow import pillow

    image = _checked(image)
    n = boxes.shape[0]
    if (boxes[:, 0] > boxes[:, 2]).any() or (boxes[:, 1] > boxes[:, 3]).any():
        raise ValueError(
            "Boxes need to be in (xmin, ymin, xmax, ymax) format. Use torchvision.ops.box_convert to convert them"
        )
    if n == 0:
        return image
    labels = [None] * n if labels is None else labels
    if len(labels) != n:
        raise ValueError(
            f"Number of boxes ({n}) and labels ({len(labels)}) mismatch. Please specify labels for each box."
        )
    colors = _colors(colors, n)
    label_colors = _colors(label_colors, n) if label_colors is not None else list(colors)
    backgrounds = (
        _colors(label_background_colors, n) if fill_labels and label_background_colors is not None else list(colors)
    )
    fonts = pillow("ImageFont")
    text_font = fonts.load_default() if font is None else fonts.truetype(font=font, size=font_size or 10)
    picture, tools, result = _canvas(image)
    draw = tools.Draw(picture, "RGBA") if fill else tools.Draw(picture)
    for box, color, label, text_color, background in zip(
        boxes.to(torch.int64).tolist(), colors, labels, label_colors, backgrounds
    ):
        draw.rectangle(box, width=width, outline=color, **({"fill": color + (100,)} if fill else {}))
        if label is not None:
            at = box[0] + width + 1, box[1] + width + 1
            if fill_labels:
                left, top, right, bottom = draw.textbbox(at, label, font=text_font)
                draw.rectangle((left - 1, top - 1, right + 1, bottom + 1), fill=background)
            draw.text(at, label, fill=text_color, font=text_font)
    return result()


@torch.no_grad()
def draw_segmentation_masks(image, masks, alpha=0.8, colors=None):
    """The image (3, H, W) with boolean masks (N, H, W) laid over it."""
    if image.ndim != 3:
        raise ValueError("Pass individual images, not batches")
    if image.size(0) != 3:
        raise ValueError("Pass an RGB image. Other Image formats are not supported")
    masks = masks[None, :, :] if masks.ndim == 2 else masks
    if masks.ndim != 3:
        raise ValueError("masks must be of shape (H, W) or (batch_size, H, W)")
    if masks.dtype != torch.bool:
        raise ValueError(f"The masks must be of dtype bool. Got {masks.dtype}")
    if masks.shape[-2:] != image.shape[-2:]:
        raise ValueError("The image and the masks must have the same height and width")
    if masks.size(0) == 0:
        return image
    painted = image.detach().clone()
    for mask, color in zip(masks, _colors(colors, masks.size(0))):
        color = torch.tensor(color, dtype=torch.uint8)
        if image.is_floating_point():
            color = color.to(image.dtype) / 255
        painted[:, mask] = color[:, None]
    painted = torch.where(masks.any(dim=0), painted, image)
    return (image * (1 - alpha) + painted * alpha).to(image.dtype)


@torch.no_grad()
def draw_keypoints(image, keypoints, connectivity=None, colors=None, radius=2, width=3, visibility=None):
    """The image with key points (instances, K, 2) and the lines between those that `connectivity` joins."""
    if keypoints.ndim != 3:
        raise ValueError("keypoints must be of shape (num_instances, K, 2)")
    picture, tools, result = _canvas(_checked(image))
    draw = tools.Draw(picture)
    color = _colors(colors, 1)[0] if colors is not None else None
    seen = (
        torch.ones(keypoints.shape[:2], dtype=torch.bool)
        if visibility is None
        else visibility.to(torch.bool).reshape(keypoints.shape[:2])
    )
    for points, visible in zip(keypoints.to(torch.int64).tolist(), seen.tolist()):
        for (x, y), shown in zip(points, visible):
            if shown:
                draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=color, outline=None, width=0)
        for start, end in connectivity or ():
            if visible[start] and visible[end]:
                draw.line((*points[start], *points[end]), width=width)
    return result()
