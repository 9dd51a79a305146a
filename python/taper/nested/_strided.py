"""Nested tensors of the strided layout: parts of any sizes with the same number of dims.

A Strided is a tensor whose memory and history are those of one flat buffer; each part is a view of it, by its size,
strides and offset. What works element by element works on the buffer where the parts fill it one after the other; other
operators go part by part."""

import taper
from taper import _C
from taper._C import Tensor
from taper.overrides import DisableTorchFunctionSubclass

# The names of this file are what PyTorch's nested tensors of the strided layout have; others it refuses, and so do we.
_AS_BUFFER = frozenset(
    """__get__ __set__ numel nelement is_floating_point is_complex element_size register_hook retain_grad backward
    __hash__ get_device data_ptr requires_grad_
    is_pinned is_inference""".split()
)
_BY_ELEMENT = frozenset(
    """abs abs_ neg neg_ exp log sqrt sin sin_ cos cos_ tanh tanh_ sigmoid relu relu_ gelu gelu_ silu silu_ selu
    leaky_relu elu clamp square sgn logical_not isinf
    isneginf isposinf isnan pow to float double half bfloat16 long int bool cpu cuda clone dropout dropout_
    alpha_dropout fill_ zero_ zeros_like ones_like rand_like randn_like
    full_like __neg__ __pow__ bernoulli_ uniform_ normal_ pin_memory""".split()
)
_MATHS = frozenset(
    """abs abs_ neg neg_ exp log sqrt sin sin_ cos cos_ tanh tanh_ sigmoid relu relu_ gelu gelu_ silu silu_ selu
    leaky_relu elu square sgn logical_not isinf isneginf
    isposinf isnan""".split()
)
_BINARY = frozenset(
    """add sub mul div true_divide maximum minimum eq ne lt le gt ge logical_and logical_or __add__ __radd__ __sub__
    __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __eq__ __ne__ __ge__
    add_ sub_ mul_ div_ __iadd__ __isub__ __imul__ __itruediv__""".split()
)


def _flat(nested):
    with DisableTorchFunctionSubclass():
        return nested.as_subclass(Tensor)


def _numel(size):
    count = 1
    for n in size:
        count *= n
    return count


def _strides(size):
    strides, step = [], 1
    for n in reversed(size):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def packed(sizes):
    """(size, strides, offset) of parts that lie one after the other."""
    views, at = [], 0
    for size in map(tuple, sizes):
        views.append((size, _strides(size), at))
        at += _numel(size)
    return views


def wrap(buffer, views):
    with DisableTorchFunctionSubclass():
        made = buffer.as_subclass(Strided)
    made._views = views
    return made


def of_parts(parts, model=None):
    """A nested tensor with the elements, and the history, of these."""
    if not parts:
        return wrap(taper.zeros(0) if model is None else _flat(model).new_zeros(0), [])
    for i in range(1, len(parts)):
        if parts[i].dim() != parts[i - 1].dim():
            raise RuntimeError(
                f"All Tensors given to nested_tensor must have the same dimension. Found dimension {parts[i].dim()} "
                f"for Tensor at index {i} and dimension {parts[i - 1].dim()} for Tensor at index {i - 1}."
            )
    return wrap(taper.cat([part.reshape(-1) for part in parts]), packed(part.shape for part in parts))


