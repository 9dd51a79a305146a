"""lightning: fit, validate, test and predict, with a checkpoint that training goes on from."""

import os
import tempfile
import warnings

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from show import show

warnings.filterwarnings("ignore")


class Net(L.LightningModule):
    def __init__(self, width=16):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.Tanh(), torch.nn.Linear(width, 1))
        self.losses = []

    def training_step(self, batch, index):
        loss = torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, index):
        self.log("val", torch.nn.functional.mse_loss(self.net(batch[0]), batch[1]))

    test_step = validation_step

    def predict_step(self, batch, index):
        return self.net(batch[0])

    def configure_optimizers(self):
        optimiser = torch.optim.Adam(self.parameters(), lr=1e-2)
        return {"optimizer": optimiser, "lr_scheduler": torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.9)}


L.seed_everything(0, verbose=False)
data = torch.utils.data.TensorDataset(torch.randn(32, 8), torch.randn(32, 1))
loader = torch.utils.data.DataLoader(data, batch_size=8)
net = Net()
with tempfile.TemporaryDirectory() as folder:
    keep = ModelCheckpoint(folder, monitor="val", save_last=True)

    def trainer(epochs):
        return L.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            logger=CSVLogger(folder),
            callbacks=[keep, EarlyStopping("val", patience=9)],
            enable_progress_bar=False,
            enable_model_summary=True,
            gradient_clip_val=0.5,
            accumulate_grad_batches=2,
            log_every_n_steps=1,
        )

    first = trainer(2)
    first.fit(net, loader, loader)
    tested = first.test(net, loader, verbose=False)[0]["val"]
    predicted = torch.cat(first.predict(net, loader))
    again = Net.load_from_checkpoint(os.path.join(folder, "last.ckpt"))
    went_on = Net()
    trainer(3).fit(went_on, loader, loader, ckpt_path=os.path.join(folder, "last.ckpt"))
show(
    losses=net.losses,
    test=tested,
    predicted=predicted,
    same=torch.equal(again.net[0].weight, net.net[0].weight),
    went_on=went_on.losses,
    width=again.hparams.width,
)
