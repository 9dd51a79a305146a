"""pytorch-forecasting: a data set of series, a temporal fusion transformer and N-BEATS: losses, gradients, forecasts."""

import lightning.pytorch as pl
import numpy as np
import pandas as pd
import torch
from pytorch_forecasting import GroupNormalizer, NBeats, TemporalFusionTransformer, TimeSeriesDataSet
from pytorch_forecasting.metrics import MAE, QuantileLoss
from show import show

pl.seed_everything(0, verbose=False)
steps = np.arange(40)
frame = pd.concat(
    [pd.DataFrame({"time": steps, "group": str(g), "value": np.sin(steps / 3 + g) + 2 + g}) for g in range(3)],
    ignore_index=True,
)


def dataset(**more):
    return TimeSeriesDataSet(
        frame,
        time_idx="time",
        target="value",
        group_ids=["group"],
        max_encoder_length=8,
        max_prediction_length=4,
        time_varying_unknown_reals=["value"],
        **more,
    )


def gradient(model, data):
    x, y = next(iter(data.to_dataloader(train=False, batch_size=8, num_workers=0)))
    out = model(x)
    loss = model.loss(out["prediction"], y)
    loss.backward()
    return (
        out["prediction"],
        loss,
        sum(p.grad.double().square().sum() for p in model.parameters() if p.grad is not None).sqrt(),
    )


wide = dataset(
    static_categoricals=["group"],
    time_varying_known_reals=["time"],
    target_normalizer=GroupNormalizer(groups=["group"]),
)
fusion = TemporalFusionTransformer.from_dataset(
    wide,
    hidden_size=8,
    attention_head_size=2,
    dropout=0.0,
    hidden_continuous_size=4,
    loss=QuantileLoss(),
    log_interval=-1,
)
forecast, loss, norm = gradient(fusion, wide)
plain = dataset()
beats = NBeats.from_dataset(
    plain,
    widths=[8, 16],
    num_blocks=[1, 1],
    num_block_layers=[1, 1],
    log_interval=-1,
    backcast_loss_ratio=0.0,
    loss=MAE(),
)
beat, beat_loss, beat_norm = gradient(beats, plain)
trainer = pl.Trainer(
    max_steps=3,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(beats, plain.to_dataloader(train=False, batch_size=16, num_workers=0))
fitted = next(iter(beats.parameters())).detach()
show(
    forecast=forecast,
    loss=loss,
    norm=norm,
    beat=beat,
    beat_loss=beat_loss,
    beat_norm=beat_norm,
    fitted=fitted,
    samples=len(wide),
)
