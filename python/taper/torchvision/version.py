"""Which torchvision these names are."""
__version__ = "0.29.2+taper"
cuda = None
git_version = "taper"
