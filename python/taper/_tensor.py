"""Those methods of Tensor that read best in Python. They join the C type when this file is imported."""

from collections import OrderedDict

from taper import _C, storage as _storage
from taper._C import Tensor
from taper._dlpack import _device_of, _export, from_dlpack
from taper._utils import (
    _get_obj_state,
    _rebuild_from_type_v2,
    _rebuild_meta_tensor_no_storage,
    _rebuild_tensor_v2,
    _rebuild_tensor_v3,
    _rebuild_wrapper_subclass,
)
from taper.storage import TypedStorage, _named, _on_storage, _words

Tensor.__module__ = "torch"
_rebuild_from_type_v2.__module__ = __name__  # where PyTorch has it, and files name it
Tensor.__array_priority__ = 1000  # NumPy leaves operators between an array and a tensor to the tensor


def _method(function):
    function.__qualname__ = f"Tensor.{function.__name__}"
    setattr(Tensor, function.__name__, function)
    return function


@_method
def _view_func(self, new_base, **visitors):
    """The same view of another tensor of the base's layout."""
    base = self._base
    return new_base.as_strided(
        self.shape, self.stride(), self.storage_offset() - base.storage_offset() + new_base.storage_offset()
    )


Tensor._view_func_unsafe = _view_func


@_method
def _rev_view_func_unsafe(self, new_view, **visitors):
    """The tensor that a view like this one would be of."""
    base = self._base
    return new_view.as_strided(
        base.shape, base.stride(), new_view.storage_offset() - self.storage_offset() + base.storage_offset()
    )


@_method
def __format__(self, spec):
    """A tensor without dimensions formats as the number it holds."""
    if self.dim() == 0 and type(self) is Tensor and not self.is_meta:
        return self.item().__format__(spec)
    return object.__format__(self, spec)


@_method
def __contains__(self, element):
    if isinstance(element, (Tensor, bool, int, float, complex)):
        return bool((element == self).any())
    raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")


@_method
def __reversed__(self):
    """The tensor with its first dimension reversed."""
    return self if self.dim() == 0 else self.flip(0)


@_method
def __dir__(self):
    names = set(dir(type(self)))
    names.update(self.__dict__)
    return sorted(names)


@_method
def __array_wrap__(self, array, context=None, return_scalar=False):
    """What NumPy's functions make of tensors becomes a tensor again."""
    if array.dtype == bool:
        array = array.astype("uint8")
    return _C.from_numpy(array if array.ndim else array.reshape(1)).reshape(array.shape)


@_method
def __dlpack__(self, *, stream=-1, max_version=None, dl_device=None, copy=None):
    """A DLPack capsule over the tensor's memory."""
    return _export(self, stream, max_version, dl_device, copy)


@_method
def __dlpack_device__(self):
    return _device_of(self)


# ---- What it is ----
Tensor.layout = property(lambda self: _C.strided, doc="How elements lie in memory: strided, the one layout there is.")
for _kind in "xla", "vulkan", "ipu", "maia", "mtia":
    setattr(Tensor, f"is_{_kind}", property(lambda self: False, doc="False: Taper has no such device."))
Tensor.const_data_ptr = Tensor.data_ptr


@_method
def is_distributed(self):
    return False


@_method
def is_nonzero(self):
    """The truth of a one-element tensor."""
    return bool(self)


@_method
def dim_order(self, *, ambiguity_check=False):
    """The dimensions from the one with the largest stride to the one with the smallest. ambiguity_check: an error where
    sizes of one leave it open; a list of memory formats: one of those, if only one fits."""
    formats = ambiguity_check if isinstance(ambiguity_check, (list, tuple)) else []
    if not isinstance(ambiguity_check, bool) and not (
        formats and all(isinstance(f, _C.memory_format) for f in formats)
    ):
        raise TypeError(
            f"The ambiguity_check argument must be a bool or a list of memory formats. Received: {ambiguity_check}"
        )
    order = tuple(sorted(range(self.dim()), key=lambda i: -self.stride(i)))
    strides = self.stride()
    if ambiguity_check is False or len(set(strides)) == self.dim() and 1 not in self.shape:
        return order
    fitting = [f for f in formats if self.is_contiguous(memory_format=f)]
    if len(fitting) == 1:
        standard = tuple(range(self.dim()))
        return standard if fitting[0] is _C.contiguous_format else (0, *standard[2:], 1)
    raise RuntimeError(
        "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats."
    )


