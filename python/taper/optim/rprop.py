"""torch.optim.rprop: Rprop, from the table."""

from taper.optim._functional import functional
from taper.optim._table import optimiser

Rprop = optimiser("Rprop", __name__)
rprop = functional(Rprop)
