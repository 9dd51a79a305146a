"""Tensors that carry a mask: operators by element keep it, reductions leave out what it hides, and what moves elements
moves the mask along."""

import taper
from taper.masked import _ops
from taper.overrides import DisableTorchFunctionSubclass

# What PyTorch's masked tensors have; others they refuse. unary.py, binary.py and reductions.py have its public lists.
_REDUCTIONS = frozenset("sum mean prod amax amin argmax argmin var std norm all".split())
_ALONG = frozenset("softmax log_softmax softmin cumsum cumprod".split())
_MOVES = frozenset(
    """
    reshape view view_as expand expand_as unsqueeze squeeze __getitem__ select narrow index_select transpose permute t
    flatten unflatten cat stack chunk split unbind
    contiguous repeat gather flip roll movedim swapaxes T mT H mH unfold im2col""".split()
)
_OTHERS = frozenset(
    """
    bool clone conj copysign detach detach_ double float half int long logical_and logical_not logical_or logical_xor to
    type requires_grad_ square_
    __add__ __radd__ __iadd__ __sub__ __rsub__ __isub__ __mul__ __rmul__ __imul__ __truediv__ __rtruediv__ __itruediv__
    __floordiv__ __pow__ __neg__ __mod__ __eq__ __ne__
    __lt__ __le__ __gt__ __ge__ __and__ __or__ __xor__ __invert__""".split()
)
_PLAIN = frozenset(
    "dim ndimension size stride numel nelement element_size is_floating_point is_complex is_contiguous item backward "
    "register_hook retain_grad __len__ data_ptr storage_offset __hash__ __bool__ __float__ __int__ get_device".split()
)
_keeps = set()  # the operators by element; filled at the first call, since their lists name torch.ops


def _by_element(name):
    if not _keeps:
        from taper.masked.maskedtensor import binary, unary

        _keeps.update(
            _OTHERS, unary.UNARY_NAMES, unary.INPLACE_UNARY_NAMES, binary.BINARY_NAMES, binary.INPLACE_BINARY_NAMES
        )
    return name in _keeps


def _is_sparse(x):
    return x.layout is not taper.strided


def _raw(x):
    """The memory: the elements, or those that a sparse tensor stores."""
    if isinstance(x, MaskedTensor):
        return x.as_subclass(taper.Tensor)
    if isinstance(x, taper.Tensor) and _is_sparse(x):
        from taper.sparse._tensor import plain

        return plain(x)
    return type(x)(map(_raw, x)) if isinstance(x, (list, tuple)) else x


def _data(x):
    if isinstance(x, MaskedTensor):
        return x.as_subclass(taper.Tensor) if x._sparse is None else x._sparse._like(values=x.as_subclass(taper.Tensor))
    return type(x)(map(_data, x)) if isinstance(x, (list, tuple)) else x


def _masks(x):
    return x._mask if isinstance(x, MaskedTensor) else type(x)(map(_masks, x)) if isinstance(x, (list, tuple)) else x


def _given(x):
    """All masked tensors among the arguments."""
    if isinstance(x, MaskedTensor):
        yield x
    elif isinstance(x, (list, tuple)):
        for part in x:
            yield from _given(part)


def wrap(data, mask):
    """The masked tensor of these elements; sparse ones are its memory by what they store, and stay beside it as the
    form to give back."""
    result = _raw(data).as_subclass(MaskedTensor)
    result._mask, result._sparse = mask, data.detach() if _is_sparse(data) else None
    return result


def _wrapped(data, masks):
    return wrap(data, masks) if isinstance(data, taper.Tensor) else type(data)(map(_wrapped, data, masks))


def _tensors_match(a, b, exact=True, rtol=1e-05, atol=1e-08):
    """Are two tensors the same, or close where exact is False?"""
    if is_masked_tensor(a) or is_masked_tensor(b):
        raise ValueError("Neither `a` nor `b` can be a MaskedTensor.")
    if a.layout != b.layout:
        raise ValueError(f"`a` and `b` must have the same layout. Got {a.layout} and {b.layout}")
    a, b = a.to_dense(), b.to_dense()
    b = b.to(a.dtype)
    if exact:
        return a.shape == b.shape and bool((a == b).all())
    return a.shape == b.shape and taper.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True)


def _masks_match(a, b):
    """Do both hide the same elements? A plain tensor hides none that the other does not."""
    return not (is_masked_tensor(a) and is_masked_tensor(b)) or a._mask is b._mask or _tensors_match(a._mask, b._mask)


