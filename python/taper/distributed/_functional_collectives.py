"""torch.distributed._functional_collectives: collectives that give new tensors, and can be differentiated. Results are
there when a call returns, so wait_tensor has nothing left to do."""

import taper
from taper import distributed as dist
from taper._C import Tensor
from taper.autograd.function import Function

REDUCE_OP_TO_STR = {
    getattr(dist.ReduceOp, name): name.lower()
    for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
}


def _op(name):
    if not isinstance(name, str):
        return name
    found = getattr(dist.ReduceOp, name.upper(), None)
    if found is None:
        raise ValueError(f"Unknown reduce op {name!r}; known ones are {', '.join(REDUCE_OP_TO_STR.values())}")
    return found


def _resolve_group(group, tag=""):
    """A process group from a group, its name, ranks, lists of ranks, a mesh of one dimension, or a mesh and one of its
    dimensions."""
    from taper.distributed._process_group import _groups
    from taper.distributed.device_mesh import DeviceMesh

    if group is None:
        return dist.group.WORLD
    if isinstance(group, DeviceMesh):
        return group.get_group()
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    if isinstance(group, str):
        found = next((one for one in _groups if one.group_name == group), None)
        if found is None:
            raise ValueError(f"Could not resolve the process group registered under the name {group}")
        return found
    if isinstance(group, list):
        ranks = (
            next((one for one in group if dist.get_rank() in one), [])
            if group and isinstance(group[0], list)
            else group
        )
        found = next((one for one in _groups if one._ranks == sorted(ranks)), None)
        return found or dist.new_group(ranks, use_local_synchronization=True)
    return group


def _reduced(tensor, op, group):
    made = tensor.detach().clone(memory_format=taper.contiguous_format)
    dist.all_reduce(made, op, group=group)
    return made


class _AllReduce(Function):
    @staticmethod
    def forward(ctx, tensor, op, group):
        ctx.how, result = (op, group), _reduced(tensor, op, group)
        ctx.save_for_backward(tensor, result)
        return result

    @staticmethod
    def backward(ctx, grad):
        op, group = ctx.how
        if op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
            return _reduced(grad, op, group), None, None
        if op not in (dist.ReduceOp.MAX, dist.ReduceOp.MIN):
            raise RuntimeError(
                "all_reduce backward only supports 'sum', 'avg', 'max' and 'min' reduction, got "
                f"'{REDUCE_OP_TO_STR[op]}'"
            )
        tensor, result = ctx.saved_tensors
        here = (tensor == result).to(grad.dtype)
        return _reduced(grad, dist.ReduceOp.SUM, group) * here / _reduced(here, dist.ReduceOp.SUM, group), None, None


def _gathered(tensor, group):
    """All ranks' tensors along the first dimension."""
    tensor = tensor.detach().contiguous()
    out = tensor.new_empty((tensor.shape[0] * dist.get_world_size(group), *tensor.shape[1:]))
    dist.all_gather_into_tensor(out, tensor, group=group)
    return out


