"""ResNets, ResNeXts and wide ResNets."""

import taper as torch
from taper import nn
from taper.torchvision.models._api import register
from taper.torchvision.models._utils import NORMS, fan_out, start


def conv3x3(in_planes, out_planes, stride=1, groups=1, dilation=1):
    return nn.Conv2d(in_planes, out_planes, 3, stride, dilation, dilation, groups, bias=False)


def conv1x1(in_planes, out_planes, stride=1):
    return nn.Conv2d(in_planes, out_planes, 1, stride, bias=False)


class _Block(nn.Module):
    """conv1 bn1 relu conv2 bn2 and so on; the last one's result is added to the input, which `downsample` fits where
    shapes differ."""

    def __init__(self, convs, norm_layer, relu_after, downsample, stride):
        super().__init__()
        for number, conv in enumerate(convs, 1):
            self.add_module(f"conv{number}", conv)
            self.add_module(f"bn{number}", (norm_layer or nn.BatchNorm2d)(conv.out_channels))
            if number == relu_after:
                self.relu = nn.ReLU(inplace=True)
        self.downsample, self.stride = downsample, stride

    def forward(self, x):
        out = x
        for number in range(1, self._depth + 1):
            out = self.relu(out) if number > 1 else out
            out = getattr(self, f"bn{number}")(getattr(self, f"conv{number}")(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class BasicBlock(_Block):
    expansion, _depth = 1, 2

    def __init__(
        self, inplanes, planes, stride=1, downsample=None, groups=1, base_width=64, dilation=1, norm_layer=None
    ):
        if (groups, base_width) != (1, 64):
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        if not dilation <= 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        super().__init__(
            [conv3x3(inplanes, planes, stride), conv3x3(planes, planes)], norm_layer, 1, downsample, stride
        )


class Bottleneck(_Block):
    """The stride is the 3x3 convolution's (ResNet V1.5)."""

    expansion, _depth = 4, 3

    def __init__(
        self, inplanes, planes, stride=1, downsample=None, groups=1, base_width=64, dilation=1, norm_layer=None
    ):
        mid = groups * int(planes * base_width / 64)
        convs = [
            conv1x1(inplanes, mid),
            conv3x3(mid, mid, stride, groups, dilation),
            conv1x1(mid, self.expansion * planes),
        ]
        super().__init__(convs, norm_layer, 3, downsample, stride)


class ResNet(nn.Module):
    def __init__(
        self,
        block,
        layers,
        num_classes=1000,
        zero_init_residual=False,
        groups=1,
        width_per_group=64,
        replace_stride_with_dilation=None,
        norm_layer=None,
    ):
        super().__init__()
        self._norm_layer = norm_layer or nn.BatchNorm2d
        self.inplanes, self.dilation, self.groups, self.base_width = 64, 1, groups, width_per_group
        dilated = replace_stride_with_dilation or (False, False, False)
        if len(dilated) != 3:
            raise ValueError(
                f"replace_stride_with_dilation should be None or a 3-element tuple, got {replace_stride_with_dilation}"
            )
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = self._norm_layer(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        for stage, (count, dilate) in enumerate(zip(layers, (False, *dilated))):
            self.add_module(f"layer{stage + 1}", self._make_layer(block, 64 << stage, count, min(stage, 1) + 1, dilate))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(self.inplanes, num_classes)
        start(self, {nn.Conv2d: fan_out, NORMS: nn.init.ones_})
        if zero_init_residual:
            for module in self.modules():
                if isinstance(module, _Block):
                    last = getattr(module, f"bn{module._depth}")
                    if last.weight is not None:
                        nn.init.zeros_(last.weight)

    def _make_layer(self, block, planes, blocks, stride=1, dilate=False):
        """Blocks of one width; the first has the stride, or what stands in its place: wider steps in the blocks after
        it."""
        before, out = self.dilation, planes * block.expansion
        if dilate:
            stride, self.dilation = 1, self.dilation * stride
        fits = (stride, self.inplanes) == (1, out)
        shortcut = None if fits else nn.Sequential(conv1x1(self.inplanes, out, stride), self._norm_layer(out))
        same = {"groups": self.groups, "base_width": self.base_width, "norm_layer": self._norm_layer}
        first = block(self.inplanes, planes, stride, shortcut, dilation=before, **same)
        self.inplanes = out
        return nn.Sequential(first, *(block(out, planes, dilation=self.dilation, **same) for _ in range(blocks - 1)))

    def _forward_impl(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))

    def forward(self, x):
        return self._forward_impl(x)


def _builder(name, enum, block, layers, **fixed):
    def build(**kwargs):
        return ResNet(block, layers, **{**fixed, **kwargs})

    register(globals(), name, enum, build)


_builder("resnet18", "ResNet18_Weights", BasicBlock, [2, 2, 2, 2])
_builder("resnet34", "ResNet34_Weights", BasicBlock, [3, 4, 6, 3])
_builder("resnet50", "ResNet50_Weights", Bottleneck, [3, 4, 6, 3])
_builder("resnet101", "ResNet101_Weights", Bottleneck, [3, 4, 23, 3])
_builder("resnet152", "ResNet152_Weights", Bottleneck, [3, 8, 36, 3])
_builder("resnext50_32x4d", "ResNeXt50_32X4D_Weights", Bottleneck, [3, 4, 6, 3], groups=32, width_per_group=4)
_builder("resnext101_32x8d", "ResNeXt101_32X8D_Weights", Bottleneck, [3, 4, 23, 3], groups=32, width_per_group=8)
_builder("resnext101_64x4d", "ResNeXt101_64X4D_Weights", Bottleneck, [3, 4, 23, 3], groups=64, width_per_group=4)
_builder("wide_resnet50_2", "Wide_ResNet50_2_Weights", Bottleneck, [3, 4, 6, 3], width_per_group=128)
_builder("wide_resnet101_2", "Wide_ResNet101_2_Weights", Bottleneck, [3, 4, 23, 3], width_per_group=128)
