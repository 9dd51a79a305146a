"""horovod.torch.functions: one rank's parameters, optimiser state and objects to all."""

from taper import distributed as dist
from taper._C import Tensor
from taper.horovod.torch.mpi_ops import _group, global_process_set
from taper.nn.parallel._verify import broadcast_coalesced


def _group_rank(root_rank, group):
    return dist.get_group_rank(group or dist.group.WORLD, root_rank)


def broadcast_parameters(params, root_rank, process_set=global_process_set):
    """All ranks get the root's parameters: a state_dict, or (name, tensor) pairs."""
    pairs = sorted(params.items()) if isinstance(params, dict) else list(params)
    tensors = [value for _, value in pairs if isinstance(value, Tensor)]
    group = _group(process_set)
    broadcast_coalesced(tensors, _group_rank(root_rank, group), group or dist.group.WORLD)


def broadcast_object(obj, root_rank=0, name=None, process_set=global_process_set):
    """The root's object, on all ranks."""
    box = [obj]
    dist.broadcast_object_list(box, root_rank, group=_group(process_set))
    return box[0]


def allgather_object(obj, name=None, process_set=global_process_set):
    """Everybody's object, by rank."""
    group = _group(process_set)
    every = [None] * dist.get_world_size(group)
    dist.all_gather_object(every, obj, group=group)
    return every


def broadcast_optimizer_state(optimizer, root_rank, model=None, process_set=global_process_set):
    """All ranks get the root's optimiser state: its options and what it keeps per parameter."""
    from taper.optim import LBFGS

    if isinstance(optimizer, LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    state = broadcast_object(
        optimizer.state_dict() if dist.get_rank() == root_rank else None, root_rank, process_set=process_set
    )
    if dist.get_rank() != root_rank:
        optimizer.load_state_dict(state)
