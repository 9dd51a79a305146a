"""opacus: gradients per sample, clipped and noised; the budget that is spent."""

import torch
from opacus import PrivacyEngine
from opacus.grad_sample import GradSampleModule
from show import show

torch.manual_seed(0)
net = GradSampleModule(
    torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 3))
)
x, y = torch.randn(6, 1, 8, 8), torch.randint(3, (6,))
torch.nn.functional.cross_entropy(net(x), y).backward()
each = [p.grad_sample.flatten(1).norm(dim=1) for p in net.parameters()]
torch.manual_seed(0)
model = torch.nn.Linear(8, 2)
data = torch.utils.data.TensorDataset(torch.randn(32, 8), torch.randint(2, (32,)))
engine = PrivacyEngine(accountant="rdp")
model, optimiser, loader = engine.make_private(
    module=model,
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    noise_multiplier=1.0,
    max_grad_norm=1.0,
    data_loader=torch.utils.data.DataLoader(data, batch_size=8),
    poisson_sampling=False,
)
losses = []
for a, b in loader:
    optimiser.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(a), b)
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
show(first=each[0], last=each[-1], losses=losses, spent=engine.get_epsilon(1e-5))
