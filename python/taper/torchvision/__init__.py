"""torchvision's face on Taper: images in files, transforms, datasets from disk, models, boxes. Its parts load at their
first use."""

from taper.torchvision.version import __version__

_LATER = frozenset("datasets io models ops transforms tv_tensors utils version".split())
_image_backend = "PIL"


def __getattr__(name):
    if name in _LATER:
        from importlib import import_module

        return import_module("taper.torchvision." + name)
    raise AttributeError(f"module 'torchvision' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_LATER})


def set_image_backend(backend):
    """Accepts "PIL": images that scripts see are Pillow's."""
    if backend != "PIL":
        raise ValueError(f"Invalid backend '{backend}'. Options are 'PIL'")


def get_image_backend():
    return _image_backend


def get_video_backend():
    return "pyav"


def disable_beta_transforms_warning():
    """There is no such warning here."""
