"""Makes the recorded TorchScript files of this folder, under PyTorch: python make.py. Each NAME.pt is a program that
torch.jit.save wrote, NAME.io.pt what it was given, what it gave, its gradients and its state afterwards."""

import io
import zipfile
from typing import Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import nn


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.b(F.relu(self.a(x)))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(4, 4, 3, stride=2, groups=2, bias=False), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(4, 2),
        )  # fmt: skip

    def forward(self, x):
        return self.net(x)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 6, padding_idx=0)
        self.lstm = nn.LSTM(6, 5, batch_first=True, bidirectional=True)
        self.out = nn.Linear(10, 2)

    def forward(self, x):
        y, (h, c) = self.lstm(self.words(x))
        return self.out(y), h, c


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.norm, self.heads = nn.Linear(8, 24), nn.LayerNorm(8), 2
        self.register_buffer("mask", torch.tril(torch.ones(16, 16, dtype=torch.bool)))

    def forward(self, x):
        n, t, c = x.size()
        q, k, v = self.qkv(self.norm(x)).split(c, dim=2)
        q = q.view(n, t, self.heads, c // self.heads).transpose(1, 2)
        k = k.view(n, t, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(n, t, self.heads, c // self.heads).transpose(1, 2)
        scores = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        scores = scores.masked_fill(self.mask[:t, :t].logical_not(), float("-inf"))
        return x + (F.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(n, t, c)


class Control(nn.Module):
    limit: int

    def __init__(self):
        super().__init__()
        self.limit = 3
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.p = nn.Parameter(torch.randn(4))

    def forward(self, x, k: int = 2, flag: bool = True):
        i = 0
        while i < k:
            x, i = x * self.p + i, i + 1
        if flag and x.sum().item() > 0:
            x = x - 1
        for layer in self.layers:
            x = torch.tanh(layer(x))
        out: List[torch.Tensor] = []
        for j in range(self.limit):
            if j == 1:
                continue
            out.append(x * j)
        return torch.stack(out), x


class Containers(nn.Module):
    counts: Dict[str, int]
    scale: List[float]
    absent: Optional[int]

    def __init__(self):
        super().__init__()
        self.counts, self.scale, self.absent, self.word = {"a": 1, "b": 2}, [0.5, 1.5], None, "seen"

    def forward(self, x: Dict[str, torch.Tensor], name: str = "q") -> Tuple[Dict[str, torch.Tensor], str, int]:
        out: Dict[str, torch.Tensor] = {}
        for key, value in x.items():
            out[key] = value * self.scale[1]
        for key in self.counts.keys():
            if key in out:
                out[key + "_" + self.word] = out[key] * self.counts[key]
        if name == "bad":
            raise ValueError("asked for an error: " + name)
        return out, "{} of {}".format(len(out), name.upper()), len(x)


class Methods(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 3))
        self.calls = 0
        self.register_buffer("steps", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        self.calls += 1
        self.steps += 1
        return self.scaled(x, 2)

    @torch.jit.export
    def scaled(self, x, k: int = 3):
        return x @ self.w * k


class Builtins(nn.Module):
    """Python's functions on plain values, whose results come back as tensors, and packed sequences."""

    def forward(self, x):
        k = x.size(0)
        names = sorted(["b", "a", "z" + hex(85 * k) + oct(8 * k) + bin(-5 * k)])
        quotient, rest = divmod(-7, k)
        z = complex(1.5 * k, -2.0)
        n: List[int] = torch.tensor([3, 1, 2]).tolist()
        counts = [ord(names[0]), len(names[2]), quotient, rest, sorted(n)[0], min(n), max(n), sum(n)]
        counts += [ord(c) for c in names[2]]
        data, sizes = torch._pack_padded_sequence(x, torch.tensor([4, 2, 1]), True)
        padded, lengths = torch._pad_packed_sequence(data, sizes, True, -1.0, 5)
        return torch.tensor(counts), torch.tensor(z), data, sizes, padded, lengths


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(2, 2))
        self.register_buffer("b", torch.zeros(2))

    def forward(self, x):
        return x @ self.w + self.b


class Values(nn.Module):
    """Methods that take and give values of all kinds, for programs in C++."""

    def __init__(self):
        super().__init__()
        self.part = Part()
        self.k = 3

    def forward(self, x):
        return self.part(x) * self.k

    @torch.jit.export
    def pair(self, x: torch.Tensor) -> Dict[str, torch.Tensor]:
        return {"a": x, "b": x + 1}

    @torch.jit.export
    def in_order(self, n: List[int]) -> List[int]:
        return sorted(n)

    @torch.jit.export
    def three(self, x: torch.Tensor) -> Tuple[torch.Tensor, int, str]:
        return (x, 3, "hi")

    @torch.jit.export
    def total(self, d: Dict[str, int], t: Tuple[int, float]) -> float:
        return d["a"] + t[1]

    @torch.jit.export
    def reals(self, x: float) -> List[float]:
        return [x, 2.0]


MODELS = {
    "perceptron": (Perceptron, "trace", (torch.randn(5, 4),)),
    "convolutions": (Convolutions, "trace", (torch.randn(2, 3, 12, 12),)),
    "convolutions_train": (Convolutions, "script", (torch.randn(2, 3, 12, 12),)),
    "words": (Words, "script", (torch.randint(0, 10, (3, 7)),)),
    "attention": (Attention, "script", (torch.randn(2, 5, 8),)),
    "attention_frozen": (Attention, "freeze", (torch.randn(2, 5, 8),)),
    "control": (Control, "script", (torch.randn(2, 4),)),
    "containers": (Containers, "script", ({"a": torch.randn(2), "c": torch.randn(3)},)),
    "methods": (Methods, "script", (torch.randn(2, 3),)),
    "builtins": (Builtins, "script", (torch.arange(24.0).reshape(3, 4, 2),)),
    "values": (Values, "script", (torch.ones(1, 2),)),
}


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
        yield from tensors(item)


def slim(data):
    """The file without the tables that map its code to Python's, which nothing needs to run it."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w") as new:
        for info in old.infolist():
            if not info.filename.endswith(".debug_pkl") and "traced_inputs" not in info.filename:
                new.writestr(zipfile.ZipInfo(info.filename), old.read(info))
    return made.getvalue()


def main():
    for name, (cls, how, inputs) in MODELS.items():
        torch.manual_seed(1)
        model = cls().train(name.endswith("train"))
        program = torch.jit.trace(model, inputs) if how == "trace" else torch.jit.script(model)
        program = torch.jit.freeze(program) if how == "freeze" else program
        held = io.BytesIO()
        extra = {"note.txt": "hello", "bytes": b"xyz"} if name == "values" else None
        torch.jit.save(program, held, _extra_files=extra)
        with open(f"{name}.pt", "wb") as file:
            file.write(slim(held.getvalue()))
        program = torch.jit.load(f"{name}.pt")
        out = program(*inputs)
        parameters = list(program.parameters())
        given = [t for t in tensors(out) if t.requires_grad]
        loss = sum((t * t).sum() for t in given)
        grads = list(torch.autograd.grad(loss, parameters)) if given and parameters else []
        detached = [t.detach() for t in tensors(out)]
        state = {key: t.detach().clone() for key, t in program.state_dict().items()}
        torch.save({"inputs": list(inputs), "outputs": detached, "grads": grads, "state": state}, f"{name}.io.pt")


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