def _sparse_only(name, kind):
    """A method that only sparse tensors have an answer for."""

    def method(self, *args, **kwargs):
        if kind is None:
            raise NotImplementedError(
                f"Could not run 'aten::{name}' with arguments from the 'CPU' backend. This could be because the "
                "operator doesn't exist for this backend."
            )
        raise RuntimeError(f"{name} expected sparse {kind}tensor layout but got Strided")

    method.__name__, method.__doc__ = name, "Of sparse tensors."
    return _for_layouts(method)


def _for_layouts(method):
    """A method that sparse tensors, which are of a class of their own, have in another form: torch.Tensor.values(x)
    finds it too."""
    from functools import wraps

    name = method.__name__

    @wraps(method)
    def found(self, *args, **kwargs):
        own = getattr(type(self), name, found)
        return method(self, *args, **kwargs) if own is found else own(self, *args, **kwargs)

    return _method(found)


for _kind, _names in (
    ("coordinate ", "coalesce is_coalesced indices"),
    ("", "values"),
    ("row compressed ", "crow_indices col_indices"),
    ("column compressed ", "ccol_indices row_indices"),
    (None, "_indices _values _nnz _dimI _dimV sparse_resize_ sparse_resize_and_clear_ _coalesced_"),
):
    for _name in _names.split():
        _sparse_only(_name, _kind)


@_for_layouts
def dense_dim(self):
    return self.dim()


@_for_layouts
def sparse_dim(self):
    return 0


@_for_layouts
def to_dense(self, dtype=None, *, masked_grad=True):
    """The tensor itself: it is dense already."""
    return self if dtype is None else self.to(dtype)


def _gone(name):
    """A method that PyTorch has taken away, and says so."""

    def method(self, *args, **kwargs):
        from taper import _native_names

        return getattr(_native_names, name)(self, *args, **kwargs)

    method.__name__, method.__doc__ = name, "Removed in PyTorch 1.9."
    return _method(method)


for _name in ("eig", "lstsq", "solve", "symeig"):
    _gone(_name)


@_method
def hash_tensor(self, dim=(), *, keepdim=False, mode=0):
    """The exclusive or of the elements' bits."""
    from taper._native_names import hash_tensor

    return hash_tensor(self, dim, keepdim=keepdim, mode=mode)


@_method
def to_mkldnn(self, dtype=None):
    """The tensor in oneDNN's layout."""
    from taper._opaque import to_mkldnn

    return to_mkldnn(self, dtype)


def _to_layout(self, layout, blocksize=None, dense_dim=None, sparse_dim=None, name="dense_to_sparse"):
    from taper.sparse import _layouts

    return _layouts.from_dense(self, sparse_dim, layout, blocksize, dense_dim, name)


@_for_layouts
def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """The elements that are not zero, as a sparse tensor."""
    return _to_layout(self, layout, blocksize, dense_dim, sparse_dim)


@_for_layouts
def to_sparse_coo(self):
    """As to_sparse, in coordinates."""
    return to_sparse(self)


@_for_layouts
def to_sparse_csr(self, dense_dim=None):
    """As to_sparse, row after row."""
    return _to_layout(self, _C.sparse_csr, None, dense_dim)


@_for_layouts
def to_sparse_csc(self, dense_dim=None):
    """As to_sparse, column after column."""
    return _to_layout(self, _C.sparse_csc, None, dense_dim)


@_for_layouts
def to_sparse_bsr(self, blocksize, dense_dim=None):
    """As to_sparse, blocks of a size, row after row."""
    return _to_layout(self, _C.sparse_bsr, blocksize, dense_dim)


@_for_layouts
def to_sparse_bsc(self, blocksize, dense_dim=None):
    """As to_sparse, blocks of a size, column after column."""
    return _to_layout(self, _C.sparse_bsc, blocksize, dense_dim)


@_for_layouts
def sparse_mask(self, mask):
    """The elements at the places that a sparse tensor stores."""
    from taper.sparse._layouts import mask_dense

    return mask_dense(self, mask)


