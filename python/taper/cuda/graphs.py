"""torch.cuda.graphs: calls recorded once and replayed."""
from taper.cuda import CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing, make_graphed_callables  # noqa: F401
