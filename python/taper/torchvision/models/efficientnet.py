"""EfficientNets, versions 1 and 2."""

import copy
import math
from functools import partial
from itertools import count

import taper as torch
from taper import nn
from taper.torchvision.models._api import register
from taper.torchvision.models._utils import NORMS, _make_divisible, fan_out, start
from taper.torchvision.ops.misc import Conv2dNormActivation, SqueezeExcitation, StochasticDepth


class _MBConvConfig:
    def __init__(self, expand_ratio, kernel, stride, input_channels, out_channels, num_layers, block):
        self.expand_ratio, self.kernel, self.stride = expand_ratio, kernel, stride
        self.input_channels, self.out_channels, self.num_layers, self.block = (
            input_channels,
            out_channels,
            num_layers,
            block,
        )

    @staticmethod
    def adjust_channels(channels, width_mult, min_value=None):
        return _make_divisible(width_mult * channels, 8, min_value=min_value)


class MBConvConfig(_MBConvConfig):
    def __init__(
        self,
        expand_ratio,
        kernel,
        stride,
        input_channels,
        out_channels,
        num_layers,
        width_mult=1.0,
        depth_mult=1.0,
        block=None,
    ):
        super().__init__(
            expand_ratio,
            kernel,
            stride,
            self.adjust_channels(input_channels, width_mult),
            self.adjust_channels(out_channels, width_mult),
            int(math.ceil(num_layers * depth_mult)),
            block or MBConv,
        )


class FusedMBConvConfig(_MBConvConfig):
    def __init__(self, expand_ratio, kernel, stride, input_channels, out_channels, num_layers, block=None):
        super().__init__(expand_ratio, kernel, stride, input_channels, out_channels, num_layers, block or FusedMBConv)


def _unit(i, o, kernel, norm_layer, active=True, **options):
    return Conv2dNormActivation(
        i, o, kernel, norm_layer=norm_layer, activation_layer=nn.SiLU if active else None, **options
    )


class _Residual(nn.Module):
    """Layers around which the input goes too, where shapes allow it; a whole image's layers may be skipped."""

    def __init__(self, cnf, layers, stochastic_depth_prob):
        super().__init__()
        if cnf.stride not in (1, 2):
            raise ValueError("illegal stride value")
        self.block, self.stochastic_depth = nn.Sequential(*layers), StochasticDepth(p=stochastic_depth_prob, mode="row")
        self.use_res_connect, self.out_channels = (
            (cnf.stride, cnf.input_channels) == (1, cnf.out_channels),
            cnf.out_channels,
        )

    def forward(self, input):
        out = self.block(input)
        if self.use_res_connect:
            out = self.stochastic_depth(out)
            out += input
        return out


