"""Reductions run while the backward does."""

import ddp_begin  # noqa: F401
import torch
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

import threading
import time
import queue


class Slow(torch.autograd.Function):  # a backward that takes its time without using the processor
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        done.append(len(spent))
        time.sleep(0.03)
        return grad


class Layer(nn.Linear):
    def forward(self, x):
        return Slow.apply(super().forward(x))


wire, spent, done = queue.Queue(), [], []


def carry():  # one message after the other, each as long as a layer's backward
    while True:
        bucket, future = wire.get()
        time.sleep(0.03)
        spent.append(bucket.index())
        future.set_result(bucket.buffer())


threading.Thread(target=carry, daemon=True).start()


def hook(state, bucket):
    future = torch.futures.Future()
    wire.put((bucket, future))
    return future


net = nn.Sequential(*[Layer(64, 64) for _ in range(8)])
ddp = DDP(net, bucket_cap_mb=0.01)
ddp.register_comm_hook(None, hook)
assert len(ddp.reducer.buckets) == 8
x = torch.randn(2, 64)
best = 0
for step in range(6):
    spent.clear(), done.clear()
    ddp(x).sum().backward()
    assert spent == list(range(8))  # all are there when the backward returns
    best = max(best, done[-1])
assert best >= 4, best  # half of the messages had arrived when the last layer's backward began