class Strided(Tensor):
    """See the file's head. Made by nested_tensor and as_nested_tensor."""

    is_nested = True

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})

    layout = property(lambda self: _C.strided)
    ndim = property(lambda self: self.dim())
    shape = property(lambda self: self.size())

    def _sizes(self):
        return [size for size, _, _ in self._views]

    def dim(self):
        return len(self._views[0][0]) + 1 if self._views else 1

    def size(self, dim=None):
        if dim is None:
            raise RuntimeError("Internal error: NestedTensorImpl doesn't support sizes. Please file an issue.")
        dim = self._dim(dim)
        if dim == 0:
            return len(self._views)
        found = {size[dim - 1] for size in self._sizes()}
        if len(found) > 1:
            raise RuntimeError(f"Given dimension {dim} is irregular and does not have a size.")
        return found.pop()

    def _dim(self, dim):
        if not -self.dim() <= dim < self.dim():
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-self.dim()}, {self.dim() - 1}], but got {dim})"
            )
        return dim % self.dim()

    def _nested_tensor_size(self):
        return taper.tensor(self._sizes()) if self._views else taper.zeros(0)

    def _nested_tensor_strides(self):
        return taper.tensor([strides for _, strides, _ in self._views])

    def _nested_tensor_storage_offsets(self):
        return taper.tensor([offset for _, _, offset in self._views])

    def stride(self, dim=None):
        raise RuntimeError("Internal error: NestedTensorImpl doesn't support strides. Please file an issue.")

    def __len__(self):
        return len(self._views)

    def is_contiguous(self, memory_format=taper.contiguous_format):
        return self._views == packed(self._sizes())

    def contiguous(self, memory_format=taper.contiguous_format):
        return self if self.is_contiguous() else of_parts(self.unbind())

    def values(self):
        return _flat(self.contiguous())

    def unbind(self, dim=0):
        """The parts."""
        if dim % self.dim():
            raise RuntimeError(f"NestedTensor can only be unbound along dimension 0 got dimension {dim} instead.")
        buffer = _flat(self)
        return tuple(
            buffer[offset : offset + _numel(size)].view(size)
            if strides == _strides(size)
            else buffer.as_strided(size, strides, offset)
            for size, strides, offset in self._views
        )

    def __iter__(self):
        return iter(self.unbind())

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        if not self._views and keys:
            raise IndexError("index out of range of an empty nested tensor")
        if isinstance(keys[0], slice):
            raise NotImplementedError(
                "slices of the batch dim are not there for nested tensors; narrow(0, start, length) is"
            )
        if keys[0] is Ellipsis:
            return self if len(keys) == 1 else of_parts([part[keys] for part in self.unbind()], self)
        return self.select(0, keys[0])[keys[1:]] if len(keys) > 1 else self.select(0, keys[0])

    def select(self, dim, index):
        dim = self._dim(dim)
        if dim:
            return of_parts([part.select(dim - 1, index) for part in self.unbind()])
        if not -len(self._views) <= index < len(self._views):
            raise IndexError(f"index {index} is out of bounds for dimension 0 with size {len(self._views)}")
        return self.unbind()[index]

    def to_padded_tensor(self, padding, output_size=None, out=None):
        """The parts as rows of one tensor, with padding behind the short ones."""
        sizes = self._sizes()
        if not self.is_contiguous():
            raise RuntimeError("for now to_padded_tensor only supports contiguous nested tensor")
        if not sizes:
            return _flat(self).new_zeros(0)
        if self.dim() == 1:
            return _flat(self.contiguous())
        if self.numel() == 0:
            raise RuntimeError("at least one constituent tensor should have non-zero numel")
        longest = [len(sizes), *(max(size[d] for size in sizes) for d in range(len(sizes[0])))]
        if output_size is not None:
            if len(output_size) != len(longest) or any(a < b for a, b in zip(output_size, longest)):
                raise RuntimeError(
                    "Value in output_size is less than NestedTensor padded size. Truncation is not supported."
                )
            longest = list(output_size)
        rows = []
        for part in self.unbind():
            amounts = [n for d in reversed(range(part.dim())) for n in (0, longest[d + 1] - part.shape[d])]
            rows.append(taper.nn.functional.pad(part, amounts, value=padding) if any(amounts) else part)
        rows += [taper.full_like(rows[0], padding) for _ in range(longest[0] - len(rows))]
        return taper.stack(rows)

    def detach(self):
        return wrap(_flat(self).detach(), self._views)

    data = property(detach)

    @property
    def grad(self):
        raw = Tensor.grad.__get__(self)
        return None if raw is None else self._grad_in_form(raw)

    def _grad_in_form(self, raw):
        """The tape's gradient, of the buffer, as one of the parts."""
        return wrap(_flat(raw), self._views)

    @grad.setter
    def grad(self, value):
        Tensor.grad.__set__(self, _flat(value.contiguous()) if isinstance(value, Strided) else value)

    def copy_(self, src, non_blocking=False):
        if not isinstance(src, Strided) or src._sizes() != self._sizes():
            raise RuntimeError("copy_ only supports tensors that are the same size for Nested implementations")
        for mine, theirs in zip(self.unbind(), src.unbind()):
            mine.copy_(theirs)
        return self

    def __reduce_ex__(self, protocol):
        from taper._utils import _rebuild_nested_tensor

        return _rebuild_nested_tensor, (
            _flat(self).detach().requires_grad_(self.requires_grad),
            self._nested_tensor_size(),
            self._nested_tensor_strides(),
            self._nested_tensor_storage_offsets(),
        )

    def __deepcopy__(self, memo):
        return wrap(_flat(self).detach().clone(), self._views).requires_grad_(self.requires_grad)

    def __repr__(self, *, tensor_contents=None):
        parts = ",\n".join("  " + repr(part).replace("\n", "\n  ") for part in self.unbind())
        return f"nested_tensor([\n{parts}\n])"

    __str__ = __repr__


