"""Products of matrices of 8-bit numbers: torch._int_mm, and with scales torch._scaled_mm and
torch.nn.functional.scaled_mm, whose sums are float32's."""

from enum import Enum

from taper import _C
from taper._C import _functions as _op


class ScalingType(Enum):
    """What one scale is for."""

    TensorWise, RowWise, BlockWise1x16, BlockWise1x32, BlockWise1x128, BlockWise128x128 = range(6)


class SwizzleType(Enum):
    """The order of the scales of blocks in memory."""

    NO_SWIZZLE, SWIZZLE_32_4_4, SWIZZLE_32_8 = range(3)


ScalingType.__module__ = SwizzleType.__module__ = "torch.nn.functional"
_FLOAT8 = (_C.float8_e4m3fn, _C.float8_e5m2, _C.float8_e4m3fnuz, _C.float8_e5m2fnuz, _C.float8_e8m0fnu)


def _int_mm(self, mat2, *, out=None):
    """The product of two matrices of 8-bit integers, in int32."""
    for name, matrix in (("self", self), ("mat2", mat2)):
        if matrix.dim() != 2:
            raise RuntimeError(f"_int_mm: {name} must be a matrix, got {matrix.dim()}-D tensor")
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"_int_mm: mat1 and mat2 shapes cannot be multiplied ({self.shape[0]}x{self.shape[1]} and "
            f"{mat2.shape[0]}x{mat2.shape[1]})"
        )
    if self.dtype not in (_C.int8, _C.uint8):
        raise RuntimeError(
            f"int_mm_out_cpu: Expected self dtype to be int8 or uint8 but got {_word(self.dtype).lower()}"
        )
    if mat2.dtype != _C.int8:
        raise RuntimeError(f"int_mm_out_cpu: Expected mat2 dtype to be int8 but got {_word(mat2.dtype).lower()}")
    product = _op["byte_product"](self, mat2)
    return product if out is None else out.copy_(product)


def _word(dtype):
    return _C.tensor([], dtype=dtype).type()[6:-6]


def _check(a, b, scale_a, scale_b, bias):
    if a.dim() != 2 or b.dim() != 2:
        raise RuntimeError(f"{'mat1' if a.dim() != 2 else 'mat2'} must be a matrix")
    (m, k), n = a.shape, b.shape[1]
    if k != b.shape[0]:
        raise RuntimeError(f"mat_a and mat_b shapes cannot be multiplied ({m}x{k} and {b.shape[0]}x{n})")
    right = a.dtype in _FLOAT8 and b.dtype in _FLOAT8 and scale_a.dtype == scale_b.dtype == _C.float32
    one = scale_a.numel() == scale_b.numel() == 1
    rows = (
        tuple(scale_a.shape) == (m, 1)
        and tuple(scale_b.shape) == (1, n)
        and scale_a.is_contiguous()
        and scale_b.is_contiguous()
    )
    if not (right and (one or rows)):
        raise ValueError(
            "Invalid scaling configuration.\n"
            "- For TensorWise scaling, a and b should be float8, scales should be float and singletons.\n"
            f"- For RowWise scaling, a and b should be float8, scales should be float, scale_a should be ({m}, 1) and "
            f"scale_b should be (1, {n}), and both should be contiguous.\n"
            f"Got mat_a.dtype()={_word(a.dtype)}, scale_a.dtype()={_word(scale_a.dtype)}, "
            f"scale_a.size()={list(scale_a.shape)}, scale_a.stride()={list(scale_a.stride())}, "
            f"mat_b.dtype()={_word(b.dtype)}, scale_b.dtype()={_word(scale_b.dtype)}, "
            f"scale_b.size()={list(scale_b.shape)} and scale_b.stride()={list(scale_b.stride())}"
        )
    if bias is not None and bias.numel() != n:
        raise RuntimeError(f"Bias must be size {n} but got {bias.numel()}")


def _scaled_mm(
    self, mat2, scale_a, scale_b, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False, *, out=None
):
    """self @ mat2 times both scales, which are one number each, or one for each row of self and each column of mat2."""
    _check(self, mat2, scale_a, scale_b, bias)
    dtype = out_dtype or (self.dtype if out is None else out.dtype)
    one, plain = scale_a.numel() == 1, bias is None and (scale_result is None or dtype not in _FLOAT8)
    if one:
        wide = dtype if plain else _C.float32
        product = _op["float8_product"](self, mat2, scale_a, scale_b, wide, use_fast_accum)
    else:
        product = _op["float8_product"](self, mat2, None, None, _C.float32, use_fast_accum) * scale_a * scale_b
    if bias is not None:
        product = product + bias
    if scale_result is not None and dtype in _FLOAT8:
        product = product / scale_result
    product = product.to(dtype)
    return product if out is None else out.copy_(product)


def scaled_mm(
    mat_a,
    mat_b,
    scale_a,
    scale_recipe_a,
    scale_b,
    scale_recipe_b,
    swizzle_a=None,
    swizzle_b=None,
    bias=None,
    output_dtype=_C.bfloat16,
    contraction_dim=(),
    use_fast_accum=False,
):
    """torch._scaled_mm, told what the scales are for; scales of blocks are not there, as on PyTorch's CPU."""

    def listed(x):
        return list(x) if isinstance(x, (list, tuple)) else [x]

    scales, recipes = (listed(scale_a), listed(scale_b)), (listed(scale_recipe_a), listed(scale_recipe_b))
    if recipes[0] != recipes[1] or recipes[0] not in ([ScalingType.TensorWise], [ScalingType.RowWise]):
        raise ValueError(
            "Invalid scaling configuration for _scaled_mm_v2: unsupported recipe(s). Got "
            f"mat_a.dtype={_word(mat_a.dtype)}, mat_b.dtype={_word(mat_b.dtype)}, recipe_a.size()={len(recipes[0])}, "
            f"recipe_b.size()={len(recipes[1])}"
        )
    return _scaled_mm(mat_a, mat_b, scales[0][0], scales[1][0], bias, None, output_dtype, use_fast_accum)
