"""torch.optim.rmsprop: RMSprop, from the table."""

from taper.optim._table import optimiser

RMSprop = optimiser("RMSprop", __name__)
