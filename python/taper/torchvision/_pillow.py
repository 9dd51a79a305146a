"""Pillow, which Taper does not need by itself: found where an image of its kind is in use, asked for with a clear
message where it is missing."""

import sys


def is_pil(image):
    """Is it a Pillow image? Asking imports nothing: without Pillow nobody has one."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(image, module.Image)


def pillow(part="Image"):
    """A module of Pillow's."""
    from importlib import import_module

    try:
        return import_module("PIL." + part)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "this makes Pillow images, and Pillow is not installed: `pip install pillow`", name="PIL"
        ) from None
