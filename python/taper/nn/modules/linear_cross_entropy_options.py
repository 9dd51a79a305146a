"""How linear_cross_entropy may cut its batch. Taper makes the scores of the whole batch, so that the options change no
value; they are checked as PyTorch checks them."""

from dataclasses import dataclass

from taper._C import dtype as _dtype

__all__ = ["LinearCrossEntropyOptions"]

_POLICIES = ("auto", "accurate", "compact")


def _is_chunking_method(text):
    name, _, factor = text.partition(":")
    return text == "auto" or name == "aspect_ratio" and (":" not in text or factor.isdigit() and int(factor) > 0)


@dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """Options of the computation in chunks."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: _dtype | None = None

    def __post_init__(self):
        from taper import bfloat16, float16, float32, float64

        if self.acc_policy not in _POLICIES:
            raise ValueError(
                f"invalid acc_policy: {self.acc_policy!r}; expected one of {', '.join(map(repr, _POLICIES))}"
            )
        if self.chunking_method is not None and not _is_chunking_method(self.chunking_method):
            raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype not in (None, float16, bfloat16, float32, float64):
            raise ValueError(
                "acc_dtype must be one of {None, torch.float16, torch.bfloat16, torch.float32, torch.float64}, "
                f"got {self.acc_dtype!r}. Pass acc_dtype=None to let the op pick automatically."
            )
