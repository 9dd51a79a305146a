"""Modules of devices that are not there: names that scripts use, which say so when called; what asks for nothing
answers with nothing."""


def refusals(module, word, names):
    """Functions of torch.ROOM that need the device: {name: function}."""

    def refusal(name):
        def function(*args, **kwargs):
            raise AssertionError(f"Torch not compiled with {word} enabled")

        function.__name__ = function.__qualname__ = name
        function.__doc__ = f"Needs a device: torch.{module}.is_available() is False."
        return function

    return {name: refusal(name) for name in names.split()}


def refusing_class(name, word, doc):
    """A class that cannot be made without the device; isinstance and annotations work."""

    def __init__(self, *args, **kwargs):
        raise AssertionError(f"Torch not compiled with {word} enabled")

    return type(name, (), {"__init__": __init__, "__doc__": doc})


# ---- What asks for no device, and is answered without one ----
def is_available():
    """Can tensors live on such a device here?"""
    return False


def device_count():
    return 0


def empty_cache():
    """Gives kept memory back; there is none here."""


def manual_seed(seed):
    """Seeds the current device, if there is one."""
