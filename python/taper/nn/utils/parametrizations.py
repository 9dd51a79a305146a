"""torch.nn.utils.parametrizations: weights that stay orthogonal, of spectral norm one, or split into norms and
directions."""

from taper import _C
from taper._C import Tensor
from taper._C import _functions as _op
from taper.autograd.grad_mode import no_grad as _no_grad
from taper.nn.functional import normalize
from taper.nn.modules.module import Module
from taper.nn.utils.parametrize import register_parametrization


def _tensor_of(module, name):
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


def _is_orthogonal(q):
    from taper import finfo

    return _op["allclose"](
        q.mH @ q, _op["eye"](q.shape[-1], dtype=q.dtype, device=q.device), atol=10.0 * q.shape[-2] * finfo(q.dtype).eps
    )


def _nearest_by_qr(a):
    """The orthogonal factor of a, with the signs that keep an orthogonal a as it is."""
    x, tau = _op["geqrf"](a)
    return _op["linalg_householder_product"](x, tau) * x.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """X is free; its lower triangle names a matrix with orthonormal columns (rows, where it is wide)."""

    def __init__(self, weight, orthogonal_map, *, use_trivialization=True):
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def _of_triangle(self, x, n, k):
        """(n, k) with n >= k: the exponential or the Cayley map of a skew matrix, or a product of reflections."""
        if self.orthogonal_map == "householder":
            a = x.tril(-1)
            q = _op["linalg_householder_product"](a, 2.0 / (1.0 + (a * a).sum(-2)))
            return q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        x = x.tril()
        if n != k:
            x = _op["cat"]([x, x.new_zeros(n, n - k).expand(*x.shape[:-2], n, n - k)], -1)
        skew = x - x.mH
        if self.orthogonal_map == "matrix_exp":
            q = _op["matrix_exp"](skew)
        else:
            one = _op["eye"](n, dtype=skew.dtype, device=skew.device)
            q = _op["linalg_solve"](one - 0.5 * skew, one + 0.5 * skew)
        return q if n == k else q[..., :k]

    def forward(self, x):
        wide = x.shape[-2] < x.shape[-1]
        x = x.mT if wide else x
        q = self._of_triangle(x, x.shape[-2], x.shape[-1])
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    def right_inverse(self, q):
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {q.shape}."
            )
        with _no_grad():
            wide = q.shape[-2] < q.shape[-1]
            tall = q.mT if wide else q
            n, k = tall.shape[-2:]
            if not hasattr(self, "base"):
                if self.orthogonal_map != "householder":
                    raise NotImplementedError(
                        "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                        "use_trivialization=False."
                    )
                a, tau = _op["geqrf"](tall)
                signs = a.diagonal(dim1=-2, dim2=-1)
                signs.sign_()
                signs[tau == 0.0] *= -1
                return a.mT if wide else a
            if n == k:
                self.base = tall.clone() if _is_orthogonal(tall) else _nearest_by_qr(tall)
            else:
                rest = _op["randn"](*tall.shape[:-2], n, n - k, dtype=tall.dtype, device=tall.device)
                self.base = _nearest_by_qr(_op["cat"]([tall, rest], -1))
            start = _op["zeros_like"](q)  # its triangle names minus one: base, as geqrf's signs have it
            start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return start


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """Keeps a matrix, or a batch of them, orthogonal."""
    weight = _tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] or weight.is_complex() else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    return register_parametrization(
        module, name, _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization), unsafe=True
    )


class _WeightNorm(Module):
    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return _op["_weight_norm"](weight_v, weight_g, self.dim)

    def right_inverse(self, weight):
        return _op["norm_except_dim"](weight, 2, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """Splits a weight into its norms (original0) and its directions (original1); states of the old form load too."""
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps = dim % ndim, eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._as_matrix(weight)
            u, v = (matrix.new_empty(n).normal_(0, 1) for n in matrix.shape)
            self.register_buffer("_u", normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _as_matrix(self, weight):
        return (weight.movedim(self.dim, 0) if self.dim else weight).flatten(1)

    def _power_method(self, matrix, steps):
        with _no_grad():
            for _ in range(steps):
                self._u.copy_(normalize(matrix.mv(self._v), dim=0, eps=self.eps))
                self._v.copy_(normalize(matrix.mH.mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight):
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = self._as_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        u, v = (t.clone(memory_format=_C.contiguous_format) for t in (self._u, self._v))
        return weight / _op["vdot"](u, matrix.mv(v))

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides a weight by its largest singular value, which power iteration follows."""
    weight = _tensor_of(module, name)
    if dim is None:
        dim = int("ConvTranspose" in "".join(kind.__name__ for kind in type(module).__mro__))
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
