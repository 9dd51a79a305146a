"""Pooling over windows that begin at random places: what tables/layers/pooling.layer cannot say, since C takes an
output_size alone."""

from taper.nn import functional as F
from taper.nn.modules.utils import _ntuple


class FractionalPoolMethods:
    """output_size or output_ratio says how many windows there are."""

    __slots__ = ()

    def _settle(self, dims, random_samples):
        sizes = _ntuple(dims)
        ratio = self.output_ratio
        self.kernel_size = sizes(self.kernel_size)
        self.output_size = None if self.output_size is None else sizes(self.output_size)
        self.output_ratio = None if ratio is None else sizes(ratio)
        self.register_buffer("_random_samples", random_samples)
        if ratio is not None and not all(0 < each < 1 for each in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {ratio})")

    def _pool(self, input):
        pool = F.fractional_max_pool2d if len(self.kernel_size) == 2 else F.fractional_max_pool3d
        return pool(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )
