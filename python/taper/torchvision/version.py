"""Which torchvision these names are."""

from taper import _C

__version__ = f"0.29.2+taper{_C._version}"
cuda = None
git_version = "taper"
