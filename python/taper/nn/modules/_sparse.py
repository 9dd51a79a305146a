"""Layers that look rows up."""

from operator import attrgetter

from taper._C import _functions as _op
from taper.nn import functional as F
from taper.nn import init
from taper.nn.modules.module import Module
from taper.nn.parameter import Parameter


_row_settings = attrgetter("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")
_bag_settings = attrgetter(
    "max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse", "include_last_offset", "padding_idx"
)


def _rows(count, width, given, freeze, device, dtype):
    if given is None:
        return Parameter(_op["empty"](count, width, device=device, dtype=dtype), requires_grad=not freeze)
    if list(given.shape) != [count, width]:
        raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
    return Parameter(given, requires_grad=not freeze)


def _padding(padding_idx, count, word):
    if padding_idx is None:
        return None
    if padding_idx >= count or padding_idx < -count:
        raise AssertionError(f"{word} must be within num_embeddings")
    return padding_idx + count if padding_idx < 0 else padding_idx


class _Table(Module):
    """What Embedding and EmbeddingBag have: rows, one of which may be padding, and the ways to look them up."""

    def _start(self, given, freeze, device, dtype, padding_idx, **settings):
        count, width = settings["num_embeddings"], settings["embedding_dim"]
        self.__dict__.update(
            settings,
            padding_idx=_padding(
                padding_idx, count, "padding_idx" if isinstance(self, EmbeddingBag) else "Padding_idx"
            ),
        )
        self.weight = _rows(count, width, given, freeze, device, dtype)
        if given is None:
            self.reset_parameters()

    def reset_parameters(self):
        init.normal_(tensor=self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self):
        if self.padding_idx is None:
            return
        init.zeros_(self.weight[self.padding_idx].detach())

    def _text(self, *shown):
        """The size, and what is not as it is by default."""
        usual = {
            "padding_idx": None,
            "max_norm": None,
            "norm_type": 2,
            "scale_grad_by_freq": False,
            "sparse": False,
            "mode": "",
        }
        said = [f"{name}={getattr(self, name)!r}" for name in shown if getattr(self, name) != usual[name]]
        return ", ".join([str(self.num_embeddings), str(self.embedding_dim), *said])


class Embedding(_Table):
    """A table of vectors, looked up by number."""

    __constants__ = [
        "num_embeddings",
        "embedding_dim",
        "padding_idx",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "sparse",
    ]

    def __init__(
        self,
        num_embeddings,
        embedding_dim,
        padding_idx=None,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        sparse=False,
        _weight=None,
        _freeze=False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self._start(
            _weight,
            _freeze,
            device,
            dtype,
            padding_idx,
            num_embeddings=num_embeddings,
            embedding_dim=embedding_dim,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )

    def forward(self, input):
        if self.sparse:
            from taper.sparse import _rows

            return _rows.embedding(input, self.weight, *_row_settings(self)[:-1])
        return F.embedding(input, self.weight, *_row_settings(self))

    def extra_repr(self):
        return self._text("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")

    @classmethod
    def from_pretrained(
        cls,
        embeddings,
        freeze=True,
        padding_idx=None,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        sparse=False,
    ):
        """An embedding over given vectors."""
        rows, *width = embeddings.shape or (0,)
        if len(width) != 1:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        return cls(
            rows,
            *width,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )


class EmbeddingBag(_Table):
    """Sums, means or maxima of looked-up vectors."""

    __constants__ = [
        "num_embeddings",
        "embedding_dim",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "mode",
        "sparse",
        "include_last_offset",
        "padding_idx",
    ]

    def __init__(
        self,
        num_embeddings,
        embedding_dim,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        mode="mean",
        sparse=False,
        _weight=None,
        include_last_offset=False,
        padding_idx=None,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self._start(
            _weight,
            False,
            device,
            dtype,
            padding_idx,
            num_embeddings=num_embeddings,
            embedding_dim=embedding_dim,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
        )

    def forward(self, input, offsets=None, per_sample_weights=None):
        *settings, last, padding_idx = _bag_settings(self)
        if self.sparse:
            from taper.sparse import _rows

            return _rows.embedding_bag(
                input, self.weight, offsets, *settings[:-1], per_sample_weights, last, padding_idx
            )
        return F.embedding_bag(input, self.weight, offsets, *settings, per_sample_weights, last, padding_idx)

    def extra_repr(self):
        return self._text("max_norm", "norm_type", "scale_grad_by_freq", "mode", "padding_idx")

    @classmethod
    def from_pretrained(
        cls,
        embeddings,
        freeze=True,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        mode="mean",
        sparse=False,
        include_last_offset=False,
        padding_idx=None,
    ):
        """A bag over given vectors."""
        bag = cls(
            *embeddings.shape,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        bag.weight.requires_grad = not freeze
        return bag