@_for_layouts
def resize_as_sparse_(self, other):
    """In place, the sizes and the number of elements of another sparse tensor."""
    from taper.sparse._operators import resize_as

    return resize_as(self, other)


@_for_layouts
def sspaddmm(self, mat1, mat2, *, beta=1, alpha=1):
    """beta * self + alpha * (mat1 @ mat2), sparse."""
    from taper.sparse import _products

    return _products.sspaddmm(self, mat1, mat2, beta=beta, alpha=alpha)


@_method
def smm(self, mat):
    """self @ mat for a sparse matrix."""
    from taper.sparse import mm

    return mm(self, mat)


@_method
def float_power_(self, exponent):
    """In place; the tensor must have the dtype of the result, float64 or complex128."""
    made = self.float_power(exponent)
    if made.dtype != self.dtype:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {str(self.dtype)[6:]} but the operation's result requires "
            f"dtype {str(made.dtype)[6:]}"
        )
    return self.copy_(made)


@_method
def polygamma_(self, n):
    """In place."""
    before = self.clone() if self.requires_grad else self  # the derivative wants the numbers that are written over
    made = before.polygamma(n)
    if made.dtype != self.dtype:
        raise RuntimeError(f"result type {made.dtype} can't be cast to the desired output type {self.dtype}")
    return self.copy_(made)


# ---- Memory ----
@_method
def new_empty_strided(self, size, stride, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """An uninitialised tensor of this dtype in this place, with the strides given."""
    made = _C._functions["empty_strided"](
        size, stride, dtype=self.dtype if dtype is None else dtype, device=self.device if device is None else device
    )
    return made.requires_grad_() if requires_grad else made


@_method
def module_load(self, other, assign=False):
    """What Module.load_state_dict puts in this tensor's place: other itself, or this tensor with its values."""
    if _C._has_torch_function(self, other):
        from taper.overrides import handle_torch_function

        return handle_torch_function(Tensor.module_load, (self, other), self, other, assign=assign)
    return other.detach() if assign else self.copy_(other).detach()


@_method
def storage(self):
    """The memory under the tensor, as numbers of its dtype."""
    _storage._warn_typed_storage_removal()
    return self._typed_storage()


@_method
def _typed_storage(self):
    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype, _internal=True)


@_method
def storage_type(self):
    return next(t for t in _named.values() if t._dtype == self.dtype)


@_method
def _share(self):
    """Moves the tensor to memory that other processes can map, which is returned."""
    memory = _storage._share(self.untyped_storage())
    if memory is self.untyped_storage():
        return memory
    self.data = _on_storage(self.dtype, memory, self.storage_offset(), tuple(self.shape), self.stride())
    return memory


@_method
def share_memory_(self):
    """Moves the tensor to memory that other processes can look at too: child processes, and those it is sent to. A
    device's memory stays as it is."""
    if self.is_meta:
        raise RuntimeError("_share_fd_: only available on CPU")
    if not self.is_shared():
        if self.is_conj() or self.is_neg():  # the memory holds other values
            self.data = self.resolve_conj().resolve_neg()
        self._share()
    return self


@_method
def is_shared(self):
    """Is it in memory that other processes can look at? A device's counts as such, as in PyTorch."""
    return self.untyped_storage().is_shared() if self.is_cpu else not self.is_meta


@_method
def record_stream(self, stream):
    """The tensor's memory is used on the stream too: it is not handed out again before that is done."""
    from taper._gpu.streams import Stream

    if not isinstance(stream, Stream):
        raise RuntimeError("unknown parameter type")
    _C._record_stream(self, stream.stream_id)


