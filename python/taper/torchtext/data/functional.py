"""torchtext.data.functional."""

from taper.utils.data import Dataset


class _MapStyle(Dataset):
    def __init__(self, rows):
        self._rows = list(rows)

    def __len__(self):
        return len(self._rows)

    def __getitem__(self, index):
        return self._rows[index]


def to_map_style_dataset(iter_data):
    """A dataset with a length and numbered items, from one that is gone through once."""
    return _MapStyle(iter_data)


def simple_space_split(iterator):
    for line in iterator:
        yield line.split()


def numericalize_tokens_from_iterator(vocab, iterator, removed_tokens=None):
    for tokens in iterator:
        yield iter(vocab[t] for t in tokens if removed_tokens is None or t not in removed_tokens)
