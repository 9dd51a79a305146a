"""torchtext.transforms: the steps from tokens to tensors as modules."""

import taper as torch
from taper import nn
from taper.torchtext import functional as F


class VocabTransform(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.vocab = vocab

    def forward(self, input):
        return (
            [self.vocab.lookup_indices(row) for row in input] if F._batch(input) else self.vocab.lookup_indices(input)
        )


class ToTensor(nn.Module):
    def __init__(self, padding_value=None, dtype=torch.long):
        super().__init__()
        self.padding_value, self.dtype = padding_value, dtype

    def forward(self, input):
        return F.to_tensor(input, padding_value=self.padding_value, dtype=self.dtype)


class Truncate(nn.Module):
    def __init__(self, max_seq_len):
        super().__init__()
        self.max_seq_len = max_seq_len

    def forward(self, x):
        return F.truncate(x, self.max_seq_len)


class AddToken(nn.Module):
    def __init__(self, token, begin=True):
        super().__init__()
        self.token, self.begin = token, begin

    def forward(self, input):
        return F.add_token(input, self.token, self.begin)


class PadTransform(nn.Module):
    """The last dim filled up to a length."""

    def __init__(self, max_length, pad_value):
        super().__init__()
        self.max_length, self.pad_value = max_length, float(pad_value)

    def forward(self, x):
        missing = self.max_length - x.size(-1)
        return nn.functional.pad(x, (0, missing), value=self.pad_value) if missing > 0 else x


class Sequential(nn.Sequential):
    """One after the other."""
