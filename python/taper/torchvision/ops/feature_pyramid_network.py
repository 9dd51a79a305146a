"""Feature pyramids, and what may stand on top of one."""

from collections import OrderedDict

from taper import nn
from taper.nn import functional as F
from taper.torchvision.ops.misc import Conv2dNormActivation


class ExtraFPNBlock(nn.Module):
    """Base of blocks that add levels to a pyramid: (results, features, names) -> (results, names)."""

    def forward(self, results, x, names):
        pass


class LastLevelMaxPool(ExtraFPNBlock):
    """Adds every second pixel of the coarsest level."""

    def forward(self, x, y, names):
        names.append("pool")
        x.append(F.max_pool2d(x[-1], kernel_size=1, stride=2, padding=0))
        return x, names


class LastLevelP6P7(ExtraFPNBlock):
    """Adds two levels by strided convolutions, as RetinaNet has them."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.p6 = nn.Conv2d(in_channels, out_channels, 3, 2, 1)
        self.p7 = nn.Conv2d(out_channels, out_channels, 3, 2, 1)
        for module in (self.p6, self.p7):
            nn.init.kaiming_uniform_(module.weight, a=1)
            nn.init.constant_(module.bias, 0)
        self.use_P5 = in_channels == out_channels

    def forward(self, p, c, names):
        p6 = self.p6(p[-1] if self.use_P5 else c[-1])
        p.extend([p6, self.p7(F.relu(p6))])
        names.extend(["p6", "p7"])
        return p, names


class FeaturePyramidNetwork(nn.Module):
    """Features of several scales, each with what the coarser ones know."""

    def __init__(self, in_channels_list, out_channels, extra_blocks=None, norm_layer=None):
        super().__init__()
        self.inner_blocks, self.layer_blocks = nn.ModuleList(), nn.ModuleList()
        for width in in_channels_list:
            if width == 0:
                raise ValueError("in_channels=0 is currently not supported")
            self.inner_blocks.append(
                Conv2dNormActivation(
                    width, out_channels, kernel_size=1, padding=0, norm_layer=norm_layer, activation_layer=None
                )
            )
            self.layer_blocks.append(
                Conv2dNormActivation(
                    out_channels, out_channels, kernel_size=3, norm_layer=norm_layer, activation_layer=None
                )
            )
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_uniform_(m.weight, a=1)
                if m.bias is not None:
                    nn.init.constant_(m.bias, 0)
        if extra_blocks is not None and not isinstance(extra_blocks, ExtraFPNBlock):
            raise TypeError(f"extra_blocks should be of type ExtraFPNBlock not {type(extra_blocks)}")
        self.extra_blocks = extra_blocks

    def forward(self, x):
        names, features = list(x.keys()), list(x.values())
        above = self.inner_blocks[-1](features[-1])
        results = [self.layer_blocks[-1](above)]
        for i in range(len(features) - 2, -1, -1):
            lateral = self.inner_blocks[i](features[i])
            above = lateral + F.interpolate(above, size=lateral.shape[-2:], mode="nearest")
            results.insert(0, self.layer_blocks[i](above))
        if self.extra_blocks is not None:
            results, names = self.extra_blocks(results, features, names)
        return OrderedDict(zip(names, results))
