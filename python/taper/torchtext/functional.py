"""torchtext.functional: lists of tokens to tensors."""

import taper as torch


def _batch(input):
    return len(input) > 0 and isinstance(input[0], (list, tuple))


def to_tensor(input, padding_value=None, dtype=torch.long):
    """A list of numbers as a tensor; a list of lists padded to the longest."""
    if padding_value is None or not _batch(input):
        return torch.tensor(input, dtype=dtype)
    longest = max(map(len, input))
    return torch.tensor([list(row) + [padding_value] * (longest - len(row)) for row in input], dtype=dtype)


def truncate(input, max_seq_len):
    return [row[:max_seq_len] for row in input] if _batch(input) else input[:max_seq_len]


def add_token(input, token_id, begin=True):
    if _batch(input):
        return [add_token(row, token_id, begin) for row in input]
    return [token_id] + list(input) if begin else list(input) + [token_id]
