"""The trainings of train.cpp in Python: `python train.py mlp|cnn|gpt|lstm THREADS SECONDS` prints the seconds of a
step, the loss after ten steps, and the peak in kB."""

import resource
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

CHARACTERS, LENGTH, LAYERS, HEADS, WIDTH = 65, 64, 4, 4, 128


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm2, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, n, _ = x.shape
        q, k, v = (t.view(batch, n, HEADS, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(WIDTH, 2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).contiguous().view(batch, n, -1))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(CHARACTERS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CHARACTERS, bias=False)

    def forward(self, index):
        return self.head(self.norm(self.blocks(self.tokens(index) + self.places(torch.arange(index.shape[1])))))


def mlp():
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    x, y = torch.randn(32, 64), torch.randint(10, (32,))
    return torch.optim.Adam(net.parameters(), lr=1e-3), lambda: F.cross_entropy(net(x), y)


def cnn():
    net = nn.Sequential(
        *(nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )
    x, y = torch.randn(32, 3, 32, 32), torch.randint(10, (32,))
    return torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9), lambda: F.cross_entropy(net(x), y)


def gpt():
    net = GPT()
    x, y = torch.randint(CHARACTERS, (12, LENGTH)), torch.randint(CHARACTERS, (12, LENGTH))
    loss = lambda: F.cross_entropy(net(x).view(-1, CHARACTERS), y.view(-1))
    return torch.optim.AdamW(net.parameters(), lr=3e-4), loss


def lstm():
    net = nn.LSTM(128, 128, 2)
    x = torch.randn(32, 16, 128)
    return torch.optim.SGD(net.parameters(), lr=1e-3), lambda: net(x)[0].square().mean()


def main(which, threads, seconds):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    optimiser, loss_of = {"mlp": mlp, "cnn": cnn, "gpt": gpt, "lstm": lstm}[which]()
    clock = time.process_time if threads == 1 else time.perf_counter

    def step():
        optimiser.zero_grad()
        loss = loss_of()
        loss.backward()
        optimiser.step()
        return loss.item()

    begin, best = clock(), 1e9
    losses = [step() for _ in range(10)]
    burst = max(1, int(0.5 / (clock() - begin)))
    end = clock() + seconds
    while clock() < end:
        begin = clock()
        for _ in range(burst):
            step()
        best = min(best, (clock() - begin) / burst)
    print(f"{best:.9g} {losses[-1]:.6g} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
