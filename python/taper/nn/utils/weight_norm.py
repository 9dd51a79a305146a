"""Weight normalisation by hooks, the old form: a weight as its norms `name_g` and its directions `name_v`."""

from warnings import warn

from taper._C import _functions as _op
from taper.nn.parameter import Parameter, is_lazy


class WeightNorm:
    """The hook before forward that makes the weight of its two parts."""

    def __init__(self, name, dim):
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module):
        v, g = (getattr(module, self.name + end) for end in ("_v", "_g"))
        return _op["_weight_norm"](v, g, self.dim)

    @staticmethod
    def apply(module, name, dim):
        warn(
            "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
            stacklevel=3,
        )
        if _found(module, name) is not None:
            raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        norm, weight = WeightNorm(name, dim), getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to run the dummy "
                "forward before applying weight normalization"
            )
        module._parameters.pop(name)
        for end, part in (("_g", _op["norm_except_dim"](weight, 2, norm.dim)), ("_v", weight)):
            module.register_parameter(name + end, Parameter(part.data))
        norm(module, None)
        module.register_forward_pre_hook(norm)
        return norm

    def remove(self, module):
        whole = Parameter(self.compute_weight(module).data)
        for end in ("", "_g", "_v"):
            delattr(module, self.name + end)
        module.register_parameter(self.name, whole)

    def __call__(self, module, inputs):
        weight = self.compute_weight(module)
        setattr(module, self.name, weight)


def _found(module, name):
    return next(
        (key for key, hook in module._forward_pre_hooks.items() if isinstance(hook, WeightNorm) and hook.name == name),
        None,
    )


def weight_norm(module, name="weight", dim=0):
    """Makes the weight a function of its norms and its directions."""
    WeightNorm.apply(module=module, name=name, dim=dim)
    return module


def remove_weight_norm(module, name="weight"):
    """Makes it a plain parameter again."""
    key = _found(module, name)
    if key is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    module._forward_pre_hooks.pop(key).remove(module)
    return module
