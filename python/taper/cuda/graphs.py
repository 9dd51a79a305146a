"""torch.cuda.graphs: calls recorded once and replayed."""

from taper import _C, cuda as _cuda
from taper._gpu.graphs import Graph, capturing, graph_pool_handle, graphed_callables  # noqa: F401

__all__ = ["is_current_stream_capturing", "graph_pool_handle", "CUDAGraph", "graph", "make_graphed_callables"]


class CUDAGraph(Graph):
    """Calls recorded once and replayed."""


graph = capturing(_cuda)


def is_current_stream_capturing():
    """Is the current stream being recorded?"""
    return _C._gpu_count("cuda") > 0 and _C._gpu_capturing("cuda", _C._gpu_current("cuda"))


def make_graphed_callables(
    callables,
    sample_args,
    num_warmup_iters=3,
    allow_unused_input=False,
    pool=None,
    capture_error_mode="global",
    enable_annotations=False,
):
    """Callables whose forward and backward are recorded as graphs and replayed from then on."""
    _cuda.init()
    return graphed_callables(
        _cuda, CUDAGraph, callables, sample_args, num_warmup_iters, allow_unused_input, pool, capture_error_mode
    )
