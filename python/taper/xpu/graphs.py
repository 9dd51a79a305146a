"""torch.xpu.graphs: calls recorded once and replayed."""

from taper import _C, xpu as _xpu
from taper._gpu.graphs import Graph, capturing, graph_pool_handle, graphed_callables  # noqa: F401

__all__ = ["is_current_stream_capturing", "graph_pool_handle", "XPUGraph", "graph", "make_graphed_callables"]


class XPUGraph(Graph):
    """Calls recorded once and replayed."""

    _kind, _word = "xpu", "XPU"


graph = capturing(_xpu)


def is_current_stream_capturing():
    """Is the current stream being recorded?"""
    return _C._gpu_count("xpu") > 0 and _C._gpu_capturing("xpu", _C._gpu_current("xpu"))


def make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None):
    """Callables whose forward and backward are recorded as graphs and replayed from then on."""
    _xpu.init()
    return graphed_callables(_xpu, XPUGraph, callables, sample_args, num_warmup_iters, allow_unused_input, pool)
