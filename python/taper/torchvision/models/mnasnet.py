"""MNASNets."""
from taper import nn
from taper.torchvision.models._api import register
from taper.torchvision.models._utils import _make_divisible

_BN_MOMENTUM = 1 - 0.9997


class _InvertedResidual(nn.Module):
    def __init__(self, in_ch, out_ch, kernel_size, stride, expansion_factor, bn_momentum=0.1):
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        if kernel_size not in (3, 5):
            raise ValueError(f"kernel_size should be 3 or 5 instead of {kernel_size}")
        mid = in_ch * expansion_factor
        self.apply_residual = in_ch == out_ch and stride == 1
        self.layers = nn.Sequential(
            nn.Conv2d(in_ch, mid, 1, bias=False), nn.BatchNorm2d(mid, momentum=bn_momentum), nn.ReLU(inplace=True),
            nn.Conv2d(mid, mid, kernel_size, padding=kernel_size // 2, stride=stride, groups=mid, bias=False),
            nn.BatchNorm2d(mid, momentum=bn_momentum), nn.ReLU(inplace=True),
            nn.Conv2d(mid, out_ch, 1, bias=False), nn.BatchNorm2d(out_ch, momentum=bn_momentum))

    def forward(self, input):
        return self.layers(input) + input if self.apply_residual else self.layers(input)


def _stack(in_ch, out_ch, kernel_size, stride, factor, repeats):
    first = _InvertedResidual(in_ch, out_ch, kernel_size, stride, factor, bn_momentum=_BN_MOMENTUM)
    return nn.Sequential(first, *(_InvertedResidual(out_ch, out_ch, kernel_size, 1, factor, bn_momentum=_BN_MOMENTUM) for _ in range(1, repeats)))


class MNASNet(nn.Module):
    _version = 2

    def __init__(self, alpha, num_classes=1000, dropout=0.2):
        super().__init__()
        if alpha <= 0.0:
            raise ValueError(f"alpha should be greater than 0.0 instead of {alpha}")
        self.alpha, self.num_classes = alpha, num_classes
        w = [_make_divisible(d * alpha, 8) for d in (32, 16, 24, 40, 80, 96, 192, 320)]
        layers = [
            nn.Conv2d(3, w[0], 3, padding=1, stride=2, bias=False), nn.BatchNorm2d(w[0], momentum=_BN_MOMENTUM), nn.ReLU(inplace=True),
            nn.Conv2d(w[0], w[0], 3, padding=1, stride=1, groups=w[0], bias=False), nn.BatchNorm2d(w[0], momentum=_BN_MOMENTUM), nn.ReLU(inplace=True),
            nn.Conv2d(w[0], w[1], 1, padding=0, stride=1, bias=False), nn.BatchNorm2d(w[1], momentum=_BN_MOMENTUM),
            _stack(w[1], w[2], 3, 2, 3, 3), _stack(w[2], w[3], 5, 2, 3, 3), _stack(w[3], w[4], 5, 2, 6, 3), _stack(w[4], w[5], 3, 1, 6, 2),
            _stack(w[5], w[6], 5, 2, 6, 4), _stack(w[6], w[7], 3, 1, 6, 1),
            nn.Conv2d(w[7], 1280, 1, padding=0, stride=1, bias=False), nn.BatchNorm2d(1280, momentum=_BN_MOMENTUM), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout, inplace=True), nn.Linear(1280, num_classes))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
            elif isinstance(m, nn.BatchNorm2d):
                nn.init.ones_(m.weight)
                nn.init.zeros_(m.bias)
            elif isinstance(m, nn.Linear):
                nn.init.kaiming_uniform_(m.weight, mode="fan_out", nonlinearity="sigmoid")
                nn.init.zeros_(m.bias)

    def forward(self, x):
        return self.classifier(self.layers(x).mean([2, 3]))


def _builder(name, enum, alpha):
    def build(**kwargs):
        return MNASNet(alpha, **kwargs)
    register(globals(), name, enum, build)


for _alpha in ("0_5", "0_75", "1_0", "1_3"):
    _builder(f"mnasnet{_alpha}", f"MNASNet{_alpha}_Weights", float(_alpha.replace("_", ".")))
