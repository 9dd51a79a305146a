"""Vision transformers."""

import math
from collections import OrderedDict
from functools import partial

import taper as torch
from taper import nn
from taper.torchvision.models._api import register
from taper.torchvision.models._utils import attention_mlp
from taper.torchvision.ops.misc import MLP, Conv2dNormActivation


class MLPBlock(MLP):
    def __init__(self, in_dim, mlp_dim, dropout):
        super().__init__(in_dim, [mlp_dim, in_dim], activation_layer=nn.GELU, inplace=None, dropout=dropout)
        attention_mlp(self)


class EncoderBlock(nn.Module):
    def __init__(
        self, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer=partial(nn.LayerNorm, eps=1e-6)
    ):
        super().__init__()
        self.num_heads = num_heads
        attention = nn.MultiheadAttention(hidden_dim, num_heads, attention_dropout, batch_first=True)
        self.ln_1, self.self_attention, self.dropout = norm_layer(hidden_dim), attention, nn.Dropout(dropout)
        self.ln_2, self.mlp = norm_layer(hidden_dim), MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input):
        torch._assert(input.dim() == 3, f"Expected (batch_size, seq_length, hidden_dim) got {input.shape}")
        normed = self.ln_1(input)
        seen, _ = self.self_attention(normed, normed, normed, need_weights=False)
        x = self.dropout(seen) + input
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    def __init__(
        self,
        seq_length,
        num_layers,
        num_heads,
        hidden_dim,
        mlp_dim,
        dropout,
        attention_dropout,
        norm_layer=partial(nn.LayerNorm, eps=1e-6),
    ):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, seq_length, hidden_dim).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential(
            OrderedDict(
                (
                    f"encoder_layer_{i}",
                    EncoderBlock(num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer),
                )
                for i in range(num_layers)
            )
        )
        self.ln = norm_layer(hidden_dim)

    def forward(self, input):
        torch._assert(input.dim() == 3, f"Expected (batch_size, seq_length, hidden_dim) got {input.shape}")
        return self.ln(self.layers(self.dropout(input + self.pos_embedding)))


def _trunc_normal(conv):
    nn.init.trunc_normal_(
        conv.weight, std=math.sqrt(1 / (conv.in_channels * conv.kernel_size[0] * conv.kernel_size[1]))
    )
    if conv.bias is not None:
        nn.init.zeros_(conv.bias)


