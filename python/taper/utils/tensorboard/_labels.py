"""Labels of boxes, drawn by Pillow where it is installed."""

from taper import _C


def with_labels(picture, dataformats, boxes, labels):
    """The picture as (H, W, 3) bytes with each label in the corner of its box."""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise ModuleNotFoundError(
            "the labels of boxes are drawn by Pillow, which is not installed: pip install pillow"
        ) from None
    order = [dataformats.upper().index(letter) for letter in "HWC" if letter in dataformats.upper()]
    picture = picture.permute(order)
    picture = picture.unsqueeze(-1) if picture.dim() == 2 else picture
    if picture.dtype != _C.uint8:
        picture = (picture.float() * 255).clamp(0, 255).to(_C.uint8)
    height, width = picture.shape[:2]
    canvas = Image.frombytes("RGB", (width, height), picture.expand(height, width, 3).contiguous().numpy().tobytes())
    draw = ImageDraw.Draw(canvas)
    for (left, top, _, bottom), label in zip(boxes.tolist(), labels):
        box = draw.textbbox((left + 2, bottom), label, anchor="lb")
        draw.rectangle(box, fill="red")
        draw.text((left + 2, bottom), label, fill="black", anchor="lb")
    return _C.tensor(bytearray(canvas.tobytes()), dtype=_C.uint8).view(height, width, 3)
