"""What stands in torch itself beside the operators: settings, seeds, and functions whose signature is wider than their
operator's."""

import math as _math
from builtins import range as _count  # torch.range takes the name below

from taper import _C
from taper._C import _functions as _op
from taper._C import Tensor, Size
from taper.autograd.grad_mode import no_grad as _no_grad

pi, e, inf, nan, newaxis = _math.pi, _math.e, _math.inf, _math.nan, None
legacy_contiguous_format = _C.contiguous_format
has_lapack = has_openmp = has_spectral = True
has_mkl = has_mps = False


def is_tensor(obj):
    """True if obj is a tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj):
    """True if obj is a storage."""
    return type(obj).__name__ in ("UntypedStorage", "TypedStorage") or type(obj).__name__.endswith("Storage")


def is_floating_point(input):
    return input.is_floating_point()


def is_complex(input):
    return input.is_complex()


def is_signed(input):
    return input.is_signed()


def is_nonzero(input):
    """The truth of a one-element tensor."""
    return bool(input)


def is_conj(input):
    return input.is_conj()


def is_neg(input):
    return False


def is_inference(input):
    return input.is_inference()


def numel(input):
    """The number of elements."""
    if not isinstance(input, Tensor):
        raise TypeError(f"numel(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return input.numel()


def get_device(input):
    return input.get_device()


def typename(obj):
    """The name of an object's type, with a tensor's element type as in 'torch.FloatTensor'."""
    if isinstance(obj, Tensor):
        return obj.type()
    module = type(obj).__module__
    return type(obj).__qualname__ if module in ("builtins", "") else f"{module}.{type(obj).__qualname__}"


# ---- Random numbers ----
def manual_seed(seed):
    """Sets the seed of the default generators of the CPU and of all devices; returns the CPU's."""
    _C._manual_seed(int(seed))
    return _C.default_generator


def seed():
    """Sets the default generators' seed to a random number and returns it."""
    number = _C.default_generator.seed()
    _C._manual_seed(number)
    return number


def initial_seed():
    return _C.default_generator.initial_seed()


def get_rng_state():
    return _C.default_generator.get_state()


def set_rng_state(new_state):
    _C.default_generator.set_state(new_state)


class _ForkRng:
    """with torch.random.fork_rng(): the states of the CPU's generator and of devices' (all, unless given) are as before
    when the block ends."""

    def __init__(self, devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type="cuda"):
        self.enabled, self.kind = enabled, device_type
        self.devices = devices

    def _generators(self):
        if self.kind not in ("cuda", "xpu"):
            return []
        from taper._gpu.devices import index_of

        devices = (
            _count(_C._gpu_count(self.kind))
            if self.devices is None
            else [index_of(self.kind, device) for device in self.devices]
        )
        return [_C._default_generator_of(self.kind, index) for index in devices]

    def __enter__(self):
        if self.enabled:
            self.states = [
                (generator, generator.get_state()) for generator in (_C.default_generator, *self._generators())
            ]

    def __exit__(self, *error):
        if self.enabled:
            for generator, state in self.states:
                generator.set_state(state)


fork_rng = _ForkRng


def _check_vmap_draw(*parameters):
    """Inside torch.vmap: may slices draw from a distribution whose parameters are batches?"""
    from taper.overrides import _vmaps

    if _vmaps.sizes:
        from taper._batched import Batched, check_same_randomness, refuse_randomness

        if any(isinstance(t, Batched) for t in parameters):
            check_same_randomness(parameters)
            refuse_randomness()


