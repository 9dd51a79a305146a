"""What models share."""
from collections import OrderedDict

from taper.nn import ModuleDict


def _make_divisible(v, divisor, min_value=None):
    """The nearest multiple of divisor, not more than a tenth below v."""
    rounded = max(min_value or divisor, int(v + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * v else rounded


class IntermediateLayerGetter(ModuleDict):
    """The outputs of some of a model's children: return_layers says which, and under what names."""

    def __init__(self, model, return_layers):
        children = dict(model.named_children())
        if not set(map(str, return_layers)) <= set(children):
            raise ValueError("return_layers are not present in model")
        wanted = {str(k): str(v) for k, v in return_layers.items()}
        last = max(i for i, name in enumerate(children) if name in wanted)
        super().__init__(OrderedDict(list(children.items())[:last + 1]))
        self.return_layers = wanted

    def forward(self, x):
        out = OrderedDict()
        for name, module in self.items():
            x = module(x)
            if name in self.return_layers:
                out[self.return_layers[name]] = x
        return out