class MBConv(_Residual):
    """Widened, filtered channel by channel, weighed by squeeze and excitation, narrowed."""

    def __init__(self, cnf, stochastic_depth_prob, norm_layer, se_layer=SqueezeExcitation):
        i, wide = cnf.input_channels, cnf.adjust_channels(cnf.input_channels, cnf.expand_ratio)
        widened = [_unit(i, wide, 1, norm_layer)] if wide != i else []
        layers = [
            _unit(wide, wide, cnf.kernel, norm_layer, stride=cnf.stride, groups=wide),
            se_layer(wide, max(1, i // 4), activation=partial(nn.SiLU, inplace=True)),
            _unit(wide, cnf.out_channels, 1, norm_layer, active=False),
        ]
        super().__init__(cnf, widened + layers, stochastic_depth_prob)


class FusedMBConv(_Residual):
    """Widened by a full convolution and narrowed, or one full convolution where there is nothing to widen."""

    def __init__(self, cnf, stochastic_depth_prob, norm_layer):
        i, o, wide = cnf.input_channels, cnf.out_channels, cnf.adjust_channels(cnf.input_channels, cnf.expand_ratio)
        layers = [_unit(i, o if wide == i else wide, cnf.kernel, norm_layer, stride=cnf.stride)]
        if wide != i:
            layers.append(_unit(wide, o, 1, norm_layer, active=False))
        super().__init__(cnf, layers, stochastic_depth_prob)


class EfficientNet(nn.Module):
    def __init__(
        self,
        inverted_residual_setting,
        dropout,
        stochastic_depth_prob=0.2,
        num_classes=1000,
        norm_layer=None,
        last_channel=None,
    ):
        super().__init__()
        if len(inverted_residual_setting or ()) == 0:
            raise ValueError("The inverted_residual_setting should not be empty")
        norm_layer, setting = norm_layer or nn.BatchNorm2d, inverted_residual_setting
        total = sum(stage.num_layers for stage in setting)
        drops = (
            stochastic_depth_prob * float(number) / total for number in count()
        )  # the deeper, the more often a block is skipped
        layers = [_unit(3, setting[0].input_channels, 3, norm_layer, stride=2)]
        for stage in setting:
            first, further = copy.copy(stage), copy.copy(stage)
            further.input_channels, further.stride = stage.out_channels, 1
            rows = [first] + [further] * (stage.num_layers - 1)
            layers.append(nn.Sequential(*(row.block(row, drop, norm_layer) for row, drop in zip(rows, drops))))
        width = setting[-1].out_channels
        last = 4 * width if last_channel is None else last_channel
        self.features = nn.Sequential(*layers, _unit(width, last, 1, norm_layer))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(dropout, inplace=True), nn.Linear(last, num_classes))
        reach = 1.0 / math.sqrt(num_classes)
        start(
            self,
            {
                nn.Conv2d: fan_out,
                NORMS: nn.init.ones_,
                nn.Linear: lambda weight: nn.init.uniform_(weight, -reach, reach),
            },
        )

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


# expand ratio, kernel, stride, input, output, layers; in version 2 fused ones first
_STAGES = [
    (1, 3, 1, 32, 16, 1),
    (6, 3, 2, 16, 24, 2),
    (6, 5, 2, 24, 40, 2),
    (6, 3, 2, 40, 80, 3),
    (6, 5, 1, 80, 112, 3),
    (6, 5, 2, 112, 192, 4),
    (6, 3, 1, 192, 320, 1),
]
_STAGES_V2 = {
    "s": (
        [(1, 3, 1, 24, 24, 2), (4, 3, 2, 24, 48, 4), (4, 3, 2, 48, 64, 4)],
        [(4, 3, 2, 64, 128, 6), (6, 3, 1, 128, 160, 9), (6, 3, 2, 160, 256, 15)],
    ),
    "m": (
        [(1, 3, 1, 24, 24, 3), (4, 3, 2, 24, 48, 5), (4, 3, 2, 48, 80, 5)],
        [(4, 3, 2, 80, 160, 7), (6, 3, 1, 160, 176, 14), (6, 3, 2, 176, 304, 18), (6, 3, 1, 304, 512, 5)],
    ),
    "l": (
        [(1, 3, 1, 32, 32, 4), (4, 3, 2, 32, 64, 7), (4, 3, 2, 64, 96, 7)],
        [(4, 3, 2, 96, 192, 10), (6, 3, 1, 192, 224, 19), (6, 3, 2, 224, 384, 25), (6, 3, 1, 384, 640, 7)],
    ),
}


def _version1(number, width, depth, dropout, precise):
    def make(**kwargs):
        setting = [MBConvConfig(*stage, width_mult=width, depth_mult=depth) for stage in _STAGES]
        if precise:
            kwargs.setdefault("norm_layer", partial(nn.BatchNorm2d, eps=0.001, momentum=0.01))
        return EfficientNet(setting, kwargs.pop("dropout", dropout), **kwargs)

    register(globals(), f"efficientnet_b{number}", f"EfficientNet_B{number}_Weights", make)


def _version2(size, dropout):
    def make(**kwargs):
        fused, plain = _STAGES_V2[size]
        setting = [FusedMBConvConfig(*stage) for stage in fused] + [MBConvConfig(*stage) for stage in plain]
        kwargs.setdefault("norm_layer", partial(nn.BatchNorm2d, eps=1e-03))
        return EfficientNet(setting, kwargs.pop("dropout", dropout), last_channel=1280, **kwargs)

    register(globals(), f"efficientnet_v2_{size}", f"EfficientNet_V2_{size.upper()}_Weights", make)


for _arguments in (
    (0, 1.0, 1.0, 0.2, False),
    (1, 1.0, 1.1, 0.2, False),
    (2, 1.1, 1.2, 0.3, False),
    (3, 1.2, 1.4, 0.3, False),
    (4, 1.4, 1.8, 0.4, False),
    (5, 1.6, 2.2, 0.4, True),
    (6, 1.8, 2.6, 0.5, True),
    (7, 2.0, 3.1, 0.5, True),
):
    _version1(*_arguments)
for _arguments in (("s", 0.2), ("m", 0.3), ("l", 0.4)):
    _version2(*_arguments)
