"""torchvision.io: images in files, through libpng and libjpeg."""

from enum import Enum

import taper as torch
from taper import _C


class ImageReadMode(Enum):
    """Which channels a decoded image gets."""

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4


def _number(mode):
    return ImageReadMode[mode.upper()].value if isinstance(mode, str) else mode.value


def read_file(path):
    """A file's bytes, uint8."""
    return _C._read_file(path)


def write_file(filename, data):
    _C._write_file(filename, data)


def decode_image(input, mode=ImageReadMode.UNCHANGED, apply_exif_orientation=False):
    """A PNG or JPEG, as bytes or as a path, to uint8 (C, H, W). PNGs of 16 bits give int32."""
    data = input if isinstance(input, torch.Tensor) else read_file(input)
    return _C._decode_image(data, _number(mode), apply_exif_orientation)


def read_image(path, mode=ImageReadMode.UNCHANGED, apply_exif_orientation=False):
    return decode_image(read_file(path), mode, apply_exif_orientation)


def decode_png(input, mode=ImageReadMode.UNCHANGED, apply_exif_orientation=False):
    return _C._decode_png(input, _number(mode), apply_exif_orientation)


def decode_jpeg(input, mode=ImageReadMode.UNCHANGED, device="cpu", apply_exif_orientation=False):
    if isinstance(input, (list, tuple)):
        return [decode_jpeg(one, mode, device, apply_exif_orientation) for one in input]
    return _C._decode_jpeg(input, _number(mode), apply_exif_orientation).to(device)


def encode_png(input, compression_level=6):
    """uint8 (1 or 3, H, W) to a PNG's bytes."""
    if input.ndim == 3 and input.dtype == torch.uint8 and input.shape[0] not in (1, 3):
        raise RuntimeError(f"The number of channels should be 1 or 3, got: {input.shape[0]}")
    return _C._encode_png(input, compression_level)


def encode_jpeg(input, quality=75):
    """uint8 (1 or 3, H, W) to a JPEG's bytes."""
    if isinstance(input, (list, tuple)):
        return [encode_jpeg(one, quality) for one in input]
    return _C._encode_jpeg(input, quality)


def write_png(input, filename, compression_level=6):
    write_file(filename, encode_png(input, compression_level))


def write_jpeg(input, filename, quality=75):
    write_file(filename, encode_jpeg(input, quality))
