"""torch.optim.adafactor: Adafactor, from the table."""

from taper.optim._table import optimiser

Adafactor = optimiser("Adafactor", __name__)
