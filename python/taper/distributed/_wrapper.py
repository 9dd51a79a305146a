"""A module around another one, under a name of its own: what the wrapper does not know is asked of the module
inside."""

from taper.nn.modules.module import Module

__all__ = ["Wrapper"]


class Wrapper(Module):
    """`_inner` is the name under which a class holds the wrapped module."""

    _inner = "module"

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(self._inner), name)

    def __getitem__(self, key):
        return super().__getattr__(self._inner)[key]
