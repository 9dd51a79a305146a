"""MNASNets."""

from functools import partial

from taper import nn
from taper.torchvision.models._api import register
from taper.torchvision.models._utils import _make_divisible, fan_out, start

_norm = partial(nn.BatchNorm2d, momentum=1 - 0.9997)


def _conv(i, o, kernel=1, stride=1, groups=1, norm=_norm, active=True):
    """Convolution and norm, then relu unless the result stays linear."""
    layers = [nn.Conv2d(i, o, kernel, stride, kernel // 2, groups=groups, bias=False), norm(o)]
    return layers + [nn.ReLU(inplace=True)] * active


class _InvertedResidual(nn.Module):
    def __init__(self, in_ch, out_ch, kernel_size, stride, expansion_factor, bn_momentum=0.1):
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        if kernel_size not in (3, 5):
            raise ValueError(f"kernel_size should be 3 or 5 instead of {kernel_size}")
        mid, norm = in_ch * expansion_factor, partial(nn.BatchNorm2d, momentum=bn_momentum)
        self.apply_residual = (stride, in_ch) == (1, out_ch)
        self.layers = nn.Sequential(
            *_conv(in_ch, mid, norm=norm),
            *_conv(mid, mid, kernel_size, stride, mid, norm),
            *_conv(mid, out_ch, norm=norm, active=False),
        )

    def forward(self, input):
        return self.layers(input) + input if self.apply_residual else self.layers(input)


# Of each stack of residual blocks: width before alpha, kernel, stride of the first, expansion, number of blocks
_STACKS = (24, 3, 2, 3, 3), (40, 5, 2, 3, 3), (80, 5, 2, 6, 3), (96, 3, 1, 6, 2), (192, 5, 2, 6, 4), (320, 3, 1, 6, 1)


class MNASNet(nn.Module):
    _version = 2

    def __init__(self, alpha, num_classes=1000, dropout=0.2):
        super().__init__()
        if not alpha > 0.0:
            raise ValueError(f"alpha should be greater than 0.0 instead of {alpha}")
        self.alpha, self.num_classes = alpha, num_classes
        first, width = (_make_divisible(w * alpha, 8) for w in (32, 16))
        layers = [*_conv(3, first, 3, 2), *_conv(first, first, 3, groups=first), *_conv(first, width, active=False)]
        for base, kernel, stride, expansion, blocks in _STACKS:
            out = _make_divisible(base * alpha, 8)
            ends = [(width, stride)] + [(out, 1)] * (blocks - 1)
            layers.append(
                nn.Sequential(
                    *(_InvertedResidual(i, out, kernel, s, expansion, _norm.keywords["momentum"]) for i, s in ends)
                )
            )
            width = out
        self.layers = nn.Sequential(*layers, *_conv(width, 1280))
        self.classifier = nn.Sequential(nn.Dropout(dropout, inplace=True), nn.Linear(1280, num_classes))
        start(
            self,
            {
                nn.Conv2d: fan_out,
                nn.BatchNorm2d: nn.init.ones_,
                nn.Linear: partial(nn.init.kaiming_uniform_, mode="fan_out", nonlinearity="sigmoid"),
            },
        )

    def forward(self, x):
        return self.classifier(self.layers(x).mean([2, 3]))


def _builder(name, enum, alpha):
    def build(**kwargs):
        return MNASNet(alpha, **kwargs)

    register(globals(), name, enum, build)


for _alpha in ("0_5", "0_75", "1_0", "1_3"):
    _builder(f"mnasnet{_alpha}", f"MNASNet{_alpha}_Weights", float(_alpha.replace("_", ".")))
