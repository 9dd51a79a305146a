"""MobileNet V3."""
from functools import partial

import taper as torch
from taper import nn
from taper.torchvision.models._api import builder, weights_enum
from taper.torchvision.models._utils import _make_divisible
from taper.torchvision.models.mobilenetv2 import initialise
from taper.torchvision.ops.misc import Conv2dNormActivation, SqueezeExcitation

MobileNet_V3_Large_Weights = weights_enum("MobileNet_V3_Large_Weights")
MobileNet_V3_Small_Weights = weights_enum("MobileNet_V3_Small_Weights")


class InvertedResidualConfig:
    def __init__(self, input_channels, kernel, expanded_channels, out_channels, use_se, activation, stride, dilation, width_mult):
        self.input_channels = self.adjust_channels(input_channels, width_mult)
        self.kernel = kernel
        self.expanded_channels = self.adjust_channels(expanded_channels, width_mult)
        self.out_channels = self.adjust_channels(out_channels, width_mult)
        self.use_se, self.use_hs = use_se, activation == "HS"
        self.stride, self.dilation = stride, dilation

    @staticmethod
    def adjust_channels(channels, width_mult):
        return _make_divisible(channels * width_mult, 8)


class InvertedResidual(nn.Module):
    def __init__(self, cnf, norm_layer, se_layer=partial(SqueezeExcitation, scale_activation=nn.Hardsigmoid)):
        super().__init__()
        if cnf.stride not in (1, 2):
            raise ValueError("illegal stride value")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        layers, activation = [], nn.Hardswish if cnf.use_hs else nn.ReLU
        if cnf.expanded_channels != cnf.input_channels:
            layers.append(Conv2dNormActivation(cnf.input_channels, cnf.expanded_channels, kernel_size=1, norm_layer=norm_layer, activation_layer=activation))
        layers.append(Conv2dNormActivation(cnf.expanded_channels, cnf.expanded_channels, kernel_size=cnf.kernel, stride=1 if cnf.dilation > 1 else cnf.stride,
                                           dilation=cnf.dilation, groups=cnf.expanded_channels, norm_layer=norm_layer, activation_layer=activation))
        if cnf.use_se:
            layers.append(se_layer(cnf.expanded_channels, _make_divisible(cnf.expanded_channels // 4, 8)))
        layers.append(Conv2dNormActivation(cnf.expanded_channels, cnf.out_channels, kernel_size=1, norm_layer=norm_layer, activation_layer=None))
        self.block = nn.Sequential(*layers)
        self.out_channels = cnf.out_channels
        self._is_cn = cnf.stride > 1

    def forward(self, input):
        result = self.block(input)
        if self.use_res_connect:
            result += input
        return result


class MobileNetV3(nn.Module):
    def __init__(self, inverted_residual_setting, last_channel, num_classes=1000, block=None, norm_layer=None, dropout=0.2, **kwargs):
        super().__init__()
        if not inverted_residual_setting:
            raise ValueError("The inverted_residual_setting should not be empty")
        block, norm_layer = block or InvertedResidual, norm_layer or partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        layers = [Conv2dNormActivation(3, inverted_residual_setting[0].input_channels, kernel_size=3, stride=2, norm_layer=norm_layer,
                                       activation_layer=nn.Hardswish)]
        layers += [block(cnf, norm_layer) for cnf in inverted_residual_setting]
        width = inverted_residual_setting[-1].out_channels
        layers.append(Conv2dNormActivation(width, 6 * width, kernel_size=1, norm_layer=norm_layer, activation_layer=nn.Hardswish))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Linear(6 * width, last_channel), nn.Hardswish(inplace=True), nn.Dropout(p=dropout, inplace=True),
                                        nn.Linear(last_channel, num_classes))
        initialise(self)

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


_SETTINGS = {  # input, kernel, expanded, out, squeezed, activation, stride, in the tail (whose width may be halved and stride dilated)
    "large": ([(16, 3, 16, 16, 0, "RE", 1, 0), (16, 3, 64, 24, 0, "RE", 2, 0), (24, 3, 72, 24, 0, "RE", 1, 0), (24, 5, 72, 40, 1, "RE", 2, 0),
               (40, 5, 120, 40, 1, "RE", 1, 0), (40, 5, 120, 40, 1, "RE", 1, 0), (40, 3, 240, 80, 0, "HS", 2, 0), (80, 3, 200, 80, 0, "HS", 1, 0),
               (80, 3, 184, 80, 0, "HS", 1, 0), (80, 3, 184, 80, 0, "HS", 1, 0), (80, 3, 480, 112, 1, "HS", 1, 0), (112, 3, 672, 112, 1, "HS", 1, 0),
               (112, 5, 672, 160, 1, "HS", 2, 1), (160, 5, 960, 160, 1, "HS", 1, 2), (160, 5, 960, 160, 1, "HS", 1, 2)], 1280),
    "small": ([(16, 3, 16, 16, 1, "RE", 2, 0), (16, 3, 72, 24, 0, "RE", 2, 0), (24, 3, 88, 24, 0, "RE", 1, 0), (24, 5, 96, 40, 1, "HS", 2, 0),
               (40, 5, 240, 40, 1, "HS", 1, 0), (40, 5, 240, 40, 1, "HS", 1, 0), (40, 5, 120, 48, 1, "HS", 1, 0), (48, 5, 144, 48, 1, "HS", 1, 0),
               (48, 5, 288, 96, 1, "HS", 2, 1), (96, 5, 576, 96, 1, "HS", 1, 2), (96, 5, 576, 96, 1, "HS", 1, 2)], 1024),
}


def _mobilenet_v3(size, width_mult=1.0, reduced_tail=False, dilated=False, **kwargs):
    rows, last = _SETTINGS[size]
    reduce, dilation = 2 if reduced_tail else 1, 2 if dilated else 1
    setting = []
    for i, kernel, expanded, out, squeezed, activation, stride, tail in rows:
        i, expanded = (i // reduce, expanded // reduce) if tail == 2 else (i, expanded)
        setting.append(InvertedResidualConfig(i, kernel, expanded, out // reduce if tail else out, bool(squeezed), activation, stride,
                                              dilation if tail else 1, width_mult))
    return MobileNetV3(setting, InvertedResidualConfig.adjust_channels(last // reduce, width_mult), **kwargs)


@builder("MobileNet_V3_Large_Weights")
def mobilenet_v3_large(**kwargs):
    return _mobilenet_v3("large", **kwargs)


@builder("MobileNet_V3_Small_Weights")
def mobilenet_v3_small(**kwargs):
    return _mobilenet_v3("small", **kwargs)
