"""torch.version: which PyTorch's behaviour this is, and which Taper."""
from taper import _C

__version__ = "2.15.0+taper"
taper = _C._version
debug = False
cuda = hip = xpu = git_version = None
