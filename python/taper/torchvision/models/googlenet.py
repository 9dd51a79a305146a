"""GoogLeNet."""

import warnings
from collections import namedtuple
from functools import partial

import taper as torch
from taper import nn
from taper.nn import functional as F
from taper.torchvision.models._api import register

GoogLeNetOutputs = namedtuple("GoogLeNetOutputs", ["logits", "aux_logits2", "aux_logits1"])
_GoogLeNetOutputs = GoogLeNetOutputs


class BasicConv2d(nn.Module):
    def __init__(self, in_channels, out_channels, **kwargs):
        super().__init__()
        self.conv, self.bn = (
            nn.Conv2d(in_channels, out_channels, bias=False, **kwargs),
            nn.BatchNorm2d(out_channels, eps=1e-3),
        )

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Inception(nn.Module):
    def __init__(self, in_channels, ch1x1, ch3x3red, ch3x3, ch5x5red, ch5x5, pool_proj, conv_block=None):
        super().__init__()
        conv = conv_block or BasicConv2d
        self.branch1 = conv(in_channels, ch1x1, kernel_size=1)
        self.branch2 = nn.Sequential(
            conv(in_channels, ch3x3red, kernel_size=1), conv(ch3x3red, ch3x3, kernel_size=3, padding=1)
        )
        self.branch3 = nn.Sequential(
            conv(in_channels, ch5x5red, kernel_size=1), conv(ch5x5red, ch5x5, kernel_size=3, padding=1)
        )
        self.branch4 = nn.Sequential(
            nn.MaxPool2d(kernel_size=3, stride=1, padding=1, ceil_mode=True),
            conv(in_channels, pool_proj, kernel_size=1),
        )

    def forward(self, x):
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class InceptionAux(nn.Module):
    def __init__(self, in_channels, num_classes, conv_block=None, dropout=0.7):
        super().__init__()
        self.conv = (conv_block or BasicConv2d)(in_channels, 128, kernel_size=1)
        self.fc1, self.fc2, self.dropout = nn.Linear(2048, 1024), nn.Linear(1024, num_classes), nn.Dropout(dropout)

    def forward(self, x):
        x = torch.flatten(self.conv(F.adaptive_avg_pool2d(x, (4, 4))), 1)
        return self.fc2(self.dropout(F.relu(self.fc1(x), inplace=True)))


def trunc_normal_start(model, std=0.01):
    """The start that GoogLeNet and Inception share; a module's own `stddev` comes first."""
    for m in model.modules():
        if isinstance(m, (nn.Conv2d, nn.Linear)):
            nn.init.trunc_normal_(m.weight, mean=0.0, std=float(getattr(m, "stddev", std)), a=-2, b=2)
        elif isinstance(m, nn.BatchNorm2d):
            nn.init.constant_(m.weight, 1)
            nn.init.constant_(m.bias, 0)


def recoloured(x):
    """Images normalised with ImageNet's means as this network was trained on: around 0.5."""
    parts = [
        x[:, c : c + 1] * (std / 0.5) + (mean - 0.5) / 0.5
        for c, (mean, std) in enumerate(zip((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    ]
    return torch.cat(parts, 1)


# The layers in order: what convolutions take, kernel and stride of pools, the widths of Inception's branches
_TRUNK = {
    "conv1": ((3, 64), {"kernel_size": 7, "stride": 2, "padding": 3}),
    "maxpool1": (3, 2),
    "conv2": ((64, 64), {"kernel_size": 1}),
    "conv3": ((64, 192), {"kernel_size": 3, "padding": 1}),
    "maxpool2": (3, 2),
    "inception3a": (192, 64, 96, 128, 16, 32, 32),
    "inception3b": (256, 128, 128, 192, 32, 96, 64),
    "maxpool3": (3, 2),
    "inception4a": (480, 192, 96, 208, 16, 48, 64),
    "inception4b": (512, 160, 112, 224, 24, 64, 64),
    "inception4c": (512, 128, 128, 256, 24, 64, 64),
    "inception4d": (512, 112, 144, 288, 32, 64, 64),
    "inception4e": (528, 256, 160, 320, 32, 128, 128),
    "maxpool4": (2, 2),
    "inception5a": (832, 256, 160, 320, 32, 128, 128),
    "inception5b": (832, 384, 192, 384, 48, 128, 128),
}
_AFTER = {"inception4a": "aux1", "inception4d": "aux2"}  # where the extra classifiers look


class GoogLeNet(nn.Module):
    def __init__(
        self,
        num_classes=1000,
        aux_logits=True,
        transform_input=False,
        init_weights=None,
        blocks=None,
        dropout=0.2,
        dropout_aux=0.7,
    ):
        super().__init__()
        conv, inception, aux = blocks or (BasicConv2d, Inception, InceptionAux)
        if init_weights is None:
            warnings.warn(
                "The default weight initialization of GoogleNet will be changed in future releases of torchvision. "
                "If you wish to keep the old behavior (which leads to long initialization times due to "
                "scipy/scipy#11299), please set init_weights=True.",
                FutureWarning,
            )
            init_weights = True
        self.aux_logits, self.transform_input = aux_logits, transform_input
        for name, row in _TRUNK.items():
            kind = (
                conv
                if name.startswith("conv")
                else inception
                if name.startswith("inception")
                else partial(nn.MaxPool2d, ceil_mode=True)
            )
            self.add_module(name, kind(*row[0], **row[1]) if isinstance(row[0], tuple) else kind(*row))
        self.aux1, self.aux2 = (
            aux(width, num_classes, dropout=dropout_aux) if aux_logits else None for width in (512, 528)
        )
        self.avgpool, self.dropout, self.fc = (
            nn.AdaptiveAvgPool2d((1, 1)),
            nn.Dropout(dropout),
            nn.Linear(1024, num_classes),
        )
        if init_weights:
            trunc_normal_start(self)

    def forward(self, x):
        x = recoloured(x) if self.transform_input else x
        told = {}
        for name in _TRUNK:
            x = getattr(self, name)(x)
            side = getattr(self, _AFTER[name]) if name in _AFTER and self.training and self.aux_logits else None
            if side is not None:
                told[_AFTER[name]] = side(x)
        x = self.fc(self.dropout(torch.flatten(self.avgpool(x), 1)))
        return GoogLeNetOutputs(x, told.get("aux2"), told.get("aux1")) if self.training and self.aux_logits else x


def _googlenet(**kwargs):
    return GoogLeNet(**kwargs)


def _loaded(state, **kwargs):
    """The weights' model has the extra classifiers, and wants its colours changed; init_weights would be lost work."""
    aux = kwargs.pop("aux_logits", False)
    model = GoogLeNet(**{"transform_input": True, "init_weights": False, **kwargs, "aux_logits": True})
    model.load_state_dict(state)
    if not aux:
        model.aux_logits, model.aux1, model.aux2 = False, None, None
    return model


register(globals(), "googlenet", "GoogLeNet_Weights", _googlenet, _loaded)
