"""segmentation-models-pytorch: two architectures without weights, losses, metrics."""

import segmentation_models_pytorch as smp
import torch
from show import show

torch.manual_seed(0)
x, y = torch.randn(2, 3, 64, 64), (torch.rand(2, 1, 64, 64) > 0.5).float()
numbers = {}
for name, kind in (("unet", smp.Unet), ("fpn", smp.FPN)):
    torch.manual_seed(0)
    net = kind("resnet18", encoder_weights=None, classes=1)
    loss = smp.losses.DiceLoss("binary")(net(x), y) + smp.losses.FocalLoss("binary")(net(x), y)
    loss.backward()
    numbers[name], numbers[f"{name}_gradient"] = loss, net.segmentation_head[0].weight.grad.reshape(-1)
counts = smp.metrics.get_stats((x[:, :1] > 0).long(), y.long(), mode="binary")
show(**numbers, iou=smp.metrics.iou_score(*counts, reduction="micro"))
