"""ConvNeXts."""
from functools import partial

import taper as torch
from taper import nn
from taper.nn import functional as F
from taper.torchvision.models._api import register
from taper.torchvision.ops.misc import Conv2dNormActivation, Permute, StochasticDepth


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return F.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps).permute(0, 3, 1, 2)


class CNBlock(nn.Module):
    def __init__(self, dim, layer_scale, stochastic_depth_prob, norm_layer=None):
        super().__init__()
        norm_layer = norm_layer or partial(nn.LayerNorm, eps=1e-6)
        self.block = nn.Sequential(
            nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim, bias=True), Permute([0, 2, 3, 1]), norm_layer(dim),
            nn.Linear(in_features=dim, out_features=4 * dim, bias=True), nn.GELU(), nn.Linear(in_features=4 * dim, out_features=dim, bias=True),
            Permute([0, 3, 1, 2]))
        self.layer_scale = nn.Parameter(torch.ones(dim, 1, 1) * layer_scale)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input):
        result = self.stochastic_depth(self.layer_scale * self.block(input))
        result += input
        return result


class CNBlockConfig:
    def __init__(self, input_channels, out_channels, num_layers):
        self.input_channels, self.out_channels, self.num_layers = input_channels, out_channels, num_layers

    def __repr__(self):
        return f"CNBlockConfig(input_channels={self.input_channels}, out_channels={self.out_channels}, num_layers={self.num_layers})"


class ConvNeXt(nn.Module):
    def __init__(self, block_setting, stochastic_depth_prob=0.0, layer_scale=1e-6, num_classes=1000, block=None, norm_layer=None, **kwargs):
        super().__init__()
        if not block_setting:
            raise ValueError("The block_setting should not be empty")
        block, norm_layer = block or CNBlock, norm_layer or partial(LayerNorm2d, eps=1e-6)
        layers = [Conv2dNormActivation(3, block_setting[0].input_channels, kernel_size=4, stride=4, padding=0, norm_layer=norm_layer,
                                       activation_layer=None, bias=True)]
        blocks, done = sum(cnf.num_layers for cnf in block_setting), 0
        for cnf in block_setting:
            stage = []
            for _ in range(cnf.num_layers):
                stage.append(block(cnf.input_channels, layer_scale, stochastic_depth_prob * done / (blocks - 1.0)))
                done += 1
            layers.append(nn.Sequential(*stage))
            if cnf.out_channels is not None:
                layers.append(nn.Sequential(norm_layer(cnf.input_channels), nn.Conv2d(cnf.input_channels, cnf.out_channels, kernel_size=2, stride=2)))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        width = block_setting[-1].out_channels or block_setting[-1].input_channels
        self.classifier = nn.Sequential(norm_layer(width), nn.Flatten(1), nn.Linear(width, num_classes))
        for m in self.modules():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.trunc_normal_(m.weight, std=0.02)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)

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
