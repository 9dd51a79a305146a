"""Activation wrappers."""

import torch
import torch.nn as nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    ActivationWrapper,
    CheckpointImpl,
    CheckpointWrapper,
    apply_activation_checkpointing,
    checkpoint_wrapper,
    offload_wrapper,
)

calls = []


class Layer(nn.Linear):
    def forward(self, x):
        calls.append(1)
        return torch.tanh(super().forward(x))


net = nn.Sequential(*[Layer(4, 4) for _ in range(3)])
x = torch.randn(2, 4)
net(x).sum().backward()
want, names = [p.grad.clone() for p in net.parameters()], list(net.state_dict())
for wrap in (lambda m: checkpoint_wrapper(m, CheckpointImpl.REENTRANT), checkpoint_wrapper, offload_wrapper):
    net.zero_grad()
    calls.clear()
    wrapped = nn.Sequential(*[wrap(layer) for layer in net])
    assert isinstance(wrapped[0], ActivationWrapper)
    assert wrapped[0].in_features == 4
    assert list(wrapped.state_dict()) == names
    wrapped(x.clone().requires_grad_()).sum().backward()
    assert all(torch.allclose(p.grad, g) for p, g in zip(net.parameters(), want))
    assert len(calls) == (3 if wrap is offload_wrapper else 6)
    wrapped.load_state_dict(net.state_dict())
apply_activation_checkpointing(net, check_fn=lambda m: isinstance(m, Layer))
assert all(isinstance(layer, CheckpointWrapper) for layer in net)
