"""torch.optim.rmsprop: RMSprop, from the table."""

from taper.optim._functional import functional
from taper.optim._table import optimiser

RMSprop = optimiser("RMSprop", __name__)
rmsprop = functional(RMSprop)
