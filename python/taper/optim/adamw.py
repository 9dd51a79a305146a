"""torch.optim.adamw: AdamW, from the table."""

from taper.optim._functional import functional
from taper.optim._table import optimiser
from taper.optim.adam import Adam

AdamW = optimiser("AdamW", __name__, Adam)
adamw = functional(AdamW)
