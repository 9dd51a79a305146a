"""What a rule for an operator on DTensors says: where arguments and result lie; and what rules share."""

from taper.distributed.tensor.placement_types import Replicate


class Plan:
    """inputs: for each tensor its placements; output: those of the results; sizes: of the results' dimensions that are
    cut; args and func: what is called for the parts, if it differs from what is called for the whole."""

    func = None

    def __init__(self, count):
        self.inputs, self.output, self.sizes, self.args = [[] for _ in range(count)], [], {}, None

    @classmethod
    def of(cls, inputs, output, sizes, args=None):
        plan = cls(0)
        plan.inputs, plan.output, plan.sizes, plan.args = [list(one) for one in inputs], list(output), sizes, args
        return plan

    def add(self, inputs, output):
        """For the next mesh dimension."""
        for have, placement in zip(self.inputs, inputs):
            have.append(placement)
        self.output.append(output)

    def done(self, sizes):
        self.sizes = sizes
        return self


def _cost(have, wanted):
    """What moving costs, in exchanges of the whole tensor."""
    if have == wanted or have.is_replicate():
        return 0.0
    if have.is_shard():
        return 1.0 if wanted.is_replicate() else 1.5 if wanted.is_shard() else 3.0
    return 2.0 if wanted.is_replicate() else 1.0 if wanted.is_shard() else 4.0


def cheapest(specs, mesh_dim, ways):
    """Of ways ([placement of each input], placement of the result) the one that moves least; of equal ones the
    first."""

    def cost(way):
        each = [_cost(spec.placements[mesh_dim], wanted) for spec, wanted in zip(specs, way[0])]
        return sum(each), sum(one * spec.shape.numel() for one, spec in zip(each, specs))

    return min(ways, key=cost)


def given(args, kwargs, place, name, default=None):
    """An argument, by place or name."""
    if place is not None and len(args) > place:
        return args[place]
    return kwargs.get(name, default)


def dims_of(dim, ndim):
    """Dimensions as numbers from the front; all for None."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return list(range(ndim))
    return [d % max(ndim, 1) for d in (dim if isinstance(dim, (tuple, list)) else [dim])]


def kept(spec, forbidden, linear):
    """The placements of a tensor that an operator must have whole along some dimensions."""
    return [
        placement
        if placement.is_replicate()
        or (placement.is_shard() and placement.dim not in forbidden)
        or (linear and placement.is_partial() and placement.reduce_op in ("sum", "avg"))
        else Replicate()
        for placement in spec.placements
    ]
