"""torchvision.models.feature_extraction: the outputs of modules inside a model, by forward hooks."""
from collections import OrderedDict

from taper.nn import Module


def get_graph_node_names(model, tracer_kwargs=None, suppress_diff_warning=False, concrete_args=None):
    """The names that create_feature_extractor takes, for training and for evaluation: those of the model's modules."""
    names = [name for name, _ in model.named_modules() if name]
    return names, list(names)


class _Extractor(Module):
    def __init__(self, model, nodes):
        super().__init__()
        self.model = model
        modules = dict(model.named_modules())
        for node in nodes:
            if node not in modules:
                raise ValueError(f"node: '{node}' is not present in model. Hint: use `get_graph_node_names` to make sure the `return_nodes` you "
                                 "specified are present")
        self._nodes, self._found = dict(nodes), {}
        for node in nodes:
            modules[node].register_forward_hook(self._keep(node))

    def _keep(self, node):
        def hook(module, inputs, output):
            self._found[node] = output
        return hook

    def forward(self, *args, **kwargs):
        self._found.clear()
        self.model(*args, **kwargs)
        result = OrderedDict((name, self._found[node]) for node, name in self._nodes.items())
        self._found.clear()
        return result


def create_feature_extractor(model, return_nodes=None, train_return_nodes=None, eval_return_nodes=None, tracer_kwargs=None,
                             suppress_diff_warning=False, concrete_args=None):
    """A module that gives a dict of the outputs of modules of the model: return_nodes is a list of their names, or a dict to names of your own."""
    nodes = return_nodes if return_nodes is not None else train_return_nodes or eval_return_nodes
    if nodes is None:
        raise ValueError("Either `return_nodes` or `train_return_nodes` and `eval_return_nodes` together, should be specified")
    return _Extractor(model, nodes if isinstance(nodes, dict) else {name: name for name in nodes})