def normal(
    mean,
    std=1.0,
    size=None,
    *,
    generator=None,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=None,
    requires_grad=False,
    out=None,
):
    """Normal numbers; mean and std are tensors or numbers, the size is asked for if both are numbers."""
    _check_vmap_draw(mean, std)
    if size is not None:
        if isinstance(mean, Tensor) or isinstance(std, Tensor):
            raise TypeError("normal(): size is for a mean and a std that are numbers")
        size = [size] if isinstance(size, int) else list(size)
        result = _op["normal"](float(mean), float(std), size, generator=generator, dtype=dtype, device=device)
    else:
        if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
            raise TypeError("normal(): expected a tensor for mean or std, or a size")
        shape = _op["broadcast_tensors"]([x.detach() for x in (mean, std) if isinstance(x, Tensor)])[0].shape
        like = mean if isinstance(mean, Tensor) else std
        if isinstance(std, Tensor) and not std.is_complex() and std.numel() and bool((std < 0).any()):
            raise RuntimeError("normal expects all elements of std >= 0.0")
        noise = _op["empty"](shape, dtype=like.dtype, device=like.device).normal_(generator=generator)
        with _no_grad():
            result = noise.mul_(std).add_(mean)
    if requires_grad:
        result.requires_grad_()
    return result if out is None else _put_into(out, result)


def _put_into(out, result):
    """The result in the tensor that was given for it, which takes its shape."""
    if out.numel() and out.shape != result.shape:
        import warnings

        warnings.warn(
            f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does not "
            f"match the required output shape {list(result.shape)}. This behavior is deprecated, and in a future "
            "PyTorch release outputs will not be resized unless they have zero elements. You can explicitly reuse an "
            "out tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
            stacklevel=3,
        )
    return out.resize_(result.shape).copy_(result)


def bernoulli(input, p=None, *, generator=None, out=None):
    """Ones with the probabilities of input, or with p."""
    result = _op["bernoulli"](input, *(() if p is None else (p,)), generator=generator)
    return result if out is None else _put_into(out, result)


# ---- Settings ----
_float32_precision = "highest"


def get_float32_matmul_precision():
    return _float32_precision


def set_float32_matmul_precision(precision):
    """How exact float32 products must be: 'highest', 'high' or 'medium'. The CPU's are always 'highest'; GPUs may use
    TF32 for the others."""
    global _float32_precision
    if precision not in ("highest", "high", "medium"):
        import warnings

        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current setFloat32MatmulPrecision call "
            "has no effect.",
            stacklevel=2,
        )
        return
    _float32_precision = precision
    _C._gpu_turn("matmul_tf32", precision != "highest")


def get_device_module(device=None):
    """The module of a device's type: torch.cpu, torch.cuda, ... Without one: that of the accelerator, or the CPU's."""
    from importlib import import_module

    if device is None:
        from taper.accelerator import current_accelerator

        name = getattr(current_accelerator(), "type", "cpu")
    elif isinstance(device, (str, _C.device)):
        name = (
            _C.device(device).type
            if isinstance(device, str) and device not in ("mps", "meta")
            else str(getattr(device, "type", device))
        )
    else:
        raise RuntimeError(f"Invalid value of 'device': expect torch.device, str, or None, got {type(device)}")
    if name not in ("cpu", "cuda", "xpu", "mps"):
        raise RuntimeError(f"Device '{name}' does not have a corresponding module registered as 'torch.{name}'.")
    return import_module("taper." + name)


_deterministic_warn_only = False  # kept while the algorithms are off, as PyTorch does


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Asks for algorithms that give the same bits each time. On the CPU all of Taper's do."""
    for name, value, place in (("mode", mode, " (position 1)"), ("warn_only", warn_only, "")):
        if not isinstance(value, bool):
            raise TypeError(
                f"_set_deterministic_algorithms(): argument '{name}'{place} must be bool, not {type(value).__name__}"
            )
    global _deterministic_warn_only
    _deterministic_warn_only = bool(warn_only)
    _C._set_deterministic(0 if not mode else 1 if warn_only else 2)


def are_deterministic_algorithms_enabled():
    return _C._get_deterministic() != 0


def is_deterministic_algorithms_warn_only_enabled():
    return _deterministic_warn_only


