"""Classes for the optimisers of the table (tables/optimisers): their constructors come from it, and a step is one call
of the library."""

import taper
from taper import _C
from taper._C import Tensor
from taper.nn.parameter import is_lazy
from taper.optim.optimizer import Optimizer, _sparse_gradients


class TableOptimizer(Optimizer):
    """An optimiser of the table."""

    _kind = None  # the library's description
    _options = ()  # the names that a parameter group holds
    _values = ()  # (name in the table, option, place in the option or -1)
    _early = False  # is state made with the optimiser?

    def _start(self, params, defaults):
        self._check(defaults)
        super().__init__(params, defaults)
        if self._early:
            if any(is_lazy(p) for group in self.param_groups for p in group["params"]):
                raise ValueError(
                    "Attempted to use an uninitialized parameter: the state of this optimiser is made with it. Run a "
                    "forward pass before."
                )
            _C._optimiser_step(self._kind, self.param_groups, self.state, True)

    def _check(self, defaults):
        lr = defaults["lr"]
        if isinstance(lr, Tensor):
            if defaults.get("foreach") and not defaults.get("capturable", True) and "fused" in defaults:
                raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
            if lr.numel() != 1:
                raise ValueError("Tensor lr must be 1-element")
        if "betas" in defaults and len({isinstance(beta, Tensor) for beta in defaults["betas"]}) > 1:
            raise ValueError("betas must be either both floats or both Tensors")
        message = _C._optimiser_check(self._kind, defaults)
        if message is not None:
            raise ValueError(
                message.format_map(
                    {name: defaults[option] if at < 0 else defaults[option][at] for name, option, at in self._values}
                )
            )
        if defaults.get("fused"):
            if defaults.get("differentiable"):
                raise RuntimeError("`fused` does not support `differentiable`")
            if defaults.get("foreach"):
                raise RuntimeError("`fused` and `foreach` cannot be `True` together.")

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name in self._options:
                if name in self.defaults:
                    group.setdefault(name, self.defaults[name])

    def step(self, closure=None):
        """Updates the parameters once; closure computes the loss again and returns it."""
        loss = None
        if closure is not None:
            with taper.enable_grad():
                loss = closure()
        if self.defaults.get("fused") and any(
            p._grad is not None and (p.is_meta or not p.is_floating_point())
            for group in self.param_groups
            for p in group["params"]
        ):
            raise RuntimeError(
                "`fused=True` requires all the params to be floating point Tensors of supported devices: ['mps', "
                "'cuda', 'xpu', 'hpu', 'cpu', 'mtia']."
            )
        if self.defaults.get("differentiable"):
            from taper.optim._differentiable import step

            with taper.enable_grad():
                step(self)
        elif _sparse_gradients:
            from taper.sparse._embedding_gradients import step

            step(self, lambda: _C._optimiser_step(self._kind, self.param_groups, self.state))
        else:
            _C._optimiser_step(self._kind, self.param_groups, self.state)
        return loss


def optimiser(name, module, base=TableOptimizer, **extra):
    """The class of an optimiser of the table."""
    kind, doc, _, options, groups, values, early = _C._optimiser(name)
    signature, keyword = [], False
    for option, default, keyword_only, fixed in options:
        if keyword_only and not keyword:
            signature.append("*")
            keyword = True
        if not fixed:
            signature.append(f"{option}={default}")
    fixed = {option: default for option, default, _, fixed in options if fixed}
    defaults = ", ".join(f"{option}={fixed.get(option, option)}" for option in groups)
    space = {"__name__": __name__}
    exec(f"def __init__(self, params, {', '.join(signature)}):\n    self._start(params, dict({defaults}))", space)
    space["__init__"].__qualname__ = f"{name}.__init__"
    return type(
        name,
        (base,),
        {
            "__init__": space["__init__"],
            "__doc__": doc,
            "__module__": module,
            "_kind": kind,
            "_options": groups,
            "_values": values,
            "_early": early,
            **extra,
        },
    )
