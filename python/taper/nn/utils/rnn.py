"""torch.nn.utils.rnn: sequences of different lengths, packed step by step or padded."""

from collections import namedtuple
from collections.abc import Iterable

from taper import _C
from taper._C import Tensor
from taper._C import _functions as _op


class PackedSequence(namedtuple("PackedSequence", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])):
    """The steps of sorted sequences one after the other: data (all steps, ...), batch_sizes how many sequences each
    step has."""

    __slots__ = ()

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is not None and batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually, "
                f"got {batch_sizes.device}"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        data = self.data.to(*args, **kwargs)
        indices = (i if i is None else i.to(data.device) for i in (self.sorted_indices, self.unsorted_indices))
        return self if data is self.data else type(self)(data, self.batch_sizes, *indices)

    def pin_memory(self):
        return type(self)(self.data.pin_memory(), *self[1:])

    def cpu(self):
        return self.to("cpu")

    def cuda(self, *args, **kwargs):
        return self.to("cuda", *args, **kwargs)

    def double(self):
        return self.to(_C.float64)

    def float(self):
        return self.to(_C.float32)

    def half(self):
        return self.to(_C.float16)

    def long(self):
        return self.to(_C.int64)

    def int(self):
        return self.to(_C.int32)

    def short(self):
        return self.to(_C.int16)

    def char(self):
        return self.to(_C.int8)

    def byte(self):
        return self.to(_C.uint8)

    @property
    def is_cuda(self):
        return self.data.is_cuda

    def is_pinned(self):
        return self.data.is_pinned()


def invert_permutation(permutation):
    """Where each place went."""
    if permutation is None:
        return None
    return _op["empty_like"](permutation).scatter_(
        0, permutation, _op["arange"](permutation.numel(), device=permutation.device)
    )


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Packs padded sequences (steps, batch, ...) of the given lengths."""
    if not input.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    lengths = (
        lengths.detach().cpu() if isinstance(lengths, Tensor) else _C.tensor(lengths, dtype=_C.int64, device="cpu")
    )
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = _op["sort"](lengths, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    steps = lengths.tolist()
    if batch_first:
        input = input.transpose(0, 1)
    if len(steps) != input.shape[1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(steps)} (batch_size={input.shape[1]})"
        )
    if not steps or steps[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if any(a < b for a, b in zip(steps, steps[1:])):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you "
            "do not need ONNX exportability."
        )
    if steps[0] > input.shape[0]:
        raise RuntimeError(
            f"Expected `lengths` to be at most the input's {input.shape[0]} steps, "
            f"but got a sequence of length {steps[0]}"
        )
    counts = [sum(n > t for n in steps) for t in range(steps[0])]
    data = _op["cat"]([input[t, :count] for t, count in enumerate(counts)])
    return PackedSequence(data, _C.tensor(counts, dtype=_C.int64, device="cpu"), sorted_indices)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """Padded sequences and their lengths from a packed one."""
    counts = sequence.batch_sizes.tolist()
    longest = len(counts)
    if not counts:
        raise RuntimeError("Expected batch_sizes to have at least one element, but got an empty tensor")
    if total_length is not None and total_length < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {longest}"
        )
    batch, rest = counts[0], tuple(sequence.data.shape[1:])
    rows = []
    for t, part in enumerate(sequence.data.split(counts)):
        missing = batch - counts[t]
        rows.append(
            part
            if not missing
            else _op["cat"]([part, _op["full"]((missing,) + rest, padding_value, dtype=part.dtype, device=part.device)])
        )
    padded = _op["stack"](rows, 1 if batch_first else 0)
    if total_length is not None and total_length > longest:
        steps = total_length - longest
        size = ((batch, steps) if batch_first else (steps, batch)) + rest
        filler = _op["full"](size, padding_value, dtype=padded.dtype, device=padded.device)
        padded = _op["cat"]([padded, filler], 1 if batch_first else 0)
    lengths = _C.tensor([sum(count > b for count in counts) for b in range(batch)], dtype=_C.int64, device="cpu")
    if sequence.unsorted_indices is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, sequence.unsorted_indices), lengths[
        sequence.unsorted_indices.cpu()
    ]


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """One tensor from tensors of different lengths."""
    if not isinstance(sequences, (Tensor, Iterable)):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    if padding_side not in ("right", "left"):
        raise ValueError(f"padding_side must be 'left' or 'right', got {padding_side!r}")
    sequences = list(sequences.unbind(0)) if isinstance(sequences, Tensor) else list(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    longest = max(s.shape[0] for s in sequences)
    padded = []
    for s in sequences:
        filler = _op["full"](
            (longest - s.shape[0],) + tuple(s.shape[1:]), padding_value, dtype=s.dtype, device=s.device
        )
        padded.append(_op["cat"]([s, filler] if padding_side == "right" else [filler, s]))
    return _op["stack"](padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [sequence[: int(n)] for sequence, n in zip(padded_sequences, lengths)]


def pack_sequence(sequences, enforce_sorted=True):
    return pack_padded_sequence(pad_sequence(sequences), [len(s) for s in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)
