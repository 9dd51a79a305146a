"""What tables/layers/base_loss.layer cannot say of losses."""

from taper.nn import functional as F


class LossMethods:
    """The old way to say how elements are reduced."""

    __slots__ = ()
    _reduction = staticmethod(F._reduction)
