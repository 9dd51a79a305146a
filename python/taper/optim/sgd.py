"""torch.optim.sgd: SGD, from the table."""

from taper.optim._functional import functional
from taper.optim._table import optimiser

SGD = optimiser("SGD", __name__)
sgd = functional(SGD)
