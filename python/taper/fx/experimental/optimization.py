"""Graph changes for inference: batch norms folded into the layers before them, dropouts taken out."""

import copy

from taper import fx, nn
from taper.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval


def matches_module_pattern(pattern, node, modules):
    """Is the node a call of a module of the second kind, on the result of a call of one of the first?"""
    if not node.args or not isinstance(node.args[0], fx.Node):
        return False
    for kind, current in zip(pattern, (node.args[0], node)):
        if (
            current.op != "call_module"
            or not isinstance(current.target, str)
            or type(modules.get(current.target)) is not kind
        ):
            return False
    return True


def replace_node_module(node, modules, new_module):
    """Puts another module in the place that the node calls."""
    parent, _, name = node.target.rpartition(".")
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


_FUSIONS = (
    ((nn.Conv1d, nn.BatchNorm1d), fuse_conv_bn_eval),
    ((nn.Conv2d, nn.BatchNorm2d), fuse_conv_bn_eval),
    ((nn.Conv3d, nn.BatchNorm3d), fuse_conv_bn_eval),
    ((nn.Linear, nn.BatchNorm1d), fuse_linear_bn_eval),
)


def fuse(model, inplace=False, no_trace=False):
    """The model with its batch norms folded into the convolutions and linear layers before them; for evaluation
    only."""
    if not inplace:
        model = copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, fx.GraphModule) else fx.symbolic_trace(model)
    modules, graph = dict(traced.named_modules()), copy.deepcopy(traced.graph)
    for pattern, fused in _FUSIONS:
        for node in graph.nodes:
            if not matches_module_pattern(pattern, node, modules) or len(node.args[0].users) > 1:
                continue
            layer, norm = modules[node.args[0].target], modules[node.target]
            if not norm.track_running_stats:
                continue
            replace_node_module(node.args[0], modules, fused(layer, norm))
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return fx.GraphModule(traced, graph)


def remove_dropout(model):
    """The model without its dropout layers."""

    class DropoutRemover(fx.Transformer):
        def call_module(self, target, args, kwargs):
            if isinstance(self.submodules[target], nn.Dropout):
                return args[0]
            return super().call_module(target, args, kwargs)

    return DropoutRemover(fx.symbolic_trace(model)).transform()
