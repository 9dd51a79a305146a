"""torch.optim.lbfgs: L-BFGS, whose step calls the closure several times."""

import taper
from taper import _C
from taper.optim._table import TableOptimizer, optimiser


class _OneGroup(TableOptimizer):
    """All parameters are one vector, so they share their options."""

    def _start(self, params, defaults):
        if defaults["max_eval"] is None:
            defaults["max_eval"] = defaults["max_iter"] * 5 // 4
        super()._start(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def _check(self, defaults):
        super()._check({**defaults, "line_search_fn": None})  # another line search is an error of the step

    @taper.no_grad()
    def step(self, closure):
        """Minimises; closure clears the gradients, computes the loss, calls backward and returns the loss. Returns the
        first loss."""
        group = self.param_groups[0]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        return _C._lbfgs_step(self._kind, group, self.state[group["params"][0]], taper.enable_grad()(closure))


LBFGS = optimiser("LBFGS", __name__, _OneGroup)
