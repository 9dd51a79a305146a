"""lightning: two processes on this machine, by DistributedDataParallel, with a checkpoint, and by Fabric."""

import json
import os
import subprocess
import sys
import tempfile
import warnings

import lightning as L
import torch
from lightning.pytorch.strategies import DDPStrategy
from show import show

warnings.filterwarnings("ignore")


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        self.losses = []

    def training_step(self, batch, index):
        loss = torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.log("loss", loss, sync_dist=True)
        self.losses.append(self.all_gather(loss.detach()).mean().item())
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.trainer.model.parameters(), lr=1e-2)


def data():
    L.seed_everything(0, verbose=False)
    return torch.utils.data.TensorDataset(torch.randn(32, 8), torch.randn(32, 1))


def trainer(folder):
    """One of two ranks; lightning starts the other one with the same arguments."""
    loader, net = torch.utils.data.DataLoader(data(), batch_size=4), Net()
    fit = L.Trainer(
        max_epochs=2,
        accelerator="cpu",
        devices=2,
        strategy=DDPStrategy(process_group_backend="gloo"),
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
        default_root_dir=folder,
        log_every_n_steps=1,
    )
    fit.fit(net, loader)
    path = os.path.join(folder, "net.ckpt")
    fit.save_checkpoint(path)
    fit.strategy.barrier()
    weight = torch.load(path)["state_dict"]["net.0.weight"]
    return fit.global_rank, {"losses": net.losses, "weight": weight.reshape(-1)[:8].tolist(), "steps": fit.global_step}


def fabric(folder):
    """The same by hand: Fabric's loop, collectives, and a file that both ranks load."""
    both = L.Fabric(accelerator="cpu", devices=2, strategy="ddp")
    both.launch()
    loader = both.setup_dataloaders(torch.utils.data.DataLoader(data(), batch_size=4))
    net = torch.nn.Linear(8, 1)
    net, optimiser = both.setup(net, torch.optim.Adam(net.parameters(), lr=1e-2))
    losses = []
    for i, (x, y) in enumerate(loader):
        with both.no_backward_sync(net, enabled=i % 2 == 0):
            loss = torch.nn.functional.mse_loss(net(x), y)
            both.backward(loss)
        if i % 2:
            optimiser.step()
            optimiser.zero_grad()
        losses.append(both.all_reduce(loss.detach(), reduce_op="mean").item())
    path = os.path.join(folder, "fabric.ckpt")
    both.save(path, {"net": net})
    both.barrier()
    both.load(path, {"net": net})
    return both.global_rank, {
        "losses": losses,
        "weight": net.weight.reshape(-1).tolist(),
        "gathered": both.all_gather(torch.tensor(both.global_rank)).tolist(),
    }


if __name__ == "__main__":
    ways = {"trainer": trainer, "fabric": fabric}
    if len(sys.argv) > 1:
        rank, told = ways[sys.argv[1]](sys.argv[2])
        if rank == 0:
            with open(os.path.join(sys.argv[2], sys.argv[1]), "w") as file:
                json.dump(told, file)
        sys.exit()
    numbers = {}
    with tempfile.TemporaryDirectory() as folder:
        for way in ways:
            done = subprocess.run(
                [sys.executable, "-W", "ignore", __file__, way, folder], capture_output=True, text=True
            )
            if done.returncode:
                sys.exit(done.stderr)
            with open(os.path.join(folder, way)) as file:
                numbers |= {f"{way}_{name}": value for name, value in json.load(file).items()}
    show(**numbers)
