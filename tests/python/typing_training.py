"""A training that type checkers read: layers, optimisers, schedules, loaders and groups by their stubs."""

import taper as torch
from taper import nn
from taper.utils.data import DataLoader, Dataset, TensorDataset
import taper.distributed as dist


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2, bias=False))
        self.conv = nn.Conv2d(1, 8, 3, padding="same")
        self.heads = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return y


net = Net(8)
opt = torch.optim.Adam(net.parameters(), lr=1e-3, betas=(0.9, 0.99))
sched = torch.optim.lr_scheduler.StepLR(opt, step_size=3, gamma=0.5)
data = TensorDataset(torch.ones(4, 4), torch.zeros(4, 2))
for x, y in DataLoader(data, batch_size=2, shuffle=True):
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    opt.step()
    sched.step()
rates: list[float] = sched.get_last_lr()
layer: torch.Tensor = nn.Linear(2, 3)(torch.ones(1, 2))
rank: int = dist.get_rank()
nn.Linear("two", 3)  # type: ignore[arg-type]
torch.optim.Adam(net.parameters(), betas=1)  # type: ignore[arg-type]