def set_deterministic_debug_mode(debug_mode):
    level = {"default": 0, "warn": 1, "error": 2}.get(debug_mode, debug_mode)
    if level not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1, 2, 'default', 'warn' or 'error', but got {debug_mode}"
        )
    use_deterministic_algorithms(level != 0, warn_only=level == 1)


def get_deterministic_debug_mode():
    return _C._get_deterministic()


_warn_always = False


def set_warn_always(b):
    global _warn_always
    _warn_always = bool(b)


def is_warn_always_enabled():
    return _warn_always


def set_flush_denormal(mode):
    """Not changed by Taper: subnormal numbers are kept."""
    return False


def set_default_tensor_type(t):
    """The old way to set the default dtype and device: torch.set_default_tensor_type(torch.cuda.DoubleTensor)."""
    import warnings

    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives.",
        stacklevel=2,
    )
    name = t if isinstance(t, str) else getattr(t, "__name__", str(t))
    kinds = {
        "FloatTensor": _C.float32,
        "DoubleTensor": _C.float64,
        "HalfTensor": _C.float16,
        "BFloat16Tensor": _C.bfloat16,
    }
    dtype = kinds.get(name.rsplit(".", 1)[-1])
    if dtype is None:
        raise TypeError(f"invalid type object: only floating-point types are supported as the default type, got {name}")
    place = name.split(".")[-2] if "." in name else str(getattr(t, "__module__", "torch")).rpartition(".")[2]
    _C.set_default_device(place if place in ("cuda", "xpu") else None)
    _C.set_default_dtype(dtype)


def compiled_with_cxx11_abi():
    return True


# ---- Shapes and dtypes ----
def broadcast_shapes(*shapes):
    """The shape that tensors of these shapes have together."""
    result = []
    for shape in shapes:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if any(n < 0 for n in shape):
            raise ValueError(f"Attempting to broadcast a dimension with negative length! {list(shape)}")
        longer, shorter = (result, shape) if len(result) >= len(shape) else (list(shape), result)
        for i in _count(1, len(shorter) + 1):
            a, b = longer[-i], shorter[-i]
            if a != b and a != 1 and b != 1:
                raise RuntimeError(
                    "Shape mismatch: objects cannot be broadcast to a single shape; "
                    f"expected shape should be broadcastable to {list(longer)}, got {list(shorter)}"
                )
            longer[-i] = b if a == 1 else a
        result = longer
    return Size(result)


def result_type(tensor1, tensor2):
    """The dtype of arithmetic on the two; numbers and zero-dimensional tensors are weak."""
    a = tensor1 if isinstance(tensor1, Tensor) else None
    b = tensor2 if isinstance(tensor2, Tensor) else None
    empty_a = (
        _op["empty"]((0,) * a.dim() if a is not None and a.dim() else (), dtype=a.dtype, device="cpu")
        if a is not None
        else type(tensor1)()  # a number of its kind that fits everywhere
    )
    empty_b = (
        _op["empty"]((0,) * b.dim() if b is not None and b.dim() else (), dtype=b.dtype, device="cpu")
        if b is not None
        else type(tensor2)()
    )
    if a is None and b is None:
        empty_a, empty_b = _C.tensor(tensor1, device="cpu"), _C.tensor(tensor2, device="cpu")
    return _op["where"](
        _op["zeros"]((), dtype=_C.bool, device="cpu"), empty_a, empty_b
    ).dtype  # which takes every dtype


# ---- Functions around operators ----
def _tensor_list(tensors):
    return list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)


def broadcast_tensors(*tensors):
    """Expanded to one shape together; those that have it already are themselves."""
    tensors = _tensor_list(tensors)
    return tuple(
        old if isinstance(old, Tensor) and old.shape == new.shape else new
        for old, new in zip(tensors, _op["broadcast_tensors"](tensors))
    )


_meshgrid_told = False


