"""torch.nn.utils.prune: parameters with elements masked out. A pruned `weight` is `weight_orig` times `weight_mask`,
made anew before every forward; several prunings of one tensor share a PruningContainer."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from numbers import Integral, Real

from taper._C import _functions as _op
from taper.nn.utils.convert_parameters import parameters_to_vector


def _check_scores(scores, tensor, what):
    if scores is not None and scores.shape != tensor.shape:
        raise AssertionError(
            f"importance_scores should have the same shape as {what}, got {scores.shape} vs {tensor.shape}"
        )
    return tensor if scores is None else scores


def _pruner_of(module, name):
    """The key of the pruning hook of a tensor; None if there is none."""
    keys = [
        key
        for key, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]
    if len(keys) > 1:
        raise AssertionError(
            f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a PruningContainer."
        )
    return keys[0] if keys else None


class BasePruningMethod(ABC):
    """A way to choose what is masked: subclasses say so in compute_mask, and their PRUNING_TYPE ("unstructured",
    "structured" along self.dim, or "global") says what of an earlier mask they see."""

    def __call__(self, module, inputs):
        pruned = self.apply_mask(module)
        setattr(module, self._tensor_name, pruned)

    @abstractmethod
    def compute_mask(self, t, default_mask):
        """The mask for t: where default_mask is 0 it stays so."""

    def apply_mask(self, module):
        """The tensor with its mask applied."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        original, mask = getattr(module, name + "_orig"), getattr(module, name + "_mask")
        return mask.to(dtype=original.dtype) * original

    def _after(self, earlier):
        """This method, in one container with what pruned the tensor before."""
        if earlier is None:
            return self
        if not isinstance(earlier, PruningContainer):
            earlier = PruningContainer(earlier)
        earlier.add_pruning_method(self)
        return earlier

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prunes module.name from here on; returns the hook that does."""
        key = _pruner_of(module, name)
        earlier, new = module._forward_pre_hooks.pop(key, None), cls(*args, **kwargs)
        new._tensor_name = name
        hook, whole = new._after(earlier), getattr(module, name)
        scores = _check_scores(importance_scores, whole, f"parameter {name} of {module}")
        if earlier is None:
            module.register_parameter(name + "_orig", whole)
            module._parameters.pop(name)
        try:
            so_far = _op["ones_like"](whole) if earlier is None else getattr(module, name + "_mask").detach().clone()
            module.register_buffer(name + "_mask", hook.compute_mask(scores, default_mask=so_far))
            hook(module, None)
        except Exception:
            if earlier is None:
                module.register_parameter(name, module._parameters.pop(name + "_orig"))
            raise
        module.register_forward_pre_hook(hook)
        return hook

    def prune(self, t, default_mask=None, importance_scores=None):
        """A pruned copy of a tensor, without a module."""
        scores = _check_scores(importance_scores, t, "tensor t")
        return t * self.compute_mask(scores, default_mask=_op["ones_like"](t) if default_mask is None else default_mask)

    def remove(self, module):
        """Makes the pruned tensor a plain parameter; what was masked stays zero."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        pruned = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        original.data = pruned.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Prunings of one tensor, one after the other."""

    def __init__(self, *args):
        self._pruning_methods = ()
        self._tensor_name = args[0]._tensor_name if len(args) == 1 else getattr(self, "_tensor_name", None)
        for each in args:
            self.add_pruning_method(each)

    def add_pruning_method(self, method):
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to "
                f"PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods = *self._pruning_methods, method

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, idx):
        return self._pruning_methods[idx]

    def _left(self, method, t, mask):
        """The part of t that a method may still choose from, as an index."""
        kind, part = method.PRUNING_TYPE, [slice(None)] * t.dim()
        if kind == "unstructured":
            return mask == 1
        if kind == "structured":
            if getattr(method, "dim", None) is None:
                raise AttributeError(
                    'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
                )
            dim = method.dim + t.dim() if method.dim < 0 else method.dim
            if dim < 0:
                raise IndexError(f"Index is out of bounds for tensor with dimensions {t.dim()}")
            part[dim] = mask.sum([d for d in range(t.dim()) if d != dim]) != 0
        elif kind != "global":
            raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")
        return tuple(part)

    def compute_mask(self, t, default_mask):
        """The newest method applied to what the others left."""
        method, mask = self._pruning_methods[-1], default_mask.to(dtype=t.dtype)
        left = self._left(method, t, default_mask)
        mask[left] = method.compute_mask(t[left], default_mask=default_mask[left]).to(dtype=mask.dtype)
        return mask