class VisionTransformer(nn.Module):
    def __init__(
        self,
        image_size,
        patch_size,
        num_layers,
        num_heads,
        hidden_dim,
        mlp_dim,
        dropout=0.0,
        attention_dropout=0.0,
        num_classes=1000,
        representation_size=None,
        norm_layer=partial(nn.LayerNorm, eps=1e-6),
        conv_stem_configs=None,
    ):
        super().__init__()
        if image_size % patch_size:
            raise AssertionError("Input shape indivisible by patch size!")
        self.image_size, self.patch_size, self.hidden_dim, self.mlp_dim = image_size, patch_size, hidden_dim, mlp_dim
        self.attention_dropout, self.dropout, self.num_classes = attention_dropout, dropout, num_classes
        self.representation_size, self.norm_layer = representation_size, norm_layer
        self.conv_proj = self._stem(conv_stem_configs)
        self.class_token = nn.Parameter(torch.zeros(1, 1, hidden_dim))
        seq_length = (image_size // patch_size) ** 2 + 1
        self.encoder = Encoder(
            seq_length, num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer
        )
        self.seq_length = seq_length
        heads = OrderedDict()
        if representation_size is not None:
            heads.update(pre_logits=nn.Linear(hidden_dim, representation_size), act=nn.Tanh())
        heads["head"] = nn.Linear(representation_size or hidden_dim, num_classes)
        self.heads = nn.Sequential(heads)
        self._initialise()

    def _stem(self, configs):
        if configs is None:
            return nn.Conv2d(3, self.hidden_dim, kernel_size=self.patch_size, stride=self.patch_size)
        layers, width = nn.Sequential(), 3
        for i, config in enumerate(configs):
            layers.add_module(
                f"conv_bn_relu_{i}",
                Conv2dNormActivation(
                    width,
                    config.out_channels,
                    config.kernel_size,
                    config.stride,
                    norm_layer=config.norm_layer,
                    activation_layer=config.activation_layer,
                ),
            )
            width = config.out_channels
        layers.add_module("conv_last", nn.Conv2d(width, self.hidden_dim, kernel_size=1))
        return layers

    def _initialise(self):
        stem, heads = self.conv_proj, dict(self.heads.named_children())
        if isinstance(stem, nn.Sequential):
            nn.init.normal_(stem.conv_last.weight, std=math.sqrt(2.0 / stem.conv_last.out_channels))
        else:
            _trunc_normal(stem)
        if "pre_logits" in heads:
            nn.init.trunc_normal_(heads["pre_logits"].weight, std=math.sqrt(1 / heads["pre_logits"].in_features))
        biases = [
            part.bias
            for part in (getattr(stem, "conv_last", None), heads.get("pre_logits"), heads["head"])
            if part is not None
        ]
        for zeroed in (*biases, heads["head"].weight):
            nn.init.zeros_(zeroed)

    def _process_input(self, x):
        """Images (N, 3, H, W) as sequences of patches (N, S, E)."""
        n, _, h, w = x.shape
        torch._assert(h == self.image_size, f"Wrong image height! Expected {self.image_size} but got {h}!")
        torch._assert(w == self.image_size, f"Wrong image width! Expected {self.image_size} but got {w}!")
        rows, columns = h // self.patch_size, w // self.patch_size
        return self.conv_proj(x).reshape(n, self.hidden_dim, rows * columns).permute(0, 2, 1)

    def forward(self, x):
        x = self._process_input(x)
        batch = x.shape[0]
        x = torch.cat([self.class_token.expand(batch, -1, -1), x], dim=1)
        return self.heads(self.encoder(x)[:, 0])


def interpolate_embeddings(image_size, patch_size, model_state, interpolation_mode="bicubic", reset_heads=False):
    """A state whose positions fit images of another size."""
    positions = model_state["encoder.pos_embedding"]
    n, seq_length, hidden = positions.shape
    if n != 1:
        raise ValueError(f"Unexpected position embedding shape: {positions.shape}")
    new_length = (image_size // patch_size) ** 2 + 1
    if new_length == seq_length:
        return model_state
    side = int(math.sqrt(seq_length - 1))
    if side * side != seq_length - 1:
        raise ValueError(
            f"seq_length is not a perfect square! Instead got seq_length_1d * seq_length_1d = {side * side} and "
            f"seq_length = {seq_length - 1}"
        )
    grid = positions[:, 1:].permute(0, 2, 1).reshape(1, hidden, side, side)
    grid = nn.functional.interpolate(grid, size=image_size // patch_size, mode=interpolation_mode, align_corners=True)
    model_state["encoder.pos_embedding"] = torch.cat(
        [positions[:, :1], grid.reshape(1, hidden, new_length - 1).permute(0, 2, 1)], dim=1
    )
    if reset_heads:
        return OrderedDict((k, v) for k, v in model_state.items() if not k.startswith("heads"))
    return model_state


def _builder(name, enum, patch_size, num_layers, num_heads, hidden_dim, mlp_dim):
    def build(image_size=224, **kwargs):
        return VisionTransformer(image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim, **kwargs)

    def loaded(state, **kwargs):
        """Weights of larger images have more positions."""
        kwargs.setdefault("image_size", patch_size * round(math.sqrt(state["encoder.pos_embedding"].shape[1] - 1)))
        model = build(**kwargs)
        model.load_state_dict(state)
        return model

    register(globals(), name, enum, build, loaded)


_builder("vit_b_16", "ViT_B_16_Weights", 16, 12, 12, 768, 3072)
_builder("vit_b_32", "ViT_B_32_Weights", 32, 12, 12, 768, 3072)
_builder("vit_l_16", "ViT_L_16_Weights", 16, 24, 16, 1024, 4096)
_builder("vit_l_32", "ViT_L_32_Weights", 32, 24, 16, 1024, 4096)
_builder("vit_h_14", "ViT_H_14_Weights", 14, 32, 16, 1280, 5120)
