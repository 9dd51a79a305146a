"""Running a graph on example inputs to note the shape, dtype and layout of each value in node.meta["tensor_meta"]."""

from typing import Any, Dict, NamedTuple, Optional, Tuple

import taper
from taper.fx.interpreter import Interpreter
from taper.fx.node import map_aggregate


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its elements."""

    shape: taper.Size
    dtype: taper.dtype
    requires_grad: bool
    stride: Tuple[int, ...]
    memory_format: Optional[taper.memory_format]
    is_quantized: bool
    qparams: Dict[str, Any]


def _extract_tensor_metadata(result, include_contiguity=True):
    memory_format = None
    if include_contiguity:
        formats = [taper.contiguous_format]
        formats += [taper.channels_last] if result.dim() == 4 else [taper.channels_last_3d] if result.dim() == 5 else []
        memory_format = next((f for f in formats if result.is_contiguous(memory_format=f)), None)
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), memory_format, False, {})


class ShapeProp(Interpreter):
    """ShapeProp(module).propagate(*inputs) runs the module and fills in meta["tensor_meta"] and meta["type"]."""

    def __init__(self, gm, fake_mode=None):
        super().__init__(gm)
        if fake_mode is not None:
            from taper._hook import NotCovered

            raise NotCovered("torch.fx ShapeProp with fake tensors")

    def run_node(self, n):
        result, found = super().run_node(n), []

        def note(item):
            if isinstance(item, taper.Tensor):
                found.append(item)
                return _extract_tensor_metadata(item)
            return item

        meta = map_aggregate(result, note)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args):
        return super().run(*args)
