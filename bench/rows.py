"""The workloads of `make bench`, written against PyTorch's interface: any module that offers it can run them.

    python rows.py MODULE GROUP [--threads N] [--seconds S] [--compile] [--folder DIR] [--turns ROW]

Prints one JSON object: for each row of the group the median seconds of an iteration (processor time where there is one
thread), and the process's peak memory. With --turns, for that row alone: says that it is ready, and gives the seconds
of an iteration each time a line "go" comes in, until another one does. compare.py calls this, turn by turn for both
sides.
"""

import argparse
import importlib
import json
import os
import resource
import statistics
import sys
import time

GROUPS = {}


def group(function):
    GROUPS[function.__name__] = function
    return function


class Bench:
    """What a group sees: the module, its settings, and where its figures go."""

    def __init__(self, options):
        self.torch = torch = importlib.import_module(options.module)
        self.rows, self.turns = {}, options.turns
        sys.modules.setdefault("torch", torch)
        torch.set_num_threads(options.threads)
        torch.manual_seed(0)
        self.clock = (
            time.process_time if options.threads == 1 else time.perf_counter
        )  # of one thread, what others do to the machine need not count
        self.nn, self.F, self.seconds, self.folder, self.compiled = (
            torch.nn,
            torch.nn.functional,
            options.seconds,
            options.folder,
            options.compile,
        )

    def compile(self, function):
        return self.torch.compile(function) if self.compiled else function

    def row(self, name, function):
        """The median of many iterations, taken in bursts of a twentieth of a second, after a few that warm up."""
        if self.turns and name != self.turns:
            return
        for _ in range(3):
            function()
        count = max(1, int(0.05 / max(self.timed(function), 1e-7)))
        if self.turns:
            print("ready", name, flush=True)
            while sys.stdin.readline() == "go\n":
                print(self.timed(function, count), flush=True)
            return
        times, end = [], self.clock() + self.seconds
        while len(times) < 5 or self.clock() < end:
            times.append(self.timed(function, count))
        self.rows[name] = statistics.median(times)

    def once(self, name, function, rounds=3):
        """The best of a few calls, for what takes long."""
        self.rows[name] = min(self.timed(function) for _ in range(rounds))

    def timed(self, function, count=1):
        begin = self.clock()
        for _ in range(count):
            function()
        return (self.clock() - begin) / count

    def training(self, name, model, optimiser, loss):
        def step():
            optimiser.zero_grad(set_to_none=True)
            loss().backward()
            optimiser.step()

        self.row(name, step)


# ---- Small calls
@group
def overhead(b):
    torch = b.torch
    one, other, square = torch.ones(1), torch.ones(1), torch.ones(16, 16)
    b.row("add_1elem", lambda: one + other)
    b.row("view_reshape", lambda: square.view(4, 64))
    b.row("slice_index", lambda: square[2:5, 3])
    b.row("matmul_16", lambda: square @ square)
    x = torch.ones(16, requires_grad=True)

    def backward():
        (x * 2).sum().backward()
        x.grad = None

    b.row("tiny_backward", backward)


def tiny_network(b):
    nn = b.nn
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))


@group
def mlp_tiny(b):
    model = tiny_network(b)
    x, y = b.torch.randn(32, 64), b.torch.randint(0, 10, (32,))
    loss = b.compile(lambda x, y: b.F.cross_entropy(model(x), y))
    b.training("mlp_tiny_train_step", model, b.torch.optim.Adam(model.parameters(), lr=1e-3), lambda: loss(x, y))


# ---- Parts that do not depend on each other
@group
def branches(b):
    torch, nn = b.torch, b.nn
    layers = lambda: nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 64))
    towers = nn.ModuleList([layers() for _ in range(8)])
    x = torch.randn(32, 64)
    run = b.compile(lambda x: torch.stack([tower(x) for tower in towers]).mean(0))
    with torch.no_grad():
        b.row("branches_infer", lambda: run(x))
    b.training("branches_train", towers, torch.optim.SGD(towers.parameters(), lr=1e-3), lambda: run(x).square().mean())


