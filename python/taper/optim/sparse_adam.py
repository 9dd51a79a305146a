"""torch.optim.sparse_adam: Adam for sparse gradients, which moves only the rows that have one."""

import taper
from taper.optim.optimizer import Optimizer


class SparseAdam(Optimizer):
    """Adam whose moments and parameters change only where the gradient has elements."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        if isinstance(lr, taper.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 < lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 < eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, maximize=maximize))
        sparse = [i for i, p in enumerate(p for group in self.param_groups for p in group["params"]) if p.is_sparse]
        if sparse:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")

    def step(self, closure=None):
        """Updates the rows that have gradients once; closure computes the loss again and returns it."""
        loss = None
        if closure is not None:
            with taper.enable_grad():
                loss = closure()
        with taper.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self._move(p, group)
        return loss

    def _move(self, p, group):
        if not p.grad.is_sparse:
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        state = self.state[p]
        if not state:
            state.update(step=0, exp_avg=taper.zeros_like(p), exp_avg_sq=taper.zeros_like(p))
        state["step"] += 1
        grad = p.grad.coalesce()
        at, values = tuple(grad.indices()), -grad.values() if group["maximize"] else grad.values()
        if values.numel() == 0:
            return
        beta1, beta2 = group["betas"]
        mean, square = (
            state["exp_avg"][at].lerp(values, 1 - beta1),
            state["exp_avg_sq"][at].lerp(values * values, 1 - beta2),
        )
        state["exp_avg"][at], state["exp_avg_sq"][at] = mean, square
        rate = group["lr"] * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
        p[at] = p[at] - rate * mean / (square.sqrt() + group["eps"])
