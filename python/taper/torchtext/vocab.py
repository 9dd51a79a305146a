"""torchtext.vocab: tokens and their numbers."""

from collections import Counter, OrderedDict

from taper.nn import Module


class Vocab(Module):
    """vocab(["a", "b"]) gives numbers; an unknown token has the default index, or is an error where there is none."""

    def __init__(self, vocab):
        super().__init__()
        self._tokens = list(vocab._tokens if isinstance(vocab, Vocab) else vocab)
        self._numbers = {token: i for i, token in enumerate(self._tokens)}
        if len(self._numbers) != len(self._tokens):
            raise RuntimeError(
                f"Duplicate token found in tokens list: {next(t for t, n in Counter(self._tokens).items() if n > 1)}"
            )
        self._default = None

    @property
    def vocab(self):
        return self

    def forward(self, tokens):
        return self.lookup_indices(tokens)

    def __len__(self):
        return len(self._tokens)

    def __contains__(self, token):
        return token in self._numbers

    def __getitem__(self, token):
        index = self._numbers.get(token, self._default)
        if index is None:
            raise RuntimeError(f"Token {token} not found and default index is not set")
        return index

    def set_default_index(self, index):
        self._default = index

    def get_default_index(self):
        return self._default

    def insert_token(self, token, index):
        if not 0 <= index <= len(self._tokens):
            raise RuntimeError(f"Specified index {index} is out of bounds for vocab of size {len(self._tokens)}")
        if token in self._numbers:
            raise RuntimeError(f"Token {token} already exists in the Vocab with index: {self._numbers[token]}")
        self._tokens.insert(index, token)
        self._numbers = {t: i for i, t in enumerate(self._tokens)}

    def append_token(self, token):
        self.insert_token(token, len(self._tokens))

    def lookup_token(self, index):
        if not 0 <= index < len(self._tokens):
            raise RuntimeError(f"Specified index {index} is out of bounds for vocab of size {len(self._tokens)}")
        return self._tokens[index]

    def lookup_tokens(self, indices):
        return [self.lookup_token(i) for i in indices]

    def lookup_indices(self, tokens):
        return [self[token] for token in tokens]

    def get_stoi(self):
        return dict(self._numbers)

    def get_itos(self):
        return list(self._tokens)


def vocab(ordered_dict, min_freq=1, specials=None, special_first=True):
    """A vocabulary of the tokens that occur at least min_freq times, in the dict's order."""
    specials = list(specials or [])
    tokens = [token for token, count in ordered_dict.items() if count >= min_freq and token not in specials]
    return Vocab(specials + tokens if special_first else tokens + specials)


def build_vocab_from_iterator(iterator, min_freq=1, specials=None, special_first=True, max_tokens=None):
    """A vocabulary of lists of tokens, the most frequent first."""
    counter = Counter()
    for tokens in iterator:
        counter.update(tokens)
    specials = specials or []
    ordered = sorted(counter.items(), key=lambda item: (-item[1], item[0]))
    if max_tokens is not None:
        if len(specials) >= max_tokens:
            raise AssertionError("len(specials) >= max_tokens, so the vocab will be entirely special tokens.")
        ordered = ordered[: max_tokens - len(specials)]
    return vocab(OrderedDict(ordered), min_freq=min_freq, specials=specials, special_first=special_first)
