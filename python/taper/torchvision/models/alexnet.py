"""AlexNet, as torchvision has it."""

import taper as torch
from taper import nn
from taper.torchvision.models._api import builder, weights_enum

AlexNet_Weights = weights_enum("AlexNet_Weights")


# width, kernel, stride and padding of a convolution, and whether a pool follows
_CONVS = (64, 11, 4, 2, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False), (256, 3, 1, 1, False), (256, 3, 1, 1, True)


class AlexNet(nn.Module):
    def __init__(self, num_classes=1000, dropout=0.5):
        super().__init__()
        features, width = [], 3
        for out, kernel, stride, padding, pooled in _CONVS:
            features += [nn.Conv2d(width, out, kernel, stride, padding), nn.ReLU(inplace=True)] + [
                nn.MaxPool2d(3, 2)
            ] * pooled
            width = out
        self.features = nn.Sequential(*features)
        side = 6
        self.avgpool = nn.AdaptiveAvgPool2d((side, side))
        hidden = [
            layer
            for i in (width * side * side, 4096)
            for layer in (nn.Dropout(dropout), nn.Linear(i, 4096), nn.ReLU(inplace=True))
        ]
        self.classifier = nn.Sequential(*hidden, nn.Linear(4096, num_classes))

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


@builder("AlexNet_Weights")
def alexnet(**kwargs):
    return AlexNet(**kwargs)
