"""torch.nested: batches of tensors of different sizes, without padding. Those of the strided layout are in _strided.py;
here are jagged ones, whose parts differ in their first dim alone.

A Nested is a tensor whose memory and history are those of all its parts one after another, [sum of lengths, ...];
beside it stands where each part begins. What works element by element or along the last dim works on that; other
operators raise, as many do in PyTorch."""

import taper
from taper import _C
from taper._C import Tensor
from taper.nested._strided import Strided, of_parts  # noqa: F401
from taper.overrides import DisableTorchFunctionSubclass

_AS_VALUES = frozenset(
    (
        "__get__ __set__ numel is_floating_point is_complex element_size register_hook retain_grad backward __hash__ "
        "get_device"
    ).split()
)
# Element by element, and no operators of the table: Python's own methods, and functions over several operators.
_BY_ELEMENT = frozenset(
    """dropout rrelu mvlgamma relu6 relu6_ to cpu cuda requires_grad_ __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__
    __truediv__ __rtruediv__ __pow__ __neg__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __itruediv__ __imul__ __iadd__
    __isub__ empty_like""".split()
)
_BY_ROW = frozenset("linear layer_norm rms_norm embedding matmul __matmul__".split())  # along the last dim
_LAST_DIM = frozenset("softmax log_softmax sum mean amax amin argmax argmin logsumexp std var".split())


def _plain(tensor):
    with DisableTorchFunctionSubclass():
        return tensor.as_subclass(Tensor)


def _made(values, offsets, layout, lengths=None, ragged=1):
    with DisableTorchFunctionSubclass():
        made = values.as_subclass(Nested)
    made._begins, made._layout, made._lengths, made._ragged_idx = offsets, layout, lengths, ragged
    return made


class Ragged:
    """The size of the dim in which parts differ: the same for tensors whose parts begin at the same places."""

    def __init__(self, offsets):
        self._offsets = offsets

    def __eq__(self, other):
        return isinstance(other, Ragged) and (
            self._offsets is other._offsets or taper.equal(self._offsets, other._offsets)
        )

    def __hash__(self):
        return hash(tuple(self._offsets.tolist()))

    def __repr__(self):
        return "j1"


class Nested(Tensor):
    """See the file's head. Made by nested_tensor, as_nested_tensor and nested_tensor_from_jagged."""

    is_nested = True

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})

    layout = property(lambda self: self._layout)
    ndim = property(lambda self: self.dim())

    def values(self):
        return _plain(self)

    def offsets(self):
        return self._begins

    def lengths(self):
        return self._lengths

    def dim(self):
        return _plain(self).dim() + 1

    def size(self, dim=None):
        whole = [len(self), *_plain(self).shape]
        whole[self._ragged_idx] = Ragged(self._begins)
        return tuple(whole) if dim is None else whole[dim]

    _offsets = property(lambda self: self._begins)
    _max_seqlen_tensor = _min_seqlen_tensor = None

    def _with(self, values):
        """Other values of the same parts."""
        return _made(values, self._begins, self._layout, self._lengths, self._ragged_idx)

    def is_contiguous(self, memory_format=taper.contiguous_format):
        return self._lengths is None and self._ragged_idx == 1

    def contiguous(self, memory_format=taper.contiguous_format):
        if self.is_contiguous():
            return self
        if self._ragged_idx != 1:
            return self._with(_plain(self).contiguous())
        return as_nested_tensor(self.unbind(), layout=self._layout)

    def transpose(self, dim0, dim1):
        dim0, dim1 = dim0 % self.dim(), dim1 % self.dim()
        if 0 in (dim0, dim1):
            raise RuntimeError("Transpose is not supported on the batch dimension for jagged NT")
        ragged = {dim0: dim1, dim1: dim0}.get(self._ragged_idx, self._ragged_idx)
        return _made(_plain(self).transpose(dim0 - 1, dim1 - 1), self._begins, self._layout, self._lengths, ragged)

    @property
    def shape(self):
        return self.size()

    def __len__(self):
        return self._begins.shape[0] - 1

    def unbind(self, dim=0):
        """The parts."""
        if dim:
            raise RuntimeError(f"unbind(): only supported for NestedTensor on dim=0, got {dim}")
        values, along = _plain(self), self._ragged_idx - 1
        if self._lengths is None:
            return values.split(self._begins.diff().tolist(), along)
        return tuple(values.narrow(along, first, n) for first, n in zip(self._begins.tolist(), self._lengths.tolist()))

    def __iter__(self):
        return iter(self.unbind())

    def __getitem__(self, key):
        return self.unbind()[key]

    def to_padded_tensor(self, padding, output_size=None):
        """The parts as rows of one tensor, with padding behind the short ones."""
        if not self.is_contiguous():
            return of_parts(self.unbind()).to_padded_tensor(padding, output_size)
        lengths = self._begins.diff()
        longest = int(lengths.max()) if output_size is None else output_size[1]
        row = taper.arange(len(self)).repeat_interleave(lengths)
        within = taper.arange(_plain(self).shape[0]) - self._begins[row]
        whole = _plain(self).new_full((len(self), longest, *_plain(self).shape[1:]), padding)
        return whole.index_put((row, within), _plain(self))

    def detach(self):
        return self._with(_plain(self).detach())

    data = property(detach)

    @property
    def grad(self):
        raw = Tensor.grad.__get__(self)
        return None if raw is None else self._grad_in_form(raw)

    def _grad_in_form(self, raw):
        """The tape's gradient, of the values, as one of the parts."""
        return self._with(_plain(raw))

    @grad.setter
    def grad(self, value):
        Tensor.grad.__set__(self, _plain(value) if isinstance(value, Nested) else value)

    def __repr__(self, *, tensor_contents=None):
        if self._layout is jagged:
            sizes = ", ".join(map(str, self.size()))
            return f"NestedTensor(size=({sizes}), offsets={self._begins!r}, contiguous={self.is_contiguous()})"
        parts = ",\n".join("  " + repr(part).replace("\n", "\n  ") for part in self.unbind())
        return f"nested_tensor([\n{parts}\n])"

    __str__ = __repr__


