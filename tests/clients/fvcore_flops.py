"""fvcore: operations and activations counted by tracing, parameters, precise batch statistics, focal loss, giou."""

import torch
from fvcore.nn import (
    FlopCountAnalysis,
    ActivationCountAnalysis,
    giou_loss,
    parameter_count,
    parameter_count_table,
    sigmoid_focal_loss,
    smooth_l1_loss,
    update_bn_stats,
)
from show import show

torch.manual_seed(0)
net = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, padding=1),
    torch.nn.BatchNorm2d(8),
    torch.nn.ReLU(),
    torch.nn.MaxPool2d(2),
    torch.nn.Flatten(),
    torch.nn.Linear(8 * 16, 10),
)
x = torch.randn(4, 3, 8, 8)
flops = FlopCountAnalysis(net.eval(), x).unsupported_ops_warnings(False)
activations = ActivationCountAnalysis(net, x).unsupported_ops_warnings(False)
net.train()
update_bn_stats(net, iter([x, x + 1]), num_iters=2, progress=None)
logits = torch.randn(6, requires_grad=True)
focal = sigmoid_focal_loss(logits, (torch.arange(6) % 2).float(), 0.25, 2, "sum")
focal.backward()
a, b = torch.tensor([[0.0, 0.0, 2.0, 2.0]]), torch.tensor([[1.0, 1.0, 3.0, 4.0]])
show(
    flops=flops.total(),
    by_module=sorted(flops.by_module().values()),
    by_operator=sorted(flops.by_operator().values()),
    activations=activations.total(),
    parameters=sorted(parameter_count(net).values()),
    table=len(parameter_count_table(net).splitlines()),
    mean=net[1].running_mean,
    focal=focal,
    gradient=logits.grad,
    giou=giou_loss(a, b),
    smooth=smooth_l1_loss(a, b, 0.5, "mean"),
)
