"""ReduceOp: how a reduction combines what the ranks have."""

from enum import Enum

import taper as torch


class RedOpType(Enum):
    """ReduceOp's members: equal to their numbers, and without an order."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)

    def __index__(self):
        return self.value

    __int__ = __hash__ = __index__

    def __eq__(self, other):
        return self is other or isinstance(other, int) and self.value == other


class _HasMembers(type):
    """isinstance(ReduceOp.SUM, ReduceOp) holds."""

    def __instancecheck__(cls, value):
        return isinstance(value, (RedOpType, _PremulSum))


class ReduceOp(metaclass=_HasMembers):
    """How a reduction combines what the ranks have: ReduceOp.SUM and so on."""

    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = RedOpType

    def __new__(cls, op=RedOpType.SUM):
        if not isinstance(op, RedOpType):
            raise TypeError(f"ReduceOp(): expected one of its members, got {op!r}")
        return op


class _PremulSum(int):
    """A sum of what each rank has, times a number or a tensor."""

    factor = None


def _make_nccl_premul_sum(factor):
    op = _PremulSum(RedOpType.SUM)
    op.factor = factor
    return op


def _scaled(tensors, op, in_place=False):
    """The tensors as the sum takes them."""
    if not isinstance(op, _PremulSum):
        return tensors
    with torch.no_grad():
        return [t.mul_(op.factor) if in_place else t * op.factor for t in tensors]


class reduce_op:
    """The old name of ReduceOp."""

    SUM, PRODUCT, MAX, MIN = ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MAX, ReduceOp.MIN