# ---- Operators ----
def _run(func, args, kwargs):
    name = func.__name__
    first = next((a for a in _all(args, kwargs) if isinstance(a, Strided)), None)
    if name in _AS_BUFFER:
        with DisableTorchFunctionSubclass():
            made = func(*args, **kwargs)
        return made
    if name == "fill_" and isinstance(args[1], Tensor) and args[1].dim():
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {args[1].dim()} dimensions."
        )
    if name in _BINARY:
        return _binary(func, name, *args, **kwargs)
    if name in _BY_ELEMENT:
        return _element(func, name, first, args, kwargs)
    found = _BY_NAME.get(name) or Strided.__dict__.get(name)
    if not callable(found):
        raise NotImplementedError(
            f"{name} is not there for nested tensors; Tensor.to_padded_tensor() and unbind() give ordinary ones"
        )
    return found(*args, **kwargs)


def _all(args, kwargs):
    for a in (*args, *kwargs.values()):
        if isinstance(a, (list, tuple)):
            yield from a
        else:
            yield a


def _element(func, name, first, args, kwargs):
    if name == "clone" and kwargs.get("memory_format") not in (None, taper.preserve_format, taper.contiguous_format):
        words = {"torch.channels_last": "ChannelsLast", "torch.channels_last_3d": "ChannelsLast3d"}
        raise RuntimeError(
            "Nested tensor clone supports Preserve and Contiguous memory formats, called clone with memory format: "
            f"{words.get(str(kwargs['memory_format']))}"
        )
    if name == "clone":
        kwargs = {}
    if name in _MATHS and not first.is_contiguous():
        raise RuntimeError("NestedTensor must be contiguous to get buffer.")
    given = [_flat(a) if isinstance(a, Strided) else a for a in args]
    made = func(*given, **{k: _flat(a) if isinstance(a, Strided) else a for k, a in kwargs.items()})
    if name.endswith("_") and not name.endswith("__"):
        return first
    if (
        made is given[0]
        or name == "to"
        and made.data_ptr() == given[0].data_ptr()
        and made.dtype == given[0].dtype
        and made.numel()
    ):
        return first
    return wrap(made, first._views)


def _binary(func, name, self, other, **kwargs):
    in_place = name.endswith("_") and not name.endswith("__") or name.startswith("__i")
    if isinstance(self, Strided) and isinstance(other, Strided):
        if len(self) != len(other) or self.dim() != other.dim() or self._sizes() != other._sizes():
            word = name.strip("_")
            raise RuntimeError(
                f"{word} does not support broadcasting when given a NestedTensor: the sizes of the parts differ"
            )
        if name in ("div", "true_divide", "__truediv__", "div_", "__itruediv__") and self._views != other._views:
            same = [strides for _, strides, _ in self._views] == [strides for _, strides, _ in other._views]
            raise RuntimeError(f"div requires {'offsets' if same else 'strides'} to match when given NestedTensors")
        if self._views == other._views and self.is_contiguous():
            made = func(_flat(self), _flat(other), **kwargs)
            return self if in_place else wrap(made, self._views)
        return _written(self, [func(a, b, **kwargs) for a, b in zip(self.unbind(), other.unbind())], in_place)
    nested, dense = (self, other) if isinstance(self, Strided) else (other, self)
    if not isinstance(dense, Tensor) or dense.dim() == 0:
        made = func(_flat(nested), dense, **kwargs) if nested is self else func(dense, _flat(nested), **kwargs)
        return self if in_place else wrap(made, nested._views)
    # A dense tensor [B, ...] stands beside the parts, where its other dims fit them by broadcasting.
    rows = dense.unbind(0) if dense.dim() == nested.dim() and dense.shape[0] == len(nested) else [dense] * len(nested)
    if dense.dim() != nested.dim() or dense.shape[0] not in (1, len(nested)):
        raise RuntimeError(
            f"Expected both self and other to be nested, but got a {'' if nested is self else 'non-'}nested self and "
            f"{'non-' if nested is self else ''}nested other"
        )
    if dense.shape[0] == 1 and len(nested) != 1:
        rows = [dense[0]] * len(nested)
    parts = [
        func(part, row, **kwargs) if nested is self else func(row, part, **kwargs)
        for part, row in zip(nested.unbind(), rows)
    ]
    return _written(nested, parts, in_place)


