"""Modules whose first values do not count, since others are loaded over them."""


def skip_init(module_cls, *args, **kwargs):
    """A module as its constructor makes and initialises it; the CPU's default generator is left as it was."""
    from inspect import signature
    from taper._C import default_generator
    from taper.nn.modules.module import Module

    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    state = default_generator.get_state()
    try:
        return module_cls(*args, **kwargs)
    finally:
        default_generator.set_state(state)
