"""torch.optim.adagrad: Adagrad, from the table."""

from taper.optim._functional import functional
from taper.optim._table import optimiser

Adagrad = optimiser("Adagrad", __name__)
adagrad = functional(Adagrad)
