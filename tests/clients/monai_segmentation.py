"""monai: transforms, a UNet with a Dice loss for two steps, sliding windows and a metric."""

import torch
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss
from monai.metrics import DiceMetric
from monai.networks.nets import UNet
from monai.transforms import Compose, NormalizeIntensity, RandFlip, ScaleIntensity
from monai.utils import set_determinism
from show import show

set_determinism(0)
net = UNet(spatial_dims=2, in_channels=1, out_channels=2, channels=(8, 16, 32), strides=(2, 2), num_res_units=1)
prepare = Compose([ScaleIntensity(), NormalizeIntensity(), RandFlip(prob=1.0, spatial_axis=0)])
images = torch.stack([torch.as_tensor(prepare(torch.rand(1, 32, 32))) for _ in range(2)])
labels = (images > 0).float()
optimiser, criterion = torch.optim.Adam(net.parameters(), lr=1e-3), DiceCELoss(to_onehot_y=True, softmax=True)
losses = []
for _ in range(2):
    loss = criterion(net(images), labels)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
net.eval()
with torch.no_grad():
    whole = sliding_window_inference(images, (16, 16), 2, net, overlap=0.25)
metric = DiceMetric()
metric(whole.argmax(1, keepdim=True), labels)
show(losses=losses, image=images[0, 0, 0], windows=whole[0, 0, 0], dice=metric.aggregate())
