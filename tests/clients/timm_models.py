"""timm: four families without weights: forward, two steps with its own optimiser and schedule, features, a checkpoint."""

import io

import timm
import torch
from show import show
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3

numbers = {}
for name, size in (
    ("resnet10t", 64),
    ("vit_tiny_patch16_224", 224),
    ("convnext_atto", 64),
    ("mobilenetv3_small_050", 64),
):
    torch.manual_seed(0)
    numbers[name] = timm.create_model(name, num_classes=10).eval()(torch.randn(2, 3, size, size))
torch.manual_seed(0)
model = timm.create_model("resnet10t", num_classes=10, drop_rate=0.0)
optimiser = create_optimizer_v2(model, "adamw", lr=1e-3, weight_decay=0.05)
schedule, ema = CosineLRScheduler(optimiser, t_initial=10, warmup_t=2), ModelEmaV3(model, decay=0.9)
losses = []
for step in range(2):
    x, y = torch.randn(4, 3, 64, 64), torch.randint(10, (4,))
    loss = SoftTargetCrossEntropy()(model(x), torch.nn.functional.one_hot(y, 10).float())
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    schedule.step(step + 1)
    ema.update(model)
    losses.append(loss.item())
file = io.BytesIO()
torch.save(model.state_dict(), file)
file.seek(0)
again = timm.create_model("resnet10t", num_classes=10)
again.load_state_dict(torch.load(file))
features = timm.create_model("resnet10t", features_only=True)
show(
    **numbers,
    losses=losses,
    rate=optimiser.param_groups[0]["lr"],
    same=torch.equal(again.eval()(x), model.eval()(x)),
    features=[float(f.shape[1]) for f in features(x)],
)
