"""What PyTorch composes of other operators before a handler sees it. DECOMPOSED has operators of aten, called with
their schema's arguments; NotImplemented sends a call on as it is. FUNCTIONS has functions and methods of Python's side,
called as the program does."""

import math

import taper
from taper import _C

aten = taper.ops.aten
DECOMPOSED, FUNCTIONS = {}, {}


def composed(*names):
    def add(function):
        for name in names:
            DECOMPOSED[name] = function
        return function

    return add


def function(*names):
    def add(function):
        for name in names:
            FUNCTIONS[name] = function
        return function

    return add


# ---- Other names of the same ----
# PyTorch takes apart the tables' aliases before a handler sees them, in place too, and these.
_SAME = {
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "inverse": "linalg_inv",
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
}
for _name, _other in _C._operator_aliases().items():
    _SAME[_name] = _other
    if hasattr(aten, _name + "_") and hasattr(aten, _other + "_"):
        _SAME[_name + "_"] = _other + "_"


def _same(name):
    return lambda *args, **kwargs: getattr(aten, name)(*args, **kwargs)


for _name, _other in _SAME.items():
    for _overload in getattr(aten, _name).overloads():
        DECOMPOSED[_name if _overload == "default" else f"{_name}.{_overload}"] = _same(_other)


# ---- Products ----
@composed("linear")
def _linear(input, weight, bias=None):
    if bias is None or input.dim() not in (2, 3):
        made = input.matmul(weight.t())
        return made if bias is None else made + bias
    if input.dim() == 2:
        return taper.addmm(bias, input, weight.t())
    flat = input.reshape(-1, input.shape[-1])
    return aten._unsafe_view(taper.addmm(bias, flat, weight.t()), [*input.shape[:-1], weight.shape[0]])


@composed("matmul")
def _matmul(self, other):
    a, b = self.dim(), other.dim()
    if a == 0 or b == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {a}D and {b}D")
    if a == 1 and b == 1:
        return self.dot(other)
    if a == 2 and b == 1:
        return self.mv(other)
    if a == 1 and b == 2:
        return self.unsqueeze(0).mm(other).squeeze(0)
    if a == 2 and b == 2:
        return self.mm(other)
    if b <= 2:
        flat = self.reshape(-1, self.shape[-1])
        made = flat.mv(other) if b == 1 else flat.mm(other)
        return aten._unsafe_view(made, [*self.shape[:-1], *other.shape[1:]])
    left = self.unsqueeze(0) if a == 1 else self
    right = other.unsqueeze(-1) if b == 1 else other
    batch = list(taper.broadcast_shapes(left.shape[:-2], right.shape[:-2]))
    count = math.prod(batch)
    one = left.expand(*batch, *left.shape[-2:]).reshape(count, *left.shape[-2:])
    two = right.expand(*batch, *right.shape[-2:]).reshape(count, *right.shape[-2:])
    shape = batch + ([] if a == 1 else [left.shape[-2]]) + ([] if b == 1 else [right.shape[-1]])
    return aten._unsafe_view(one.bmm(two), shape)


@composed("outer")
def _outer(self, vec2):
    return self.unsqueeze(1) * vec2