def _cuda_array_interface(self):
    """The memory as Numba, CuPy and others read it; version 2 of the protocol."""
    if not self.is_cuda:
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {self.type()} If CUDA data is required use "
            "tensor.cuda() to copy tensor to device memory."
        )
    if self.requires_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't required, use "
            "var.detach() to get Variable that doesn't require grad."
        )
    kind = (
        "b"
        if self.dtype == _C.bool
        else "c"
        if self.dtype.is_complex
        else "f"
        if self.dtype.is_floating_point
        else "i"
        if self.dtype.is_signed
        else "u"
    )
    typestr = f"<{kind}{self.itemsize}" if self.dtype != _C.bfloat16 else "<V2"
    strides = None if self.is_contiguous() else tuple(s * self.itemsize for s in self.stride())
    return {
        "shape": tuple(self.shape),
        "typestr": typestr if self.itemsize > 1 else f"|{typestr[1:]}",
        "strides": strides,
        "data": (self.data_ptr() if self.numel() else 0, False),
        "version": 2,
    }


Tensor.__cuda_array_interface__ = property(_cuda_array_interface)


# ---- Python functions over elements ----
def _plain(tensor, name):
    if tensor.requires_grad:
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")


@_method
def apply_(self, callable):
    """Replaces each element x by callable(x). Slow."""
    _plain(self, "apply_")
    values = [callable(x) for x in self.reshape(-1).tolist()]
    for value in values:
        if isinstance(value, str):
            raise TypeError("must be real number, not str")
    return self.copy_(_C.tensor(values, dtype=self.dtype).reshape(self.shape))


@_method
def map_(self, tensor, callable):
    """Replaces each element x by callable(x, y), y from the other tensor. Slow."""
    _plain(self, "map_")
    if not isinstance(tensor, Tensor):
        raise TypeError(f"map_(): argument 'other' (position 1) must be Tensor, not {type(tensor).__name__}")
    _plain(tensor, "map_")
    others = tensor.expand_as(self).reshape(-1).tolist()
    values = [callable(x, y) for x, y in zip(self.reshape(-1).tolist(), others)]
    return self.copy_(_C.tensor(values, dtype=self.dtype).reshape(self.shape))


@_method
def map2_(self, x, y, callable):
    """Replaces each element a by callable(a, b, c), b and c from the other tensors. Slow."""
    for each in (self, x, y):
        _plain(each, "map2_")
    others = (t.expand_as(self).reshape(-1).tolist() for t in (x, y))
    values = [callable(*each) for each in zip(self.reshape(-1).tolist(), *others)]
    return self.copy_(_C.tensor(values, dtype=self.dtype).reshape(self.shape))


def _make_wrapper_subclass(cls, size, *args, **kwargs):
    """A tensor of a subclass that has a shape and no elements: its __torch_dispatch__ computes."""
    from taper._dispatch import make_wrapper_subclass

    return make_wrapper_subclass(cls, size, *args, **kwargs)


Tensor._make_wrapper_subclass = staticmethod(_make_wrapper_subclass)


@_method
def _fix_weakref(self):
    """Weak references are never out of order here."""


# ---- Copies ----
@_method
def __deepcopy__(self, memo):
    """A copy with its gradient and attributes; tensors that share memory share it in the copy too."""
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
        )
    if id(self) in memo:
        return memo[id(self)]
    from copy import deepcopy

    if _C._has_handler(self):  # what it consists of is the class's own affair
        copied = memo[id(self)] = self.detach().clone()
        if type(copied) is not type(self):
            raise RuntimeError(
                "The default implementation of __deepcopy__() for wrapper subclasses only works for subclass types "
                f"that properly implement clone(). Found type {type(self)} whose clone() gives {type(copied)}."
            )
        copied.requires_grad = self.requires_grad
        if self.grad is not None:
            copied.grad = deepcopy(self.grad, memo)
        _copy_attributes(self, copied, memo)
        return copied
    if self.is_conj() or self.is_neg():
        copied = self.detach().clone()
    else:
        memory = self.untyped_storage().__deepcopy__(memo)
        copied = _on_storage(self.dtype, memory, self.storage_offset(), tuple(self.shape), self.stride())
    if type(self) is not Tensor:
        copied = Tensor._make_subclass(type(self), copied)
    copied.requires_grad = self.requires_grad
    memo[id(self)] = copied
    if self.grad is not None:
        copied.grad = self.grad.__deepcopy__(memo)
    _copy_attributes(self, copied, memo)
    return copied


