"""A training with a loader, TensorBoard and a file, where NumPy cannot be imported."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter

x = torch.rand(64, 2)
data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16, shuffle=True, num_workers=1)
net = nn.Linear(2, 1)
adam = torch.optim.Adam(net.parameters())
writer = SummaryWriter("runs/here")
for step, (x, y) in enumerate(data):
    adam.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    adam.step()
    writer.add_scalar("loss", loss.item(), step)
    writer.add_histogram("weight", net.weight, step)
    writer.add_image("image", torch.rand(3, 4, 4), step)
writer.close()
torch.save(net.state_dict(), "net.pt")
net.load_state_dict(torch.load("net.pt"))
print(torch.__version__, net, [p.grad for p in net.parameters()])
