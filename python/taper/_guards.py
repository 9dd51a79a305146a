"""torch._guards: what PyTorch's compiler knows of the call it traces. Nothing traces that way here, so there is no
context and no fake mode."""

__all__ = ["TracingContext", "active_fake_mode", "detect_fake_mode"]


class TracingContext:
    """The call that is being traced."""

    @staticmethod
    def try_get():
        """None: no call is."""
        return None

    @staticmethod
    def get():
        raise RuntimeError("TracingContext.get() must be called within an ongoing trace.")


def active_fake_mode():
    """The mode whose tensors have no values; None where none is active."""
    return None


def detect_fake_mode(inputs=None):
    """The mode of the inputs; None for tensors that have values."""
    return None
