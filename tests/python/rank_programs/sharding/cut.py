"""Models cut into stages."""

from sharding_begin import F, X, Y, r
import copy
import torch
import torch.nn as nn

from torch.distributed.pipelining import Schedule1F1B, SplitPoint, pipe_split, pipeline


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x, skip):
        return torch.tanh(self.b(torch.relu(self.a(x)))) + (skip if x.dim() == 2 else 0)  # no trace goes in here


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.scale, self.layers, self.out = (
            nn.Embedding(10, 6),
            nn.Parameter(torch.full((6,), 0.5)),
            nn.ModuleList([Layer() for _ in range(4)]),
            nn.Linear(6, 3),
        )

    def forward(self, i):
        first = x = self.embed(i) * self.scale
        for layer in self.layers:
            x = layer(x, first)  # crosses every border
        return self.out(x)


class Marked(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        y = torch.relu(self.a(x))
        pipe_split()
        return self.b(y) + x[:, :3]


I = torch.randint(0, 10, (48,))
for model, x, spec in (
    (Model(), I, {"layers.2": SplitPoint.BEGINNING}),
    (Model(), I, {"layers.0": SplitPoint.END}),
    (Marked(), X, None),
):
    ref = copy.deepcopy(model)
    want = ref(x)
    F.cross_entropy(want, Y).backward()
    pipe = pipeline(model, mb_args=(x[:8],), split_spec=spec)
    assert pipe.num_stages == 2
    assert torch.allclose(pipe(x), want)
    stage = pipe.build_stage(r, torch.device("cpu"))
    plan = Schedule1F1B(stage, 6, loss_fn=F.cross_entropy)
    out = plan.step(x) if r == 0 else plan.step(target=Y)
    assert r == 0 or torch.allclose(out, want, atol=1e-6)
    named = dict(ref.named_parameters())
    assert all(torch.allclose(p.grad, named[name].grad, atol=1e-6) for name, p in stage.submod.named_parameters())
    both = [set(dict(pipe.get_stage_module(i).named_parameters())) for i in range(2)]
    assert both[0] | both[1] == set(named)
    assert not both[0] & both[1]
try:
    pipeline(Model(), (I[:8],), split_spec={"layers.9": SplitPoint.BEGINNING})
except ValueError as error:
    assert "layers.9" in str(error)
else:
    raise AssertionError
