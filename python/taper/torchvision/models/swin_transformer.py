"""Swin transformers (version 1): attention within windows, which move by half a window from layer to layer."""

from functools import partial
from itertools import count

import taper as torch
from taper import nn
from taper.nn import functional as F
from taper.torchvision.models._api import register
from taper.torchvision.models._utils import attention_mlp, start
from taper.torchvision.ops.misc import MLP, Permute, StochasticDepth

_one_call_when_traced = (
    "_patch_merging_pad",
    "_get_relative_position_bias",
    "shifted_window_attention",
)  # torch.fx does not look inside


class PatchMerging(nn.Module):
    """Four neighbours become one position of twice the width: (B, H, W, C) to (B, H / 2, W / 2, 2C)."""

    def __init__(self, dim, norm_layer=nn.LayerNorm):
        super().__init__()
        self.dim = dim
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = norm_layer(4 * dim)

    def forward(self, x):
        return self.reduction(self.norm(_patch_merging_pad(x)))


def _patch_merging_pad(x):
    """The four neighbours side by side; odd sizes get a row or a column of zeros."""
    h, w = x.shape[-3:-1]
    x = F.pad(x, (0, 0, 0, w % 2, 0, h % 2))
    return torch.cat([x[..., i::2, j::2, :] for j in (0, 1) for i in (0, 1)], -1)


def _windows(x, size):
    """(B, H, W, C) as (B * windows, positions, C)."""
    b, h, w, c = x.shape
    x = x.view(b, h // size[0], size[0], w // size[1], size[1], c).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, size[0] * size[1], c)


def _mask(h, w, size, shift, like):
    """(windows, positions, positions): -100 between positions that only the shift has brought together."""
    regions = like.new_zeros((h, w))
    count = 0
    for rows in ((0, -size[0]), (-size[0], -shift[0]), (-shift[0], None)):
        for columns in ((0, -size[1]), (-size[1], -shift[1]), (-shift[1], None)):
            regions[rows[0] : rows[1], columns[0] : columns[1]] = count
            count += 1
    regions = _windows(regions.view(1, h, w, 1), size).squeeze(-1)
    apart = regions.unsqueeze(1) - regions.unsqueeze(2)
    return apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0)


def _get_relative_position_bias(relative_position_bias_table, relative_position_index, window_size):
    n = window_size[0] * window_size[1]
    return relative_position_bias_table[relative_position_index].view(n, n, -1).permute(2, 0, 1).unsqueeze(0)


