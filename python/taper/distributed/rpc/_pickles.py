"""What travels in a call: pickles in which tensors with a history become leaves on the other side, and references
count.

Inside an autograd context the sender keeps the tensors that it sent, the receiver the leaves that it made of them, both
under the message's number, so that gradients find their way back."""

import io
import itertools
import pickle
import threading

import taper

_numbers = itertools.count()
_loading = threading.local()
_dumping = threading.local()


class _Pickler(pickle.Pickler):
    def __init__(self, file, tracked):
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.sent, self.tracked = [], tracked

    def reducer_override(self, value):
        if isinstance(value, taper.futures.Future):
            raise RuntimeError("Can not pickle torch.futures.Future")
        if not isinstance(value, taper.Tensor) or not value.requires_grad or (value.is_leaf and not self.tracked):
            return NotImplemented
        if not self.tracked:
            return _leaf, (value.detach(),)
        self.sent.append(value)
        return _received, (value.detach(), len(self.sent) - 1)


def _leaf(data):
    return data.requires_grad_()


def _received(data, index):
    leaf = data.requires_grad_()
    _loading.leaves[index] = leaf
    return leaf


def is_travelling():
    """Is a call being pickled now?"""
    return getattr(_dumping, "on", False)


def dumps(value, peer):
    """(data, context, message) for a worker."""
    from taper.distributed.autograd import _now

    context = _now()
    file = io.BytesIO()
    pickler = _Pickler(file, context is not None)
    before, _dumping.on = is_travelling(), True
    try:
        pickler.dump(value)
    finally:
        _dumping.on = before
    if context is None:
        return file.getbuffer(), -1, -1
    message = next(_numbers)
    context.sent(peer, message, pickler.sent)
    return file.getbuffer(), context.id, message


def loads(data, peer, context, message):
    from taper.distributed.autograd import _entered

    before, _loading.leaves = getattr(_loading, "leaves", None), {}
    try:
        value = pickle.loads(data)
        if context >= 0:
            _entered(context).received(peer, message, _loading.leaves)
        return value
    finally:
        _loading.leaves = before
