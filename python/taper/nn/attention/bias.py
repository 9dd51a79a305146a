"""torch.nn.attention.bias: causal masks for queries and keys of different numbers, as tensors that know which they
are."""

from enum import IntEnum
from warnings import warn

import taper

__all__ = ["causal_upper_left", "causal_lower_right", "CausalVariant", "CausalBias"]


class CausalVariant(IntEnum):
    """Where the diagonal of a mask that is not square begins or ends."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(taper.Tensor):
    """The mask (seq_len_q, seq_len_kv), true where a query may look; give it to scaled_dot_product_attention as
    attn_mask."""

    __torch_function__ = taper.overrides._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, variant, seq_len_q, seq_len_kv):
        if variant == CausalVariant.LOWER_RIGHT and seq_len_q > seq_len_kv:
            warn("Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!", stacklevel=2)
        shift = seq_len_kv - seq_len_q if variant == CausalVariant.LOWER_RIGHT else 0
        made = taper.ones(seq_len_q, seq_len_kv, dtype=taper.bool).tril(shift).as_subclass(cls)
        made.variant, made.seq_len_q, made.seq_len_kv = variant, seq_len_q, seq_len_kv
        return made

    def __init__(self, variant, seq_len_q, seq_len_kv):
        pass

    def __repr__(self):
        return repr(self.as_subclass(taper.Tensor))

    __str__ = __repr__


def causal_upper_left(*size):
    """The mask whose diagonal begins in the upper left corner."""
    assert len(size) == 2, "causal_upper_left only supports 2D tensors"
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size):
    """The mask whose diagonal ends in the lower right corner."""
    assert len(size) == 2, "causal_lower_right only supports 2D tensors"
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
