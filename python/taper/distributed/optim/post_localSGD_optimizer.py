"""torch.distributed.optim.PostLocalSGDOptimizer: an optimiser whose steps are followed by an averager's."""

import warnings

from taper.optim import Optimizer

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Steps as `optim` does, then has `averager` average the parameters when that is due."""

    def __init__(self, optim, averager):
        self.optim, self.averager, self.param_groups = optim, averager, optim.param_groups

    @property
    def state(self):
        return self.optim.state

    def __repr__(self):
        return repr(self.optim)

    def state_dict(self):
        """The optimiser's, with the averager's step."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict):
        self.optim.load_state_dict({key: value for key, value in state_dict.items() if key != "step"})
        if "step" in state_dict:
            self.averager.step = state_dict["step"]
        else:
            warnings.warn(
                "Loaded state dict does not contain a step counter for an averager. Setting step counter to 0."
            )
            self.averager.step = 0

    def step(self, closure=None):
        result = self.optim.step(closure) if closure is not None else self.optim.step()
        self.averager.average_parameters(params=self.param_groups)
        return result

    def zero_grad(self, set_to_none=True):
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group):
        self.optim.add_param_group(param_group)
