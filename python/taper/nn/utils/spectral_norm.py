"""Spectral normalisation by hooks, the old form: a weight over its largest singular value, which power iteration
follows in `name_u` and `name_v`."""

from taper._C import _functions as _op
from taper.autograd.grad_mode import no_grad as _no_grad
from taper.nn.functional import normalize
from taper.nn.parameter import Parameter, is_lazy


class SpectralNorm:
    """The hook before forward that makes the weight of `name_orig`, and those around saving and loading."""

    _version = 1

    def __init__(self, name="weight", n_power_iterations=1, dim=0, eps=1e-12):
        if not n_power_iterations > 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name, self.dim, self.n_power_iterations, self.eps = name, dim, n_power_iterations, eps

    def reshape_weight_to_matrix(self, weight):
        """The weight as a matrix with a row for each output."""
        return (weight.movedim(self.dim, 0) if self.dim else weight).flatten(1)

    def compute_weight(self, module, do_power_iteration):
        whole, u, v = (getattr(module, self.name + end) for end in ("_orig", "_u", "_v"))
        matrix = self.reshape_weight_to_matrix(whole)
        if do_power_iteration:
            u, v = self._iterate(matrix, u, v)
        return whole / _op["dot"](u, matrix.mv(v))

    @_no_grad()
    def _iterate(self, matrix, u, v):
        """Moves the kept vectors; gives copies, so that what backward keeps is not what the next forward changes."""
        steps = ((v, matrix.t(), u), (u, matrix, v)) * self.n_power_iterations
        for to, by, start in steps:
            to.copy_(normalize(by.mv(start), dim=0, eps=self.eps))
        return u.clone(), v.clone()

    def remove(self, module):
        with _no_grad():
            plain = self.compute_weight(module, False)
        for end in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + end)
        module.register_parameter(self.name, Parameter(plain.detach()))

    def __call__(self, module, inputs):
        weight = self.compute_weight(module, module.training)
        setattr(module, self.name, weight)

    @staticmethod
    def apply(module, name, n_power_iterations, dim, eps):
        if _found(module._forward_pre_hooks, name) is not None:
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        norm, weight = SpectralNorm(name, n_power_iterations, dim, eps), module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy "
                "forward before applying spectral normalization"
            )
        with _no_grad():
            matrix = norm.reshape_weight_to_matrix(weight)
            u, v = (normalize(weight.new_empty(n).normal_(0, 1), dim=0, eps=eps) for n in matrix.shape)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(norm)
        module._register_state_dict_hook(_NotesVersion(norm))
        return norm


class _NotesVersion:
    """Writes into the state's metadata which form of normalisation it holds."""

    def __init__(self, norm):
        self.name = norm.name

    def __call__(self, module, state_dict, prefix, local_metadata):
        local_metadata.setdefault("spectral_norm", {})[self.name + ".version"] = SpectralNorm._version


def _found(hooks, name, kind=SpectralNorm):
    return next((key for key, hook in hooks.items() if isinstance(hook, kind) and hook.name == name), None)


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides the weight by its largest singular value at every forward."""
    if dim is None:
        dim = int("ConvTranspose" in "".join(kind.__name__ for kind in type(module).__mro__))
    SpectralNorm.apply(module, name, n_power_iterations, eps=eps, dim=dim)
    return module


def remove_spectral_norm(module, name="weight"):
    """Makes the normalised weight a plain parameter."""
    key = _found(module._forward_pre_hooks, name)
    if key is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    module._forward_pre_hooks.pop(key).remove(module)
    module._state_dict_hooks.pop(_found(module._state_dict_hooks, name, _NotesVersion), None)
    return module
