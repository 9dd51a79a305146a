"""torch.optim.nadam: NAdam, from the table."""

from taper.optim._functional import functional
from taper.optim._table import optimiser

NAdam = optimiser("NAdam", __name__)
nadam = functional(NAdam)
