"""Splitting a dim: what Python's constructor looks at besides tables/layers/flatten.layer. C's arguments have types."""


class UnflattenMethods:
    """The types of the arguments."""

    __slots__ = ()

    def _check_types(self):
        sizes = self.unflattened_size
        if not isinstance(self.dim, int):
            raise TypeError(f"expected dim to be an int for Unflatten, but found type {type(self.dim).__name__}")
        if not isinstance(sizes, (tuple, list)):
            raise TypeError(f"unflattened_size must be a tuple of ints, but found type {type(sizes).__name__}")
        for i, size in enumerate(sizes):
            if not isinstance(size, int):
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {type(size).__name__} at pos "
                    f"{i}"
                )
