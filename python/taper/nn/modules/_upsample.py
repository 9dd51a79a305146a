"""Resampling: what tables/layers/upsampling.layer cannot say. Sizes and factors stay, and print, as they were given."""


class UpsampleMethods:
    """Attributes that Python alone has."""

    __slots__ = ()

    def _settle(self):
        self.name = type(self).__name__
        factor = self.scale_factor
        if isinstance(factor, tuple):
            self.scale_factor = tuple(float(each) for each in factor)
        else:
            self.scale_factor = float(factor) if factor else None
