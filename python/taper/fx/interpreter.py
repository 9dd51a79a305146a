"""Running a graph node by node, and rebuilding one on the way."""

from taper.fx.graph import Graph
from taper.fx.graph_module import GraphModule
from taper.fx.node import map_aggregate, map_arg
from taper.fx.proxy import Proxy


class Interpreter:
    """Runs a GraphModule; subclasses override what a kind of node does."""

    def __init__(self, module, garbage_collect_values=True, graph=None):
        self.module, self.graph = module, graph if graph is not None else module.graph
        self.submodules = dict(module.named_modules())
        self.env, self.name, self.garbage_collect_values, self.extra_traceback = (
            {},
            "Interpreter",
            garbage_collect_values,
            True,
        )

    def run(self, *args, initial_env=None, enable_io_processing=True):
        self.env = dict(initial_env or {})
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        last = self._last_uses() if self.garbage_collect_values else {}
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if (
                    self.extra_traceback
                    and error.args
                    and isinstance(error.args[0], str)
                    and "While executing" not in error.args[0]
                ):
                    error.args = (f"{error.args[0]}\n\nWhile executing {node.format_node()}", *error.args[1:])
                raise
            if node.op == "output":
                value = self.env[node]
                return self.graph.process_outputs(value) if enable_io_processing else value
            for used in last.get(node, ()):
                self.env.pop(used, None)
        return None

    def _last_uses(self):
        from taper.fx.graph import _last_uses

        return _last_uses(list(self.graph.nodes))

    def boxed_run(self, args_list):
        args = tuple(args_list)
        args_list.clear()
        return self.run(*args)

    def run_node(self, n):
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target, args, kwargs):
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target, args, kwargs):
        return self.fetch_attr(target)

    def call_function(self, target, args, kwargs):
        return target(*args, **kwargs)

    def call_method(self, target, args, kwargs):
        owner, *rest = args
        return getattr(owner, target)(*rest, **kwargs)

    def call_module(self, target, args, kwargs):
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target, args, kwargs):
        return args[0]

    def fetch_attr(self, target):
        value = self.module
        parts = target.split(".")
        for i, part in enumerate(parts):
            if not hasattr(value, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[: i + 1])}")
            value = getattr(value, part)
        return value

    def fetch_args_kwargs_from_env(self, n):
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args, n):
        def value(node):
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[node]

        return map_arg(args, value)


class Transformer(Interpreter):
    """An Interpreter on stand-ins: what its methods do becomes a new graph module."""

    def __init__(self, module):
        super().__init__(module)
        from taper.fx._symbolic_trace import Tracer

        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)

        class TransformerTracer(Tracer):
            def __init__(self, graph):
                super().__init__()
                self.graph, self.root = graph, module

            def is_leaf_module(self, m, module_qualified_name):
                return True

        self.tracer = TransformerTracer(self.new_graph)

    def placeholder(self, target, args, kwargs):
        default = (args[0],) if args else ()
        return Proxy(self.new_graph.placeholder(target, None, *default), self.tracer)

    def get_attr(self, target, args, kwargs):
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target, args, kwargs):
        submodule = self.fetch_attr(target)
        return self.tracer.call_module(submodule, submodule.forward, args, kwargs)

    def call_function(self, target, args, kwargs):
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target, args, kwargs):
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self):
        """The new module."""
        result = super().run(enable_io_processing=False)
        if result is not None:

            def strip(item):
                return item.node if isinstance(item, Proxy) else item

            self.new_graph.output(map_aggregate(result, strip))
        return GraphModule(self.module, self.new_graph)

    def run_node(self, n):
        result = super().run_node(n)
        if isinstance(result, Proxy) and n.op != "output":
            for key, value in n.meta.items():
                result.node.meta.setdefault(key, value)
        return result
