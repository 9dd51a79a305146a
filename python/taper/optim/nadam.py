"""torch.optim.nadam: NAdam, from the table."""

from taper.optim._table import optimiser

NAdam = optimiser("NAdam", __name__)
