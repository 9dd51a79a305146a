"""torchvision.models.feature_extraction: values from inside a model, found by name in its traced graph."""

import copy
import re
from collections import OrderedDict

from taper import fx, nn
from taper.torchvision import ops


def _leaves_of_ops():
    """torchvision's own layers, which are single nodes."""
    found = (getattr(ops, name) for name in dir(ops))
    return [kind for kind in found if isinstance(kind, type) and issubclass(kind, nn.Module)]


class LeafModuleAwareTracer(fx.Tracer):
    """A tracer that takes further kinds of modules for leaves."""

    def __init__(self, *args, **kwargs):
        self.leaf_modules = tuple(kwargs.pop("leaf_modules", ()))
        super().__init__(*args, **kwargs)

    def is_leaf_module(self, m, module_qualname):
        return isinstance(m, self.leaf_modules) or super().is_leaf_module(m, module_qualname)


class NodePathTracer(LeafModuleAwareTracer):
    """Notes for each node where in the model it was made: the module's path, and what was done there."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.current_module_qualname, self.node_to_qualname, self._taken = "", OrderedDict(), {}

    def call_module(self, m, forward, args, kwargs):
        outer = self.current_module_qualname
        self.current_module_qualname = self.path_of_module(m)
        try:
            return super().call_module(m, forward, args, kwargs)
        finally:
            self.current_module_qualname = outer

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, *others, **options):
        proxy = super().create_proxy(kind, target, args, kwargs, name, type_expr, *others, **options)
        self.node_to_qualname[proxy.node] = self._qualname(proxy.node)
        return proxy

    def _qualname(self, node):
        base = self.current_module_qualname
        if node.op != "call_module":
            base = f"{base}.{node}" if base else str(node)
        base = re.sub(r"(.+)_[0-9]+$", r"\1", base)
        count = self._taken[base] = self._taken.get(base, -1) + 1
        return base if count == 0 else f"{base}_{count}"


def _tracer(options):
    options = dict(options or {})
    import math

    return NodePathTracer(
        autowrap_modules=options.get("autowrap_modules", (math, ops)),
        autowrap_functions=options.get("autowrap_functions", ()),
        leaf_modules=options.get("leaf_modules", _leaves_of_ops()),
    )


def _traced(model, training, options, concrete_args):
    tracer = _tracer(options)
    return tracer, tracer.trace(model.train(training), concrete_args=concrete_args)


def get_graph_node_names(model, tracer_kwargs=None, suppress_diff_warning=False, concrete_args=None):
    """The names that create_feature_extractor takes, in the order of execution: in training, and in evaluation."""
    was_training = model.training
    names = [
        list(_traced(model, training, tracer_kwargs, concrete_args)[0].node_to_qualname.values())
        for training in (True, False)
    ]
    model.train(was_training)
    if names[0] != names[1] and not suppress_diff_warning:
        import warnings

        warnings.warn(
            "The nodes obtained by tracing the model in eval mode are not the same as in train mode. When choosing "
            "nodes for feature extraction, you may need to specify output nodes for train and eval mode separately.",
            stacklevel=2,
        )
    return names[0], names[1]


class DualGraphModule(fx.GraphModule):
    """One module with a graph for training and one for evaluation; train() and eval() choose."""

    def __init__(self, root, train_graph, eval_graph, class_name="GraphModule"):
        super().__init__(root, train_graph, class_name)
        from taper.fx.graph_module import _copy_attribute

        for node in eval_graph.nodes:
            if node.op in ("get_attr", "call_module"):
                _copy_attribute(root, self, node.target)
        self.train_graph, self.eval_graph = train_graph, eval_graph
        self.train(root.training)

    def train(self, mode=True):
        if hasattr(self, "train_graph"):
            self.graph = self.train_graph if mode else self.eval_graph
        return super().train(mode)

    def __deepcopy__(self, memo):
        plain = nn.Module()
        plain.__dict__.update(
            copy.deepcopy(
                {key: value for key, value in self.__dict__.items() if "graph" not in key and key != "_code"}, memo
            )
        )
        return DualGraphModule(plain, copy.deepcopy(self.train_graph), copy.deepcopy(self.eval_graph))


def _by_name(nodes):
    return (
        OrderedDict((str(key), str(value)) for key, value in nodes.items())
        if isinstance(nodes, dict)
        else OrderedDict((str(n), str(n)) for n in nodes)
    )


def _is_at(name, query):
    """Is the node the queried one, or in the queried module?"""
    return name == query or name.startswith(query + ".")


def _cut(tracer, graph, nodes):
    """Makes the graph return a dict of the wanted nodes, and nothing more be done than they need."""
    names = tracer.node_to_qualname
    found = {}
    for query, key in nodes.items():
        node = next((node for node in reversed(names) if _is_at(names[node], query)), None)
        if node is None:
            raise ValueError(
                f"node: '{query}' is not present in model. Hint: use `get_graph_node_names` to make sure the "
                "`return_nodes` you specified are present. It may even be that you need to specify "
                "`train_return_nodes` and `eval_return_nodes` separately."
            )
        found[key] = node
    order = list(graph.nodes)
    output = order.pop()
    graph.erase_node(output)
    with graph.inserting_after(order[-1]):
        graph.output(found)
    graph.eliminate_dead_code()


def create_feature_extractor(
    model,
    return_nodes=None,
    train_return_nodes=None,
    eval_return_nodes=None,
    tracer_kwargs=None,
    suppress_diff_warning=False,
    concrete_args=None,
):
    """A module that gives a dict of values from inside the model: return_nodes is a list of their names, or a dict to
    names of your own."""
    if all(nodes is None for nodes in (return_nodes, train_return_nodes, eval_return_nodes)):
        raise ValueError(
            "Either `return_nodes` or `train_return_nodes` and `eval_return_nodes` together, should be specified"
        )
    if (train_return_nodes is None) != (eval_return_nodes is None):
        raise ValueError(
            "If any of `train_return_nodes` and `eval_return_nodes` are specified, then both should be specified"
        )
    if return_nodes is not None and train_return_nodes is not None:
        raise ValueError(
            "If `train_return_nodes` and `eval_return_nodes` are specified, then `return_nodes` should not be"
        )
    wanted = {True: _by_name(return_nodes or train_return_nodes), False: _by_name(return_nodes or eval_return_nodes)}
    was_training, graphs = model.training, {}
    for training, nodes in wanted.items():
        tracer, graphs[training] = _traced(model, training, tracer_kwargs, concrete_args)
        _cut(tracer, graphs[training], nodes)
    model.train(was_training)
    return DualGraphModule(model, graphs[True], graphs[False], class_name=type(model).__name__)
