"""torch.optim.sparse_adam: there are no sparse gradients in Taper, so there is nothing for SparseAdam to do."""
from taper.optim.optimizer import Optimizer


class SparseAdam(Optimizer):
    """Adam for sparse gradients: not in Taper."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        from taper._hook import NotCovered
        raise NotCovered("torch.optim.SparseAdam")
