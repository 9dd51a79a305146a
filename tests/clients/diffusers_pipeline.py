"""diffusers: a small UNet and VAE, two steps of training, a pipeline with two schedulers, saving and loading."""

import tempfile

import torch
from diffusers import AutoencoderKL, DDIMScheduler, DDPMPipeline, DDPMScheduler, UNet2DModel
from show import show

torch.manual_seed(0)
unet = UNet2DModel(
    sample_size=8,
    in_channels=3,
    out_channels=3,
    layers_per_block=1,
    block_out_channels=(16, 32),
    norm_num_groups=8,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)
scheduler = DDPMScheduler(num_train_timesteps=20)
optimiser = torch.optim.AdamW(unet.parameters(), lr=1e-3)
losses = []
for _ in range(2):
    images, noise, times = torch.randn(2, 3, 8, 8), torch.randn(2, 3, 8, 8), torch.randint(20, (2,))
    loss = torch.nn.functional.mse_loss(unet(scheduler.add_noise(images, noise, times), times).sample, noise)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
pipeline = DDPMPipeline(unet=unet.eval(), scheduler=scheduler)
pipeline.set_progress_bar_config(disable=True)
made = pipeline(
    batch_size=1, generator=torch.Generator().manual_seed(1), num_inference_steps=4, output_type="np"
).images
implicit = DDIMScheduler.from_config(scheduler.config)
implicit.set_timesteps(4)
latent = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(2))
with torch.no_grad():
    for t in implicit.timesteps:
        latent = implicit.step(unet(latent, t).sample, t, latent).prev_sample
vae = AutoencoderKL(
    block_out_channels=(8, 16),
    down_block_types=("DownEncoderBlock2D",) * 2,
    up_block_types=("UpDecoderBlock2D",) * 2,
    norm_num_groups=4,
    latent_channels=2,
).eval()
decoded = vae(torch.randn(1, 3, 16, 16)).sample
with tempfile.TemporaryDirectory() as folder:
    pipeline.save_pretrained(folder)
    again = DDPMPipeline.from_pretrained(folder)
    same = torch.equal(again.unet(images, times).sample, unet(images, times).sample)
show(losses=losses, image=[float(v) for v in made.reshape(-1)[:16]], latent=latent, decoded=decoded, same=same)
