"""torch.finfo and torch.iinfo: what numbers of a dtype can be."""
from taper import _C

_FLOATS = {  # bits, bits of the mantissa, smallest and largest exponent, decimal digits
    "float16": (16, 10, -14, 15, 0.001), "bfloat16": (16, 7, -126, 127, 0.01), "float32": (32, 23, -126, 127, 1e-06), "float64": (64, 52, -1022, 1023, 1e-15)}


class finfo:
    """The limits of a floating-point dtype, the default one unless another is given."""
    __slots__ = ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype")

    def __init__(self, dtype=None):
        dtype = _C.get_default_dtype() if dtype is None else dtype
        if not isinstance(dtype, _C.dtype):
            raise TypeError(f"finfo(): argument 'type' (position 1) must be torch.dtype, not {type(dtype).__name__}")
        name = str(dtype.to_real())[6:]
        if name not in _FLOATS or not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{dtype}'")
        self.bits, mantissa, low, high, self.resolution = _FLOATS[name]
        self.eps = 2.0 ** -mantissa
        self.max = (2.0 - self.eps) * 2.0 ** high
        self.min, self.tiny, self.dtype = -self.max, 2.0 ** low, name
        self.smallest_normal = self.tiny

    def __repr__(self):
        return f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"

    def __eq__(self, other):
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(self.dtype)


class iinfo:
    """The limits of an integer dtype."""
    __slots__ = ("bits", "max", "min", "dtype")

    def __init__(self, dtype):
        if not isinstance(dtype, _C.dtype):
            raise TypeError(f"iinfo(): argument 'type' (position 1) must be torch.dtype, not {type(dtype).__name__}")
        if dtype.is_floating_point or dtype.is_complex or dtype == _C.bool:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{dtype}'")
        self.bits, self.dtype = 8 * dtype.itemsize, str(dtype)[6:]
        self.max = 2 ** (self.bits - dtype.is_signed) - 1
        self.min = -self.max - 1 if dtype.is_signed else 0

    def __repr__(self):
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other):
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(self.dtype)
