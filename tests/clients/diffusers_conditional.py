"""diffusers: Stable Diffusion, a transformer over classes and Flux, each as a pipeline of small random parts."""

import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    DiTPipeline,
    DiTTransformer2DModel,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    StableDiffusionPipeline,
    UNet2DConditionModel,
)
from show import show
from transformers import CLIPTextConfig, CLIPTextModel


def vae(channels):
    return AutoencoderKL(
        block_out_channels=(8, 16),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        norm_num_groups=4,
        latent_channels=channels,
        sample_size=16,
        shift_factor=0.1,
    ).eval()


def numbers(images):
    return [float(v) for v in images.reshape(-1)[:16]]


def noise(seed):
    return torch.Generator().manual_seed(seed)


torch.manual_seed(0)
text = CLIPTextModel(
    CLIPTextConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=50,
        max_position_embeddings=8,
        projection_dim=16,
        eos_token_id=2,
    )
).eval()
words = torch.tensor([[0, 5, 9, 7, 3, 2, 2, 2]])
with torch.no_grad():
    prompt, nothing = text(words).last_hidden_state, text(words * 0 + 2).last_hidden_state
unet = UNet2DConditionModel(
    sample_size=8,
    in_channels=4,
    out_channels=4,
    layers_per_block=1,
    block_out_channels=(16, 32),
    norm_num_groups=8,
    cross_attention_dim=32,
    attention_head_dim=8,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
).eval()
stable = StableDiffusionPipeline(
    vae=vae(4),
    text_encoder=None,
    tokenizer=None,
    unet=unet,
    scheduler=EulerDiscreteScheduler(),
    safety_checker=None,
    feature_extractor=None,
    requires_safety_checker=False,
)
stable.set_progress_bar_config(disable=True)
drawn = stable(
    prompt_embeds=prompt,
    negative_prompt_embeds=nothing,
    num_inference_steps=3,
    generator=noise(1),
    output_type="np",
    height=16,
    width=16,
).images
stable.enable_attention_slicing()
sliced = stable(
    prompt_embeds=prompt,
    negative_prompt_embeds=nothing,
    num_inference_steps=3,
    generator=noise(1),
    output_type="np",
    height=16,
    width=16,
).images

torch.manual_seed(1)
blocks = DiTTransformer2DModel(
    num_attention_heads=2,
    attention_head_dim=8,
    in_channels=4,
    out_channels=8,
    num_layers=2,
    sample_size=8,
    patch_size=2,
    num_embeds_ada_norm=1000,
    norm_num_groups=4,
).eval()
classes = DiTPipeline(transformer=blocks, vae=vae(4), scheduler=DDIMScheduler())
classes.set_progress_bar_config(disable=True)
of_class = classes(
    class_labels=[3, 5], guidance_scale=2.0, num_inference_steps=3, generator=noise(2), output_type="np"
).images

torch.manual_seed(2)
flow = FluxTransformer2DModel(
    patch_size=1,
    in_channels=16,
    num_layers=1,
    num_single_layers=1,
    attention_head_dim=16,
    num_attention_heads=2,
    joint_attention_dim=32,
    pooled_projection_dim=32,
    axes_dims_rope=(4, 4, 8),
).eval()
flux = FluxPipeline(
    scheduler=FlowMatchEulerDiscreteScheduler(),
    vae=vae(4),
    text_encoder=None,
    tokenizer=None,
    text_encoder_2=None,
    tokenizer_2=None,
    transformer=flow,
)
flux.set_progress_bar_config(disable=True)
flowed = flux(
    prompt_embeds=prompt,
    pooled_prompt_embeds=prompt[:, -1],
    num_inference_steps=2,
    generator=noise(3),
    output_type="np",
    height=16,
    width=16,
    guidance_scale=1.0,
).images
show(text=prompt, stable=numbers(drawn), sliced=numbers(sliced), of_class=numbers(of_class), flux=numbers(flowed))
