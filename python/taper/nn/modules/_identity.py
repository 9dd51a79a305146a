"""The layer that does nothing."""

from taper.nn.modules.module import Module


class Identity(Module):
    """Hands its input through; takes any arguments."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        return input
