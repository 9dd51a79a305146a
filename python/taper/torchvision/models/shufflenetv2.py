"""ShuffleNet V2."""

import taper as torch
from taper import nn
from taper.torchvision.models._api import register


def channel_shuffle(x, groups):
    """Channel 0 of each group, then channel 1 of each, and so on."""
    return x.unflatten(1, (groups, x.shape[1] // groups)).transpose(1, 2).flatten(1, 2)


def _unit(i, o, kernel=1, stride=1):
    """Convolution, norm and relu."""
    return nn.Conv2d(i, o, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True)


class InvertedResidual(nn.Module):
    """Half of the channels pass unchanged; with a stride both halves come from filters over all channels."""

    def __init__(self, inp, oup, stride):
        super().__init__()
        if stride not in (1, 2, 3):
            raise ValueError("illegal stride value")
        half = oup // 2
        if stride == 1 and inp != 2 * half:
            raise ValueError(
                f"Invalid combination of stride {stride}, inp {inp} and oup {oup} values. If stride == 1 then inp "
                "should be equal to oup // 2 << 1."
            )
        self.stride = stride
        self.branch1 = nn.Sequential(*(self._filtered(inp, half, stride) if stride > 1 else ()))
        self.branch2 = nn.Sequential(*_unit(inp if stride > 1 else half, half), *self._filtered(half, half, stride))

    def _filtered(self, i, o, stride):
        return self.depthwise_conv(i, i, 3, stride, 1), nn.BatchNorm2d(i), *_unit(i, o)

    @staticmethod
    def depthwise_conv(i, o, kernel_size, stride=1, padding=0, bias=False):
        return nn.Conv2d(i, o, kernel_size, stride, padding, groups=i, bias=bias)

    def forward(self, x):
        kept, changed = x.chunk(2, 1) if self.stride == 1 else (self.branch1(x), x)
        return channel_shuffle(torch.cat([kept, self.branch2(changed)], 1), 2)


class ShuffleNetV2(nn.Module):
    def __init__(self, stages_repeats, stages_out_channels, num_classes=1000, inverted_residual=InvertedResidual):
        super().__init__()
        if len(stages_repeats) != 3:
            raise ValueError("expected stages_repeats as list of 3 positive ints")
        if len(stages_out_channels) != 5:
            raise ValueError("expected stages_out_channels as list of 5 positive ints")
        self._stage_out_channels = stages_out_channels
        width, *outs, last = stages_out_channels
        self.conv1 = nn.Sequential(*_unit(3, width, 3, 2))
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        for number, (repeats, out) in enumerate(zip(stages_repeats, outs), 2):
            ends = [(width, 2)] + [(out, 1)] * (repeats - 1)
            self.add_module(f"stage{number}", nn.Sequential(*(inverted_residual(i, out, stride) for i, stride in ends)))
            width = out
        self.conv5 = nn.Sequential(*_unit(width, last))
        self.fc = nn.Linear(last, num_classes)

    def forward(self, x):
        x = self.conv5(self.stage4(self.stage3(self.stage2(self.maxpool(self.conv1(x))))))
        return self.fc(x.mean([2, 3]))


def _builder(size, channels):
    name, enum = f"shufflenet_v2_x{size}", f"ShuffleNet_V2_X{size}_Weights"

    def build(**kwargs):
        return ShuffleNetV2([4, 8, 4], channels, **kwargs)

    register(globals(), name, enum, build)


_builder("0_5", [24, 48, 96, 192, 1024])
_builder("1_0", [24, 116, 232, 464, 1024])
_builder("1_5", [24, 176, 352, 704, 1024])
_builder("2_0", [24, 244, 488, 976, 2048])
