"""torch.utils.mkldnn: modules whose parameters lie in oneDNN's layout, for inference."""

from copy import deepcopy

from taper import _C
from taper import nn
from taper.func import functional_call

_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm2d, nn.BatchNorm3d, nn.PReLU)


class MkldnnModule(nn.Module):
    """A layer whose parameters are constants in the layout; it takes tensors of both layouts and answers in that of its
    input."""

    def __init__(self, dense, dtype):
        super().__init__()
        self.__dict__["_dense"] = (
            deepcopy(dense).requires_grad_(False).eval()
        )  # no child: its parameters are the buffers here
        for name, value in [*dense._parameters.items(), *dense._buffers.items()]:
            self.register_buffer(
                name,
                None if value is None else value.detach().to(dtype).to_mkldnn() if value.is_floating_point() else value,
            )
        self.eval()

    def forward(self, x):
        values = {name: value.to_dense() for name, value in self._buffers.items() if value is not None}
        result = functional_call(self._dense, values, (x.to_dense(),))
        return result.to_mkldnn() if x.is_mkldnn else result


def to_mkldnn(module, dtype=_C.float32):
    """The module for inference with tensors in oneDNN's layout."""
    if dtype not in (_C.float32, _C.bfloat16, _C.float16):
        raise AssertionError("MKLDNN only support float, bfloat16, and half path now")
    if isinstance(module, _LAYERS):
        return MkldnnModule(module, _C.float32 if isinstance(module, (nn.BatchNorm2d, nn.BatchNorm3d)) else dtype)
    made = deepcopy(module)
    for name, child in module.named_children():
        setattr(made, name, to_mkldnn(child, dtype))
    return made
