"""torch.distributed.tensor.placement_types: how a tensor lies on the ranks of one mesh dimension."""
__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    def is_shard(self, dim=None):
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self):
        return isinstance(self, Replicate)

    def is_partial(self):
        return isinstance(self, Partial)

    def __eq__(self, other):
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self):
        return hash((type(self), *vars(self).values()))


class Shard(Placement):
    """Each rank has some of the rows of a dimension, in order; the first ones get what does not divide."""

    def __init__(self, dim):
        self.dim = dim

    def part(self, size, count, rank):
        """Where a rank's rows begin, and how many they are."""
        each = -(-size // count)
        start = min(each * rank, size)
        return start, min(each, size - start)

    def __repr__(self):
        return f"Shard(dim={self.dim})"


class Replicate(Placement):
    """Each rank has all of it."""

    def __repr__(self):
        return "Replicate()"


class Partial(Placement):
    """Each rank has a summand."""

    def __init__(self, reduce_op="sum"):
        self.reduce_op = reduce_op

    def __repr__(self):
        return f"Partial({self.reduce_op})"