def meshgrid(*tensors, indexing=None):
    """Grids of coordinates from one-dimensional tensors."""
    global _meshgrid_told
    if indexing is None and not _meshgrid_told:
        import warnings

        _meshgrid_told = True
        warnings.warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.", stacklevel=2
        )
    return _op["meshgrid"](_tensor_list(tensors), indexing="ij" if indexing is None else indexing)


def cartesian_prod(*tensors):
    return _op["cartesian_prod"](_tensor_list(tensors))


def block_diag(*tensors):
    return _op["block_diag"](_tensor_list(tensors))


def _atleast(name):
    operator = _op[name]

    def function(*tensors):
        if len(tensors) == 1 and not isinstance(tensors[0], (list, tuple)):
            return operator(tensors[0])
        return tuple(operator(t) for t in _tensor_list(tensors))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = operator.__doc__
    return function


atleast_1d, atleast_2d, atleast_3d = _atleast("atleast_1d"), _atleast("atleast_2d"), _atleast("atleast_3d")


def einsum(equation, *operands):
    """Sums of products by index letters: einsum('ij,jk->ik', a, b), or with lists of indices after each operand."""
    if isinstance(equation, str):
        return _op["einsum"](equation, _tensor_list(operands))
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    spell = lambda axes: "".join("..." if axis is Ellipsis else letters[axis] for axis in axes)
    given = [equation, *operands]
    text = ",".join(spell(axes) for axes in given[1 : len(given) // 2 * 2 : 2])
    if len(given) % 2:
        text += "->" + spell(given[-1])
    return _op["einsum"](text, given[0 : len(given) // 2 * 2 : 2])


def tensordot(a, b, dims=2, out=None):
    """Contracts dims of a with dims of b: how many, a pair of lists, or a tensor of such."""
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        dims_a, dims_b = list(_count(a.dim() - dims, a.dim())), list(_count(dims))
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
    else:
        dims_a, dims_b = dims
        dims_a, dims_b = (
            [dims_a] if isinstance(dims_a, int) else list(dims_a),
            [dims_b] if isinstance(dims_b, int) else list(dims_b),
        )
    return _op["tensordot"](a, b, dims_a, dims_b) if out is None else _op["tensordot"](a, b, dims_a, dims_b, out=out)


def _pick_unique(results, return_inverse, return_counts):
    output, inverse, counts = results
    wanted = (output,) + ((inverse,) if return_inverse else ()) + ((counts,) if return_counts else ())
    return wanted if len(wanted) > 1 else output


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different elements (or slices along dim), with what else is asked for."""
    operator = (
        _op["unique"](input, sorted, return_inverse, return_counts)
        if dim is None
        else _op["unique_dim"](input, dim, sorted, return_inverse, return_counts)
    )
    return _pick_unique(operator, return_inverse, return_counts)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """Runs of equal elements reduced to one each."""
    return _pick_unique(
        _op["unique_consecutive"](input, return_inverse, return_counts, dim), return_inverse, return_counts
    )


class _HistogramDD(tuple):
    """torch.return_types.histogramdd."""

    hist = property(lambda self: self[0])
    bin_edges = property(lambda self: self[1])

    def __repr__(self):
        return f"torch.return_types.histogramdd(\nhist={self[0]!r},\nbin_edges={self[1]!r})"


def histogramdd(input, bins, *, range=None, weight=None, density=False, out=None):
    """Counts of points (..., n) in n dims: the counts, and the bins' edges for each dim."""
    if isinstance(bins, int):
        bins = [bins] * input.shape[-1]
    edges = (
        list(bins)
        if len(bins) and isinstance(bins[0], Tensor)
        else _op["_histogramdd_bin_edges"](input, bins, range, weight, density)
    )
    hist = _op["_histogramdd_from_bin_tensors"](input, edges, weight, density)
    return _HistogramDD((hist, tuple(edges)))


def split(tensor, split_size_or_sections, dim=0):
    """Pieces of one size, the last may be shorter, or of the given sizes."""
    return _op["split"](tensor, split_size_or_sections, dim)


def _split_method(self, split_size, dim=0):
    """Pieces of one size, the last may be shorter, or of the given sizes."""
    return _op["split"](self, split_size, dim)


_split_method.__name__, _split_method.__qualname__ = (
    "split",
    "Tensor.split",
)  # its argument has another name than torch.split's


def tensor_split(input, indices_or_sections, dim=0):
    """Parts of nearly equal size, or cut at the given indices."""
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    return _op["tensor_split"](input, indices_or_sections, dim)


def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """The norm of a tensor or along dims; torch.linalg has the newer ones."""
    if isinstance(p, str) and p == "fro" and (dim is None or isinstance(dim, int) or len(dim) <= 2):
        result = _op["norm"](input, 2.0, dim, keepdim, dtype=dtype)
    elif p is None:
        result = _op["norm"](input, 2.0, dim, keepdim, dtype=dtype)
    else:
        result = _op["norm"](input, p, dim, keepdim, dtype=dtype)
    return result if out is None else _put_into(out, result)


def chain_matmul(*matrices, out=None):
    """The product of the matrices, multiplied in the cheapest order."""
    _warn(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use "
        "torch.linalg.multi_dot instead, which accepts a list of two or more tensors rather than multiple parameters."
    )
    return (
        _op["linalg_multi_dot"](_tensor_list(matrices))
        if out is None
        else _op["linalg_multi_dot"](_tensor_list(matrices), out=out)
    )


def lu(A, pivot=True, get_infos=False, out=None):
    """The LU factors in one matrix, and the pivots."""
    result = _op["linalg_lu_factor_ex"](A, pivot=pivot)
    return tuple(result) if get_infos else tuple(result)[:2]


_warned = set()


def _warn(text):
    """Warns once, or always where set_warn_always says so."""
    if text not in _warned or is_warn_always_enabled():
        import warnings

        _warned.add(text)
        warnings.warn(text, stacklevel=3)


def stft(
    input,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    pad_mode="reflect",
    normalized=False,
    onesided=None,
    return_complex=None,
    align_to_window=None,
):
    """The short-time Fourier transform."""
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    if window is None:
        _warn(
            "A window was not provided. A rectangular window will be applied, which is known to cause spectral "
            "leakage. Other windows such as torch.hann_window or torch.hamming_window are recommended to reduce "
            "spectral leakage."
        )
    if return_complex is False and not input.is_complex():
        _warn(
            "stft with return_complex=False is deprecated. In a future pytorch release, stft will return complex "
            "tensors for all inputs, and return_complex=False will raise an error."
        )
    return _op["stft"](
        input, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex
    )


def istft(
    input,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    normalized=False,
    onesided=None,
    length=None,
    return_complex=False,
):
    """The inverse of stft."""
    result = _op["istft"](
        input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex
    )
    if window is None:
        _warn(
            "A window was not provided. A rectangular window will be applied. Please provide the same window used by "
            "stft to make the inversion lossless."
        )
    hop, middle = n_fft // 4 if hop_length is None else hop_length, n_fft // 2 if center else 0
    if length is not None and middle + length > n_fft + hop * (input.shape[-1] - 1):
        _warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the "
            "tail. Please check your center and hop_length settings."
        )
    return result


def _between(name):
    operator = _op[name]

    def function(start, end, steps=None, *rest, **options):
        dims = [
            f"{which} with {value.dim()} dimension(s)"
            for which, value in (("start", start), ("end", end))
            if isinstance(value, Tensor)
        ]
        if any(isinstance(value, Tensor) and value.dim() for value in (start, end)):
            raise RuntimeError(
                f"{name} only supports 0-dimensional start and end tensors, but got {' and '.join(dims)}."
            )
        start, end = (  # a factory's result is on no tape
            value.detach() if isinstance(value, Tensor) and value.requires_grad else value for value in (start, end)
        )
        return operator(start, end, *([] if steps is None else [steps]), *rest, **options)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = operator.__doc__
    return function


linspace, logspace = _between("linspace"), _between("logspace")


def multinomial(input, num_samples, replacement=False, *, generator=None, out=None):
    """Indices drawn by the weights of each row."""
    if out is None:
        return _op["multinomial"](input, num_samples, replacement, generator=generator)
    if out.dtype is not _C.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype}")
    return _op["multinomial"](input, num_samples, replacement, generator=generator, out=out)


multinomial.__doc__ = _op["multinomial"].__doc__


def complex(real, imag, *, out=None):
    """Numbers of the real and imaginary parts given."""
    if out is None:
        return _op["complex"](real, imag)
    result = _op["complex"](real, imag)
    if out.dtype is not result.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {result.dtype} but got scalar type {out.dtype} for argument 'out'"
        )
    return _op["complex"](real, imag, out=out)


def unravel_index(indices, shape):
    """Flat indices as one index per dim."""
    if not isinstance(shape, (int, tuple, list)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    if not isinstance(shape, int) and (other := next((n for n in shape if not isinstance(n, int)), None)) is not None:
        raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(other)}")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if indices.dtype in (_C.float32, _C.float64, _C.float16, _C.bfloat16, _C.bool) or indices.is_complex():
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if any(n < 0 for n in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {shape}")
    total, indices = _math.prod(shape), indices.long()
    if indices.numel() and bool(((indices < -total) | (indices >= total)).any()):
        raise ValueError(f"all indices must be within [{-total}, {total}) for a shape of {shape}")
    parts, rest = [], indices
    for n in reversed(shape):
        parts.append(rest % n)
        rest = rest // n
    return tuple(reversed(parts))


def range(start=0, end=None, step=1, **options):
    """Numbers from start to end, both included; arange is what to use."""
    if end is None:
        start, end = 0, start
    return _op["range"](start, end, step, **options)


def svd_lowrank(A, q=6, niter=2, M=None):
    """A low-rank singular value decomposition from random projections."""
    q = 6 if q is None else q
    m, n = A.shape[-2:]
    target = A if M is None else A - M
    wide = m < n
    target = target.mH if wide else target
    basis = _op["linalg_qr"](
        target @ _op["randn"](*target.shape[:-2], target.shape[-1], q, dtype=A.dtype, device=A.device)
    )[0]
    for _ in [None] * niter:
        basis = _op["linalg_qr"](target.mH @ basis)[0]
        basis = _op["linalg_qr"](target @ basis)[0]
    U, S, Vh = _op["linalg_svd"](basis.mH @ target, False)
    U, V = basis @ U, Vh.mH
    return (V, S, U) if wide else (U, S, V)


def pca_lowrank(A, q=None, center=True, niter=2):
    """Principal components: the low-rank SVD of the centred matrix."""
    m, n = A.shape[-2:]
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    return svd_lowrank(A - A.mean(dim=-2, keepdim=True) if center else A, q, niter=niter)


def nonzero(input, *, out=None, as_tuple=False):
    """Where the elements are that are not zero: one row each, or one tensor per dim."""
    if as_tuple and out is not None:
        raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
    if out is not None and out.dtype is not _C.int64:
        raise RuntimeError(f"nonzero: Expected out tensor to have scalar type Long but got scalar type {out.dtype}")
    if as_tuple:
        return _op["where"](input) if input.dim() else _op["where"](input.unsqueeze(0))
    return _op["nonzero"](input) if out is None else _op["nonzero"](input, out=out)


def _rdiv(self, other):
    """other / self."""
    return self.reciprocal() * other


# Python 2's names, still called by some.
Tensor.__div__, Tensor.__idiv__, Tensor.__rdiv__ = Tensor.__truediv__, Tensor.__itruediv__, _rdiv

# Methods whose signature is as wide.
for _function in (
    unique,
    unique_consecutive,
    _split_method,
    tensor_split,
    norm,
    lu,
    stft,
    istft,
    nonzero,
):
    setattr(Tensor, _function.__name__, _function)
del _function

# The in-place functions that torch itself has.
for _name in (
    "abs_ acos_ acosh_ addmv_ alpha_dropout_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ as_strided_ asin_ "
    "asinh_ atan_ atanh_ ceil_ celu_ clamp_ clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_ dropout_ "
    "embedding_renorm_ erf_ erfc_ exp2_ exp_ expm1_ feature_alpha_dropout_ feature_dropout_ fill_ fix_ floor_ frac_ "
    "gcd_ i0_ index_put_ lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ "
    "relu_ round_ rrelu_ rsqrt_ selu_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ threshold_ trunc_ xlogy_ "
    "zero_"
).split():
    if _name in _op:
        globals()[_name] = _op[_name]
del _name


_SEGMENTS = {
    "sum": ("sum", 0.0),
    "mean": ("sum", 0.0),
    "max": ("amax", -_math.inf),
    "amax": ("amax", -_math.inf),
    "min": ("amin", _math.inf),
    "amin": ("amin", _math.inf),
    "prod": ("prod", 1.0),
}


def segment_reduce(data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    """Reduces runs of data along axis, each `lengths` long or from one of `offsets` to the next; the dims before axis
    have runs of their own."""
    if reduce not in _SEGMENTS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    lengths = offsets.diff(dim=-1) if lengths is None else lengths
    axis = axis % data.dim()
    if not unsafe and (lengths < 0).any():
        raise RuntimeError("lengths contains negative value!")
    if not unsafe and (lengths.sum(-1) != data.shape[axis]).any():
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
            "!unsafe."
        )
    name, start = _SEGMENTS[reduce]
    rest = tuple(data.shape[axis + 1 :])
    counts = lengths.flatten()
    place = (
        _op["repeat_interleave"](_op["arange"](counts.numel(), device=counts.device), counts)
        .view((-1,) + (1,) * len(rest))
        .expand((-1,) + rest)
    )
    result = data.new_full((counts.numel(),) + rest, start if initial is None else initial)
    flat = data.flatten(0, axis)
    if unsafe and not axis:
        flat = flat[: place.shape[0]]  # what no run covers
    if name != "sum":
        from taper._segments import Extreme, Product

        result = Product.apply(flat, place, result) if name == "prod" else Extreme.apply(flat, place, result, name)
    else:
        result = result.scatter_reduce(0, place, flat, name)
    if reduce == "mean":
        counts = counts.view((-1,) + (1,) * len(rest))
        result = _op["where"](
            counts == 0, _math.nan if initial is None else float(initial), result / counts.clamp(min=1)
        )
    return result.view(tuple(lengths.shape) + rest)


def from_file(filename, shared=None, size=0, *, dtype=None, layout=None, device=None, pin_memory=False):
    """The first `size` elements of a file as a tensor, mapped into memory; shared: what is written to it reaches the
    file."""
    from taper.storage import _on_storage

    dtype = dtype or _C.get_default_dtype()
    return _on_storage(dtype, _C.UntypedStorage.from_file(filename, bool(shared), size * dtype.itemsize), 0, (size,))


def _assert(condition, message):
    """An assert that is a call, so that a traced graph can hold it."""
    assert condition, message


# Stand-ins, such as torch.fx's, see the call itself, not what the function does with them.
for _name in """
        _assert atleast_1d atleast_2d atleast_3d bernoulli block_diag broadcast_tensors cartesian_prod chain_matmul
        einsum get_device histogramdd is_complex is_conj
        is_floating_point is_inference is_neg is_nonzero is_signed istft lu meshgrid nonzero norm normal numel
        pca_lowrank result_type segment_reduce split
        stft svd_lowrank tensor_split tensordot unique unique_consecutive unravel_index""".split():
    globals()[_name] = _C._Asking(globals()[_name])