class _Layout:
    """torch.jagged."""

    def __repr__(self):
        return "torch.jagged"


jagged = _Layout()


def _run(func, args, kwargs):
    name = func.__name__
    given = [part for a in (*args, *kwargs.values()) for part in (a if isinstance(a, (list, tuple)) else [a])]
    first = next(a for a in given if isinstance(a, Nested))
    if name in _AS_VALUES:
        with DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    ragged = first._ragged_idx
    if name in ("sum", "mean") and dim in (ragged, (ragged,), [ragged]):
        return _by_part(name, first)
    if name in _EXTREMES and dim in (1, (1,), [1]) and ragged == 1:
        return _extreme(name, first, bool(kwargs.get("keepdim", False)))
    if name in ("cat", "concat", "stack"):
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    if name in ("_is_any_true", "_is_all_true", "any", "all") and dim is None:
        return func(_plain(first))
    if name in ("sum", "mean") and dim is None:
        return func(_plain(first if first._lengths is None else first.contiguous()), **kwargs)
    if name in Nested.__dict__ and callable(Nested.__dict__[name]):
        return Nested.__dict__[name](*args, **kwargs)
    if name in ("contiguous", "clone") or not _by_element(name):
        first = first.contiguous() if first._ragged_idx == 1 else first
        args = tuple(
            a.contiguous() if isinstance(a, Nested) and a._ragged_idx == 1 and not a.is_contiguous() else a
            for a in args
        )
    along_last = name in _LAST_DIM and isinstance(dim, int) and dim % first.dim() == first.dim() - 1
    if not _by_element(name) and (name not in _BY_ROW and not along_last or first._ragged_idx != 1):
        raise NotImplementedError(
            f"{name} is not there for nested tensors; Tensor.to_padded_tensor() and unbind() give ordinary ones"
        )
    if along_last:  # the values have one dim less
        args, kwargs = (args[0], -1, *args[2:]), {k: a for k, a in kwargs.items() if k != "dim"}
    if _by_element(name) and any(_goes_by_parts(a, first) for a in args):
        return _beside_dense(func, first, args, kwargs)
    made = func(*(_inside(a, first) for a in args), **{k: _inside(a, first) for k, a in kwargs.items()})
    if name.endswith("_") and not name.startswith("__") or name.startswith("__i"):
        return first
    return first._with(made)


def _goes_by_parts(a, first):
    """A dense tensor with a batch dim, or a nested one of the same lengths whose values lie otherwise."""
    if not isinstance(a, Tensor) or a.dim() != first.dim():
        return False
    if not isinstance(a, Nested):
        return not a.is_nested
    along = first._ragged_idx - 1
    otherwise = (
        (a._lengths is None) != (first._lengths is None)
        or a._begins is not first._begins
        and not taper.equal(a._begins, first._begins)
    )
    return (
        otherwise
        and a._ragged_idx == first._ragged_idx
        and [p.shape[along] for p in a.unbind()] == [p.shape[along] for p in first.unbind()]
    )


def _beside_dense(func, first, args, kwargs):
    """An operator by element with a dense tensor [B or 1, ...]: row i of it goes with part i."""

    def rows(a):
        if not isinstance(a, Tensor) or not a.is_nested and a.dim() != first.dim():
            return [a] * len(first)
        return a.unbind() if a.is_nested or a.shape[0] == len(first) else [a[0]] * len(first)

    return as_nested_tensor([func(*given, **kwargs) for given in zip(*map(rows, args))], layout=jagged)


def _by_element(name):
    """Does it work element by element, or give new elements? The stanzas say so."""
    base = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    if name in _BY_ELEMENT or not _C._operator_kind(base):
        return name in _BY_ELEMENT
    facts = _C._operator_facts(base)
    return facts["elementwise"] in ("each", "same") or facts["shape_from"] is not None


