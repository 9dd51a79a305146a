"""torchtext.data.utils: tokenisers and n-grams."""

import re
from functools import partial

_ENGLISH = [
    (re.compile(pattern), text)
    for pattern, text in (
        (r"\'", " '  "),
        (r"\"", ""),
        (r"\.", " . "),
        (r"<br \/>", " "),
        (r",", " , "),
        (r"\(", " ( "),
        (r"\)", " ) "),
        (r"\!", " ! "),
        (r"\?", " ? "),
        (r"\;", " "),
        (r"\:", " "),
        (r"\s+", " "),
    )
]


def _basic_english_normalize(line):
    """Lower case, punctuation apart."""
    line = line.lower()
    for pattern, text in _ENGLISH:
        line = pattern.sub(text, line)
    return line.split()


def _split_tokenizer(line):
    return line.split()


def _spacy(line, spacy):
    return [token.text for token in spacy.tokenizer(line)]


def get_tokenizer(tokenizer, language="en"):
    """A function from text to tokens: basic_english, spacy, or the callable itself; None splits at spaces."""
    if tokenizer is None:
        return _split_tokenizer
    if callable(tokenizer):
        return tokenizer
    if tokenizer == "basic_english":
        if language != "en":
            raise ValueError("Basic normalization is only available for Enlish(en)")
        return _basic_english_normalize
    if tokenizer == "spacy":
        import spacy

        return partial(_spacy, spacy=spacy.load(language))
    raise ValueError(
        f"Requested tokenizer {tokenizer}, valid choices are a callable that takes a single string as input, "
        '"basic_english" and "spacy".'
    )


def ngrams_iterator(token_list, ngrams):
    """The tokens, then those of each two neighbours, and so on up to ngrams."""
    yield from token_list
    for n in range(2, ngrams + 1):
        for words in zip(*(token_list[i:] for i in range(n))):
            yield " ".join(words)