def shifted_window_attention(
    input,
    qkv_weight,
    proj_weight,
    relative_position_bias,
    window_size,
    num_heads,
    shift_size,
    attention_dropout=0.0,
    dropout=0.0,
    qkv_bias=None,
    proj_bias=None,
    training=True,
):
    """Attention of each position to those of its window, in an image (B, H, W, C) that is rolled by shift_size."""
    b, h, w, c = input.shape
    size = window_size
    x = F.pad(input, (0, 0, 0, (size[1] - w % size[1]) % size[1], 0, (size[0] - h % size[0]) % size[0]))
    height, width = x.shape[1:3]
    shift = [0 if window >= length else s for window, length, s in zip(size, (height, width), shift_size)]
    if sum(shift) > 0:
        x = torch.roll(x, shifts=(-shift[0], -shift[1]), dims=(1, 2))
    x = _windows(x, size)
    n = x.shape[1]
    q, k, v = (
        F.linear(x, qkv_weight, qkv_bias).reshape(x.shape[0], n, 3, num_heads, c // num_heads).permute(2, 0, 3, 1, 4)
    )
    attention = (q * (c // num_heads) ** -0.5).matmul(k.transpose(-2, -1)) + relative_position_bias
    if sum(shift) > 0:
        mask = _mask(height, width, size, shift, x)
        attention = attention.view(b, -1, num_heads, n, n) + mask.unsqueeze(1).unsqueeze(0)
        attention = attention.view(-1, num_heads, n, n)
    attention = F.dropout(F.softmax(attention, dim=-1), p=attention_dropout, training=training)
    x = attention.matmul(v).transpose(1, 2).reshape(-1, n, c)
    x = F.dropout(F.linear(x, proj_weight, proj_bias), p=dropout, training=training)
    x = (
        x.view(b, height // size[0], width // size[1], size[0], size[1], c)
        .permute(0, 1, 3, 2, 4, 5)
        .reshape(b, height, width, c)
    )
    if sum(shift) > 0:
        x = torch.roll(x, shifts=(shift[0], shift[1]), dims=(1, 2))
    return x[:, :h, :w, :].contiguous()


class ShiftedWindowAttention(nn.Module):
    def __init__(
        self, dim, window_size, shift_size, num_heads, qkv_bias=True, proj_bias=True, attention_dropout=0.0, dropout=0.0
    ):
        super().__init__()
        if len(window_size) != 2 or len(shift_size) != 2:
            raise ValueError("window_size and shift_size must be of length 2")
        self.window_size, self.shift_size, self.num_heads = window_size, shift_size, num_heads
        self.attention_dropout, self.dropout = attention_dropout, dropout
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim, bias=proj_bias)
        h, w = window_size
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * h - 1) * (2 * w - 1), num_heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)
        place = torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")).flatten(1)
        apart = place[:, :, None] - place[:, None, :]
        self.register_buffer("relative_position_index", ((apart[0] + h - 1) * (2 * w - 1) + apart[1] + w - 1).flatten())

    def get_relative_position_bias(self):
        return _get_relative_position_bias(
            self.relative_position_bias_table, self.relative_position_index, self.window_size
        )

    def forward(self, x):
        bias = self.get_relative_position_bias()
        return shifted_window_attention(
            x,
            self.qkv.weight,
            self.proj.weight,
            bias,
            self.window_size,
            self.num_heads,
            shift_size=self.shift_size,
            attention_dropout=self.attention_dropout,
            dropout=self.dropout,
            qkv_bias=self.qkv.bias,
            proj_bias=self.proj.bias,
            training=self.training,
        )


class SwinTransformerBlock(nn.Module):
    def __init__(
        self,
        dim,
        num_heads,
        window_size,
        shift_size,
        mlp_ratio=4.0,
        dropout=0.0,
        attention_dropout=0.0,
        stochastic_depth_prob=0.0,
        norm_layer=nn.LayerNorm,
        attn_layer=ShiftedWindowAttention,
    ):
        super().__init__()
        self.norm1 = norm_layer(dim)
        self.attn = attn_layer(
            dim, window_size, shift_size, num_heads, attention_dropout=attention_dropout, dropout=dropout
        )
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.norm2 = norm_layer(dim)
        self.mlp = MLP(dim, [int(dim * mlp_ratio), dim], activation_layer=nn.GELU, inplace=None, dropout=dropout)
        attention_mlp(self.mlp)

    def forward(self, x):
        x = x + self.stochastic_depth(self.attn(self.norm1(x)))
        return x + self.stochastic_depth(self.mlp(self.norm2(x)))


class SwinTransformer(nn.Module):
    def __init__(
        self,
        patch_size,
        embed_dim,
        depths,
        num_heads,
        window_size,
        mlp_ratio=4.0,
        dropout=0.0,
        attention_dropout=0.0,
        stochastic_depth_prob=0.1,
        num_classes=1000,
        norm_layer=None,
        block=None,
        downsample_layer=PatchMerging,
    ):
        super().__init__()
        self.num_classes = num_classes
        block, norm_layer = block or SwinTransformerBlock, norm_layer or partial(nn.LayerNorm, eps=1e-5)
        layers = [
            nn.Sequential(
                nn.Conv2d(3, embed_dim, kernel_size=tuple(patch_size), stride=tuple(patch_size)),
                Permute([0, 2, 3, 1]),
                norm_layer(embed_dim),
            )
        ]
        last = sum(depths) - 1
        drops = (
            stochastic_depth_prob * float(number) / last for number in count()
        )  # the deeper, the more often a block is skipped
        same = {
            "window_size": window_size,
            "mlp_ratio": mlp_ratio,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "norm_layer": norm_layer,
        }
        shifts = [0 for _ in window_size], [side // 2 for side in window_size]  # every second block
        for level, (depth, heads) in enumerate(zip(depths, num_heads)):
            dim = embed_dim << level
            if level:
                layers.append(downsample_layer(dim // 2, norm_layer))
            layers.append(
                nn.Sequential(
                    *(
                        block(dim, heads, shift_size=list(shifts[j % 2]), stochastic_depth_prob=drop, **same)
                        for j, drop in zip(range(depth), drops)
                    )
                )
            )
        self.features = nn.Sequential(*layers)
        width = embed_dim * 2 ** (len(depths) - 1)
        self.norm = norm_layer(width)
        self.permute = Permute([0, 3, 1, 2])
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten(1)
        self.head = nn.Linear(width, num_classes)
        start(self, {nn.Linear: partial(nn.init.trunc_normal_, std=0.02)})

    def forward(self, x):
        return self.head(self.flatten(self.avgpool(self.permute(self.norm(self.features(x))))))


def _builder(size, embed_dim, depths, heads, probability):
    name, enum = f"swin_{size}", f"Swin_{size.upper()}_Weights"

    def build(**kwargs):
        return SwinTransformer(
            [4, 4],
            embed_dim,
            depths,
            heads,
            [7, 7],
            stochastic_depth_prob=kwargs.pop("stochastic_depth_prob", probability),
            **kwargs,
        )

    register(globals(), name, enum, build)


_builder("t", 96, [2, 2, 6, 2], [3, 6, 12, 24], 0.2)
_builder("s", 96, [2, 2, 18, 2], [3, 6, 12, 24], 0.3)
_builder("b", 128, [2, 2, 18, 2], [4, 8, 16, 32], 0.5)
