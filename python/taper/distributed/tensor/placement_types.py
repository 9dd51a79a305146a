"""torch.distributed.tensor.placement_types: how a tensor lies on the ranks of one mesh dimension."""

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    def is_shard(self, dim=None):
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self):
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op=None):
        return isinstance(self, Partial) and (reduce_op is None or self.reduce_op == reduce_op)

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

    def __str__(self):
        return f"S({self.dim})"


class _StridedShard(Shard):
    """A part of the rows that a later mesh dimension has left of a dimension: that one cuts it first, into split_factor
    parts."""

    def __init__(self, dim, *, split_factor):
        super().__init__(dim)
        self.split_factor = split_factor

    def __repr__(self):
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self):
        return f"_S({self.dim}, {self.split_factor})"


def cut_order(placements):
    """The mesh dimensions in the order in which they cut."""
    return sorted(range(len(placements)), key=lambda mesh_dim: isinstance(placements[mesh_dim], _StridedShard))


class Replicate(Placement):
    """Each rank has all of it."""

    def __repr__(self):
        return "Replicate()"

    def __str__(self):
        return "R"


class Partial(Placement):
    """What the ranks have is yet to be put together: a sum, or an 'avg', 'max', 'min' or 'product'."""

    def __init__(self, reduce_op="sum"):
        self.reduce_op = reduce_op

    def __repr__(self):
        return f"Partial({self.reduce_op})"

    def __str__(self):
        return f"P({self.reduce_op})"


class _NormPartial(Partial):
    """Each rank has the norm of its part."""

    def __init__(self, norm_type=2):
        super().__init__("norm")
        self.norm_type = norm_type

    def __repr__(self):
        return f"_NormPartial({self.norm_type})"

    def __str__(self):
        return f"_NormP({self.norm_type})"


def normalized(placements, mesh_ndim, ndim):
    """A placement for each mesh dimension, counted from the front; Replicate() where nothing is said."""
    if placements is None:
        return (Replicate(),) * mesh_ndim
    placements = tuple(placements)
    if len(placements) != mesh_ndim:
        raise ValueError(
            "`placements` must have the same length as `device_mesh.ndim`! Found placements length: "
            f"{len(placements)}, and device_mesh.ndim: {mesh_ndim}."
        )
    made = []
    for placement in placements:
        if not isinstance(placement, Placement):
            raise TypeError(f"`placements` must be a list of Shard, Replicate and Partial, got {placement!r}")
        if placement.is_shard():
            if not -ndim <= placement.dim < ndim:
                raise IndexError(
                    f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got "
                    f"{placement.dim}), in {placement!r}"
                )
            placement = Shard(placement.dim % ndim) if placement.dim < 0 else placement
        made.append(placement)
    return tuple(made)
