"""torch.ops._c10d_functional and c10d_functional: the functional collectives as operators, which packages put into
their tables. Loaded when one of the two is asked for."""

from taper.distributed import _functional_collectives as collectives
from taper.library import Library

_OPERATORS = {
    "all_reduce(Tensor input, Any reduce_op, Any group_name) -> Tensor": collectives.all_reduce,
    "all_gather_into_tensor(Tensor input, int group_size, Any group_name) -> Tensor": lambda input, size, group: (
        collectives.all_gather_tensor(input, 0, group)
    ),
    "reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, Any group_name) -> Tensor": (
        lambda input, op, size, group: collectives.reduce_scatter_tensor(input, op, 0, group)
    ),
    "all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, Any group_name) -> "
    "Tensor": collectives.all_to_all_single,
    "broadcast(Tensor input, int src, Any group_name) -> Tensor": collectives.broadcast,
    "wait_tensor(Tensor tensor) -> Tensor": lambda tensor: tensor.clone(),
    "_wrap_tensor_autograd(Tensor input) -> Tensor": lambda input: input.clone(),
}
# with tags and ranks in place of a group's name
_OLD_OPERATORS = {
    "all_reduce(Tensor self, str reduceOp, str tag, int[] ranks, int group_size) -> Tensor": (
        lambda self, op, tag, ranks, size: collectives.all_reduce(self, op, list(ranks))
    ),
    "all_gather_into_tensor(Tensor shard, str tag, int[] ranks, int group_size) -> Tensor": (
        lambda shard, tag, ranks, size: collectives.all_gather_tensor(shard, 0, list(ranks))
    ),
    "reduce_scatter_tensor(Tensor input, str reduceOp, str tag, int[] ranks, int group_size) -> Tensor": (
        lambda input, op, tag, ranks, size: collectives.reduce_scatter_tensor(input, op, 0, list(ranks))
    ),
    "wait_tensor(Tensor self) -> Tensor": lambda self: self.clone(),
}


def _define(namespace, operators):
    library = Library(namespace, "DEF")
    for schema, function in operators.items():
        library.define(schema)
        library.impl(schema.partition("(")[0], function, "CompositeImplicitAutograd")
    return library


_libraries = _define("_c10d_functional", _OPERATORS), _define("c10d_functional", _OLD_OPERATORS)