# ---- Memory-bound work
@group
def bandwidth(b):
    torch, F, n = b.torch, b.F, 1 << 22
    x, y = torch.randn(n), torch.randn(n)
    b.row("add_big", lambda: x + y)
    chain = b.compile(lambda x, y: torch.tanh(x * 1.5 + y) * torch.sigmoid(y) + x)
    b.row("pointwise_chain", lambda: chain(x, y))
    b.row("exp_big", lambda: torch.exp(x))
    b.row("gelu_big", lambda: F.gelu(x))
    b.row("sum_big", lambda: x.sum())
    rows = x.view(n // 1024, 1024)
    b.row("sum_dim0", lambda: rows.sum(0))
    b.row("softmax_1024", lambda: F.softmax(rows, -1))
    weight, bias = torch.ones(1024), torch.zeros(1024)
    b.row("layernorm_1024", lambda: F.layer_norm(rows, (1024,), weight, bias))
    b.row("transpose_copy", lambda: rows.t().contiguous())
    b.row("cumsum", lambda: x.cumsum(0))
    part = x[: n // 16]
    b.row("sort", lambda: torch.sort(part))
    b.row("randn", lambda: torch.randn(n // 16))
    index = torch.randint(0, n // 1024, (n // 1024,))
    b.row("gather_rows", lambda: rows[index])
    b.row("max_dim1", lambda: rows.max(1))


# ---- Products and attention
@group
def gemm(b):
    torch = b.torch
    for n in (256, 1024):
        x, y = torch.randn(n, n), torch.randn(n, n)
        b.row(f"gemm_f32_{n}", lambda: x @ y)
    x, y = torch.randn(64, 128, 128), torch.randn(64, 128, 128)
    b.row("bmm_64x128", lambda: torch.bmm(x, y))


@group
def gemm_narrow(b):
    torch = b.torch
    x, y = torch.randn(512, 512).to(torch.bfloat16), torch.randn(512, 512).to(torch.bfloat16)
    b.row("gemm_bf16_512", lambda: x @ y)
    i, j = torch.randint(-9, 9, (256, 256)).to(torch.int8), torch.randint(-9, 9, (256, 256)).to(torch.int8)
    b.row("gemm_int8_256", lambda: i @ j)


@group
def attention(b):
    torch, attend = b.torch, b.F.scaled_dot_product_attention
    q, k, v = (torch.randn(2, 4, 256, 64, requires_grad=True) for _ in range(3))
    with torch.no_grad():
        b.row("sdpa_fwd", lambda: attend(q, k, v, is_causal=True))
    grad = torch.randn(2, 4, 256, 64)

    def both():
        attend(q, k, v, is_causal=True).backward(grad)
        q.grad = k.grad = v.grad = None

    b.row("sdpa_fwd_bwd", both)


# ---- Networks
def cifar_network(b):
    nn = b.nn
    return nn.Sequential(
        nn.Conv2d(3, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2, 2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2, 2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def cifar(b, batch):
    model = cifar_network(b)
    x, y = b.torch.randn(batch, 3, 32, 32), b.torch.randint(0, 10, (batch,))
    loss = b.compile(lambda x, y: b.F.cross_entropy(model(x), y))
    b.training(
        f"cifar_net_train_b{batch}",
        model,
        b.torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9),
        lambda: loss(x, y),
    )


@group
def cifar_32(b):
    cifar(b, 32)


@group
def cifar_512(b):
    cifar(b, 512)


def resnet18(b):
    nn = b.nn

    def conv(i, o, kernel, stride):
        return [nn.Conv2d(i, o, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(o)]

    class Block(nn.Module):
        def __init__(self, i, o, stride):
            super().__init__()
            self.body = nn.Sequential(*conv(i, o, 3, stride), nn.ReLU(inplace=True), *conv(o, o, 3, 1))
            self.short = nn.Sequential() if stride == 1 and i == o else nn.Sequential(*conv(i, o, 1, stride))

        def forward(self, x):
            return b.F.relu(self.body(x) + self.short(x))

    layers, i = [*conv(3, 64, 3, 1), nn.ReLU()], 64
    for o, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(i, o, stride), Block(o, o, 1)]
        i = o
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


@group
def resnet(b):
    model = resnet18(b)
    x, y = b.torch.randn(16, 3, 32, 32), b.torch.randint(0, 10, (16,))
    run = b.compile(model)
    b.training(
        "resnet18_cifar_train",
        model,
        b.torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        lambda: b.F.cross_entropy(run(x), y),
    )
    model.eval()
    with b.torch.no_grad():
        b.row("resnet18_cifar_infer", lambda: run(x))


def gpt_network(b, vocabulary=65, length=64, layers=4, heads=4, width=128):
    torch, nn, F = b.torch, b.nn, b.F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.norm2, self.up, self.down = (
                nn.LayerNorm(width),
                nn.Linear(width, 4 * width),
                nn.Linear(4 * width, width),
            )

        def forward(self, x, cache=None):
            batch, n, _ = x.shape
            q, k, v = (t.view(batch, n, heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(width, 2))
            if cache is not None:
                if cache:
                    k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
                cache[:] = k, v
            a = F.scaled_dot_product_attention(q, k, v, is_causal=n > 1)
            x = x + self.out(a.transpose(1, 2).contiguous().view(batch, n, -1))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks, self.norm, self.head = (
                nn.ModuleList([Block() for _ in range(layers)]),
                nn.LayerNorm(width),
                nn.Linear(width, vocabulary, bias=False),
            )
            self.head.weight = self.tokens.weight

        def forward(self, index, caches=None, start=0):
            x = self.tokens(index) + self.places(torch.arange(start, start + index.shape[1]))
            for i, block in enumerate(self.blocks):
                x = block(x, caches[i] if caches else None)
            return self.head(self.norm(x))

    return GPT()


@group
def gpt(b):
    model = gpt_network(b)
    index, target = b.torch.randint(0, 65, (12, 64)), b.torch.randint(0, 65, (12, 64))
    run = b.compile(model)

    def loss():
        return b.F.cross_entropy(run(index).view(-1, 65), target.view(-1))

    b.training("gpt_char_train", model, b.torch.optim.AdamW(model.parameters(), lr=3e-4), loss)


@group
def lstm(b):
    model = b.nn.LSTM(128, 128, 2)
    x = b.torch.randn(32, 16, 128)
    b.training("lstm_train", model, b.torch.optim.SGD(model.parameters(), lr=0.1), lambda: model(x)[0].sum())


# ---- One sample at a time
@group
def inference(b):
    torch = b.torch
    with torch.no_grad():
        mlp, x = tiny_network(b).eval(), torch.randn(1, 64)
        b.row("mlp_infer_b1", lambda: mlp(x))
        net, image = resnet18(b).eval(), torch.randn(1, 3, 32, 32)
        b.row("resnet18_infer_b1", lambda: net(image))
        model, first = gpt_network(b).eval(), torch.zeros(1, 1, dtype=torch.int64)

        def generate():
            caches, token = [[] for _ in model.blocks], first
            for i in range(32):
                token = model(token, caches, i)[:, -1].argmax(-1, keepdim=True)

        b.row("gpt_generate_32_tokens", generate)


# ---- Data and files
@group
def loading(b):
    torch = b.torch
    import torchvision.transforms as transforms
    from PIL import Image

    steps = transforms.Compose(
        [
            transforms.RandomResizedCrop(96),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize([0.5] * 3, [0.25] * 3),
        ]
    )

    class Images(torch.utils.data.Dataset):
        def __init__(self, folder):
            self.paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".jpg"))

        def __len__(self):
            return len(self.paths)

        def __getitem__(self, i):
            return steps(Image.open(self.paths[i]).convert("RGB"))

    loader = torch.utils.data.DataLoader(Images(b.folder), batch_size=32, shuffle=True)
    b.row("images_decoded_augmented_64", lambda: [batch.shape for batch in loader])


@group
def checkpoint(b):
    state = {f"layer{i}.weight": b.torch.randn(1 << 22) for i in range(64)}
    path = os.path.join(b.folder, "state.pt")
    b.once("checkpoint_save_1gb", lambda: b.torch.save(state, path))
    b.once("checkpoint_load_1gb", lambda: b.torch.load(path))
    os.remove(path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--folder", default=".")
    parser.add_argument("--turns", default="")
    options = parser.parse_args()
    b = Bench(options)
    GROUPS[options.group](b)
    print(json.dumps({"rows": b.rows, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
