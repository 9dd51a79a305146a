"""DenseNets."""
import re
from collections import OrderedDict

import taper as torch
from taper import nn
from taper.nn import functional as F
from taper.torchvision.models._api import register


class _DenseLayer(nn.Module):
    def __init__(self, num_input_features, growth_rate, bn_size, drop_rate, memory_efficient=False):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(num_input_features)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(num_input_features, bn_size * growth_rate, kernel_size=1, stride=1, bias=False)
        self.norm2 = nn.BatchNorm2d(bn_size * growth_rate)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(bn_size * growth_rate, growth_rate, kernel_size=3, stride=1, padding=1, bias=False)
        self.drop_rate = float(drop_rate)
        self.memory_efficient = memory_efficient

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
    def __init__(self, num_layers, num_input_features, bn_size, growth_rate, drop_rate, memory_efficient=False):
        super().__init__()
        for i in range(num_layers):
            self.add_module(f"denselayer{i + 1}", _DenseLayer(num_input_features + i * growth_rate, growth_rate, bn_size, drop_rate, memory_efficient))

    def forward(self, init_features):
        features = [init_features]
        for layer in self.values():
            features.append(layer(features))
        return torch.cat(features, 1)


class _Transition(nn.Sequential):
    def __init__(self, num_input_features, num_output_features):
        super().__init__()
        self.norm = nn.BatchNorm2d(num_input_features)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(num_input_features, num_output_features, kernel_size=1, stride=1, bias=False)
        self.pool = nn.AvgPool2d(kernel_size=2, stride=2)


class DenseNet(nn.Module):
    def __init__(self, growth_rate=32, block_config=(6, 12, 24, 16), num_init_features=64, bn_size=4, drop_rate=0, num_classes=1000,
                 memory_efficient=False):
        super().__init__()
        self.features = nn.Sequential(OrderedDict([
            ("conv0", nn.Conv2d(3, num_init_features, kernel_size=7, stride=2, padding=3, bias=False)),
            ("norm0", nn.BatchNorm2d(num_init_features)), ("relu0", nn.ReLU(inplace=True)),
            ("pool0", nn.MaxPool2d(kernel_size=3, stride=2, padding=1))]))
        width = num_init_features
        for i, layers in enumerate(block_config):
            self.features.add_module(f"denseblock{i + 1}", _DenseBlock(layers, width, bn_size, growth_rate, drop_rate, memory_efficient))
            width += layers * growth_rate
            if i != len(block_config) - 1:
                self.features.add_module(f"transition{i + 1}", _Transition(width, width // 2))
                width //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(width))
        self.classifier = nn.Linear(width, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight)
            elif isinstance(m, nn.BatchNorm2d):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)
            elif isinstance(m, nn.Linear):
                nn.init.constant_(m.bias, 0)

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
        model.load_state_dict({re.sub(r"(denselayer\d+\.(?:norm|relu|conv))\.([12]\.)", r"\1\2", key): value for key, value in state.items()})
        return model
    register(globals(), name, enum, build, loaded)


_builder("densenet121", 32, (6, 12, 24, 16), 64)
_builder("densenet161", 48, (6, 12, 36, 24), 96)
_builder("densenet169", 32, (6, 12, 32, 32), 64)
_builder("densenet201", 32, (6, 12, 48, 32), 64)
