"""torch.nested: batches of tensors of different lengths, without padding.

A Nested is a tensor whose memory and history are those of all its parts one after another, [sum of lengths, ...]; beside it stands where each part
begins. What works element by element or along the last dim works on that; other operators raise, as many do in PyTorch."""
import taper
from taper import _C
from taper._C import Tensor
from taper.overrides import DisableTorchFunctionSubclass

_AS_VALUES = frozenset("__get__ __set__ numel is_floating_point is_complex element_size register_hook retain_grad backward __hash__ get_device".split())
_BY_ELEMENT = frozenset("""add sub mul div neg abs exp log sqrt sin cos tanh sigmoid relu relu_ gelu silu leaky_relu elu dropout clamp pow square to float double half bfloat16 long int
    bool cpu cuda clone contiguous type_as requires_grad_ __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __pow__ __neg__ eq ne lt le gt ge logical_not
    isnan masked_fill where zeros_like ones_like rand_like randn_like empty_like fill_ zero_""".split())
_BY_ROW = frozenset("linear layer_norm rms_norm embedding matmul __matmul__".split())  # along the last dim
_LAST_DIM = frozenset("softmax log_softmax sum mean amax amin argmax argmin logsumexp std var".split())


def _plain(tensor):
    with DisableTorchFunctionSubclass():
        return tensor.as_subclass(Tensor)


def _made(values, offsets, layout):
    with DisableTorchFunctionSubclass():
        made = values.as_subclass(Nested)
    made._begins, made._layout = offsets, layout
    return made


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
        return None

    def dim(self):
        return _plain(self).dim() + 1

    def size(self, dim=None):
        if dim is None:
            raise RuntimeError("a nested tensor has no one size; ask for that of a dim")
        dim %= self.dim()
        if dim == 1:
            raise RuntimeError("Given dimension 1 is irregular and does not have a size.")
        return len(self) if dim == 0 else _plain(self).shape[dim - 1]

    @property
    def shape(self):
        return self.size()

    def __len__(self):
        return self._begins.shape[0] - 1

    def unbind(self, dim=0):
        """The parts."""
        return _plain(self).split(self._begins.diff().tolist())

    def __iter__(self):
        return iter(self.unbind())

    def __getitem__(self, key):
        return self.unbind()[key]

    def to_padded_tensor(self, padding, output_size=None):
        """The parts as rows of one tensor, with padding behind the short ones."""
        lengths = self._begins.diff()
        longest = int(lengths.max()) if output_size is None else output_size[1]
        row = taper.arange(len(self)).repeat_interleave(lengths)
        within = taper.arange(_plain(self).shape[0]) - self._begins[row]
        whole = _plain(self).new_full((len(self), longest, *_plain(self).shape[1:]), padding)
        return whole.index_put((row, within), _plain(self))

    def detach(self):
        return _made(_plain(self).detach(), self._begins, self._layout)

    data = property(detach)

    @property
    def grad(self):
        raw = Tensor.grad.__get__(self)
        return None if raw is None else _made(_plain(raw), self._begins, self._layout)

    @grad.setter
    def grad(self, value):
        Tensor.grad.__set__(self, _plain(value) if isinstance(value, Nested) else value)

    def __repr__(self, *, tensor_contents=None):
        if self._layout is jagged:
            sizes = ", ".join(str(n) for n in (len(self), "j1", *_plain(self).shape[1:]))
            return f"NestedTensor(size=({sizes}), offsets={self._begins!r}, contiguous=True)"
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
    first = next(a for a in (*args, *kwargs.values()) if isinstance(a, Nested))
    if name in _AS_VALUES:
        with DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if name in ("sum", "mean") and dim in (1, (1,), [1]):
        return _by_part(name, first)
    if name in ("sum", "mean") and dim is None:
        return func(_plain(first), **kwargs)
    along_last = name in _LAST_DIM and isinstance(dim, int) and dim % first.dim() == first.dim() - 1
    if name not in _BY_ELEMENT and name not in _BY_ROW and not along_last:
        raise NotImplementedError(f"{name} is not there for nested tensors; Tensor.to_padded_tensor() and unbind() give ordinary ones")
    if along_last:  # the values have one dim less
        args, kwargs = (args[0], -1, *args[2:]), {k: a for k, a in kwargs.items() if k != "dim"}
    made = func(*(_inside(a, first) for a in args), **{k: _inside(a, first) for k, a in kwargs.items()})
    if name.endswith("_") and not name.startswith("__"):
        return first
    return _made(made, first._begins, first._layout)


def _inside(argument, first):
    """An argument as it stands beside the values of all parts."""
    if not isinstance(argument, Nested):
        return argument
    if not taper.equal(argument._begins, first._begins):
        raise RuntimeError("nested tensors of different lengths cannot be combined")
    return _plain(argument)


def _by_part(name, nested):
    lengths = nested._begins.diff()
    values = _plain(nested)
    total = values.new_zeros(len(nested), *values.shape[1:]).index_add(0, taper.arange(len(nested)).repeat_interleave(lengths), values)
    return total if name == "sum" else total / lengths.view(-1, *[1] * (total.dim() - 1))


# ---- Makers ----
def as_nested_tensor(ts, dtype=None, device=None, layout=None):
    """A nested tensor of these, with their history."""
    if isinstance(ts, Nested):
        return ts
    parts = [taper.as_tensor(t, dtype=dtype, device=device) for t in ts]
    if any(t.dim() != parts[0].dim() or t.shape[1:] != parts[0].shape[1:] for t in parts) or not parts[0].dim():
        from taper._hook import NotCovered
        raise NotCovered("torch.nested: of tensors that differ in another dim than the first")
    offsets = taper.tensor([0, *(t.shape[0] for t in parts)]).cumsum(0)
    return _made(taper.cat(parts), offsets, _C.strided if layout is None else layout)


def nested_tensor(tensor_list, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A nested tensor with copies of these, a leaf."""
    made = as_nested_tensor([t.detach() if isinstance(t, Tensor) else t for t in tensor_list], dtype, device, layout)
    return made.requires_grad_() if requires_grad else made


def nested_tensor_from_jagged(values, offsets=None, lengths=None, jagged_dim=None, min_seqlen=None, max_seqlen=None):
    """A nested tensor of parts that lie one after another already."""
    if offsets is None:
        offsets = taper.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    return _made(values.view_as(values), offsets, jagged)


def to_padded_tensor(input, padding, output_size=None, out=None):
    return input.to_padded_tensor(padding, output_size)