@composed("scaled_dot_product_attention")
def _attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    factor = math.sqrt(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if enable_gqa:
        key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
    tracked = attn_mask is not None and attn_mask.requires_grad
    if (
        query.device.type == "cpu"
        and query.dim() == 4
        and not dropout_p
        and not tracked
        and query.shape[-1] == value.shape[-1]
        and query.numel()
        and key.numel()
    ):
        given = {word: value for word, value in (("attn_mask", attn_mask), ("scale", scale)) if value is not None}
        return aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p, is_causal, **given)[0]
    scores = (query * factor).matmul(key.transpose(-2, -1) * factor)
    if is_causal:
        attn_mask = taper.ones(query.shape[-2], key.shape[-2], dtype=taper.bool, device=query.device).tril()
    if attn_mask is not None and attn_mask.dtype == taper.bool:
        scores = scores.masked_fill(attn_mask.logical_not(), -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = scores.softmax(-1)
    return (taper.dropout(weights, dropout_p, True) if dropout_p else weights).matmul(value)


FUNCTIONS["__rtruediv__"] = lambda self, other: self.reciprocal() * other
FUNCTIONS["__rfloordiv__"] = lambda self, other: taper.floor_divide(other, self)
FUNCTIONS["__rmatmul__"] = lambda self, other: taper.matmul(other, self)
FUNCTIONS["__rpow__"] = lambda self, other: taper.pow(other, self)
FUNCTIONS["__rmod__"] = lambda self, other: taper.remainder(other, self)


# ---- Shapes ----
def _can_view(tensor, shape):
    from taper._dispatch import NoHandlers

    with NoHandlers():
        try:
            taper.empty_strided(tensor.shape, tensor.stride(), device="meta", dtype=tensor.dtype).view(shape)
        except RuntimeError:
            return False
    return True


def _sizes(tensor, shape):
    """Sizes with the one that is -1 worked out."""
    shape = list(shape)
    if -1 in shape:
        rest = -math.prod(shape)
        shape[shape.index(-1)] = tensor.numel() // rest if rest else 0
    return shape


@composed("reshape")
def _reshape(self, shape):
    shape = _sizes(self, shape)
    if _can_view(self, shape):
        return self.view(shape)
    return aten._unsafe_view(self.clone(memory_format=taper.contiguous_format), shape)


@composed("flatten.using_ints")
def _flatten(self, start_dim=0, end_dim=-1):
    n = self.dim()
    if not n:
        return self.reshape(1)
    start, end = start_dim % n, end_dim % n
    if start == end:
        return self
    return self.reshape([*self.shape[:start], math.prod(self.shape[start : end + 1]), *self.shape[end + 1 :]])


@composed("unflatten.int")
def _unflatten(self, dim, sizes):
    dim %= self.dim()
    rest = -math.prod(sizes) if -1 in sizes else 0
    sizes = [self.shape[dim] // rest if s == -1 else s for s in sizes]
    return self.view([*self.shape[:dim], *sizes, *self.shape[dim + 1 :]])


DECOMPOSED["view_as"] = lambda self, other: self.view(list(other.shape))
DECOMPOSED["reshape_as"] = lambda self, other: self.reshape(list(other.shape))
DECOMPOSED["expand_as"] = lambda self, other: self.expand(list(other.shape))
DECOMPOSED["broadcast_to"] = lambda self, size: self.expand(size)
DECOMPOSED["numpy_T"] = lambda self: self.permute(list(range(self.dim() - 1, -1, -1)))
DECOMPOSED["mT"] = lambda self: self.transpose(-2, -1)
DECOMPOSED["mH"] = lambda self: self.transpose(-2, -1).conj()
DECOMPOSED["matrix_H"] = lambda self: self.transpose(0, 1).conj()
DECOMPOSED["adjoint"] = lambda self: self.transpose(-2, -1).conj()
DECOMPOSED["narrow"] = lambda self, dim, start, length: aten.slice(
    self,
    dim,
    start % (self.shape[dim] or 1) if start < 0 else start,
    (start + self.shape[dim] if start < 0 else start) + length,
)
DECOMPOSED["split.sizes"] = lambda self, split_size, dim=0: self.split_with_sizes(split_size, dim)
DECOMPOSED["hstack"] = lambda tensors: taper.cat(
    [t.reshape(1) if not t.dim() else t for t in tensors], 0 if tensors[0].dim() <= 1 else 1
)
DECOMPOSED["vstack"] = lambda tensors: taper.cat([t.reshape(1, -1) if t.dim() < 2 else t for t in tensors], 0)
DECOMPOSED["conj"] = lambda self: self if not self.is_complex() else NotImplemented
DECOMPOSED["resolve_conj"] = DECOMPOSED["resolve_neg"] = lambda self: self
DECOMPOSED["positive"] = lambda self: self
DECOMPOSED["square"] = lambda self: self.pow(2)
DECOMPOSED["square_"] = lambda self: self.pow_(2)
DECOMPOSED["tile"] = lambda self, dims: self.repeat([1] * (self.dim() - len(dims)) + list(dims))


@composed("chunk")
def _chunk(self, chunks, dim=0):
    return list(self.split(-(-self.shape[dim] // chunks) or 1, dim))


@composed("movedim.int", "movedim.intlist")
def _movedim(self, source, destination):
    n = self.dim()
    source = [source % n] if isinstance(source, int) else [d % n for d in source]
    destination = [destination % n] if isinstance(destination, int) else [d % n for d in destination]
    order = [d for d in range(n) if d not in source]
    for to, d in sorted(zip(destination, source)):
        order.insert(to, d)
    return self.permute(order)


@composed("sum_to_size")
def _sum_to_size(self, size):
    extra = self.dim() - len(size)
    dims = [d for d in range(self.dim()) if d < extra or size[d - extra] == 1 and self.shape[d] != 1]
    made = self.sum(dims, True) if dims else self
    return made.view(list(size)) if extra else made


@composed("contiguous")
def _contiguous(self, *, memory_format=None):
    memory_format = memory_format or taper.contiguous_format
    return self if self.is_contiguous(memory_format=memory_format) else self.clone(memory_format=memory_format)


# ---- Dtypes and devices ----
def _to(self, dtype=None, device=None, non_blocking=False, copy=False, memory_format=None):
    device = None if device is None else taper.device(device)
    if device is not None and device.type == self.device.type and device.index in (None, self.device.index):
        device = None
    if dtype in (None, self.dtype) and device is None and not copy and memory_format in (None, taper.preserve_format):
        return self
    given = {
        "dtype": dtype if dtype != self.dtype else None,
        "device": device,
        "non_blocking": non_blocking or None,
        "memory_format": memory_format,
    }
    return aten._to_copy(self, **{key: value for key, value in given.items() if value is not None})


@function("to")
def _to_method(
    self, *args, non_blocking=False, copy=False, memory_format=None, dtype=None, device=None, other=None, tensor=None
):
    for at, arg in enumerate(args):
        if isinstance(arg, bool):
            if at and not isinstance(args[at - 1], bool):
                non_blocking = arg
            else:
                copy = arg
        elif isinstance(arg, (_C.device, str)) or isinstance(arg, int):
            device = arg
        elif isinstance(arg, _C.Tensor):
            other = arg
        elif arg is not None:
            dtype = arg
    other = tensor if other is None else other
    if other is not None:
        dtype, device = other.dtype, other.device
    if dtype in (float, int, bool, complex):
        dtype = {float: taper.float64, int: taper.int64, bool: taper.bool, complex: taper.complex128}[dtype]
    return _to(self, dtype, device, non_blocking, copy, memory_format)


for _name, _dtype in {
    "float": taper.float32,
    "double": taper.float64,
    "half": taper.float16,
    "bfloat16": taper.bfloat16,
    "int": taper.int32,
    "long": taper.int64,
    "short": taper.int16,
    "char": taper.int8,
    "byte": taper.uint8,
    "bool": taper.bool,
    "cfloat": taper.complex64,
    "cdouble": taper.complex128,
}.items():
    FUNCTIONS[_name] = lambda self, memory_format=None, _dtype=_dtype: _to(self, _dtype, memory_format=memory_format)
FUNCTIONS["cpu"] = lambda self, memory_format=None: _to(self, device="cpu", memory_format=memory_format)
FUNCTIONS["cuda"] = lambda self, device="cuda", non_blocking=False, memory_format=None: _to(
    self, device=device, non_blocking=non_blocking, memory_format=memory_format
)
DECOMPOSED["type_as"] = lambda self, other: _to(self, other.dtype, other.device)


@function("type")
def _type(self, dtype=None, non_blocking=False, **kwargs):
    if dtype is None:
        from taper._dispatch import NoHandlers

        with NoHandlers():
            return _C.Tensor.type(self)
    if isinstance(dtype, str):
        dtype = taper.tensor([]).type(dtype).dtype
    return _to(self, getattr(dtype, "dtype", dtype), non_blocking=non_blocking)


@function("to_dtype")
def _to_dtype(self, dtype):
    return _to(self, dtype)


# ---- Reading and backward ----
FUNCTIONS["item"] = lambda self: aten._local_scalar_dense(self)
FUNCTIONS["requires_grad_"] = lambda self, requires_grad=True: _C.Tensor.requires_grad_(self, requires_grad)


@function("backward")
def _backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    if gradient is not None and gradient.dtype != self.dtype:
        gradient = gradient.to(self.dtype)
    taper.autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


# ---- Indexing ----
def _walk_index(self, key):
    """The view that ints, slices, None and ... make, and the tensors among the indices by dimension."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if isinstance(key, list):
        keys = [taper.tensor(key)]
    if not any(k is Ellipsis for k in keys):
        keys.append(Ellipsis)
    dim, picks = 0, {}
    for k in keys:
        if k is Ellipsis:
            dim = max(dim, self.dim() - _rest(keys))
        elif k is None:
            self = self.unsqueeze(dim)
            dim += 1
        elif isinstance(k, slice):
            if k.start is not None or k.stop is not None or k.step not in (None, 1):
                self = aten.slice(
                    self,
                    dim,
                    0 if k.start is None else k.start,
                    9223372036854775807 if k.stop is None else k.stop,
                    1 if k.step is None else k.step,
                )
            dim += 1
        elif isinstance(k, bool):
            self = self.unsqueeze(dim)
            picks[dim] = taper.tensor([k], device=self.device)
            dim += 1
        elif isinstance(k, _C.Tensor) or isinstance(k, (list, tuple)) or hasattr(k, "__array__"):
            k = k if isinstance(k, _C.Tensor) else taper.tensor(k)
            picks[dim] = k
            dim += k.dim() if _is_mask(k) else 1
        else:
            self = aten.select(self, dim, k.__index__())
    return self, picks


def _is_mask(key):
    return isinstance(key, _C.Tensor) and key.dtype in (taper.bool, taper.uint8)


def _rest(keys):
    """Dimensions that the keys behind the ellipsis take."""
    after = keys[next(i for i, k in enumerate(keys) if k is Ellipsis) + 1 :]
    return sum(k.dim() if _is_mask(k) else k is not None for k in after)


def _picked(picks):
    """Indices by dimension as a list with None where there is none."""
    listed = [None] * (max(picks) + 1)
    for dim, index in picks.items():
        listed[dim] = index
    out, skip = [], 0
    for index in listed:  # a mask of several dimensions stands for all of them
        if skip and index is None:
            skip -= 1
            continue
        out.append(index)
        skip = index.dim() - 1 if _is_mask(index) else 0
    return out


@function("__getitem__")
def _getitem(self, key):
    view, picks = _walk_index(self, key)
    if picks:
        return aten.index(view, _picked(picks))
    return aten.alias(view) if view is self else view


@function("__setitem__")
def _setitem(self, key, value):
    view, picks = _walk_index(self, key)
    if picks:
        value = value if isinstance(value, _C.Tensor) else taper.tensor(value, dtype=self.dtype, device=self.device)
        aten.index_put_(view, _picked(picks), value)
    elif isinstance(value, _C.Tensor):
        view.copy_(value)
    else:
        view.fill_(value)


# ---- Activations and losses ----
@composed("softmax.int")
def _softmax(self, dim, dtype=None):
    return aten._softmax(self if dtype is None else _to(self, dtype), dim, False)


@composed("log_softmax.int")
def _log_softmax(self, dim, dtype=None):
    return aten._log_softmax(self if dtype is None else _to(self, dtype), dim, False)


DECOMPOSED["log_sigmoid"] = lambda self: aten.log_sigmoid_forward(self)[0]
DECOMPOSED["relu6"] = lambda self: taper.nn.functional.hardtanh(self, 0.0, 6.0)
DECOMPOSED["selu"] = lambda self: aten.elu(self, 1.6732632423543772, 1.0507009873554805)
DECOMPOSED["where.ScalarOther"] = lambda condition, self, other: taper.where(
    condition, self, taper.scalar_tensor(other, dtype=self.dtype, device=self.device)
)
DECOMPOSED["where.ScalarSelf"] = lambda condition, self, other: taper.where(
    condition, taper.scalar_tensor(self, dtype=other.dtype, device=other.device), other
)


@composed("dropout")
def _dropout(input, p, train):
    if not train or p == 0 or not input.numel():
        return input
    if p == 1:
        return input * taper.zeros_like(input)
    noise = taper.empty_like(input).bernoulli_(1 - p)
    noise.div_(1 - p)
    return input * noise


@composed("cross_entropy_loss")
def _cross_entropy(self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    if target.is_floating_point() or label_smoothing:
        return NotImplemented
    dim = 0 if self.dim() == 1 else 1
    return aten.nll_loss_nd(self.log_softmax(dim), target, weight, reduction, ignore_index)


@composed("nll_loss_nd", "nll_loss", "nll_loss2d")
def _nll_loss(self, target, weight=None, reduction=1, ignore_index=-100):
    if self.dim() <= 2:
        return aten.nll_loss_forward(self, target, weight, reduction, ignore_index)[0]
    if self.dim() == 4:
        return aten.nll_loss2d_forward(self, target, weight, reduction, ignore_index)[0]
    n, c = self.shape[:2]
    made = aten.nll_loss2d_forward(
        self.reshape(n, c, 1, -1), target.reshape(n, 1, -1), weight, reduction, ignore_index
    )[0]
    return made.view([n, *self.shape[2:]]) if reduction == 0 else made


@composed("l1_loss")
def _l1_loss(self, target, reduction=1):
    made = (self - target).abs()
    return made.mean() if reduction == 1 else made.sum() if reduction == 2 else made


# ---- Normalisation, convolution, pooling ----
@composed("layer_norm")
def _layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return aten.native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


@composed("group_norm")
def _group_norm(input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    n, c = input.shape[:2]
    return aten.native_group_norm(input.contiguous(), weight, bias, n, c, math.prod(input.shape[2:]), num_groups, eps)[
        0
    ]


@composed("batch_norm")
def _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=False):
    return aten.native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


def _each(value, n):
    value = [value] if isinstance(value, int) else list(value)
    return value * n if len(value) == 1 else value


def _convolution(n):
    def conv(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        if isinstance(padding, str):
            return NotImplemented
        batched = input.dim() == n + 2
        made = aten.convolution(
            input if batched else input.unsqueeze(0),
            weight,
            bias,
            _each(stride, n),
            _each(padding, n),
            _each(dilation, n),
            False,
            [0] * n,
            groups,
        )
        return made if batched else made.squeeze(0)

    return conv


def _transposed(n):
    def conv(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        batched = input.dim() == n + 2
        made = aten.convolution(
            input if batched else input.unsqueeze(0),
            weight,
            bias,
            _each(stride, n),
            _each(padding, n),
            _each(dilation, n),
            True,
            _each(output_padding, n),
            groups,
        )
        return made if batched else made.squeeze(0)

    return conv


for _n in (1, 2, 3):
    DECOMPOSED[f"conv{_n}d"] = _convolution(_n)
    DECOMPOSED[f"conv_transpose{_n}d" + ("" if _n == 1 else ".input")] = _transposed(_n)
DECOMPOSED["max_pool2d"] = lambda *args: aten.max_pool2d_with_indices(*args)[0]
DECOMPOSED["max_pool3d"] = lambda *args: aten.max_pool3d_with_indices(*args)[0]


@composed("adaptive_avg_pool2d")
def _adaptive_avg_pool2d(self, output_size):
    return (
        self.mean([-1, -2], True) if _each(output_size, 2) == [1, 1] else aten._adaptive_avg_pool2d(self, output_size)
    )


# ---- Statistics ----
def _spread(name):
    def spread(self, *args, **kwargs):
        dim = args[0] if args and not isinstance(args[0], bool) else kwargs.get("dim")
        unbiased = (
            args[0]
            if args and isinstance(args[0], bool)
            else args[1]
            if len(args) > 1
            else kwargs.get("unbiased", True)
        )
        keepdim = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
        return getattr(aten, name).correction(self, dim, keepdim=keepdim, **({} if unbiased else {"correction": 0}))

    return spread


for _name in ("std", "var"):
    DECOMPOSED[_name] = DECOMPOSED[_name + ".dim"] = _spread(_name)


@function("norm")
def _norm(self, p="fro", dim=None, keepdim=False, dtype=None):
    order = 2 if p in ("fro", None) else p
    return aten.linalg_vector_norm(self, order, [dim] if isinstance(dim, int) else dim, keepdim, dtype=dtype)


# ---- Layers whose arguments Python has in another order ----
@function("embedding")
def _embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    if padding_idx is not None and padding_idx < 0:
        padding_idx += weight.shape[0]
    return aten.embedding(weight, input, -1 if padding_idx is None else padding_idx, scale_grad_by_freq, sparse)


@function("pad")
def _pad(input, pad, mode="constant", value=None):
    if mode == "constant":
        return aten.constant_pad_nd(input, list(pad), 0.0 if value is None else value)
    return getattr(aten, f"{mode if mode != 'reflect' else 'reflection'}_pad{len(pad) // 2}d")(input, list(pad))


# ---- Sums of products ----
@function("einsum")
def _einsum(equation, *operands, path=None):
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if "." in left or any(len(set(term)) != len(term) for term in terms):
        return taper.ops.aten.einsum.default(equation, list(operands))
    if not arrow:
        right = "".join(sorted(letter for letter in set(left) - {","} if left.count(letter) == 1))
    sizes = {letter: n for term, operand in zip(terms, operands) for letter, n in zip(term, operand.shape)}
    term, made = terms[0], operands[0]
    for other, operand, rest in zip(
        terms[1:], operands[1:], ["".join(terms[i:]) + right for i in range(2, len(terms) + 1)]
    ):
        term, made = _contract(term, made, other, operand, rest, sizes)
    gone = [at for at, letter in enumerate(term) if letter not in right]
    if gone:
        made, term = made.sum(gone), "".join(letter for letter in term if letter in right)
    order = [term.index(letter) for letter in right]
    return made if order == sorted(order) else made.permute(order)


def _contract(left, one, right, two, rest, sizes):
    """Two operands as one product of batches of matrices: letters that go on later stay."""
    both = [letter for letter in left if letter in right and letter in rest]
    summed = [letter for letter in left if letter in right and letter not in rest]
    first, second = [l for l in left if l not in right], [l for l in right if l not in left]

    def shape(*groups):
        return [math.prod(sizes[letter] for letter in group) for group in groups]

    one = one.permute([left.index(letter) for letter in both + first + summed]).reshape(shape(both, first, summed))
    two = two.permute([right.index(letter) for letter in both + summed + second]).reshape(shape(both, summed, second))
    term = both + first + second
    return "".join(term), one.bmm(two).view([sizes[letter] for letter in term])
