"""lightning: TensorBoard's logs, a compiled module, averaged weights, two optimisers by hand, a data module, Fabric."""

import glob
import os
import tempfile
import warnings

import lightning as L
import torch
from lightning.fabric import Fabric
from lightning.pytorch.callbacks import LearningRateMonitor, ModelSummary, StochasticWeightAveraging
from lightning.pytorch.loggers import TensorBoardLogger
from show import show

warnings.filterwarnings("ignore")


class Data(L.LightningDataModule):
    def setup(self, stage):
        generator = torch.Generator().manual_seed(0)
        self.data = torch.utils.data.TensorDataset(
            torch.randn(32, 8, generator=generator), torch.randn(32, 1, generator=generator)
        )

    def train_dataloader(self):
        return torch.utils.data.DataLoader(self.data, batch_size=8, shuffle=True)


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        self.example_input_array = torch.zeros(1, 8)
        self.losses = []

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        loss = torch.nn.functional.mse_loss(self(batch[0]), batch[1])
        self.log("loss", loss, on_step=True, on_epoch=True)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        optimiser = torch.optim.SGD(self.parameters(), lr=0.1)
        return [optimiser], [{"scheduler": torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.1, 16), "interval": "step"}]


class Manual(Net):
    """Two optimisers, stepped by hand."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, index):
        for optimiser in self.optimizers():
            loss = torch.nn.functional.mse_loss(self(batch[0]), batch[1])
            optimiser.zero_grad()
            self.manual_backward(loss)
            optimiser.step()
            self.losses.append(loss.item())

    def configure_optimizers(self):
        return [torch.optim.Adam(self.net[0].parameters(), lr=1e-2), torch.optim.SGD(self.net[2].parameters(), lr=1e-2)]


def fit(net, folder, **more):
    trainer = L.Trainer(
        max_epochs=4,
        accelerator="cpu",
        enable_progress_bar=False,
        log_every_n_steps=1,
        enable_checkpointing=False,
        logger=TensorBoardLogger(folder, log_graph=False),
        **more,
    )
    L.seed_everything(1, verbose=False)
    trainer.fit(net, datamodule=Data())
    return trainer


numbers = {}
with tempfile.TemporaryDirectory() as folder:
    for name, kind, more in (
        ("plain", Net, {"callbacks": [LearningRateMonitor(), ModelSummary(2)]}),
        ("averaged", Net, {"callbacks": [StochasticWeightAveraging(1e-2)]}),
        ("clipped", Net, {"gradient_clip_val": 0.1, "detect_anomaly": True}),
        ("manual", Manual, {}),
    ):
        L.seed_everything(0, verbose=False)
        net = kind()
        done = fit(net, folder, **more)
        numbers |= {name: net.losses, f"{name}_weight": net.net[0].weight}
    L.seed_everything(0, verbose=False)
    compiled = Net()
    fit(torch.compile(compiled), folder)
    numbers["compiled"] = compiled.losses
    numbers["logs"] = len(glob.glob(os.path.join(folder, "**", "events.out.*"), recursive=True))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = EventAccumulator(glob.glob(os.path.join(folder, "lightning_logs", "version_0", "events.out.*"))[0])
    log.Reload()
    numbers["logged"] = [entry.value for entry in log.Scalars("loss_step")]

fabric = Fabric(accelerator="cpu", devices=1)
fabric.seed_everything(0, verbose=False)
model = torch.nn.Linear(4, 1)
model, optimiser = fabric.setup(model, torch.optim.Adam(model.parameters(), lr=0.1))
for _ in range(3):
    loss = model(torch.ones(2, 4)).square().mean()
    optimiser.zero_grad()
    fabric.backward(loss)
    fabric.clip_gradients(model, optimiser, max_norm=1.0)
    optimiser.step()
numbers["fabric"] = loss
show(**numbers)
