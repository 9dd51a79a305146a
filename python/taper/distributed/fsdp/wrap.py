"""torch.distributed.fsdp.wrap: which modules inside a model are wrapped by themselves."""

from contextlib import contextmanager
from functools import partial

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]


def always_wrap_policy(*args, **kwargs):
    return True


def lambda_auto_wrap_policy(module, recurse, nonwrapped_numel, lambda_fn):
    """Those for which the function says yes."""
    return True if recurse else lambda_fn(module)


def _or_policy(module, recurse, nonwrapped_numel, policies):
    """Those that one of the policies wants."""
    return any(policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for policy in policies)


def transformer_auto_wrap_policy(module, recurse, nonwrapped_numel, transformer_layer_cls):
    """Those of the given classes."""
    return True if recurse else isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module, recurse, nonwrapped_numel, min_num_params=int(1e8), force_leaf_modules=None, exclude_wrap_modules=None
):
    """Those with so many parameters that no inner one has."""
    from taper import nn

    leaves = size_based_auto_wrap_policy.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules
    excluded = (
        size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else exclude_wrap_modules
    )
    large = nonwrapped_numel >= min_num_params
    if recurse:
        return large and not isinstance(
            module,
            tuple(getattr(nn, name) for name in leaves)
            if leaves and isinstance(next(iter(leaves)), str)
            else tuple(leaves),
        )
    return large and not isinstance(
        module,
        tuple(getattr(nn, name) for name in excluded)
        if excluded and isinstance(next(iter(excluded)), str)
        else tuple(excluded),
    )


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {"ModuleList", "ModuleDict"}
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {"MultiheadAttention"}


class ModuleWrapPolicy:
    """Modules of the given classes."""

    def __init__(self, module_classes):
        self._classes = tuple(module_classes)

    def __call__(self, module, recurse, *args, **kwargs):
        return True if recurse else isinstance(module, self._classes)


class CustomPolicy:
    """Modules for which the function says yes, or gives arguments of their own."""

    def __init__(self, lambda_fn):
        self._lambda_fn = lambda_fn

    def __call__(self, module, recurse, *args, **kwargs):
        return True if recurse else self._lambda_fn(module)


_wrapping = []


@contextmanager
def enable_wrap(*, wrapper_cls, **wrapper_kwargs):
    """Inside, wrap() wraps with that class."""
    _wrapping.append(partial(wrapper_cls, **wrapper_kwargs))
    try:
        yield
    finally:
        _wrapping.pop()


def wrap(module, **wrap_overrides):
    """The module, wrapped where enable_wrap is on."""
    return _wrapping[-1](module, **wrap_overrides) if _wrapping else module


def wrap_children(module, policy, make, skip=()):
    """Wraps the inner modules that a policy names, the innermost first; how many parameters were wrapped."""
    total = sum(p.numel() for p in module.parameters())
    wrapped = 0
    if policy(module=module, recurse=True, nonwrapped_numel=total):
        for name, child in list(module.named_children()):
            if child in skip:
                continue
            done = wrap_children(child, policy, make, skip)
            left = sum(p.numel() for p in child.parameters()) - done
            asked = policy(module=child, recurse=False, nonwrapped_numel=left)
            if asked:
                setattr(module, name, make(child, **(asked if isinstance(asked, dict) else {})))
                done += left
            wrapped += done
    return wrapped
