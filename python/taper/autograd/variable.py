"""torch.autograd.variable, where old scripts take Variable from."""

from taper.autograd import Variable  # noqa: F401
