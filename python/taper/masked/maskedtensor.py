"""Tensors that carry a mask: operators by element keep it, reductions leave out what it hides, and what moves elements moves the mask along."""
import taper
from taper.masked import _ops
from taper.overrides import DisableTorchFunctionSubclass

_REDUCTIONS = frozenset("sum mean prod amax amin argmax argmin var std norm".split())
_ALONG = frozenset("softmax log_softmax softmin cumsum cumprod".split())
_MOVES = frozenset("""
    reshape view expand expand_as unsqueeze squeeze __getitem__ select narrow index_select transpose permute t flatten unflatten cat stack chunk split unbind
    contiguous repeat gather flip roll movedim swapaxes T mT H mH""".split())
_KEEPS = frozenset("""
    abs absolute acos acosh add add_ angle asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clip clone conj copysign cos cosh deg2rad detach
    detach_ digamma div div_ divide double eq erf erfc erfinv exp exp2 expm1 fix float floor floor_divide fmax fmin fmod frac ge gt half bool int isnan le lgamma log log10 log1p log2
    logaddexp logical_and logical_not logical_or logical_xor logit long lt maximum minimum mul mul_ multiply nan_to_num ne neg negative nextafter pow rad2deg reciprocal
    remainder round rsqrt sigmoid sign sgn signbit sin sinc sinh sqrt square sub sub_ subtract tan tanh to true_divide trunc type where requires_grad_
    __add__ __radd__ __iadd__ __sub__ __isub__ __mul__ __rmul__ __imul__ __truediv__ __itruediv__ __floordiv__ __pow__ __neg__ __mod__ __eq__ __ne__ __lt__ __le__ __gt__
    __ge__ __and__ __or__ __xor__ __invert__""".split())
_PLAIN = frozenset("dim ndimension size stride numel nelement element_size is_floating_point is_complex is_contiguous item backward register_hook retain_grad __len__ data_ptr "
                   "storage_offset __hash__ __bool__ __float__ __int__ get_device".split())


def _same(a, b):
    return a is b or taper.equal(a, b)


def _data(x):
    return x.as_subclass(taper.Tensor) if isinstance(x, MaskedTensor) else type(x)(map(_data, x)) if isinstance(x, (list, tuple)) else x


def _masks(x):
    return x._mask if isinstance(x, MaskedTensor) else type(x)(map(_masks, x)) if isinstance(x, (list, tuple)) else x


def _given(x):
    """All masked tensors among the arguments."""
    if isinstance(x, MaskedTensor):
        yield x
    elif isinstance(x, (list, tuple)):
        for part in x:
            yield from _given(part)


def _wrap(data, mask):
    result = data.as_subclass(MaskedTensor)
    result._mask = mask
    return result


def _wrapped(data, masks):
    return _wrap(data, masks) if isinstance(data, taper.Tensor) else type(data)(map(_wrapped, data, masks))


class MaskedTensor(taper.Tensor):
    """Elements, and a mask that is true where they count."""

    @staticmethod
    def __new__(cls, data, mask, requires_grad=False):
        import warnings
        if isinstance(data, MaskedTensor) or not isinstance(data, taper.Tensor):
            raise TypeError("data must be a Tensor")
        if mask.dtype != taper.bool:
            raise TypeError("mask must have dtype bool.")
        if data.shape != mask.shape:
            raise ValueError("data.size() must equal mask.size()")
        warnings.warn("The PyTorch API of MaskedTensors is in prototype stage and will change in the near future. Please open a Github issue for feature requests and see "
                      "our documentation on the torch.masked module for further information about the project.", UserWarning, stacklevel=3)
        made = _wrap(data.detach().clone(), mask.detach().clone())
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
                return _wrapped(func(*_data(args), **kwargs), func(*_masks(args), **kwargs))
            if name in _KEEPS:
                if not all(_same(given[0]._mask, other._mask) for other in given[1:]):
                    raise ValueError("Input masks must match. If you need support for this, please open an issue on Github.")
                result = func(*_data(args), **{key: _data(value) for key, value in kwargs.items()})
                return _wrap(result, given[0]._mask.expand_as(result))
            if name in _PLAIN or not callable(getattr(taper.Tensor, name, callable)):
                return func(*_data(args), **kwargs)
        raise TypeError(f"no implementation found for '{name}' on types that implement __torch_function__: [{cls}]")

    @staticmethod
    def _reduced(name, self, args, kwargs):
        kwargs = {("keepdim" if key == "keepdims" else key): value for key, value in kwargs.items()}
        order = {"norm": ("ord", "dim", "keepdim"), "var": ("dim", "unbiased"), "std": ("dim", "unbiased"), "softmax": ("dim", "dtype"),
                 "log_softmax": ("dim", "dtype")}.get(name, ("dim", "keepdim"))
        kwargs.update(zip(order, args))
        if name == "norm" and "p" in kwargs:
            kwargs["ord"] = kwargs.pop("p")
        result = getattr(_ops, name)(_data(self), mask=self._mask, **kwargs)
        if name in _ALONG:
            return _wrap(result, self._mask)
        left = _ops.sum(self._mask.long(), kwargs.get("dim"), keepdim=kwargs.get("keepdim", False)) > 0
        return _wrap(result, left)

    def get_data(self):
        """The elements, those that are hidden too."""
        return _data(self).detach()

    def get_mask(self):
        return self._mask

    def is_sparse_coo(self):
        return False

    def is_sparse_csr(self):
        return False

    def to_tensor(self, value):
        """The elements, with a value where they are hidden."""
        return _data(self).masked_fill(~self._mask, value)

    def __repr__(self):
        data, mask = self.get_data(), self._mask
        form = "{0:8.4f}".format if data.is_floating_point() else str
        texts = [form(value) if seen else "--" for value, seen in zip(data.reshape(-1).tolist(), mask.reshape(-1).tolist())]
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
    return f"{pad}[\n" + ",\n".join(_rows(texts[i * step:(i + 1) * step], shape[1:], indent + 2) for i in range(shape[0])) + f"\n{pad}]"


def masked_tensor(data, mask, requires_grad=False):
    """A masked tensor of its own: a leaf."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data, mask):
    """A masked tensor whose gradient goes on to data."""
    if data.shape != mask.shape:
        raise ValueError("data.size() must equal mask.size()")
    return _wrap(data.view_as(data), mask)


def is_masked_tensor(obj, /):
    """Does it carry a mask?"""
    return isinstance(obj, MaskedTensor)