def _scattered(tensor, op, group):
    """This rank's part of the sums."""
    world = dist.get_world_size(group)
    if tensor.shape[0] % world:
        raise ValueError(f"input dimension 0 ({tensor.shape[0]}) must be a multiple of group_size {world}")
    out = tensor.new_empty((tensor.shape[0] // world, *tensor.shape[1:]))
    dist.reduce_scatter_tensor(out, tensor.detach().contiguous(), op, group=group)
    return out


class _AllGather(Function):
    @staticmethod
    def forward(ctx, tensor, group):
        ctx.group = group
        return _gathered(tensor, group)

    @staticmethod
    def backward(ctx, grad):
        return _scattered(grad, dist.ReduceOp.SUM, ctx.group), None


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx, tensor, op, group):
        ctx.how = op, group
        return _scattered(tensor, op, group)

    @staticmethod
    def backward(ctx, grad):
        op, group = ctx.how
        if op != dist.ReduceOp.SUM:
            raise RuntimeError(
                f"reduce_scatter_tensor backward only supports 'sum' reduction, got '{REDUCE_OP_TO_STR[op]}'"
            )
        return _gathered(grad, group), None, None


class AsyncCollectiveTensor(Tensor):
    """A result that is still on its way. Here results are there at once, so nothing is one."""


def wait_tensor(tensor):
    return tensor


def wait_tensors(tensors):
    return list(tensors)


def all_reduce(self, reduceOp, group, tag=""):
    """All ranks' tensors combined."""
    return _AllReduce.apply(self, _op(reduceOp), _resolve_group(group))


def all_gather_tensor(self, gather_dim, group, tag=""):
    """All ranks' tensors, one after the other along a dimension."""
    return _AllGather.apply(self.movedim(gather_dim, 0), _resolve_group(group)).movedim(0, gather_dim)


def reduce_scatter_tensor(self, reduceOp, scatter_dim, group, tag=""):
    """This rank's part, along a dimension, of all ranks' tensors combined."""
    return _ReduceScatter.apply(self.movedim(scatter_dim, 0), _op(reduceOp), _resolve_group(group)).movedim(
        0, scatter_dim
    )


def all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag=""):
    """Parts of the first dimension, each to the rank of its place."""
    from taper.distributed.nn.functional import all_to_all_single as exchange

    rows = sum(output_split_sizes) if output_split_sizes else self.shape[0]
    return exchange(
        self.new_empty((rows, *self.shape[1:])), self, output_split_sizes, input_split_sizes, _resolve_group(group)
    )


class _Broadcast(Function):
    @staticmethod
    def forward(ctx, tensor, src, group):
        made = tensor.detach().clone(memory_format=taper.contiguous_format)
        dist.broadcast(made, src, group=group)
        return made

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None


def broadcast(self, src, group, tag=""):
    return _Broadcast.apply(self, src, _resolve_group(group))


def permute_tensor(self, src_dst, group, tag=""):
    """Rank i's tensor goes to rank src_dst[i]."""
    pg = _resolve_group(group)
    world, rank = dist.get_world_size(pg), dist.get_rank(pg)
    sends, receives = [0] * world, [0] * world
    sends[src_dst[rank]] = receives[src_dst.index(rank)] = self.numel()
    return all_to_all_single(self.reshape(-1), receives, sends, pg).view(self.shape)


def all_reduce_coalesced(self, reduceOp, group, tag=""):
    return [all_reduce(tensor, reduceOp, group) for tensor in self]


def all_gather_into_tensor_coalesced(self, group, tag=""):
    return [all_gather_tensor(tensor, 0, group) for tensor in self]


def reduce_scatter_tensor_coalesced(inputs, reduceOp, scatter_dim, group, tag=""):
    return [reduce_scatter_tensor(tensor, reduceOp, dim, group) for tensor, dim in zip(inputs, scatter_dim)]


def _in_place(async_op, target, value):
    if async_op:
        raise AssertionError("Can't remap async version of inplace op to functional collective")
    return target.copy_(value)


def all_reduce_inplace(tensor, op="sum", group=None, async_op=False, tag=""):
    return _in_place(async_op, tensor, all_reduce(tensor, op, group))


def all_gather_tensor_inplace(output_tensor, input_tensor, group=None, async_op=False, tag="", gather_dim=0):
    return _in_place(async_op, output_tensor, all_gather_tensor(input_tensor, gather_dim, group))


def reduce_scatter_tensor_inplace(output, input, op="sum", group=None, async_op=False, scatter_dim=0, tag=""):
    return _in_place(async_op, output, reduce_scatter_tensor(input, op, scatter_dim, group))


def all_to_all_inplace(
    output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False, tag=""
):
    return _in_place(async_op, output, all_to_all_single(input, output_split_sizes, input_split_sizes, group))


all_gather_tensor_autograd = all_gather_single = all_gather_single_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_single = reduce_scatter_single_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single
