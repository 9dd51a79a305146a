"""SqueezeNets."""

import taper as torch
from taper import nn
from taper.torchvision.models._api import builder, weights_enum
from taper.torchvision.models._utils import narrow, start

SqueezeNet1_0_Weights = weights_enum("SqueezeNet1_0_Weights")
SqueezeNet1_1_Weights = weights_enum("SqueezeNet1_1_Weights")


class Fire(nn.Module):
    """1x1 convolutions to few channels, then 1x1 and 3x3 ones side by side."""

    def __init__(self, inplanes, squeeze_planes, expand1x1_planes, expand3x3_planes):
        super().__init__()
        self.inplanes = inplanes
        parts = {
            "squeeze": (inplanes, squeeze_planes, 1),
            "expand1x1": (squeeze_planes, expand1x1_planes, 1),
            "expand3x3": (squeeze_planes, expand3x3_planes, 3),
        }
        for name, (i, o, kernel) in parts.items():
            self.add_module(name, nn.Conv2d(i, o, kernel, padding=kernel // 2))
            self.add_module(f"{name}_activation", nn.ReLU(inplace=True))

    def _part(self, name, x):
        return getattr(self, f"{name}_activation")(getattr(self, name)(x))

    def forward(self, x):
        squeezed = self._part("squeeze", x)
        return torch.cat([self._part(name, squeezed) for name in ("expand1x1", "expand3x3")], 1)


# Squeezed and expanded widths of the Fire modules, "M" for a pool
_LAYERS = {
    "1_0": [
        (96, 7),
        "M",
        (16, 64),
        (16, 64),
        (32, 128),
        "M",
        (32, 128),
        (48, 192),
        (48, 192),
        (64, 256),
        "M",
        (64, 256),
    ],
    "1_1": [
        (64, 3),
        "M",
        (16, 64),
        (16, 64),
        "M",
        (32, 128),
        (32, 128),
        "M",
        (48, 192),
        (48, 192),
        (64, 256),
        (64, 256),
    ],
}


class SqueezeNet(nn.Module):
    def __init__(self, version="1_0", num_classes=1000, dropout=0.5):
        super().__init__()
        self.num_classes = num_classes
        if version not in _LAYERS:
            raise ValueError(f"Unsupported SqueezeNet version {version}: 1_0 or 1_1 expected")
        (width, kernel), *rest = _LAYERS[version]
        layers = [nn.Conv2d(3, width, kernel_size=kernel, stride=2), nn.ReLU(inplace=True)]
        for widths in rest:
            if widths == "M":
                layers.append(nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True))
            else:
                layers.append(Fire(width, widths[0], widths[1], widths[1]))
                width = 2 * widths[1]
        self.features = nn.Sequential(*layers)
        last = nn.Conv2d(width, num_classes, 1)
        self.classifier = nn.Sequential(nn.Dropout(dropout), last, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1)))
        start(
            self,
            {nn.Conv2d: lambda weight: narrow(weight) if weight is last.weight else nn.init.kaiming_uniform_(weight)},
        )

    def forward(self, x):
        return torch.flatten(self.classifier(self.features(x)), 1)


@builder("SqueezeNet1_0_Weights")
def squeezenet1_0(**kwargs):
    return SqueezeNet("1_0", **kwargs)


@builder("SqueezeNet1_1_Weights")
def squeezenet1_1(**kwargs):
    return SqueezeNet("1_1", **kwargs)