def _validate_pruning_amount_init(amount):
    if not isinstance(amount, Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (not isinstance(amount, Integral) and amount > 1):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")
    return amount


def _validate_pruning_amount(amount, tensor_size):
    if isinstance(amount, Integral) and amount > tensor_size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _compute_nparams_toprune(amount, tensor_size):
    _validate_pruning_amount(amount, tensor_size)
    return amount if isinstance(amount, Integral) else round(amount * tensor_size)


def _channels(t, dim):
    """How many channels t has along dim."""
    dims = t.dim()
    if dims <= 1:
        raise ValueError(
            f"Structured pruning can only be applied to multidimensional tensors. Found tensor of shape {t.shape} "
            f"with {t.dim()} dims"
        )
    if dim >= dims:
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")
    return t.shape[dim]


def _keep(t, dim, channels, default_mask):
    """A mask with the channels along dim, and nothing that default_mask has masked."""
    mask = _op["zeros_like"](t)
    mask[(slice(None),) * (dim % t.dim()) + (channels,)] = 1
    return mask * default_mask.to(dtype=mask.dtype)


class Identity(BasePruningMethod):
    """Masks nothing: for the names that pruning gives."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        return default_mask

    @classmethod
    def apply(cls, module, name):
        return super().apply(module, name)


class _Some(BasePruningMethod):
    """Masks the elements that a subclass picks."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount):
        self.amount = _validate_pruning_amount_init(amount)

    def compute_mask(self, t, default_mask):
        count, mask = _compute_nparams_toprune(self.amount, t.nelement()), default_mask.clone()
        if count:
            mask.view(-1)[self._pick(t, count)] = 0
        return mask


class RandomUnstructured(_Some):
    """Masks elements at random."""

    def _pick(self, t, count):
        return _op["topk"](_op["rand_like"](t).view(-1), count).indices

    @classmethod
    def apply(cls, module, name, amount):
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Some):
    """Masks the smallest elements."""

    def _pick(self, t, count):
        return _op["topk"](t.abs().view(-1), count, largest=False).indices

    @classmethod
    def apply(cls, module, name, amount, importance_scores=None):
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomStructured(BasePruningMethod):
    """Masks whole channels at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1):
        self.amount, self.dim = _validate_pruning_amount_init(amount), dim

    def compute_mask(self, t, default_mask):
        channels = _channels(t, self.dim)
        count = _compute_nparams_toprune(self.amount, channels)
        if not count:
            return default_mask
        drawn = _op["rand"](channels, device=t.device)
        return _keep(t, self.dim, drawn > _op["kthvalue"](drawn, count).values, default_mask)

    @classmethod
    def apply(cls, module, name, amount, dim=-1):
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(BasePruningMethod):
    """Masks the channels of the smallest n-norm."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, n, dim=-1):
        self.amount, self.n, self.dim = _validate_pruning_amount_init(amount), n, dim

    def compute_mask(self, t, default_mask):
        channels = _channels(t, self.dim)
        count = _compute_nparams_toprune(self.amount, channels)
        if not count:
            return default_mask
        others = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        if self.n == "nuc" or (self.n == "fro" and len(others) == 2):
            norm = _op["linalg_matrix_norm"](t, self.n, others if len(others) == 2 else [-2, -1])
        else:
            norm = _op["linalg_vector_norm"](t, 2 if self.n == "fro" else self.n, others)
        return _keep(t, self.dim, _op["topk"](norm, channels - count).indices, default_mask)

    @classmethod
    def apply(cls, module, name, amount, n, dim, importance_scores=None):
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Masks what a given mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module, name, mask):
        return super().apply(module, name, mask=mask)


def _pruned(module, method, *args, **kwargs):
    method.apply(module, *args, **kwargs)
    return module


def identity(module, name):
    """Gives the tensor the names of a pruned one, masking nothing."""
    return _pruned(module, Identity, name)


def random_unstructured(module, name, amount):
    """Masks a number, or a share, of elements at random."""
    return _pruned(module, RandomUnstructured, name, amount)


def l1_unstructured(module, name, amount, importance_scores=None):
    """Masks a number, or a share, of the smallest elements."""
    return _pruned(module, L1Unstructured, name, amount, importance_scores)


def random_structured(module, name, amount, dim):
    """Masks a number, or a share, of channels along dim at random."""
    return _pruned(module, RandomStructured, name, amount, dim)


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Masks a number, or a share, of the channels along dim that have the smallest n-norm."""
    return _pruned(module, LnStructured, name, amount, n, dim, importance_scores)


def custom_from_mask(module, name, mask):
    """Masks what the mask says."""
    return _pruned(module, CustomFromMask, name, mask)


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prunes (module, name) pairs as if they were one vector."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters = list(parameters)
    tensors = [getattr(module, name) for module, name in parameters]
    masks = [getattr(module, name + "_mask", None) for module, name in parameters]
    container, method = PruningContainer(), pruning_method(**kwargs)
    container._tensor_name = method._tensor_name = "temp"
    kind = method.PRUNING_TYPE
    if kind != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {kind}"
        )
    method._after(container)
    mask = container.compute_mask(
        parameters_to_vector([scores.get(pair, tensor) for pair, tensor in zip(parameters, tensors)]),
        parameters_to_vector([_op["ones_like"](t) if m is None else m for m, t in zip(masks, tensors)]),
    )
    for (module, name), tensor, part in zip(parameters, tensors, mask.split([t.numel() for t in tensors])):
        custom_from_mask(module, name, mask=part.view_as(tensor))


def remove(module, name):
    """Makes the pruning of a tensor permanent."""
    key = _pruner_of(module, name)
    if key is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    module._forward_pre_hooks[key].remove(module)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module):
    """Is anything of the module, or below it, pruned?"""
    return any(
        isinstance(hook, BasePruningMethod) for part in module.modules() for hook in part._forward_pre_hooks.values()
    )
