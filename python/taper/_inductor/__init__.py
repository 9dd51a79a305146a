"""torch._inductor: PyTorch's own compiler, of which scripts set options. They are kept as set."""

import types

from taper._dynamo import Settings
from taper.compiler import cudagraph_mark_step_begin  # noqa: F401

config = Settings(
    "taper._inductor.config",
    debug=False,
    cpp_wrapper=False,
    max_autotune=False,
    coordinate_descent_tuning=False,
    epilogue_fusion=True,
    fx_graph_cache=True,
    shape_padding=True,
    freezing=False,
    triton=types.SimpleNamespace(cudagraphs=False, unique_kernel_names=True, cudagraph_trees=True),
    cpp=types.SimpleNamespace(threads=-1, simdlen=None),
    compile_threads=1,
)
