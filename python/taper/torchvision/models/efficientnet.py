"""EfficientNets, versions 1 and 2."""
import copy
import math
from functools import partial

import taper as torch
from taper import nn
from taper.torchvision.models._api import register
from taper.torchvision.models._utils import _make_divisible
from taper.torchvision.ops.misc import Conv2dNormActivation, SqueezeExcitation, StochasticDepth


class _MBConvConfig:
    def __init__(self, expand_ratio, kernel, stride, input_channels, out_channels, num_layers, block):
        self.expand_ratio, self.kernel, self.stride = expand_ratio, kernel, stride
        self.input_channels, self.out_channels, self.num_layers, self.block = input_channels, out_channels, num_layers, block

    @staticmethod
    def adjust_channels(channels, width_mult, min_value=None):
        return _make_divisible(channels * width_mult, 8, min_value)


class MBConvConfig(_MBConvConfig):
    def __init__(self, expand_ratio, kernel, stride, input_channels, out_channels, num_layers, width_mult=1.0, depth_mult=1.0, block=None):
        super().__init__(expand_ratio, kernel, stride, self.adjust_channels(input_channels, width_mult), self.adjust_channels(out_channels, width_mult),
                         int(math.ceil(num_layers * depth_mult)), block or MBConv)


class FusedMBConvConfig(_MBConvConfig):
    def __init__(self, expand_ratio, kernel, stride, input_channels, out_channels, num_layers, block=None):
        super().__init__(expand_ratio, kernel, stride, input_channels, out_channels, num_layers, block or FusedMBConv)


class _Residual(nn.Module):
    """Layers around which the input goes too, where shapes allow it; a whole image's layers may be skipped."""

    def __init__(self, cnf, layers, stochastic_depth_prob):
        super().__init__()
        if not 1 <= cnf.stride <= 2:
            raise ValueError("illegal stride value")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        self.block = nn.Sequential(*layers)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.out_channels = cnf.out_channels

    def forward(self, input):
        result = self.block(input)
        if self.use_res_connect:
            result = self.stochastic_depth(result)
            result += input
        return result


class MBConv(_Residual):
    def __init__(self, cnf, stochastic_depth_prob, norm_layer, se_layer=SqueezeExcitation):
        layers, expanded = [], cnf.adjust_channels(cnf.input_channels, cnf.expand_ratio)
        if expanded != cnf.input_channels:
            layers.append(Conv2dNormActivation(cnf.input_channels, expanded, kernel_size=1, norm_layer=norm_layer, activation_layer=nn.SiLU))
        layers.append(Conv2dNormActivation(expanded, expanded, kernel_size=cnf.kernel, stride=cnf.stride, groups=expanded, norm_layer=norm_layer,
                                           activation_layer=nn.SiLU))
        layers.append(se_layer(expanded, max(1, cnf.input_channels // 4), activation=partial(nn.SiLU, inplace=True)))
        layers.append(Conv2dNormActivation(expanded, cnf.out_channels, kernel_size=1, norm_layer=norm_layer, activation_layer=None))
        super().__init__(cnf, layers, stochastic_depth_prob)


class FusedMBConv(_Residual):
    def __init__(self, cnf, stochastic_depth_prob, norm_layer):
        expanded = cnf.adjust_channels(cnf.input_channels, cnf.expand_ratio)
        first = partial(Conv2dNormActivation, cnf.input_channels, kernel_size=cnf.kernel, stride=cnf.stride, norm_layer=norm_layer, activation_layer=nn.SiLU)
        if expanded != cnf.input_channels:
            layers = [first(expanded), Conv2dNormActivation(expanded, cnf.out_channels, kernel_size=1, norm_layer=norm_layer, activation_layer=None)]
        else:
            layers = [first(cnf.out_channels)]
        super().__init__(cnf, layers, stochastic_depth_prob)


class EfficientNet(nn.Module):
    def __init__(self, inverted_residual_setting, dropout, stochastic_depth_prob=0.2, num_classes=1000, norm_layer=None, last_channel=None):
        super().__init__()
        if not inverted_residual_setting:
            raise ValueError("The inverted_residual_setting should not be empty")
        norm_layer = norm_layer or nn.BatchNorm2d
        width = inverted_residual_setting[0].input_channels
        layers = [Conv2dNormActivation(3, width, kernel_size=3, stride=2, norm_layer=norm_layer, activation_layer=nn.SiLU)]
        blocks, done = sum(cnf.num_layers for cnf in inverted_residual_setting), 0
        for cnf in inverted_residual_setting:
            stage = []
            for _ in range(cnf.num_layers):
                block = copy.copy(cnf)
                if stage:
                    block.input_channels, block.stride = block.out_channels, 1
                stage.append(block.block(block, stochastic_depth_prob * float(done) / blocks, norm_layer))
                done += 1
            layers.append(nn.Sequential(*stage))
        width = inverted_residual_setting[-1].out_channels
        last = last_channel if last_channel is not None else 4 * width
        layers.append(Conv2dNormActivation(width, last, kernel_size=1, norm_layer=norm_layer, activation_layer=nn.SiLU))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout, inplace=True), nn.Linear(last, num_classes))
        self._initialise()

    def _initialise(self):
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.ones_(m.weight)
                nn.init.zeros_(m.bias)
            elif isinstance(m, nn.Linear):
                reach = 1.0 / math.sqrt(m.out_features)
                nn.init.uniform_(m.weight, -reach, reach)
                nn.init.zeros_(m.bias)

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


# expand ratio, kernel, stride, input, output, layers; in version 2 fused ones first
_STAGES = [(1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3), (6, 5, 1, 80, 112, 3), (6, 5, 2, 112, 192, 4),
           (6, 3, 1, 192, 320, 1)]
_STAGES_V2 = {
    "s": ([(1, 3, 1, 24, 24, 2), (4, 3, 2, 24, 48, 4), (4, 3, 2, 48, 64, 4)],
          [(4, 3, 2, 64, 128, 6), (6, 3, 1, 128, 160, 9), (6, 3, 2, 160, 256, 15)]),
    "m": ([(1, 3, 1, 24, 24, 3), (4, 3, 2, 24, 48, 5), (4, 3, 2, 48, 80, 5)],
          [(4, 3, 2, 80, 160, 7), (6, 3, 1, 160, 176, 14), (6, 3, 2, 176, 304, 18), (6, 3, 1, 304, 512, 5)]),
    "l": ([(1, 3, 1, 32, 32, 4), (4, 3, 2, 32, 64, 7), (4, 3, 2, 64, 96, 7)],
          [(4, 3, 2, 96, 192, 10), (6, 3, 1, 192, 224, 19), (6, 3, 2, 224, 384, 25), (6, 3, 1, 384, 640, 7)]),
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


for _arguments in ((0, 1.0, 1.0, 0.2, False), (1, 1.0, 1.1, 0.2, False), (2, 1.1, 1.2, 0.3, False), (3, 1.2, 1.4, 0.3, False), (4, 1.4, 1.8, 0.4, False),
                   (5, 1.6, 2.2, 0.4, True), (6, 1.8, 2.6, 0.5, True), (7, 2.0, 3.1, 0.5, True)):
    _version1(*_arguments)
for _arguments in (("s", 0.2), ("m", 0.3), ("l", 0.4)):
    _version2(*_arguments)
