"""What distributions share: broadcasting parameters, probabilities and their logits, properties that are computed
once."""

import taper as torch
from taper import Tensor
from taper.nn import functional as F

euler_constant = 0.57721566490153286060


def is_number(value):
    return isinstance(value, (int, float))


def broadcast_all(*values):
    """The values as tensors of one shape; numbers take the dtype of the first tensor among them."""
    if not all(isinstance(value, Tensor) or is_number(value) for value in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    first = next((value for value in values if isinstance(value, Tensor)), None)
    options = {"dtype": torch.get_default_dtype()} if first is None else {"dtype": first.dtype, "device": first.device}
    return torch.broadcast_tensors(
        *[value if isinstance(value, Tensor) else torch.tensor(value, **options) for value in values]
    )


def _standard_normal(shape, dtype, device):
    """Drawn in place: the gradient goes through what is made of it, not through the draw."""
    drawn = torch.empty(shape, dtype=dtype, device=device)
    return drawn.normal_()


def _sum_rightmost(value, dim):
    """Summed over the last dims."""
    return value.reshape(value.shape[:-dim] + (-1,)).sum(-1) if dim else value


def logits_to_probs(logits, is_binary=False):
    return torch.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def clamp_probs(probs):
    """Probabilities kept away from zero and one."""
    least = torch.finfo(probs.dtype).eps
    return probs.clamp(least, 1 - least)


def probs_to_logits(probs, is_binary=False):
    probs = clamp_probs(probs)
    return probs.log() - (-probs).log1p() if is_binary else probs.log()


class lazy_property:
    """A property that is computed at its first use and kept; asked of the class it is a plain property."""

    def __init__(self, wrapped, name=None):
        self.wrapped, self.__doc__, self.__name__ = wrapped, wrapped.__doc__, name or wrapped.__name__

    def __get__(self, instance, obj_type=None):
        """The value takes the place of the property, which has no setter, in the instance."""
        if instance is not None:
            with torch.enable_grad():
                instance.__dict__[self.__name__] = self.wrapped(instance)
            return instance.__dict__[self.__name__]
        return _lazy_property_and_property(self.wrapped)


class _lazy_property_and_property(lazy_property, property):
    __init__ = property.__init__


def _lower_mask(n, diag, device):
    places = torch.arange(n, device=device)
    return places < places.view(-1, 1) + (diag + 1)


def tril_matrix_to_vec(mat, diag=0):
    """The elements of a lower triangle, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat[..., _lower_mask(n, diag, mat.device)]


def vec_to_tril_matrix(vec, diag=0):
    """The lower triangle that has these elements, row by row."""
    width = 1 + 2 * diag
    n = (-width + (width**2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(n) - n > torch.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower triangular part of "
            "a square D x D matrix."
        )
    n = round(n)
    mat = vec.new_zeros(vec.shape[:-1] + (n, n))
    mat[..., _lower_mask(n, diag, vec.device)] = vec
    return mat
