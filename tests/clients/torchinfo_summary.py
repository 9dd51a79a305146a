"""torchinfo: a summary's counts of a network with every kind of layer."""

import torch
from show import show
from torchinfo import summary

torch.manual_seed(0)
net = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3),
    torch.nn.BatchNorm2d(8),
    torch.nn.ReLU(),
    torch.nn.AdaptiveAvgPool2d(4),
    torch.nn.Flatten(),
    torch.nn.Linear(128, 10),
)
told = summary(net, (2, 3, 16, 16), verbose=0, col_names=("input_size", "output_size", "num_params", "mult_adds"))
recurrent = summary(torch.nn.LSTM(4, 8, 2), (5, 2, 4), verbose=0)
show(
    parameters=told.total_params,
    trainable=told.trainable_params,
    products=told.total_mult_adds,
    bytes=told.total_output_bytes,
    lines=len(str(told).splitlines()),
    recurrent=[recurrent.total_params, recurrent.total_mult_adds],
)
