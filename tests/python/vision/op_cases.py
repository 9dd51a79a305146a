"""Regions, deformable convolutions, DropBlock and pyramids, by seed: `python op_cases.py > ops.json` with torchvision
records its answers."""

import json
from collections import OrderedDict


def _numbers(*tensors):
    """Of each: its sum, its sum of squares and its first elements."""
    return [
        v
        for t in tensors
        for v in (t.double().sum().item(), t.double().square().sum().item(), *t.reshape(-1)[:6].tolist())
    ]


def _deformed(torch, ops, groups, parts, stride, padding, dilation, masked):
    torch.manual_seed(0)
    x, weight, bias = torch.randn(2, 8, 9, 11), torch.randn(4, 8 // parts, 3, 3), torch.randn(4)
    size = torch.nn.functional.conv2d(x, weight, bias, stride, padding, dilation, groups=parts).shape[-2:]
    offset = torch.randn(2, 2 * groups * 9, *size) * 2
    mask = torch.rand(2, groups * 9, *size) if masked else None
    leaves = [t.requires_grad_() for t in (x, weight, bias, offset, mask) if t is not None]
    y = ops.deform_conv2d(x, offset, weight, bias, stride, padding, dilation, mask)
    y.square().sum().backward()
    return _numbers(y.detach(), *(leaf.grad for leaf in leaves))


def answers(torch, ops, pyramid):
    """{name: numbers}"""
    told = {
        "deform": _deformed(torch, ops, 1, 1, 1, 1, 1, False),
        "deform groups": _deformed(torch, ops, 2, 2, (2, 1), (1, 2), 1, True),
        "deform dilation": _deformed(torch, ops, 4, 1, 1, 0, 2, True),
    }
    torch.manual_seed(1)
    layer = ops.DeformConv2d(4, 6, 3, padding=1, groups=2)
    told["deform layer"] = _numbers(layer.weight.detach(), layer.bias.detach())
    features = torch.randn(2, 18, 12, 14)
    rois = torch.tensor([[0, 1.0, 2, 9, 8], [1, 0, 0, 13, 11], [1, 3.5, 2.5, 5.2, 6.1], [0, -3.0, -2, 4, 20]])
    for scale in (1.0, 0.5):
        told[f"ps_roi_align {scale}"] = _numbers(ops.ps_roi_align(features, rois, (3, 2), scale, 2))
        told[f"ps_roi_align all {scale}"] = _numbers(ops.ps_roi_align(features, rois, 3, scale))
        told[f"ps_roi_pool {scale}"] = _numbers(ops.ps_roi_pool(features, rois, (3, 2), scale))
    maps = OrderedDict((name, torch.randn(1, 5, n, n)) for name, n in (("a", 64), ("b", 32), ("c", 16)))
    boxes = torch.rand(6, 4) * 256
    boxes[:, 2:] += boxes[:, :2]
    boxes[3:, 2:] = boxes[3:, :2] + 20
    told["scales"] = _numbers(ops.MultiScaleRoIAlign(["a", "c"], 3, 2)(maps, [boxes], [(512, 512)]))
    told["one scale"] = _numbers(ops.MultiScaleRoIAlign(["b"], 3, 2)(maps, [boxes], [(512, 512)]))
    told["drop_block2d"] = _numbers(ops.drop_block2d(torch.ones(1, 2, 8, 8), 0.3, 3))
    told["drop_block3d"] = _numbers(ops.DropBlock3d(0.3, 3)(torch.ones(1, 2, 8, 8, 8)))
    for extra in (None, pyramid.LastLevelMaxPool(), pyramid.LastLevelP6P7(5, 5)):
        levels = ops.FeaturePyramidNetwork([5, 5, 5], 5, extra)(OrderedDict(maps))
        told[f"pyramid {type(extra).__name__}"] = _numbers(*(level.detach() for level in levels.values()))
    return told


if __name__ == "__main__":
    import torch
    from torchvision import ops
    from torchvision.ops import feature_pyramid_network

    print(json.dumps(answers(torch, ops, feature_pyramid_network), indent=1))