def _inside(argument, first):
    """An argument as it stands beside the values of all parts."""
    if not isinstance(argument, Nested):
        return argument
    same = argument._ragged_idx == first._ragged_idx and (argument._lengths is None) == (first._lengths is None)
    if (
        not same
        or not taper.equal(argument._begins, first._begins)
        or first._lengths is not None
        and not taper.equal(argument._lengths, first._lengths)
    ):
        raise RuntimeError("nested tensors of different lengths cannot be combined")
    return _plain(argument)


_EXTREMES = frozenset("max min amax amin argmax argmin".split())


def _extreme(name, nested, keepdim):
    """The largest or smallest of each part, along the dim in which they differ."""
    if name in ("max", "min"):
        found = [getattr(part, name)(0, keepdim=keepdim) for part in nested.unbind()]
        return type(found[0])((taper.stack([f.values for f in found]), taper.stack([f.indices for f in found])))
    return taper.stack([getattr(part, name)(0, keepdim=keepdim) for part in nested.unbind()])


def _by_part(name, nested):
    if not nested.is_contiguous():
        return taper.stack([getattr(part, name)(nested._ragged_idx - 1) for part in nested.unbind()])
    lengths = nested._begins.diff()
    values = _plain(nested)
    total = values.new_zeros(len(nested), *values.shape[1:]).index_add(
        0, taper.arange(len(nested)).repeat_interleave(lengths), values
    )
    return total if name == "sum" else total / lengths.view(-1, *[1] * (total.dim() - 1))


# ---- Makers ----
def as_nested_tensor(ts, dtype=None, device=None, layout=None):
    """A nested tensor of these, with their history."""
    if isinstance(ts, Tensor) and ts.is_nested:
        return ts
    if not isinstance(ts, (list, tuple, Tensor)):
        raise TypeError(
            f"as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors, got {type(ts)}"
        )
    parts = [taper.as_tensor(t, dtype=dtype, device=device) for t in ts]
    if layout is not jagged:
        made = of_parts(parts)
        return made if parts or dtype is None else made.to(dtype)
    if not parts:
        raise RuntimeError("Cannot construct a nested tensor from an empty list of tensors")
    ragged = [
        d
        for d in range(parts[0].dim())
        if any(t.dim() != parts[0].dim() or t.shape[d] != parts[0].shape[d] for t in parts)
    ] or [0]
    if len(ragged) > 1 or not parts[0].dim() or any(t.dim() != parts[0].dim() for t in parts):
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged "
            "layout only allows for a single ragged dimension. For example: (B, *, D_0, D_1, ..., D_N), with ragged "
            "* dim."
        )
    offsets = taper.tensor([0, *(t.shape[ragged[0]] for t in parts)]).cumsum(0)
    return _made(taper.cat(parts, ragged[0]), offsets, jagged, None, ragged[0] + 1)


def nested_tensor(tensor_list, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A nested tensor with copies of these, a leaf."""
    if not isinstance(tensor_list, (list, tuple)):
        raise TypeError(f"nested_tensor(): Expected first argument to be a list of tensors, got {type(tensor_list)}")
    with taper.no_grad():
        made = as_nested_tensor(
            [t.detach() if isinstance(t, Tensor) else t for t in tensor_list], dtype, device, layout
        )
        made = made.clone() if len(tensor_list) == 1 else made
    return made.requires_grad_() if requires_grad else made


def narrow(tensor, dim, start, length, layout=None):
    """The rows from start[i] on, length[i] of them, of each tensor[i]; both may be one number for all."""
    if dim != 1:
        raise RuntimeError(f"Nested tensor narrow is only supported for dim=1, got {dim}")
    count = tensor.shape[0]
    starts, lengths = ([int(n) for n in x.tolist()] if isinstance(x, Tensor) else [x] * count for x in (start, length))
    return as_nested_tensor(
        [row[first : first + n] for row, first, n in zip(tensor.unbind(0), starts, lengths)], layout=layout
    )


def nested_tensor_from_jagged(values, offsets=None, lengths=None, jagged_dim=None, min_seqlen=None, max_seqlen=None):
    """A nested tensor of parts that lie one after another already; with lengths and offsets, they may leave gaps."""
    if offsets is None and lengths is None:
        raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
    if offsets is None:
        offsets, lengths = taper.cat([lengths.new_zeros(1), lengths.cumsum(0)]), None
    return _made(values.view_as(values), offsets, jagged, lengths, 1 if jagged_dim is None else jagged_dim)


def masked_select(tensor, mask):
    """The elements where the mask is true, as a jagged tensor with a part for each row of the last dim."""
    mask = mask.expand(tensor.shape) if mask.dim() <= tensor.dim() else mask
    tensor = tensor.expand(mask.shape)
    counts = mask.sum(-1).flatten()
    return _made(tensor.masked_select(mask), taper.cat([counts.new_zeros(1), counts.cumsum(0)]), jagged)


def to_padded_tensor(input, padding, output_size=None, out=None):
    return input.to_padded_tensor(padding, output_size)
