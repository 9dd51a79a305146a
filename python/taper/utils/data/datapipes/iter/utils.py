"""torch.utils.data.datapipes.iter.utils: some of the steps, under PyTorch's file."""

from taper.utils.data.datapipes.iter import *  # noqa: F401,F403
from taper.utils.data.datapipes import iter as _iter


def __getattr__(name):
    return getattr(_iter, name)