def _copy_attributes(self, copied, memo):
    """What a program has put on a tensor, in its __dict__ and in the __slots__ of its class."""
    from copy import deepcopy

    if self.__dict__:
        copied.__dict__.update(deepcopy(self.__dict__, memo))
    if type(self) is not Tensor:
        from copyreg import _slotnames

        for name in _slotnames(type(self)):
            if hasattr(self, name):
                setattr(copied, name, deepcopy(getattr(self, name), memo))


@_method
def _reduce_ex_internal(self, protocol):
    if _C._has_handler(self) and self.device.type != "meta" and self.untyped_storage().device.type == "meta":
        return _rebuild_wrapper_subclass, (
            type(self),
            self.dtype,
            tuple(self.size()),
            self.stride(),
            self.storage_offset(),
            self.layout,
            self.device,
            self.requires_grad,
        )
    if self.is_meta:
        return _rebuild_meta_tensor_no_storage, (self.dtype, tuple(self.shape), self.stride(), self.requires_grad)
    place = self.storage_offset(), tuple(self.shape), self.stride(), self.requires_grad, OrderedDict()
    marks = ({name: True for name in ("conj", "neg") if getattr(self, "is_" + name)()},)
    marks = marks if marks[0] else ()
    if self.dtype not in _words:  # PyTorch has no class of storages for it
        return _rebuild_tensor_v3, (self.untyped_storage(), *place, self.dtype, *marks)
    return _rebuild_tensor_v2, (self._typed_storage(), *place, *marks)


@_method
def __reduce_ex__(self, protocol):
    state = _get_obj_state(self)
    rebuild, arguments = Tensor._reduce_ex_internal(self, protocol)
    if type(self) is Tensor and not state:
        return rebuild, arguments
    return _rebuild_from_type_v2, (rebuild, None if type(self) is Tensor else type(self), arguments, state)


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None):
    """obj as a tensor: sharing memory with tensors, arrays, DLPack capsules and buffers unless copy is True."""
    if isinstance(obj, Tensor):
        tensor = obj
    elif (shared := _shared(obj, dtype, copy)) is not None:
        tensor = shared
    elif copy is False:
        raise ValueError("can't alias arbitrary sequence into a tensor.")
    else:
        return _C.tensor(obj, dtype=dtype, device=device, requires_grad=bool(requires_grad))
    default = _C.get_default_device()
    wanted_dtype, wanted_device = (
        dtype or tensor.dtype,
        _C.device(device) if device is not None else tensor.device if default.type == "cpu" else default,
    )
    if wanted_device.type != "cpu" and wanted_device.index is None:
        wanted_device = _C.device(wanted_device.type, _C._gpu_current(wanted_device.type))
    if copy is False and wanted_dtype != tensor.dtype:
        raise ValueError(f"can't alias tensor with dtype '{tensor.dtype}' into dtype '{wanted_dtype}'.")
    if copy is False and wanted_device != tensor.device:
        raise ValueError(f"can't alias tensor with device '{tensor.device}' into device '{wanted_device}'.")
    if requires_grad is None:
        requires_grad = tensor.requires_grad
    if copy or wanted_dtype != tensor.dtype or wanted_device != tensor.device:
        tensor = tensor.to(dtype=wanted_dtype, device=wanted_device, copy=True)
    if tensor.requires_grad and not requires_grad:
        return tensor.detach()
    if requires_grad and not tensor.requires_grad:
        return (tensor.detach() if tensor is obj else tensor).requires_grad_()
    return tensor


def _shared(obj, dtype, copy):
    """A tensor over obj's memory, or None if obj has none to share."""
    kind = type(obj)
    if kind.__module__ == "numpy" and hasattr(obj, "dtype"):
        if hasattr(obj, "__array_interface__") and kind.__name__ == "ndarray":
            return _C.from_numpy(obj)
        if copy is False:
            raise ValueError("can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray.")
        return _C.tensor(obj)
    if isinstance(obj, (TypedStorage, _C.UntypedStorage)):
        return _on_storage(dtype or getattr(obj, "dtype", _C.uint8), obj)
    if hasattr(obj, "__dlpack__") or kind.__name__ == "PyCapsule":
        return from_dlpack(obj)
    try:
        memoryview(obj)
    except (TypeError, BufferError):
        return None
    return _C.frombuffer(obj, dtype=dtype or _C.uint8)
