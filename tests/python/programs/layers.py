"""Layers as programs use them: texts, states, seeded parameters, calls, errors."""

import torch
from torch import nn

torch.manual_seed(0)


class Residual(nn.Module):
    def __init__(self, channels, stride=1):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True)
        )
        self.skip = nn.Identity() if stride == 1 else nn.AvgPool2d(stride)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long), persistent=False)

    def forward(self, x):
        self.calls += 1
        return self.body(x) + self.skip(x)


net = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding="same", padding_mode="reflect"),
    nn.GELU(),
    Residual(8),
    Residual(8, 2),
    nn.AdaptiveAvgPool2d((1, None)),
    nn.Flatten(),
    nn.Dropout(0.25),
    nn.LazyLinear(4),
    nn.LogSoftmax(dim=1),
)
print(net)
x = torch.randn(2, 3, 8, 8)
out = net(x)
print(net[7], tuple(out.shape), [round(v, 3) for v in out[0].tolist()])
print(list(net.state_dict()))
nn.NLLLoss()(out, torch.tensor([1, 3])).backward()
print([round(p.grad.norm().item(), 3) for p in net.parameters()])
print(int(net[2].calls), int(net[2].body[1].num_batches_tracked), sum(p.numel() for p in net.parameters()))
net.eval()
print(
    torch.equal(net(x), net(x)),
    {
        type(m).__name__
        for m in net.modules()
        if isinstance(m, (nn.modules.conv._ConvNd, nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd))
    }
    == {"Conv2d", "BatchNorm2d", "Dropout"},
)

for layer in (
    nn.Linear(4, 2),
    nn.Conv1d(2, 4, 3, groups=2),
    nn.ConvTranspose2d(2, 3, 2),
    nn.Embedding(3, 4, padding_idx=0),
    nn.LSTM(3, 2, bidirectional=True),
    nn.MultiheadAttention(4, 2),
    nn.PReLU(2),
    nn.LayerNorm((2, 3)),
    nn.Bilinear(2, 3, 1),
    nn.GRUCell(2, 3),
    nn.EmbeddingBag(4, 2, mode="sum"),
    nn.InstanceNorm1d(2, affine=True),
):
    print(layer, [(name, round(float(p.double().sum()), 4)) for name, p in layer.state_dict().items()])

transformer = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)
mask = nn.Transformer.generate_square_subsequent_mask(3)
out = transformer(
    torch.randn(2, 4, 8),
    torch.randn(2, 3, 8),
    tgt_mask=mask,
    tgt_is_causal=True,
    src_key_padding_mask=torch.tensor([[False, False, False, True], [False] * 4]),
)
print(transformer.decoder)
print([round(v, 3) for v in out[0, 0].tolist()])

for loss, args in (
    (
        nn.CrossEntropyLoss(label_smoothing=0.1, weight=torch.tensor([1.0, 2.0, 0.5])),
        (torch.randn(4, 3), torch.tensor([0, 1, 2, 1])),
    ),
    (nn.SmoothL1Loss(beta=0.5), (torch.randn(3), torch.randn(3))),
    (nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0)), (torch.randn(5), torch.rand(5))),
    (nn.KLDivLoss(reduction="batchmean"), (torch.randn(2, 3), torch.rand(2, 3))),
    (nn.TripletMarginLoss(), (torch.randn(2, 3), torch.randn(2, 3), torch.randn(2, 3))),
    (nn.CosineEmbeddingLoss(), (torch.randn(2, 3), torch.randn(2, 3), torch.tensor([1, -1]))),
):
    print(loss, round(loss(*args).item(), 4))

for mistake in (
    lambda: nn.Conv2d(3, 4, 3, groups=2),
    lambda: nn.Dropout(2),
    lambda: nn.BatchNorm2d(3)(torch.ones(2, 3)),
    lambda: nn.Linear(2, 3).load_state_dict({"weight": torch.ones(2, 2), "scale": 1}),
    lambda: nn.GroupNorm(2, 3),
    lambda: nn.Sequential(nn.ReLU())["a"],
    lambda: nn.ModuleList([nn.ReLU()])(torch.ones(1)),
    lambda: nn.Linear(2, 3, extra=1),
):
    try:
        mistake()
    except Exception as error:
        print(type(error).__name__, str(error).splitlines())
