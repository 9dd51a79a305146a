"""open_clip: a small CLIP from its configuration: contrastive loss, a step, features."""

import open_clip
import torch
from open_clip.loss import ClipLoss
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg
from show import show

torch.manual_seed(0)
model = CLIP(
    32,
    CLIPVisionCfg(layers=2, width=64, head_width=16, patch_size=8, image_size=32),
    CLIPTextCfg(context_length=16, vocab_size=100, width=32, heads=4, layers=2),
)
images, texts = torch.randn(4, 3, 32, 32), torch.randint(1, 100, (4, 16))
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
losses = []
for _ in range(2):
    features = model(images, texts)
    loss = ClipLoss()(*features[:2], features[2])
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
model.eval()
with torch.no_grad():
    show(
        losses=losses,
        image=model.encode_image(images, normalize=True),
        text=model.encode_text(texts, normalize=True),
        models=len(open_clip.list_models()) > 10,
    )
