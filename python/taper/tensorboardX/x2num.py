"""tensorboardX.x2num: anything as a NumPy array."""

from taper.utils.tensorboard._convert_np import make_np  # noqa: F401
