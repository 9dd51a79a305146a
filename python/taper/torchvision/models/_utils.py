"""What models share."""

from collections import OrderedDict

from taper import nn


def _make_divisible(v, divisor, min_value=None):
    """The nearest multiple of divisor, not more than a tenth below v."""
    rounded = max(min_value or divisor, int(v + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * v else rounded


NORMS = nn.BatchNorm2d, nn.GroupNorm


def start(model, rules, bias=nn.init.zeros_):
    """Starting values. `rules` says by kind of module what fills the weight, None leaves it; `bias` fills biases."""
    for module in model.modules():
        kind = next((kind for kind in rules if isinstance(module, kind)), None)
        if kind is None:
            continue
        if rules[kind] is not None:
            rules[kind](module.weight)
        if module.bias is not None:
            bias(module.bias)


def fan_out(weight):
    """He's normal start, by what leaves the layer."""
    nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu")


def narrow(weight):
    nn.init.normal_(weight, std=0.01)


def attention_mlp(mlp):
    """The start of the linear layers between attentions."""
    start(mlp, {nn.Linear: nn.init.xavier_uniform_}, bias=lambda values: nn.init.normal_(values, std=1e-6))


class IntermediateLayerGetter(nn.ModuleDict):
    """The outputs of some of a model's children: return_layers says which, and under what names."""

    def __init__(self, model, return_layers):
        children = dict(model.named_children())
        if not set(map(str, return_layers)) <= set(children):
            raise ValueError("return_layers are not present in model")
        wanted = {str(k): str(v) for k, v in return_layers.items()}
        last = max(i for i, name in enumerate(children) if name in wanted)
        super().__init__(OrderedDict(list(children.items())[: last + 1]))
        self.return_layers = wanted

    def forward(self, x):
        out = OrderedDict()
        for name, module in self.items():
            x = module(x)
            if name in self.return_layers:
                out[self.return_layers[name]] = x
        return out
