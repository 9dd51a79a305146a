"""torch.optim.radam: RAdam, from the table."""

from taper.optim._functional import functional
from taper.optim._table import optimiser

RAdam = optimiser("RAdam", __name__)
radam = functional(RAdam)
