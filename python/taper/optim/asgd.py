"""torch.optim.asgd: ASGD, from the table."""

from taper.optim._functional import functional
from taper.optim._table import optimiser

ASGD = optimiser("ASGD", __name__)
asgd = functional(ASGD)