def check(data, mask):
    """Raises what PyTorch raises for elements and a mask that do not belong together."""
    if isinstance(data, MaskedTensor) or not isinstance(data, taper.Tensor):
        raise TypeError("data must be a Tensor")
    if isinstance(mask, MaskedTensor) or not isinstance(mask, taper.Tensor):
        raise TypeError("mask must be a Tensor")
    if data.layout != mask.layout:
        raise TypeError(f"data and mask must have the same layout. Got {data.layout} and {mask.layout}")
    if data.layout not in (taper.strided, taper.sparse_coo, taper.sparse_csr):
        raise TypeError(f"data layout of {data.layout} is not supported.")
    if data.layout is taper.sparse_coo and not taper.equal(data._indices(), mask._indices()):
        raise ValueError("data and mask are both sparse COO tensors but do not have the same indices.")
    if data.layout is taper.sparse_csr and not (
        taper.equal(data.crow_indices(), mask.crow_indices()) and taper.equal(data.col_indices(), mask.col_indices())
    ):
        raise ValueError("data and mask are both sparse CSR tensors but do not share either crow or col indices.")
    if mask.dtype != taper.bool:
        raise TypeError("mask must have dtype bool.")
    if data.dim() != mask.dim():
        raise ValueError("data.dim() must equal mask.dim()")
    if data.shape != mask.shape:
        raise ValueError("data.size() must equal mask.size()")


class MaskedTensor(taper.Tensor):
    """Elements, and a mask that is true where they count."""

    @staticmethod
    def __new__(cls, data, mask, requires_grad=False):
        import warnings

        check(data, mask)
        warnings.warn(
            "The PyTorch API of MaskedTensors is in prototype stage and will change in the near future. Please open "
            "a Github issue for feature requests and see our documentation on the torch.masked module for further "
            "information about the project.",
            UserWarning,
            stacklevel=3,
        )
        if data.requires_grad:
            warnings.warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. To avoid this, you "
                "can use data.detach().clone()",
                UserWarning,
                stacklevel=3,
            )
        if requires_grad and not (data.dtype.is_floating_point or data.dtype.is_complex):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        made = wrap(data.detach().clone(), mask.detach().clone())
        with DisableTorchFunctionSubclass():
            made.requires_grad = requires_grad
        return made

    def __init__(self, data, mask, requires_grad=False):
        pass

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        given = [*_given(args), *_given(tuple(kwargs.values()))]
        with DisableTorchFunctionSubclass():
            if name in _REDUCTIONS or name in _ALONG:
                return cls._reduced(name, given[0], args[1:], kwargs)
            if name in _MOVES:
                return _moved(func, name, args, kwargs)
            if name == "where":
                return wrap(
                    func(args[0], *_data(args[1:])),
                    func(
                        args[0], *(_masks(x) if isinstance(x, MaskedTensor) else taper.tensor(True) for x in args[1:])
                    ),
                )
            if _by_element(name):
                return _mapped(func, name, given, args, kwargs)
            if name in _PLAIN or not callable(getattr(taper.Tensor, name, callable)):
                return func(*_data(args), **kwargs)
        raise TypeError(
            f"Multiple dispatch failed for 'torch._ops.aten.{name}.default'; all __torch_dispatch__ handlers returned "
            "NotImplemented:\n\n"
            f"  - tensor subclass {cls}\n"
        )

    @staticmethod
    def _reduced(name, self, args, kwargs):
        kwargs = {("keepdim" if key == "keepdims" else key): value for key, value in kwargs.items()}
        order = {
            "norm": ("ord", "dim", "keepdim"),
            "var": ("dim", "unbiased"),
            "std": ("dim", "unbiased"),
            "softmax": ("dim", "dtype"),
            "log_softmax": ("dim", "dtype"),
        }.get(name, ("dim", "keepdim"))
        kwargs.update(zip(order, args))
        if name == "norm" and "p" in kwargs:
            kwargs["ord"] = kwargs.pop("p")
        data, mask = _data(self), self._mask
        if self._sparse is not None and name in ("argmax", "argmin"):  # counted among all elements
            data, mask = data.to_dense(), mask.to_dense()
        elif self._sparse is not None and kwargs.get("dim") is None:  # of all elements: of those that are stored
            data, mask = _raw(self), mask.values()
        result = (
            _ops._all(data, mask=mask, **kwargs) if name == "all" else getattr(_ops, name)(data, mask=mask, **kwargs)
        )
        if name in _ALONG:
            return wrap(result, mask)
        return wrap(
            result,
            _ops._output_mask(_ops.sum, data, kwargs.get("dim"), keepdim=kwargs.get("keepdim", False), mask=mask),
        )

    # ---- What it is: a sparse one's memory has another shape ----
    @property
    def shape(self):
        return taper.Tensor.shape.__get__(self) if self._sparse is None else self._sparse.shape

    @property
    def layout(self):
        return taper.strided if self._sparse is None else self._sparse.layout

    @property
    def ndim(self):
        return len(self.shape)

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def dim(self):
        return len(self.shape)

    def is_contiguous(self, memory_format=taper.contiguous_format):
        if self._sparse is not None:
            raise ValueError("MaskedTensors with sparse data do not have is_contiguous")
        return _data(self).is_contiguous()

    def contiguous(self, memory_format=taper.contiguous_format):
        if self._sparse is not None:
            raise ValueError(
                "MaskedTensors with sparse data do not have contiguous; is_contiguous: MaskedTensors with sparse "
                "data do not have is_contiguous"
            )
        return wrap(_data(self).contiguous(), self._mask.contiguous())

    @property
    def grad(self):
        raw = taper.Tensor.grad.__get__(self)
        return None if raw is None else self._grad_in_form(raw)

    def _grad_in_form(self, raw):
        """The tape's gradient, of the memory, with the mask."""
        raw = raw.as_subclass(taper.Tensor)
        return wrap(raw if self._sparse is None else self._sparse._like(values=raw), self._mask)

    @grad.setter
    def grad(self, value):
        taper.Tensor.grad.__set__(self, _raw(value))

    def get_data(self):
        """The elements, those that are hidden too."""
        return _data(self).detach()

    def get_mask(self):
        return self._mask

    def is_sparse_coo(self):
        return self.layout is taper.sparse_coo

    def is_sparse_csr(self):
        return self.layout is taper.sparse_csr

    @property
    def is_sparse(self):
        return self.is_sparse_coo() or self.is_sparse_csr()

    # ---- Other forms ----
    def to_tensor(self, value):
        """The elements, with a value where they are hidden."""
        return _data(self).to_dense().masked_fill(~self._mask.to_dense(), value)

    def to_dense(self, dtype=None):
        return wrap(_data(self).to_dense(), self._mask.to_dense())

    def to_sparse(self, *, layout=None):
        return self._in_layout(layout or taper.sparse_coo)

    to_sparse_coo = to_sparse

    def to_sparse_csr(self):
        return self._in_layout(taper.sparse_csr)

    def _in_layout(self, layout):
        if self.layout is layout:
            return self
        mask = self._mask.to_sparse(layout=layout)
        return wrap(_data(self).sparse_mask(mask), mask)

    def _is_any_true(self):
        data = _data(self).to_dense()
        if data.dtype != taper.bool:
            raise ValueError(f"_is_any_true: expected a boolean tensor, got {data.dtype}")
        return wrap((data & self._mask.to_dense()).any(), taper.tensor(True))

    def tolist(self):
        raise RuntimeError(".tolist() is not supported for tensor subclasses, got MaskedTensor")

    def __repr__(self):
        data, mask = self.get_data().to_dense(), self._mask.to_dense()
        form = "{0:8.4f}".format if data.is_floating_point() else str
        texts = [
            form(value) if seen else "--" for value, seen in zip(data.reshape(-1).tolist(), mask.reshape(-1).tolist())
        ]
        if not data.ndim:
            return f"MaskedTensor({texts[0]}, {mask.item()})"
        width = max(8, *map(len, texts)) if texts else 8
        texts = [text.rjust(width) if text == "--" else text for text in texts]
        return "MaskedTensor(\n" + _rows(texts, data.shape, 2) + "\n)"

    __str__ = __repr__


