"""Layers that look rows up: methods that the stanzas of tables/layers/sparse.layer cannot say. The classes themselves
are written from the stanzas."""

from operator import attrgetter

from taper._C import _functions as _op
from taper.nn import functional as F
from taper.nn import init
from taper.nn.parameter import Parameter

_row_settings = attrgetter("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")
_bag_settings = attrgetter(
    "max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse", "include_last_offset", "padding_idx"
)


class TableMethods:
    """What Embedding and EmbeddingBag do alike: rows that are given or new, one of which may be padding."""

    __slots__ = ()

    def _make_rows(self, given, freeze, device, dtype):
        count, width = self.num_embeddings, self.embedding_dim
        if given is None:
            self.weight = Parameter(_op["empty"](count, width, device=device, dtype=dtype), requires_grad=not freeze)
            self.reset_parameters()
            return
        if list(given.shape) != [count, width]:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = Parameter(given, requires_grad=not freeze)

    def _fill_padding_idx_with_zero(self):
        if self.padding_idx is not None:
            init.zeros_(self.weight[self.padding_idx].detach())


class EmbeddingMethods(TableMethods):
    """A table of vectors, looked up by number."""

    __slots__ = ()

    def _look_up(self, input):
        return F.embedding(input, self.weight, *_row_settings(self))

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


class EmbeddingBagMethods(TableMethods):
    """Sums, means or maxima of looked-up vectors."""

    __slots__ = ()

    def _look_up(self, input, offsets, per_sample_weights):
        *settings, last, padding_idx = _bag_settings(self)
        return F.embedding_bag(input, self.weight, offsets, *settings, per_sample_weights, last, padding_idx)

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
