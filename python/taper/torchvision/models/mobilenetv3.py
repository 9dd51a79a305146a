"""MobileNet V3."""

from functools import partial

import taper as torch
from taper import nn
from taper.torchvision.models._api import builder, weights_enum
from taper.torchvision.models._utils import _make_divisible, start
from taper.torchvision.models.mobilenetv2 import MOBILE
from taper.torchvision.ops.misc import Conv2dNormActivation, SqueezeExcitation

MobileNet_V3_Large_Weights = weights_enum("MobileNet_V3_Large_Weights")
MobileNet_V3_Small_Weights = weights_enum("MobileNet_V3_Small_Weights")


class InvertedResidualConfig:
    def __init__(
        self, input_channels, kernel, expanded_channels, out_channels, use_se, activation, stride, dilation, width_mult
    ):
        widths = {
            "input_channels": input_channels,
            "expanded_channels": expanded_channels,
            "out_channels": out_channels,
        }
        for name, channels in widths.items():
            setattr(self, name, self.adjust_channels(channels, width_mult))
        self.kernel, self.use_se, self.use_hs, self.stride, self.dilation = (
            kernel,
            use_se,
            activation == "HS",
            stride,
            dilation,
        )

    @staticmethod
    def adjust_channels(channels, width_mult):
        return _make_divisible(width_mult * channels, 8)


class InvertedResidual(nn.Module):
    def __init__(self, cnf, norm_layer, se_layer=partial(SqueezeExcitation, scale_activation=nn.Hardsigmoid)):
        super().__init__()
        if cnf.stride not in (1, 2):
            raise ValueError("illegal stride value")
        i, wide, o = cnf.input_channels, cnf.expanded_channels, cnf.out_channels
        unit = partial(
            Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.Hardswish if cnf.use_hs else nn.ReLU
        )
        widened = [unit(i, wide, 1)] if wide != i else []
        stride = cnf.stride if cnf.dilation <= 1 else 1
        depthwise = unit(wide, wide, cnf.kernel, stride, groups=wide, dilation=cnf.dilation)
        squeezed = [se_layer(wide, _make_divisible(wide // 4, 8))] if cnf.use_se else []
        self.block = nn.Sequential(*widened, depthwise, *squeezed, unit(wide, o, 1, activation_layer=None))
        self.use_res_connect, self.out_channels, self._is_cn = (cnf.stride, i) == (1, o), o, cnf.stride > 1

    def forward(self, input):
        out = self.block(input)
        if self.use_res_connect:
            out += input
        return out


class MobileNetV3(nn.Module):
    def __init__(
        self,
        inverted_residual_setting,
        last_channel,
        num_classes=1000,
        block=None,
        norm_layer=None,
        dropout=0.2,
        **kwargs,
    ):
        super().__init__()
        if len(inverted_residual_setting or ()) == 0:
            raise ValueError("The inverted_residual_setting should not be empty")
        norm_layer = norm_layer or partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        unit = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.Hardswish)
        first = unit(3, inverted_residual_setting[0].input_channels, stride=2)
        blocks = [(block or InvertedResidual)(row, norm_layer) for row in inverted_residual_setting]
        width = inverted_residual_setting[-1].out_channels
        self.features = nn.Sequential(first, *blocks, unit(width, 6 * width, 1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(6 * width, last_channel),
            nn.Hardswish(inplace=True),
            nn.Dropout(dropout, inplace=True),
            nn.Linear(last_channel, num_classes),
        )
        start(self, MOBILE)

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


# input, kernel, expanded, out, squeezed, activation, stride, in the tail (whose width may be halved and stride dilated)
_SETTINGS = {
    "large": (
        [
            (16, 3, 16, 16, 0, "RE", 1, 0),
            (16, 3, 64, 24, 0, "RE", 2, 0),
            (24, 3, 72, 24, 0, "RE", 1, 0),
            (24, 5, 72, 40, 1, "RE", 2, 0),
            (40, 5, 120, 40, 1, "RE", 1, 0),
            (40, 5, 120, 40, 1, "RE", 1, 0),
            (40, 3, 240, 80, 0, "HS", 2, 0),
            (80, 3, 200, 80, 0, "HS", 1, 0),
            (80, 3, 184, 80, 0, "HS", 1, 0),
            (80, 3, 184, 80, 0, "HS", 1, 0),
            (80, 3, 480, 112, 1, "HS", 1, 0),
            (112, 3, 672, 112, 1, "HS", 1, 0),
            (112, 5, 672, 160, 1, "HS", 2, 1),
            (160, 5, 960, 160, 1, "HS", 1, 2),
            (160, 5, 960, 160, 1, "HS", 1, 2),
        ],
        1280,
    ),
    "small": (
        [
            (16, 3, 16, 16, 1, "RE", 2, 0),
            (16, 3, 72, 24, 0, "RE", 2, 0),
            (24, 3, 88, 24, 0, "RE", 1, 0),
            (24, 5, 96, 40, 1, "HS", 2, 0),
            (40, 5, 240, 40, 1, "HS", 1, 0),
            (40, 5, 240, 40, 1, "HS", 1, 0),
            (40, 5, 120, 48, 1, "HS", 1, 0),
            (48, 5, 144, 48, 1, "HS", 1, 0),
            (48, 5, 288, 96, 1, "HS", 2, 1),
            (96, 5, 576, 96, 1, "HS", 1, 2),
            (96, 5, 576, 96, 1, "HS", 1, 2),
        ],
        1024,
    ),
}


def _mobilenet_v3(size, width_mult=1.0, reduced_tail=False, dilated=False, **kwargs):
    rows, last = _SETTINGS[size]
    reduce, dilation = 2 if reduced_tail else 1, 2 if dilated else 1
    setting = []
    for i, kernel, expanded, out, squeezed, activation, stride, tail in rows:
        i, expanded = (i // reduce, expanded // reduce) if tail == 2 else (i, expanded)
        setting.append(
            InvertedResidualConfig(
                i,
                kernel,
                expanded,
                out // reduce if tail else out,
                bool(squeezed),
                activation,
                stride,
                dilation if tail else 1,
                width_mult,
            )
        )
    return MobileNetV3(setting, InvertedResidualConfig.adjust_channels(last // reduce, width_mult), **kwargs)


@builder("MobileNet_V3_Large_Weights")
def mobilenet_v3_large(**kwargs):
    return _mobilenet_v3("large", **kwargs)


@builder("MobileNet_V3_Small_Weights")
def mobilenet_v3_small(**kwargs):
    return _mobilenet_v3("small", **kwargs)
