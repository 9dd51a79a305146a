"""Two classes, binary cross-entropy from torch.nn.functional, gradients from autograd.grad."""

import torch
import torch.nn.functional as F

torch.manual_seed(1)
x = torch.cat([torch.randn(50, 2) + 1.5, torch.randn(50, 2) - 1.5])
y = torch.cat([torch.ones(50), torch.zeros(50)])
w = torch.zeros(2, requires_grad=True)
b = torch.zeros((), requires_grad=True)


def predict(inputs):
    return inputs @ w + b


for epoch in range(1, 51):
    loss = F.binary_cross_entropy_with_logits(predict(x), y) + 0.01 * (w * w).sum()
    gw, gb = torch.autograd.grad(loss, [w, b])
    with torch.no_grad():
        w.sub_(0.5 * gw)
        b.sub_(0.5 * gb)
    if epoch % 10 == 0:
        accuracy = ((predict(x) > 0) == y.bool()).float().mean()
        print("epoch {:2d} loss {:.4f} accuracy {:.2%}".format(epoch, loss.item(), accuracy.item()))

with torch.no_grad():
    p = torch.sigmoid(predict(torch.tensor([[2.0, 2.0], [0.0, 0.0], [-2.0, -1.0]])))
print(p)
print(p.requires_grad, loss)
confusion = torch.zeros(2, 2, dtype=torch.long)
for t, q in zip(y.long(), (predict(x) > 0).long()):
    confusion[t, q] += 1
print(confusion)
