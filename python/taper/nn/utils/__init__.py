"""torch.nn.utils: helpers around modules."""
from taper.nn.utils import rnn  # noqa: F401
