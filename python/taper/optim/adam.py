"""torch.optim.adam: Adam, from the table."""

from taper.optim._functional import functional
from taper.optim._table import optimiser

Adam = optimiser("Adam", __name__)
adam = functional(Adam)
