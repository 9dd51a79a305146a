"""torch.utils._contextlib: context managers that decorate functions too; packages derive their own from these."""

from taper.autograd.grad_mode import (
    _DecoratorContextManager,
    _NoParameters as _NoParamDecoratorContextManager,
    context_decorator,
)

__all__ = ["_DecoratorContextManager", "_NoParamDecoratorContextManager", "context_decorator"]
