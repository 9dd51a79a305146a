"""torch.quasirandom: points of Sobol's sequence, which fill a cube more evenly than random ones."""

import taper
from taper._sobol import BITS, DIMENSIONS, directions


class SobolEngine:
    """Points of Sobol's sequence in [0, 1)^dimension, in the order of Gray codes; scrambled by random digit shifts and
    triangular matrices on request."""

    MAXBIT = BITS
    MAXDIM = 21201

    def __init__(self, dimension, scramble=False, seed=None):
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        if dimension > DIMENSIONS:
            from taper._hook import NotCovered

            raise NotCovered(f"SobolEngine has {DIMENSIONS} dimensions in Taper, not {dimension}")
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        self.sobolstate = taper.tensor(directions(dimension), dtype=taper.long, device="cpu")
        self.shift = taper.zeros(dimension, dtype=taper.long, device="cpu")
        if scramble:
            self._scramble()
        self.quasi, self.num_generated = self.shift.clone(), 0
        self._first_point = (self.quasi / 2**BITS).reshape(1, -1)

    def _scramble(self):
        generator = taper.Generator().manual_seed(self.seed) if self.seed is not None else None
        places = 2 ** taper.arange(BITS, device="cpu")
        self.shift = (taper.randint(2, (self.dimension, BITS), device="cpu", generator=generator) * places).sum(1)
        mixing = taper.randint(2, (self.dimension, BITS, BITS), device="cpu", generator=generator).tril()
        mixing.diagonal(dim1=-2, dim2=-1).fill_(1)
        digits = (
            self.sobolstate[:, None, :] >> taper.arange(BITS - 1, -1, -1, device="cpu")[:, None] & 1
        )  # (dimension, digit from the highest, k)
        self.sobolstate = (mixing @ digits % 2 * places.flip(0)[:, None]).sum(1)

    def _points(self, first, n):
        """The points from number `first` on, as integers of 30 bits (n, dimension)."""
        number = taper.arange(first, first + n, device="cpu")
        code, points = number ^ number >> 1, self.shift.expand(n, -1)
        for k in range((first + n).bit_length()):
            points = points ^ (code >> k & 1)[:, None] * self.sobolstate[:, k]
        return points

    def draw(self, n=1, out=None, dtype=None):
        """The next n points (n, dimension)."""
        points = self._points(self.num_generated, n)
        self.fast_forward(n)
        result = points.to(dtype or taper.get_default_dtype()) / 2**BITS
        return result if out is None else out.resize_as_(result).copy_(result)

    def draw_base2(self, m, out=None, dtype=None):
        """The next 2^m points; all that were drawn so far must be a power of two then."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points "
                f"have been previously generated, then: n={self.num_generated}+2**{m}={total}. If you still want to "
                "do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self):
        """Begins again."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n):
        """Leaves n points out."""
        if n > 0:
            self.num_generated += n
            self.quasi = self._points(self.num_generated - 1, 1)[0]
        return self

    def __repr__(self):
        parts = [
            f"dimension={self.dimension}",
            *(["scramble=True"] if self.scramble else []),
            *([f"seed={self.seed}"] if self.seed is not None else []),
        ]
        return f"{type(self).__name__}({', '.join(parts)})"
