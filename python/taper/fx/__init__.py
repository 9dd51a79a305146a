"""torch.fx: a module's forward as a graph of nodes that Python code reads, changes and turns into a module again."""

from taper.fx.graph import CodeGen, Graph, PythonCode
from taper.fx.graph_module import GraphModule
from taper.fx.interpreter import Interpreter, Transformer
from taper.fx.node import Node, has_side_effect, map_arg
from taper.fx.proxy import Proxy
from taper.fx._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from taper.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "symbolic_trace",
    "Tracer",
    "wrap",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "replace_pattern",
    "has_side_effect",
    "map_arg",
    "Transformer",
    "CodeGen",
    "PH",
    "ProxyableClassMeta",
    "PythonCode",
]
