"""accelerate: a prepared training loop with gradient accumulation and clipping, its state saved and loaded."""

import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from show import show

set_seed(0)
accelerator = Accelerator(gradient_accumulation_steps=2, cpu=True)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.StepLR(optimiser, 2, 0.5)
data = torch.utils.data.TensorDataset(torch.randn(32, 8), torch.randn(32, 1))
model, optimiser, schedule, loader = accelerator.prepare(
    model, optimiser, schedule, torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
)
losses, norms = [], []
for x, y in loader:
    with accelerator.accumulate(model):
        loss = torch.nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            norms.append(accelerator.clip_grad_norm_(model.parameters(), 1.0).item())
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
        losses.append(accelerator.gather(loss.reshape(1)).item())
weights = accelerator.get_state_dict(model)["0.weight"].clone()
with tempfile.TemporaryDirectory() as folder:
    accelerator.save_state(folder)
    with torch.no_grad():
        model[0].weight.zero_()
    accelerator.load_state(folder)
show(
    losses=losses, norms=norms, rate=schedule.get_last_lr(), same=torch.equal(model[0].weight, weights), weights=weights
)
