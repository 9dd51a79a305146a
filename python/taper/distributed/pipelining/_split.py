"""Cutting a model into stages: its forward is traced, and the values that cross a border become what one stage gives
and the next one takes.

Modules are calls of their own in the trace, but for those that hold a border inside. A value that a later stage needs
passes through those between."""

from collections import namedtuple
from enum import Enum

from taper.distributed.pipelining.stage import PipelineStage
from taper.fx import Graph, GraphModule, Tracer
from taper.fx.node import map_arg
from taper.nn import Module

__all__ = ["Pipe", "SplitPoint", "build_stage", "pipe_split", "pipeline"]

PipeInfo = namedtuple("PipeInfo", ["graph", "num_stages", "has_loss_and_backward"])


class SplitPoint(Enum):
    """Where a stage begins: before a module, or after it."""

    BEGINNING = 1
    END = 2


_tracers = []  # of traces under way


def pipe_split():
    """In a model's forward: what follows belongs to the next stage."""
    if _tracers:
        _tracers[-1].create_proxy("call_function", pipe_split, (), {})


class _Tracer(Tracer):
    """Goes into the modules that hold borders; without any named, into all that are not torch.nn's own."""

    def __init__(self, borders):
        super().__init__()
        self.inside = {name[:at] for name in borders for at, letter in enumerate(name) if letter == "."}

    def is_leaf_module(self, m, module_qualified_name):
        return (
            module_qualified_name not in self.inside
            if self.inside is not None
            else super().is_leaf_module(m, module_qualified_name)
        )

    def trace(self, root, concrete_args=None):
        _tracers.append(self)
        try:
            return super().trace(root, concrete_args)
        finally:
            _tracers.pop()


def _stages_of(graph, split_spec):
    """Node to the number of its stage; how many there are."""
    found, stage, left = {}, 0, set(split_spec)
    for node in graph.nodes:
        point = split_spec.get(node.target) if node.op == "call_module" else None
        left.discard(node.target if point is not None else None)
        if node.target is pipe_split or point == SplitPoint.BEGINNING:
            stage += 1
        found[node] = stage
        if point == SplitPoint.END:
            stage += 1
    if left:
        raise ValueError(f"split_spec names modules that the forward does not call: {', '.join(sorted(left))}")
    return found, stage + 1


def _live(graph, stages, after):
    """The values that cross the border behind a stage, in the order they were made. What is read from the model itself
    is read where it is used."""
    return [
        node
        for node in graph.nodes
        if node.op not in ("get_attr", "output")
        and node.target is not pipe_split
        and stages[node] <= after
        and any(stages[user] > after for user in node.users)
    ]


def _stage_module(root, graph, stages, number, last):
    """One stage as a module of its own; parameters keep their names."""
    made, values = Graph(), {}
    incoming = (
        [node for node in graph.nodes if node.op == "placeholder"] if number == 0 else _live(graph, stages, number - 1)
    )
    for node in incoming:
        values[node] = made.placeholder(node.name) if number else made.node_copy(node)

    def value(node):
        if node.op == "get_attr" and node not in values:
            values[node] = made.node_copy(node)
        return values[node]

    for node in graph.nodes:
        if (
            stages[node] == number
            and node.op not in ("placeholder", "get_attr", "output")
            and node.target is not pipe_split
        ):
            values[node] = made.node_copy(node, value)
    if number == last:
        made.output(map_arg(graph.output_node().args[0], value))
    else:
        outgoing = [value(node) for node in _live(graph, stages, number)]
        made.output(outgoing[0] if len(outgoing) == 1 else tuple(outgoing))
    return GraphModule(root, made)


class Pipe(Module):
    """The stages of a model: get_stage_module(i), build_stage(i, device). Called, it runs them one after the other."""

    def __init__(self, stages):
        super().__init__()
        self.num_stages = len(stages)
        for i, stage in enumerate(stages):
            self.add_module(f"submod_{i}", stage)

    def get_stage_module(self, stage_idx):
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}!")
        return getattr(self, f"submod_{stage_idx}")

    def forward(self, *args, **kwargs):
        result = self.get_stage_module(0)(*args, **kwargs)
        for i in range(1, self.num_stages):
            result = self.get_stage_module(i)(*(result if isinstance(result, tuple) else (result,)))
        return result

    def info(self):
        return PipeInfo(self.get_stage_module(0).graph, self.num_stages, False)

    def build_stage(self, stage_index, device, group=None):
        return build_stage(self.get_stage_module(stage_index), stage_index, self.info(), device, group)


def build_stage(stage_module, stage_index, pipe_info, device, group=None):
    """A stage of a pipe for a schedule."""
    return PipelineStage(stage_module.to(device), stage_index, pipe_info.num_stages, device, group=group)


def pipeline(module, mb_args, mb_kwargs=None, split_spec=None, split_policy=None):
    """Cuts a model where split_spec says ({module's name: SplitPoint}), or where its forward calls pipe_split().
    mb_args are a micro-batch's inputs."""
    if split_spec is not None and split_policy is not None:
        raise ValueError("Cannot specify both `split_spec` and `split_policy`. Please use only one of them.")
    tracer = _Tracer(split_spec or ())
    if not split_spec:
        tracer.inside = None
    graph = tracer.trace(module)
    given = len(mb_args) + len(mb_kwargs or {})
    for unused in [node for node in graph.nodes if node.op == "placeholder"][
        given:
    ]:  # optional inputs that nobody gives keep their defaults
        if unused.users and not unused.args:
            raise ValueError(f"the model's input '{unused.target}' is neither in mb_args nor in mb_kwargs")
    if split_policy is not None:
        graph = split_policy(GraphModule(module, graph)).graph
    stages, count = _stages_of(graph, split_spec or {})
    return Pipe([_stage_module(module, graph, stages, i, count - 1) for i in range(count)])
