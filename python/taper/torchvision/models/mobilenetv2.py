"""MobileNet V2."""

from functools import partial

import taper as torch
from taper import nn
from taper.nn import functional as F
from taper.torchvision.models._api import builder, weights_enum
from taper.torchvision.models._utils import NORMS, _make_divisible, fan_out, narrow, start
from taper.torchvision.ops.misc import Conv2dNormActivation

MobileNet_V2_Weights = weights_enum("MobileNet_V2_Weights")


MOBILE = {nn.Conv2d: fan_out, NORMS: nn.init.ones_, nn.Linear: narrow}  # the start that mobile networks share


class InvertedResidual(nn.Module):
    def __init__(self, inp, oup, stride, expand_ratio, norm_layer=None):
        super().__init__()
        self.stride = stride
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        norm_layer, wide = norm_layer or nn.BatchNorm2d, int(round(inp * expand_ratio))
        self.use_res_connect = (stride, inp) == (1, oup)
        unit = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.ReLU6)
        widened = [unit(inp, wide, 1)] if expand_ratio != 1 else []
        self.conv = nn.Sequential(
            *widened, unit(wide, wide, stride=stride, groups=wide), nn.Conv2d(wide, oup, 1, bias=False), norm_layer(oup)
        )
        self.out_channels, self._is_cn = oup, stride > 1

    def forward(self, x):
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(
        self,
        num_classes=1000,
        width_mult=1.0,
        inverted_residual_setting=None,
        round_nearest=8,
        block=None,
        norm_layer=None,
        dropout=0.2,
    ):
        super().__init__()
        block, norm_layer = block or InvertedResidual, norm_layer or nn.BatchNorm2d
        setting = inverted_residual_setting  # expansion, channels, repeats, stride
        if setting is None:
            setting = [
                [1, 16, 1, 1],
                [6, 24, 2, 2],
                [6, 32, 3, 2],
                [6, 64, 4, 2],
                [6, 96, 3, 1],
                [6, 160, 3, 2],
                [6, 320, 1, 1],
            ]
        if len(setting) == 0 or len(setting[0]) != 4:
            raise ValueError(f"inverted_residual_setting should be non-empty or a 4-element list, got {setting}")

        def scaled(channels, factor=width_mult):
            return _make_divisible(channels * factor, round_nearest)

        unit = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.ReLU6)
        width, self.last_channel = scaled(32), scaled(1280, max(1.0, width_mult))
        layers = [unit(3, width, stride=2)]
        for expansion, channels, repeats, stride in setting:
            for step in [stride] + [1] * (repeats - 1):
                layers.append(block(width, scaled(channels), step, expand_ratio=expansion, norm_layer=norm_layer))
                width = scaled(channels)
        self.features = nn.Sequential(*layers, unit(width, self.last_channel, 1))
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(self.last_channel, num_classes))
        start(self, MOBILE)

    def forward(self, x):
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(self.features(x), (1, 1)), 1))


@builder("MobileNet_V2_Weights")
def mobilenet_v2(**kwargs):
    return MobileNetV2(**kwargs)
