"""torch.distributed.algorithms.model_averaging.utils: averaging parameters over ranks."""

import taper
from taper import distributed as dist
from taper._C import Tensor
from taper.autograd.grad_mode import no_grad

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def average_parameters(params, process_group):
    """All parameters become their averages over the ranks of the group: one message per dtype."""
    group = process_group if process_group is not None else dist.group.WORLD
    if dist.distributed_c10d._rank_not_in_group(group):
        return
    by_kind = {}
    for p in params:
        by_kind.setdefault((p.dtype, p.device), []).append(p)
    with no_grad():
        for same in by_kind.values():
            flat = taper.cat([p.reshape(-1) for p in same])
            flat.div_(dist.get_world_size(group))
            dist.all_reduce(flat, group=group)
            for p, part in zip(same, flat.split([p.numel() for p in same])):
                p.copy_(part.view(p.shape))


def get_params_to_average(params):
    """Of parameters, or an optimiser's groups, those that have gradients."""
    found = []
    for one in params:
        if isinstance(one, Tensor):
            found += [one] if one.grad is not None else []
        elif isinstance(one, dict):
            found += [p for p in one["params"] if p.grad is not None]
        else:
            raise NotImplementedError(f"Parameter input of type {type(one)} is not supported")
    return found


def average_parameters_or_parameter_groups(params, process_group):
    average_parameters(iter(get_params_to_average(params)), process_group)
