"""torch.testing._utils: random numbers that tests leave as they found them."""

from contextlib import contextmanager

import taper


@contextmanager
def freeze_rng_state():
    """What is drawn within leaves the generators of the CPU and of the current accelerator as they were."""
    state, accelerator = taper.get_rng_state(), taper.accelerator.current_accelerator()
    device = taper.get_device_module(accelerator.type) if accelerator is not None else None
    there = device.get_rng_state() if device is not None else None
    try:
        yield
    finally:
        if device is not None:
            device.set_rng_state(there)
        taper.set_rng_state(state)


def wrapper_set_seed(op, *args, **kwargs):
    with freeze_rng_state():
        taper.manual_seed(42)
        return op(*args, **kwargs)