def _written(nested, parts, in_place):
    """The result: of an operator in place the parts have been written to already."""
    return nested if in_place else of_parts(parts, nested)


def _each(name):
    """An operator along a dim of the parts."""

    def run(self, dim, *args, **kwargs):
        dim = self._dim(dim)
        if dim == 0:
            raise RuntimeError(f"Cannot apply {name} across nested dimension 0")
        return of_parts([getattr(taper, name)(part, dim - 1, *args, **kwargs) for part in self.unbind()], self)

    return run


def _softmax(self, dim, dtype=None, **kwargs):
    if not self._views:
        return self
    dim = self._dim(dim)
    if dim == 0:
        raise RuntimeError("Cannot apply softmax across nested dimension 0")
    return of_parts([taper.softmax(part, dim - 1, dtype=dtype) for part in self.unbind()], self)


def _transpose(self, dim0, dim1):
    dim0, dim1 = self._dim(dim0), self._dim(dim1)
    if dim0 == dim1:
        return self
    if 0 in (dim0, dim1):
        raise RuntimeError("Nested tensor dimension 0 cannot be transposed")

    def turned(values):
        values = list(values)
        values[dim0 - 1], values[dim1 - 1] = values[dim1 - 1], values[dim0 - 1]
        return tuple(values)

    return wrap(_flat(self), [(turned(size), turned(strides), offset) for size, strides, offset in self._views])


def _unsqueeze(self, dim):
    if not -self.dim() - 1 <= dim <= self.dim():
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-self.dim() - 1}, {self.dim()}], but got {dim})"
        )
    dim %= self.dim() + 1
    if dim == 0:
        raise RuntimeError("unsqueeze(): For nested tensors, unsqueezing dimension 0 is not supported.")
    return of_parts([part.unsqueeze(dim - 1) for part in self.unbind()], self)


def _squeeze(self, dim=None):
    if dim is None:
        raise RuntimeError("squeeze(): For nested tensors, squeeze without the dim argument is not supported.")
    dim = self._dim(dim)
    if dim == 0:
        raise RuntimeError("squeeze(): For nested tensors, squeezing dimension 0 is not supported.")
    if self.dim() == 2:
        raise RuntimeError(
            "squeeze(): For nested tensors, squeezing a nested tensor of singleton tensors is not supported."
        )
    if self.size(dim) != 1:
        return self
    return of_parts([part.squeeze(dim - 1) for part in self.unbind()], self)


