"""torch.finfo and torch.iinfo: what numbers of a dtype can be."""

from taper import _C

_FLOATS = {  # bits, bits of the mantissa, smallest exponent, largest value, decimal digits
    "float16": (16, 10, -14, 65504.0, 0.001),
    "bfloat16": (16, 7, -126, (2 - 2**-7) * 2.0**127, 0.01),
    "float32": (32, 23, -126, (2 - 2**-23) * 2.0**127, 1e-06),
    "float64": (64, 52, -1022, (2 - 2**-52) * 2.0**1023, 1e-15),
    "float8_e4m3fn": (8, 3, -6, 448.0, 1.0),
    "float8_e5m2": (8, 2, -14, 57344.0, 1.0),
    "float8_e4m3fnuz": (8, 3, -7, 240.0, 1.0),
    "float8_e5m2fnuz": (8, 2, -15, 57344.0, 1.0),
    "float8_e8m0fnu": (8, 0, -127, 2.0**127, 1.0),
}


class finfo:
    """The limits of a floating-point dtype, the default one unless another is given."""

    __slots__ = ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype")

    def __init__(self, dtype=None):
        dtype = _C.get_default_dtype() if dtype is None else dtype
        if not isinstance(dtype, _C.dtype):
            raise TypeError(f"finfo(): argument 'type' (position 1) must be torch.dtype, not {type(dtype).__name__}")
        name = str(dtype.to_real())[6:]
        if not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'"
            )
        if name not in _FLOATS:
            raise TypeError("bad argument type for built-in operation")
        self.bits, mantissa, low, self.max, self.resolution = _FLOATS[name]
        self.eps, self.tiny, self.dtype = 2.0**-mantissa, 2.0**low, name
        self.min = -self.max if name != "float8_e8m0fnu" else self.tiny  # which has no sign
        self.smallest_normal = self.tiny

    def __repr__(self):
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )

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
        name = str(dtype)[6:]
        if dtype == _C.bool:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if name in ("qint8", "quint8", "qint32", "quint4x2", "quint2x4"):
            raise NotImplementedError(
                '"dtype" not implemented for '
                f"'{name[0].upper()}{name[1:].replace('uint', 'UInt').replace('int', 'Int')}'"
            )
        if name not in ("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"):
            raise TypeError("torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'")
        self.bits, self.dtype = 8 * dtype.itemsize, name
        self.max = 2 ** (self.bits - dtype.is_signed) - 1
        self.min = -self.max - 1 if dtype.is_signed else 0

    def __repr__(self):
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other):
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(self.dtype)
