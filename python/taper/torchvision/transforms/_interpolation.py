"""How pixels between pixels are made up."""

from enum import Enum


class InterpolationMode(Enum):
    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


_BY_NUMBER = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
PIL_NUMBER = {
    **{InterpolationMode(name): number for number, name in _BY_NUMBER.items()},
    InterpolationMode.NEAREST_EXACT: 0,
}


def interpolation_of(mode):
    """A mode, or Pillow's number for one."""
    if isinstance(mode, InterpolationMode):
        return mode
    if isinstance(mode, int) and mode in _BY_NUMBER:
        return InterpolationMode(_BY_NUMBER[mode])
    raise TypeError("Argument interpolation should be a InterpolationMode or a corresponding Pillow integer constant")
