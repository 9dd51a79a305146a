"""torchtext.data."""

from taper.torchtext.data.functional import numericalize_tokens_from_iterator, simple_space_split, to_map_style_dataset  # noqa: F401
from taper.torchtext.data.utils import get_tokenizer, ngrams_iterator  # noqa: F401
