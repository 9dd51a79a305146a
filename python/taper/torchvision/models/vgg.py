"""VGG networks."""

import taper as torch
from taper import nn
from taper.torchvision.models._api import register
from taper.torchvision.models._utils import fan_out, narrow, start


class VGG(nn.Module):
    def __init__(self, features, num_classes=1000, init_weights=True, dropout=0.5):
        super().__init__()
        side, hidden = 7, 4096
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((side, side))
        head = [
            layer
            for i in (512 * side * side, hidden)
            for layer in (nn.Linear(i, hidden), nn.ReLU(True), nn.Dropout(dropout))
        ]
        self.classifier = nn.Sequential(*head, nn.Linear(hidden, num_classes))
        if init_weights:
            start(self, {nn.Conv2d: fan_out, nn.BatchNorm2d: nn.init.ones_, nn.Linear: narrow})

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


# How many convolutions there are of each width; "M" is a pool
cfgs = {
    name: [step for width, n in zip((64, 128, 256, 512, 512), map(int, counts)) for step in [width] * n + ["M"]]
    for name, counts in (("A", "11222"), ("B", "22222"), ("D", "22333"), ("E", "22444"))
}


def make_layers(cfg, batch_norm=False):
    def stage(width, step):
        if step == "M":
            return [nn.MaxPool2d(2, 2)]
        return [
            nn.Conv2d(width, step, 3, padding=1),
            *([nn.BatchNorm2d(step)] if batch_norm else []),
            nn.ReLU(inplace=True),
        ]

    widths = [3]
    for step in cfg:
        widths.append(widths[-1] if step == "M" else step)
    return nn.Sequential(*(layer for width, step in zip(widths, cfg) for layer in stage(width, step)))


def _builder(name, cfg, batch_norm):
    enum = name.replace("vgg", "VGG").replace("_bn", "_BN") + "_Weights"

    def build(**kwargs):
        return VGG(make_layers(cfgs[cfg], batch_norm=batch_norm), **kwargs)

    register(globals(), name, enum, build)


for _depth, _cfg in ((11, "A"), (13, "B"), (16, "D"), (19, "E")):
    _builder(f"vgg{_depth}", _cfg, False)
    _builder(f"vgg{_depth}_bn", _cfg, True)
