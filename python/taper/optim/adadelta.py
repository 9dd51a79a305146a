"""torch.optim.adadelta: Adadelta, from the table."""

from taper.optim._functional import functional
from taper.optim._table import optimiser

Adadelta = optimiser("Adadelta", __name__)
adadelta = functional(Adadelta)
