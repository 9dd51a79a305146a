"""torch.optim.adamax: Adamax, from the table."""

from taper.optim._functional import functional
from taper.optim._table import optimiser

Adamax = optimiser("Adamax", __name__)
adamax = functional(Adamax)
