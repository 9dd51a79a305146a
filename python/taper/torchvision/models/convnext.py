"""ConvNeXts."""

from functools import partial
from itertools import count, islice

import taper as torch
from taper import nn
from taper.nn import functional as F
from taper.torchvision.models._api import register
from taper.torchvision.models._utils import start
from taper.torchvision.ops.misc import Conv2dNormActivation, Permute, StochasticDepth


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return F.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps).permute(
            0, 3, 1, 2
        )


class CNBlock(nn.Module):
    def __init__(self, dim, layer_scale, stochastic_depth_prob, norm_layer=None):
        super().__init__()
        norm = (norm_layer or partial(nn.LayerNorm, eps=1e-6))(dim)
        spatial = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        wide, back = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.block = nn.Sequential(spatial, Permute([0, 2, 3, 1]), norm, wide, nn.GELU(), back, Permute([0, 3, 1, 2]))
        self.layer_scale = nn.Parameter(torch.full((dim, 1, 1), float(layer_scale)))
        self.stochastic_depth = StochasticDepth(p=stochastic_depth_prob, mode="row")

    def forward(self, input):
        result = self.stochastic_depth(self.layer_scale * self.block(input))
        result += input
        return result


class CNBlockConfig:
    def __init__(self, input_channels, out_channels, num_layers):
        self.input_channels, self.out_channels, self.num_layers = input_channels, out_channels, num_layers

    def __repr__(self):
        return (
            f"CNBlockConfig(input_channels={self.input_channels}, out_channels={self.out_channels}, "
            f"num_layers={self.num_layers})"
        )


class ConvNeXt(nn.Module):
    def __init__(
        self,
        block_setting,
        stochastic_depth_prob=0.0,
        layer_scale=1e-6,
        num_classes=1000,
        block=None,
        norm_layer=None,
        **kwargs,
    ):
        super().__init__()
        if len(block_setting or ()) == 0:
            raise ValueError("The block_setting should not be empty")
        block, norm_layer = block or CNBlock, norm_layer or partial(LayerNorm2d, eps=1e-6)
        layers = [
            Conv2dNormActivation(
                3, block_setting[0].input_channels, 4, 4, 0, norm_layer=norm_layer, activation_layer=None, bias=True
            )
        ]
        last = sum(stage.num_layers for stage in block_setting) - 1.0
        drops = (
            stochastic_depth_prob * number / last for number in count()
        )  # the deeper, the more often a block is skipped
        for stage in block_setting:
            width, after = stage.input_channels, stage.out_channels
            layers.append(nn.Sequential(*(block(width, layer_scale, drop) for drop in islice(drops, stage.num_layers))))
            if after is not None:
                layers.append(nn.Sequential(norm_layer(width), nn.Conv2d(width, after, 2, 2)))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            norm_layer(after or width), nn.Flatten(1), nn.Linear(after or width, num_classes)
        )
        start(self, {(nn.Conv2d, nn.Linear): partial(nn.init.trunc_normal_, std=0.02)})

    def forward(self, x):
        return self.classifier(self.avgpool(self.features(x)))


def _builder(size, widths, depths, probability):
    name, enum = f"convnext_{size}", f"ConvNeXt_{size.capitalize()}_Weights"

    def build(**kwargs):
        setting = [CNBlockConfig(w, after, n) for w, after, n in zip(widths, [*widths[1:], None], depths)]
        return ConvNeXt(setting, stochastic_depth_prob=kwargs.pop("stochastic_depth_prob", probability), **kwargs)

    register(globals(), name, enum, build)


_builder("tiny", (96, 192, 384, 768), (3, 3, 9, 3), 0.1)
_builder("small", (96, 192, 384, 768), (3, 3, 27, 3), 0.4)
_builder("base", (128, 256, 512, 1024), (3, 3, 27, 3), 0.5)
_builder("large", (192, 384, 768, 1536), (3, 3, 27, 3), 0.5)
