"""Where the parts of a tensor are, and moving them: from one list of placements to another."""

from taper._C import Size
from taper.distributed.tensor._collectives import Gather, OneSummand, Reduce, RowsToSummands, Split, SumToRows
from taper.distributed.tensor.placement_types import _StridedShard, cut_order


class Spec:
    """Where the parts of a tensor are."""

    def __init__(self, mesh, placements, shape):
        self.mesh, self.placements, self.shape = mesh, tuple(placements), Size(shape)

    def local_box(self):
        """Where this rank's part begins, and its size."""
        offsets, sizes = [0] * len(self.shape), list(self.shape)
        for mesh_dim in cut_order(self.placements):
            placement = self.placements[mesh_dim]
            if placement.is_shard():
                start, count = placement.part(
                    sizes[placement.dim], self.mesh.size(mesh_dim), self.mesh.get_local_rank(mesh_dim)
                )
                offsets[placement.dim] += start
                sizes[placement.dim] = count
        return offsets, sizes

    def cut_sizes(self):
        """How large a sharded dimension is, for each mesh dimension, where those before it have cut it already."""
        sizes, found = list(self.shape), {}
        for mesh_dim in cut_order(self.placements):
            placement = self.placements[mesh_dim]
            if placement.is_shard():
                found[mesh_dim] = sizes[placement.dim]
                _, sizes[placement.dim] = placement.part(
                    sizes[placement.dim], self.mesh.size(mesh_dim), self.mesh.get_local_rank(mesh_dim)
                )
        return found

    def ways(self, dim):
        """Into how many parts a dimension is cut."""
        count = 1
        for mesh_dim, placement in enumerate(self.placements):
            count *= self.mesh.size(mesh_dim) if placement.is_shard(dim) else 1
        return count

    def is_strided(self):
        return any(isinstance(placement, _StridedShard) for placement in self.placements)

    def like(self, other):
        return (
            self.mesh == other.mesh and self.placements == other.placements and tuple(self.shape) == tuple(other.shape)
        )

    @property
    def tensor_meta(self):
        return self


def move(local, spec, wanted):
    """The rank's part where the tensor lies as `wanted` says."""
    have = list(spec.placements)
    again = _cut_again(have, wanted)
    for mesh_dim in reversed(cut_order(spec.placements)):
        if have[mesh_dim] != wanted[mesh_dim] or mesh_dim in again:
            local, have[mesh_dim] = _out_of(local, spec, mesh_dim, wanted, mesh_dim in again)
    for mesh_dim in cut_order(wanted):
        placement, group = wanted[mesh_dim], spec.mesh.get_group(mesh_dim)
        if have[mesh_dim] is None and placement.is_shard():
            local = Split.apply(local, group, placement.dim)
        elif have[mesh_dim] is None and placement.is_partial("sum"):
            local = OneSummand.apply(local, group)
        elif have[mesh_dim] is None and placement.is_partial() and placement.reduce_op != "avg":
            raise RuntimeError(
                f"Can not redistribute from {spec.placements[mesh_dim]} to {placement}, only Shard to Partial(sum)"
            )
    return local


def _cut_again(have, wanted):
    """The mesh dimensions that cut a dimension which one before them, now or then, comes to cut otherwise: the order of
    the parts changes."""
    found, orders = set(), (cut_order(have), cut_order(wanted))
    for _ in have:
        for mesh_dim, placement in enumerate(have):
            before = {
                other
                for order in orders
                for other in order[: order.index(mesh_dim)]
                if have[other] != wanted[other] or other in found
            }
            if placement.is_shard() and any(
                have[other].is_shard(placement.dim) or wanted[other].is_shard(placement.dim) for other in before
            ):
                found.add(mesh_dim)
    return found


def _out_of(local, spec, mesh_dim, wanted, through_whole):
    """Without the placement of a mesh dimension: (the part, the placement reached, None if every rank has the same)."""
    placement, group, to = spec.placements[mesh_dim], spec.mesh.get_group(mesh_dim), wanted[mesh_dim]
    if placement.is_shard():
        size = spec.cut_sizes()[mesh_dim]
        if to.is_partial("sum") and not through_whole:
            return RowsToSummands.apply(local, group, placement.dim, size), to
        return Gather.apply(local, group, placement.dim, size), None
    if placement.is_partial():
        others = [p for list_ in (spec.placements, wanted) for other, p in enumerate(list_) if other != mesh_dim]
        if (
            placement.reduce_op == "sum" and to.is_shard() and not any(p.is_shard(to.dim) for p in others)
        ):  # with two cuts their order counts
            return SumToRows.apply(local, group, to.dim), to
        return Reduce.apply(local, group, placement), None
    return local, None