def _shaped(name):
    """view or reshape: the batch dim stays."""

    def run(self, *shape):
        return _reshape(
            self, name, list(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else list(shape)
        )

    return run


def _reshape(self, name, shape):
    if not shape:
        raise RuntimeError("shape '[]' is invalid for a nested tensor")
    if not self._views:
        raise RuntimeError("empty nested tensor cannot be reshaped")
    if shape[0] != len(self):
        raise RuntimeError(
            f"{name}: For now nested {name} cannot change or infer the implicit batch dimension: it is {len(self)}, "
            f"got {shape[0]}"
        )
    if shape[1:].count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    parts = []
    for part in self.unbind():  # -1 in a dim that the parts have already: its size there
        size = [part.shape[d] if n == -1 and d < part.dim() else n for d, n in enumerate(shape[1:])]
        if -1 not in size and _numel(size) != part.numel():
            raise RuntimeError(f"shape '{size}' is invalid for input of size {part.numel()}")
        parts.append(part.view(size) if name == "view" and part.is_contiguous() else part.reshape(size))
    return of_parts(parts, self)


def _matmul(self, other):
    if isinstance(self, Strided) and isinstance(other, Strided):
        for word, given in (("1st", self), ("2nd", other)):
            if given.dim() < 3:
                raise RuntimeError(
                    f"matmul: For nested tensors, only inputs with >= 3 dims are currently supported. {word} input "
                    f"has rank: {given.dim()}"
                )
        if len(self) != len(other):
            raise RuntimeError(
                f"matmul: Expected size for the 1st dimension of 2nd input tensor to be: {len(self)} but got: "
                f"{len(other)}."
            )
        parts = list(zip(self.unbind(), other.unbind()))
        for i, (a, b) in enumerate(parts):
            if a.shape[-1] != b.shape[-2]:
                raise RuntimeError(
                    f"{i}-th nested matrices in batch cannot be multiplied ({a.shape[-2]}x{a.shape[-1]} and "
                    f"{b.shape[-2]}x{b.shape[-1]})"
                )
        return of_parts([a @ b for a, b in parts], self)
    if min(self.dim(), other.dim()) < 2:
        mine = "nested" if isinstance(self, Strided) else "non-nested"
        raise RuntimeError(
            f"Expected both to be nested, but got a {mine} self and {'non-nested' if mine == 'nested' else 'nested'} "
            "other"
        )
    if isinstance(self, Strided):
        rows = other.unbind(0) if other.dim() == self.dim() and other.dim() > 2 else [other] * len(self)
        return of_parts([a @ b for a, b in zip(self.unbind(), rows)], self)
    rows = self.unbind(0) if self.dim() == other.dim() and self.dim() > 2 else [self] * len(other)
    return of_parts([a @ b for a, b in zip(rows, other.unbind())], other)


def _bmm(self, mat2):
    for word, given in (("self", self), ("mat2", mat2)):
        if given.dim() != 3:
            raise RuntimeError(f"batch{'1' if word == 'self' else '2'} must be a 3D tensor")
    if len(self) != len(mat2):
        raise RuntimeError(
            f"Expected size for the 1st dimension of batch2 tensor to be: {len(self)} but got: {len(mat2)}."
        )
    return _matmul(self, mat2)


def _linear(input, weight, bias=None):
    if not input.is_contiguous():
        raise RuntimeError("for now linear only supports contiguous nested tensor")
    if input.dim() < 3 or weight.dim() != 2:
        raise RuntimeError(
            f"Linear requires nested_tensor.dim == 3 and dense_matrix.dim == 2. Nested tensor dim: {input.dim()}. "
            f"Dense tensor dim: {weight.dim()}"
        )
    return of_parts([taper.nn.functional.linear(part, weight, bias) for part in input.unbind()], input)


def _layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    return of_parts(
        [taper.nn.functional.layer_norm(part, normalized_shape, weight, bias, eps) for part in input.unbind()], input
    )


def _sum(self, dim=None, keepdim=False, *, dtype=None):
    if dim is None:
        return _flat(self.contiguous()).sum(dtype=dtype)
    dims = [dim] if isinstance(dim, int) else list(dim)
    if len(dims) != 1:
        raise RuntimeError(f"NestedTensor only allows reduction of a single dimension for now, got {len(dims)}")
    if self._dim(dims[0]) != self.dim() - 1:
        raise RuntimeError(
            f"NestedTensor can only be reduced across the last dimension for now got dimension {dims[0]} instead."
        )
    if not keepdim:
        raise RuntimeError("NestedTensor always requires keepdim=True for now.")
    return of_parts([part.sum(-1, keepdim=True, dtype=dtype) for part in self.unbind()], self)


def _chunk(self, chunks, dim=0):
    dim = self._dim(dim)
    if dim != self.dim() - 1:
        raise RuntimeError("Chunk for nested tensors is currently only supported for the last dimension.")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    if not self.is_contiguous():
        raise RuntimeError("chunk expects `self` to be contiguous.")
    if self.size(dim) % chunks:
        raise RuntimeError(
            "Chunk for nested tensors is only supported for nested tensors with trailing dimension divisible by chunks."
        )
    return _split(self, [self.size(dim) // chunks] * chunks, dim)


def _split(self, split_sizes, dim=0):
    dim = self._dim(dim)
    if dim != self.dim() - 1:
        raise RuntimeError("split_with_sizes for nested tensors is currently only supported for the last dimension.")
    if not self.is_contiguous():
        raise RuntimeError("split_with_sizes expects `self` to be contiguous.")
    if sum(split_sizes) != self.size(dim):
        raise RuntimeError(f"split_with_sizes expects split_sizes to sum exactly to {self.size(dim)}")
    pieces, first = [], 0
    for n in split_sizes:
        pieces.append(
            wrap(
                _flat(self),
                [((*size[:-1], n), strides, offset + first * strides[-1]) for size, strides, offset in self._views],
            )
        )
        first += n
    return tuple(pieces)


def _narrow(self, dim, start, length):
    if self._dim(dim):
        raise RuntimeError("narrow(): only dim=0 supported for nested tensors")
    return wrap(_flat(self), self._views[start : start + length])


def _empty_like(self, *, dtype=None, device=None, memory_format=None, requires_grad=False, **kwargs):
    if memory_format not in (None, taper.preserve_format, taper.contiguous_format):
        raise RuntimeError(
            f"empty_like_nested only supports memory format options Preserve and Contiguous, but got {memory_format}"
        )
    made = taper.empty_like(_flat(self), dtype=dtype, device=device)
    made = wrap(made, packed(self._sizes()) if memory_format is taper.contiguous_format else self._views)
    return made.requires_grad_() if requires_grad else made


def _masked_fill(self, mask, value):
    return of_parts([part.masked_fill(m, value) for part, m in zip(self.unbind(), mask.unbind())], self)


def _embedding(input, weight, *args, **kwargs):
    made = taper.nn.functional.embedding(_flat(input.contiguous()), weight, *args, **kwargs)
    return of_parts(
        [
            rows.reshape(*size, weight.shape[1])
            for rows, size in zip(made.split([_numel(s) for s in input._sizes()]), input._sizes())
        ],
        input,
    )


def _cat(tensors, dim=0):
    dim %= max(t.dim() for t in tensors)
    if not all(isinstance(t, Strided) for t in tensors):
        raise RuntimeError("cat(): expected each tensor in given list to be nested")
    if dim:
        return of_parts([taper.cat(parts, dim - 1) for parts in zip(*(t.unbind() for t in tensors))], tensors[0])
    parts = []
    for t in tensors:
        if not t.is_contiguous():
            raise RuntimeError("cat: nested tensors must be contiguous")
        parts += t.unbind()
    return of_parts(parts, tensors[0])


def _attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """Attention among the rows of each part."""
    if attn_mask is not None:
        raise RuntimeError(
            "Scaled_dot_product_attention: Nested tensors for query / key / value are not supported when an explicit "
            "attn_mask is set"
        )
    if is_causal:
        raise RuntimeError(
            "Scaled_dot_product_attention: Nested tensors for query / key / value are not supported when is_causal=True"
        )
    made = [
        taper.nn.functional.scaled_dot_product_attention(
            q, k, v, None, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
        for q, k, v in zip(query.unbind(), key.unbind(), value.unbind())
    ]
    return of_parts(made, query)


def _same(self, other):
    return (
        isinstance(other, Strided)
        and self._sizes() == other._sizes()
        and all(taper.equal(a, b) for a, b in zip(self.unbind(), other.unbind()))
    )


_BY_NAME = {
    "softmax": _softmax,
    "log_softmax": _each("log_softmax"),
    "transpose": _transpose,
    "swapaxes": _transpose,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "reshape": _shaped("reshape"),
    "view": _shaped("view"),
    "narrow": _narrow,
    "matmul": _matmul,
    "__matmul__": _matmul,
    "__rmatmul__": lambda self, other: _matmul(other, self),
    "bmm": _bmm,
    "linear": _linear,
    "layer_norm": _layer_norm,
    "sum": _sum,
    "chunk": _chunk,
    "split_with_sizes": _split,
    "split": _split,
    "masked_fill": _masked_fill,
    "embedding": _embedding,
    "cat": _cat,
    "empty_like": _empty_like,
    "scaled_dot_product_attention": _attention,
    "equal": _same,
    "is_same_size": lambda self, other: self._sizes() == other._sizes(),
}