def _rows(texts, shape, indent):
    pad = " " * indent
    if len(shape) == 1:
        return f"{pad}[{', '.join(texts)}]"
    step = len(texts) // shape[0] if shape[0] else 0
    return (
        f"{pad}[\n"
        + ",\n".join(_rows(texts[i * step : (i + 1) * step], shape[1:], indent + 2) for i in range(shape[0]))
        + f"\n{pad}]"
    )


def _mapped(func, name, given, args, kwargs):
    """An operator by element: on the memory, of tensors with the same mask."""
    if not all(_masks_match(given[0], other) for other in given[1:]):
        raise ValueError("Input masks must match. If you need support for this, please open an issue on Github.")
    first = given[0]
    raw = func(*_raw(args), **{key: _raw(value) for key, value in kwargs.items()})
    if name.endswith("_") and not name.endswith("__") or name.startswith("__i") and name != "__invert__":
        return first
    device = raw.device
    mask = first._mask if first._mask.device == device else first._mask.to(device)
    if first._sparse is not None:
        return wrap(first._sparse.to(device)._like(values=raw), mask)
    return wrap(raw, mask.expand_as(raw))


def _moved(func, name, args, kwargs):
    """What moves elements moves the mask along; columns of an image (nn.functional.unfold) are made of numbers, so the
    mask becomes some."""
    masks = _masks(args)
    if name == "im2col":
        return wrap(func(*_data(args), **kwargs), func(masks[0].float(), *masks[1:], **kwargs) != 0)
    return _wrapped(func(*_data(args), **kwargs), func(*masks, **kwargs))


def is_masked_tensor(obj, /):
    """Does it carry a mask?"""
    return isinstance(obj, MaskedTensor)
