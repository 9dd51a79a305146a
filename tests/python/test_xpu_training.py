"""Whole trainings on an OpenCL device (PoCL where there is no GPU): a convolutional network on the shipped digits, a
small GPT and an LSTM on Shakespeare, each beside the CPU from the same weights and batches. Losses stay together, and
come down."""

import gzip
import os
import pathlib
import subprocess
import sys

os.environ.setdefault("TAPER_XPU_DEVICES", "all")
import pytest
import taper as torch
from taper import nn
from taper.nn import functional as F

if not torch.xpu.is_available():
    pytest.skip("no OpenCL device here", allow_module_level=True)

DATA = pathlib.Path(__file__).parents[2] / "examples" / "data"


def steps(make, batches, device, lr, mixed=None):
    torch.manual_seed(0)
    model = make().to(device)
    adam = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for x, y in batches:
        adam.zero_grad()
        with torch.autocast(device, dtype=mixed or torch.bfloat16, enabled=mixed is not None):
            out = model(x.to(device))
            loss = F.cross_entropy(out.view(-1, out.size(-1)), y.to(device).view(-1))
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses, model


def together(make, batches, lr, off):
    here, _ = steps(make, batches, "cpu", lr)
    there, model = steps(make, batches, "xpu", lr)
    assert max(abs(a - b) for a, b in zip(here, there)) < off, (here, there)
    assert sum(there[-5:]) < 0.85 * sum(there[:5])
    return there, model


def read(name):
    with gzip.open(DATA / name) as f:
        data = f.read()
    dims = data[3]
    shape = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(dims)]
    return torch.frombuffer(bytearray(data[4 + 4 * dims :]), dtype=torch.uint8).view(*shape)


def test_digits():
    images, labels = (
        read("train-images.idx.gz")[:2048].float().div(255).unsqueeze(1),
        read("train-labels.idx.gz")[:2048].long(),
    )
    batches = 2 * list(zip(images.split(64), labels.split(64)))

    def make():
        return nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * 6 * 6, 10),
        )

    _, model = together(make, batches, 5e-3, 2e-2)
    model.eval()
    with torch.no_grad():
        seen = model(images[:512].to("xpu")).argmax(1).cpu()
    assert (seen == labels[:512]).float().mean().item() > 0.9


def characters(n, batch, length):
    text = gzip.open(DATA / "shakespeare.txt.gz", "rt").read()[:20000]
    codes = {c: i for i, c in enumerate(sorted(set(text)))}
    ids = torch.tensor([codes[c] for c in text])
    at = [[(k * batch + b) * 37 % (len(text) - length - 1) for b in range(batch)] for k in range(n)]
    return len(codes), [
        (torch.stack([ids[i : i + length] for i in row]), torch.stack([ids[i + 1 : i + 1 + length] for i in row]))
        for row in at
    ]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.before, self.between = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(self.before(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.between(x))


class Gpt(nn.Module):
    def __init__(self, codes, length, width=32, heads=4, layers=2):
        super().__init__()
        self.tokens, self.places = nn.Embedding(codes, width), nn.Embedding(length, width)
        self.blocks, self.last, self.head = (
            nn.Sequential(*(Block(width, heads) for _ in range(layers))),
            nn.LayerNorm(width),
            nn.Linear(width, codes),
        )

    def forward(self, ids):
        places = torch.arange(ids.size(1), device=ids.device)
        return self.head(self.last(self.blocks(self.tokens(ids) + self.places(places))))


def test_gpt():
    codes, batches = characters(30, 8, 32)
    together(lambda: Gpt(codes, 32), batches, 3e-3, 2e-2)


def test_gpt_in_bfloat16():
    codes, batches = characters(30, 8, 32)
    plain, _ = steps(lambda: Gpt(codes, 32), batches, "xpu", 3e-3)
    mixed, _ = steps(lambda: Gpt(codes, 32), batches, "xpu", 3e-3, torch.bfloat16)
    assert abs(sum(mixed[-5:]) - sum(plain[-5:])) < 0.3
    assert sum(mixed[-5:]) < 0.8 * sum(mixed[:5])


class Reader(nn.Module):
    def __init__(self, codes, width=32):
        super().__init__()
        self.tokens, self.lstm, self.head = (
            nn.Embedding(codes, width),
            nn.LSTM(width, width, 2, batch_first=True),
            nn.Linear(width, codes),
        )

    def forward(self, ids):
        return self.head(self.lstm(self.tokens(ids))[0])


def test_lstm():
    codes, batches = characters(30, 8, 24)
    together(lambda: Reader(codes), batches, 1e-2, 2e-2)


def test_a_compiled_step_on_a_device():
    sides = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 3)).to("xpu")
        adam = torch.optim.Adam(model.parameters())

        def step(x, y):
            adam.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adam.step()
            return loss

        run = torch.compile(step, fullgraph=True) if compiled else step
        torch.manual_seed(1)
        sides.append([run(torch.randn(4, 8).to("xpu"), torch.randint(0, 3, (4,)).to("xpu")).item() for _ in range(4)])
    assert sides[0] == sides[1]
    assert run.count == 1


def test_traced_and_exported_models_come_back_on_their_device(tmp_path):
    model, x = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).to("xpu").eval(), torch.randn(2, 4).to("xpu")
    expected, traced, exported = model(x).detach().cpu(), str(tmp_path / "traced.pt"), str(tmp_path / "exported.pt2")
    torch.jit.trace(model, x).save(traced)
    torch.export.save(torch.export.export(model, (x,)), exported)
    for back in (torch.jit.load(traced), torch.export.load(exported).module()):
        assert {t.device.type for t in [*back.parameters(), *back.buffers()]} == {"xpu"}
        assert torch.equal(back(x).detach().cpu(), expected)
    near = torch.jit.load(traced, map_location="cpu")
    assert {t.device.type for t in [*near.parameters(), *near.buffers()]} == {"cpu"}
    torch.testing.assert_close(near(x.cpu()).detach(), expected)
    script = f"import taper as torch; print(torch.xpu.is_available(), *{{p.device for p in torch.jit.load({traced!r}, map_location='cpu').parameters()}})"
    without = {key: value for key, value in os.environ.items() if key != "TAPER_XPU_DEVICES"}
    seen = subprocess.run([sys.executable, "-c", script], env=without, capture_output=True, text=True)
    assert seen.stdout.split()[-1] == "cpu", seen.stderr


def test_graphs_without_their_class_run_where_map_location_says(tmp_path):
    from taper.jit._text import local_classes

    class Local(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 3)

        def forward(self, x):
            return self.inner(x) + torch.arange(3, device=x.device)

    model, path = Local(), str(tmp_path / "local.pt")
    x = torch.randn(2, 4)
    for home, other in (("cpu", "xpu"), ("xpu", "cpu")):
        torch.jit.trace(model.to(home), x.to(home)).save(path)
        local_classes.clear()  # as another program, which does not have the class
        for place, options in ((home, {}), (other, {"map_location": other})):
            back = torch.jit.load(path, **options)
            assert type(back).__name__ == "GraphModule"
            assert {p.device.type for p in back.parameters()} == {place}
            for batch in (x, x.repeat(2, 1)):
                got = back(batch.to(place))
                assert got.device.type == place
                torch.testing.assert_close(got.cpu(), model.to("cpu")(batch).detach())
                model.to(home)


def test_init_counts_as_initialized():
    script = "import taper as torch; before = torch.xpu.is_initialized(); torch.xpu.init(); print(before, torch.xpu.is_initialized())"
    seen = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert seen.stdout.split() == ["False", "True"], seen.stderr
