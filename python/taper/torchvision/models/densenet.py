"""DenseNets."""

import re
from collections import OrderedDict

import taper as torch
from taper import nn
from taper.nn import functional as F
from taper.torchvision.models._api import register
from taper.torchvision.models._utils import start


def _before(width, out, kernel):
    """Norm, relu and convolution, by what each is called."""
    return {
        "norm": nn.BatchNorm2d(width),
        "relu": nn.ReLU(inplace=True),
        "conv": nn.Conv2d(width, out, kernel, padding=kernel // 2, bias=False),
    }


class _DenseLayer(nn.Module):
    """norm1 relu1 conv1 to few channels, norm2 relu2 conv2 to the new ones."""

    def __init__(self, num_input_features, growth_rate, bn_size, drop_rate, memory_efficient=False):
        super().__init__()
        mid = bn_size * growth_rate
        for number, sizes in ((1, (num_input_features, mid, 1)), (2, (mid, growth_rate, 3))):
            for name, part in _before(*sizes).items():
                self.add_module(f"{name}{number}", part)
        self.drop_rate, self.memory_efficient = float(drop_rate), memory_efficient

    def bn_function(self, *inputs):
        return self.conv1(self.relu1(self.norm1(torch.cat(inputs, 1))))

    def forward(self, input):
        inputs = [input] if isinstance(input, torch.Tensor) else input
        if self.memory_efficient and any(t.requires_grad for t in inputs):
            from taper.utils.checkpoint import checkpoint

            x = checkpoint(self.bn_function, *inputs, use_reentrant=False)
        else:
            x = self.bn_function(*inputs)
        x = self.conv2(self.relu2(self.norm2(x)))
        return F.dropout(x, p=self.drop_rate, training=self.training) if self.drop_rate > 0 else x


class _DenseBlock(nn.ModuleDict):
    """Each layer sees what all layers before it made."""

    def __init__(self, num_layers, num_input_features, bn_size, growth_rate, drop_rate, memory_efficient=False):
        widths = range(num_input_features, num_input_features + num_layers * growth_rate, growth_rate)
        super().__init__(
            OrderedDict(
                (f"denselayer{number}", _DenseLayer(width, growth_rate, bn_size, drop_rate, memory_efficient))
                for number, width in enumerate(widths, 1)
            )
        )

    def forward(self, init_features):
        made = [init_features]
        for layer in self.values():
            made.append(layer(made))
        return torch.cat(made, dim=1)


class _Transition(nn.Sequential):
    def __init__(self, num_input_features, num_output_features):
        super().__init__(OrderedDict(**_before(num_input_features, num_output_features, 1), pool=nn.AvgPool2d(2, 2)))


class DenseNet(nn.Module):
    def __init__(
        self,
        growth_rate=32,
        block_config=(6, 12, 24, 16),
        num_init_features=64,
        bn_size=4,
        drop_rate=0,
        num_classes=1000,
        memory_efficient=False,
    ):
        super().__init__()
        parts = OrderedDict(
            conv0=nn.Conv2d(3, num_init_features, 7, 2, 3, bias=False),
            norm0=nn.BatchNorm2d(num_init_features),
            relu0=nn.ReLU(inplace=True),
            pool0=nn.MaxPool2d(3, 2, 1),
        )
        width = num_init_features
        for number, layers in enumerate(block_config, 1):
            if number > 1:
                parts[f"transition{number - 1}"] = _Transition(width, width // 2)
                width //= 2
            parts[f"denseblock{number}"] = _DenseBlock(layers, width, bn_size, growth_rate, drop_rate, memory_efficient)
            width += layers * growth_rate
        self.features = nn.Sequential(OrderedDict(**parts, norm5=nn.BatchNorm2d(width)))
        self.classifier = nn.Linear(width, num_classes)
        start(self, {nn.Conv2d: nn.init.kaiming_normal_, nn.BatchNorm2d: nn.init.ones_, nn.Linear: None})

    def forward(self, x):
        x = F.relu(self.features(x), inplace=True)
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


def _builder(name, growth_rate, block_config, num_init_features):
    enum = name.replace("densenet", "DenseNet") + "_Weights"

    def build(**kwargs):
        return DenseNet(growth_rate, block_config, num_init_features, **kwargs)

    def loaded(state, **kwargs):
        """The files are of a time when layers were called norm.1 in place of norm1."""
        model = build(**kwargs)
        model.load_state_dict(
            {
                re.sub(r"(denselayer\d+\.(?:norm|relu|conv))\.([12]\.)", r"\1\2", key): value
                for key, value in state.items()
            }
        )
        return model

    register(globals(), name, enum, build, loaded)


_builder("densenet121", 32, (6, 12, 24, 16), 64)
_builder("densenet161", 48, (6, 12, 36, 24), 96)
_builder("densenet169", 32, (6, 12, 32, 32), 64)
_builder("densenet201", 32, (6, 12, 48, 32), 64)
